// Draws footprints on canvases. Grid pixels in, colours out; knows nothing of OpenLayers.

import {
  LABEL_COLORS, NOT_ASSESSABLE, NOT_DAMAGED, POSITIVE, SCORE_STEPS, SELECTED, UNLABELED, scoreStep, stepAlpha, stepColor,
} from "./colors.js";
import { asCells, paintCells, paintDamageDots, paintDamageShapes, paintDamageSmall, paintTypes, paintUncertainty } from "./damage_painter.js";
import { Raster, hatch, patternOf, pixel, strokes, thinned } from "./raster.js";
import { paintLabelDots, paintPlainDots, paintScoreDots, paintSmall } from "./small_painter.js";

const DOT_BELOW_PX = 5; // buildings smaller than this on the screen are drawn as dots
const SMALL_BELOW_PX = 12; // and these pixel by pixel: so many of them are in view that paths would take too long
const PATH_CHUNK = 400; // Skia slows down on paths with more parts
const LABEL_REACH_PX = 4; // how far the line around a labelled building reaches beyond it

/** Where a canvas lies: grid pixel of its centre, grid pixels per screen pixel, its size on the screen. */
export function makeFrame(center, resolution, width, height, pixelRatio) {
  const half = [(width / 2) * resolution, (height / 2) * resolution];
  return {
    center, resolution, width, height, pixelRatio,
    box: [center[0] - half[0], center[1] - half[1], center[0] + half[0], center[1] + half[1]],
  };
}

/** An empty canvas of the frame's size, to be drawn on in screen pixels. */
export function clearCanvas(canvas, frame) {
  const [width, height] = [Math.round(frame.width * frame.pixelRatio), Math.round(frame.height * frame.pixelRatio)];
  if (canvas.width !== width || canvas.height !== height) {
    canvas.width = width;
    canvas.height = height;
    canvas.style.width = `${frame.width}px`;
    canvas.style.height = `${frame.height}px`;
  }
  const context = canvas.getContext("2d");
  context.setTransform(1, 0, 0, 1, 0, 0);
  context.clearRect(0, 0, width, height);
  context.setTransform(frame.pixelRatio, 0, 0, frame.pixelRatio, 0, 0); // from here on in screen pixels
  return context;
}

function trace(context, store, frame, i) {
  const scale = 1 / frame.resolution;
  const [left, top] = frame.box;
  for (const ring of store.rings(i)) {
    context.moveTo((ring[0] - left) * scale, (ring[1] - top) * scale);
    for (let k = 2; k < ring.length; k += 2) context.lineTo((ring[k] - left) * scale, (ring[k + 1] - top) * scale);
    context.closePath();
  }
}

function inChunks(context, store, frame, numbers, finish) {
  for (let from = 0; from < numbers.length; from += PATH_CHUNK) {
    context.beginPath();
    for (const i of numbers.slice(from, from + PATH_CHUNK)) trace(context, store, frame, i);
    finish();
  }
}

export function asDots(store, frame) {
  return !store.only && store.medianSize / frame.resolution < DOT_BELOW_PX;
}

function isSmall(store, frame) {
  return !store.only && store.medianSize / frame.resolution < SMALL_BELOW_PX;
}

/** Everything that a click does not change: outlines of all buildings, and their scores. */
export function paintBase(canvas, store, frame) {
  const context = clearCanvas(canvas, frame);
  if (!store.ready || !store.outlines) return;
  if (store.isFlagging && store.colorBy !== "scores") return paintFlagging(context, store, frame);
  const scored = store.colorBy === "scores" && store.scores;
  if (asDots(store, frame)) {
    if (scored) paintScoreDots(context, store, frame);
    else paintPlainDots(context, store, frame);
  } else if (isSmall(store, frame)) paintSmall(context, store, frame, scored);
  else paintLarge(context, store, frame, scored);
}

// The damage map; see damage_painter.js.
function paintFlagging(context, store, frame) {
  const cells = store.isCategorical && !store.isTyped && asCells(store, frame) && isSmall(store, frame);
  const kind = asDots(store, frame) ? "dots" : isSmall(store, frame) ? "small" : "large";
  const trace = (numbers, finish) => inChunks(context, store, frame, numbers, finish);
  if (store.isTyped) paintTypes(context, store, frame, kind, trace);
  else if (store.colorBy === "uncertainty") paintUncertainty(context, store, frame, kind, trace);
  else if (cells) return store.set("cells", paintCells(context, store, frame));
  else if (kind === "dots") paintDamageDots(context, store, frame);
  else if (kind === "small") paintDamageSmall(context, store, frame);
  else paintDamageShapes(context, store, frame, trace);
  store.set("cells", null);
}

