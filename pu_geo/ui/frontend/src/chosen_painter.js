// Draws on the map what is selected together: a yellow line around each building below its label, or a yellow dot above it.

import { SELECTED, UNLABELED } from "./colors.js";
import { asDots, begin, inChunks, within } from "./painter.js";
import { Raster, pixel } from "./raster.js";

const CELL_PX = 5; // one dot in so many pixels is enough; more would hide the picture
const [DOT_PX, SMALL_PX, RIM_PX] = [4, 3, 1];
const MANY = 1500; // dots in view, which are drawn small then
const [THINNEST, THICKEST] = [2, 6];
const AROUND_LABEL = 7.5; // seen on both sides of the line of a label
const [YELLOW, DARK] = [pixel([240, 228, 66]), pixel([20, 20, 20], 0.85)];

/** @param canvas of the frame's size; see `FootprintLayer` */
export function paintChosen(canvas, store, frame) {
  const context = begin(canvas, frame);
  if (!store.ready || !store.chosen.length) return;
  const numbers = within(store, frame.box).filter((i) => store.isChosen[i]);
  if (asDots(store, frame)) paintDots(context, store, frame, numbers);
  else paintLines(context, store, frame, numbers);
}

function paintDots(context, store, frame, numbers) {
  const raster = new Raster(context, frame);
  const cell = CELL_PX * raster.ratio;
  const columns = Math.ceil(raster.width / cell);
  const taken = new Uint8Array(columns * Math.ceil(raster.height / cell));
  const places = [];
  for (const i of numbers) {
    const [gridX, gridY] = store.center(i);
    const [x, y] = [raster.x(gridX), raster.y(gridY)];
    const at = Math.floor(x / cell) + columns * Math.floor(y / cell);
    if (x < 0 || y < 0 || x >= raster.width || y >= raster.height || taken[at]) continue;
    taken[at] = 1;
    places.push([x, y]);
  }
  const side = numbers.length > MANY ? SMALL_PX : DOT_PX;
  for (const [x, y] of places) raster.block(x, y, Math.round((side + 2 * RIM_PX) * raster.ratio), DARK);
  for (const [x, y] of places) raster.block(x, y, Math.round(side * raster.ratio), YELLOW);
  raster.show();
}

function paintLines(context, store, frame, numbers) {
  const width = Math.max(THINNEST, Math.min(THICKEST, (0.25 * store.medianSize) / frame.resolution));
  const isLabeled = (i) => store.labels[i] !== UNLABELED;
  const parts = [[numbers.filter((i) => !isLabeled(i)), width], [numbers.filter(isLabeled), Math.max(width, AROUND_LABEL)]];
  context.lineJoin = "round";
  for (const [members, wide] of parts) {
    for (const [more, color] of [[2, "rgba(0,0,0,0.75)"], [0, SELECTED]]) {
      context.lineWidth = wide + more;
      context.strokeStyle = color;
      inChunks(context, store, frame, members, () => context.stroke());
    }
  }
}
