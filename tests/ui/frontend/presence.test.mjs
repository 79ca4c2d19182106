// Who else is here and what they answer: asked every few seconds, one question at a time, and never in the way of page or analyst.

import assert from "node:assert/strict";
import test, { beforeEach } from "node:test";
import { fakeBrowser, fakeServer, freshPage, pass, settle, squares } from "./fake_browser.mjs";

fakeBrowser();
const { Labeler } = await import("../../../pu_geo/ui/frontend/src/labeler.js");
const { Presence } = await import("../../../pu_geo/ui/frontend/src/presence.js");
const { Store } = await import("../../../pu_geo/ui/frontend/src/store.js");

const DATA = { base: "/pugeo", token: "t", here: { analyst: "ann", event: 3 } };
const nobody = (more = {}) => ({ event: 3, labels: {}, others: [], ...more });
let store, presence, server, place;

beforeEach(async () => {
  freshPage();
  server = fakeServer();
  store = new Store();
  store.setGeometry(squares(6));
  place = -1;
  presence = new Presence(store, () => place);
  presence.update(DATA, "s");
  await pass(0);
});

/** Answer the question that is open. */
async function answer(json) {
  server.open.at(-1).answer(json);
  await settle();
}

test("it asks at once and then every four seconds, one question at a time", async () => {
  assert.deepEqual(server.requests.map(({ url, body }) => [url, body]), [["/pugeo/t/here", { session: "s", analyst: "ann", building: null, since: 3 }]]);
  await pass(20_000);
  assert.equal(server.requests.length, 1, "the first one is not answered");
  await answer(nobody());
  await pass(3_999);
  assert.equal(server.requests.length, 1);
  await pass(1);
  assert.equal(server.requests.length, 2);
});

test("without an analyst, or while nobody sees the page, it does not ask", async () => {
  const quiet = new Presence(store, () => -1);
  quiet.update({ ...DATA, here: null }, "s");
  await pass(20_000);
  assert.equal(server.requests.length, 1);
  await answer(nobody());
  document.hidden = true;
  document.dispatchEvent(new Event("visibilitychange"));
  await pass(60_000);
  assert.equal(server.requests.length, 1);
  document.hidden = false;
  document.dispatchEvent(new Event("visibilitychange"));
  await pass(0);
  assert.equal(server.requests.length, 2);
});

test("another place is sent soon, once for somebody who walks fast", async () => {
  await answer(nobody());
  await pass(4000);
  await answer(nobody());
  await pass(3900);
  for (place = 0; place < 5; place++) presence.moved();
  await pass(300);
  assert.deepEqual(server.requests.slice(2).map(({ body }) => body.building), [5]);
});

test("where the server does not answer it asks ever more seldom, and shows nobody", async () => {
  await answer(nobody({ others: [{ name: "bob", color: "#112233", building: 1 }] }));
  assert.equal(store.others.length, 1);
  await pass(4000);
  const gaps = [];
  for (let k = 0; k < 5; k++) {
    server.open.at(-1).answer("Not found", 404);
    const before = Date.now();
    const n = server.requests.length;
    while (server.requests.length === n) await pass(1000);
    gaps.push((Date.now() - before) / 1000);
    assert.deepEqual(store.others, []);
  }
  assert.deepEqual(gaps, [8, 16, 32, 60, 60]);
  place = 2;
  presence.moved();
  await pass(300);
  assert.equal(server.open.length, 1, "not sooner, whatever is selected");
});

test("what others answer is shown until the page holds it; their later answer wins over what was stored before", async () => {
  await answer(nobody({ event: 5, labels: { b1: "positive", b2: "cleared", nowhere: "positive", b3: "nonsense" } }));
  assert.deepEqual([...store.heard.keys()], [1, 2]);
  assert.equal(store.labels[1], 1);
  presence.update({ ...DATA, here: { analyst: "ann", event: 4 } }, "s");
  assert.equal(store.heard.size, 2, "older data of the page take nothing back");
  presence.update({ ...DATA, here: { analyst: "ann", event: 5 } }, "s");
  assert.equal(store.heard.size, 0);
  await pass(4000);
  assert.equal(server.requests.at(-1).body.since, 5);
});

test("a grade that another gave comes with the answer, also where the label is the same", async () => {
  store.setScale([{ id: "major", name: "Major", offered: true }]);
  store.setLabels({ 1: "1" }, { ops: [], settled: [] });
  let heard = 0;
  store.on("grades", () => heard++);
  await answer(nobody({ event: 5, labels: { b1: "positive", b2: "positive" }, details: { b1: { grade: "major" } } }));
  assert.deepEqual([...store.grades], [0, 1, 0, 0, 0, 0]);
  assert.deepEqual([heard, store.detail(1).grade, store.detail(2).grade], [1, "major", ""]);
});

test("an answer of others comes whole: the next press here on that building keeps its types and its comment", async () => {
  await answer(nobody({ event: 5, labels: { b1: "positive", b2: "cleared" }, details: { b1: { damage_types: ["roof", "burned"], absent_types: ["flooded"], comment: "hm", by: "bob", shown: "audit" } } }));
  assert.deepEqual(store.detail(1), { reason: "", grade: "", damage_types: ["roof", "burned"], absent_types: ["flooded"], comment: "hm", by: "bob", shown: "audit" });
  store.set("mode", "label");
  const ops = [];
  const labeler = new Labeler(store, () => ({ session: "s", next: 1, addMany: (added) => ops.push(...added) }), { current: null }, () => {});
  labeler.edit(1, { grade: "major" });
  assert.deepEqual([ops[0].damage_types, ops[0].absent_types, ops[0].comment, ops[0].shown], [["roof", "burned"], ["flooded"], "hm", "audit"]);
});

test("news that were asked for before newer data of the page came are asked for again", async () => {
  presence.update({ ...DATA, here: { analyst: "ann", event: 9 } }, "s");
  await answer(nobody({ event: 5, labels: { b1: "positive" } }));
  assert.equal(store.heard.size, 0);
  await pass(4000);
  assert.equal(server.requests.at(-1).body.since, 9);
});

test("names and colors are checked: they may come from anybody", async () => {
  const others = [{ name: "x".repeat(99), color: "red; }", building: "3" }, { name: "" }, { name: 7 }, null, { name: "bob", color: "#AAbb11", building: 4 }];
  await answer(nobody({ others: others.slice(0, 3).concat(others[4]) }));
  assert.deepEqual(store.others, [{ name: "x".repeat(40), color: "#8a8a8a", building: -1 }, { name: "bob", color: "#AAbb11", building: 4 }]);
  assert.deepEqual(store.othersAt(4).map(({ name }) => name), ["bob"]);
});

test("another project starts anew, and a page that is gone asks no more", async () => {
  store.heard.set(1, { code: 1, event: 9 });
  presence.update({ ...DATA, token: "other" }, "s");
  assert.equal(store.heard.size, 0);
  await answer(nobody());
  await pass(4000);
  assert.equal(server.requests.at(-1).url, "/pugeo/other/here");
  presence.dispose();
  const before = server.requests.length;
  await pass(60_000);
  assert.equal(server.requests.length, before);
});
