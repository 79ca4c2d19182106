// How badly a damaged building is damaged: the project's scale, its keys, colors, and words.

import { LABEL_COLORS, POSITIVE } from "./colors.js";
import { h } from "./dom.js";
import { GRADE_KEYS } from "./keys.js";
import { TEXTS } from "./texts.js";

const [WORST, LEAST] = [[140, 25, 0], [250, 175, 105]]; // damaged, darker and lighter: grades differ in lightness, which all eyes see

export class Scale {
  /** @param grades [{id, name, offered}], those of the scale in their order, then those that some buildings have besides */
  constructor(grades = []) {
    this.grades = grades;
    this.offered = grades.filter(({ offered }) => offered);
    this.places = new Map(grades.map(({ id }, place) => [id, place]));
  }

  /** 1 for the first grade, and so on; 0 for none. */
  number(id) {
    return id && this.places.has(id) ? this.places.get(id) + 1 : 0;
  }

  name(id) {
    return this.grades[this.places.get(id)]?.name ?? id;
  }

  /** [id, name, key] of each grade that clicks may give. */
  get choices() {
    return this.offered.map(({ id, name }, at) => [id, name, GRADE_KEYS[at]]);
  }

  /** The grade that a key gives; null for any other key. */
  ofKey(name) {
    return this.offered[GRADE_KEYS.indexOf(name)]?.id ?? null;
  }

  /** Of a grade by its number; 0 is the color of damage without a grade. */
  color(number) {
    if (!number) return LABEL_COLORS[POSITIVE];
    const last = Math.max(1, this.offered.length - 1);
    const share = Math.min(1, (number - 1) / last);
    return `#${WORST.map((low, band) => Math.round(low + share * (LEAST[band] - low)).toString(16).padStart(2, "0")).join("")}`;
  }

  /** How a grade is drawn besides its color: "cross", "slash", "dots". Without a grade: "". */
  pattern(number) {
    return number ? ["cross", "slash", "dots"][Math.round(2 * Math.min(1, (number - 1) / Math.max(1, this.offered.length - 1)))] : "";
  }
}

/** A button for each grade that clicks may give. @param pressed (event, grade id) */
export function gradeButtons(scale, pressed, hasKeys = true) {
  return scale.choices.map(([id, name, key], at) => h("button.choice", { type: "button", "data-grade": id, style: `--c:${scale.color(at + 1)}`, onclick: (event) => pressed(event, id) }, hasKeys ? h("kbd", {}, key) : null, h("i.gradedot"), name));
}

/** Mark the one of these buttons whose grade a building has; none for "". */
export function markGiven(buttons, grade) {
  for (const button of buttons) {
    button.classList.toggle("given", button.dataset.grade === grade);
    button.setAttribute("aria-pressed", String(button.dataset.grade === grade));
  }
}

/** The color of a label, by its grade where it has one. */
export function colorOf(store, i) {
  return store.labels[i] === POSITIVE ? store.scale.color(store.grades[i]) : LABEL_COLORS[store.labels[i]];
}

/** How many damaged buildings have which grade, by its number; 0 is without one. */
export function gradeCounts(store, numbers = null) {
  const counts = new Array(store.scale.grades.length + 1).fill(0);
  const count = (i) => store.labels[i] === POSITIVE && counts[store.grades[i]]++;
  if (numbers) numbers.forEach(count);
  else for (let i = 0; i < store.n; i++) count(i);
  return counts;
}

/** The label of building i with its grade in words: "Damaged: Destroyed". */
export function withGrade(store, i, text) {
  const { grade } = store.detail(i);
  return store.labels[i] === POSITIVE && grade ? TEXTS.grades.of(text, store.scale.name(grade)) : text;
}
