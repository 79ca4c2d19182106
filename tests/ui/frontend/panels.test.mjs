// Small panels over the map: the card of a building, why it is not assessable, what is inside a box, what is selected.

import assert from "node:assert/strict";
import test, { beforeEach } from "node:test";
import { buttons, fakeBrowser, fakeServer, freshPage, pass, settle, sitesOf, squares } from "./fake_browser.mjs";

fakeBrowser();
const { Card } = await import("../../../pu_geo/ui/frontend/src/card.js");
const { describe } = await import("../../../pu_geo/ui/frontend/src/describe.js");
const { GradeBar } = await import("../../../pu_geo/ui/frontend/src/mark_bars.js");
const { MarkBar } = await import("../../../pu_geo/ui/frontend/src/mark_bars.js");
const { ReasonPicker } = await import("../../../pu_geo/ui/frontend/src/mark_bars.js");
const { SelectionBar } = await import("../../../pu_geo/ui/frontend/src/mark_bars.js");
const { Toolbar } = await import("../../../pu_geo/ui/frontend/src/toolbar.js");
const { Store } = await import("../../../pu_geo/ui/frontend/src/store.js");

const NO_PICTURES = { has: () => false, hasModel: () => false, parts: [], wall: null };
let store;
beforeEach(() => {
  freshPage();
  store = new Store();
  store.set("mode", "label");
  store.setGeometry(squares(6));
});
const label = (labels, details = null) => store.setLabels(labels, { ops: [], settled: [] }, details);

// The card

function openCard() {
  const edits = [];
  const card = new Card(store, (i, change) => edits.push([i, change]), NO_PICTURES);
  card.configure({ types: ["roof", "walls"], base: "/pugeo", token: "t", geometry_v: "1" });
  card.toggle();
  return { card, edits };
}

test("the card of a positive offers types; one more is all that were given, one again is without it", () => {
  label({ 1: "0" }, { type: { tent: "0", roof: "0" } });
  const { card, edits } = openCard();
  store.set("selected", 0);
  const shown = buttons(card.types.buttons);
  assert.deepEqual(Object.keys(shown), ["✓roof", "walls", "✓tent"]);
  shown.walls.click();
  shown["✓roof"].click();
  assert.deepEqual(edits, [
    [0, { damage_types: ["tent", "roof", "walls"], absent_types: [] }], [0, { damage_types: ["tent"], absent_types: ["roof"] }],
  ]);
});

test("a type is yes, no, or nobody said: a sign, an edge and words, not color alone; the right button says no at once", () => {
  label({ 1: "0" }, { type: { roof: "0" }, no_type: { walls: "0" } });
  const { card, edits } = openCard();
  store.set("selected", 0);
  const [roof, walls] = card.types.buttons.children;
  assert.deepEqual([roof, walls].map(({ attributes }) => attributes["aria-label"]), ["roof: yes", "walls: no"]);
  assert.deepEqual([roof.classList.contains("yes"), walls.classList.contains("no")], [true, true]);
  assert.match(walls.attributes.title, /you looked, and walls is not there/);
  walls.click();
  roof.dispatchEvent(new Event("contextmenu"));
  assert.deepEqual(edits, [[0, { damage_types: ["roof"], absent_types: [] }], [0, { damage_types: [], absent_types: ["walls", "roof"] }]]);
});

test("a type of one's own is given to the building that it was typed for, once, and in the words that are known", () => {
  label({ 1: "0 1" });
  const { card, edits } = openCard();
  store.set("selected", 0);
  card.types.more.click();
  card.types.own.value = " tarp ";
  store.set("selected", 1);
  card.types.own.value = "ROOF";
  card.types.own.blur();
  assert.deepEqual(edits, [[0, { damage_types: ["tarp"], absent_types: [] }], [1, { damage_types: ["roof"], absent_types: [] }]]);
  assert.deepEqual(Object.keys(buttons(card.types.buttons)), ["roof", "walls", "tarp"], "it is offered from now on");
});

test("a button stays the same one while scores arrive: a pressed one keeps its click", () => {
  label({ 1: "0" });
  const { card } = openCard();
  store.set("selected", 0);
  const before = buttons(card.types.buttons).roof;
  store.setScores(new Float32Array(6).fill(0.5));
  label({ 1: "0 1" });
  assert.equal(buttons(card.types.buttons).roof, before);
  label({ 1: "0" }, { type: { roof: "0" } });
  assert.equal(buttons(card.types.buttons)["✓roof"], before, "it shows that it is given, and is still the same one");
});

