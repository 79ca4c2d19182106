// The queue the page handed in: where the analyst is in it, what was answered, what was passed over.

import { UNLABELED } from "./colors.js";
import { remember, remembered } from "./dom.js";

export class QueueState {
  /**
   * @param wish (operation) puts the wish for another queue into the log; @param moved (hasWalked) after each step; whether the analyst
   * wanted it; @param isOwn (i) whether the answer that building i has is this analyst's own, to a random check
   */
  constructor(store, { wish, moved, isOwn = () => true }) {
    Object.assign(this, { store, wish, moved, isOwn });
    this.isSecond = false; // of checks that others answered: each is open until this analyst answers it, too
    this.id = null;
    this.all = []; // {i, kind, why}
    this.items = []; // those of them that the map has
    this.at = -1;
    this.skipped = new Set(); // places
    this.isActive = false; // the analyst looks at the queue
    this.isStarted = false;
    this.isOver = false; // the last one was answered, and the analyst did not walk back since
    this.asked = null; // id of the queue after which another one was asked for
    store.on("geometry", () => this.#restart());
    store.on("labels", (cause) => this.#relabelled(cause));
  }

  /** @param queue {id, items: [[i, kind, why], ...], is_second} or null */
  take(token, queue) {
    const same = JSON.stringify([token, queue]);
    const large = this.items[this.at]?.i;
    const isRenewed = queue !== null && queue.id === this.id; // what has the highest scores now: the picture that is large stays
    if (same === this.given || (isRenewed && large !== undefined && !queue.items.some(([i]) => i === large))) return;
    this.given = same;
    this.storageKey = `pugeo:queue:${token}`;
    this.id = queue?.id ?? null;
    this.isSecond = Boolean(queue?.is_second);
    this.all = (queue?.items ?? []).map(([i, kind, why]) => ({ i, kind, why }));
    this.items = this.all;
    this.before = null;
    this.#restart(isRenewed);
    if (this.id === null) this.#step();
  }

  /** Another project comes. */
  forget() {
    Object.assign(this, { id: null, given: null, all: [], items: [], at: -1, isStarted: false, isOver: false, before: null, asked: null });
    this.skipped = new Set();
    this.moved(false);
  }

  #restart(isRenewed = false) {
    this.isStarted = false;
    if (!this.store.ready || this.id === null) return;
    this.isStarted = true;
    const { isHeld } = this;
    this.items = this.all.filter(({ i }) => i < this.store.n);
    const saved = remembered(this.storageKey, {});
    const mine = saved.id === this.id ? saved : {};
    const placesOf = (numbers) => numbers.map((i) => this.items.findIndex((item) => item.i === i)).filter((place) => place >= 0);
    this.skipped = new Set(placesOf(mine.skipped ?? []));
    this.at = placesOf([mine.at])[0] ?? -1;
    if (this.at < 0 || !(isRenewed || this.isOpen(this.at))) this.at = this.#nextOpen();
    if (this.at < 0 && this.items.length) this.at = 0;
    this.held = isRenewed && isHeld ? this.at : -1;
    this.isOver = this.isDone;
    this.#step();
  }

  /** The item that keys answer; null while the analyst looks elsewhere. */
  get current() {
    return this.isActive ? (this.items[this.at] ?? null) : null;
  }

  isAnswered(place) {
    const { i } = this.items[place];
    return (this.store.labels[i] ?? UNLABELED) !== UNLABELED && (!this.isSecond || this.isOwn(i));
  }

  isOpen(place) {
    return !this.isAnswered(place) && !this.skipped.has(place);
  }

  get isDone() {
    return this.items.length > 0 && this.items.every((_, place) => !this.isOpen(place));
  }

  get answered() {
    return this.items.filter((_, place) => this.isAnswered(place)).length;
  }

  setActive(isActive) {
    if (this.isActive === isActive) return;
    this.isActive = isActive;
    this.#step(isActive);
  }

  /** Back to the queue from a building elsewhere: to the place where it was left, or on from it where that is answered. */
  back() {
    if (this.items[this.at] && this.isOpen(this.at)) this.go(this.at);
    else this.goOn();
  }

  go(place) {
    this.held = -1;
    this.at = Math.min(this.items.length - 1, Math.max(0, place)); // -1 of an empty queue
    this.isOver = false;
    this.#step(true);
  }

  /** To the next one that waits for an answer; once none does, another queue is asked for. */
  goOn() {
    this.held = -1;
    const next = this.#nextOpen();
    if (next >= 0) this.at = next;
    this.isOver = next < 0;
    this.#step(true);
    if (this.isOver) this.ask();
  }

  skip() {
    if (this.at < 0) return;
    if (!this.isAnswered(this.at)) this.skipped.add(this.at);
    this.goOn();
  }

  /** More answers may follow to the current one, such as its other damage types: even the last one keeps its picture until then. */
  hold() {
    this.held = this.at;
  }

  get isHeld() {
    return this.held === this.at && this.at >= 0;
  }

  /** An answer is about to be given to the current one. */
  touch() {
    this.skipped.delete(this.at);
    this.before = null;
  }

  /** Ask for another queue; a second time only where the analyst insists. */
  ask(insists = false) {
    if (this.id === null || this.isOnItsWay || (this.asked === this.id && !insists)) return;
    this.asked = this.id;
    const skipped = [...this.skipped].filter((place) => !this.isAnswered(place)).sort((a, b) => a - b);
    this.wish({ next: true, screen: "queue", queue: this.id, skipped: skipped.map((place) => this.store.ids[this.items[place].i]) });
    this.moved(insists);
  }

  /** The wish waits for the server. */
  get isOnItsWay() {
    return this.store.pending.some((operation) => operation.next);
  }

  /** An undo took back an answer: look at that building again. */
  expectUndo() {
    this.before = this.items.map((_, place) => this.isAnswered(place));
  }

  // What others answered takes away no picture that somebody is about to answer: the next queue comes after that answer.
  #relabelled(cause) {
    if (!this.isStarted) return;
    const undone = this.before?.findIndex((was, place) => was && place < this.items.length && !this.isAnswered(place)) ?? -1;
    if (undone >= 0) {
      this.at = undone;
      this.before = null;
    }
    this.isOver = this.isDone && !this.isHeld && (this.isOver || cause !== "heard");
    this.#step();
    if (this.isOver) this.ask();
  }

  // Forward from here, then from the start.
  #nextOpen() {
    const n = this.items.length;
    for (let step = 1; step <= n; step++) {
      const place = (Math.max(this.at, -1) + step) % n;
      if (this.isOpen(place)) return place;
    }
    return -1;
  }

  // A check is worth nothing if the analyst knows the score before answering.
  #step(hasWalked = false) {
    const blind = this.items.filter(({ kind }, place) => kind === "audit" && (!this.isAnswered(place) || (this.isActive && place === this.at)));
    this.store.setBlind(this.isStarted && this.store.mode === "label" ? blind.map(({ i }) => i) : []);
    if (this.isStarted && this.id !== null) remember(this.storageKey, { id: this.id, at: this.items[this.at]?.i, skipped: [...this.skipped].map((place) => this.items[place].i) });
    this.moved(hasWalked);
  }
}
