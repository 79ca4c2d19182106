// The whole view, without its map: another project, and keys that several of its parts could take.

import assert from "node:assert/strict";
import test, { beforeEach } from "node:test";
import { fakeBrowser, fakeServer, firstPart, frame, freshPage, settle } from "./fake_browser.mjs";

fakeBrowser();
const { FootprintLayer } = await import("../../../pu_geo/ui/frontend/src/footprint_layer.js");
const { DamageView } = await import("../../../pu_geo/ui/frontend/src/damage_view.js");
const { keeping } = await import("../../../pu_geo/ui/frontend/src/kept_views.js");
const { REASONS } = await import("../../../pu_geo/ui/frontend/src/details.js");
const { TEXTS } = await import("../../../pu_geo/ui/frontend/src/texts.js");

const SCALE = [{ id: "destroyed", name: "Destroyed", offered: true }];
const page = (token, n, more = {}) => ({
  token, base: "/pugeo", mode: "label", panes: [], layers: [], grid: [100, 100], sites: [{ name: "", box: [0, 0, 100, 100], gsd_m: 0.5, lonlat: null }], height: 600, labels: {}, details: null, conflicts: null, grades: SCALE,
  queue: { id: `q-${token}`, items: Array.from({ length: n }, (_, i) => [i, "exploit", ""]) }, geometry_v: "1", ...more,
});

let server, view, sent;
beforeEach(() => {
  freshPage();
  server = fakeServer();
  view = new DamageView("");
  view.queuePane.isInView = () => true;
  sent = [];
});
const run = (data) => view.update({ data, setStateValue: (...all) => sent.push(all) });
const answer = async (token, n) => {
  const asked = server.open.find(({ url }) => url.startsWith(`/pugeo/${token}/outlines.bin`));
  asked.answer(firstPart(n, { prefix: `${token}-` }));
  await settle();
};
const press = (...keys) => keys.forEach((key) => {
  view.root.dispatchEvent(new Event("pointerenter"));
  window.dispatchEvent(Object.assign(new Event("keydown", { cancelable: true }), typeof key === "string" ? { key } : key, { composedPath: () => [document.body] }));
});
const answered = () => view.log.ops.filter((op) => op.building_id).map(({ building_id, label }) => [building_id, label]);

test("until the buildings of another project are here nothing is labelled, and its queue is all there", async () => {
  run(page("small", 3));
  await answer("small", 3);
  press("1");
  assert.deepEqual(answered(), [["small-b0", "positive"]]);
  run(page("large", 9));
  assert.deepEqual([view.store.ready, view.store.n, view.queue.current], [false, 0, null]);
  press("1", "Enter", "2", "4");
  frame();
  press("1");
  assert.deepEqual(answered(), [], "no building of the project before in the log of this one");
  await answer("large", 9);
  assert.equal(view.queue.items.length, 9);
  press("1", "2");
  assert.deepEqual(answered(), [["large-b0", "positive"], ["large-b1", "not_damaged"]]);
});

test("a geometry of more buildings in the same project brings back what the queue left out", async () => {
  run(page("grows", 6));
  await answer("grows", 3);
  assert.equal(view.queue.items.length, 3);
  run(page("grows", 6, { geometry_v: "2" }));
  await answer("grows", 6);
  assert.equal(view.queue.items.length, 6);
});

test("once footprints changed, nothing of those before is shown or labelled until the others are here", async () => {
  run(page("changed", 6));
  await answer("changed", 6);
  view.store.set("selected", 3);
  run(page("changed", 6, { geometry_v: "2", labels: { 1: "4" } }));
  assert.deepEqual([view.store.ready, view.store.n, view.store.selected, view.queue.current], [false, 0, -1, null]);
  await answer("changed", 5);
  assert.deepEqual([...view.store.labels], [0, 0, 0, 0, 1]);
});

