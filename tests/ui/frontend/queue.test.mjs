// The queue: where the analyst is in it, what is answered or skipped, when another one is asked for, and what keys do there.

import assert from "node:assert/strict";
import test, { beforeEach } from "node:test";
import { fakeBrowser, frame, freshPage, squares } from "./fake_browser.mjs";

fakeBrowser();
const { listenForKeys } = await import("../../../pu_geo/ui/frontend/src/keys.js");
const { Labeler } = await import("../../../pu_geo/ui/frontend/src/labeler.js");
const { QueuePane } = await import("../../../pu_geo/ui/frontend/src/queue_pane.js");
const { QueueState } = await import("../../../pu_geo/ui/frontend/src/queue_state.js");
const { Store } = await import("../../../pu_geo/ui/frontend/src/store.js");

const KINDS = ["exploit", "audit", "explore"];
const LABELS = ["cleared", "positive", "not_damaged", "not_assessable"];
const NO_PICTURES = { has: () => false };
let store, queue, pane, ops;

/** A queue of so many buildings: b0, b1, b2 ... */
const given = (n, id = "q-1", first = 0) => ({ id, items: Array.from({ length: n }, (_, k) => [first + k, KINDS[k % 3], `why ${k}`]) });

function open() {
  store = new Store();
  store.set("mode", "label");
  store.setGeometry(squares(20));
  store.setScores(new Float32Array(20).fill(0.5));
  queue = new QueueState(store, { wish: (operation) => log([...ops, operation]), moved: () => {} });
  pane = new QueuePane(store, queue, NO_PICTURES, {
    give: (i, code, grade, types) => log([...ops, { building_id: store.ids[i], label: LABELS[code], ...(grade ? { grade } : {}), ...types }]),
    type: (i, types) => log([...ops, { building_id: store.ids[i], label: "positive", ...types }]),
    isForeignCheck: (i) => queue.current?.kind === "audit" && !store.labels[i],
    regrade: (i, grade) => log([...ops, { building_id: store.ids[i], label: "positive", ...(store.detail(i).grade === grade ? {} : { grade }) }]),
  });
  queue.setActive(true);
}

/** What the log holds now. */
function log(operations) {
  ops = operations;
  store.setLabels({}, { ops, settled: [] });
}

beforeEach(() => {
  freshPage();
  ops = [];
  open();
});

const press = (...keys) => keys.map((key) => pane.key(key, {}));
const current = () => queue.current?.i;
const wishes = () => ops.filter(({ next }) => next);
const labels = () => Object.fromEntries([...store.labels.entries()].filter(([, code]) => code));

test("in a second reading what another reader answered is open, and a key answers it at once", () => {
  const mine = new Set();
  queue.isOwn = (i) => mine.has(i);
  store.setLabels({ 1: "0 1 1" }, { ops: [], settled: [] });
  queue.take("t", { id: "q-2", items: [[0, "audit", ""], [1, "audit", ""], [2, "audit", ""]], is_second: true });
  assert.deepEqual([queue.isOver, current(), queue.answered], [false, 0, 0]);
  assert.equal(wishes().length, 0);
  mine.add(0);
  press("2");
  assert.deepEqual([labels()[0], current(), queue.answered], [2, 1, 1]);
  for (const i of [1, 2]) {
    mine.add(i);
    press("1");
  }
  assert.equal(wishes().length, 1, "then another queue is asked for");
});

test("each answer leads to the next one; after the last one another queue is asked for, once", () => {
  queue.take("t", given(3));
  press("1", "2", "3");
  assert.deepEqual(labels(), { 0: 1, 1: 2, 2: 3 });
  assert.deepEqual(wishes(), [{ next: true, screen: "queue", queue: "q-1", skipped: [] }]);
  queue.take("t", given(3, "q-2", 3));
  assert.equal(current(), 3);
});

test("arrows walk, 0 clears, and an answer goes on to the next open one", () => {
  queue.take("t", given(6));
  press("ArrowRight", "1");
  assert.equal(current(), 2);
  press("ArrowLeft", "ArrowLeft", "2");
  assert.equal(current(), 2, "the second is answered already");
  press("ArrowLeft", "1");
  assert.equal(store.labels[1], 1, "in the queue a second 1 is no clearing");
  press("ArrowLeft", "Backspace");
  assert.equal(current(), 1);
  press("ArrowLeft", "0", "ArrowRight", "n");
  assert.deepEqual(labels(), {});
  assert.deepEqual([...queue.skipped], [1]);
  press("ArrowLeft", "1");
  assert.deepEqual([...queue.skipped], [], "what was skipped can be answered after all");
});

