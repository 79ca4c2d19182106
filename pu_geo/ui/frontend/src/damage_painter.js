// Draws the damage map: categories as exports and reports have them, nearness to the threshold, and cells where buildings are many.

import { LABEL_COLORS, NOT_DAMAGED, rgbOf } from "./colors.js";
import { BELOW, CONFIRMED, FLAGGED, NEAR, UNKNOWN, categoryOf, countFrom, openScores, typesOf, uncertaintyOf } from "./flagging.js";
import { Raster, hatch, once, patternOf, pixel, roundDot, stampOf, strokes } from "./raster.js";

// The same as in `geo/export/styles.py` and `geo/export/report_map.py`.
export const CATEGORY_COLORS = ["#D55E00", "#E69F00", "#B4B4B4", "#8a8a8a"];
export const CELL_RAMP = ["#FEE391", "#FE9929", "#CC4C02", "#662506"];
export const CELL_NONE = "#CFD6DE";
export const MOST_SINGLY = 12_000; // buildings in view; beyond it cells are drawn
// RdPu of ColorBrewer, nearest first.
export const NEAR_COLORS = ["#C51B8A", "#F768A1", "#FA9FB5", "#FCC5C0", "#FEEBE2"];
const NEAR_ALPHA = [0.95, 0.85, 0.7, 0.5, 0.25];
const CELL_PX = 15;
const NEAR_FROM_PX = 70; // buildings larger than this are looked at one by one
const CELL_OPACITY = 0.8;
const [SHADOW, LINE, WHITE] = [pixel([0, 0, 0], 0.55), pixel([30, 30, 30], 0.9), pixel([255, 255, 255], 0.95)];

/** Numbers in view by category. */
function byCategory(store, frame) {
  const members = [[], [], [], []];
  for (const i of store.touching(frame.box)) members[categoryOf(store, i)].push(i);
  return members;
}

// ---- low zoom ----

/** As dots: damage on top, and in another shape. */
export function paintDamageDots(context, store, frame) {
  const raster = new Raster(context, frame);
  const members = byCategory(store, frame);
  const { ratio } = raster;
  const size = Math.max(3, Math.min(5, store.medianSize / frame.resolution)) * ratio;
  const at = (i) => [raster.x((store.boxes[4 * i] + store.boxes[4 * i + 2]) / 2), raster.y((store.boxes[4 * i + 1] + store.boxes[4 * i + 3]) / 2)];
  const below = pixel(rgbOf(CATEGORY_COLORS[BELOW]), 0.9);
  for (const i of members[BELOW]) block(raster, at(i), size, below, SHADOW);
  for (const i of members[UNKNOWN]) cross(raster, at(i), Math.round(size + 2 * ratio));
  for (const category of [FLAGGED, CONFIRMED]) {
    const picture = dot(category, ratio, members[category].length);
    for (const i of members[category]) raster.stamp(...at(i), picture);
  }
  raster.show();
}

function block(raster, [x, y], size, color, edge) {
  raster.block(x, y, Math.round(size + 2 * raster.ratio), edge);
  raster.block(x, y, Math.round(size), color);
}

// A grey square with a line through it.
function cross(raster, [x, y], side) {
  raster.block(x, y, side, pixel([70, 74, 82]));
  for (let k = 1; k < side - 1; k++) raster.block(x - side / 2 + k + 0.5, y + side / 2 - k - 0.5, 1, WHITE);
}

function dot(category, ratio, n) {
  const radius = n > 1500 ? 3 : 4.5;
  return once(`category ${category} ${ratio} ${radius}`, () => drawDot(category, ratio, radius));
}

function drawDot(category, ratio, radius) {
  const isFlagged = category === FLAGGED;
  return stampOf(roundDot(2 * radius + 3, radius, ratio, CATEGORY_COLORS[category], (context, middle, circle) => {
    if (isFlagged) {
      context.save();
      context.clip();
      context.beginPath();
      context.moveTo(0, 2 * middle);
      context.lineTo(2 * middle, 0);
      strokes(context, ["rgba(20,20,20,0.85)", 1.3]); // one dark line: a hatch that small dots have room for
      context.restore();
    }
    circle();
    strokes(context, [isFlagged ? "rgba(20,20,20,0.9)" : "rgba(255,255,255,0.95)", 1.2]);
  }));
}

