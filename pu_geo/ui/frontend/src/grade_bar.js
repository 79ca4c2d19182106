// How badly is it damaged? A button for each grade of the scale, which does what its key does: both are about the building that was
// clicked or reached last, and the line names it. It is always there: over map or chips it would take clicks that are meant for them.

import { POSITIVE } from "./colors.js";
import { h, onceADoubleClick } from "./dom.js";
import { gradeButtons, markGiven } from "./grades.js";
import { TEXTS } from "./texts.js";

const { grades: words } = TEXTS;

export class GradeBar {
  /** @param give (grade id) */
  constructor(store, give) {
    Object.assign(this, { store, give, pressed: onceADoubleClick() });
    this.who = h("b.who");
    this.buttons = h("span.gradebuttons");
    this.root = h("div.gradebar", { hidden: true, role: "group", "aria-label": words.title }, h("span.soft", {}, words.ask), this.who, this.buttons);
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
