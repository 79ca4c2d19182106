// What is selected, and what can be done with it: one line below scatter, map and chips.

import { LABEL_TEXTS, NOT_ASSESSABLE, NOT_DAMAGED, POSITIVE, UNLABELED } from "./colors.js";
import { h } from "./dom.js";

const HINT = "Shift + drag: a line around dots, or a box on map or chips, selects. Ctrl adds to what is selected. Click one for its name.";
const KEYS = { [POSITIVE]: "1", [NOT_DAMAGED]: "2", [NOT_ASSESSABLE]: "3", [UNLABELED]: "0" };
const many = (n) => `${n.toLocaleString("en")} building${n === 1 ? "" : "s"}`;

export class SelectionBar {
  /** @param actions {label(numbers, code), show(), clear()} */
  constructor(store, actions) {
    Object.assign(this, { store, actions, confirmAbove: Infinity, asked: null, note: "" });
    this.root = h("div.selectionbar", { hidden: true, role: "toolbar", "aria-label": "Selection" });
    store.on("chosen", () => {
      this.asked = null;
      this.note = "";
      this.draw();
    });
    for (const event of ["labels", "mode"]) store.on(event, () => this.draw());
  }

  /** Label what is selected; more than `confirmAbove` only once it was asked for twice. */
  ask(code) {
    const numbers = this.#changing(code);
    if (numbers.length > this.confirmAbove && this.asked !== code) this.asked = code;
    else this.#label(numbers, code);
    this.draw();
  }

  /** @returns whether there was a question to take back */
  cancel() {
    if (this.asked === null) return false;
    this.asked = null;
    this.draw();
    return true;
  }

  #changing(code) {
    return this.store.chosen.filter((i) => this.store.labels[i] !== code);
  }

  #label(numbers, code) {
    this.asked = null;
    if (numbers.length) this.actions.label(numbers, code);
    const done = code === UNLABELED ? "cleared" : `marked ${LABEL_TEXTS[code].toLowerCase()}`;
    this.note = numbers.length ? `${many(numbers.length)} ${done}; undo with Ctrl+Z` : `all of them are ${code === UNLABELED ? "cleared" : LABEL_TEXTS[code].toLowerCase()} already`;
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
    const numbers = this.#changing(this.asked);
    const others = numbers.filter((i) => this.store.labels[i] !== UNLABELED).length;
    const act = this.asked === UNLABELED ? `Clear ${many(numbers.length)}` : `Mark ${many(numbers.length)} ${LABEL_TEXTS[this.asked].toLowerCase()}`;
    const loses = others ? ` ${others.toLocaleString("en")} of them have another answer now.` : "";
    return [h("b", {}, `${act}?`), h("span.soft", {}, `${loses} One Ctrl+Z takes all of it back.`), h("div.push"),
      h("button.choice.yes", { type: "button", onclick: () => this.ask(this.asked) }, act), h("button.choice", { type: "button", onclick: () => this.cancel() }, "Cancel (Esc)")];
  }

  #offer(n) {
    const { store } = this;
    const counts = [0, 0, 0, 0];
    for (const i of store.chosen) counts[store.labels[i]]++;
    const there = [POSITIVE, NOT_DAMAGED, NOT_ASSESSABLE].filter((code) => counts[code]).map((code) => `${counts[code].toLocaleString("en")} ${LABEL_TEXTS[code].toLowerCase()}`);
    const button = (code, text) => {
      const change = n - counts[code];
      const title = change ? `${code === UNLABELED ? "clears" : "marks"} ${many(change)}; undo with Ctrl+Z` : "nothing to change";
      return h(`button.choice.label${code}`, { type: "button", title, disabled: !change, onclick: () => this.ask(code) }, h("kbd", {}, KEYS[code]), text);
    };
    const choices = store.mode === "label" ? [POSITIVE, NOT_DAMAGED, NOT_ASSESSABLE].map((code) => button(code, LABEL_TEXTS[code])).concat(button(UNLABELED, "Clear")) : [];
    return [h("b", {}, `${n.toLocaleString("en")} selected`), h("span.soft", {}, there.join(" · ")), ...choices, h("span.note", { role: "status" }, this.note), h("div.push"),
      h("button.choice", { type: "button", title: "Let the map show all of them", onclick: () => this.actions.show() }, "Show on map"),
      h("button.flat", { type: "button", title: "Select nothing (Esc)", "aria-label": "Select nothing", onclick: () => this.actions.clear() }, "✕")];
  }
}
