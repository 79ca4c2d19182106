// The scatter: drag moves it, the wheel zooms, a line drawn by hand selects.

import { boxOf, pointsInside } from "./polygon.js";
import { SELECTED } from "./colors.js";
import { colorDots } from "./dot_colors.js";
import { h, icon, remember, remembered, segmented } from "./dom.js";
import { HandLine } from "./hand_line.js";
import { ScatterLegend } from "./scatter_legend.js";
import { paintMarks, paintScatter } from "./scatter_painter.js";
import { ScatterPreview } from "./scatter_preview.js";
import { ScatterView } from "./scatter_view.js";
import { isShown } from "./target.js";
import { themeOf } from "./theme.js";

const HIT_PX = 9;
const CLICK_PX = 4;
const WHEEL = 0.0016;
const STEP = 1.6; // of the buttons
const HOWS = [["auto", "Auto", "Dots, and a heat map where they would cover each other"], ["dots", "Dots", "Every building as a dot"], ["heat", "Heat", "How many buildings lie where"]];

export class ScatterPane {
  /** @param actions {choose(numbers, adds), select(i), locate(i)} */
  constructor(store, pictures, actions) {
    Object.assign(this, { store, actions });
    this.view = new ScatterView();
    this.xy = null; // x, -y of each building; NaN for those that the run does not know
    this.colors = null;
    this.lit = null;
    this.how = "auto";
    this.isLasso = false;
    this.drawn = { isHeat: false, n: 0 };
    this.drawTimes = [];
    this.canvas = h("canvas");
    this.marks = h("canvas.marks");
    this.line = new HandLine();
    this.stage = h("div.plane", { "aria-label": "Scatter" }, this.canvas, this.marks, this.line.root);
    this.title = h("b.kind");
    this.count = h("div.inview");
    this.hows = segmented("Drawn as", HOWS, (how) => this.#choose({ how }));
    this.lasso = h("button.flat", { type: "button", title: "Draw a line around dots (Shift + drag does it too)", "aria-label": "Lasso", onclick: () => this.#choose({ isLasso: !this.isLasso }) }, icon("lasso"));
    const button = (name, title, act) => h("button", { type: "button", title, "aria-label": title, onclick: act }, icon(name));
    const zoom = h("div.zoom", {}, button("plus", "Zoom in", () => this.zoom(STEP)), button("minus", "Zoom out", () => this.zoom(1 / STEP)), button("fit", "Show all dots", () => this.fit()));
    this.tools = h("div.tools", {}, this.title, this.lasso, this.hows);
    this.legend = new ScatterLegend((code) => this.#light(code), (code) => this.#chooseCode(code));
    this.preview = new ScatterPreview(store, pictures);
    this.notice = h("div.notice", {}, "Loading dots …");
    this.root = h("section.pane.scatterpane", { "aria-label": "Scatter", hidden: true }, this.tools, h("div.stage", {}, this.stage, this.legend.root, zoom, this.count, this.notice));
    this.#listen();
    this.#choose({});
  }

  #listen() {
    const { store, stage } = this;
    for (const event of ["labels", "seen", "blind"]) store.on(event, () => this.#recolor());
    store.on("scores", () => this.data?.color.kind === "scores" && this.#recolor());
    store.on("geometry", () => this.#recolor());
    store.on("chosen", () => this.later());
    for (const event of ["hovered", "selected", "target"]) store.on(event, () => this.#later("marks"));
    stage.addEventListener("pointerenter", () => (this.over = true));
    stage.addEventListener("pointerleave", () => (this.over = false));
    stage.addEventListener("pointerdown", (event) => this.#down(event));
    stage.addEventListener("pointermove", (event) => this.#move(event));
    stage.addEventListener("pointerup", (event) => this.#up(event));
    stage.addEventListener("pointercancel", () => this.#cancel());
    stage.addEventListener("pointerleave", () => this.#leave());
    stage.addEventListener("dblclick", (event) => this.actions.locate(this.under(event)));
    stage.addEventListener("contextmenu", (event) => event.preventDefault());
    stage.addEventListener("wheel", (event) => this.#wheel(event), { passive: false });
    new ResizeObserver(() => this.#resized()).observe(stage);
  }

  // ---- what is shown ----

  /** @param data {run_id, kind, color, ...}; see `ui/scatter.py` */
  configure(data, token, gsd) {
    const place = `pugeo:dots:${token}:${data.run_id}:${data.kind}:${data.v}`;
    if (place !== this.place) {
      this.place = place;
      this.xy = null;
      this.notice.hidden = false;
    }
    Object.assign(this, { data, gsd });
    this.title.textContent = data.kind;
    this.title.title = data.kind === "PCA" ? "The two widest directions of the embeddings" : "Neighbors in the embeddings lie side by side; distances between islands mean little";
  }

  /** @param xy float32 [2N] as the server sends it */
  setPositions(xy) {
    this.xy = xy.slice();
    for (let k = 1; k < xy.length; k += 2) this.xy[k] = -xy[k]; // the plane counts upwards, screens down
    this.notice.hidden = true;
    this.#start();
  }

  setValues(values) {
    this.values = values;
    this.#recolor();
  }

  sayNotLoaded(error) {
    Object.assign(this.notice, { hidden: false, textContent: `The server did not send the dots (${error.message}). Reload the page.` });
  }

  get isReady() {
    return this.xy !== null && this.colors !== null && this.view.size[0] > 0;
  }

  #start() {
    this.view.size = [this.stage.clientWidth, this.stage.clientHeight];
    this.startedAt = this.view.size[0] ? this.place : null;
    if (!this.startedAt) return; // once there is room
    this.view.fit(this.box);
    const saved = remembered(this.place, null);
    if (saved) Object.assign(this.view, { center: saved.center, resolution: saved.share * this.view.all });
    this.#recolor();
  }

  get box() {
    const [minX, minY, maxX, maxY] = boxOf(this.xy);
    return minX <= maxX ? [minX, minY, maxX, maxY] : [-1, -1, 1, 1];
  }

  #recolor() {
    const { store } = this;
    if (!store.ready || !this.data || !this.xy) return;
    this.theme = themeOf(this.root);
    this.colors = colorDots(store, this.data.color, this.values, this.theme.plain);
    this.legend.show(this.data.color, this.colors);
    this.later();
  }

  #choose(change) {
    Object.assign(this, change);
    this.hows.choose(this.how);
    this.lasso.classList.toggle("on", this.isLasso);
    this.lasso.setAttribute("aria-pressed", String(this.isLasso));
    this.stage.classList.toggle("drawing", this.isLasso);
    this.later();
  }

  #light(code) {
    if (code === this.lit) return;
    this.lit = code;
    this.later();
  }

  #chooseCode(code) {
    const numbers = [];
    for (let i = 0; i < this.store.n; i++) if (this.colors.codes[i] === code && Number.isFinite(this.xy[2 * i])) numbers.push(i);
    this.actions.choose(numbers, false);
  }

  // ---- drawing ----

  later() {
    this.#later("dots");
  }

  #later(what) {
    this.stale = what === "dots" || this.stale === "dots" ? "dots" : "marks";
    if (this.scheduled) return;
    this.scheduled = true;
    requestAnimationFrame(() => {
      this.scheduled = false;
      this.draw();
    });
  }

  draw() {
    if (!this.isReady || this.root.hidden) return;
    const { store, view } = this;
    const frame = view.frame;
    if (this.stale === "dots") {
      const began = performance.now();
      const dots = { xy: this.xy, colors: this.colors, isChosen: store.isChosen, hasChosen: store.chosen.length > 0, lit: this.lit };
      this.drawn = paintScatter(this.canvas, frame, dots, this.theme, this.how);
      this.drawTimes = [...this.drawTimes.slice(-50), performance.now() - began];
      this.count.textContent = `${this.drawn.n.toLocaleString("en")} in view${this.drawn.isHeat ? " · darker: more" : ""}`;
      remember(this.place, { center: view.center, share: view.resolution / view.all });
    }
    const marks = [{ i: store.selected, color: SELECTED }, { i: store.hovered, color: store.hovered === store.marked ? SELECTED : "#ffffff" }].filter(({ i }) => i >= 0);
    paintMarks(this.marks, frame, this.xy, marks);
    this.stale = null;
  }

  #resized() {
    if (!this.stage.clientWidth || !this.xy) return;
    const before = this.view.size;
    this.view.size = [this.stage.clientWidth, this.stage.clientHeight];
    if (this.startedAt !== this.place) this.#start();
    else if (this.view.isFitted && String(before) !== String(this.view.size)) this.view.fit(this.box);
    this.later();
  }

  zoom(factor, x, y) {
    this.view.zoomBy(factor, x, y);
    this.later();
  }

  fit() {
    this.view.fit(this.box);
    this.later();
  }

  // ---- pointer ----

  #at(event) {
    const { left, top } = this.stage.getBoundingClientRect();
    return [event.clientX - left, event.clientY - top];
  }

  /** The building whose dot is nearest to the pointer, -1 if none is near. */
  under(event) {
    if (!this.isReady) return -1;
    const { xy, view } = this;
    const [x, y] = view.toPlane(...this.#at(event));
    let [best, bestAway] = [-1, (HIT_PX * view.resolution) ** 2];
    for (let i = 0, k = 0; k < xy.length; i++, k += 2) {
      const away = (xy[k] - x) ** 2 + (xy[k + 1] - y) ** 2;
      if (away < bestAway) [best, bestAway] = [i, away];
    }
    return best;
  }

  #down(event) {
    if (event.button || !this.isReady) return;
    this.stage.setPointerCapture(event.pointerId);
    this.preview.hide();
    const at = this.#at(event);
    this.drag = { from: at, at, moved: false, isLine: event.shiftKey || this.isLasso };
    if (this.drag.isLine) this.line.begin(at);
    else this.stage.classList.add("moving");
  }

  #move(event) {
    if (!this.drag) return this.#hover(event);
    const [x, y] = this.#at(event);
    this.drag.moved ||= Math.hypot(x - this.drag.from[0], y - this.drag.from[1]) >= CLICK_PX;
    if (this.drag.isLine) for (const each of event.getCoalescedEvents?.() ?? [event]) this.line.add(this.#at(each));
    else if (this.drag.moved) {
      this.view.moveBy(x - this.drag.at[0], y - this.drag.at[1]);
      this.drag.at = [x, y];
      this.later();
    }
  }

  #up(event) {
    const { drag } = this;
    this.#cancel();
    if (!drag) return;
    if (!drag.moved) this.actions.select(this.under(event));
    else if (drag.isLine) this.#enclose(this.line.points, event.ctrlKey || event.metaKey);
  }

  #enclose(points, adds) {
    if (points.length < 3) return;
    const began = performance.now();
    const ring = Float64Array.from(points.flatMap(([x, y]) => this.view.toPlane(x, y)));
    const numbers = pointsInside(ring, this.xy);
    this.lineTimes = { ring, script: performance.now() - began };
    this.actions.choose(numbers, adds);
  }

  #cancel() {
    this.drag = null;
    this.line.end();
    this.stage.classList.remove("moving");
  }

  #wheel(event) {
    event.preventDefault();
    if (!this.isReady) return;
    this.preview.hide();
    const pixels = event.deltaMode === 1 ? 30 * event.deltaY : event.deltaY;
    this.zoom(Math.exp(-WHEEL * Math.max(-600, Math.min(600, pixels))), ...this.#at(event));
  }

  #hover(event) {
    const i = this.under(event);
    this.store.set("hovered", i);
    this.stage.classList.toggle("over", i >= 0 && !this.isLasso);
    if (i < 0) this.preview.hide();
    else this.preview.show(i, this.clientPixelOf(i), this.root.parentElement, this.gsd);
  }

  #leave() {
    if (this.drag) return;
    this.preview.hide();
    this.store.set("hovered", -1);
  }

  /** Whether the dot of building i is in view. */
  isSeen(i) {
    if (!this.isReady || !Number.isFinite(this.xy[2 * i])) return false;
    const [left, top] = this.clientPixelOf(i);
    return isShown({ left, top, width: 0, height: 0 }, this.stage);
  }

  clientPixelOf(i) {
    const { left, top } = this.stage.getBoundingClientRect();
    const [x, y] = this.view.toScreen(this.xy[2 * i], this.xy[2 * i + 1]);
    return [left + x, top + y];
  }
}
