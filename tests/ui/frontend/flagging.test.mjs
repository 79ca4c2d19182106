// The damage map: categories, counts and ties as exports have them, and the slider that changes them.

import assert from "node:assert/strict";
import test, { beforeEach } from "node:test";
import { fakeBrowser, frame, freshPage, pass, sitesOf, squares } from "./fake_browser.mjs";
import { POSITIVE } from "../../../pu_geo/ui/frontend/src/colors.js";
import { SEVERAL, cellTops, cellsOf, roundLength, typeColor, typeGroups } from "../../../pu_geo/ui/frontend/src/damage_painter.js";
import { BELOW, CONFIRMED, FLAGGED, UNKNOWN, categoryOf, countAt, countCategories, countFrom, openScores, placeOf, profileOf, thresholdFor, typesOf, uncertaintyOf, written } from "../../../pu_geo/ui/frontend/src/flagging.js";
import { Store } from "../../../pu_geo/ui/frontend/src/store.js";

fakeBrowser();
const { damageLegend } = await import("../../../pu_geo/ui/frontend/src/damage_legend.js");
const { FlagBar } = await import("../../../pu_geo/ui/frontend/src/flag_bar.js");

const log = (ops = []) => ({ ops, settled: [] });
let store;
beforeEach(() => {
  freshPage();
  store = new Store();
  store.setGeometry(squares(6));
  store.setScores(Float32Array.from([0.9, 0.8, 0.7, 0.6, NaN, 0.1]));
  store.threshold = 0.7;
  store.flagging = true;
});

test("a score is compared as it is written, and halves go to the even neighbor", () => {
  assert.equal(written(0.83935), 0.8394);
  assert.equal(written(Math.fround(0.83935)), 0.8393); // 0.839349985
  assert.equal(written(0.03125), 0.0312); // 312.5, as numpy rounds it
});

test("an answer counts more than the score, and what has none is not assessed", () => {
  store.setLabels({ 1: "3", 2: "0" }, log());
  store.setImageQuality({ reasons: { cloud: "1" } });
  assert.deepEqual([0, 1, 2, 3, 4, 5].map((i) => categoryOf(store, i)), [BELOW, UNKNOWN, FLAGGED, CONFIRMED, UNKNOWN, BELOW]);
  const { categories, notDamaged, reasons } = countCategories(store);
  assert.deepEqual([categories, notDamaged], [[1, 1, 2, 2], 1]);
  assert.deepEqual([...reasons], [["cloud", 1], ["not_in_run", 1]]);
  assert.deepEqual([...openScores(store)], [0.7, 0.1]);
});

test("the threshold of k flags k; of equal scores the number nearest to it, and never a score of 0", () => {
  const sorted = Float64Array.from([0.9, 0.8, 0.8, 0.8, 0.2, 0]);
  const flagged = (k) => countFrom(sorted, thresholdFor(sorted, k));
  assert.deepEqual([1, 2, 3, 4, 5, 6].map(flagged), [1, 1, 4, 4, 5, 5]);
  assert.equal(thresholdFor(Float64Array.from([0, 0]), 2), 0.0001);
  assert.equal(thresholdFor(new Float64Array(0), 3), 0.5);
});

test("the slider says every number, and finds its own place again", () => {
  for (const n of [1, 351, 100_000]) for (const k of [1, 2, 140, n].filter((each) => each <= n)) assert.equal(countAt(placeOf(k, n), n), k);
  assert.equal(countAt(0, 50), 1);
  assert.equal(countAt(2, 50), 50);
});

test("bars hold each building once, from the highest down", () => {
  const sorted = Float64Array.from({ length: 1000 }, (_, k) => 1 - k / 1000);
  const bars = profileOf(sorted, 100);
  assert.equal(bars.reduce((sum, { from, to }) => sum + to - from, 0), 1000);
  assert.ok(bars.every(({ score }, k) => !k || score < bars[k - 1].score));
});

