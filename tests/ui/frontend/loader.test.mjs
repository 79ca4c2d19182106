// What the server sends: scores of one run are never shown under the name of another.

import assert from "node:assert/strict";
import test, { beforeEach } from "node:test";
import { fakeBrowser, fakeServer, firstPart, freshPage, settle, squares } from "./fake_browser.mjs";

fakeBrowser();
const { Loader } = await import("../../../pu_geo/ui/frontend/src/loader.js");
const { Store } = await import("../../../pu_geo/ui/frontend/src/store.js");

let store, loader, server, failures;
beforeEach(() => {
  freshPage();
  server = fakeServer();
  store = new Store();
  store.setGeometry(squares(2));
  failures = [];
  loader = new Loader(store, (error) => failures.push(error.message));
});
const load = (token, score_id, score_name, geometry_v = "1", seen = null) => loader.load({ base: "/pugeo", token, geometry_v, score_id, score_name, seen });
const urls = () => server.requests.map(({ url }) => url);
const answer = async (score_id, values, status = 200) => {
  server.open.find(({ url }) => url.includes(`/scores/${score_id}.bin`)).answer(Float32Array.from(values).buffer, status);
  await settle();
};

test("with another run the scores of the one before go at once; those of a ranking that follows each answer stay", async () => {
  load("a", "r1", "NcPU");
  await answer("r1", [0.25, 0.5]);
  load("a", "r2", "NcPU");
  assert.deepEqual([...store.scores], [0.25, 0.5], "the same name: a moment older");
  await answer("r2", [0.5, 0.75]);
  load("a", "r3", "Ridge");
  assert.equal(store.scores, null);
  await answer("r3", [1, 0]);
  assert.deepEqual([...store.scores], [1, 0]);
});

test("scores that do not come are none, and the next run of the page asks again", async () => {
  load("b", "r1", "Live");
  await answer("r1", [0.25, 0.5]);
  load("b", "r2", "Live");
  await answer("r2", [], 500);
  assert.deepEqual([store.scores, failures.length], [null, 1]);
  load("b", "r2", "Live");
  await answer("r2", [0.5, 0.75]);
  assert.deepEqual([...store.scores], [0.5, 0.75]);
});

test("once footprints changed, all that is in their order is asked for anew, and nothing of before is shown meanwhile", async () => {
  const seen = { reasons: {}, shifts: { v: "7", m_per_px: [[1, 1]] } };
  load("c", "r1", "Live", "1-a", seen);
  await answer("r1", [0.25, 0.5]);
  const before = urls();
  load("c", "r1", "Live", "2-b", seen);
  assert.equal(store.scores, null, "the same run, in another order");
  const after = urls().slice(before.length);
  assert.deepEqual(after.map((url) => url.split("?")[0]), before.map((url) => url.split("?")[0]));
  assert.ok(before.every((url) => url.includes("g=1-a")) && after.every((url) => url.includes("g=2-b")));
});

test("values of another number of buildings than the map has are refused", async () => {
  load("d", "r1", "Live", "1", { reasons: {}, shifts: { v: "7", m_per_px: [[1, 1]] } });
  await answer("r1", [0.25, 0.5, 0.75]);
  server.open.find(({ url }) => url.includes("/shifts.bin")).answer(new ArrayBuffer(15));
  await settle();
  assert.deepEqual([store.scores, store.shifts, failures.length], [null, null, 2]);
  assert.match(failures[0], /3 buildings came for the 2 on the map/);
});

test("scores that come before the footprints wait for them, and are refused where these are others", async () => {
  for (const [token, n, expected] of [["e", 2, [0.25, 0.5]], ["f", 3, null]]) {
    store = new Store();
    loader = new Loader(store, (error) => failures.push(error.message));
    load(token, "r1", "Live");
    await answer("r1", [0.25, 0.5]);
    assert.equal(store.scores, null);
    server.open.find(({ url }) => url.includes(`/${token}/outlines.bin`)).answer(firstPart(n));
    await settle();
    assert.deepEqual(store.scores && [...store.scores], expected);
  }
  assert.equal(failures.length, 1);
});