test("keys, card, grades and types are about the building that was clicked or reached last; opening the queue moves there", async () => {
  run(page("cursor", 5));
  await answer("cursor", 9);
  const large = () => view.queuePane.item.i;
  assert.deepEqual([view.target, large()], [{ i: 0, on: "queue" }, 0]);
  view.map.actions.label(7, "toggle", "map"); // a click on the map
  view.card.toggle();
  frame();
  assert.deepEqual([view.target, large(), view.card.i, view.queue.at], [{ i: 7, on: null }, 7, 7, 0]);
  assert.match(view.gradeBar.root.textContent, /^Grade:Building 8/);
  press("4");
  assert.deepEqual([view.store.detail(7).grade, view.store.labels[0]], ["destroyed", 0], "not the queue's building");
  assert.equal(large(), 7, "and it stays there");
  view.queuePane.types.given(7, { damage_types: ["roof"], absent_types: [] });
  assert.deepEqual(view.store.detail(7).damage_types, ["roof"]);
  run(page("cursor", 5)); // a run of the page moves nothing
  assert.equal(large(), 7);
  press("2");
  assert.deepEqual([[...view.store.labels.slice(0, 8)], view.target.i], [[0, 0, 0, 0, 0, 0, 0, 2], 0], "then the queue goes on where it was left");
  view.map.actions.select(8); // with Ctrl: answers nothing
  assert.deepEqual([large(), view.store.labels[8]], [8, 0]);
  press("n");
  assert.deepEqual([view.target.i, view.queue.skipped.size], [0, 0], "back to the queue; nothing is skipped");
  view.map.actions.select(8);
  press("ArrowRight");
  assert.equal(view.target.i, 0, "the first arrow leads back");
  view.map.actions.select(8);
  press("Escape", "Escape"); // the card closes first
  assert.equal(view.target.i, 0);
  view.map.actions.label(0, "toggle", "map"); // the queue's own, then all others: the next queue takes no cursor away from it
  run(page("cursor", 5, { queue: { id: "q-2", items: [[5, "exploit", ""], [6, "exploit", ""]] } }));
  assert.equal(large(), 0);
  press("4", "n", "1");
  assert.deepEqual([view.store.detail(0).grade, view.store.labels[5], large()], ["destroyed", 1, 6]);
  view.map.actions.select(8);
  view.queue.setActive(false);
  assert.equal(view.store.selected, 8);
  view.queue.setActive(true);
  assert.equal(view.target.i, 6, "opening the queue moves the cursor");
  view.map.actions.select(-1); // the map's cross over empty ground
  view.root.dispatchEvent(new Event("focusout"));
  frame();
  assert.equal(view.target.i, 6, "once it is left the queue has the cursor again");
  run(page("cursor", 0));
  view.map.actions.select(8);
  press("ArrowRight", "1", "1");
  assert.equal(view.store.labels[8], 1, "an empty queue leads nowhere");
});

test("while random checks are answered nothing else is on the map, can be clicked, boxed or labeled", async () => {
  const items = [[2, "audit", ""], [4, "audit", ""]];
  run(page("checks", 0, { queue: { id: "q-c", items, is_assessment: true } }));
  await answer("checks", 9);
  const { store } = view;
  const everything = [0, 0, 100, 100];
  assert.deepEqual([[...store.touching(everything)], store.within(everything)], [[2, 4], [2, 4]]);
  assert.equal(store.hit(...store.center(3), 0), -1);
  view.map.actions.label(4, "toggle", "map"); // a click reaches a check; it is answered from the pictures
  assert.deepEqual([view.target.i, view.queue.at, answered()], [4, 1, []]);
  view.map.actions.many([2, 4]);
  assert.equal(view.marks.root.hidden, true);
  press("h", "w");
  assert.equal(view.panes.side.hidden, false, "it cannot be folded away, nor is there a wall");
  press("2");
  assert.deepEqual(view.log.ops.filter((op) => op.building_id).map((op) => [op.building_id, op.shown]), [["checks-b4", "audit"]]);
  const undos = () => view.log.ops.filter((op) => op.undo).length;
  press({ key: "z", ctrlKey: true }, { key: "z", ctrlKey: true });
  assert.equal(undos(), 1, "of the check alone: what was answered before is not on the screen");
  run(page("checks", 3));
  assert.equal(store.touching(everything).length, 9, "once they are left, all is there again");

  view.map.actions.label(7, "toggle", "map"); // the cursor is elsewhere when checks begin, here or at another's
  run(page("checks", 0, { queue: { id: "q-d", items, is_assessment: true, is_second: true } }));
  assert.deepEqual([view.target.i, view.queuePane.item.i], [2, 2]);
  press({ key: "z", ctrlKey: true }, "1", { key: "z", ctrlKey: true });
  assert.equal(undos(), 2);
  view.labeler.analyst = "bob";
  store.setLabels({ 1: "4" }, { ops: [], settled: [] }, { by: { ann: "4" }, shown: { audit: "4" }, comment: { 4: "see roof" } });
  view.card.root.hidden = false;
  view.map.actions.label(4, "toggle", "map");
  assert.equal(view.target.i, 4);
  assert.ok(!/Damaged|see roof/.test(view.card.facts.textContent + (view.card.comment.hidden ? "" : view.card.comment.value)), "a second reader does not see the first one's answer");
  view.labeler.toggle(4, 1, "map");
  assert.equal(store.labels[4], 1, "nor takes it away by confirming it");
});