test("uncertainty counts places from the threshold, and equal scores share theirs", () => {
  store.setGeometry(squares(100));
  store.setScores(Float32Array.from({ length: 100 }, (_, i) => 1 - i / 100));
  const sorted = openScores(store);
  const steps = [49, 46, 42, 30, 0].map((i) => uncertaintyOf(store, sorted, 50, i));
  assert.deepEqual(steps, [0, 1, 2, 3, 4]);
  store.setLabels({ 1: "0" }, log());
  assert.equal(uncertaintyOf(store, sorted, 50, 0), -1);
});

test("the map is one of damage only once scores are here, and a rank colors where scores crowd", () => {
  store.colorBy = "category";
  assert.equal(store.isCategorical, true);
  assert.equal(store.shade(0, 0.9), 1);
  store.setScores(null);
  assert.equal(store.isFlagging, false);
  assert.equal(store.shade(0, 0.9), 0.9);
});

test("cells count what is marked, of all that is assessed; their classes are the report's", () => {
  store.setLabels({ 1: "0" }, log());
  assert.equal(store.labels[0], POSITIVE);
  const [cell] = [...cellsOf(store, 1e6).values()];
  assert.deepEqual([cell.marked, cell.assessed], [3, 5]); // one confirmed, two flagged; one has no score
  assert.deepEqual(cellTops(1), [1]);
  assert.deepEqual(cellTops(81), [3, 9, 27, 81]);
  assert.deepEqual([3, 20, 21].map(roundLength), [5, 20, 50]);
});

// Damage types

const layers = [
  { name: "roof", people: "3", score: "0 2", named: 12, enough: true }, // buildings 3, 0 and 2
  { name: "wet", people: "3", score: "5", named: 4, enough: false },
];
const label = (text) => damageLegend(store).map((each) => each.textContent).find((each) => each.startsWith(text));

test("types are of damaged buildings alone, also after an answer that the page has not heard of", () => {
  store.setLabels({ 1: "3" }, log());
  store.setTypes(layers);
  store.colorBy = "types";
  assert.equal(store.isTyped && store.isCategorical, true);
  assert.deepEqual([0, 1, 2, 3, 5].map((i) => typesOf(store, i)), [[0], [], [0], [0, 1], []]); // 5 is below the threshold
  store.setLabels({ 1: "3", 2: "0" }, log());
  assert.deepEqual(typesOf(store, 0), [], "not damaged after all");
  store.setTypes([]);
  assert.equal(store.isTyped, false, "a run without types is colored by category");
  assert.equal(store.isCategorical, false);
});

test("several types have a color of their own, on top; what people named is stronger", () => {
  store.setLabels({ 1: "3" }, log());
  store.setTypes(layers);
  store.colorBy = "types";
  const groups = typeGroups(store, [0, 1, 2, 3, 4, 5]);
  assert.deepEqual(groups.map(({ members }) => members), [[4], [5], [1], [0, 2], [3]]);
  const [roof, several] = groups.slice(-2);
  assert.ok(several.alpha > roof.alpha && several.color !== roof.color);
  assert.equal(new Set(groups.map(({ color }) => color)).size, 5);
});

test("on a scale the worst grade that a building reaches colors it, and nothing is of several types", () => {
  store.setLabels({ 1: "3" }, log());
  store.setTypes(layers.map((each) => ({ ...each, name: `at least ${each.name}` })), true); // whoever is "wet" is at least "roof"
  store.colorBy = "types";
  const groups = typeGroups(store, [0, 1, 2, 3, 4, 5]);
  assert.deepEqual(groups.map(({ members }) => members), [[4], [5], [1], [0, 2], [3]]);
  assert.ok(groups.every(({ color }) => color !== SEVERAL), "black says nothing of how bad it is");
  assert.deepEqual(groups.slice(-2).map(({ color }) => color), [0, 1].map((k) => typeColor(k, store.types.length, true)));
  assert.notEqual(typeColor(0, 2, true), typeColor(1, 2, true));
  const words = damageLegend(store).map((each) => each.textContent).join(" | ");
  assert.match(words, /the worst that it reaches/);
  assert.match(words, /roof2 \| 0 by people, 2 by score/);
  assert.doesNotMatch(words, /at least/, "whoever is worse is counted there");
  assert.match(words, /wet1 \| 1 by people, 0 by score/);
  assert.doesNotMatch(words, /Several types/);
  store.setTypes(layers);
  assert.equal(typeGroups(store, [3])[0].color, SEVERAL, "no scale any more");
});

