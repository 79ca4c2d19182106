// Shift + drag on the wall of chips: a box that selects.

import { h } from "./dom.js";

const CLICK_PX = 4;

export class WallBox {
  /**
   * @param scroller holds the chips and scrolls them
   * @param isWanted () => whether boxes are drawn here at all
   * @param done ([left, top, right, bottom] in pixels of what is scrolled, adds)
   */
  constructor(scroller, runway, isWanted, done) {
    Object.assign(this, { scroller, runway, isWanted, done });
    this.root = h("div.dragbox.onwall", { hidden: true });
    runway.append(this.root);
    scroller.addEventListener("pointerdown", (event) => this.#down(event), true);
    scroller.addEventListener("pointermove", (event) => this.from && this.#show(event));
    scroller.addEventListener("pointerup", (event) => this.#up(event));
    scroller.addEventListener("pointercancel", () => this.#end());
    scroller.addEventListener("click", (event) => this.justDrawn && this.#swallow(event), true); // no chip was clicked
  }

  #at(event) {
    const { left, top } = this.runway.getBoundingClientRect();
    return [event.clientX - left, event.clientY - top];
  }

  #down(event) {
    this.justDrawn = false;
    if (event.button || !event.shiftKey || !this.isWanted()) return;
    event.preventDefault();
    this.scroller.setPointerCapture(event.pointerId);
    this.from = this.#at(event);
  }

  #boxTo(event) {
    const [x, y] = this.#at(event);
    return [Math.min(x, this.from[0]), Math.min(y, this.from[1]), Math.max(x, this.from[0]), Math.max(y, this.from[1])];
  }

  #show(event) {
    const [left, top, right, bottom] = this.#boxTo(event);
    this.root.hidden = false;
    Object.assign(this.root.style, { left: `${left}px`, top: `${top}px`, width: `${right - left}px`, height: `${bottom - top}px` });
  }

  #up(event) {
    if (!this.from) return;
    const box = this.#boxTo(event);
    this.#end();
    this.justDrawn = true;
    if (Math.max(box[2] - box[0], box[3] - box[1]) >= CLICK_PX) this.done(box, event.ctrlKey || event.metaKey);
  }

  #swallow(event) {
    this.justDrawn = false;
    event.stopPropagation();
    event.preventDefault();
  }

  #end() {
    this.from = null;
    this.root.hidden = true;
  }
}