test("a comment is logged when it is left, when another building is selected, and when the page goes", () => {
  label({ 1: "0 1" });
  const { card, edits } = openCard();
  store.set("selected", 0);
  card.comment.value = " half ";
  store.set("selected", 1);
  card.comment.value = "other";
  card.comment.blur();
  card.comment.value = "last";
  window.dispatchEvent(new Event("pagehide"));
  assert.deepEqual(edits, [[0, { comment: "half" }], [1, { comment: "other" }], [1, { comment: "last" }]]);
});

test("a comment that nobody changed says nothing: another's that came while the field had the focus stays, and is shown after", () => {
  label({ 1: "0" });
  const { card, edits } = openCard();
  store.set("selected", 0);
  card.comment.focus();
  assert.equal(card.isWriting, true);
  label({ 1: "0" }, { comment: { 0: "roof gone" }, by: { bob: "0" } });
  assert.equal(card.comment.value, "", "nothing changes under the hands");
  card.commit();
  card.comment.blur();
  card.comment.dispatchEvent(new Event("blur"));
  assert.deepEqual([edits, card.comment.value, card.isWriting], [[], "roof gone", false]);
});

test("nothing can be written to a building without a label, nor where nothing is labeled", () => {
  const { card } = openCard();
  store.set("selected", 0);
  assert.equal(card.comment.hidden, true);
  label({ 1: "0" }, { comment: { 0: "hm" }, type: { roof: "0" }, by: { ann: "0" } });
  store.set("mode", "view");
  assert.deepEqual([card.comment.hidden, card.comment.disabled, Object.keys(buttons(card.choices)).length], [false, true, 0]);
  assert.match(card.facts.textContent, /by ann/);
  assert.match(card.facts.textContent, /roof/);
});

test("where nothing is labeled a selection opens the card, and a closed one stays closed for that building", () => {
  store.set("mode", "view");
  const card = new Card(store, () => {}, NO_PICTURES);
  card.configure({});
  store.set("selected", 2);
  assert.equal(card.root.hidden, false);
  card.toggle();
  store.set("selected", -1);
  store.set("selected", 2);
  assert.equal(card.root.hidden, true);
  store.set("selected", 3);
  assert.equal(card.root.hidden, false);
});

test("the history of a building is asked for after a moment, and only where nothing is labeled", async () => {
  const server = fakeServer();
  const { card } = openCard();
  store.set("selected", 0);
  await pass(1000);
  assert.deepEqual(server.requests, [], "an answer must not hang on what the machine thinks");
  store.set("mode", "view");
  for (const i of [1, 2, 3]) store.set("selected", i);
  await pass(150);
  assert.deepEqual(server.requests.map(({ url }) => url), ["/pugeo/t/story/3.json?g=1"]);
  server.requests[0].answer({
    events: [{ at: "2026-01-02T03:04:05.000Z", analyst: "<eve>", label: "positive", kind: "set", reason: "", comment: "<b>", damage_types: ["roof", "flooded"], absent_types: ["burned"] },
      { at: "2026-01-02T03:05:05.000Z", analyst: "ann", label: "not_assessable", kind: "redo", reason: "no_building", comment: "" }],
    runs: [{ run_id: "r-1", name: "NcPU quick", score: 0.875, rank: 12, n: 3000 }], alike: [4], before: [{ round: 1, label: null, damage_binary: "not_flagged" }, { round: 2, label: null, damage_binary: "not_assessed" }],
    attributes: { storeys: 2, none: null }, imagery: { post_hidden_share: 0.004 },
  });
  await settle();
  const text = card.history.root.textContent;
  for (const part of ["2026-01-02 03:04 <eve>: damaged, roof, flooded, not: burned, “<b>”", "NcPU quick: rank 12 of 3,000 · score 0.88", "Round 1: not flagged", "Round 2: not assessed", "ann: not assessable (redone), no building", "storeys: 2", "after the event 1 %"]) assert.ok(text.includes(part), part);
  assert.ok(!text.includes("none: "));
});

