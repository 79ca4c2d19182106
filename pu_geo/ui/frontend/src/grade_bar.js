// How badly is it damaged? A button for each grade of the scale, which does what its key does: both are about the building that was
// clicked or reached last, and the line names it. It is always there: over map or chips it would take clicks that are meant for them.

import { POSITIVE } from "./colors.js";
import { h } from "./dom.js";
import { TEXTS } from "./texts.js";

const { grades: words } = TEXTS;
const DOUBLE_CLICK_MS = 300;

export class GradeBar {
  /** @param give (grade id) */
  constructor(store, give) {
    Object.assign(this, { store, give, pressedAt: -Infinity });
    this.who = h("b.who");
    this.buttons = h("span.gradebuttons");
    this.root = h("div.gradebar", { hidden: true, role: "group", "aria-label": words.title }, h("span.soft", {}, words.ask), this.who, this.buttons);
    store.on("scale", () => this.#build());
    this.#build();
  }

  #build() {
    const { scale } = this.store;
    const button = ([id, name, key], at) => h("button.choice", { type: "button", "data-grade": id, style: `--c:${scale.color(at + 1)}`, onclick: (event) => this.#press(event, id) }, h("kbd", {}, key), h("i.gradedot"), name);
    this.buttons.replaceChildren(...scale.choices.map(button));
  }

  // The second press of a double click would grade what nobody has seen yet.
  #press({ detail, timeStamp }, grade) {
    if (detail > 1 && timeStamp - this.pressedAt < DOUBLE_CLICK_MS) return;
    this.pressedAt = timeStamp;
    this.give(grade);
  }

  /** @param target {i, on} of what keys act on, null for none */
  show(target) {
    const { store } = this;
    this.root.hidden = !store.scale.choices.length || !store.clickLabels; // where clicks select, the line of the selection has grades
    const i = target?.i ?? -1;
    this.who.textContent = i < 0 ? TEXTS.toolbar.noBuilding : TEXTS.building(i);
    const given = i >= 0 && store.labels[i] === POSITIVE && !store.blind.has(i) ? store.detail(i).grade : "";
    for (const button of this.buttons.children) {
      button.classList.toggle("given", button.dataset.grade === given);
      button.setAttribute("aria-pressed", String(button.dataset.grade === given));
    }
  }
}
