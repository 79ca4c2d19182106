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
import { HandLine } from "./hand_line.js";

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
const FEWEST_POINTS = 4; // fewer are a slip of the hand

class Lasso extends PointerInteraction {
  /** @param done ([[x, y], ...] in map coordinates) */
  constructor(done) {
    super();
    Object.assign(this, { done, line: new HandLine() });
  }

  handleDownEvent(event) {
    if (!altKeyOnly(event) || !mouseActionButton(event)) return false;
    event.map.getViewport().append(this.line.root);
    this.line.start(event.pixel);
    return true;
  }

  handleDragEvent({ pixel }) {
    this.line.add(pixel);
  }

  handleUpEvent({ map }) {
    const { points } = this.line;
    this.line.end();
    if (points.length >= FEWEST_POINTS) this.done(points.map((point) => map.getCoordinateFromPixel(point)));
    return false;
  }
}

/** Weights of equally spaced nodes for a place between 0 (first) and 1 (last): Lagrange's polynomial through all of them. */
function weights(n, at) {
  return Array.from({ length: n }, (_, k) => {
    let weight = 1;
    for (let j = 0; j < n; j++) if (j !== k) weight *= (at * (n - 1) - j) / (k - j);
    return weight;
  });
}

/** The inverse of `lonLatAt`, to a centimetre: [x, y] in pixels; null for a place that is not on the grid. */
export function gridAt(nodes, grid, lon, lat) {
  let place = grid.map((side) => side / 2);
  for (let k = 0; nodes && k < 20; k++) { // Newton's steps
    const [[east, north], ...next] = [[0, 0], [1, 0], [0, 1]].map(([x, y]) => lonLatAt(nodes, grid, place[0] + x, place[1] + y));
    const [[a, b], [c, d], [e, f]] = [[lon, lat], ...next].map((to) => [((to[0] - east + 540) % 360) - 180, to[1] - north]);
    if (Math.hypot(a, b) < 1e-7) return place;
    const steps = [a * f - e * b, c * b - a * d];
    place = place.map((at, axis) => Math.max(0, Math.min(grid[axis], at + steps[axis] / (c * f - e * d))));
  }
  return null;
}

/**
 * @param nodes {n, lon, lat}: n x n nodes row by row, evenly over the grid with its borders; degrees, without a jump at 180
 * @param grid [width, height] in pixels
 * @returns [lon, lat] in degrees, or null for a project without a place on the Earth
 */
export function lonLatAt(nodes, grid, x, y) {
  if (!nodes) return null;
  const { n, lon, lat } = nodes;
  const [across, down] = [weights(n, x / grid[0]), weights(n, y / grid[1])];
  let [east, north] = [0, 0];
  for (let row = 0; row < n; row++) {
    for (let column = 0; column < n; column++) {
      const weight = down[row] * across[column];
      east += weight * lon[row * n + column];
      north += weight * lat[row * n + column];
    }
  }
  return [((((east + 180) % 360) + 360) % 360) - 180, north];
}