test("a key that is held down answers once", () => {
  queue.take("t", given(6));
  press("1");
  for (let k = 0; k < 3; k++) assert.equal(pane.key("1", { repeat: true }), true);
  assert.deepEqual(labels(), { 0: 1 });
});

test("keys that come too early for the next queue change no answer; N and Enter ask again", () => {
  queue.take("t", given(2));
  press("1", "1", "2", "3");
  assert.deepEqual(labels(), { 0: 1, 1: 1 });
  press("n");
  assert.equal(wishes().length, 1, "it is on its way");
  log(ops.filter(({ next }) => !next)); // and came back with nothing
  press("2");
  assert.equal(wishes().length, 0);
  press("Enter");
  assert.equal(wishes().length, 1);
  press("ArrowLeft", "2");
  assert.deepEqual(labels(), { 0: 2, 1: 1 }, "who walks back answers again");
});

test("Q asks at once and names what was skipped", () => {
  queue.take("t", given(6));
  press("1", "n", "n", "q", "q");
  assert.deepEqual(wishes().map(({ skipped }) => skipped), [["b1", "b2"]]);
  assert.equal(queue.current.i, 3);
});

test("an undo leads back to its building", () => {
  queue.take("t", given(6));
  press("1", "2");
  queue.expectUndo();
  log(ops.slice(0, 1));
  assert.equal(current(), 1);
});

test("answers on the map count, and end a queue too", () => {
  queue.take("t", given(2));
  log([{ building_id: "b1", label: "positive" }]);
  assert.equal(current(), 0, "the picture stays");
  press("2");
  assert.equal(wishes().length, 1);
});

test("what others answer takes no picture away, and asks for nothing before this analyst did", () => {
  queue.take("t", given(2));
  press("1");
  store.heard.set(1, { code: 1, event: 9 });
  store.relabel("heard");
  assert.equal(current(), 1);
  assert.deepEqual(wishes(), []);
  press("2");
  assert.equal(wishes().length, 1);
});

test("place and skips outlive a reload, and end with the queue", () => {
  queue.take("t", given(6));
  press("1", "n");
  open();
  log(ops);
  queue.take("t", given(6));
  assert.equal(current(), 2);
  assert.deepEqual([...queue.skipped], [1]);
  queue.take("t", given(6, "q-2"));
  assert.deepEqual([...queue.skipped], []);
});

test("the score of a check is kept back until it is answered, and while it is the current one", () => {
  queue.take("t", given(6));
  const known = () => [0, 1, 2, 3, 4, 5].filter((i) => store.score(i) !== null);
  assert.deepEqual(known(), [0, 2, 3, 5]);
  press("1", "2");
  assert.deepEqual(known(), [0, 1, 2, 3, 5]);
  press("ArrowLeft");
  assert.deepEqual(known(), [0, 2, 3, 5]);
  queue.setActive(false);
  assert.deepEqual(known(), [0, 1, 2, 3, 5], "the analyst is elsewhere");
});

test("the pane shows what a check is for, and never the words of its choice", () => {
  queue.take("t", given(6));
  pane.configure({});
  frame();
  assert.match(pane.reason.textContent, /^Likely damagedwhy 0/);
  press("1");
  frame();
  assert.match(pane.reason.textContent, /^Random pick/);
  assert.doesNotMatch(pane.reason.textContent, /why/);
  assert.equal(pane.facts.textContent.includes("score"), false);
  assert.equal(pane.progress.textContent, "1 answered");
});

test("an empty queue has nothing to answer; without a queue keys go elsewhere", () => {
  queue.take("t", given(0));
  pane.configure({});
  frame();
  assert.equal(pane.title.textContent, "Nothing to review");
  assert.deepEqual(press("1", "n"), [false, false]);
  queue.take("t", null);
  assert.deepEqual(press("1"), [false]);
  assert.deepEqual(ops, []);
});

test("buildings that the map does not have are left out", () => {
  queue.take("t", given(3, "q-1", 18));
  assert.deepEqual(queue.items.map(({ i }) => i), [18, 19]);
});

test("a grade answers the large picture and goes on; on one that was answered it changes the grade and stays", () => {
  store.setScale([{ id: "destroyed", name: "Destroyed", offered: true }, { id: "minor", name: "Minor", offered: true }]);
  queue.take("t", given(6));
  press("5", "1");
  assert.deepEqual(ops.map(({ building_id, label, grade }) => [building_id, label, grade]), [["b0", "positive", "minor"], ["b1", "positive", undefined]]);
  assert.equal(current(), 2, "a digit after 1 means the next one");
  queue.go(0);
  press("4", "4");
  assert.deepEqual(ops.slice(2).map(({ building_id, grade }) => [building_id, grade]), [["b0", "destroyed"], ["b0", undefined]]);
  assert.deepEqual([current(), store.labels[0]], [0, 1], "without the grade, with the mark");
  press("6");
  assert.equal(ops.length, 4, "the scale has two grades");
});

