// An OpenLayers layer that keeps footprints on canvases larger than the view and only moves them while the map moves.
// 20,000 polygons as OpenLayers features took 236 ms a pan frame; moving a finished canvas costs next to nothing.

import Layer from "ol/layer/Layer.js";
import { asDots, makeFrame, paintBase, paintTop } from "./painter.js";

const MARGIN = 1.5; // canvas size against the view
const DRAWS_TO_KEEP = 50;

export class FootprintLayer extends Layer {
  constructor(store) {
    super({});
    this.store = store;
    this.base = document.createElement("canvas");
    this.top = document.createElement("canvas");
    this.holder = document.createElement("div");
    this.holder.className = "footprints";
    this.holder.append(this.base, this.top);
    this.frame = null;
    this.staleBase = true;
    this.staleTop = true;
    this.drawTimes = [];
    const all = () => this.invalidate(true);
    const top = () => this.invalidate(false);
    for (const event of ["geometry", "scores", "blind", "colorBy", "outlines", "threshold"]) store.on(event, all);
    for (const event of ["labels", "hovered", "selected"]) store.on(event, top);
  }

  invalidate(baseToo) {
    this.staleBase ||= baseToo;
    this.staleTop = true;
    this.changed();
  }

  render(frameState) {
    const { center, resolution } = frameState.viewState;
    const [width, height] = frameState.size;
    const at = [center[0], -center[1]]; // OpenLayers counts upwards, the grid downwards
    const moving = frameState.viewHints[0] || frameState.viewHints[1];
    if (!this.#covers(at, resolution, width, height, moving)) {
      const ratio = Math.min(frameState.pixelRatio, 2);
      this.frame = makeFrame(at, resolution, Math.ceil(width * MARGIN), Math.ceil(height * MARGIN), ratio);
      this.staleBase = this.staleTop = true;
    }
    const start = performance.now();
    const drawn = this.staleBase;
    if (this.staleBase) paintBase(this.base, this.store, this.frame);
    if (this.staleTop) paintTop(this.top, this.store, this.frame);
    this.staleBase = this.staleTop = false;
    if (drawn) this.drawTimes = [...this.drawTimes.slice(-DRAWS_TO_KEEP), performance.now() - start];
    this.#place(at, resolution, width, height);
    return this.holder;
  }

  #covers(at, resolution, width, height, moving) {
    if (!this.frame) return false;
    const zoomed = this.frame.resolution / resolution;
    if (moving ? zoomed > 2.5 || zoomed < 0.5 : Math.abs(zoomed - 1) > 1e-6) return false;
    if (moving && zoomed !== 1) return true; // edges may be empty for the moment of a zoom
    const box = this.frame.box;
    const half = [(width / 2) * resolution, (height / 2) * resolution];
    return at[0] - half[0] >= box[0] && at[1] - half[1] >= box[1] && at[0] + half[0] <= box[2] && at[1] + half[1] <= box[3];
  }

  #place(at, resolution, width, height) {
    const zoomed = this.frame.resolution / resolution;
    let left = width / 2 + (this.frame.box[0] - at[0]) / resolution;
    let top = height / 2 + (this.frame.box[1] - at[1]) / resolution;
    if (Math.abs(zoomed - 1) < 1e-6) [left, top] = [Math.round(left), Math.round(top)];
    this.holder.style.transform = `translate(${left}px, ${top}px) scale(${zoomed})`;
  }

  get dots() {
    return this.frame !== null && asDots(this.store, this.frame);
  }
}
