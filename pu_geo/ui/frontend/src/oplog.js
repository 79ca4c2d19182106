// The numbered log of what the analyst did and the server has not acknowledged yet.
//
// Operations are stored and acknowledged by HTTP (`posts.js`); runs of the page, which rank anew, are asked for afterwards
// and seldom enough (`reruns.js`). Only the wish for another queue needs the page: it travels with a run once all operations
// before it are acknowledged; later ones go ahead of it.
//
// A message carries ALL operations that are not acknowledged, because an answer may be lost. The server applies them by id
// (a repeat is harmless) and answers with the highest number it has dealt with. Nothing leaves the log before that answer.
//
// The log is also written to localStorage, under a key of its own for each page load. Whoever has that page open holds a
// lock of the same name. A free lock means that the page is gone; the next one that can label takes over what it left, at once
// if it waits for the lock already.

import { familyOf, keep, leftovers, read } from "./kept_logs.js";
import { Posts } from "./posts.js";
import { Reruns } from "./reruns.js";
import { TEXTS } from "./texts.js";

const RETRY_MS = [2500, 4000, 8000, 15000];

export class OperationLog {
  /** @param {string} token names the project */
  constructor(token) {
    this.session = crypto.randomUUID(); // new on each page load: a duplicated tab must not reuse numbers
    this.family = familyOf(token);
    this.key = this.family + this.session;
    this.next = 1;
    this.ops = [];
    this.settled = []; // labels that are stored and that the page's data do not hold yet, each with its `event`
    this.refused = null; // {problem, hint} of what the server will never store
    this.changed = () => {}; // called when the log or its state changed
    this.awaited = new Set(); // keys of other pages' logs
    this.owner = null;
    this.send = null;
    this.sentUpTo = 0; // of the wishes
    this.asked = 0;
    this.tries = 0;
    this.timer = null;
    this.pageProblem = null;
    this.reruns = new Reruns(() => this.#ask());
    this.posts = new Posts(this.session, {
      operations: () => (this.send ? this.ops.filter((op) => !op.next) : []),
      stored: (answer, wasAway) => this.#stored(answer, wasAway),
      changed: () => this.changed(),
      unknown: () => this.send && this.reruns.want(true),
      tooLong: (operation) => this.#tooLong(operation),
    });
    navigator.locks?.request(this.key, () => new Promise(() => {})).catch(() => {}); // held until the page is gone
    document.addEventListener("visibilitychange", () => (document.hidden ? this.#leave() : this.#takeOver()));
    window.addEventListener("pagehide", () => this.#leave());
    window.addEventListener("online", () => this.send && this.posts.sendAgain());
  }

  /** Connect to Streamlit; called on each run, because the function is a new one each time. */
  connect(owner, send, data) {
    const first = this.owner !== owner;
    this.owner = owner;
    this.send = send;
    this.posts.configure(data);
    if (!first) return;
    this.posts.stop();
    this.#advance();
    this.#takeOver();
  }

  /** Send what was not sent yet, and no more until the next `connect`. Of no effect once another owner is connected. */
  disconnect(owner) {
    if (this.owner !== owner) return;
    this.#leave();
    clearTimeout(this.timer);
    this.posts.stop();
    this.reruns.stop();
    this.owner = this.send = null;
    this.sentUpTo = 0;
  }

  add(operation) {
    this.addMany([operation]);
  }

  addMany(operations) {
    if (!operations.length) return;
    for (const operation of operations) {
      const n = this.next++;
      this.ops.push({ n, op: `${this.session}-${n}`, by: this.posts.analyst, ...operation });
    }
    keep(this.key, this.ops);
    this.#advance(); // first: the server stores while the page draws
    this.changed();
  }

  /** The page's data are here. `server` names the session at the server: a new one knows nothing of what was sent. */
  take({ ack, problem, here, server }) {
    this.pageProblem = problem ?? null;
    const isNew = this.server !== undefined && server !== this.server;
    this.settled = this.settled.filter(({ event }) => here && !isNew && event > here.event);
    this.server = server;
    const isMine = ack?.session === this.session;
    if (isMine) this.#drop((op) => op.n <= ack.n);
    if (isNew) this.reruns.stop(); // these data are as new as can be, and the time without a server was no run's
    else if (problem || (isMine && ack.attempt >= this.asked)) this.reruns.came();
    if (isNew) this.#sendAgain();
    else this.#advance();
    this.changed();
  }

  /** Why the server could not store, in its words. */
  get problem() {
    return this.posts.problem ?? this.pageProblem;
  }

  /** "saved", "saving" or "waiting" (unanswered for longer than a healthy server needs). */
  get state() {
    if (!this.ops.length) return "saved";
    return this.tries > 0 || this.posts.attempt > 1 || this.problem ? "waiting" : "saving";
  }

  dismiss() {
    this.refused = null;
    this.changed();
  }

  // ---- by HTTP ----

  #stored({ n, event, refused }, wasAway) {
    const done = this.ops.filter((op) => !op.next && op.n <= n);
    this.settled.push(...done.filter((op) => op.building_id).map((op) => ({ ...op, event })));
    this.refused = refused ?? this.refused;
    this.#drop((op) => !op.next && op.n <= n);
    this.changed();
    if (!this.send || !done.length) return;
    if (wasAway) this.reruns.stop(); // a run that was under way is gone with the server
    this.reruns.want(done.some((op) => op.undo || op.redo)); // only the page's data show what they did
    this.#advance();
  }

  /** Show that an operation will never be stored, and go on without it. */
  #tooLong({ n, building_id: id }) {
    this.refused = { problem: TEXTS.tooLong(id), hint: TEXTS.shorter };
    this.#drop((op) => op.n === n);
    this.changed();
  }

  // ---- with runs of the page ----

  get #wishes() {
    const first = this.ops.findIndex((op) => !op.next);
    return this.ops.slice(0, first < 0 ? undefined : first);
  }

  // Self-clocking: one message in flight, the next one when it is answered or the server is slow.
  #advance() {
    if (!this.send) return;
    this.posts.send();
    const last = this.#wishes.at(-1)?.n ?? 0;
    if (last <= this.sentUpTo) return;
    const patience = this.reruns.patience;
    if (patience <= 0) this.#ask();
    else this.#wake(patience);
  }