test("the words for a building name its label, its reason, what the imagery hides, and where keys would go", () => {
  const words = (i) => describe(store, i).map((each) => each.textContent).join(" | ");
  store.setSites(sitesOf());
  store.setScores(new Float32Array(6).fill(0.5));
  store.set("scoreName", "Live ranking");
  store.setImageQuality({ reasons: { cloud: "1 1" }, candidates: { misaligned: "3" } });
  label({ 1: "2", 3: "4" }, { reason: { unclear: "4" } });
  assert.match(words(0), /Building 1 \| Not reviewed \| Live ranking: rank 1 of 6 · score 0.50 \| 4 m²/);
  assert.match(words(1), /Not assessed: cloud \| 4 m² \| Your answer overrides it/);
  assert.match(words(2), /Damaged .* The imagery suggests: cloud. The answer counts/);
  assert.match(words(3), /could not be aligned here \| Pre may show another place/);
  assert.match(words(4), /Not assessable: unclear/);
  store.set("mode", "label");
  store.set("selected", 5);
  assert.match(words(0), /A click labels this one; keys answer building 6/);
  assert.doesNotMatch(words(5), /keys answer/);
});

// Why not assessable

function openPicker(numbers) {
  const chosen = [];
  const picker = new ReasonPicker(store, NO_PICTURES, (...all) => chosen.push(all));
  picker.open(numbers, "act-1");
  return { picker, chosen };
}

for (const [key, reason] of [["c", "cloud"], ["o", "outside_image"], ["x", "nodata"], ["m", "misaligned"], ["b", "no_building"], ["u", "unclear"]]) {
  test(`${key} gives the reason ${reason}, once`, () => {
    const { picker, chosen } = openPicker([2]);
    assert.ok(Object.keys(buttons(picker.root)).some((text) => text.startsWith(key.toUpperCase())));
    assert.equal(picker.key(key), true);
    assert.equal(picker.key(key), false, "it is closed");
    assert.deepEqual(chosen, [[[2], reason, "act-1"]]);
  });
}

test("digits and N are no reasons: they are about the building that keys act on, which is the next one in the queue", () => {
  const { picker, chosen } = openPicker([2]);
  for (const name of ["n", ..."123456789"]) assert.equal(picker.key(name), false);
  assert.deepEqual([chosen, picker.isOpen], [[], true]);
});

// How badly damaged

const SCALE = [{ id: "destroyed", name: "Destroyed", offered: true }, { id: "major", name: "Major", offered: true }, { id: "tent", name: "Tent", offered: false }];

test("the grade bar names the building that keys act on, and its buttons grade it; a double click is one", () => {
  const pressed = [];
  const bar = new GradeBar(store, (grade) => pressed.push(grade));
  store.set("mode", "label");
  bar.show({ i: 2, on: null });
  assert.equal(bar.root.hidden, true, "a scale without grades asks nothing");
  store.setScale(SCALE);
  label({ 1: "2" }, { grade: { major: "2" } });
  bar.show({ i: 2, on: "queue" });
  assert.match(bar.root.textContent, /^Grade:Building 34Destroyed5Major$/);
  const given = () => bar.buttons.children.filter((each) => each.classList.contains("given")).map((each) => each.dataset.grade);
  assert.deepEqual(given(), ["major"]);
  const [destroyed, major] = bar.buttons.children;
  for (const [button, detail] of [[destroyed, 1], [destroyed, 2], [major, 1]]) button.dispatchEvent(Object.assign(new Event("click"), { detail }));
  assert.deepEqual(pressed, ["destroyed", "major"]);
  bar.show(null);
  assert.match(bar.root.textContent, /^Grade:no building/);
  store.set("picks", true);
  bar.show({ i: 2, on: null });
  assert.equal(bar.root.hidden, true, "where clicks select, the line of the selection has grades");
});

test("a selection takes a grade as one step; those that have it stay out of it", () => {
  store.setScale(SCALE);
  label({ 1: "0 1 1" }, { grade: { major: "0" } });
  const { bar, labeled } = openBar();
  assert.match(bar.root.textContent, /1 Major · 2 damaged, not graded/);
  bar.ask(1, "major");
  assert.deepEqual(labeled, [[[1, 2, 3], 1, "major"]]);
  assert.match(bar.root.textContent, /3 buildings marked damaged: major; undo with Ctrl\+Z/);
});

