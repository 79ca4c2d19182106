// What OpenLayers needs to show two quicklook pyramids in pixels of the project grid. The grid counts downwards, the map up.

import Map from "ol/Map.js";
import View from "ol/View.js";
import TileLayer from "ol/layer/Tile.js";
import Projection from "ol/proj/Projection.js";
import XYZ from "ol/source/XYZ.js";
import TileGrid from "ol/tilegrid/TileGrid.js";
import { altKeyOnly, mouseActionButton } from "ol/events/condition.js";
import DragBox from "ol/interaction/DragBox.js";
import PointerInteraction from "ol/interaction/Pointer.js";
import { defaults as defaultInteractions } from "ol/interaction/defaults.js";

const shiftDrag = ({ originalEvent: { shiftKey, altKey } }) => shiftKey && !altKey;
/** A box of the grid, as OpenLayers has it. */
export const extentOf = ([left, top, right, bottom]) => [left, -bottom, right, -top];

export const projectionOf = ([width, height]) => new Projection({ code: "grid-pixels", units: "pixels", extent: extentOf([0, 0, width, height]) });

/** @param box that the map cannot leave */
export function makeView(projection, box) {
  return new View({
    projection, extent: extentOf(box), constrainOnlyCenter: true, showFullExtent: true, enableRotation: false,
    minResolution: 1 / 8, maxResolution: Math.max(box[2] - box[0], box[3] - box[1]) / 200, smoothExtentConstraint: false, constrainResolution: false,
  });
}

/** The pictures of one date. */
export function makeSource({ name, max_zoom, v }, { token, base, grid }, projection) {
  const resolutions = Array.from({ length: max_zoom + 1 }, (_, z) => 2 ** (max_zoom - z));
  const url = (z, x, y) => `${base}/${token}/tiles/${name}/${z}/${x}/${y}.jpg?v=${v ?? ""}`;
  return new XYZ({
    projection,
    tileGrid: new TileGrid({ origin: [0, 0], resolutions, tileSize: 256, extent: extentOf([0, 0, ...grid]) }),
    tileUrlFunction: ([z, x, y]) => url(z, x, y),
    transition: 0,
    interpolate: false,
    wrapX: false,
  });
}

export function makeImagery(name, source) {
  return new TileLayer({ source, preload: 1, className: `image-${name}` });
}

/** @param marked ({box} or {polygon} in grid pixels, adds: whether Ctrl was held) */
export function makeMap(layers, marked) {
  const box = new DragBox({ condition: shiftDrag, className: "dragbox" });
  box.on("boxend", ({ mapBrowserEvent: { originalEvent } }) => {
    const [minX, minY, maxX, maxY] = box.getGeometry().getExtent();
    marked({ box: [minX, -maxY, maxX, -minY] }, originalEvent.ctrlKey || originalEvent.metaKey);
  });
  const lasso = new Lasso((points) => marked({ polygon: points.map(([x, y]) => [x, -y]) }));
  return new Map({
    layers,
    controls: [],
    // Double-click zoom would eat every second of two fast clicks.
    interactions: defaultInteractions({ doubleClickZoom: false, keyboard: false, altShiftDragRotate: false, pinchRotate: false, shiftDragZoom: false }).extend([box, lasso]),
    moveTolerance: 4,
  });
}

// Alt + drag: a line drawn by hand around buildings.
const SVG = "http://www.w3.org/2000/svg";
const STEP_PX = 3;
const FEWEST_POINTS = 4; // fewer are a slip of the hand

class Lasso extends PointerInteraction {
  /** @param done ([[x, y], ...] in map coordinates) */
  constructor(done) {
    super();
    this.done = done;
    this.line = document.createElementNS(SVG, "polygon");
    this.picture = document.createElementNS(SVG, "svg");
    this.picture.classList.add("lasso");
    this.picture.append(this.line);
  }

  handleDownEvent(event) {
    if (!altKeyOnly(event) || !mouseActionButton(event)) return false;
    this.points = [];
    this.pixels = [];
    event.map.getViewport().append(this.picture);
    this.#add(event);
    return true;
  }

  handleDragEvent(event) {
    const [x, y] = this.pixels.at(-1);
    if (Math.hypot(event.pixel[0] - x, event.pixel[1] - y) >= STEP_PX) this.#add(event);
  }

  handleUpEvent() {
    this.picture.remove();
    if (this.points.length >= FEWEST_POINTS) this.done(this.points);
    return false;
  }

  #add({ pixel, coordinate }) {
    this.points.push(coordinate);
    this.pixels.push(pixel);
    this.line.setAttribute("points", this.pixels.map((each) => each.join(",")).join(" "));
  }
}
