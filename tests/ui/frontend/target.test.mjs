// Which building keys act on: at most one, and never one out of sight.

import assert from "node:assert/strict";
import test from "node:test";
import { keyTarget } from "../../../pu_geo/ui/frontend/src/target.js";

const NOWHERE = { on: null, i: -1 };
const everywhere = () => true;
const nowhere = () => false;
const only = (...places) => (i, on) => places.some(([number, name]) => number === i && (on === null || name === on));

test("with the queue open it is the queue's picture, wherever the pointer is", () => {
  for (const pointer of [NOWHERE, { on: "map", i: 5 }, { on: "wall", i: 5 }]) {
    assert.deepEqual(keyTarget({ queued: 3, pointer, selected: 7, isInView: everywhere }), { i: 3, on: "queue" });
  }
});

test("a queue's picture out of sight is none, and nothing else takes its place", () => {
  const isInView = only([5, "map"], [7, "map"]);
  assert.equal(keyTarget({ queued: 3, pointer: { on: "map", i: 5 }, selected: 7, isInView }), null);
  assert.equal(keyTarget({ queued: 3, pointer: { on: "map", i: 3 }, selected: 3, isInView: only([3, "map"]) }), null);
});

test("without a queue it is the building under the pointer, before the selected one", () => {
  assert.deepEqual(keyTarget({ queued: null, pointer: { on: "map", i: 0 }, selected: 7, isInView: everywhere }), { i: 0, on: "map" });
});

test("else the selected one, if the surface under the pointer shows it", () => {
  const pointer = { on: "map", i: -1 };
  assert.deepEqual(keyTarget({ queued: null, pointer, selected: 7, isInView: only([7, "map"]) }), { i: 7, on: "map" });
  assert.equal(keyTarget({ queued: null, pointer, selected: 7, isInView: only([7, "wall"]) }), null);
  assert.equal(keyTarget({ queued: null, pointer, selected: 7, isInView: nowhere }), null);
});

test("a pointer that is nowhere leaves the selected one where any surface shows it", () => {
  assert.deepEqual(keyTarget({ queued: null, pointer: NOWHERE, selected: 7, isInView: only([7, "wall"]) }), { i: 7, on: null });
  assert.equal(keyTarget({ queued: null, pointer: NOWHERE, selected: 7, isInView: nowhere }), null);
});

test("nothing selected and nothing pointed at is none; nobody is asked whether building -1 is in view", () => {
  const isInView = () => assert.fail("asked");
  assert.equal(keyTarget({ queued: null, pointer: NOWHERE, selected: -1, isInView }), null);
});

test("the cross of a map that has the focus by keyboard comes before the queue, and means nothing else where it means nothing", () => {
  const pointer = { on: "wall", i: 5 };
  assert.deepEqual(keyTarget({ cross: 4, queued: 3, pointer, selected: 7, isInView: everywhere }), { i: 4, on: "map" });
  assert.equal(keyTarget({ cross: -1, queued: 3, pointer, selected: 7, isInView: everywhere }), null);
  assert.deepEqual(keyTarget({ chosen: 2, cross: 4, queued: null, pointer, selected: 7, isInView: everywhere }), { i: -1, on: "selection" });
});

test("what is selected together comes first", () => {
  assert.deepEqual(keyTarget({ chosen: 12, queued: null, pointer: { on: "map", i: 5 }, selected: 7, isInView: everywhere }), { i: -1, on: "selection" });
});