test("pictures of the queue are made anew only where they differ, and a thumbnail that had the focus has it again", () => {
  queue.take("t", given(6));
  pane.configure({});
  frame();
  const [thumbs, large] = [[...pane.thumbs.children], pane.large.children[0]];
  document.activeElement = thumbs[2];
  pane.configure({});
  frame();
  assert.ok(thumbs.every((thumb, at) => thumb === pane.thumbs.children[at]) && large === pane.large.children[0]);
  pane.pictures = { ...NO_PICTURES, configured: "other" };
  pane.later();
  frame();
  assert.notEqual(pane.thumbs.children[0], thumbs[0]);
  assert.equal(document.activeElement, pane.thumbs.children[queue.at]);
});

test("a queue that is renewed by newer scores keeps the picture that is large and what was skipped; without that picture it waits", () => {
  const renewed = (...numbers) => queue.take("t", { id: "q-1", items: numbers.map((i) => [i, "exploit", ""]) });
  renewed(0, 1, 2, 3, 4);
  press("1", "n"); // b0; b1 is skipped, b2 is large
  renewed(0, 9, 2, 8, 1);
  assert.deepEqual([current(), queue.items.map(({ i }) => i), [...queue.skipped]], [2, [0, 9, 2, 8, 1], [4]]);
  renewed(0, 7, 6, 8, 1);
  assert.deepEqual([current(), queue.items.map(({ i }) => i)], [2, [0, 9, 2, 8, 1]]);
  press("2");
  renewed(0, 7, 6, 8, 1, 5);
  assert.deepEqual([current(), queue.items.length], [8, 6]);
  renewed(0, 7, 6, 8, 1);
  press("1");
  draw();
  queue.go(3);
  renewed(0, 6, 7, 8, 1);
  assert.equal(current(), 8, "also one that is answered already");
});

test("once all random checks are answered, nothing else is asked for", () => {
  store.setOnly([]);
  queue.take("t", { id: "q-2", items: [] });
  draw();
  assert.deepEqual([pane.title.textContent, pane.askButton.hidden, pane.note.textContent], ["All checks are answered", true, ""]);
});

test("types are offered once one is used in this project; until then a button opens them", () => {
  pane.configure({ types: ["roof"] });
  queue.take("t", given(3));
  draw();
  assert.deepEqual([pane.types.buttons.hidden, pane.keep.hidden, pane.types.more.hidden], [true, true, false]);
  pane.types.more.click();
  assert.equal(pane.types.buttons.hidden, false);
});

// Damage types

const typeButtons = () => Object.fromEntries(pane.types.buttons.children.map((each) => [each.lastChild.textContent, each]));
const draw = () => (pane.later(), frame());
const typesOf = (i) => [store.detail(i).damage_types, store.detail(i).absent_types];

test("several types are given to the large picture one press each, which marks it damaged and keeps it; then the queue goes on", () => {
  pane.configure({ types: ["roof", "flooded", "burned"] });
  queue.take("t", given(1));
  draw();
  const { roof, flooded, burned } = typeButtons();
  roof.click();
  flooded.click();
  burned.click();
  burned.click(); // within the same drawing
  assert.deepEqual(typesOf(0), [["roof", "flooded"], ["burned"]]);
  assert.equal(ops.length, 4);
  assert.deepEqual([current(), wishes().length], [0, 0], "the last one stays, too: other types may follow");
  press("1");
  assert.equal(wishes().length, 1);
});

test("each type shows how many damaged buildings have it, without what a random check was answered with", () => {
  pane.configure({ types: ["roof", "flooded"] });
  const details = { shown: { audit: "2" }, by: { ann: "0 1 1 1" }, type: { roof: "0 1 1", flooded: "0" } };
  store.setLabels({ 1: "0 1 1", 2: "3" }, { ops: [], settled: [] }, details);
  queue.take("t", given(1, "q-1", 5));
  draw();
  const { roof, flooded } = typeButtons();
  assert.deepEqual([roof, flooded].map(({ dataset }) => dataset.n), [2, 1]);
  assert.match(roof.attributes.title ?? roof.getAttribute("title"), /2 buildings with it so far/);
});

