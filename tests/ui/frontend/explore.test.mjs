// The selection of Explore on its way to the page, and a question that fills the wall.

import assert from "node:assert/strict";
import test, { beforeEach } from "node:test";
import { fakeBrowser, fakeServer, freshPage, pass, squares } from "./fake_browser.mjs";

fakeBrowser();
fakeServer();
const { Explore } = await import("../../../pu_geo/ui/frontend/src/explore.js");
const { Store } = await import("../../../pu_geo/ui/frontend/src/store.js");

const DATA = { base: "/pugeo", token: "t", geometry_v: "g-1" };
const SCATTER = { source: "look", v: "1", color: { by: "label", kind: "labels" }, selected: "", load: "", confirm_above: 20 };
let store, explore, sent, given;

beforeEach(() => {
  freshPage();
  [sent, given] = [[], []];
  store = new Store();
  store.mode = "label";
  store.setGeometry(squares(20));
  const give = (numbers, code) => {
    given.push([numbers, code]);
    explore.answered(numbers);
  };
  explore = new Explore({ store, pictures: { has: () => false }, panes: { fold: () => {} }, labeler: { usable: true, give }, target: {}, map: { root: { hidden: true }, follow: () => {} }, setStateValue: (name, value) => sent.push(value) });
});

const page = (heard, asked = null) => explore.update({ ...DATA, scatter: { ...SCATTER, heard, asked } });

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

test("a question is answered in its order by single keys; N passes one over, undo leads back, and what is selected comes first", () => {
  const asked = { v: "q-1", title: "Where else?", places: [5, 2, 9], notes: ["look 1st", "look 2nd", "look 3rd"] };
  store.choose([5, 6]);
  page(null, asked);
  assert.deepEqual([store.selected, store.chosen], [5, []], "the wall shows the question");
  const key = (...names) => names.map((name) => explore.key(name, {}));
  const open = () => asked.places.filter((i) => !store.asked.isAnswered(i));
  assert.deepEqual(key("1", "n", "0", "x"), [true, true, true, false]);
  assert.deepEqual([given, store.selected, open()], [[[[5], 1], [[9], 0]], 2, [2]], "also an answer that changes nothing is one; then come those passed over");
  explore.key("2", { repeat: true });
  assert.equal(given.length, 2);
  explore.stepped("undo");
  explore.stepped("undo");
  assert.deepEqual([store.selected, open()], [5, [5, 2, 9]]);
  explore.stepped("redo");
  assert.deepEqual(open(), [2, 9]);
  page(null, { ...asked }); // a run of the page changes nothing
  assert.deepEqual([store.selected, open()], [5, [2, 9]]);
  store.choose([1, 2]);
  assert.equal(explore.isAsking, false);
  key("2");
  assert.deepEqual([given.at(-1), open()], [[[1, 2], 2], [9]], "one of them was asked for");
  page(null);
  assert.equal(store.asked, null);
});
