// Which chips the wall shows and in which order, what color each dot has, and what is loaded for them.

import assert from "node:assert/strict";
import test, { beforeEach } from "node:test";
import { fakeBrowser, fakeServer, firstPart, freshPage, settle, squares } from "./fake_browser.mjs";

fakeBrowser();
const { LABEL_COLORS } = await import("../../../pu_geo/ui/frontend/src/colors.js");
const { colorDots, dotsOf } = await import("../../../pu_geo/ui/frontend/src/dot_colors.js");
const { Files, asBytes } = await import("../../../pu_geo/ui/frontend/src/files.js");
const { Loader } = await import("../../../pu_geo/ui/frontend/src/loader.js");
const { Store } = await import("../../../pu_geo/ui/frontend/src/store.js");
const { arrange, distancesFrom, usableFilters, usableOrders } = await import("../../../pu_geo/ui/frontend/src/wall_order.js");

const NONE = [9, 9, 9];
let store, server;
beforeEach(() => {
  freshPage();
  server = fakeServer();
  store = new Store();
  store.setGeometry(squares(6));
  store.setScores(Float32Array.of(0.2, 0.9, 0.5, NaN, 0.55, 0.1));
});

const by = (order, more = {}) => arrange(store, 6, { order, filter: "all", like: null, ...more });
const names = (choices) => choices.map(([value]) => value);

test("orders: score, doubt about the threshold, area, and id; what has no number comes last", () => {
  assert.deepEqual(by("score"), [1, 4, 2, 0, 5, 3]);
  assert.deepEqual(by("uncertain"), [2, 4, 0, 1, 5, 3]);
  store.threshold = 0.9;
  assert.equal(by("uncertain")[0], 1);
  store.areas.set([1, 5, 5, 2, 9, 1]);
  assert.deepEqual(by("area"), [4, 1, 2, 3, 0, 5], "of equals the first one first");
  store.ids = ["f", "e", "d", "c", "b", "a"];
  assert.deepEqual(by("id"), [5, 4, 3, 2, 1, 0]);
});

test("the score of a check that waits for its answer has no place in the order", () => {
  store.setBlind([1]);
  assert.deepEqual(by("score"), [4, 2, 0, 5, 1, 3]);
});

test("chips like a chosen one come first; a distance that nobody knows comes last", () => {
  assert.deepEqual(by("like", { like: { i: 2, distances: [3, 1, 0, NaN, 2, 1] } }), [2, 1, 5, 4, 0, 3]);
});

test("filters: by label, by conflict, by what the imagery hides, and what is selected", () => {
  store.setLabels({ 1: "0", 2: "1", 3: "2" }, { ops: [], settled: [] });
  store.setConflicts("1 4");
  store.setImageQuality({ reasons: { cloud: "0 4" }, candidates: { misaligned: "5" } });
  const shown = (filter) => by("id", { filter });
  assert.deepEqual(["positive", "not_damaged", "not_assessable", "unlabeled", "conflicts", "hidden", "misaligned"].map(shown), [[0], [1], [2], [3, 4, 5], [1, 5], [4], [5]]);
  store.picks = true;
  store.choose([1, 3]);
  assert.deepEqual(by("id"), [1, 3]);
  assert.deepEqual(arrange(store, 2, { order: "id", filter: "all", like: null }), [1], "there is no chip of the other one");
});

test("grades are filters of their own, and so is what nobody graded", () => {
  assert.ok(!names(usableFilters(store)).some((name) => name.startsWith("grade:")));
  store.setScale([{ id: "destroyed", name: "Destroyed", offered: true }, { id: "old", name: "Old", offered: false }]);
  store.setLabels({ 1: "0 1 1", 2: "3" }, { ops: [], settled: [] }, { grade: { destroyed: "1", old: "2" } });
  assert.deepEqual(names(usableFilters(store)).filter((name) => name.startsWith("grade:")), ["grade:destroyed", "grade:old", "grade:"]);
  for (const [filter, found] of [["grade:destroyed", [1]], ["grade:old", [2]], ["grade:", [0]]]) assert.deepEqual(by("id", { filter }), found);
});

test("grades differ in lightness, from dark to light, and in their pattern", () => {
  for (const n of [1, 2, 3, 6]) {
    store.setScale(Array.from({ length: n }, (_, k) => ({ id: `g${k}`, name: `G${k}`, offered: true })));
    const light = Array.from({ length: n }, (_, k) => [1, 3, 5].reduce((sum, at) => sum + parseInt(store.scale.color(k + 1).slice(at, at + 2), 16), 0));
    for (let k = 1; k < n; k++) assert.ok(light[k] - light[k - 1] > 50, `${n} grades`);
  }
  assert.deepEqual([0, 1, 6].map((number) => store.scale.pattern(number)), ["", "cross", "dots"]);
  assert.equal(store.scale.color(0), LABEL_COLORS[1]);
});

test("only orders and filters that make sense are offered", () => {
  assert.deepEqual(names(usableFilters(store)), ["all", "unlabeled", "positive", "not_damaged", "not_assessable"]);
  assert.deepEqual(names(usableOrders(store, null)), ["score", "uncertain", "area", "id"]);
  assert.deepEqual(usableOrders(store, { i: 3 }).find(([value]) => value === "like"), ["like", "Like building 4"]);
  store.setScores(null);
  assert.deepEqual(names(usableOrders(store, null)), ["area", "id"]);
});