function paintLarge(context, store, frame, scored) {
  const numbers = store.touching(frame.box);
  if (scored) paintScores(context, store, frame, numbers);
  const lines = [["rgba(0,0,0,0.45)", 2.8], [scored ? "rgba(255,255,255,0.5)" : "rgba(245,245,245,0.9)", 1.1]];
  inChunks(context, store, frame, numbers, () => strokes(context, ...lines));
}

function paintScores(context, store, frame, numbers) {
  const steps = Array.from({ length: 2 * SCORE_STEPS }, () => []);
  for (const i of numbers) {
    const score = store.score(i);
    if (score === null) continue;
    steps[scoreStep(store.shade(i, score)) + (store.isBelow(score) ? SCORE_STEPS : 0)].push(i);
  }
  steps.forEach((members, step) => {
    const at = step % SCORE_STEPS;
    context.fillStyle = stepColor(at, (step < SCORE_STEPS ? 0.85 : 0.22) * stepAlpha(at));
    inChunks(context, store, frame, members, () => context.fill("evenodd"));
  });
}

const hatchPattern = (context) => patternOf(context, "hatch", 7, (pen) => hatch(pen, 7, "rgba(235,235,235,0.95)", 1.5));

/** What changes with the pointer: hover, and the selected building, which keys act on. */
export function paintTop(canvas, store, frame) {
  const context = clearCanvas(canvas, frame);
  if (!store.ready) return;
  const { hovered, selected } = store;
  if (store.isOnMap(hovered) && hovered !== selected) ring(context, store, frame, hovered, "#ffffff", 2.4); // a click labels it, a key does not
  if (store.isOnMap(selected)) ring(context, store, frame, selected, SELECTED, 3.4);
}

/** What changes with clicks. `changed`: numbers of the buildings to paint anew; null for all. */
export function paintLabels(canvas, store, frame, changed = null) {
  if (changed && !asDots(store, frame) && !store.isCategorical) {
    for (const i of changed) repaintAround(canvas.getContext("2d"), store, frame, i);
    return;
  }
  const context = clearCanvas(canvas, frame);
  if (!store.ready || !store.outlines || store.isCategorical) return; // answers are among the categories
  if (asDots(store, frame)) paintLabelDots(context, store, frame);
  else paintLabelled(context, store, frame, frame.box);
}

// The lines of neighbours may reach into its box.
function repaintAround(context, store, frame, i) {
  const b = store.boxes;
  const margin = LABEL_REACH_PX * frame.resolution;
  const box = [b[4 * i] - margin, b[4 * i + 1] - margin, b[4 * i + 2] + margin, b[4 * i + 3] + margin];
  const [x, y] = [(box[0] - frame.box[0]) / frame.resolution, (box[1] - frame.box[1]) / frame.resolution];
  const [width, height] = [(box[2] - box[0]) / frame.resolution, (box[3] - box[1]) / frame.resolution];
  context.save();
  context.beginPath();
  context.rect(x, y, width, height);
  context.clip();
  context.clearRect(x, y, width, height);
  if (store.outlines) paintLabelled(context, store, frame, [box[0] - margin, box[1] - margin, box[2] + margin, box[3] + margin]);
  context.restore();
}

function paintLabelled(context, store, frame, box) {
  const members = [[], [], [], []];
  for (const i of store.touching(box)) if (store.labels[i] !== UNLABELED || store.isHidden(i)) members[store.labels[i]].push(i);
  paintObscured(context, store, frame, members[UNLABELED]);
  const filled = store.colorBy === "labels";
  for (const code of [NOT_ASSESSABLE, NOT_DAMAGED]) paintOutlines(context, store, frame, members[code], code, filled);
  paintDamaged(context, store, frame, members[POSITIVE], filled);
}

// Without a grade first; the worst last, so that it is on top.
function paintDamaged(context, store, frame, members, filled) {
  const byGrade = new Map();
  for (const i of members) (byGrade.get(store.grades[i]) ?? byGrade.set(store.grades[i], []).get(store.grades[i])).push(i);
  const numbers = [...byGrade.keys()].sort((a, b) => (a && b ? b - a : a - b));
  for (const number of numbers) paintOutlines(context, store, frame, byGrade.get(number), POSITIVE, filled, number);
}

