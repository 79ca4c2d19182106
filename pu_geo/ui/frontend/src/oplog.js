// The numbered log of what the analyst did and the server has not acknowledged yet.
//
// Streamlit keeps only the newest value a component sets, so a click that is sent alone can be overwritten by the next
// one. Here every message carries ALL unacknowledged operations; the server applies them by id (a repeat is harmless)
// and answers with the highest number it stored. Nothing leaves the log before that answer.

const RETRY_MS = [2500, 4000, 8000, 15000];
const SLOW_SERVER_MS = 300;

export class OperationLog {
  /**
   * @param {string} token names the project; operations that a reload interrupted are kept under it
   * @param {() => void} changed called when the log or its state changed
   */
  constructor(token, changed = () => {}) {
    this.storageKey = `pugeo:log:${token}`;
    this.session = crypto.randomUUID(); // new on each page load: a duplicated tab must not reuse numbers
    this.next = 1;
    this.ops = [];
    this.changed = changed;
    this.send = null;
    this.sentUpTo = 0;
    this.sentAt = 0;
    this.attempt = 0;
    this.timer = null;
    this.problem = null;
    for (const old of this.#restore()) this.ops.push({ ...old, n: this.next++ });
    document.addEventListener("visibilitychange", () => this.flush());
    window.addEventListener("pagehide", () => this.flush());
  }

  /** Connect to Streamlit; called on each run, because the function is a new one each time. */
  connect(send) {
    const first = this.send === null;
    this.send = send;
    if (first && this.ops.length) this.flush();
  }

  disconnect() {
    this.send = null;
    clearTimeout(this.timer);
    this.timer = null;
  }

  add(operation, { now = false } = {}) {
    const n = this.next++;
    this.ops.push({ n, op: `${this.session}-${n}`, ...operation });
    this.#keep();
    this.changed();
    // Self-clocking: one message in flight, the next one when it is answered or the server is slow.
    const inFlight = this.sentUpTo > 0 && Date.now() - this.sentAt < SLOW_SERVER_MS;
    if (now || !inFlight) this.flush();
    else this.#wake(SLOW_SERVER_MS - (Date.now() - this.sentAt));
    return n;
  }

  flush() {
    if (!this.ops.length || !this.send) return;
    clearTimeout(this.timer);
    this.sentUpTo = this.ops.at(-1).n;
    this.sentAt = Date.now();
    this.send({ session: this.session, attempt: this.attempt, ops: this.ops });
    this.#wake(RETRY_MS[Math.min(this.attempt, RETRY_MS.length - 1)], true);
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

  #wake(ms, isRetry = false) {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => {
      if (!this.ops.length) return;
      if (isRetry) this.attempt += 1; // makes the value differ, so that Streamlit runs again
      this.flush();
      this.changed();
    }, Math.max(0, ms));
  }

  #keep() {
    try {
      if (this.ops.length) sessionStorage.setItem(this.storageKey, JSON.stringify(this.ops));
      else sessionStorage.removeItem(this.storageKey);
    } catch {
      // storage full or blocked: the log in memory still works, only a reload would forget
    }
  }

  #restore() {
    try {
      return JSON.parse(sessionStorage.getItem(this.storageKey) ?? "[]");
    } catch {
      return [];
    }
  }
}
