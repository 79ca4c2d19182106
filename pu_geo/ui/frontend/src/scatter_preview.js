// The chip of the dot under the pointer.

import { describe } from "./describe.js";
import { h } from "./dom.js";

const WIDTH_PX = 112;
const AWAY_PX = 14;

export class ScatterPreview {
  constructor(store, pictures) {
    Object.assign(this, { store, pictures, i: -1 });
    this.figures = h("div.pair");
    this.facts = h("div.facts");
    this.root = h("div.dotpreview", { hidden: true }, this.figures, this.facts);
    for (const event of ["details", "scores", "blind", "seen"]) store.on(event, () => this.#fill());
  }

  /** @param pane element that it lies in, over all parts of the view */
  show(i, [x, y], pane, gsd) {
    if (i === this.i) return;
    Object.assign(this, { i, gsd });
    const { pictures } = this;
    const figure = (part) => h("figure", {}, h("div.picture", { style: pictures.style(i, WIDTH_PX, part) }), h("figcaption", {}, part));
    this.figures.replaceChildren(...(pictures.has(i) ? pictures.parts.map(figure) : []));
    this.root.hidden = false;
    this.#fill();
    const box = pane.getBoundingClientRect();
    const [left, top] = [x - box.left, y - box.top];
    const [wide, high] = [this.root.offsetWidth, this.root.offsetHeight];
    this.root.style.left = `${Math.max(2, left + AWAY_PX + wide < box.width ? left + AWAY_PX : left - AWAY_PX - wide)}px`;
    this.root.style.top = `${Math.max(2, Math.min(box.height - high - 2, top - high / 2))}px`;
  }

  hide() {
    this.i = -1;
    this.root.hidden = true;
  }

  #fill() {
    if (!this.root.hidden && this.i >= 0) this.facts.replaceChildren(...describe(this.store, this.i, this.gsd));
  }
}
