// Draws the dots of the scatter: a few as round sprites, many as blocks of pixels, too many as a heat of how many there are.

import { clearCanvas } from "./painter.js";
import { Raster, once, pixel, roundDot, strokes } from "./raster.js";

const FEW = 4000; // so many are drawn round, with a rim
const CELL_PX = 4;
const HEAT_COVER = 0.5; // dots of three pixels that would cover so much of the room are drawn as heat
const LIGHTEST = 0.22;
const DOTS_OVER_HEAT = 6000;

/** @returns numbers of the dots in view */
export function inView(xy, [minX, minY, maxX, maxY]) {
  const found = new Uint32Array(xy.length / 2);
  let n = 0;
  for (let i = 0, k = 0; k < xy.length; i++, k += 2) {
    if (xy[k] >= minX && xy[k] <= maxX && xy[k + 1] >= minY && xy[k + 1] <= maxY) found[n++] = i;
  }
  return found.subarray(0, n);
}

export function isCrowded(n, { width, height }) {
  return n * 9 > HEAT_COVER * width * height;
}

/**
 * @param dots {xy, colors: see `colorDots`, isChosen: Uint8Array, hasChosen, lit: code that is pointed at in the legend, or null}
 * @param theme see `themeOf`
 * @param how "auto", "dots" or "heat"
 * @returns how it was drawn, and how many dots are in view
 */
export function paintScatter(canvas, frame, dots, theme, how) {
  const context = clearCanvas(canvas, frame);
  const numbers = inView(dots.xy, frame.box);
  const isHeat = how === "heat" || (how === "auto" && isCrowded(numbers.length, frame));
  const { strong, weak } = sorted(numbers, dots);
  const size = sizeFor(numbers.length, frame);
  const isPart = dots.hasChosen || dots.lit !== null;
  const colors = isPart ? [theme.strong, ...dots.colors.palette.slice(1)] : dots.colors.palette;
  const faint = isPart ? dots.colors.palette.map(() => theme.faint) : colors;
  const parts = [[weak, faint], [strong, colors]];
  if (isHeat) {
    const few = strong.length <= DOTS_OVER_HEAT;
    const raster = new Raster(context, frame);
    for (const [members, palette] of few ? parts.slice(0, 1) : isPart ? parts : [[numbers, colors]]) paintHeat(raster, members, palette, dots, theme);
    raster.show();
    if (few) paintRound(context, frame, strong, colors, dots, theme, Math.max(5, size));
  } else if (numbers.length <= FEW) parts.forEach(([members, palette], part) => paintRound(context, frame, members, palette, dots, theme, size + part * isPart));
  else paintBlocks(context, frame, parts, dots, size);
  return { isHeat, n: numbers.length };
}

// What stands out is drawn over the rest: what is selected or pointed at; else what has a label, where labels are shown.
function sorted(numbers, { colors, isChosen, hasChosen, lit }) {
  const { codes } = colors;
  const isStrong = lit !== null ? (i) => codes[i] === lit : hasChosen ? (i) => isChosen[i] === 1 : colors.isRamp ? () => false : (i) => codes[i] !== colors.order[0];
  const parts = [[], []];
  for (const i of numbers) parts[isStrong(i) ? 1 : 0].push(i);
  return { weak: byCode(parts[0], colors), strong: byCode(parts[1], colors) };
}

function byCode(numbers, { codes, order }) {
  const members = order.map(() => []);
  const placeOf = new Uint8Array(256);
  order.forEach((code, place) => (placeOf[code] = place));
  for (const i of numbers) members[placeOf[codes[i]]].push(i);
  return members.flat();
}

function sizeFor(n, { width, height }) {
  return Math.max(3, Math.min(9, 0.3 * Math.sqrt((width * height) / Math.max(1, n))));
}

function paintBlocks(context, frame, parts, { xy, colors: { codes } }, size) {
  const raster = new Raster(context, frame);
  parts.forEach(([numbers, palette], part) => {
    const [pixels, side] = [palette.map((rgb) => pixel(rgb)), Math.round(size * raster.ratio) + part];
    for (const i of numbers) raster.block(raster.x(xy[2 * i]), raster.y(xy[2 * i + 1]), side, pixels[codes[i]]);
  });
  raster.show();
}

function paintRound(context, frame, numbers, palette, dots, theme, size) {
  const ratio = frame.pixelRatio;
  const pictures = palette.map((rgb) => sprite(rgb, theme.background, size, ratio));
  const scale = 1 / frame.resolution;
  const side = pictures[0].width / ratio;
  for (const i of numbers) {
    const picture = pictures[dots.colors.codes[i]];
    context.drawImage(picture, (dots.xy[2 * i] - frame.box[0]) * scale - side / 2, (dots.xy[2 * i + 1] - frame.box[1]) * scale - side / 2, side, side);
  }
}

// The mean color of the dots in a cell, the stronger the more there are.
function paintHeat(raster, numbers, palette, { xy, colors }, theme) {
  const side = CELL_PX * raster.ratio;
  const columns = Math.ceil(raster.width / side);
  const counts = new Uint32Array(columns * Math.ceil(raster.height / side));
  const sums = new Float32Array(3 * counts.length);
  for (const i of numbers) {
    const [x, y] = [raster.x(xy[2 * i]), raster.y(xy[2 * i + 1])];
    if (x < 0 || y < 0 || x >= raster.width || y >= raster.height) continue;
    const at = Math.floor(x / side) + columns * Math.floor(y / side);
    const rgb = palette[colors.codes[i]];
    counts[at]++;
    for (let band = 0; band < 3; band++) sums[3 * at + band] += rgb[band];
  }
  const most = Math.log1p(counts.reduce((a, b) => Math.max(a, b), 1));
  counts.forEach((n, at) => {
    if (!n) return;
    const share = LIGHTEST + (1 - LIGHTEST) * (Math.log1p(n) / most);
    const rgb = [0, 1, 2].map((band) => Math.round(theme.background[band] + share * (sums[3 * at + band] / n - theme.background[band])));
    raster.block((at % columns) * side + side / 2, Math.floor(at / columns) * side + side / 2, side, pixel(rgb));
  });
}

function sprite(rgb, rim, size, ratio) {
  return once(`sprite ${rgb} ${rim} ${size.toFixed(1)} ${ratio}`, () => roundDot(size + 2, size / 2, ratio, `rgb(${rgb})`, (context) => strokes(context, [`rgba(${rim},0.8)`, 0.8])));
}

/** What changes with the pointer: the dots of the building under it, and of the one that was clicked. */
export function paintMarks(canvas, frame, xy, marks) {
  const context = clearCanvas(canvas, frame);
  for (const { i, color } of marks) {
    const [x, y] = [(xy[2 * i] - frame.box[0]) / frame.resolution, (xy[2 * i + 1] - frame.box[1]) / frame.resolution];
    if (!(x > -10 && y > -10 && x < frame.width + 10 && y < frame.height + 10)) continue;
    context.beginPath();
    context.arc(x, y, 7, 0, 2 * Math.PI);
    strokes(context, ["rgba(0,0,0,0.75)", 5], [color, 2.4]);
  }
}
