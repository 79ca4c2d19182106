// What to answer beside the keys: a grade for the building that keys act on, a label for those inside a box or a line drawn by
// hand, and a reason after "not assessable". The line of grades is always there: over map or chips it would take clicks meant for them.

import { LABEL_TEXTS, NOT_ASSESSABLE, NOT_DAMAGED, POSITIVE, UNLABELED } from "./colors.js";
import { REASONS } from "./details.js";
import { h, keepingFocus, onceADoubleClick } from "./dom.js";
import { gradeButtons, markGiven } from "./grades.js";
import { TEXTS } from "./texts.js";

const PICTURE_PX = 36;

export class GradeBar {
  /** @param give (grade id) */
  constructor(store, give) {
    Object.assign(this, { store, give, pressed: onceADoubleClick() });
    this.who = h("b.who");
    this.buttons = h("span.gradebuttons");
    this.root = h("div.gradebar", { hidden: true, role: "group", "aria-label": TEXTS.grades.title }, h("span.soft", {}, TEXTS.grades.ask), this.who, this.buttons);
    store.on("scale", () => this.#build());
    this.#build();
  }

  #build() {
    this.buttons.replaceChildren(...gradeButtons(this.store.scale, (event, id) => this.pressed(event, () => this.give(id))));
  }

  /** @param target {i, on} of what keys act on, null for none */
  show(target) {
    const { store } = this;
    this.root.hidden = !store.scale.choices.length || !store.clickLabels; // where clicks select, the line of the selection has grades
    const i = target?.i ?? -1;
    this.who.textContent = i < 0 ? TEXTS.toolbar.noBuilding : TEXTS.building(i);
    markGiven(this.buttons.children, i >= 0 && store.labels[i] === POSITIVE && !store.blind.has(i) ? store.detail(i).grade : "");
  }
}

export class MarkBar {
  /** @param chosen (numbers, code, grade or null) */
  constructor(store, chosen) {
    Object.assign(this, { store, chosen });
    this.root = h("div.boxbar", { hidden: true, role: "group", "aria-label": TEXTS.marks.title });
  }

  ask(numbers) {
    this.root.hidden = !numbers.length;
    if (this.root.hidden) return;
    const choice = (code, text) => h(`button.choice.label${code}`, { type: "button", onclick: () => this.#choose(numbers, code, null) }, text);
    const graded = gradeButtons(this.store.scale, (_, id) => this.#choose(numbers, POSITIVE, id), false);
    this.root.replaceChildren(h("b", {}, TEXTS.marks.many(numbers.length)), choice(POSITIVE, LABEL_TEXTS[POSITIVE]), ...graded, ...[NOT_DAMAGED, NOT_ASSESSABLE].map((code) => choice(code, LABEL_TEXTS[code])), choice(UNLABELED, TEXTS.marks.clear),
      h("button.flat", { type: "button", title: TEXTS.marks.cancel, "aria-label": TEXTS.marks.cancel, onclick: () => this.close() }, "✕"));
  }

  close() {
    keepingFocus(this.root, () => (this.root.hidden = true));
  }

  #choose(numbers, code, grade) {
    this.close();
    this.chosen(numbers, code, grade);
  }
}

/** Name a building with its chip, or say how many they are. In the queue another building is large by now. */
function whoIs(store, pictures, numbers) {
  const [i] = numbers;
  const isOne = numbers.length === 1;
  const picture = isOne && pictures.has(i) ? [pictures.make(i, PICTURE_PX, "post")] : [];
  const who = isOne ? { title: TEXTS.id(store.ids[i]) } : {};
  return [...picture, h("b.who", who, isOne ? TEXTS.building(i) : TEXTS.buildings(numbers.length))];
}

// One letter, or nothing at all; it never waits for an answer. In the queue the next building is shown already, and digits and N are
// about that one: reasons have other letters.
export class ReasonPicker {
  /** @param chosen (numbers, reason, act) */
  constructor(store, pictures, chosen) {
    Object.assign(this, { store, pictures, chosen });
    this.root = h("div.picker", { hidden: true, role: "group", "aria-label": TEXTS.picker.title });
  }

  get isOpen() {
    return !this.root.hidden;
  }

  open(numbers, act) {
    Object.assign(this, { numbers, act });
    const likely = new Set(numbers.map((i) => this.store.candidates.get(i)));
    const marked = likely.size === 1 ? [...likely][0] : undefined; // what the answer says already
    const end = marked ? TEXTS.picker.asMarked : TEXTS.picker.unclear;
    const buttons = REASONS.map(([value, text, key]) => h(`button.choice${value === marked ? ".on" : ""}`, { type: "button", "data-reason": value, onclick: () => this.#choose(value) }, h("kbd", {}, key.toUpperCase()), text));
    this.root.replaceChildren(...whoIs(this.store, this.pictures, numbers), TEXTS.picker.ask, ...buttons,
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
