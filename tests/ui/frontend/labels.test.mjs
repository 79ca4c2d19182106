// What a click or a key becomes in the log: complete answers with their details, what the building was shown for, and acts.

import assert from "node:assert/strict";
import test, { beforeEach } from "node:test";
import { squares } from "./fake_browser.mjs";
import { decodeDetails, detailsFor, encodePlaces, placesOf } from "../../../pu_geo/ui/frontend/src/details.js";
import { Labeler } from "../../../pu_geo/ui/frontend/src/labeler.js";
import { Store } from "../../../pu_geo/ui/frontend/src/store.js";

let store, labeler, queue, ops;
beforeEach(() => {
  store = new Store();
  store.setGeometry(squares(6));
  store.set("mode", "label");
  ops = [];
  queue = { current: null, id: "q-1" };
  const log = { session: "s", get next() {
    return ops.length + 1;
  }, addMany: (added) => {
    ops.push(...added);
    store.setLabels({}, { ops, settled: [] });
  }, add: (added) => ops.push(added) };
  labeler = new Labeler(store, () => log, queue, () => {});
});

test("a click marks positive, a second one clears; a right click marks not damaged, a click after it positive", () => {
  for (const wish of ["toggle", "toggle", 2, "toggle"]) labeler.toggle(0, wish, "map");
  assert.deepEqual(ops.map(({ label }) => label), ["positive", "cleared", "not_damaged", "positive"]);
  assert.deepEqual(ops[0], { building_id: "b0", label: "positive", screen: "map" });
});

test("many are one act, and so is an answer that may get a reason later", () => {
  labeler.give([0, 1, 2], 1, "map");
  labeler.give([3], 3, "keys");
  labeler.because([3], "cloud", ops[3].act);
  assert.deepEqual(ops.map(({ act }) => act), ["s-act-1", "s-act-1", "s-act-1", "s-act-4", "s-act-4"]);
  assert.deepEqual(ops.slice(3).map(({ label, reason }) => [label, reason]), [["not_assessable", "unclear"], ["not_assessable", "cloud"]]);
});

test("the likeliest reason is what the imagery shows, until the analyst knows better", () => {
  store.setImageQuality({ reasons: { cloud: "1" }, candidates: { misaligned: "2" } });
  for (const i of [0, 1, 2]) labeler.give([i], 3, "keys");
  labeler.because([2], "no_building", ops[2].act);
  assert.deepEqual(ops.map(({ reason }) => reason), ["unclear", "cloud", "misaligned", "no_building"]);
});

test("a reason for what is no longer not assessable is dropped", () => {
  labeler.give([0], 3, "keys");
  labeler.give([0], 1, "keys");
  labeler.because([0], "cloud", ops[0].act);
  assert.equal(ops.length, 2);
});

test("an answer names what the queue showed the building for, also when it is revised later; one from elsewhere does not", () => {
  queue.current = { i: 1, kind: "audit" };
  labeler.give([0], 1, "map");
  labeler.give([1], 3, "queue");
  queue.current = null;
  labeler.because([1], "cloud", ops[1].act);
  labeler.edit(1, { comment: "hm" });
  assert.deepEqual(ops.map(({ shown, queue: id }) => [shown, id]), [[undefined, undefined], ["audit", "q-1"], ["audit", "q-1"], ["audit", "q-1"]]);
});

test("a comment on what another answered since is no answer to what the queue showed before", () => {
  labeler.analyst = "ann";
  queue.current = { i: 0, kind: "exploit" };
  labeler.give([0], 1, "queue");
  ops.length = 0;
  queue.current = { i: 1, kind: "exploit" };
  store.setLabels({ 2: "0" }, { ops: [], settled: [] }, { shown: { audit: "0" }, by: { bob: "0" } });
  labeler.edit(0, { comment: "hm" });
  assert.deepEqual(ops.map(({ label, shown, queue: id }) => [label, shown, id]), [["not_damaged", "audit", undefined]]);
});

test("after a reload a comment keeps what the page knows of the answer", () => {
  store.setLabels({ 1: "0" }, { ops: [], settled: [] }, { shown: { audit: "0" }, by: { ann: "0" } });
  labeler.edit(0, { comment: "hm" });
  assert.equal(ops[0].shown, "audit");
});

