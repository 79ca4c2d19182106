// Where things are: points inside lines drawn by hand, the plane of the scatter, arrows of shifts.

import assert from "node:assert/strict";
import test from "node:test";
import { boxOf, isInside, pointsInside } from "../../../pu_geo/ui/frontend/src/polygon.js";
import { SCORE_STEPS, SELECTED, stepRgb } from "../../../pu_geo/ui/frontend/src/colors.js";
import { colorDots } from "../../../pu_geo/ui/frontend/src/dot_colors.js";
import { sorted } from "../../../pu_geo/ui/frontend/src/scatter_painter.js";
import { placeChips, ScatterView, showsChips } from "../../../pu_geo/ui/frontend/src/scatter_pane.js";
import { paintArrows } from "../../../pu_geo/ui/frontend/src/shifts.js";
import { arrowsIn, decodeShifts, exaggeration, shiftText } from "../../../pu_geo/ui/frontend/src/shifts.js";

const NOT_MEASURED = -32768;

/** Numbers from 0 to 1, the same each time. */
function random(seed) {
  return () => ((seed = (seed * 1664525 + 1013904223) >>> 0) / 2 ** 32);
}

test("inside is even-odd: a hole and the dent of an L are outside", () => {
  const l = [0, 0, 4, 0, 4, 2, 2, 2, 2, 4, 0, 4];
  assert.equal(isInside([l], 1, 3), true);
  assert.equal(isInside([l], 3, 3), false);
  assert.equal(isInside([[0, 0, 9, 0, 9, 9, 0, 9], [3, 3, 6, 3, 6, 6, 3, 6]], 4, 4), false);
});

for (const seed of [1, 2, 3]) {
  test(`the fast way finds the same points as one after the other (seed ${seed})`, () => {
    const next = random(seed);
    const ring = Float64Array.from({ length: 80 }, (_, k) => {
      const [turn, reach] = [(2 * Math.PI * (k >> 1)) / 40, 0.2 + 0.3 * next()];
      return 0.5 + reach * (k & 1 ? Math.sin(turn) : Math.cos(turn));
    });
    const xy = Float32Array.from({ length: 4000 }, next);
    xy[10] = NaN;
    const plain = Array.from({ length: 2000 }, (_, i) => i).filter((i) => isInside([ring], xy[2 * i], xy[2 * i + 1]));
    assert.ok(plain.length > 100);
    assert.deepEqual(pointsInside(ring, xy), plain);
  });
}

test("a box takes no notice of what is NaN, and a line without height holds nothing", () => {
  assert.deepEqual(boxOf([1, 2, NaN, NaN, -3, 5]), [-3, 2, 1, 5]);
  assert.deepEqual(pointsInside([0, 0, 5, 0, 9, 0], [1, 0, 2, 1]), []);
});

test("the scatter shows all dots with room around them; zooming keeps what is under the pointer; limits hold", () => {
  const view = new ScatterView();
  view.size = [200, 100];
  view.fit([0, 0, 10, 10]);
  assert.deepEqual(view.toScreen(5, 5), [100, 50]);
  assert.ok(view.toScreen(0, 0)[1] > 5);
  const before = view.toPlane(30, 80);
  view.zoomBy(4, 30, 80);
  assert.equal(view.isFitted, false);
  view.toPlane(30, 80).forEach((at, axis) => assert.ok(Math.abs(at - before[axis]) < 1e-9));
  view.moveBy(10, -5);
  view.toPlane(40, 75).forEach((at, axis) => assert.ok(Math.abs(at - before[axis]) < 1e-9));
  view.zoomBy(1e-9);
  assert.equal(view.resolution, 2 * view.all);
  view.zoomBy(1e9);
  assert.equal(view.resolution, view.all / 4000);
});

/** Three buildings: shifted by 3 m east and 4 m south, not aligned, and one that a date does not show. */
function shifts() {
  const buffer = new ArrayBuffer(15);
  new Int16Array(buffer, 0, 6).set([300, -400, 0, 0, NOT_MEASURED, NOT_MEASURED]);
  new Uint8Array(buffer, 12, 3).set([80, 0, 0]);
  return decodeShifts(buffer, [[0.5, -0.5]]);
}
const ONE = { site: 0, isOnMap: () => true };
const boxes = Float32Array.of(0, 0, 4, 4, 100, 0, 104, 4, 200, 0, 204, 4);
const frame = (resolution) => ({ resolution, box: [-500, -500, 500, 500] });

test("a shift in words, with its quality", () => {
  assert.equal(shiftText(shifts(), 0), "Pre/post shift 5.0 m (3.0 m east, 4.0 m south) · quality 0.80");
  assert.equal(shiftText(shifts(), 1), "Pre and post could not be aligned here");
  assert.equal(shiftText(shifts(), 2), null);
  assert.equal(shiftText(shifts(), 3), null);
  assert.equal(shiftText(null, 0), null);
});

test("each building has an arrow to where it is now; where it failed a mark, where a date is missing nothing", () => {
  const found = arrowsIn({ ...ONE, shifts: shifts(), n: 3, boxes, medianSize: 4 }, frame(0.1));
  assert.deepEqual(found, [
    { x: 2, y: 2, dx: 6, dy: 8, quality: 0.8, n: 1 },
    { x: 102, y: 2, dx: 0, dy: 0, quality: 0, n: 1 },
  ]);
});

