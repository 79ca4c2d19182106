// What is selected, and what can be done with it: one line below scatter, map and chips.

import { LABEL_TEXTS, NOT_ASSESSABLE, NOT_DAMAGED, POSITIVE, UNLABELED } from "./colors.js";
import { h } from "./dom.js";
import { NOT_GRADED, gradeCounts } from "./grades.js";

const HINT = "Shift + drag: a line around dots, or a box on map or chips, selects. Ctrl adds to what is selected. Click one for its name.";
const KEYS = { [POSITIVE]: "1", [NOT_DAMAGED]: "2", [NOT_ASSESSABLE]: "3", [UNLABELED]: "0" };
const many = (n) => `${n.toLocaleString("en")} building${n === 1 ? "" : "s"}`;

export class SelectionBar {
  /** @param actions {label(numbers, code, grade or null), show(), clear()} */
  constructor(store, actions) {
    Object.assign(this, { store, actions, confirmAbove: Infinity, asked: null, note: "" });
    this.root = h("div.selectionbar", { hidden: true, role: "toolbar", "aria-label": "Selection" });
    store.on("chosen", () => {
      this.asked = null;
      this.note = "";
      this.draw();
    });
    for (const event of ["labels", "grades", "scale", "mode"]) store.on(event, () => this.draw());
  }

  /** Label what is selected; more than `confirmAbove` only once it was asked for twice. */
  ask(code, grade = null) {
    const numbers = this.#changing(code, grade);
    const isAsked = this.asked?.code === code && this.asked.grade === grade;
    if (numbers.length > this.confirmAbove && !isAsked) this.asked = { code, grade };
    else this.#label(numbers, code, grade);
    this.draw();
  }

  /** Do what was asked for. */
  confirm() {
    if (this.asked) this.ask(this.asked.code, this.asked.grade);
  }

  /** @returns whether there was a question to take back */
  cancel() {
    if (this.asked === null) return false;
    this.asked = null;
    this.draw();
    return true;
  }

  #changing(code, grade) {
    const { chosen, labels } = this.store;
    return chosen.filter((i) => labels[i] !== code || (grade !== null && this.store.detail(i).grade !== grade));
  }

  #words(code, grade) {
    const text = LABEL_TEXTS[code].toLowerCase();
    return code === UNLABELED ? "cleared" : grade === null ? text : `${text}: ${this.store.scale.name(grade)}`;
  }

  #label(numbers, code, grade) {
    this.asked = null;
    if (numbers.length) this.actions.label(numbers, code, grade);
    const words = this.#words(code, grade);
    const done = code === UNLABELED ? words : `marked ${words}`;
    this.note = numbers.length ? `${many(numbers.length)} ${done}; undo with Ctrl+Z` : `all of them are ${words} already`;
  }

  draw() {
    const { store } = this;
    if (this.root.hidden || !store.ready) return;
    const n = store.chosen.length;
    if (!n) this.root.replaceChildren(h("span.soft", {}, HINT));
    else if (this.asked !== null) this.root.replaceChildren(...this.#question());
    else this.root.replaceChildren(...this.#offer(n));
  }

  #question() {
    const { code, grade } = this.asked;
    const numbers = this.#changing(code, grade);
    const others = numbers.filter((i) => this.store.labels[i] !== UNLABELED).length;
    const act = code === UNLABELED ? `Clear ${many(numbers.length)}` : `Mark ${many(numbers.length)} ${this.#words(code, grade)}`;
    const loses = others ? ` ${others.toLocaleString("en")} of them have another answer now.` : "";
    return [h("b", {}, `${act}?`), h("span.soft", {}, `${loses} One Ctrl+Z takes all of it back.`), h("div.push"),
      h("button.choice.yes", { type: "button", onclick: () => this.confirm() }, act), h("button.choice", { type: "button", onclick: () => this.cancel() }, "Cancel (Esc)")];
  }

  #offer(n) {
    const { store } = this;
    const counts = [0, 0, 0, 0];
    for (const i of store.chosen) counts[store.labels[i]]++;
    const there = [POSITIVE, NOT_DAMAGED, NOT_ASSESSABLE].filter((code) => counts[code]).map((code) => `${counts[code].toLocaleString("en")} ${LABEL_TEXTS[code].toLowerCase()}`);
    const grades = gradeCounts(store, store.chosen);
    const graded = grades.some((count, number) => number && count);
    const named = (count, number) => count && `${count.toLocaleString("en")} ${number ? store.scale.grades[number - 1].name : NOT_GRADED.toLowerCase()}`;
    if (graded) there.push(...[...grades.map(named).slice(1), named(grades[0], 0)].filter(Boolean));
    const button = (code, text, grade = null, key = KEYS[code]) => {
      const change = this.#changing(code, grade).length;
      const title = change ? `${code === UNLABELED ? "clears" : "marks"} ${many(change)}; undo with Ctrl+Z` : "nothing to change";
      const dot = grade === null ? [] : [h("i.gradedot", { style: `--c:${store.scale.color(store.scale.number(grade))}` })];
      return h(`button.choice${grade === null ? `.label${code}` : ""}`, { type: "button", title, disabled: !change, onclick: () => this.ask(code, grade) }, h("kbd", {}, key), ...dot, text);
    };
    const offered = [
      button(POSITIVE, LABEL_TEXTS[POSITIVE]), ...store.scale.choices.map(([id, name, key]) => button(POSITIVE, name, id, key)),
      button(NOT_DAMAGED, LABEL_TEXTS[NOT_DAMAGED]), button(NOT_ASSESSABLE, LABEL_TEXTS[NOT_ASSESSABLE]), button(UNLABELED, "Clear"),
    ];
    const choices = store.mode === "label" ? offered : [];
    return [h("b", {}, `${n.toLocaleString("en")} selected`), h("span.soft", {}, there.join(" · ")), ...choices, h("span.note", { role: "status" }, this.note), h("div.push"),
      h("button.choice", { type: "button", title: "Let the map show all of them", onclick: () => this.actions.show() }, "Show on map"),
      h("button.flat", { type: "button", title: "Select nothing (Esc)", "aria-label": "Select nothing", onclick: () => this.actions.clear() }, "✕")];
  }
}
