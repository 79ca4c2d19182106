// Who else is here, and what they answer: asks the server every few seconds, one question at a time.
//
// Labels that came this way lie over those of the page until page data of a later event hold them; this browser's own
// operations, as long as they are not acknowledged, lie over both.

import { LABEL_NAMES } from "./colors.js";

const EVERY_MS = 4000;
const SETTLED_MS = 300; // somebody who answers fast is not followed building by building
const SLOWEST_MS = 60_000;
const PATIENCE_MS = 15_000;
const LONGEST_NAME = 40;
const COLOR = /^#[0-9a-f]{6}$/i;

export class Presence {
  /** @param at () => number of the building that this analyst is on, -1 if none */
  constructor(store, at) {
    Object.assign(this, { store, at, url: null, event: 0, since: 0, asked: 0, wait: EVERY_MS });
    this.visibilityChanged = () => (document.hidden ? clearTimeout(this.timer) : this.#soon(0));
    document.addEventListener("visibilitychange", this.visibilityChanged);
    store.on("geometry", () => this.#restart());
  }

  /** Take the page's data. Called before its labels are: what they hold already need not lie over them. */
  update({ base, token, here }, session) {
    const url = here ? `${base}/${token}/here` : null;
    this.analyst = here?.analyst;
    this.session = session;
    const isNew = url !== this.url;
    this.url = url;
    if (isNew || here?.event > this.event) this.event = here?.event ?? 0; // up to which the page's labels are known
    if (isNew) this.#restart();
    this.since = Math.max(this.since, this.event);
    for (const [i, { event }] of this.store.heard) if (event <= this.event) this.store.heard.delete(i);
  }

  /** This analyst is on another building. */
  moved() {
    if (this.wait === EVERY_MS && this.at() !== this.placeSent) this.#soon(Math.max(0, Math.min(SETTLED_MS, this.asked + EVERY_MS - Date.now())));
  }

  #restart() {
    this.store.heard.clear();
    this.#showOthers([]);
    this.since = this.event;
    this.asked = 0;
    this.wait = EVERY_MS;
    this.#soon(0);
  }

  #soon(ms) {
    clearTimeout(this.timer);
    if (this.url && this.store.ready && !document.hidden) this.timer = setTimeout(() => this.#ask(), ms);
  }

  async #ask() {
    if (this.isAsking) return;
    this.isAsking = true;
    this.asked = Date.now();
    const { url, since, analyst, session } = this;
    const building = (this.placeSent = this.at());
    try {
      const answer = await post(url, { session, analyst, building: building < 0 ? null : building, since });
      this.wait = EVERY_MS;
      if (url === this.url) this.#take(answer, since);
    } catch {
      this.wait = Math.min(SLOWEST_MS, 2 * this.wait); // perhaps later; nothing that an analyst has to know
      this.#showOthers([]);
    }
    this.isAsking = false;
    this.#soon(this.wait === EVERY_MS && this.at() !== building ? SETTLED_MS : this.wait);
  }

  #take({ event, labels, details, others }, since) {
    this.#showOthers(Array.isArray(others) ? others.map(readOther).filter(Boolean) : []);
    // Page data that came meanwhile may know better; ask again from there.
    if (since !== this.since || !Number.isInteger(event)) return;
    this.since = Math.max(since, event);
    const news = Object.entries(labels ?? {}).map(([id, label]) => [this.store.index.get(id), LABEL_NAMES.indexOf(label), details?.[id]]).filter(([i, code]) => i !== undefined && code >= 0);
    for (const [i, code, detail] of news) this.store.heard.set(i, { ...detail, code, event });
    if (news.length) this.store.relabel("heard");
  }

  #showOthers(others) {
    if (JSON.stringify(others) !== JSON.stringify(this.store.others)) this.store.set("others", others);
  }

  dispose() {
    clearTimeout(this.timer);
    this.url = null;
    document.removeEventListener("visibilitychange", this.visibilityChanged);
  }
}

async function post(url, message) {
  const response = await fetch(url, {
    method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(message), signal: AbortSignal.timeout(PATIENCE_MS),
  });
  if (!response.ok) throw new Error(String(response.status));
  return response.json();
}

function readOther(other) {
  if (typeof other?.name !== "string" || !other.name) return null;
  const { building } = other;
  return { name: other.name.slice(0, LONGEST_NAME), color: COLOR.test(other.color) ? other.color : "#8a8a8a", building: Number.isInteger(building) ? building : -1 };
}