test("what the imagery makes likely is marked, if it is the same for all", () => {
  store.setImageQuality({ reasons: { cloud: "1 1" }, candidates: { misaligned: "3" } });
  const marked = (numbers) => openPicker(numbers).picker.root.all("on").map(({ dataset }) => dataset.reason);
  assert.deepEqual([marked([0]), marked([1]), marked([1, 2]), marked([1, 3])], [[], ["cloud"], ["cloud"], []]);
  assert.match(openPicker([1, 2]).picker.root.textContent, /^2 buildings/);
});

// Where the focus goes

test("a panel that goes, or loses its pressed button, hands the focus to the view", () => {
  const view = document.createElement("div");
  store.setScale(SCALE);
  const { picker } = openPicker([2]);
  const marks = new MarkBar(store, () => {});
  marks.ask([1, 2]);
  const { bar } = openBar();
  for (const [name, root, text] of [["picker", picker.root, "CCloud"], ["marks", marks.root, "Not damaged"], ["selection", bar.root, "1Damaged"]]) {
    root.closest = () => view;
    const button = buttons(root)[text];
    assert.ok(button, name);
    button.focus();
    button.click();
    assert.equal(document.activeElement === view, true, name);
  }
  picker.root.closest = () => assert.fail("the focus is elsewhere");
  picker.close();
});

test("the list of keys takes the focus, and gives it back; answers and problems are spoken once", () => {
  const toolbar = new Toolbar(store, {});
  const before = document.createElement("button");
  before.focus();
  toolbar.toggleHelp();
  assert.equal(document.activeElement === toolbar.help, true);
  toolbar.toggleHelp();
  assert.equal(document.activeElement === before, true);
  const speaking = (each) => [...(["status", "alert"].includes(each.attributes.role) ? [each] : []), ...each.children.flatMap(speaking)];
  assert.equal(speaking(toolbar.root).length, 1);
  toolbar.announce([2], 1);
  toolbar.showStatus({ ops: [{}], problem: null, refused: null, state: "saving" });
  assert.equal(toolbar.spoken.textContent, "Building 3: damaged");
  toolbar.showStatus({ ops: [{}], problem: null, refused: null, state: "waiting" });
  assert.equal(toolbar.spoken.textContent, "1 not saved yet: no answer from the server");
  toolbar.sayNoTarget("Point at a building first");
  assert.equal(toolbar.spoken.textContent, "Point at a building first");
});

// What is inside a box, and what is selected

test("a box asks what to do with its buildings, and an empty one asks nothing", () => {
  const chosen = [];
  const bar = new MarkBar(store, (...all) => chosen.push(all));
  bar.ask([]);
  assert.equal(bar.root.hidden, true);
  bar.ask([1, 2]);
  assert.match(bar.root.textContent, /^2 buildings:/);
  buttons(bar.root)["Not damaged"].click();
  assert.deepEqual([chosen, bar.root.hidden], [[[[1, 2], 2, null]], true]);
  store.setScale(SCALE);
  bar.ask([1, 2]);
  buttons(bar.root).Major.click();
  assert.deepEqual(chosen[1], [[1, 2], 1, "major"]);
});

function openBar(confirmAbove = Infinity) {
  const labeled = [];
  const bar = new SelectionBar(store, { label: (...all) => labeled.push(all) });
  Object.assign(bar, { confirmAbove });
  bar.root.hidden = false;
  store.choose([0, 1, 2, 3]);
  return { bar, labeled };
}

test("a selection is labeled as one step, without those that have the label already", () => {
  label({ 1: "0" });
  const { bar, labeled } = openBar();
  assert.match(bar.root.textContent, /^4 selected1 damaged/);
  bar.ask(1);
  assert.deepEqual(labeled, [[[1, 2, 3], 1, null]]);
  assert.match(bar.root.textContent, /3 buildings marked damaged; undo with Ctrl\+Z/);
});

test("many are labeled only after a question, which names what would be lost; Escape takes it back", () => {
  label({ 1: "0 1" });
  const { bar, labeled } = openBar(3);
  bar.ask(2);
  assert.deepEqual(labeled, []);
  assert.match(bar.root.textContent, /^Mark 4 buildings not damaged\? 2 of them have another answer now/);
  assert.equal(bar.cancel(), true);
  assert.equal(bar.cancel(), false);
  bar.ask(2);
  bar.ask(1);
  assert.deepEqual(labeled, [[[2, 3], 1, null]], "two are few enough");
  bar.ask(2);
  bar.ask(2);
  assert.deepEqual(labeled[1], [[0, 1, 2, 3], 2, null]);
});