test("types go with the next damaged building only where that was asked for, never to a random check, and never over its own", () => {
  pane.configure({ types: ["roof", "flooded"] });
  queue.take("t", { id: "q-1", items: [0, 1, 2, 3, 4].map((i) => [i, i === 2 ? "audit" : "exploit", ""]) });
  draw();
  typeButtons().roof.click();
  queue.go(1);
  press("1");
  assert.deepEqual(typesOf(1), [[], []]);
  queue.go(0);
  pane.keep.click();
  queue.go(2);
  press("1", "1"); // the check, b3
  assert.deepEqual([typesOf(2), typesOf(3)], [[[], []], [["roof"], []]]);
  draw();
  assert.equal(typeButtons().roof.attributes["aria-label"], "roof: yes", "it shows what key 1 would give");
  typeButtons().flooded.click();
  assert.deepEqual(typesOf(4), [["roof", "flooded"], []]);
  pane.keep.click();
  assert.deepEqual(pane.kept, {});
});

test("what is not damaged has no types to give, and T leads to those of what is", () => {
  pane.configure({ types: ["roof"] });
  queue.take("t", given(3));
  draw();
  press("t");
  assert.equal(document.activeElement, pane.types.buttons.children[0]);
  press("2");
  queue.go(0);
  draw();
  assert.equal(pane.types.root.hidden, true);
});

for (const key of ["Enter", " "]) {
  test(`T and then ${key === " " ? "Space" : key} presses a type; on the next building it means what it always means`, () => {
    const root = document.createElement("div");
    root.className = "pugeo";
    root.append(pane.root);
    const used = [];
    listenForKeys(root, (name, event) => (used.push(name), pane.key(name, event)), () => true);
    const hit = (pressed) => {
      const target = document.activeElement;
      const event = Object.assign(new Event("keydown", { cancelable: true }), { key: pressed, composedPath: () => [target, root] });
      window.dispatchEvent(event);
      if (!event.defaultPrevented && target.tagName === "BUTTON") target.click(); // as a browser does
    };
    pane.configure({ types: ["roof"] });
    queue.take("t", given(3));
    draw();
    ["t", key].forEach(hit);
    assert.deepEqual([current(), typesOf(0), used], [0, [["roof"], []], ["t"]]);
    hit("1");
    draw();
    assert.deepEqual([current(), document.activeElement], [1, document.body]);
    hit(key);
    assert.deepEqual([typesOf(1), used], [[[], []], ["t", "1", key === " " ? "space" : key]]);
  });
}

const rightClick = (button) => button.dispatchEvent(new Event("contextmenu"));

test("that a building has not a type makes no damaged one; it waits for that answer, and is dropped with any other", () => {
  pane.configure({ types: ["roof", "flooded"] });
  queue.take("t", given(4));
  draw();
  rightClick(typeButtons().flooded);
  draw();
  assert.deepEqual([ops, typeButtons().flooded.attributes["aria-label"], typeButtons().flooded.classList.contains("kept")], [[], "flooded: no", true]);
  press("ArrowRight", "ArrowLeft", "1");
  assert.deepEqual([typesOf(0), ops.length], [[[], ["flooded"]], 1]);
  draw();
  rightClick(typeButtons().roof);
  press("2");
  queue.go(1);
  press("1");
  assert.deepEqual(typesOf(1), [[], []]);
  queue.go(2);
  draw();
  rightClick(typeButtons().flooded);
  typeButtons().roof.click();
  assert.deepEqual([typesOf(2), store.labels[2]], [[["roof"], ["flooded"]], 1], "a type that it has marks it damaged, with what waited");
});

test("a kept type that is switched off on an unlabeled building marks nothing, and does not go with its answer", () => {
  pane.configure({ types: ["roof", "flooded"] });
  queue.take("t", { id: "q-1", items: [0, 1, 2].map((i) => [i, "exploit", ""]) });
  draw();
  pane.keep.click();
  typeButtons().roof.click();
  press("1");
  draw();
  typeButtons().roof.click(); // yes, now no
  typeButtons().roof.click(); // open
  assert.equal(store.labels[1], 0);
  press("1");
  assert.deepEqual(typesOf(1), [[], []]);
});

test("kept types are neither shown nor given where somebody walks back to, nor taken from another reader's check", () => {
  pane.configure({ types: ["roof", "flooded"] });
  queue.take("t", { id: "q-1", items: [0, 1, 2].map((i) => [i, "exploit", ""]) });
  press("1"); // damaged, no type
  draw();
  pane.keep.click();
  typeButtons().roof.click();
  queue.go(0);
  draw();
  assert.equal(typeButtons().roof.attributes["aria-label"], "roof: nobody said");
  typeButtons().flooded.click();
  assert.deepEqual(typesOf(0), [["flooded"], []]);
  pane.keep.click();
  queue.take("t", { id: "q-2", items: [[1, "audit", ""], [2, "exploit", ""]] });
  pane.actions.isForeignCheck = (i) => i === 1;
  queue.go(0);
  draw();
  pane.keep.click();
  assert.deepEqual([pane.keeps, pane.kept], [true, {}]);
});

