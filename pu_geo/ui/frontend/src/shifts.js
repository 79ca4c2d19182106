// The shift between pre and post at each building, and its arrow: from where pre shows it to where it is in post.

import { CIVIDIS, CIVIDIS_CSS } from "./colors.js";
import { h } from "./dom.js";
import { strokes } from "./raster.js";
import { TEXTS } from "./texts.js";

const NOT_MEASURED = -32768; // one date does not show the building
const CELL_PX = 48; // zoomed out, all arrows within a cell of so many screen pixels are one
const OWN_ARROW_PX = 24; // buildings larger than this on the screen have an arrow each
const USUAL_PX = 60; // most arrows are drawn about so long
const LEAST_TYPICAL_M = 0.1;

export const BYTES_PER_SHIFT = 5;

/**
 * @param buffer int16 [n, 2] centimetres to the east and north, then uint8 [n] quality in hundredths
 * @param perPx [metres to the east per column, to the north per row] of each site
 */
export function decodeShifts(buffer, perPx) {
  const n = buffer.byteLength / BYTES_PER_SHIFT;
  const shifts = { n, perPx, cm: new Int16Array(buffer, 0, 2 * n), quality: new Uint8Array(buffer, 4 * n, n), longest: 0, typical: LEAST_TYPICAL_M };
  const lengths = [];
  for (let i = 0; i < n; i++) if (shifts.quality[i]) lengths.push(lengthOf(shifts, i));
  lengths.sort((a, b) => a - b);
  if (lengths.length) {
    shifts.longest = lengths.at(-1);
    shifts.typical = Math.max(LEAST_TYPICAL_M, lengths[Math.floor(0.95 * (lengths.length - 1))]);
  }
  return shifts;
}

function isMeasured({ cm }, i) {
  return cm[2 * i] !== NOT_MEASURED;
}

/** Metres. */
function lengthOf({ cm }, i) {
  return Math.hypot(cm[2 * i], cm[2 * i + 1]) / 100;
}

/** In words; null where nothing is known. */
export function shiftText(shifts, i) {
  if (!shifts || i >= shifts.n || !isMeasured(shifts, i)) return null;
  if (!shifts.quality[i]) return TEXTS.cannotAlign;
  const [east, north] = [shifts.cm[2 * i] / 100, shifts.cm[2 * i + 1] / 100];
  return TEXTS.shift(lengthOf(shifts, i), east, north, shifts.quality[i] / 100);
}

/** How many times too long arrows are drawn, so that they are visible: 1, 2, 5, 10, 20 … */
export function exaggeration({ shifts, site }, resolution) {
  const wanted = (USUAL_PX * resolution * Math.abs(shifts.perPx[site][0])) / shifts.typical;
  if (!(wanted > 1)) return 1;
  const unit = 10 ** Math.floor(Math.log10(wanted));
  return [5, 2, 1].map((times) => times * unit).find((each) => each <= wanted);
}

/**
 * The arrows of a frame (see `makeFrame`).
 * @returns [{x, y: where the building is, dx, dy: the shift, all in grid pixels, quality: 0 to 1 (0 where it failed), n: of so many buildings}]
 */
export function arrowsIn(store, frame) {
  const { shifts } = store;
  const side = store.medianSize / frame.resolution >= OWN_ARROW_PX ? 0 : CELL_PX * frame.resolution;
  const [minX, minY, maxX, maxY] = frame.box;
  const [column0, row0] = side ? [Math.floor(minX / side), Math.floor(minY / side)] : [0, 0];
  const columns = side ? Math.floor(maxX / side) - column0 + 1 : 0;
  const sums = new Map(); // per cell: x, y, dx, dy, quality of those that were aligned, how many; x, y of the others, how many
  const b = store.boxes;
  for (let i = 0, k = 0; i < Math.min(store.n, shifts.n); i++, k += 4) {
    const [x, y] = [(b[k] + b[k + 2]) / 2, (b[k + 1] + b[k + 3]) / 2];
    if (x < minX || y < minY || x > maxX || y > maxY || !store.isOnMap(i) || !isMeasured(shifts, i)) continue;
    const cell = side ? Math.floor(x / side) - column0 + columns * (Math.floor(y / side) - row0) : i;
    let sum = sums.get(cell);
    if (!sum) sums.set(cell, (sum = new Float64Array(9)));
    add(sum, shifts, i, x, y);
  }
  return Array.from(sums.values(), (sum) => meanOf(sum, shifts.perPx[store.site]));
}