/** Smallest of 1, 2, 5, 10, 20, ... (and tenths) that is at least `length`. As `report_map.round_length`. */
export function roundLength(length) {
  const power = 10 ** Math.floor(Math.log10(length));
  return [1, 2, 5, 10].map((step) => step * power).find((each) => each >= length * (1 - 1e-9));
}

/** Whether so many buildings are in view that cells show them better than dots. */
export function asCells(store, frame) {
  return store.n > MOST_SINGLY && store.shapes.isMore(store.onMap(frame.box), MOST_SINGLY);
}

/** Side of a cell in grid pixels; it lies on the grid, so that it stays where it is while the map moves. */
export function cellSide(resolution, gsd) {
  return roundLength(CELL_PX * resolution * gsd) / gsd;
}

/** Where classes of cells end: each about as many times the one before. */
export function cellTops(most) {
  const n = CELL_RAMP.length;
  return [...new Set(CELL_RAMP.map((_, k) => Math.ceil(Math.max(most, 1) ** ((k + 1) / n) - 1e-9)))];
}

/** Counts of each cell: Map of "column row" to {x, y, marked, assessed}. Over the whole site, so that classes stay. */
export function cellsOf(store, side) {
  const [cells, b] = [new Map(), store.boxes];
  for (let i = 0; i < store.n; i++) {
    if (!store.isOnMap(i)) continue;
    const [x, y] = [Math.floor((b[4 * i] + b[4 * i + 2]) / 2 / side), Math.floor((b[4 * i + 1] + b[4 * i + 3]) / 2 / side)];
    const key = x * 1e6 + y;
    let cell = cells.get(key);
    if (!cell) cells.set(key, (cell = { x, y, marked: 0, assessed: 0 }));
    const category = categoryOf(store, i);
    cell.assessed += category !== UNKNOWN;
    cell.marked += category === CONFIRMED || category === FLAGGED;
  }
  return cells;
}

/** @returns {side, tops, ramp, hasUnknown: whether some cell has nothing assessed} for the legend */
export function paintCells(context, store, frame) {
  const side = cellSide(frame.resolution, store.gsd);
  const cells = cellsOf(store, side);
  let most = 0;
  for (const { marked } of cells.values()) most = Math.max(most, marked);
  const tops = cellTops(most);
  const ramp = CELL_RAMP.slice(CELL_RAMP.length - tops.length);
  const px = side / frame.resolution;
  for (const { x, y, marked, assessed } of cells.values()) {
    const [left, top] = [(x * side - frame.box[0]) / frame.resolution, (y * side - frame.box[1]) / frame.resolution];
    if (left + px < 0 || top + px < 0 || left > frame.width || top > frame.height) continue;
    context.globalAlpha = CELL_OPACITY;
    context.fillStyle = marked ? ramp[tops.findIndex((end) => marked <= end)] : CELL_NONE;
    if (!assessed) context.fillStyle = pattern(context, "unknown");
    context.fillRect(left + 0.5, top + 0.5, px - 1, px - 1);
  }
  context.globalAlpha = 1;
  return { side, tops, ramp, hasUnknown: [...cells.values()].some(({ assessed }) => !assessed) };
}

// ---- near ----

// [side of the tile, width of the line, color]; "near" leaves the picture to be looked at.
const HATCHES = {
  flagged: [8, 3.2, CATEGORY_COLORS[FLAGGED]],
  "flagged near": [16, 2, CATEGORY_COLORS[FLAGGED]],
  unknown: [8, 1.2, "rgba(225,225,225,0.9)"],
  "unknown near": [16, 1.2, "rgba(225,225,225,0.9)"],
};
function pattern(context, kind) {
  const [side, width, color] = HATCHES[kind];
  const isBackward = kind.startsWith("unknown"); // not assessed leans the other way
  return patternOf(context, kind, side, (pen) => {
    pen.fillStyle = kind === "unknown" ? "rgba(60,64,72,0.6)" : "rgba(60,64,72,0.3)";
    if (isBackward) pen.fillRect(0, 0, side, side);
    hatch(pen, side, color, width, isBackward);
  });
}

