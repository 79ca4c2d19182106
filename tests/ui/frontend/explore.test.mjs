// The selection of Explore on its way to the page.

import assert from "node:assert/strict";
import test, { beforeEach } from "node:test";
import { fakeBrowser, fakeServer, freshPage, pass, squares } from "./fake_browser.mjs";

fakeBrowser();
fakeServer();
const { Explore } = await import("../../../pu_geo/ui/frontend/src/explore.js");
const { Store } = await import("../../../pu_geo/ui/frontend/src/store.js");

const DATA = { base: "/pugeo", token: "t", geometry_v: "g-1" };
const SCATTER = { run_id: "r-1", kind: "PCA", v: "1", color: { by: "label", kind: "label" }, selected: "", load: "", confirm_above: 20, tells_focus: false };
let store, explore, sent;

beforeEach(() => {
  freshPage();
  sent = [];
  store = new Store();
  store.setGeometry(squares(20));
  explore = new Explore({ store, pictures: { has: () => false }, map: { root: { hidden: true } }, setStateValue: (name, value) => sent.push(value) });
});

const page = (heard) => explore.update({ ...DATA, scatter: { ...SCATTER, heard } });

test("a selection is sent once it rests, and again where no run of the page has heard of it", async () => {
  page(null);
  store.choose([1, 2]);
  await pass(250);
  assert.deepEqual(sent.map(({ places }) => places), ["1 1"]);
  page(sent[0].number);
  await pass(20_000);
  assert.equal(sent.length, 1, "the page has heard");
  store.choose([3]);
  await pass(250);
  page(sent[0].number);
  await pass(8000);
  assert.deepEqual(sent.slice(1).map(({ places }) => places), ["3", "3"]);
  assert.ok(sent[2].number > sent[1].number, "a message that differs: another one is none for Streamlit");
  page(sent[2].number);
  await pass(20_000);
  explore.dispose();
  assert.equal(sent.length, 3);
});
