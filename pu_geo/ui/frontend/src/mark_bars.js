// What to answer beside the keys: a grade for the building that keys act on, a label for those inside a box or a line drawn by
// hand, and a reason after "not assessable". The line of grades is always there: over map or chips it would take clicks meant for them.

import { LABEL_TEXTS, NOT_ASSESSABLE, NOT_DAMAGED, POSITIVE, UNLABELED } from "./colors.js";
import { REASONS } from "./details.js";
import { h, keepingFocus, onceADoubleClick } from "./dom.js";
import { gradeButtons, gradeCounts, markGiven } from "./grades.js";
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

// What is selected on Explore, and what can be done with it: one line below scatter, map and chips.
const KEYS = { [POSITIVE]: "1", [NOT_DAMAGED]: "2", [NOT_ASSESSABLE]: "3", [UNLABELED]: "0" };

export class SelectionBar {
  /** @param actions {label(numbers, code, grade or null), show(), clear(), answer(code, grade or null), skip()} */
  constructor(store, actions) {
    Object.assign(this, { store, actions, confirmAbove: Infinity, asked: null, note: "", pressed: onceADoubleClick() });
    this.root = h("div.selectionbar", { hidden: true, role: "toolbar", "aria-label": TEXTS.selection.title });
    store.on("chosen", () => {
      this.asked = null;
      this.note = "";
      this.draw();
    });
    for (const event of ["labels", "grades", "scale", "mode", "asked"]) store.on(event, () => this.draw());
    store.on("selected", () => store.asked && this.draw());
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
    this.note = numbers.length ? TEXTS.selection.done(numbers.length, code, name) : TEXTS.selection.already(code, name);
  }

  draw() {
    const { store } = this;
    if (this.root.hidden || !store.ready) return;
    const n = store.chosen.length;
    const parts = () => (!n ? this.#answers() : this.asked !== null ? this.#question() : this.#offer(n));
    keepingFocus(this.root, () => this.root.replaceChildren(...parts()));
  }

  // Nothing is selected: where a question fills the wall, the one under its cursor is answered.
  #answers() {
    const { store, actions } = this;
    const i = store.asked?.notes.has(store.selected) ? store.selected : -1;
    if (i < 0 || store.mode !== "label") return [h("span.soft", {}, TEXTS.selection.hint)];
    return [h("b.who", { title: TEXTS.id(store.ids[i]) }, TEXTS.building(i)), ...this.#choices((code, grade) => ({ "aria-pressed": String(code !== UNLABELED && code === store.labels[i] && (store.detail(i).grade ?? null) === grade), onclick: (event) => this.pressed(event, () => actions.answer(code, grade)) })),
      h("button.choice", { type: "button", onclick: (event) => this.pressed(event, () => actions.skip()) }, h("kbd", {}, "N"), TEXTS.queue.skip)];
  }

  // The answers with their keys. @param dress (code, grade or null) => attributes of a button
  #choices(dress) {
    const { scale } = this.store;
    const button = (code, text, key = KEYS[code], grade = null) => {
      const dot = grade === null ? [] : [h("i.gradedot", { style: `--c:${scale.color(scale.number(grade))}` })];
      return h(`button.choice${grade === null ? `.label${code}` : ""}`, { type: "button", ...dress(code, grade) }, h("kbd", {}, key), ...dot, text);
    };
    const graded = scale.choices.map(([id, name, key]) => button(POSITIVE, name, key, id));
    return [button(POSITIVE, LABEL_TEXTS[POSITIVE]), ...graded, ...[NOT_DAMAGED, NOT_ASSESSABLE].map((code) => button(code, LABEL_TEXTS[code])), button(UNLABELED, TEXTS.selection.clear)];
  }

  #question() {
    const { code, grade } = this.asked;
    const numbers = this.#changing(code, grade);
    const others = numbers.filter((i) => this.store.labels[i] !== UNLABELED).length;
    const act = TEXTS.selection.act(numbers.length, code, this.#name(code, grade));
    return [h("b", {}, TEXTS.selection.question(act)), h("span.soft", {}, TEXTS.selection.loses(others) + TEXTS.selection.undoable), h("div.push"),
      h("button.choice.yes", { type: "button", onclick: () => this.confirm() }, act), h("button.choice", { type: "button", onclick: () => this.cancel() }, TEXTS.selection.cancel)];
  }

  #offer(n) {
    const { store } = this;
    const counts = [0, 0, 0, 0];
    for (const i of store.chosen) counts[store.labels[i]]++;
    const there = [POSITIVE, NOT_DAMAGED, NOT_ASSESSABLE].filter((code) => counts[code]).map((code) => `${TEXTS.number(counts[code])} ${LABEL_TEXTS[code].toLowerCase()}`);
    const grades = gradeCounts(store, store.chosen).map((count, number) => [count, number ? store.scale.grades[number - 1].name : TEXTS.grades.notGraded.toLowerCase()]);
    const named = [...grades.slice(1), grades[0]].filter(([count]) => count);
    if (named.length > (grades[0][0] ? 1 : 0)) there.push(...named.map(([count, name]) => TEXTS.grades.count(count, name)));
    const dress = (code, grade) => {
      const change = this.#changing(code, grade).length;
      return { title: TEXTS.selection.change(change, code), disabled: !change, onclick: () => this.ask(code, grade) };
    };
    const choices = store.mode === "label" ? this.#choices(dress) : [];
    return [h("b", {}, TEXTS.selection.selected(n)), h("span.soft", {}, there.join(" · ")), ...choices, h("span.note", this.isSpoken ? {} : { role: "status" }, this.note), h("div.push"),
      h("button.choice", { type: "button", title: TEXTS.selection.showHint, onclick: () => this.actions.show() }, TEXTS.selection.show),
      h("button.flat", { type: "button", title: TEXTS.selection.none, "aria-label": TEXTS.selection.none, onclick: () => this.actions.clear() }, "✕")];
  }
}