// What the imagery hides and nobody answered: gray, less than an answer would be.
function paintObscured(context, store, frame, members) {
  const small = isSmall(store, frame);
  inChunks(context, store, frame, members, () => {
    context.fillStyle = "rgba(70,74,82,0.55)";
    context.fill("evenodd");
    if (!small) {
      context.globalAlpha = 0.5;
      context.fillStyle = hatchPattern(context);
      context.fill("evenodd");
      context.globalAlpha = 1;
    }
    strokes(context, ["#c4c7cc", 1.6, small ? [] : [2, 3]]);
  });
}

const DASHES = { cross: [], slash: [8, 3], dots: [2, 3] }; // of the line around a graded building
function gradePattern(context, name, color) {
  return patternOf(context, `${name} ${color}`, 8, (pen) => {
    pen.fillStyle = color;
    if (name === "dots") for (const at of [1, 5]) pen.fillRect(at, at, 2, 2);
    else hatch(pen, 8, color, 1.8);
    if (name === "cross") hatch(pen, 8, color, 1.8, true);
  });
}

function paintOutlines(context, store, frame, members, code, filled, grade = 0) {
  const pattern = store.scale.pattern(grade);
  const color = code === POSITIVE ? store.scale.color(grade) : LABEL_COLORS[code];
  inChunks(context, store, frame, members, () => {
    if (filled) {
      context.globalAlpha = code === NOT_ASSESSABLE ? 0.7 : 0.42;
      context.fillStyle = code === NOT_ASSESSABLE ? hatchPattern(context) : color;
      context.fill("evenodd");
      context.globalAlpha = 1;
      if (pattern) {
        context.fillStyle = gradePattern(context, pattern, color);
        context.fill("evenodd");
      }
    }
    if (code === NOT_ASSESSABLE) strokes(context, ["rgba(20,20,20,0.8)", 4.2], ["#e8e8e8", 2.4, [5, 4]]);
    else strokes(context, ["rgba(255,255,255,0.85)", 4.2], [color, 2.4, DASHES[pattern]]);
  });
}

function ring(context, store, frame, i, color, width) {
  context.beginPath();
  if (asDots(store, frame)) {
    const [x, y] = store.center(i);
    context.arc((x - frame.box[0]) / frame.resolution, (y - frame.box[1]) / frame.resolution, 7, 0, 2 * Math.PI);
  } else trace(context, store, frame, i);
  context.lineJoin = "round";
  strokes(context, ["rgba(0,0,0,0.75)", width + 2], [color, width]);
}

// What is selected together: a pink line around each building below its label, or a pink dot above it.
const CELL_PX = 5; // one dot in so many pixels is enough; more would hide the picture
const [DOT_PX, SMALL_PX, RIM_PX] = [4, 3, 1];
const MANY = 1500; // dots in view, which are drawn small then
const [THINNEST, THICKEST] = [2, 6];
const AROUND_LABEL = 7.5; // visible on both sides of the line of a label
const [PINK, DARK] = [pixel([255, 77, 184]), pixel([20, 20, 20], 0.85)];

/** @param canvas of the frame's size; see `FootprintLayer` */
export function paintChosen(canvas, store, frame) {
  const context = clearCanvas(canvas, frame);
  if (!store.ready || !store.chosen.length) return;
  const numbers = store.touching(frame.box).filter((i) => store.isChosen[i]);
  if (asDots(store, frame)) paintDots(context, store, frame, numbers);
  else paintLines(context, store, frame, numbers);
}

function paintDots(context, store, frame, numbers) {
  const raster = new Raster(context, frame);
  const places = thinned(raster, store, numbers, CELL_PX);
  const side = numbers.length > MANY ? SMALL_PX : DOT_PX;
  for (const [x, y] of places) raster.block(x, y, Math.round((side + 2 * RIM_PX) * raster.ratio), DARK);
  for (const [x, y] of places) raster.block(x, y, Math.round(side * raster.ratio), PINK);
  raster.show();
}

function paintLines(context, store, frame, numbers) {
  const width = Math.max(THINNEST, Math.min(THICKEST, (0.25 * store.medianSize) / frame.resolution));
  const isLabeled = (i) => store.labels[i] !== UNLABELED;
  const parts = [[numbers.filter((i) => !isLabeled(i)), width], [numbers.filter(isLabeled), Math.max(width, AROUND_LABEL)]];
  context.lineJoin = "round";
  for (const [members, wide] of parts) {
    for (const line of [["rgba(0,0,0,0.75)", wide + 2], [SELECTED, wide]]) inChunks(context, store, frame, members, () => strokes(context, line));
  }
}