test("no letter of a reason does anything else", async () => {
  run(page("letters", 5));
  await answer("letters", 5);
  const used = REASONS.map(([, , key]) => key).filter((key) => {
    const event = Object.assign(new Event("keydown", { cancelable: true }), { key, composedPath: () => [document.body] });
    view.root.dispatchEvent(new Event("pointerenter"));
    view.data.wall = { n: 5 };
    view.map.root.hidden = false;
    window.dispatchEvent(event);
    return event.defaultPrevented;
  });
  assert.deepEqual(used, []);
});

test("a key that is held down marks once", async () => {
  run(page("held", 0, { queue: null, panes: ["wall"] }));
  await answer("held", 3);
  Object.defineProperty(view, "target", { get: () => ({ i: 1, on: "wall" }) });
  press("1", { key: "1", repeat: true }, { key: "Enter", repeat: true });
  assert.deepEqual(answered(), [["held-b1", "positive"]]);
});

test("keys that move the map add up, and the cross means where they lead, also while the map is on its way", async () => {
  run(page("cross", 0, { queue: null }));
  await answer("cross", 9);
  const running = []; // what to call once an animation is over, or given up: OpenLayers does so later
  const late = [];
  view.map.map = { getSize: () => [100, 100], getView: () => ({
    getCenter: () => [2, -2], getResolution: () => 1, getConstrainedCenter: (at) => at,
    animate: (_, over) => running.push(over), cancelAnimations: () => late.push(...running.splice(0)),
  }) };
  assert.equal(view.map.underCross(), 0);
  for (let k = 0; k < 5; k++) view.map.key("ArrowRight"); // by 12 each
  late.forEach((over) => over());
  assert.deepEqual(view.map.goal, [62, -2]);
  assert.equal(view.map.underCross(), 6);
  running.forEach((over) => over());
  assert.equal(view.map.goal, null);
});

test("the map of a project that is left hears nothing of the store any more", () => {
  const count = () => [...view.store.listeners.values()].reduce((sum, { size }) => sum + size, 0);
  const before = count();
  const layer = new FootprintLayer(view.store);
  assert.ok(count() > before + 10);
  view.map.map = { setTarget: () => {}, getLayers: () => ({ getArray: () => [layer] }) };
  view.map.dispose();
  assert.equal(count(), before);
});

test("a view keeps the newest data and stays where calls come that a newer run of the page overtook, and goes with its place", () => {
  const place = { isConnected: true, append: () => {} };
  const made = [];
  const show = keeping(() => made[made.push({ runs: [], nEnds: 0, update({ data }) { this.data = data; this.runs.push(data.run); }, dispose() { this.nEnds += 1; } }) - 1]);
  const [endFirst, endOld, endLast] = [["a", 5], ["a", 4], ["b", 1]].map(([server, run]) => show({ parentElement: place, data: { server, run } }));
  endFirst();
  endOld();
  assert.deepEqual(made.map(({ runs, nEnds }) => [runs, nEnds]), [[[5, 1], 0]]);
  place.isConnected = false;
  endLast();
  assert.deepEqual(made.map(({ nEnds }) => nEnds), [1]);
});
