// After "damaged": how badly? One click, one key, or nothing at all; it never waits, and goes with the next mark.
//
// It names the building that its buttons are about. Digits are about the building that keys act on, like 1, 2 and 3: only
// where that is the same one do the buttons show them; else the bar says what they grade.

import { h } from "./dom.js";
import { GRADE } from "./grades.js";
import { whoIs } from "./reason_picker.js";

export class GradeBar {
  /** @param chosen (numbers, grade id) */
  constructor(store, pictures, chosen) {
    Object.assign(this, { store, pictures, chosen, numbers: [], target: null });
    this.root = h("div.picker.gradebar", { hidden: true, role: "group", "aria-label": GRADE });
    this.hint = h("span.soft");
    store.on("scale", () => this.close());
  }

  get isOpen() {
    return !this.root.hidden;
  }

  open(numbers) {
    const { choices } = this.store.scale;
    if (!choices.length) return this.close();
    this.numbers = numbers;
    const buttons = choices.map(([id, name, key], at) => h("button.choice", { type: "button", "data-grade": id, style: `--c:${this.store.scale.color(at + 1)}`, onclick: () => this.#choose(id) }, h("kbd", {}, key), h("i.gradedot"), name));
    this.root.replaceChildren(...whoIs(this.store, this.pictures, numbers), `${GRADE}:`, ...buttons,
      h("button.flat", { type: "button", title: "Leave it without a grade (Esc)", "aria-label": "Leave it without a grade", onclick: () => this.close() }, "✕"), this.hint);
    this.root.hidden = false;
    this.showTarget(this.target);
  }

  /** @param target {i, on} of what keys act on, or null; see target.js */
  showTarget(target) {
    this.target = target;
    if (!this.isOpen) return;
    const { ids, scale } = this.store;
    const isSame = Boolean(target) && this.numbers.length === 1 && target.i === this.numbers[0];
    this.root.classList.toggle("keyed", isSame);
    const other = target && { queue: "the large picture", selection: "the selected buildings" }[target.on];
    this.hint.textContent = !target || isSame ? "" : `Keys ${scale.keys}: ${other ?? ids[target.i]}`;
  }

  close() {
    this.root.hidden = true;
  }

  #choose(grade) {
    this.close();
    this.chosen(this.numbers, grade);
  }
}
