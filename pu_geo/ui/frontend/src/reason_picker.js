// After "not assessable": why? One letter, or nothing at all; it never waits for an answer.

import { REASONS } from "./details.js";
import { h } from "./dom.js";

export class ReasonPicker {
  /** @param chosen (numbers, reason, act) */
  constructor(store, chosen) {
    this.store = store;
    this.chosen = chosen;
    this.root = h("div.picker", { hidden: true, role: "group", "aria-label": "Why not assessable" });
  }

  get isOpen() {
    return !this.root.hidden;
  }

  open(numbers, act) {
    Object.assign(this, { numbers, act });
    const who = numbers.length > 1 ? `${numbers.length.toLocaleString("en")} buildings` : this.store.ids[numbers[0]];
    const buttons = REASONS.map(([value, text, key]) => h("button.choice", { type: "button", "data-reason": value, onclick: () => this.#choose(value) }, h("kbd", {}, key.toUpperCase()), text));
    this.root.replaceChildren(h("b.who", {}, who), "why not assessable?", ...buttons,
      h("button.flat", { type: "button", title: "Unclear (Esc)", onclick: () => this.close() }, "✕"));
    this.root.hidden = false;
  }

  close() {
    this.root.hidden = true;
  }

  /** Returns true for a letter of ours. */
  key(name) {
    const reason = this.isOpen && REASONS.find(([, , key]) => key === name);
    if (reason) this.#choose(reason[0]);
    return Boolean(reason);
  }

  #choose(reason) {
    this.close();
    this.chosen(this.numbers, reason, this.act);
  }
}