test("the legend counts who says so, and says where answers are too few", () => {
  store.setLabels({ 1: "3" }, log());
  store.setTypes(layers);
  store.colorBy = "types";
  assert.match(label("roof"), /roof3/);
  const words = damageLegend(store).map((each) => each.textContent).join(" | ");
  assert.match(words, /1 by people, 2 by score/);
  assert.match(words, /1 by people, 0 by score; 4 answers outside checks name it, not enough to judge/);
  assert.match(words, /Several types1/);
  assert.match(words, /a rank, not a probability/);
});

test("coloring by type is offered only where the run has types", () => {
  const { bar } = openBar();
  bar.track.clientWidth = 0; // nothing to draw a profile on
  const isHidden = () => {
    store.emit("types");
    frame();
    return bar.colors.children.find(({ dataset }) => dataset.value === "types").hidden;
  };
  assert.equal(isHidden(), true);
  store.setTypes(layers);
  assert.equal(isHidden(), false);
});

// The slider

function openBar() {
  const sent = [];
  const bar = new FlagBar(store, { colors: () => {}, choose: (top, n, of) => sent.push({ top, n, of }) });
  const page = (more = {}) => {
    bar.configure({ flagging: { basis: "by hand", stored: 0 }, token: "t", score_id: "r-1", server: "s-1", threshold: 0.7, ...more });
    if (!bar.isAhead) store.set("threshold", more.threshold ?? 0.7);
  };
  page();
  store.setScores(store.scores); // as they come: the bar measures
  const press = (key) => bar.track.dispatchEvent(Object.assign(new Event("keydown", { cancelable: true }), { key }));
  return { bar, sent, page, press };
}

test("what the slider chose is shown until the page has it; a message that is lost is given up after a while", async () => {
  const { bar, sent, page, press } = openBar();
  press("Home");
  await pass(500);
  assert.deepEqual(sent.map(({ top, of }) => [top, of]), [[1, "r-1"]]);
  page();
  assert.deepEqual([bar.isAhead, store.threshold], [true, 0.9], "this run began before");
  page({ flagging: { stored: sent[0].n }, threshold: 0.9 });
  assert.deepEqual([bar.isAhead, store.threshold], [false, 0.9]);
  press("End");
  await pass(500);
  await pass(5000);
  assert.deepEqual([bar.isAhead, store.threshold], [false, 0.9], "as the page has it");
  press("End");
  await pass(500);
  page({ server: "s-2", threshold: 0.8 });
  assert.deepEqual([bar.isAhead, store.threshold], [false, 0.8], "a new server never got it");
});

test("a key counts at once for who leaves the slider or the page, and never for another ranking", async () => {
  const { bar, sent, page, press } = openBar();
  press("Home");
  bar.track.dispatchEvent(new Event("blur"));
  assert.equal(sent.length, 1);
  press("End");
  bar.dispose();
  assert.equal(sent.length, 2);
  press("Home");
  page({ score_id: "r-2", threshold: 0.8 });
  assert.deepEqual([bar.isAhead, store.threshold], [false, 0.8]);
  await pass(5000);
  bar.dispose();
  assert.equal(sent.length, 2);
});

test("the slider's value lies within its limits, also where none is flagged", () => {
  const { bar } = openBar();
  store.set("threshold", 1);
  bar.track.clientWidth = 0;
  bar.later();
  frame();
  assert.deepEqual(["valuemin", "valuenow"].map((name) => bar.track.attributes[`aria-${name}`]), ["0", "0"]);
});

test("the legend of cells names the hatched ones where there are some, and lengths as the map does", () => {
  store.setSites(sitesOf());
  store.colorBy = "category";
  const words = (hasUnknown) => {
    store.cells = { side: 4000, tops: [3, 9], ramp: ["#fff", "#000"], hasUnknown };
    return damageLegend(store).map(({ textContent }) => textContent).join(" | ");
  };
  assert.match(words(true), /each cell of 2 km \| none1–34–9 \| none assessed/);
  assert.doesNotMatch(words(false), /none assessed/);
});