test("types stay with positives, comments with every label, reasons with what is not assessable", () => {
  labeler.give([0], 1, "map");
  labeler.edit(0, { damage_types: ["roof", "walls"] });
  labeler.edit(0, { comment: "two of 3" });
  labeler.give([0], 2, "keys");
  labeler.give([0], 0, "keys");
  assert.deepEqual(ops.map(({ damage_types, comment }) => [damage_types, comment]), [
    [undefined, undefined], [["roof", "walls"], undefined], [["roof", "walls"], "two of 3"], [undefined, "two of 3"], [undefined, undefined],
  ]);
});

test("a building without a label takes no details, and a page that only shows takes nothing", () => {
  labeler.edit(0, { comment: "hm" });
  store.set("mode", "view");
  labeler.give([0], 1, "map");
  labeler.step("undo");
  assert.deepEqual(ops, []);
});

const SCALE = [{ id: "destroyed", name: "Destroyed", offered: true }, { id: "major", name: "Major", offered: true }, { id: "old", name: "Old", offered: false }];

test("a grade is one operation with the label; another one changes it, the same one takes it away, and the building stays damaged", () => {
  store.setScale(SCALE);
  for (const grade of ["destroyed", "major", "major", "destroyed"]) labeler.grade(0, grade, "keys");
  assert.deepEqual(ops.map(({ label, grade }) => [label, grade]), [["positive", "destroyed"], ["positive", "major"], ["positive", undefined], ["positive", "destroyed"]]);
  assert.deepEqual([store.labels[0], store.grades[0], store.detail(0).grade], [1, 1, "destroyed"]);
});

test("a grade goes with the mark, stays with a second reading, and not with what another reader graded in a random check", () => {
  store.setScale(SCALE);
  labeler.give([0], 1, "map", "major");
  labeler.edit(0, { comment: "hm" });
  labeler.give([0], 1, "queue");
  labeler.give([0], 2, "keys");
  labeler.give([0], 1, "keys");
  assert.deepEqual(ops.map(({ grade }) => grade), ["major", "major", "major", undefined, undefined]);
  labeler.give([1], 1, "map", "major");
  queue.current = { i: 1, kind: "audit" };
  labeler.give([1], 1, "queue");
  labeler.give([1], 1, "queue", "destroyed");
  assert.deepEqual(ops.slice(-2).map(({ shown, grade }) => [shown, grade]), [["audit", undefined], ["audit", "destroyed"]]);
});

test("a grade that comes after an answer to a random check is that answer's still", () => {
  queue.current = { i: 1, kind: "audit" };
  labeler.give([1], 1, "queue");
  queue.current = { i: 2, kind: "audit" };
  labeler.grade(1, "major", "bar");
  assert.deepEqual([ops[1].building_id, ops[1].shown, ops[1].grade], ["b1", "audit", "major"]);
});

test("types make a building damaged, and are part of its answer; in a random check those of another reader do not count", () => {
  labeler.type(0, { damage_types: ["roof"], absent_types: [] }, "queue");
  labeler.type(0, { damage_types: ["roof"], absent_types: ["burned"] }, "queue");
  labeler.give([0], 1, "queue");
  assert.deepEqual(ops.map(({ label, damage_types, absent_types }) => [label, damage_types, absent_types]), [
    ["positive", ["roof"], undefined], ["positive", ["roof"], ["burned"]], ["positive", ["roof"], ["burned"]],
  ]);
  queue.current = { i: 0, kind: "audit" };
  assert.equal(labeler.isForeignCheck(0), true);
  labeler.give([0], 1, "queue");
  labeler.type(0, { damage_types: ["flooded"], absent_types: [] }, "queue");
  labeler.give([0], 1, "queue");
  assert.deepEqual(ops.slice(3).map(({ shown, damage_types, absent_types }) => [shown, damage_types, absent_types]), [
    ["audit", undefined, undefined], ["audit", ["flooded"], undefined], ["audit", ["flooded"], undefined],
  ]);
});

test("a second reader's answer to a random check holds nothing of the first reader's: neither types, grade nor comment", () => {
  store.setScale(SCALE);
  const first = { shown: { audit: "0 1 1" }, by: { ann: "0 1 1" }, type: { roof: "0 1 1" }, no_type: { burned: "0 1 1" }, grade: { major: "0 1 1" }, comment: { 0: "hm", 1: "hm", 2: "hm" } };
  store.setLabels({ 1: "0 1 1" }, { ops: [], settled: [] }, first);
  labeler.analyst = "bob";
  const acts = [(i) => labeler.give([i], 1, "queue"), (i) => labeler.type(i, { damage_types: ["flooded"], absent_types: [] }, "queue"), (i) => labeler.grade(i, "destroyed", "keys")];
  acts.forEach((act, i) => {
    queue.current = { i, kind: "audit" };
    assert.equal(labeler.isForeignCheck(i), true);
    act(i);
    assert.equal(labeler.isForeignCheck(i), false, "it is this reader's now");
  });
  const holds = ({ shown, label, damage_types, absent_types, grade, comment }) => [shown, label, damage_types, absent_types, grade, comment];
  assert.deepEqual(ops.map(holds), [
    ["audit", "positive", undefined, undefined, undefined, undefined], ["audit", "positive", ["flooded"], undefined, undefined, undefined], ["audit", "positive", undefined, undefined, "destroyed", undefined],
  ]);
});