function add(sum, { cm, quality }, i, x, y) {
  if (!quality[i]) {
    sum[6] += x;
    sum[7] += y;
    sum[8] += 1;
    return;
  }
  [x, y, cm[2 * i], cm[2 * i + 1], quality[i], 1].forEach((value, at) => (sum[at] += value));
}

function meanOf([x, y, east, north, quality, known, failedX, failedY, failed], perPx) {
  if (!known) return { x: failedX / failed, y: failedY / failed, dx: 0, dy: 0, quality: 0, n: failed };
  return { x: x / known, y: y / known, dx: east / known / 100 / perPx[0], dy: north / known / 100 / perPx[1], quality: quality / known / 100, n: known };
}

// ---- drawing ----

const HEAD_PX = 8;
const SHORTEST_PX = 4; // below it an arrow would be all head
const DOT_PX = 4;

/** @returns the arrows that were drawn, see `arrowsIn`, and by how much they are too long */
export function paintArrows(context, store, frame) {
  if (!store.ready || !store.arrows || !store.shifts) return { arrows: [], times: 1 };
  const times = exaggeration(store, frame.resolution);
  const arrows = arrowsIn(store, frame);
  const place = (x, y) => [(x - frame.box[0]) / frame.resolution, (y - frame.box[1]) / frame.resolution];
  context.lineCap = context.lineJoin = "round";
  for (const arrow of [...arrows].sort((a, b) => a.quality - b.quality)) {
    const head = place(arrow.x, arrow.y);
    const tail = place(arrow.x - times * arrow.dx, arrow.y - times * arrow.dy);
    if (!arrow.quality) paintFailed(context, head);
    else paintArrow(context, tail, head, arrow.quality);
  }
  return { arrows, times };
}

function paintFailed(context, [x, y]) {
  context.beginPath();
  context.arc(x, y, DOT_PX, 0, 2 * Math.PI);
  strokes(context, ["rgba(255,255,255,0.9)", 4], ["#111", 1.8]);
}

function paintArrow(context, tail, head, quality) {
  const step = Math.min(CIVIDIS.length - 1, Math.floor(quality * CIVIDIS.length));
  const halo = step < CIVIDIS.length / 2 ? "rgba(255,255,255,0.9)" : "rgba(0,0,0,0.8)";
  const [dx, dy] = [head[0] - tail[0], head[1] - tail[1]];
  const length = Math.hypot(dx, dy);
  const isDot = length < SHORTEST_PX;
  context.beginPath();
  if (isDot) context.arc(...head, 1.5, 0, 2 * Math.PI);
  else traceArrow(context, tail, head, [dx / length, dy / length], Math.min(HEAD_PX, 0.6 * length));
  strokes(context, [halo, 4.4], [CIVIDIS[step], 2.2]);
}

function traceArrow(context, tail, head, [ux, uy], size) {
  context.moveTo(...tail);
  context.lineTo(...head);
  for (const side of [-0.5, 0.5]) {
    context.moveTo(head[0] - size * (ux + side * uy), head[1] - size * (uy - side * ux));
    context.lineTo(...head);
  }
}

export function arrowLegend(store, resolution) {
  if (!store.arrows || !store.shifts) return [];
  const { longest } = store.shifts;
  const failed = h("div.entry", {}, h("i.failed"), TEXTS.map.failed);
  if (!longest) return [h("div.rampbox.arrowbox", {}, h("b", {}, TEXTS.map.arrows), failed)];
  const title = TEXTS.map.arrowScale(exaggeration(store, resolution), longest);
  const bar = h("div.ramp", { style: `background:${CIVIDIS_CSS}` });
  return [h("div.rampbox.arrowbox", {}, h("b", {}, title), bar, h("div.rampends", {}, h("span", {}, TEXTS.map.lowQuality), h("span", {}, TEXTS.map.highQuality)), failed)];
}
