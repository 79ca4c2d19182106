// Draws the dots of the scatter: a few as round sprites, many as blocks of pixels, and below them a shading of how dense they are.

import { clearCanvas } from "./painter.js";
import { Raster, once, pixel, roundDot, strokes } from "./raster.js";

const FEW = 4000; // so many are drawn round, with a rim
const MOST_RINGS = 3000; // more of them would hide what they are around
const [CELLS, REACH] = [192, 0.15]; // of the shading: cells a side, and room around all dots as a share of them
const [BLUR, PASSES] = [4, 3]; // cells to each side, so many times
const [LEVELS, ALPHA] = [5, 0.085]; // steps of the shading, and what each adds

/** @returns numbers of the dots in view */
export function inView(xy, [minX, minY, maxX, maxY]) {
  const found = new Uint32Array(xy.length / 2);
  let n = 0;
  for (let i = 0, k = 0; k < xy.length; i++, k += 2) {
    if (xy[k] >= minX && xy[k] <= maxX && xy[k + 1] >= minY && xy[k + 1] <= maxY) found[n++] = i;
  }
  return found.subarray(0, n);
}

/** Pixels across a dot where n of them are in view. */
export function sizeFor(n, [width, height]) {
  return Math.max(1.5, Math.min(9, 0.3 * Math.sqrt((width * height) / Math.max(1, n))));
}

/**
 * @param dots {xy, colors: see `colorDots`, isChosen: Uint8Array, hasChosen, lit: code that is pointed at in the legend, or null,
 *   isRinged: number => whether it has a ring}
 * @param theme see `themeOf`
 * @param size see `sizeFor`
 * @param every draw each `every`-th dot only
 */
export function paintScatter(canvas, frame, dots, theme, size, every = 1) {
  const context = clearCanvas(canvas, frame);
  const { numbers, nWeak } = sorted(dots, frame.box, every);
  const isPart = dots.hasChosen || dots.lit !== null;
  const { palette } = dots.colors;
  const parts = [[numbers.subarray(0, nWeak), isPart ? palette.map(() => theme.faint) : palette], [numbers.subarray(nWeak), [theme.strong, ...palette.slice(1)]]];
  if (numbers.length > FEW) paintBlocks(context, frame, parts, dots, size);
  else parts.forEach(([members, colors], part) => paintRound(context, frame, members, dots.xy, size + 2 + part, (i) => sprite(colors[dots.colors.codes[i]], theme.background, size + part, frame.pixelRatio)));
  const ringed = numbers.filter(dots.isRinged);
  const ring = once(`ring ${theme.ink} ${theme.background} ${size.toFixed(1)} ${frame.pixelRatio}`, () => roundDot(size + 8, size / 2 + 2, frame.pixelRatio, "transparent", (context) => strokes(context, [`rgba(${theme.background},0.9)`, 3], [`rgb(${theme.ink})`, 1.5])));
  if (ringed.length <= MOST_RINGS) paintRound(context, frame, ringed, dots.xy, size + 8, () => ring);
}

/**
 * Numbers of each `every`-th dot in view, as they are drawn: what is selected or pointed at comes last; else the order of the codes
 * decides. The first `nWeak` of them step back where something is.
 */
export function sorted({ xy, colors: { codes, order }, isChosen, hasChosen, lit }, [minX, minY, maxX, maxY], every) {
  const [placeOf, starts, keys] = [new Uint8Array(256), new Uint32Array(514), new Uint16Array(codes.length)];
  order.forEach((code, place) => (placeOf[code] = place));
  for (let i = 0; i < codes.length; i += every) {
    const [x, y] = [xy[2 * i], xy[2 * i + 1]];
    if (!(x >= minX && x <= maxX && y >= minY && y <= maxY)) continue;
    const isStrong = lit !== null ? codes[i] === lit : hasChosen && isChosen[i] === 1;
    keys[i] = 1 + placeOf[codes[i]] + (isStrong ? 256 : 0);
    starts[keys[i] + 1]++;
  }
  for (let key = 1; key < 513; key++) starts[key + 1] += starts[key];
  const [numbers, nWeak] = [new Uint32Array(starts[513]), starts[257]];
  for (let i = 0; i < codes.length; i += every) if (keys[i]) numbers[starts[keys[i]]++] = i;
  return { numbers, nWeak };
}