const PLACE = { base: "/pugeo", token: "t", geometry_v: "1", wall: { v: "2" } };
test("distances are asked for once; where the server has none, or of another number, there is no such order", async () => {
  const asked = distancesFrom(2, 6, PLACE);
  assert.equal(server.requests[0].url, "/pugeo/t/similar/2.f32?v=2&g=1");
  server.requests[0].answer(new Float32Array(6).buffer);
  assert.equal((await asked).length, 6);
  await distancesFrom(2, 6, PLACE);
  assert.equal(server.requests.length, 1);
  const missing = distancesFrom(3, 6, PLACE);
  server.requests[1].answer("Not found", 404);
  assert.equal(await missing, null);
  for (const [k, n] of [5, 7].entries()) {
    const other = distancesFrom(4 + k, 6, PLACE);
    server.requests[2 + k].answer(new Float32Array(n).buffer);
    assert.equal(await other, null, "of other footprints");
  }
});

test("a file is asked for once, again after a failure, and the oldest is forgotten", async () => {
  const files = new Files(2);
  const get = (name) => files.get(`/${name}`, asBytes);
  const failed = get("a");
  server.requests[0].answer(null, 500);
  await assert.rejects(failed, /500 for \/a/);
  for (const name of ["a", "a", "b", "c", "a"]) get(name).catch(() => {});
  assert.deepEqual(server.requests.map(({ url }) => url), ["/a", "/a", "/b", "/c", "/a"]);
});

test("the loader takes what is wanted now, however late the answers come", async () => {
  const late = new Store();
  const failures = [];
  const loader = new Loader(late, (error) => failures.push(error.message));
  const data = { ...PLACE, token: "late", score_id: "s1", seen: null };
  loader.load(data);
  loader.load({ ...data, score_id: "s2", seen: { reasons: { cloud: "1" }, shifts: { v: "7", m_per_px: [[0.5, -0.5]] } } });
  loader.load({ ...data, score_id: "s2", seen: { reasons: { cloud: "1" }, shifts: { v: "7", m_per_px: [[0.5, -0.5]] } } });
  const [geometry, first, second, shifts] = server.requests;
  assert.deepEqual(server.requests.map(({ url }) => url), ["outlines.bin?v=1", "scores/s1.bin?v=s1", "scores/s2.bin?v=s2", "shifts.bin?v=7"].map((name) => `${name}&g=1`).map((name) => `/pugeo/late/${name}`));
  second.answer(Float32Array.of(0.5, 0.75).buffer);
  geometry.answer(firstPart(2));
  shifts.answer(new ArrayBuffer(10));
  first.answer(Float32Array.of(0, 0).buffer);
  await settle();
  assert.deepEqual([late.n, ...late.scores, late.isHidden(1), late.shifts.n], [2, 0.5, 0.75, true, 2]);
  loader.load({ ...data, score_id: null, seen: null });
  assert.deepEqual([late.scores, late.shifts, late.hidden.size], [null, null, 0]);
  loader.load({ ...data, geometry_v: "2", score_id: null });
  server.requests.at(-1).fail();
  await settle();
  assert.deepEqual(failures, ["Failed to fetch"]);
});

test("dots by label: their label's color, positives on top", () => {
  store.setLabels({ 1: "0" }, { ops: [], settled: [] });
  const found = colorDots(store, { kind: "labels" }, null, NONE);
  assert.deepEqual(found.palette[found.codes[0]], [0xd5, 0x5e, 0x00]);
  assert.equal(LABEL_COLORS[1], "#D55E00");
  assert.deepEqual(found.palette[found.codes[1]], NONE);
  assert.equal(found.order.at(-1), 1);
});

test("dots by number: a ramp, and nothing for what has no value", () => {
  const numbers = colorDots(store, { kind: "numbers", low: 10, high: 20 }, [10, 20, 15, NaN, 99, -5], NONE);
  assert.deepEqual([...numbers.codes], [1, 20, 11, 0, 20, 1]);
  assert.deepEqual(numbers.palette[numbers.codes[3]], NONE);
});

test("an entry of the legend stands for what has a dot: buildings that came after the run have none", () => {
  assert.deepEqual(dotsOf(1, Uint8Array.of(1, 0, 1, 1, 1), Float32Array.of(0, 0, 1, 1, NaN, NaN, 2, 2)), [0, 3]);
});

test("dots by category: rare ones on top, a gray one where there is none, and an entry for each", () => {
  const found = colorDots(store, { kind: "categories", names: ["wood", "brick"] }, [0, 0, 0, 1, NaN, 7], NONE);
  assert.deepEqual([...found.codes], [1, 1, 1, 2, 0, 0]);
  assert.deepEqual(found.order, [0, 1, 2]);
  assert.deepEqual(found.entries.map(({ text }) => text), ["wood", "brick", "none"]);
  assert.equal(new Set(found.palette.map(String)).size, 3);
});

test("dots in steps keep their colors and their order however many they are, and stand out the more the higher, also from black", () => {
  for (const [ramp, ground] of [["light", 255], ["dark", 15]]) {
    const { palette, order, entries } = colorDots(store, { kind: "categories", names: ["rest", "next", "flagged", "upper"], steps: 4 }, [3, 3, 3, 0, 1, 2], NONE, ramp);
    assert.deepEqual([order, entries.map(({ text }) => text)], [[0, 1, 2, 3, 4], ["upper", "flagged", "next", "rest"]]);
    const away = palette.slice(1).map((rgb) => Math.hypot(...rgb.map((band) => band - ground)));
    assert.deepEqual(away, away.toSorted((a, b) => a - b), ramp);
  }
});
