// Which part of the plane the scatter shows.

import { makeFrame } from "./painter.js";

const MARGIN = 0.06; // of the room, around all dots
const FARTHEST = 2; // times the resolution that shows all
const NEAREST = 4000;

export class ScatterView {
  constructor() {
    this.center = [0, 0];
    this.resolution = 1; // units of the plane a screen pixel
    this.all = 1;
    this.size = [0, 0];
  }

  get frame() {
    return makeFrame(this.center, this.resolution, ...this.size, Math.min(window.devicePixelRatio || 1, 2));
  }

  get isFitted() {
    return this.resolution === this.all;
  }

  /** @param box [minX, minY, maxX, maxY] to show */
  fit([minX, minY, maxX, maxY]) {
    const room = this.size.map((side) => Math.max(1, side) * (1 - 2 * MARGIN));
    this.center = [(minX + maxX) / 2, (minY + maxY) / 2];
    this.resolution = this.all = Math.max((maxX - minX) / room[0], (maxY - minY) / room[1]) || 1;
  }

  moveBy(dx, dy) {
    this.center = [this.center[0] - dx * this.resolution, this.center[1] - dy * this.resolution];
  }

  /** Zoom in by a factor; the point of the plane at pixel (x, y) stays there. */
  zoomBy(factor, x = this.size[0] / 2, y = this.size[1] / 2) {
    const [px, py] = this.toPlane(x, y);
    this.resolution = Math.min(this.all * FARTHEST, Math.max(this.all / NEAREST, this.resolution / factor));
    this.center = [px - (x - this.size[0] / 2) * this.resolution, py - (y - this.size[1] / 2) * this.resolution];
  }

  toPlane(x, y) {
    return [this.center[0] + (x - this.size[0] / 2) * this.resolution, this.center[1] + (y - this.size[1] / 2) * this.resolution];
  }

  toScreen(x, y) {
    return [(x - this.center[0]) / this.resolution + this.size[0] / 2, (y - this.center[1]) / this.resolution + this.size[1] / 2];
  }
}
