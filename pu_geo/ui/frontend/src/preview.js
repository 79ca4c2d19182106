// A building's pictures, larger, and words about it, while the pointer rests on its chip or its dot.

import { describe } from "./describe.js";
import { h } from "./dom.js";
import { TEXTS } from "./texts.js";

const DELAY_MS = 300;
const LARGEST_PX = 220;
const ROOM = 0.37; // of the view's width
const MARGIN = 4;

export class Preview {
  constructor(store, pictures) {
    Object.assign(this, { store, pictures, i: -1 });
    this.root = h("div.preview", { hidden: true });
    this.facts = h("div.facts");
    for (const event of ["details", "scores", "labels", "selected", "blind", "imageQuality", "shifts"]) store.on(event, () => this.#fill());
  }

  /** Show building i, in a moment, beside [left, top, right, bottom] of the window, or else below or above it. */
  soon(i, area, { largest = LARGEST_PX, delay = DELAY_MS } = {}) {
    if (i === this.i) return;
    this.hide();
    this.i = i;
    this.timer = setTimeout(() => this.#show(area, largest), delay);
  }

  hide() {
    clearTimeout(this.timer);
    this.i = -1;
    this.root.hidden = true;
  }

  #fill() {
    if (!this.root.hidden) this.facts.replaceChildren(...describe(this.store, this.i));
  }

  #show([left, top, right, bottom], largest) {
    const box = this.root.parentElement.getBoundingClientRect();
    const parts = this.pictures.has(this.i) ? this.pictures.parts : [];
    const width = Math.min(largest, Math.floor((Math.max(right - left, box.width * ROOM) - 40) / parts.length));
    const figures = parts.map((part) => h("figure", {}, this.pictures.make(this.i, width, part), h("figcaption", {}, TEXTS.part(part))));
    this.root.replaceChildren(h("div.pair", {}, ...figures), this.facts);
    this.root.hidden = false;
    this.#fill();
    const [wide, high] = [this.root.offsetWidth, this.root.offsetHeight];
    const beside = [right + 2 * MARGIN, left - wide - 2 * MARGIN].find((x) => x > box.left && x + wide < box.right);
    const below = bottom + high < box.bottom ? bottom + MARGIN : top - high - MARGIN;
    const [x, y] = beside === undefined ? [(left + right - wide) / 2, below] : [beside, (top + bottom - high) / 2];
    this.root.style.left = `${Math.max(MARGIN, Math.min(box.width - wide - MARGIN, x - box.left))}px`;
    this.root.style.top = `${Math.max(MARGIN, Math.min(box.height - high - MARGIN, y - box.top))}px`;
  }
}
