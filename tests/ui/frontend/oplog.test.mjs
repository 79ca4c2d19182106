// The log of operations: sent once, in order, again until acknowledged, whatever happens on the way.

import assert from "node:assert/strict";
import test, { beforeEach } from "node:test";
import { fakeBrowser, fakeServer, freshPage, pass, releaseLock, settle, writes } from "./fake_browser.mjs";

fakeBrowser();
const { unpack } = await import("../../../pu_geo/ui/frontend/src/packing.js");
const { OperationLog } = await import("../../../pu_geo/ui/frontend/src/oplog.js");

const DATA = { base: "/pugeo", token: "t", here: { analyst: "ann", event: 0 }, server: "s1" };
const set = (building_id, label = "positive") => ({ building_id, label, screen: "map" });
const WISH = { next: true, queue: "q-1", skipped: [] };
let server, log, runs, token = 0;

beforeEach(async () => {
  freshPage();
  server = fakeServer();
  ({ log, runs } = open(`t${++token}`));
  await pass(5000);
});

/** A page that shows a project. */
function open(name) {
  const found = { log: new OperationLog(name), runs: [] };
  found.log.connect("view", (value) => found.runs.push(value), DATA);
  found.log.take(DATA);
  return found;
}

const ack = (request, more = {}) => request.answer({ session: request.body.session, n: request.body.ops.at(-1).n, event: 1, refused: null, ...more });
const numbers = (request) => request.body.ops.map(({ n }) => n);
const dataFor = (asked, more = {}) => ({ ...DATA, ack: { session: log.session, n: asked.ops.at(-1)?.n ?? 0, attempt: asked.attempt }, ...more });

test("a click goes to the server at once, by HTTP, and is gone from the log once acknowledged", async () => {
  log.add(set("b1"));
  assert.equal(log.state, "saving");
  assert.equal(server.requests.length, 1);
  const [{ url, body, init }] = server.requests;
  assert.equal(url, "/pugeo/t/operations");
  assert.equal(init.method, "POST");
  assert.deepEqual([body.session, body.analyst], [log.session, "ann"]);
  assert.deepEqual(body.ops, [{ n: 1, op: `${log.session}-1`, ...set("b1") }]);
  assert.equal(JSON.parse(localStorage.getItem(log.key)).ops.length, 1);
  assert.equal(runs.length, 0, "no run of the page carries it");
  ack(server.requests[0]);
  await settle();
  assert.equal(log.state, "saved");
  assert.equal(localStorage.getItem(log.key), null);
});

test("what waits is sent under the name of who did it, also when somebody else has taken over meanwhile", async () => {
  log.add(set("b1"));
  log.add(set("b2"));
  log.connect("view", (value) => runs.push(value), { ...DATA, here: { analyst: "bob", event: 0 } });
  log.add(set("b3"));
  ack(server.requests[0]);
  await settle();
  ack(server.requests[1]);
  await settle();
  assert.deepEqual(server.requests.map((each) => [each.body.analyst, numbers(each)]), [["ann", [1]], ["ann", [2]], ["bob", [3]]]);
});

test("one request at a time: what is clicked meanwhile goes together with the next one", async () => {
  for (const id of ["b1", "b2", "b3"]) log.add(set(id));
  assert.deepEqual(server.requests.map(numbers), [[1]]);
  ack(server.requests[0]);
  await settle();
  assert.deepEqual(server.requests.map(numbers), [[1], [2, 3]]);
});

test("many at once are written once and sent once", async () => {
  const before = writes.length;
  log.addMany(Array.from({ length: 5_000 }, (_, i) => set(`b${i}`)));
  assert.equal(writes.slice(before).filter((key) => key === log.key).length, 1);
  assert.deepEqual(server.requests.map(({ body }) => body.ops.length), [5_000]);
});

const lasso = (n, more = {}) => Array.from({ length: n }, (_, i) => ({ ...set(`b${String(i).padStart(6, "0")}`), act: "lasso-1", ...more }));
const kept = () => JSON.parse(localStorage.getItem(log.key)).ops;

test("the buildings of a lasso are one entry of a message and of what the browser keeps, and as many operations", async () => {
  log.add({ ...set("b0"), grade: "major" });
  ack(server.requests[0]);
  await settle();
  log.addMany(lasso(33_000, { damage_types: ["roof"] }));
  const [, { body, init }] = server.requests;
  const { building_ids: ids, ...shared } = body.ops[0];
  assert.deepEqual(shared, { n: 2, op: `${log.session}-2`, label: "positive", screen: "map", act: "lasso-1", damage_types: ["roof"] });
  assert.deepEqual([body.ops.length, ids.length, ids[0], ids[32_999]], [1, 33_000, "b000000", "b032999"]);
  assert.ok(init.body.length < 500_000);
  assert.deepEqual(kept(), body.ops.map((entry) => ({ ...entry, by: "ann" })));
  server.requests[1].answer({ session: log.session, n: 20_001, event: 1, refused: null }); // a server may take fewer at once
  await settle();
  assert.deepEqual(server.requests[2].body.ops.map(({ n, op, building_ids }) => [n, op, building_ids.length]), [[20_002, `${log.session}-20002`, 13_000]]);
  server.requests[2].answer({ session: log.session, n: 33_001, event: 2, refused: null });
  await settle();
  assert.deepEqual([log.state, log.settled.length, localStorage.getItem(log.key)], ["saved", 33_001, null]);
});

