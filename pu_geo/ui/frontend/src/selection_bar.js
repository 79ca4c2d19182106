// What is selected, and what can be done with it: one line below scatter, map and chips.

import { LABEL_TEXTS, NOT_ASSESSABLE, NOT_DAMAGED, POSITIVE, UNLABELED } from "./colors.js";
import { h, keepingFocus } from "./dom.js";
import { gradeCounts } from "./grades.js";
import { TEXTS } from "./texts.js";

const { selection: words, number } = TEXTS;

const KEYS = { [POSITIVE]: "1", [NOT_DAMAGED]: "2", [NOT_ASSESSABLE]: "3", [UNLABELED]: "0" };

export class SelectionBar {
  /** @param actions {label(numbers, code, grade or null), show(), clear()} */
  constructor(store, actions) {
    Object.assign(this, { store, actions, confirmAbove: Infinity, asked: null, note: "" });
    this.root = h("div.selectionbar", { hidden: true, role: "toolbar", "aria-label": words.title });
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

  #name(code, grade) {
    return grade === null ? LABEL_TEXTS[code] : TEXTS.grades.of(LABEL_TEXTS[code], this.store.scale.name(grade));
  }

  #label(numbers, code, grade) {
    this.asked = null;
    if (numbers.length) this.actions.label(numbers, code, grade);
    const name = this.#name(code, grade);
    this.isSpoken = numbers.length > 0; // by the toolbar, as any answer
    this.note = numbers.length ? words.done(numbers.length, code, name) : words.already(code, name);
  }

  draw() {
    const { store } = this;
    if (this.root.hidden || !store.ready) return;
    const n = store.chosen.length;
    const parts = () => (!n ? [h("span.soft", {}, words.hint)] : this.asked !== null ? this.#question() : this.#offer(n));
    keepingFocus(this.root, () => this.root.replaceChildren(...parts()));
  }

  #question() {
    const { code, grade } = this.asked;
    const numbers = this.#changing(code, grade);
    const others = numbers.filter((i) => this.store.labels[i] !== UNLABELED).length;
    const act = words.act(numbers.length, code, this.#name(code, grade));
    return [h("b", {}, words.question(act)), h("span.soft", {}, words.loses(others) + words.undoable), h("div.push"),
      h("button.choice.yes", { type: "button", onclick: () => this.confirm() }, act), h("button.choice", { type: "button", onclick: () => this.cancel() }, words.cancel)];
  }

  #offer(n) {
    const { store } = this;
    const counts = [0, 0, 0, 0];
    for (const i of store.chosen) counts[store.labels[i]]++;
    const there = [POSITIVE, NOT_DAMAGED, NOT_ASSESSABLE].filter((code) => counts[code]).map((code) => `${number(counts[code])} ${LABEL_TEXTS[code].toLowerCase()}`);
    const grades = gradeCounts(store, store.chosen).map((count, number) => [count, number ? store.scale.grades[number - 1].name : TEXTS.grades.notGraded.toLowerCase()]);
    const named = [...grades.slice(1), grades[0]].filter(([count]) => count);
    if (named.length > (grades[0][0] ? 1 : 0)) there.push(...named.map(([count, name]) => TEXTS.grades.count(count, name)));
    const button = (code, text, grade = null, key = KEYS[code]) => {
      const change = this.#changing(code, grade).length;
      const dot = grade === null ? [] : [h("i.gradedot", { style: `--c:${store.scale.color(store.scale.number(grade))}` })];
      return h(`button.choice${grade === null ? `.label${code}` : ""}`, { type: "button", title: words.change(change, code), disabled: !change, onclick: () => this.ask(code, grade) }, h("kbd", {}, key), ...dot, text);
    };
    const offered = [
      button(POSITIVE, LABEL_TEXTS[POSITIVE]), ...store.scale.choices.map(([id, name, key]) => button(POSITIVE, name, id, key)),
      button(NOT_DAMAGED, LABEL_TEXTS[NOT_DAMAGED]), button(NOT_ASSESSABLE, LABEL_TEXTS[NOT_ASSESSABLE]), button(UNLABELED, words.clear),
    ];
    const choices = store.mode === "label" ? offered : [];
    return [h("b", {}, words.selected(n)), h("span.soft", {}, there.join(" · ")), ...choices, h("span.note", this.isSpoken ? {} : { role: "status" }, this.note), h("div.push"),
      h("button.choice", { type: "button", title: words.showHint, onclick: () => this.actions.show() }, words.show),
      h("button.flat", { type: "button", title: words.none, "aria-label": words.none, onclick: () => this.actions.clear() }, "✕")];
  }
}
