// After "not assessable": why? One letter, or nothing at all; it never waits for an answer.
//
// In the queue the next building is shown already, and digits and N are about that one: reasons have other letters.

import { REASONS } from "./details.js";
import { h, keepingFocus } from "./dom.js";
import { TEXTS } from "./texts.js";

const { picker: words } = TEXTS;

const PICTURE_PX = 36;

/** Name a building with its chip, or say how many they are. In the queue another building is large by now. */
function whoIs(store, pictures, numbers) {
  const [i] = numbers;
  const isOne = numbers.length === 1;
  const picture = isOne && pictures.has(i) ? [pictures.make(i, PICTURE_PX, "post")] : [];
  const who = isOne ? { title: TEXTS.id(store.ids[i]) } : {};
  return [...picture, h("b.who", who, isOne ? TEXTS.building(i) : TEXTS.buildings(numbers.length))];
}

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
    const likely = new Set(numbers.map((i) => this.store.candidates.get(i)));
    const marked = likely.size === 1 ? [...likely][0] : undefined; // what the answer says already
    const end = marked ? words.asMarked : words.unclear;
    const buttons = REASONS.map(([value, text, key]) => h(`button.choice${value === marked ? ".on" : ""}`, { type: "button", "data-reason": value, onclick: () => this.#choose(value) }, h("kbd", {}, key.toUpperCase()), text));
    this.root.replaceChildren(...whoIs(this.store, this.pictures, numbers), words.ask, ...buttons,
      h("button.flat", { type: "button", title: end, "aria-label": end, onclick: () => this.close() }, "✕"));
    this.root.hidden = false;
  }

  close() {
    keepingFocus(this.root, () => (this.root.hidden = true));
  }

  /** Returns true for a key of ours. */
  key(name) {
    if (!this.isOpen) return false;
    const reason = REASONS.find(([, , letter]) => name === letter);
    if (reason) this.#choose(reason[0]);
    return Boolean(reason);
  }

  #choose(reason) {
    this.close();
    this.chosen(this.numbers, reason, this.act);
  }
}
