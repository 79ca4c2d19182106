// The strip below the damage map: how the map is colored, and a slider over the ranking that says how many are flagged.

import { NOT_DAMAGED, POSITIVE, UNLABELED } from "./colors.js";
import { CATEGORY_COLORS } from "./damage_painter.js";
import { h, onceAFrame, segmented } from "./dom.js";
import { countAbove, countAt, countFrom, openScores, placeOf, profileOf, thresholdFor, written } from "./flagging.js";
import { TEXTS } from "./texts.js";

const { damageMap: words } = TEXTS;
const BAR_PX = 5;
const MARKS_PX = 9; // room for marks of answers below the bars
const STEPS = { ArrowLeft: -1, ArrowDown: -1, ArrowRight: 1, ArrowUp: 1 };
const TICKS = [0.01, 0.05, 0.1, 0.25, 0.5, 1]; // shares of the ranking
const REST_MS = 500; // after so long without a key what was chosen is stored
const PATIENCE_MS = 5000; // a message that nobody answers within this is lost

export class FlagBar {
  /** @param actions {colors(by), choose(k, number of the message, scores that rank)} */
  constructor(store, actions) {
    Object.assign(this, { store, actions, drawSoon: onceAFrame(() => this.#draw()) });
    this.colors = segmented(words.colorBy, words.colors, actions.colors);
    this.words = h("b.flagwords");
    this.basis = h("span.soft");
    this.canvas = h("canvas", { "aria-hidden": "true" });
    this.handle = h("i.flaghandle");
    this.track = h("div.flagtrack", { role: "slider", tabindex: "0", "aria-label": words.sliderName, title: words.profile, onkeydown: (event) => this.#key(event), onblur: () => this.#flush() }, this.canvas, this.handle);
    this.ticks = h("div.flagticks.num.soft", { "aria-hidden": "true" });
    this.empty = h("div.soft", { hidden: true }, words.nothingOpen);
    this.root = h("section.flagbar", { "aria-label": words.sliderName, hidden: true },
      h("div.flaghead", {}, this.colors, h("div.push"), this.words, this.basis), this.track, this.ticks, this.empty);
    this.sorted = new Float64Array(0);
    this.sent = 0; // names what was asked to be stored; the page answers with the newest it stored
    this.isDragging = false;
    this.#listen();
  }

  #listen() {
    const { store, track } = this;
    for (const event of ["geometry", "scores", "labels", "imageQuality", "flagging"]) store.on(event, () => this.#measure());
    for (const event of ["threshold", "colorBy", "types"]) store.on(event, () => this.later());
    track.addEventListener("pointerdown", (down) => {
      if (!this.sorted.length || down.button) return;
      down.preventDefault();
      track.focus({ preventScroll: true });
      track.setPointerCapture(down.pointerId);
      this.isDragging = true;
      this.#moveTo(down);
    });
    track.addEventListener("pointermove", (event) => this.isDragging && this.#moveTo(event));
    for (const end of ["pointerup", "pointercancel"]) track.addEventListener(end, () => this.#release());
    new ResizeObserver(() => this.later()).observe(track);
  }

  /** Whether the page's threshold is older than what is shown. */
  get isAhead() {
    return this.isDragging || Boolean(this.timer) || this.waits;
  }

  configure({ flagging, token, score_id, server, threshold }) {
    this.root.hidden = !flagging;
    const ranking = `${token} ${score_id}`;
    if (ranking !== this.ranking) this.#drop(); // what was chosen is a place in another ranking
    Object.assign(this, { ranking, scoreId: score_id });
    this.stored = threshold;
    if (!flagging) return;
    if (flagging.stored === this.sent || server !== this.server) this.#settle(); // a server that is new never got it
    this.server = server;
    this.basisWords = flagging.basis;
    this.later();
  }

  // The page's threshold counts again.
  #settle() {
    clearTimeout(this.patience);
    this.waits = false;
  }

  #drop() {
    this.#settle();
    clearTimeout(this.timer);
    Object.assign(this, { timer: null, wanted: undefined, isDragging: false });
  }

  #giveUp() {
    this.#settle();
    if (!this.isAhead) this.store.set("threshold", this.stored);
    this.later();
  }

  // Who leaves within the moment after a key has chosen, too.
  #flush() {
    if (this.timer) this.#send();
  }

  dispose() {
    this.#flush();
    clearTimeout(this.patience);
  }

  /** How many are flagged now. */
  get n() {
    return countFrom(this.sorted, this.store.threshold ?? 2);
  }

  #measure() {
    if (!this.store.isFlagging) return;
    this.sorted = openScores(this.store);
    this.later();
  }

  // ---- choosing ----

  #moveTo(event) {
    const { left, width } = this.track.getBoundingClientRect();
    this.#show(countAt((event.clientX - left) / width, this.sorted.length));
  }

  #show(k) {
    this.wanted = k;
    this.store.set("threshold", thresholdFor(this.sorted, k));
  }

