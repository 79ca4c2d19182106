// Sends operations by HTTP, without a run of the page: one request at a time, each with all that is not acknowledged, or as much
// of it from its start as the server takes at once; again after a failure.

import { pack } from "./packing.js";

const PATIENCE_MS = [5000, 8000, 15000];
const PER_OPERATION_MS = 0.5;
const RETRY_MS = [1000, 2500, 5000, 10000, 15000];
const MOST_KEPT_ALIVE = 60_000; // bytes; browsers take 64 kB from a page that is going away
const MOST_AT_ONCE = 1_500_000; // bytes of operations; the server takes 2 MB (`routes.py`)

export class Posts {
  /**
   * @param session names the page load
   * @param log {operations() to send, stored(answer, wasAway: requests before it failed), changed(), unknown(): the server
   *   does not know this project; a run of the page tells it, tooLong(operation): it fits in no message}
   */
  constructor(session, log) {
    Object.assign(this, { session, log, url: null, analyst: null, inFlight: null, attempt: 0, timer: null, problem: null, most: MOST_AT_ONCE });
  }

  configure({ base, token, here }) {
    this.url = here ? `${base}/${token}/operations` : null;
    this.analyst = here?.analyst;
  }

  /** Send what waits, unless a request is under way or one failed a moment ago. */
  send() {
    if (!this.inFlight && !this.timer) this.#post();
  }

  /** The server is back: do not wait any longer. */
  sendAgain() {
    this.inFlight?.abort();
    this.#post();
  }

  /** The page goes away: what was not sent yet goes past what is on its way. The server takes the same ones twice. */
  leave() {
    if (!this.inFlight?.isLast || this.log.operations().at(-1)?.n > this.inFlight.upTo) this.#post(true);
  }

  stop() {
    clearTimeout(this.timer);
    this.timer = null;
  }

  async #post(isLast = false) {
    this.stop();
    const [by, waiting] = ofOne(this.log.operations(), this.analyst);
    const { ops, packed } = this.url ? fitting(waiting, this.most) : { ops: [] };
    if (!ops.length) return;
    const controller = new AbortController();
    const mine = (this.inFlight = { upTo: ops.at(-1).n, isLast, abort: () => controller.abort() });
    const at = Math.min(this.attempt, PATIENCE_MS.length - 1);
    const patience = setTimeout(mine.abort, PATIENCE_MS[at] + ops.length * PER_OPERATION_MS);
    const body = JSON.stringify({ session: this.session, attempt: this.attempt, analyst: by, ops: packed });
    const answer = await ask(this.url, body, controller.signal, isLast).catch(() => null);
    clearTimeout(patience);
    if (answer?.isTooLong && mine === this.inFlight) this.#shorten(ops);
    else if (answer?.session === this.session && answer.n >= ops[0].n) this.#succeed(mine, answer);
    else if (mine === this.inFlight) this.#fail(answer);
  }

  #succeed(mine, answer) {
    const wasAway = this.attempt > 0;
    this.attempt = 0;
    this.problem = null;
    if (mine === this.inFlight) this.inFlight = null;
    this.log.stored(answer, wasAway);
    this.send();
  }

  /** The server takes no message of this length: send half as much, and do without an operation that is too long alone. */
  #shorten(ops) {
    this.inFlight = null;
    if (ops.length > 1) this.most /= 2;
    else {
      this.most = MOST_AT_ONCE;
      this.log.tooLong(ops[0]);
    }
    this.send();
  }

  #fail(answer) {
    this.inFlight = null;
    this.problem = typeof answer?.problem === "string" ? answer.problem : null;
    this.timer = setTimeout(() => this.#post(), RETRY_MS[Math.min(this.attempt, RETRY_MS.length - 1)]);
    this.attempt += 1;
    if (answer?.isUnknown) this.log.unknown();
    this.log.changed();
  }
}

/** @returns [analyst, operations]: the first ones that one analyst gave; another may have taken over before these could be sent */
function ofOne(all, now) {
  const by = all[0]?.by ?? now;
  const end = all.findIndex((op) => (op.by ?? now) !== by);
  return [by, (end < 0 ? all : all.slice(0, end)).map(({ by, ...op }) => op)];
}

/** @returns {ops, packed}: the first operations, in order, as many as `most` bytes hold when packed; at least one, if there is any */
function fitting(all, most) {
  let ops = all;
  let packed = pack(ops);
  while (ops.length > 1 && bytesOf(packed) > most) {
    ops = ops.slice(0, Math.ceil(ops.length / 2));
    packed = pack(ops);
  }
  return { ops, packed };
}

function bytesOf(packed) {
  return new TextEncoder().encode(JSON.stringify(packed)).length;
}

/** @returns the server's answer, or its words about a refusal */
async function ask(url, body, signal, isLast) {
  const keepalive = isLast && body.length < MOST_KEPT_ALIVE;
  const response = await fetch(url, { method: "POST", headers: { "Content-Type": "application/json" }, body, signal, keepalive });
  if (response.status === 413) return { isTooLong: true };
  if (response.status === 403) return { problem: await response.text() }; // of the app's door, see guard.py
  return response.status === 404 ? { isUnknown: true } : response.json();
}