function paintBlocks(context, frame, parts, { xy, colors: { codes } }, size) {
  const raster = new Raster(context, frame);
  const { pixels, width, height, scale } = raster;
  parts.forEach(([numbers, palette], part) => {
    const [colors, side] = [palette.map((rgb) => pixel(rgb)), Math.round(size * raster.ratio) + part];
    for (let at = 0; at < numbers.length; at++) {
      const i = numbers[at];
      const left = Math.round((xy[2 * i] - raster.left) * scale - side / 2);
      const top = Math.round((xy[2 * i + 1] - raster.top) * scale - side / 2);
      if (left < 0 || top < 0 || left + side > width || top + side > height) continue; // out of sight, but for a pixel
      const color = colors[codes[i]];
      for (let row = top * width + left; row < (top + side) * width; row += width) for (let place = row; place < row + side; place++) pixels[place] = color;
    }
  });
  raster.show();
}

function paintRound(context, frame, numbers, xy, side, pictureOf) {
  for (const i of numbers) {
    const [x, y] = [(xy[2 * i] - frame.box[0]) / frame.resolution, (xy[2 * i + 1] - frame.box[1]) / frame.resolution];
    context.drawImage(pictureOf(i), x - side / 2, y - side / 2, side, side);
  }
}

function sprite(rgb, rim, size, ratio) {
  return once(`sprite ${rgb} ${rim} ${size.toFixed(1)} ${ratio}`, () => roundDot(size + 2, size / 2, ratio, `rgb(${rgb})`, (context) => strokes(context, [`rgba(${rim},0.8)`, 0.8])));
}

/** Draw how dense the dots are, once for all views: a small picture that the page makes larger. @returns [minX, minY, maxX, maxY] of what it shows */
export function paintDensity(canvas, xy, [minX, minY, maxX, maxY], rgb) {
  const side = (1 + 2 * REACH) * (Math.max(maxX - minX, maxY - minY) || 1);
  const [left, top] = [(minX + maxX - side) / 2, (minY + maxY - side) / 2];
  let counts = new Float32Array(CELLS * CELLS);
  for (let k = 0; k < xy.length; k += 2) if (xy[k] === xy[k]) counts[Math.floor(((xy[k] - left) / side) * CELLS) + CELLS * Math.floor(((xy[k + 1] - top) / side) * CELLS)]++;
  for (let pass = 0; pass < PASSES; pass++) for (const step of [1, CELLS]) counts = blurred(counts, step);
  const most = counts.reduce((a, b) => Math.max(a, b), 0);
  canvas.width = canvas.height = CELLS;
  const context = canvas.getContext("2d");
  const image = context.createImageData(CELLS, CELLS);
  new Uint32Array(image.data.buffer).set(Uint32Array.from(counts, (n) => n && pixel(rgb, ALPHA * Math.max(0, Math.ceil(LEVELS * Math.sqrt(n / most) - 0.3)))));
  context.putImageData(image, 0, 0);
  return [left, top, left + side, top + side];
}

// The mean of each cell and those up to BLUR before and after it, in one direction.
function blurred(counts, step) {
  return counts.map((_, at) => {
    let sum = 0;
    for (let k = -BLUR; k <= BLUR; k++) sum += counts[at + k * step] ?? 0;
    return sum;
  });
}

/** What changes with the pointer, and the outline of a group: rings of [x, y]. @param marks [{i, color}] */
export function paintMarks(canvas, frame, xy, marks, rings, theme) {
  const context = clearCanvas(canvas, frame);
  const at = ([x, y]) => [(x - frame.box[0]) / frame.resolution, (y - frame.box[1]) / frame.resolution];
  context.beginPath();
  for (const ring of rings) ring.forEach((point, k) => context[k ? "lineTo" : "moveTo"](...at(point))), context.closePath();
  strokes(context, [`rgba(${theme.background},0.85)`, 4], [`rgb(${theme.ink})`, 1.6, [6, 3]]);
  for (const { i, color } of marks) {
    context.beginPath();
    context.arc(...at([xy[2 * i], xy[2 * i + 1]]), 7, 0, 2 * Math.PI);
    strokes(context, ["rgba(0,0,0,0.75)", 5], [color, 2.4]);
  }
}
