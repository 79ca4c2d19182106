// What the server sends: scores of one run are never shown under the name of another.

import assert from "node:assert/strict";
import test, { beforeEach } from "node:test";
import { fakeBrowser, fakeServer, freshPage, settle, squares } from "./fake_browser.mjs";

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
const load = (token, score_id, score_name) => loader.load({ base: "/pugeo", token, geometry_v: "1", score_id, score_name });
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
