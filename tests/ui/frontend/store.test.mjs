// What map and wall share: buildings, scores, and labels from four sources that lie over each other.

import assert from "node:assert/strict";
import test, { beforeEach } from "node:test";
import { shapesOf, squares } from "./fake_browser.mjs";
import { Store } from "../../../pu_geo/ui/frontend/src/store.js";

let store;
beforeEach(() => {
  store = new Store();
  store.setGeometry(squares(6));
});

const log = (ops = [], settled = []) => ({ ops, settled });
const op = (building_id, label, more = {}) => ({ building_id, label, ...more });
const events = (name) => {
  const heard = [];
  store.on(name, (detail) => heard.push(detail));
  return heard;
};

test("a building has the middle of its box, and a hole is not the building", () => {
  store.setGeometry(shapesOf({ a: [[0, 0, 10, 0, 10, 10, 0, 10], [2, 2, 4, 2, 4, 4, 2, 4]] }));
  assert.deepEqual(store.center(0), [5, 5]);
  assert.equal(store.medianSize, 10);
  assert.equal(store.hit(3, 3, 0), -1, "a hole is not the building");
  assert.equal(store.hit(1, 1, 0), 0);
});

test("the smallest building under a point is hit, a near one within the slack", () => {
  store.setGeometry(shapesOf({ yard: [[0, 0, 20, 0, 20, 20, 0, 20]], shed: [[5, 5, 8, 5, 8, 8, 5, 8]] }));
  assert.equal(store.hit(6, 6, 0), 1);
  assert.equal(store.hit(1, 1, 0), 0);
  assert.equal(store.hit(23, 10, 5), 0);
  assert.equal(store.hit(26, 10, 5), -1);
});

test("boxes and lines drawn by hand hold buildings by their middle", () => {
  assert.deepEqual(store.within([0, 0, 23, 5]), [0, 1, 2]);
  assert.deepEqual(store.withinPolygon([[0, 0], [30, 0], [0, 5]]), [0, 1]);
});

test("scores have ranks: high first, of equals the first one; NaN counts as 0", () => {
  store.setScores(Float32Array.of(0.2, 0.9, NaN, 0.9, 0.1, 0));
  assert.deepEqual([...store.ranks], [3, 1, 5, 2, 4, 6]);
  assert.deepEqual([...store.byScore].reverse().slice(0, 4), [1, 3, 0, 4]);
  assert.equal(store.score(2), null);
  assert.equal(store.score(99), null);
});

test("labels of the page come from their short form", () => {
  store.setLabels({ 1: "0 3", 2: "1" }, log());
  assert.deepEqual([...store.labels], [1, 2, 0, 1, 0, 0]);
  assert.deepEqual(store.counts(), [3, 2, 1, 0]);
});

test("what is on its way lies over what others did, and that over the page; stored ones by the number of their event", () => {
  store.setLabels({ 1: "0 1 1 1" }, log([op("b0", "cleared")], [op("b1", "not_damaged", { event: 5 }), op("b2", "not_damaged", { event: 9 })]));
  for (const i of [0, 1, 2, 3]) store.heard.set(i, { code: 3, event: 7 });
  store.relabel("heard");
  assert.deepEqual([...store.labels.slice(0, 5)], [0, 3, 2, 3, 0]);
});

test("data of the page that are older than what was stored take no label back", () => {
  const stored = [op("b0", "positive", { event: 4 })];
  const heard = events("labels");
  store.setLabels({}, log([op("b0", "positive")]));
  store.setLabels({}, log([], stored));
  assert.equal(heard.length, 1, "nothing flickers");
  store.setLabels({ 1: "0" }, log());
  assert.equal(heard.length, 1);
  store.setLabels({}, log());
  assert.equal(store.labels[0], 0, "newer data decide");
});

test("listeners of labels hear of changes alone, and why", () => {
  const heard = events("labels");
  store.setLabels({ 1: "0" }, log());
  store.setLabels({ 1: "0" }, log());
  store.heard.set(1, { code: 2, event: 1 });
  store.relabel("heard");
  assert.deepEqual(heard, [null, "heard"]);
});

test("labels that come before the buildings wait for them; other buildings are no error", () => {
  const late = new Store();
  late.setLabels({ 1: "2" }, log([op("b0", "positive"), op("gone", "positive")]));
  late.setGeometry(squares(3));
  assert.deepEqual([...late.labels], [1, 0, 1]);
});

test("details go with the label: those on their way are yours, a cleared one has none, somebody else's answer drops them", () => {
  store.setLabels({ 1: "0 1 1" }, log([op("b0", "positive", { damage_types: ["roof"], absent_types: ["tent"], comment: "x" }), op("b1", "cleared")]), { by: { bob: "0 1 1" }, comment: { 2: "old" } });
  assert.deepEqual(store.detail(0), { reason: "", grade: "", damage_types: ["roof"], absent_types: ["tent"], comment: "x", shown: "", by: "you" });
  assert.equal(store.detail(1).by, "");
  assert.equal(store.detail(2).comment, "old");
  store.heard.set(2, { code: 2, event: 1 });
  store.relabel();
  assert.equal(store.detail(2).comment, "");
});

test("a score is kept back while it is blind, and where the imagery hides the building, until an answer counts more", () => {
  store.setScores(new Float32Array(6).fill(0.5));
  store.setBlind([0]);
  store.setImageQuality({ reasons: { cloud: "1" }, candidates: { misaligned: "2" } });
  assert.deepEqual([0, 1, 2].map((i) => store.score(i)), [null, null, 0.5]);
  assert.deepEqual([store.candidates.get(1), store.candidates.get(2)], ["cloud", "misaligned"]);
  store.setLabels({ 1: "1" }, log());
  assert.equal(store.isHidden(1), false);
  assert.equal(store.score(1), 0.5);
  store.setBlind([]);
  assert.equal(store.score(0), 0.5);
});

test("reasons that nobody gives as an answer are no candidates", () => {
  store.setImageQuality({ reasons: { not_in_run: "0" } });
  assert.equal(store.hidden.get(0), "not_in_run");
  assert.equal(store.candidates.size, 0);
});

test("a selection replaces the one before or adds to it; new buildings end it", () => {
  store.choose([3, 1]);
  assert.deepEqual(store.chosen, [1, 3]);
  store.choose([5], true);
  assert.deepEqual(store.chosen, [1, 3, 5]);
  store.choose([0]);
  assert.deepEqual(store.chosen, [0]);
  store.setGeometry(squares(2));
  assert.deepEqual(store.chosen, []);
});

test("conflicts are offered only where the page sends them", () => {
  assert.equal(store.conflicts, null);
  store.setConflicts("1 1");
  assert.deepEqual([...store.conflicts], [1, 2]);
});

test("a click labels where labels are taken, and not where clicks select", () => {
  assert.deepEqual([["view", false], ["label", false], ["label", true]].map(([mode, picks]) => Object.assign(store, { mode, picks }).clickLabels), [false, true, false]);
});
