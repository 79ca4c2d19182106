// The numbered log of what the analyst did and the server has not acknowledged yet.
//
// Streamlit keeps only the newest value a component sets, so a click that is sent alone can be overwritten by the next
// one. Here every message carries ALL unacknowledged operations; the server applies them by id (a repeat is harmless)
// and answers with the highest number it stored. Nothing leaves the log before that answer.
//
// The log is also written to localStorage, under a key of its own for each page load. Whoever has that page open holds a
// lock of the same name. A free lock means that the page is gone; the next one that can label takes over what it left.

const RETRY_MS = [2500, 4000, 8000, 15000];
const SLOW_SERVER_MS = 300;
const PATIENCE_MS = 0.5; // more for each operation on its way
const LOOK_AGAIN_MS = 2000; // the browser lets go of a reloaded page's lock a moment late
const KEPT_MS = 7 * 24 * 3600 * 1000;
const PREFIX = "pugeo:log:";

export class OperationLog {
  /** @param {string} token names the project */
  constructor(token) {
    this.session = crypto.randomUUID(); // new on each page load: a duplicated tab must not reuse numbers
    this.family = `${PREFIX}${token}:`;
    this.key = this.family + this.session;
    this.next = 1;
    this.ops = [];
    this.changed = () => {}; // called when the log or its state changed
    this.owner = null;
    this.send = null;
    this.sentUpTo = 0;
    this.sentAt = 0;
    this.attempt = 0;
    this.timer = null;
    this.problem = null;
    navigator.locks?.request(this.key, () => new Promise(() => {})).catch(() => {}); // held until the page is gone
    document.addEventListener("visibilitychange", () => (document.hidden ? this.flush() : this.#takeOver()));
    window.addEventListener("pagehide", () => this.flush());
  }

  /** Connect to Streamlit; called on each run, because the function is a new one each time. */
  connect(owner, send) {
    const first = this.owner !== owner;
    this.owner = owner;
    this.send = send;
    if (!first) return;
    this.flush();
    this.#takeOver();
    setTimeout(() => this.#takeOver(), LOOK_AGAIN_MS);
  }

  /** Send what was not sent yet, and no more until the next `connect`. Of no effect once another owner is connected. */
  disconnect(owner) {
    if (this.owner !== owner) return;
    if (this.ops.length && this.ops.at(-1).n > this.sentUpTo) this.flush();
    clearTimeout(this.timer);
    this.owner = this.send = null;
    this.sentUpTo = 0;
  }

  add(operation, options) {
    this.addMany([operation], options);
  }

  addMany(operations, { now = false } = {}) {
    if (!operations.length) return;
    for (const operation of operations) {
      const n = this.next++;
      this.ops.push({ n, op: `${this.session}-${n}`, ...operation });
    }
    this.#keep();
    this.changed();
    // Self-clocking: one message in flight, the next one when it is answered or the server is slow.
    const patience = this.#patience(SLOW_SERVER_MS) - (Date.now() - this.sentAt);
    if (now || !this.sentUpTo || patience <= 0) this.flush();
    else this.#wake(patience);
  }

  flush() {
    if (!this.ops.length || !this.send) return;
    clearTimeout(this.timer);
    this.sentUpTo = this.ops.at(-1).n;
    this.sentAt = Date.now();
    this.send({ session: this.session, attempt: this.attempt, ops: this.ops });
    this.#wake(this.#patience(RETRY_MS[Math.min(this.attempt, RETRY_MS.length - 1)]), true);
  }

  /** The server's answer: everything up to `ack.n` is stored. */
  acknowledge(ack, problem) {
    this.problem = problem ?? null;
    if (ack && ack.session === this.session) {
      const before = this.ops.length;
      this.ops = this.ops.filter((op) => op.n > ack.n);
      if (this.ops.length < before) {
        this.attempt = 0;
        this.#keep();
      }
      if (ack.n >= this.sentUpTo) this.sentUpTo = 0;
      if (!this.ops.length) {
        clearTimeout(this.timer);
        this.timer = null;
      } else if (!this.sentUpTo) this.flush();
    }
    this.changed();
  }

  /** "saved", "saving" or "waiting" (unanswered for longer than a healthy server needs). */
  get state() {
    if (!this.ops.length) return "saved";
    return this.attempt > 0 || this.problem ? "waiting" : "saving";
  }

  #patience(ms) {
    return ms + this.ops.length * PATIENCE_MS;
  }

  #wake(ms, isRetry = false) {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => {
      if (!this.ops.length) return;
      if (isRetry) this.attempt += 1; // makes the value differ, so that Streamlit runs again
      this.flush();
      this.changed();
    }, Math.max(0, ms));
  }

  // ---- what outlives the page ----

  #keep() {
    try {
      if (this.ops.length) localStorage.setItem(this.key, JSON.stringify({ at: Date.now(), ops: this.ops }));
      else localStorage.removeItem(this.key);
    } catch {
      // storage full or blocked: the log in memory still works, only a reload would forget
    }
  }

  #takeOver() {
    if (!this.send || !navigator.locks) return;
    const left = leftovers().filter(({ key }) => key.startsWith(this.family) && key !== this.key);
    for (const { key } of left.sort((a, b) => a.at - b.at)) {
      navigator.locks.request(key, { ifAvailable: true }, (lock) => lock && this.#adopt(key)).catch(() => {});
    }
  }

  #adopt(key) {
    const ops = read(key)?.ops; // again: another page may have been faster
    if (!ops || !this.send) return;
    for (const op of ops) this.ops.push({ ...op, n: this.next++ }); // `op.op`, which the server goes by, stays
    localStorage.removeItem(key); // first, because there may be no room for two copies
    this.#keep();
    this.flush();
    this.changed();
  }
}

/** All logs in the storage; those that are too old or not readable are removed. */
function leftovers() {
  try {
    const keys = Object.keys(localStorage).filter((key) => key.startsWith(PREFIX));
    return keys.flatMap((key) => {
      const entry = read(key);
      if (entry && entry.at > Date.now() - KEPT_MS) return [{ key, at: entry.at }];
      localStorage.removeItem(key);
      return [];
    });
  } catch {
    return []; // blocked storage
  }
}

function read(key) {
  try {
    const entry = JSON.parse(localStorage.getItem(key));
    return Array.isArray(entry?.ops) && typeof entry.at === "number" ? entry : null;
  } catch {
    return null;
  }
}
