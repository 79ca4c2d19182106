// An OpenLayers layer that keeps footprints on canvases larger than the view and only moves them while the map moves.
// 20,000 polygons as OpenLayers features took 236 ms a pan frame; moving a finished canvas costs next to nothing.

import Layer from "ol/layer/Layer.js";
import { asDots, clearCanvas, makeFrame, paintBase, paintChosen, paintLabels, paintTop } from "./painter.js";
import { paintArrows } from "./shifts.js";

const MARGIN = 1.5; // canvas size against the view
const ALL = ["base", "chosen", "labels", "arrows", "top"];
const FEW = 40; // so many changed labels are painted one by one

export class FootprintLayer extends Layer {
  constructor(store) {
    super({});
    this.store = store;
    this.following = []; // [event, listener]
    this.base = document.createElement("canvas"); // outlines and scores
    this.labels = document.createElement("canvas");
    this.arrows = document.createElement("canvas");
    this.drawnArrows = { arrows: [], times: 1 };
    this.chosen = document.createElement("canvas"); // what is selected together
    this.top = document.createElement("canvas"); // hover and selection
    this.top.style.zIndex = "2";
    this.holder = document.createElement("div");
    this.holder.className = "footprints";
    this.holder.append(this.base, this.chosen, this.labels, this.arrows, this.top);
    this.frame = null;
    this.stale = new Set(ALL);
    this.paintedLabels = null; // what the canvas shows; null once all of it is out of date
    this.#follow(["geometry", "sites", "site", "colorBy", "outlines", "imageQuality", "scale", "only"], () => this.#outdate(ALL));
    this.#follow(["scores", "blind", "threshold", "flagging"], () => this.#outdate(store.flagging ? ["base", "labels"] : ["base"]));
    this.#follow(["outlined"], () => this.frame && !asDots(store, this.frame) && this.#outdate(ALL)); // dots need none
    this.#follow(["shifts", "arrows"], () => this.#outdate(["arrows"]));
    this.#follow(["chosen"], () => this.#outdate(["chosen"]));
    this.#follow(["hovered", "selected", "mode"], () => this.#outdate(["top"]));
    this.#follow(["labels", "grades"], () => this.stale.add("labels").add("chosen").add(store.flagging ? "base" : "labels")); // but not what is painted well already
  }

  #follow(events, act) {
    for (const event of events) {
      const listener = () => {
        act();
        this.changed();
      };
      this.store.on(event, listener);
      this.following.push([event, listener]);
    }
  }

  /** The map is gone; the store may live on with another one. */
  disposeInternal() {
    for (const [event, listener] of this.following.splice(0)) this.store.off(event, listener);
    super.disposeInternal();
  }

  #outdate(names) {
    for (const name of names) this.stale.add(name);
    if (names.includes("labels")) this.paintedLabels = null;
  }

  render(frameState) {
    const { center, resolution } = frameState.viewState;
    const [width, height] = frameState.size;
    const at = [center[0], -center[1]]; // OpenLayers counts upwards, the grid downwards
    const moving = frameState.viewHints[0] || frameState.viewHints[1];
    if (!this.#covers(at, resolution, width, height, moving)) {
      const ratio = Math.min(frameState.pixelRatio, 2);
      this.frame = makeFrame(at, resolution, Math.ceil(width * MARGIN), Math.ceil(height * MARGIN), ratio);
      this.#outdate(ALL);
    }
    this.#paint();
    this.#place(at, resolution, width, height);
    return this.holder;
  }

  #paint() {
    const { store, frame, stale } = this;
    if (stale.size && !asDots(store, frame)) store.shapes.show(frame.box);
    if (stale.has("base")) paintBase(this.base, store, frame);
    if (stale.has("labels")) {
      paintLabels(this.labels, store, frame, this.#changedLabels());
      this.paintedLabels = store.labels;
      this.paintedGrades = store.grades;
    }
    if (stale.has("arrows") && (store.arrows || this.drawnArrows.arrows.length)) this.drawnArrows = paintArrows(clearCanvas(this.arrows, frame), store, frame);
    if (stale.has("chosen")) {
      paintChosen(this.chosen, store, frame);
      this.chosen.style.zIndex = asDots(store, frame) ? "1" : "0"; // as dots, labels would hide it
    }
    if (stale.has("top")) paintTop(this.top, store, frame);
    stale.clear();
  }

  /** Numbers of the buildings whose label is painted wrongly; null if there are many. */
  #changedLabels() {
    const [before, now] = [this.paintedLabels, this.store.labels];
    if (!before || before.length !== now.length) return null;
    const changed = [];
    for (let i = 0; i < now.length; i++) if ((before[i] !== now[i] || this.paintedGrades[i] !== this.store.grades[i]) && changed.push(i) > FEW) return null;
    return changed;
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
}