  #release() {
    if (!this.isDragging) return;
    this.isDragging = false;
    this.#send();
  }

  #send() {
    clearTimeout(this.timer);
    this.timer = null;
    if (this.wanted === undefined) return;
    this.sent = Date.now();
    this.waits = true;
    clearTimeout(this.patience);
    this.patience = setTimeout(() => this.#giveUp(), PATIENCE_MS);
    this.actions.choose(this.wanted, this.sent, this.scoreId);
    this.later();
  }

  #key(event) {
    const n = this.sorted.length;
    const page = Math.max(1, Math.round(n / 20));
    const to = { Home: 1, End: n, PageUp: this.n + page, PageDown: this.n - page }[event.key] ?? (event.key in STEPS ? this.#next(STEPS[event.key]) : null);
    if (to === null || !n) return;
    event.preventDefault();
    this.#show(Math.max(1, Math.min(n, to)));
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.#send(), REST_MS);
  }

  // One further; where scores are equal, as many as that takes.
  #next(step) {
    const now = this.n;
    if (step < 0) return now > 1 ? Math.max(1, countAbove(this.sorted, this.sorted[now - 1])) : 1;
    return now < this.sorted.length ? countFrom(this.sorted, this.sorted[now]) : now;
  }

  // ---- drawing ----

  later() {
    if (!this.root.hidden) this.drawSoon();
  }

  #draw() {
    const { store, sorted, track } = this;
    if (!store.isFlagging) return;
    if (!sorted.length) this.sorted = openScores(store);
    this.colors.choose(store.colorBy === "types" && !store.isTyped ? "category" : store.colorBy);
    for (const button of this.colors.children) button.hidden = button.dataset.value === "types" && !store.types.length;
    const open = this.sorted.length;
    this.empty.hidden = open > 0;
    track.hidden = this.ticks.hidden = !open;
    if (!open) return this.words.replaceChildren();
    const { n } = this;
    const limit = store.threshold;
    const ties = n ? countFrom(this.sorted, this.sorted[n - 1]) - countAbove(this.sorted, this.sorted[n - 1]) : 0;
    this.words.textContent = words.flagged(n, open);
    const state = this.waits ? words.saving : this.isDragging || this.timer ? "" : this.basisWords;
    this.basis.textContent = [words.threshold(limit), ties > 1 ? words.ties(ties) : "", state].filter(Boolean).join(" · ");
    for (const [name, value] of [["valuemin", Math.min(1, n)], ["valuemax", open], ["valuenow", n], ["valuetext", `${this.words.textContent}, ${this.basis.textContent}`]]) track.setAttribute(`aria-${name}`, String(value));
    this.#drawProfile(n, open);
    this.handle.style.left = `${100 * placeOf(n, open)}%`;
  }

  #drawProfile(n, open) {
    const { canvas, track, store } = this;
    const [width, height] = [track.clientWidth, track.clientHeight];
    if (!width) return;
    const ratio = Math.min(window.devicePixelRatio || 1, 2);
    Object.assign(canvas, { width: width * ratio, height: height * ratio });
    const context = canvas.getContext("2d");
    context.scale(ratio, ratio);
    const ink = getComputedStyle(this.root).color;
    const bottom = height - MARKS_PX;
    for (const bar of profileOf(this.sorted, Math.max(10, Math.floor(width / BAR_PX)))) {
      const tall = Math.max(1, bar.score * (bottom - 2));
      const [left, right] = [bar.left * width, Math.max(bar.left * width + 1, bar.right * width - 1)];
      context.globalAlpha = bar.to <= n ? 1 : 0.28;
      context.fillStyle = bar.to <= n ? CATEGORY_COLORS[1] : ink;
      context.fillRect(left, bottom - tall, right - left, tall);
    }
    context.globalAlpha = 0.9;
    for (let i = 0; i < store.n; i++) {
      const label = store.labels[i];
      if (label === UNLABELED || Number.isNaN(store.scores[i]) || (label !== POSITIVE && label !== NOT_DAMAGED)) continue;
      const score = written(store.scores[i]);
      const place = placeOf((countFrom(this.sorted, score) + countAbove(this.sorted, score)) / 2, open) * width;
      context.fillStyle = label === POSITIVE ? CATEGORY_COLORS[0] : "#0072B2";
      context.fillRect(place - 1, bottom + (label === POSITIVE ? 1 : 5), 2, 4);
    }
    context.globalAlpha = 1;
    if (this.ticksFor !== `${open} ${width}`) this.#drawTicks(open, width);
  }

  #drawTicks(open, width) {
    this.ticksFor = `${open} ${width}`;
    this.ticks.replaceChildren(...TICKS.map((share) => h("span", { style: `left:${100 * Math.sqrt(share)}%` }, share === 1 ? words.all : `${100 * share} %`)));
  }
}