// Fill, line below, line, and their widths, of each category.
const STYLES = [
  { fill: "rgba(213,94,0,0.82)", edge: "rgba(255,255,255,0.95)", line: CATEGORY_COLORS[CONFIRMED], wide: 3.6, thin: 1.8 },
  { fill: "rgba(230,159,0,0.22)", hatch: "flagged", edge: "rgba(20,20,20,0.85)", line: CATEGORY_COLORS[FLAGGED], wide: 3.6, thin: 1.8 },
  { fill: "rgba(180,180,180,0.18)", edge: "rgba(0,0,0,0.45)", line: "rgba(225,225,225,0.85)", wide: 2.4, thin: 1.1 },
  { hatch: "unknown", edge: "rgba(20,20,20,0.6)", line: "#c4c7cc", wide: 2.6, thin: 1.2, dashes: [3, 3] },
];

/** @param inChunks (numbers, finish): traces some paths at a time, then calls `finish` */
export function paintDamageShapes(context, store, frame, inChunks) {
  const members = byCategory(store, frame);
  const isNear = store.medianSize / frame.resolution > NEAR_FROM_PX;
  for (const category of [BELOW, UNKNOWN, FLAGGED, CONFIRMED]) {
    const { fill, hatch, edge, line, wide, thin, dashes } = STYLES[category];
    inChunks(members[category], () => {
      for (const paint of [fill, hatch && pattern(context, isNear ? `${hatch} near` : hatch)]) {
        if (!paint) continue;
        context.globalAlpha = isNear ? 0.35 : 1;
        if (hatch && paint !== fill) context.globalAlpha = isNear ? 0.75 : 1;
        context.fillStyle = paint;
        context.fill("evenodd");
      }
      context.globalAlpha = 1;
      strokes(context, [edge, isNear ? 1.4 * wide : wide], [line, isNear ? 1.6 * thin : thin, dashes]);
    });
  }
}

/** Pixel by pixel, for many small ones; flagged ones are striped. */
export function paintDamageSmall(context, store, frame) {
  const raster = new Raster(context, frame);
  const members = byCategory(store, frame);
  const b = store.boxes;
  const styles = [
    [pixel(rgbOf(CATEGORY_COLORS[CONFIRMED]), 0.95), null, WHITE],
    [pixel(rgbOf(CATEGORY_COLORS[FLAGGED]), 0.95), pixel([40, 30, 0], 0.55), LINE],
    [pixel(rgbOf(CATEGORY_COLORS[BELOW]), 0.35), null, pixel([235, 235, 235], 0.65)],
    [pixel([90, 94, 102], 0.75), pixel([225, 225, 225], 0.8), pixel([196, 199, 204], 0.9)],
  ];
  for (const category of [BELOW, UNKNOWN, FLAGGED, CONFIRMED]) {
    const [color, stripe, line] = styles[category];
    for (const i of members[category]) {
      const rings = store.rings(i);
      raster.outline(rings, SHADOW, 1);
      raster.fill(rings, b.subarray(4 * i, 4 * i + 4), color, stripe, category === UNKNOWN);
      raster.outline(rings, line);
    }
  }
  raster.show();
}

// ---- uncertainty ----

/** Members in view by step of uncertainty; answered and not assessed ones are left out. */
function bySteps(store, frame) {
  const sorted = openScores(store);
  const nFlagged = countFrom(sorted, store.threshold);
  const steps = Array.from({ length: NEAR.length + 1 }, () => []);
  for (const i of store.touching(frame.box)) {
    const step = uncertaintyOf(store, sorted, nFlagged, i);
    if (step >= 0) steps[step].push(i);
  }
  return steps;
}

/** @param kind "dots", "small" or "large" */
export function paintUncertainty(context, store, frame, kind, inChunks) {
  const steps = bySteps(store, frame);
  const groups = steps.map((members, step) => ({ members, color: NEAR_COLORS[step], alpha: NEAR_ALPHA[step], stands: step < 2 }));
  paintGroups(context, store, frame, kind, inChunks, groups.reverse()); // nearest on top
}