test("zoomed out, buildings of a cell share an arrow: the mean of those that could be aligned", () => {
  const n = 40;
  const buffer = new ArrayBuffer(5 * n);
  new Int16Array(buffer, 0, 2 * n).set(Array.from({ length: 2 * n }, (_, k) => (k & 1 ? 0 : 100 + 10 * (k >> 1))));
  new Uint8Array(buffer, 4 * n, n).fill(50);
  const many = Float32Array.from({ length: 4 * n }, (_, k) => 10 * (k >> 2) + (k & 2));
  const found = arrowsIn({ shifts: decodeShifts(buffer, [[0.5, -0.5]]), n, boxes: many, medianSize: 2, ...ONE }, frame(4));
  assert.ok(found.length < 5);
  assert.equal(found.reduce((sum, each) => sum + each.n, 0), n);
  assert.ok(Math.abs(found.reduce((sum, each) => sum + each.n * each.dx, 0) / n - 2 * 2.95) < 1e-9, "means of all");
});

test("an arrow has the color of its quality, and a hollow dot stands where it failed", () => {
  const strokes = [];
  const context = { beginPath: () => (context.path = []), moveTo: (...at) => context.path.push(["to", ...at]), lineTo: (...at) => context.path.push(["line", ...at]), arc: (...at) => context.path.push(["arc", ...at.slice(0, 3)]), stroke: () => strokes.push([context.strokeStyle, context.path]) };
  const found = shifts();
  const colorAt = (quality) => {
    strokes.splice(0);
    found.quality[0] = quality;
    const { arrows, times } = paintArrows(context, { ...ONE, ready: true, arrows: true, shifts: found, n: 3, boxes, medianSize: 4 }, { ...frame(0.1), box: [0, 0, 300, 300] });
    assert.deepEqual([arrows.length, times], [2, 1]);
    const [color, [[, ...tail], [, ...head]]] = strokes.findLast(([, path]) => path[0][0] === "to");
    assert.deepEqual([tail, head].flat().map(Math.round), [-40, -60, 20, 20]);
    return [1, 3, 5].map((at) => parseInt(color.slice(at, at + 2), 16));
  };
  const [sure, unsure] = [colorAt(98), colorAt(5)];
  assert.ok(sure[0] > sure[2] + 60, "yellow");
  assert.ok(unsure[2] > unsure[0] + 20, "blue");
  assert.deepEqual(strokes.filter(([, path]) => path[0][0] === "arc").map(([color, [arc]]) => [color, ...arc]), [["rgba(255,255,255,0.9)", "arc", 1020, 20, 4], ["#111", "arc", 1020, 20, 4]]);
});

test("arrows are drawn longer in steps of 1, 2 and 5 where they would be too short, and never shorter", () => {
  const found = shifts();
  assert.equal(found.longest, 5);
  assert.equal(exaggeration({ ...ONE, shifts: found }, 0.5), 2);
  assert.equal(exaggeration({ ...ONE, shifts: found }, 0.05), 1);
  assert.equal(exaggeration({ ...ONE, shifts: found }, 4), 20);
});

test("chips take the place of dots where there is room, those that count most first, and none covers another", () => {
  assert.equal(showsChips(100, 0.5, 1), true);
  assert.equal(showsChips(100, 1, 1), false, "all of it is shown");
  assert.equal(showsChips(400, 0.1, 1), false, "too many at once");
  assert.equal(showsChips(0, 0.1, 1), false);
  assert.deepEqual(placeChips([[0, 0], [20, 0], [60, 0], [60, 90], [61, 89]], 44), [0, 2, 3]);
});

test("dots are drawn in the order of their codes, what is selected or pointed at over the others, and nothing out of view", () => {
  const xy = Float32Array.of(1, 1, 2, 2, 3, 3, 4, 4, NaN, NaN, 50, 50);
  const dots = { xy, colors: { codes: Uint8Array.of(2, 0, 1, 2, 1, 1), order: [1, 0, 2] }, isChosen: Uint8Array.of(0, 0, 1, 0, 0, 0), hasChosen: false, lit: null };
  const drawn = (change, every = 1) => {
    const { numbers, nWeak } = sorted({ ...dots, ...change }, [0, 0, 9, 9], every);
    return [[...numbers.subarray(0, nWeak)], [...numbers.subarray(nWeak)]];
  };
  assert.deepEqual(drawn({}), [[2, 1, 0, 3], []]);
  assert.deepEqual(drawn({ hasChosen: true }), [[1, 0, 3], [2]]);
  assert.deepEqual(drawn({ hasChosen: true, lit: 0 }), [[2, 0, 3], [1]]);
  assert.deepEqual(drawn({}, 2), [[2, 0], []], "in a hurry");
});

test("dots that cannot be assessed have another color than those that were not reviewed", () => {
  const store = { labels: Uint8Array.from([0, 1, 2, 3]) };
  const { palette, entries } = colorDots(store, { kind: "labels" }, null, [120, 120, 120]);
  const away = (a, b) => Math.hypot(...a.map((value, band) => value - b[band]));
  for (const [a, b] of [[0, 3], [1, 3], [2, 3]]) assert.ok(away(palette[a], palette[b]) > 70, `${a} and ${b}`);
  assert.equal(entries.length, 4);
});

test("what is selected stands out against every step of the ramp, and against light and dark", () => {
  const rgb = [1, 3, 5].map((at) => parseInt(SELECTED.slice(at, at + 2), 16));
  const others = [...Array.from({ length: SCORE_STEPS }, (_, step) => stepRgb(step)), [255, 255, 255], [14, 17, 23]];
  for (const other of others) assert.ok(Math.hypot(...rgb.map((value, band) => value - other[band])) > 110, String(other));
});