test("a check that this analyst answered before a reload is no other's; what another answers after this browser is", () => {
  store.setLabels({ 1: "0" }, { ops: [], settled: [] }, { shown: { audit: "0" }, by: { ann: "0" }, type: { roof: "0" } });
  labeler.analyst = "ann";
  queue.current = { i: 0, kind: "audit" };
  assert.equal(labeler.isForeignCheck(0), false);
  labeler.give([0], 1, "queue");
  assert.deepEqual(ops[0].damage_types, ["roof"]);
  const settled = [{ ...ops[0], event: 4 }];
  store.heard.set(0, { code: 1, event: 5, grade: "major", shown: "audit", by: "bob" });
  store.setLabels({}, { ops: [], settled });
  assert.equal(labeler.isForeignCheck(0), true);
});

test("types and grade of an answer to a check do not slip into an answer that is learned from", () => {
  store.setScale(SCALE);
  store.setLabels({ 1: "0 1 1" }, { ops: [], settled: [] }, { shown: { audit: "0" }, by: { ann: "0 1 1" }, type: { roof: "0 1 1" }, grade: { major: "0 1 1" }, comment: { 0: "hm" } });
  labeler.give([0, 1], 1, "map", "destroyed");
  assert.deepEqual(ops.map(({ building_id, shown, damage_types, grade, comment }) => [building_id, shown, damage_types, grade, comment]), [
    ["b0", undefined, undefined, "destroyed", "hm"], ["b1", undefined, ["roof"], "destroyed", undefined],
  ]);
  store.setLabels({ 1: "3" }, { ops: [], settled: [] }, { shown: { audit: "3" }, by: { ann: "3" }, type: { roof: "3" }, grade: { major: "3" } });
  queue.current = { i: 3, kind: "exploit" };
  labeler.give([3], 1, "queue");
  assert.deepEqual([ops[2].shown, ops[2].damage_types, ops[2].grade], ["exploit", undefined, undefined]);
});

test("undo and redo are operations: the server decides what they do", () => {
  labeler.step("undo");
  labeler.step("redo");
  assert.deepEqual(ops, [{ undo: true }, { redo: true }]);
});

test("details of many buildings come from their short form", () => {
  const found = decodeDetails({ by: { ann: "0 2", bob: "1" }, reason: { cloud: "1" }, type: { roof: "0", walls: "0 2" }, no_type: { tent: "0" }, shown: { audit: "2" }, grade: { major: "0" }, comment: { 2: "hm" } });
  assert.deepEqual(found.get(0), { reason: "", grade: "major", damage_types: ["roof", "walls"], absent_types: ["tent"], comment: "", by: "ann", shown: "" });
  assert.deepEqual(found.get(1), { reason: "cloud", grade: "", damage_types: [], absent_types: [], comment: "", by: "bob", shown: "" });
  assert.deepEqual(found.get(2), { reason: "", grade: "", damage_types: ["walls"], absent_types: [], comment: "hm", by: "ann", shown: "audit" });
  assert.equal(decodeDetails(null).size, 0);
});

test("places travel as differences in base 36, there and back", () => {
  const places = [0, 3, 40, 41, 100_000];
  assert.equal(encodePlaces([3, 40]), "3 11");
  assert.deepEqual([...placesOf(encodePlaces(places))], places);
  assert.deepEqual([...placesOf("")], []);
  assert.deepEqual(detailsFor(0, { comment: "x", damage_types: [] }), {});
});

test("types that a building has not go with damaged ones, and with no other label", () => {
  const before = { comment: "", grade: "", damage_types: ["roof"], absent_types: ["burned"], reason: "" };
  assert.deepEqual(detailsFor(1, before), { damage_types: ["roof"], absent_types: ["burned"] });
  assert.deepEqual(detailsFor(2, before), {});
});