test("operations are one entry only where the act is one and all else is the same", () => {
  const [first, second] = lasso(2);
  const same = { ...first, damage_types: ["roof", "walls"] };
  const ops = [first, second, { ...second, grade: "major" }, { ...second, act: "lasso-2" }, set("b1"), set("b2"), { undo: true }, same, { ...same, damage_types: ["roof"] }, { ...same, damage_types: ["roof"] }];
  log.addMany(ops);
  assert.deepEqual(server.requests[0].body.ops.map(({ building_ids, building_id }) => building_ids ?? building_id), [
    ["b000000", "b000001"], "b000001", "b000001", "b1", "b2", undefined, "b000000", ["b000000", "b000000"],
  ]);
  assert.deepEqual(unpack(kept()), log.ops);
  assert.equal(log.ops.length, 10);
});

test("a lasso that a page left unsent is one entry of the next page, too, with its ids", async () => {
  log.addMany([set("b7"), ...lasso(30_000)]);
  const [before, { session }] = [log.ops, log];
  log.disconnect("view");
  releaseLock(log.key);
  ({ log, runs } = open(`t${token}`));
  log.add(set("b8"));
  await pass(5000);
  while (log.ops.length) {
    const last = server.requests.at(-1);
    last.answer({ session: log.session, n: unpack(last.body.ops).at(-1).n, event: 1, refused: null });
    await settle();
  }
  const sent = server.requests.filter(({ body }) => body.session === log.session).flatMap(({ body }) => body.ops);
  assert.equal(sent.length, 3);
  assert.deepEqual(unpack(sent).filter(({ op }) => op.startsWith(session)).map(({ op, building_id }) => [op, building_id]), before.map(({ op, building_id }) => [op, building_id]));
});

test("a lasso that is longer than a message goes in several", async () => {
  log.addMany(lasso(300_000));
  while (log.ops.length) {
    const last = server.requests.at(-1);
    assert.ok(last.init.body.length < 2_000_000);
    last.answer({ session: log.session, n: unpack(last.body.ops).at(-1).n, event: 1, refused: null });
    await settle();
  }
  assert.ok(server.requests.length > 1);
  assert.deepEqual(unpack(server.requests.flatMap(({ body }) => body.ops)).map(({ n }) => n), Array.from({ length: 300_000 }, (_, i) => i + 1));
});

test("what is more than a message may hold goes in several, in order, each once and below 2 MB", async () => {
  log.addMany(Array.from({ length: 40_000 }, (_, i) => ({ ...set(`b${i}`), comment: "被害" })));
  for (let k = 0; log.ops.length; k++) {
    assert.equal(server.requests.length, k + 1, "one at a time");
    assert.ok(new TextEncoder().encode(server.requests[k].init.body).length < 2_000_000);
    ack(server.requests[k]);
    await settle();
  }
  assert.ok(server.requests.length > 2);
  assert.deepEqual(server.requests.flatMap(numbers), Array.from({ length: 40_000 }, (_, i) => i + 1));
});

test("an operation that is longer than a message is given up, by the name of its building, and the next ones are sent", async () => {
  log.addMany([set("b1"), { ...set("b2"), comment: "x".repeat(2_500_000) }, set("b3")]);
  while (log.ops.length) {
    const last = server.requests.at(-1);
    if (last.init.body.length > 2_000_000) last.answer({ problem: "Nothing of a message of more than 2,000,000 bytes was stored.", hint: "Send it in shorter messages." }, 413);
    else ack(last);
    await settle();
  }
  assert.deepEqual(server.requests.map(numbers), [[1], [2], [3]]);
  assert.match(log.refused.problem, /ID b2.* was not stored/);
  assert.match(log.refused.hint, /shorter comment/);
  assert.equal(log.state, "saved");
});

test("a server that takes less at once gets it in smaller messages", async () => {
  log.addMany(Array.from({ length: 1000 }, (_, i) => set(`b${i}`)));
  while (log.ops.length) {
    const last = server.requests.at(-1);
    if (last.body.ops.length > 300) last.answer(undefined, 413);
    else ack(last);
    await settle();
    assert.ok(server.requests.length < 30);
  }
  assert.equal(log.refused, null);
});

