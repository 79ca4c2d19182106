// What is selected, and what can be done with it: one line below scatter, map and chips.

import { LABEL_TEXTS, NOT_ASSESSABLE, NOT_DAMAGED, POSITIVE, UNLABELED } from "./colors.js";
import { h } from "./dom.js";
import { TEXTS } from "./texts.js";

const { selection: words, number } = TEXTS;

const KEYS = { [POSITIVE]: "1", [NOT_DAMAGED]: "2", [NOT_ASSESSABLE]: "3", [UNLABELED]: "0" };

export class SelectionBar {
  /** @param actions {label(numbers, code), show(), clear()} */
  constructor(store, actions) {
    Object.assign(this, { store, actions, confirmAbove: Infinity, asked: null, note: "" });
    this.root = h("div.selectionbar", { hidden: true, role: "toolbar", "aria-label": words.title });
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
    this.note = numbers.length ? words.done(numbers.length, code, LABEL_TEXTS[code]) : words.already(code, LABEL_TEXTS[code]);
  }

  draw() {
    const { store } = this;
    if (this.root.hidden || !store.ready) return;
    const n = store.chosen.length;
    if (!n) this.root.replaceChildren(h("span.soft", {}, words.hint));
    else if (this.asked !== null) this.root.replaceChildren(...this.#question());
    else this.root.replaceChildren(...this.#offer(n));
  }

  #question() {
    const numbers = this.#changing(this.asked);
    const others = numbers.filter((i) => this.store.labels[i] !== UNLABELED).length;
    const act = words.act(numbers.length, this.asked, LABEL_TEXTS[this.asked]);
    return [h("b", {}, words.question(act)), h("span.soft", {}, words.loses(others) + words.undoable), h("div.push"),
      h("button.choice.yes", { type: "button", onclick: () => this.ask(this.asked) }, act), h("button.choice", { type: "button", onclick: () => this.cancel() }, words.cancel)];
  }

  #offer(n) {
    const { store } = this;
    const counts = [0, 0, 0, 0];
    for (const i of store.chosen) counts[store.labels[i]]++;
    const there = [POSITIVE, NOT_DAMAGED, NOT_ASSESSABLE].filter((code) => counts[code]).map((code) => `${number(counts[code])} ${LABEL_TEXTS[code].toLowerCase()}`);
    const button = (code, text) => {
      const change = n - counts[code];
      return h(`button.choice.label${code}`, { type: "button", title: words.change(change, code), disabled: !change, onclick: () => this.ask(code) }, h("kbd", {}, KEYS[code]), text);
    };
    const choices = store.mode === "label" ? [POSITIVE, NOT_DAMAGED, NOT_ASSESSABLE].map((code) => button(code, LABEL_TEXTS[code])).concat(button(UNLABELED, words.clear)) : [];
    return [h("b", {}, words.selected(n)), h("span.soft", {}, there.join(" · ")), ...choices, h("span.note", { role: "status" }, this.note), h("div.push"),
      h("button.choice", { type: "button", title: words.showHint, onclick: () => this.actions.show() }, words.show),
      h("button.flat", { type: "button", title: words.none, "aria-label": words.none, onclick: () => this.actions.clear() }, "✕")];
  }
}
