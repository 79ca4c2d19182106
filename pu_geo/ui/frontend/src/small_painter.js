// Draws buildings at low zoom, where up to 100,000 of them are in view: as dots, and as plain outlines a little further in.

import { LABEL_COLORS, NOT_ASSESSABLE, NOT_DAMAGED, POSITIVE, SCORE_STEPS, UNLABELED, scoreStep, stepAlpha, stepRgb } from "./colors.js";
import { Raster, once, pixel, roundDot, stampOf, strokes, thinned } from "./raster.js";

const CELL_PX = 4; // one plain dot in so many screen pixels is enough; more would hide the picture
const SHADOW = pixel([0, 0, 0], 0.45);
const [OBSCURED, OBSCURED_EDGE] = [pixel([150, 153, 160]), pixel([40, 43, 48])]; // what the imagery hides
const DOT_RADIUS_PX = 4;
const BELOW_ALPHA = 0.3; // of scores below the threshold

/** Without scores: where buildings are. */
export function paintPlainDots(context, store, frame) {
  const raster = new Raster(context, frame);
  const side = Math.round(2 * raster.ratio);
  const [dot, shadow] = [pixel([250, 250, 250], 0.6), pixel([0, 0, 0], 0.3)];
  for (const [x, y] of thinned(raster, store, store.touching(frame.box), CELL_PX)) {
    raster.block(x + side / 2, y + side / 2, side, shadow);
    raster.block(x, y, side, dot);
  }
  raster.show();
}

/** Lowest first, so that high scores end on top of the crowd. */
export function paintScoreDots(context, store, frame) {
  const raster = new Raster(context, frame);
  const side = Math.max(3, Math.min(6, (store.medianSize / frame.resolution) * 1.3)) * raster.ratio;
  const [full, faint] = stepPixels(1, BELOW_ALPHA);
  const b = store.boxes;
  for (const i of store.byScore) {
    const score = store.score(i);
    if (score === null || !store.isOnMap(i)) continue;
    const [x, y] = [raster.x((b[4 * i] + b[4 * i + 2]) / 2), raster.y((b[4 * i + 1] + b[4 * i + 3]) / 2)];
    const below = store.isBelow(score);
    raster.block(x, y, Math.round(below ? Math.max(2 * raster.ratio, side - 1.5 * raster.ratio) : side), (below ? faint : full)[scoreStep(store.shade(i, score))]);
  }
  raster.show();
}

/** Thin outlines with a shadow, filled by score. */
export function paintSmall(context, store, frame, scored) {
  const raster = new Raster(context, frame);
  const [full, faint] = stepPixels(0.85, 0.22);
  const line = pixel([245, 245, 245], scored ? 0.5 : 0.85);
  const b = store.boxes;
  for (const i of store.touching(frame.box)) {
    const [rings, k] = [store.rings(i), 4 * i];
    raster.outline(rings, SHADOW, 1);
    const score = scored ? store.score(i) : null;
    if (score !== null) {
      raster.fill(rings, b.subarray(k, k + 4), (store.isBelow(score) ? faint : full)[scoreStep(store.shade(i, score))]);
    }
    raster.outline(rings, line);
  }
  raster.show();
}

/** Positives last, so that none is hidden. */
export function paintLabelDots(context, store, frame) {
  const raster = new Raster(context, frame);
  const b = store.boxes;
  const members = [[], [], [], []];
  for (let i = 0; i < store.n; i++) if (store.labels[i] !== UNLABELED && store.isOnMap(i)) members[store.labels[i]].push(i);
  for (const i of store.hidden.keys()) {
    if (!store.isHidden(i) || !store.isOnMap(i)) continue;
    const [x, y] = [raster.x((b[4 * i] + b[4 * i + 2]) / 2), raster.y((b[4 * i + 1] + b[4 * i + 3]) / 2)];
    raster.block(x, y, 6 * raster.ratio, OBSCURED_EDGE);
    raster.block(x, y, 4 * raster.ratio, OBSCURED);
  }
  for (const code of [NOT_ASSESSABLE, NOT_DAMAGED, POSITIVE]) {
    const graded = code === POSITIVE ? members[code].sort((i, j) => Number(store.grades[i] > 0) - Number(store.grades[j] > 0) || store.grades[j] - store.grades[i]) : members[code];
    for (const i of graded) raster.stamp(raster.x((b[4 * i] + b[4 * i + 2]) / 2), raster.y((b[4 * i + 1] + b[4 * i + 3]) / 2), labelDot(code, frame.pixelRatio, store.scale, code === POSITIVE ? store.grades[i] : 0));
  }
  raster.show();
}

function stepPixels(...alphas) {
  return alphas.map((alpha) => Array.from({ length: SCORE_STEPS }, (_, step) => pixel(stepRgb(step), alpha * stepAlpha(step))));
}

function labelDot(code, ratio, scale, grade) {
  const [color, pattern] = [code === POSITIVE ? scale.color(grade) : LABEL_COLORS[code], scale.pattern(grade)];
  return once(`label ${code} ${ratio} ${color} ${pattern}`, () => drawLabelDot(code, ratio, color, pattern));
}

function drawLabelDot(code, ratio, color, pattern) {
  return stampOf(roundDot(2 * DOT_RADIUS_PX + 2, DOT_RADIUS_PX, ratio, color, (context, middle, circle) => {
    paintGradeMark(context, middle, pattern);
    circle();
    strokes(context, ["rgba(255,255,255,0.95)", 1.4, code === NOT_ASSESSABLE ? [2, 2] : undefined]);
  }));
}

// A cross, a line or a dot inside, as fills have them on larger buildings.
function paintGradeMark(context, middle, pattern) {
  context.save();
  context.strokeStyle = context.fillStyle = pattern === "dots" ? "#3d1500" : "#ffffff";
  context.lineWidth = 1.3;
  context.beginPath();
  const reach = DOT_RADIUS_PX * 0.55;
  if (pattern === "cross" || pattern === "slash") context.moveTo(middle - reach, middle + reach), context.lineTo(middle + reach, middle - reach);
  if (pattern === "cross") context.moveTo(middle - reach, middle - reach), context.lineTo(middle + reach, middle + reach);
  if (pattern) context.stroke();
  if (pattern === "dots") context.fillRect(middle - 1, middle - 1, 2, 2);
  context.restore();
}