/** Each group over those before it; what `stands` out has larger dots with a dark edge. */
function paintGroups(context, store, frame, kind, inChunks, groups) {
  if (kind === "large") {
    for (const { members, color, alpha } of groups) {
      const [r, g, b] = rgbOf(color);
      inChunks(members, () => {
        context.fillStyle = `rgba(${r},${g},${b},${alpha})`;
        context.fill("evenodd");
        strokes(context, ["rgba(0,0,0,0.5)", 2.6], ["rgba(255,255,255,0.75)", 1.1]);
      });
    }
    return;
  }
  const raster = new Raster(context, frame);
  const side = Math.max(3, Math.min(6, (store.medianSize / frame.resolution) * 1.3)) * raster.ratio;
  for (const { members, color: hex, alpha, stands } of groups) {
    const color = pixel(rgbOf(hex), alpha);
    for (const i of members) {
      const box = store.boxes.subarray(4 * i, 4 * i + 4);
      if (kind === "dots") block(raster, [raster.x((box[0] + box[2]) / 2), raster.y((box[1] + box[3]) / 2)], stands ? side + raster.ratio : side, color, hex === SEVERAL ? WHITE : stands ? LINE : pixel([0, 0, 0], 0.2));
      else {
        const rings = store.rings(i);
        raster.outline(rings, SHADOW, 1);
        raster.fill(rings, box, color);
        raster.outline(rings, pixel([255, 255, 255], 0.6));
      }
    }
  }
  raster.show();
}

// ---- damage types ----

export const TYPE_COLORS = ["#0072B2", "#F0E442", "#009E73", "#CC79A7", "#56B4E9", "#A6761D"];
const OTHER_TYPE = "#FFFFFF"; // more types than colors
export const SEVERAL = "#000000";
export const NO_TYPE = CATEGORY_COLORS[FLAGGED];
export const BY_PEOPLE = 0.95;
export const BY_SCORE = 0.6;

// BuPu of ColorBrewer, the mildest first: grades of a scale.
const SCALE_COLORS = ["#EDF8FB", "#BFD3E6", "#9EBCDA", "#8C96C6", "#8856A7", "#810F7C"];

/** Color of the k-th of n damage types; on a scale the worst is the darkest. */
export function typeColor(k, n = TYPE_COLORS.length, isScale = false) {
  if (!isScale) return TYPE_COLORS[k] ?? OTHER_TYPE;
  const last = SCALE_COLORS.length - 1;
  return SCALE_COLORS[n > last ? Math.max(last - (n - 1 - k), 0) : last - Math.round(((n - 1 - k) * (last - 1)) / Math.max(n - 1, 1))];
}

/** Of the damage types of a building those that it is drawn by: on a scale the worst alone. */
export const drawnTypes = (store, i) => (store.isScale ? typesOf(store, i).slice(-1) : typesOf(store, i));

/** Groups of the map by damage type, those on top last. */
export function typeGroups(store, numbers) {
  const groups = new Map();
  const add = (i, key, color, alpha, stands) => {
    if (!groups.has(key)) groups.set(key, { key, members: [], color, alpha, stands });
    groups.get(key).members.push(i);
  };
  for (const i of numbers) {
    const category = categoryOf(store, i);
    const types = drawnTypes(store, i);
    if (category === UNKNOWN) add(i, 0, CATEGORY_COLORS[UNKNOWN], 0.55, false);
    else if (category === BELOW) add(i, 1, CATEGORY_COLORS[BELOW], 0.25, false);
    else if (!types.length) add(i, 2, NO_TYPE, 0.35, false);
    else {
      const isAnswered = types.every((k) => store.types[k].people.has(i));
      const color = types.length > 1 ? SEVERAL : typeColor(types[0], store.types.length, store.isScale);
      add(i, (types.length > 1 ? 1000 : 10 + 2 * types[0]) + isAnswered, color, isAnswered ? BY_PEOPLE : BY_SCORE, true);
    }
  }
  return [...groups.values()].sort((a, b) => a.key - b.key);
}

/** @param kind "dots", "small" or "large" */
export function paintTypes(context, store, frame, kind, inChunks) {
  paintGroups(context, store, frame, kind, inChunks, typeGroups(store, store.touching(frame.box)));
}

export const ANSWER_COLORS = [LABEL_COLORS[1], LABEL_COLORS[NOT_DAMAGED]];
