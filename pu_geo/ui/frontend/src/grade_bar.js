// After "damaged": how badly? One click, one key, or nothing at all; it never waits, and goes with the next mark.
//
// It names the building that its buttons are about. Digits are about the building that keys act on, like 1, 2 and 3: only
// where that is the same one do the buttons show them; else the line says what they grade. It has a line of its own, which is
// always there: over map or chips it would take clicks that are meant for them.

import { h, keepingFocus } from "./dom.js";
import { whoIs } from "./reason_picker.js";
import { TEXTS } from "./texts.js";

const { grades: words } = TEXTS;

export class GradeBar {
  /** @param chosen (numbers, grade id) */
  constructor(store, pictures, chosen) {
    Object.assign(this, { store, pictures, chosen, numbers: [] });
    this.root = h("div.gradebar", { hidden: true, role: "group", "aria-label": words.title });
    this.hint = h("span.soft");
    this.howTo = h("span.soft", {}, words.howTo);
    store.on("scale", () => this.close());
    for (const event of ["mode", "picks"]) store.on(event, () => this.close()); // where clicks select, the line of the selection has grades
  }

  get isOpen() {
    return this.numbers.length > 0;
  }

  open(numbers) {
    this.numbers = numbers;
    keepingFocus(this.root, () => this.#draw());
  }

  close() {
    this.open([]);
  }

  #draw() {
    const { store } = this;
    const { choices } = store.scale;
    this.root.hidden = !choices.length || !store.clickLabels;
    if (this.root.hidden) this.numbers = [];
    this.root.classList.toggle("keyed", false);
    if (!this.isOpen) {
      const keys = choices.map(([, name, key], at) => h("span.which", { style: `--c:${store.scale.color(at + 1)}` }, h("kbd", {}, key), h("i.gradedot"), name));
      this.root.replaceChildren(h("span.soft", {}, words.ask), ...keys, this.howTo);
      return;
    }
    const buttons = choices.map(([id, name, key], at) => h("button.choice", { type: "button", "data-grade": id, style: `--c:${store.scale.color(at + 1)}`, onclick: () => this.#choose(id) }, h("kbd", {}, key), h("i.gradedot"), name));
    this.root.replaceChildren(h("span.soft", {}, words.ask), ...whoIs(store, this.pictures, this.numbers), ...buttons,
      h("button.flat", { type: "button", title: words.none, "aria-label": words.none, onclick: () => this.close() }, "✕"), this.hint);
    this.showTarget(null); // what keys act on may change with this mark: the view says it in the next frame
  }

  /** @param target {i, on} of what keys act on, or null; see target.js */
  showTarget(target) {
    this.howTo.textContent = target?.on === "queue" ? words.howToInQueue : words.howTo; // there a digit after 1 means the next picture
    if (!this.isOpen) return;
    const { scale } = this.store;
    const isSame = Boolean(target) && this.numbers.length === 1 && target.i === this.numbers[0];
    this.root.classList.toggle("keyed", isSame);
    const other = target && { queue: words.large, selection: words.selected }[target.on];
    this.hint.textContent = !target || isSame ? "" : words.elsewhere(scale.keys, other ?? TEXTS.building(target.i));
  }

  #choose(grade) {
    const { numbers } = this;
    this.close();
    this.chosen(numbers, grade);
  }
}