for (const [how, fail] of [
  ["no connection", (request) => request.fail()],
  ["500 without JSON", (request) => request.answer(undefined, 500)],
  ["an answer for another page", (request) => request.answer({ session: "other", n: 9, event: 1 })],
  ["an answer that acknowledges nothing", (request) => request.answer({ session: log.session, n: 0, event: 1 })],
  ["a project that the server does not know yet", (request) => request.answer(undefined, 404)],
]) {
  test(`after a failure (${how}) it is sent again, ever more seldom, with all that came since`, async () => {
    log.add(set("b1"));
    fail(server.requests[0]);
    await settle();
    log.add(set("b2"));
    assert.equal(server.requests.length, 1, "not at once");
    for (const [k, wait] of [1000, 2500, 5000, 10_000, 15_000, 15_000].entries()) {
      await pass(wait - 1);
      assert.equal(server.requests.length, k + 1);
      await pass(1);
      assert.equal(server.requests.length, k + 2);
      assert.equal(log.state, k ? "waiting" : "saving", "one failure worries nobody");
      assert.equal(runs.length > 0, how.includes("does not know"), "only a run of the page makes a project known again");
      fail(server.requests.at(-1));
    }
    await pass(15_000);
    assert.deepEqual(numbers(server.requests.at(-1)), [1, 2]);
    ack(server.requests.at(-1));
    await settle();
    assert.equal(log.state, "saved");
    assert.equal(log.problem, null);
  });
}

test("the words of a server that cannot store are kept for the status line", async () => {
  log.add(set("b1"));
  server.requests[0].answer({ problem: "The disk is full." }, 503);
  await settle();
  assert.equal(log.problem, "The disk is full.");
  assert.equal(log.state, "waiting");
});

test("the words of the app's door to a browser that it does not know are kept for the status line, too", async () => {
  const words = "PU-Geo does not know this browser yet.";
  log.add(set("b1"));
  server.requests[0].answer(words, 403);
  await settle();
  assert.equal(log.problem, words);
  await pass(1000);
  assert.deepEqual(server.requests.map(numbers), [[1], [1]], "it is sent again: the address may be opened meanwhile");
});

test("an answer that got lost: the same operations go again under the same ids", async () => {
  log.add(set("b1"));
  const [{ op }] = server.requests[0].body.ops;
  server.requests[0].fail(); // the server had stored it
  await pass(1000);
  assert.equal(server.requests[1].body.ops[0].op, op);
});

test("a server that does not answer is given up after five seconds", async () => {
  log.add(set("b1"));
  await pass(5001);
  await pass(1000);
  assert.deepEqual(server.requests.map(numbers), [[1], [1]]);
});

test("back online it sends at once", async () => {
  log.add(set("b1"));
  server.requests[0].fail();
  await settle();
  window.dispatchEvent(new Event("online"));
  assert.equal(server.open.length, 1);
});

test("a restarted server gets everything again at once", async () => {
  log.add(set("b1"));
  server.requests[0].fail();
  await settle();
  log.take({ ...DATA, server: "s2" });
  assert.deepEqual(numbers(server.open[0]), [1]);
});

test("what the server refuses for good is kept to be shown until it is dismissed", async () => {
  log.add(set("b1"));
  ack(server.requests[0], { refused: { problem: "1 of 1 labels were refused.", hint: "Reload." } });
  await settle();
  assert.equal(log.state, "saved");
  assert.equal(log.refused.hint, "Reload.");
  log.dismiss();
  assert.equal(log.refused, null);
});

test("stored labels count as such until the page's data hold their event", async () => {
  log.add(set("b1"));
  ack(server.requests[0], { event: 7 });
  await settle();
  assert.deepEqual(log.settled.map(({ building_id, event }) => [building_id, event]), [["b1", 7]]);
  log.take({ ...DATA, here: { event: 6 } });
  assert.equal(log.settled.length, 1, "older data take nothing back");
  log.take({ ...DATA, here: { event: 7 } });
  assert.equal(log.settled.length, 0);
});

// Runs of the page

test("a run is asked for once clicks are stored, a second one never beside it, and not for each click", async () => {
  for (let k = 1; k <= 6; k++) {
    log.add(set(`b${k}`));
    ack(server.open[0]);
    await settle();
  }
  assert.equal(runs.length, 1);
  assert.deepEqual(runs[0].ops, []);
  await pass(400);
  log.take(dataFor(runs[0]));
  await pass(1199);
  assert.equal(runs.length, 1, "a pause of three times what the run took");
  await pass(1);
  assert.equal(runs.length, 2);
  log.take(dataFor(runs[1]));
  await pass(60_000);
  assert.equal(runs.length, 2, "nothing is new");
});

