// After "not assessable": why? One digit, or nothing at all; it never waits for an answer.
//
// In the queue the next building is shown already, and 1, 2, 3 and N are about that one: reasons have the digits after them.

import { REASONS } from "./details.js";
import { h } from "./dom.js";
import { TEXTS } from "./texts.js";

const { picker: words } = TEXTS;

const PICTURE_PX = 36;

export class ReasonPicker {
  /** @param chosen (numbers, reason, act) */
  constructor(store, pictures, chosen) {
    Object.assign(this, { store, pictures, chosen });
    this.root = h("div.picker", { hidden: true, role: "group", "aria-label": words.title });
  }

  get isOpen() {
    return !this.root.hidden;
  }

  open(numbers, act) {
    Object.assign(this, { numbers, act });
    const who = numbers.length > 1 ? TEXTS.buildings(numbers.length) : TEXTS.building(numbers[0]);
    const likely = new Set(numbers.map((i) => this.store.candidates.get(i)));
    const marked = likely.size === 1 ? [...likely][0] : undefined; // what the answer says already
    const end = marked ? words.asMarked : words.unclear;
    const buttons = REASONS.map(([value, text, key]) => h(`button.choice${value === marked ? ".on" : ""}`, { type: "button", "data-reason": value, onclick: () => this.#choose(value) }, h("kbd", {}, key), text));
    this.root.replaceChildren(...this.#picture(), h("b.who", {}, who), words.ask, ...buttons,
      h("button.flat", { type: "button", title: end, "aria-label": end, onclick: () => this.close() }, "✕"));
    this.root.hidden = false;
  }

  // In the queue another building is large by now.
  #picture() {
    const [i] = this.numbers;
    return this.numbers.length === 1 && this.pictures.has(i) ? [this.pictures.make(i, PICTURE_PX, "post")] : [];
  }

  close() {
    this.root.hidden = true;
  }

  /** Returns true for a key of ours. Letters do the same as digits, but for N in the queue, which means "skip". */
  key(name, inQueue) {
    if (!this.isOpen || (inQueue && name === "n")) return false;
    const reason = REASONS.find(([, , digit, letter]) => name === digit || name === letter);
    if (reason) this.#choose(reason[0]);
    return Boolean(reason);
  }

  #choose(reason) {
    this.close();
    this.chosen(this.numbers, reason, this.act);
  }
}