  #sendAgain() {
    this.sentUpTo = 0;
    this.posts.sendAgain();
    this.#advance();
  }

  #leave() {
    if (!this.send) return;
    this.posts.leave();
    if (this.#wishes.at(-1)?.n > this.sentUpTo) this.#ask();
  }

  #ask() {
    if (!this.send) return;
    clearTimeout(this.timer);
    const ops = this.#wishes;
    this.asked += 1; // makes the value differ, so that Streamlit runs again
    this.sentUpTo = ops.at(-1)?.n ?? this.sentUpTo;
    this.reruns.asked();
    this.send({ session: this.session, attempt: this.asked, ops });
    if (!ops.length) return;
    const retry = RETRY_MS[Math.min(this.tries, RETRY_MS.length - 1)];
    this.#wake(Math.max(retry, this.reruns.patience), true);
  }

  #wake(ms, isRetry = false) {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => {
      if (!this.#wishes.length) return this.#advance();
      if (isRetry) this.tries += 1;
      this.#ask();
      this.changed();
    }, Math.max(0, ms));
  }

  // ---- what outlives the page ----

  #drop(isDone) {
    const before = this.ops.length;
    this.ops = this.ops.filter((op) => !isDone(op));
    if (this.ops.length === before) return;
    this.tries = 0;
    keep(this.key, this.ops);
    if (!this.#wishes.length) clearTimeout(this.timer);
  }

  #takeOver() {
    if (!this.send || !navigator.locks) return;
    const left = leftovers().filter(({ key }) => key.startsWith(this.family) && key !== this.key && !this.awaited.has(key));
    for (const { key } of left) {
      this.awaited.add(key);
      navigator.locks.request(key, () => this.#adopt(key)).catch(() => this.awaited.delete(key));
    }
  }

  #adopt(key) {
    this.awaited.delete(key);
    const ops = read(key)?.ops; // again: another page may have been faster
    if (!ops || !this.send) return;
    for (const op of ops) this.ops.push({ ...op, n: this.next++ }); // `op.op`, which the server goes by, stays
    localStorage.removeItem(key); // first, because there may be no room for two copies
    keep(this.key, this.ops);
    this.#advance();
    this.changed();
  }
}