test("after an undo the run is urgent: only the page's data show what it did", async () => {
  log.add(set("b1"));
  ack(server.open[0]);
  await pass(800);
  log.take(dataFor(runs[0]));
  log.add({ undo: true });
  ack(server.open[0]);
  await settle();
  assert.equal(runs.length, 2);
});

test("a run that got lost is asked for again", async () => {
  log.add(set("b1"));
  ack(server.open[0]);
  await pass(9_999);
  assert.equal(runs.length, 1);
  await pass(1);
  assert.equal(runs.length, 2);
  await pass(20_000);
  assert.equal(runs.length, 3);
});

// The wish for another queue

test("a wish travels with a run once what was before it is acknowledged; what comes later goes ahead", async () => {
  log.add(set("b1"));
  log.add(WISH);
  log.add(set("b2"));
  await settle();
  assert.equal(runs.length, 0);
  assert.deepEqual(server.requests.map(numbers), [[1]]);
  ack(server.open[0]);
  await settle();
  assert.deepEqual(server.requests.map(numbers), [[1], [3]], "a wish is nothing for this way");
  assert.deepEqual(runs.at(-1).ops.map(({ n }) => n), [2]);
  ack(server.open[0]);
  await settle();
  log.take(dataFor(runs.at(-1)));
  assert.equal(log.state, "saved");
});

test("an unanswered wish is asked again", async () => {
  log.add(WISH);
  assert.deepEqual(runs.map(({ ops }) => ops.length), [1]);
  await pass(2500);
  assert.deepEqual(runs.map(({ ops }) => ops.length), [1, 1]);
  assert.equal(log.state, "waiting");
  log.take(dataFor(runs[1]));
  assert.equal(log.state, "saved");
});

// Leaving and coming back

test("a page that is left sends what was not on its way, past what is, and lets it outlive the page", async () => {
  log.add(set("b1"));
  log.add(set("b2"));
  window.dispatchEvent(new Event("pagehide"));
  assert.deepEqual(server.requests.map(numbers), [[1], [1, 2]]);
  assert.equal(server.requests[1].init.keepalive, true);
  window.dispatchEvent(new Event("pagehide"));
  assert.equal(server.requests.length, 2, "once is enough");
});

test("a view that goes away sends nothing more until another one is there", async () => {
  log.add(set("b1"));
  server.requests[0].fail();
  await settle();
  log.disconnect("view");
  await pass(60_000);
  assert.equal(log.state, "waiting");
  const before = server.requests.length;
  log.disconnect("somebody else");
  log.connect("next view", () => {}, DATA);
  assert.deepEqual(server.requests.slice(before).map(numbers), [[1]]);
});

test("what a closed page left is taken over under its old ids; from a living one nothing is taken", async () => {
  log.add(set("b1"));
  log.add(set("b2", "not_damaged"));
  server.requests[0].fail();
  await settle();
  const second = open(`t${token}`).log;
  await pass(3000);
  assert.equal(second.ops.length, 0);
  const ids = log.ops.map(({ op }) => op);
  log.disconnect("view");
  releaseLock(log.key); // the second page waits for it, however late the browser lets go
  await settle();
  assert.deepEqual(second.ops.map(({ op, n }) => [op, n]), ids.map((op, k) => [op, k + 1]));
  assert.equal(localStorage.getItem(log.key), null);
  ack(server.requests.at(-1));
  await settle();
  assert.deepEqual(Object.keys(localStorage), []);
});

for (const [days, isKept] of [[6.9, true], [7.1, false]]) {
  test(`what waited ${days} days is ${isKept ? "sent" : "forgotten"}`, async () => {
    const key = `pugeo:log:t${token}:old`;
    localStorage.setItem(key, JSON.stringify({ at: Date.now() - days * 24 * 3600_000, ops: [{ n: 5, op: "old-5", ...set("b3") }] }));
    document.dispatchEvent(new Event("visibilitychange"));
    await settle();
    assert.equal(localStorage.getItem(key), null);
    assert.deepEqual(server.requests.flatMap(({ body }) => body.ops.map(({ op }) => op)), isKept ? ["old-5"] : []);
  });
}

test("a page that cannot label leaves them to one that can, and another project's stay", async () => {
  const key = `pugeo:log:t${token}:old`;
  const other = "pugeo:log:elsewhere:old";
  for (const each of [key, other]) localStorage.setItem(each, JSON.stringify({ at: Date.now(), ops: [{ n: 1, op: "old-1", ...set("b3") }] }));
  log.disconnect("view");
  document.dispatchEvent(new Event("visibilitychange"));
  await pass(3000);
  assert.deepEqual(server.requests, []);
  log.connect("view", () => {}, DATA);
  await settle();
  assert.deepEqual(server.requests.map(numbers), [[1]]);
  assert.notEqual(localStorage.getItem(other), null);
});
