// A chip, larger, for as long as the pointer rests on it.

import { describe } from "./describe.js";
import { h } from "./dom.js";

const DELAY_MS = 300;
const LARGEST_PX = 280;
const MARGIN = 4;

export class WallPreview {
  constructor(store, pictures) {
    Object.assign(this, { store, pictures });
    this.root = h("div.preview", { hidden: true });
    this.facts = h("div.facts");
    store.on("details", () => this.#fill());
    for (const event of ["blind", "seen", "shifts"]) store.on(event, () => this.#fill());
  }

  /** Show building i beside its cell, in a moment. */
  soon(i, cell, pane, gsd) {
    this.hide();
    this.gsd = gsd;
    this.timer = setTimeout(() => cell.isConnected && this.#show(i, cell, pane), DELAY_MS);
  }

  hide() {
    clearTimeout(this.timer);
    this.root.hidden = true;
  }

  #fill() {
    if (!this.root.hidden) this.facts.replaceChildren(...describe(this.store, this.i, this.gsd));
  }

  #show(i, cell, pane) {
    this.i = i;
    const { parts } = this.pictures;
    const width = Math.min(LARGEST_PX, Math.floor((pane.clientWidth - 40) / parts.length));
    const figures = parts.map((part) => h("figure", {}, h("div.picture", { style: this.pictures.style(i, width, part) }), h("figcaption", {}, part)));
    this.root.replaceChildren(h("div.pair", {}, ...figures), this.facts);
    this.root.hidden = false;
    this.#fill();
    const [box, own] = [pane.getBoundingClientRect(), cell.getBoundingClientRect()];
    const [wide, high] = [this.root.offsetWidth, this.root.offsetHeight];
    const left = Math.max(MARGIN, Math.min(box.width - wide - MARGIN, own.left - box.left + own.width / 2 - wide / 2));
    const below = own.bottom - box.top + 6;
    this.root.style.left = `${left}px`;
    this.root.style.top = `${below + high < box.height ? below : Math.max(MARGIN, own.top - box.top - high - 6)}px`;
  }
}