test("a type that was typed and not entered marks no unlabeled building damaged; it goes with the answer damaged, and with no other", () => {
  const labeler = new Labeler(store, () => ({ session: "s", next: 1, addMany: (added) => log([...ops, ...added]) }), queue, () => {});
  Object.assign(pane.actions, { give: (i, code, grade = null, types = {}) => labeler.give([i], code, "queue", grade, types), type: (i, types) => labeler.type(i, types, "queue") });
  pane.configure({ types: ["roof"] });
  queue.take("t", given(6));
  draw();
  const write = (text) => {
    pane.types.more.click();
    pane.types.own.value = text;
    pane.types.own.blur(); // on the way to a button
  };
  write("tarp");
  assert.deepEqual([ops, pane.types.own.value, pane.types.own.hidden], [[], "tarp", false]);
  queue.skip();
  draw();
  assert.deepEqual([ops, pane.types.own.value, pane.types.own.hidden], [[], "", true]);
  write("tarp");
  press("2");
  draw();
  assert.deepEqual(ops.map(({ building_id, label }) => [building_id, label]), [["b1", "not_damaged"]]);
  write("tarp");
  press("1");
  draw();
  assert.deepEqual([typesOf(2), pane.types.own.value], [[["tarp"], []], ""]);
  write("sunk");
  pane.types.own.dispatchEvent(Object.assign(new Event("keydown", { cancelable: true }), { key: "Enter" }));
  assert.deepEqual([typesOf(3), store.labels[3]], [[["sunk"], []], 1]);
});

test("one type too many is refused in words, and another building starts without them", () => {
  const many = Array.from({ length: 21 }, (_, k) => `type ${k}`);
  pane.configure({ types: many });
  queue.take("t", given(3));
  draw();
  for (const button of pane.types.buttons.children) button.click();
  assert.deepEqual([typesOf(0)[0].length, pane.types.note.textContent], [20, "No more than 20 types: take one away first."]);
  pane.types.buttons.children[0].click();
  assert.deepEqual([typesOf(0)[0].length, pane.types.note.textContent], [19, ""]);
  pane.types.buttons.children[20].click();
  draw();
  const empty = pane.types.buttons.children.at(-1);
  empty.click();
  press("1");
  draw();
  assert.equal(pane.types.note.textContent, "");
});

test("another project is offered nothing of the one before: no types of one's own, none kept, none waiting", () => {
  pane.configure({ types: ["roof"] });
  queue.take("t", { id: "q-1", items: [0, 1, 2].map((i) => [i, "exploit", ""]) });
  draw();
  pane.keep.click();
  pane.types.more.click();
  pane.types.own.value = "tarp";
  pane.types.own.dispatchEvent(Object.assign(new Event("keydown", { cancelable: true }), { key: "Enter" }));
  press("1");
  draw();
  typeButtons().tarp.click(); // kept, and ruled out here
  assert.equal(pane.drafts.size, 1);
  ops = [];
  queue.forget();
  store.empty();
  store.setGeometry(squares(20));
  queue.take("other", given(3, "q-9"));
  draw();
  assert.deepEqual([Object.keys(typeButtons()), pane.kept, pane.keeps, pane.drafts.size, store.ownTypes], [["roof"], {}, false, 0, []]);
  assert.equal(pane.keep.attributes["aria-pressed"], "false");
});

test("the second press of a double click answers nothing: nobody saw the picture that came between", () => {
  queue.take("t", given(6));
  frame();
  const press = (text, detail, timeStamp) => {
    const button = [...pane.answers.children].find((each) => each.textContent.includes(text));
    button.dispatchEvent(Object.defineProperties(new Event("click"), { detail: { value: detail }, timeStamp: { value: timeStamp } }));
  };
  press("Damaged", 1, 1000);
  press("Damaged", 2, 1200);
  assert.deepEqual([labels(), current()], [{ 0: 1 }, 1]);
  press("Not damaged", 3, 1350);
  press("Skip", 1, 1400);
  press("Skip", 2, 1500);
  assert.deepEqual([labels(), current()], [{ 0: 1, 1: 2 }, 3], "who answers fast in one place goes on, after a look");
});
