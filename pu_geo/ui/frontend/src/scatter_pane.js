// The scatter: drag moves it, the wheel zooms, a line drawn by hand selects.

import { CIVIDIS_CSS, RAMP_CSS, SELECTED } from "./colors.js";
import { describe } from "./describe.js";
import { h, icon, isShown, onceAFrame, remember, remembered, segmented } from "./dom.js";
import { colorDots, dotsOf } from "./dot_colors.js";
import { HandLine } from "./hand_line.js";
import { makeFrame } from "./painter.js";
import { boxOf, pointsInside } from "./polygon.js";
import { inView, paintMarks, paintScatter } from "./scatter_painter.js";
import { TEXTS } from "./texts.js";

const words = TEXTS.scatter;

const HIT_PX = 9;
const CLICK_PX = 4;
const WHEEL = 0.0016;
const STEP = 1.6; // of the buttons

export class ScatterPane {
  /** @param actions {choose(numbers, adds), select(i), locate(i)} */
  constructor(store, pictures, actions) {
    Object.assign(this, { store, actions, pictures, chips: [], drawSoon: onceAFrame(() => this.draw()) });
    this.view = new ScatterView();
    this.xy = null; // x, -y of each building; NaN for those that the run does not know
    this.colors = null;
    this.lit = null;
    this.how = "auto";
    this.isLasso = false;
    this.drawn = { isHeat: false, n: 0 };
    this.canvas = h("canvas");
    this.marks = h("canvas.marks");
    this.line = new HandLine();
    this.stage = h("div.plane", { role: "group", "aria-label": words.title }, this.canvas, this.marks, this.line.root);
    this.title = h("b.kind");
    this.count = h("div.inview");
    this.hows = segmented(words.drawnAs, words.hows, (how) => this.#choose({ how }));
    this.lasso = h("button.flat", { type: "button", title: words.lassoHint, "aria-label": words.lasso, onclick: () => this.#choose({ isLasso: !this.isLasso }) }, icon("lasso"));
    const button = (name, title, act) => h("button", { type: "button", title, "aria-label": title, onclick: act }, icon(name));
    const zoom = h("div.zoom", {}, button("plus", words.zoomIn, () => this.zoom(STEP)), button("minus", words.zoomOut, () => this.zoom(1 / STEP)), button("fit", words.showAll, () => this.fit()));
    this.tools = h("div.tools", {}, this.title, this.lasso, this.hows);
    this.legend = new ScatterLegend((code) => this.#light(code), (code) => this.#chooseCode(code));
    this.preview = new ScatterPreview(store, pictures);
    this.notice = h("div.notice", {}, words.loading);
    this.root = h("section.pane.scatterpane", { "aria-label": words.title, hidden: true }, this.tools, h("div.stage", {}, this.stage, this.legend.root, zoom, this.count, this.notice));
    this.#listen();
    this.#choose({});
  }

  #listen() {
    const { store, stage } = this;
    for (const event of ["labels", "imageQuality", "blind"]) store.on(event, () => this.#recolor());
    store.on("scores", () => this.data?.color.kind === "scores" && this.#recolor());
    store.on("geometry", () => this.#recolor());
    for (const event of ["chosen", "outlines"]) store.on(event, () => this.later());
    for (const event of ["hovered", "selected"]) store.on(event, () => this.#later("marks"));
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
  configure(data, token) {
    const place = `pugeo:dots:${token}:${data.run_id}:${data.kind}:${data.v}`;
    if (place !== this.place) {
      this.place = place;
      this.xy = null;
      this.#cancel(); // what is being drawn was drawn around dots that stood elsewhere
      this.notice.hidden = false;
    }
    this.data = data;
    this.title.textContent = data.title || data.kind;
    this.title.title = data.kind === "PCA" ? words.pcaHint : words.umapHint;
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
    Object.assign(this.notice, { hidden: false, textContent: words.notLoaded(error.message) });
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
    this.actions.choose(dotsOf(code, this.colors.codes, this.xy), false);
  }

  // ---- drawing ----

  later() {
    this.#later("dots");
  }

  #later(what) {
    this.stale = what === "dots" || this.stale === "dots" ? "dots" : "marks";
    this.drawSoon();
  }

  draw() {
    if (!this.isReady || this.root.hidden) return;
    const { store, view } = this;
    const frame = view.frame;
    if (this.stale === "dots") {
      const dots = { xy: this.xy, colors: this.colors, isChosen: store.isChosen, hasChosen: store.chosen.length > 0, lit: this.lit };
      this.drawn = paintScatter(this.canvas, frame, dots, this.theme, this.how);
      this.#drawChips(frame);
      this.count.textContent = words.inView(this.drawn.n, this.drawn.isHeat);
      remember(this.place, { center: view.center, share: view.resolution / view.all });
    }
    const marks = [{ i: store.selected, color: SELECTED }, { i: store.hovered, color: store.hovered === store.selected ? SELECTED : "#ffffff" }].filter(({ i }) => i >= 0);
    paintMarks(this.marks, frame, this.xy, marks);
    this.stale = null;
  }

  // What is selected comes first, then what has a label or a rare value.
  #drawChips(frame) {
    const { store, view } = this;
    this.chips = [];
    if (this.how !== "auto" || this.drawn.isHeat || !this.pictures.dates.length || !showsChips(this.drawn.n, view.resolution, view.all)) return;
    const placeOf = new Map(this.colors.order.map((code, place) => [code, place]));
    const weight = (i) => (store.isChosen[i] ? 1000 : 0) + (i === store.selected ? 2000 : 0) + placeOf.get(this.colors.codes[i]);
    const numbers = [...inView(this.xy, frame.box)].sort((a, b) => weight(b) - weight(a) || a - b);
    const points = numbers.map((i) => view.toScreen(this.xy[2 * i], this.xy[2 * i + 1]));
    const colorOf = (i) => (store.isChosen[i] ? SELECTED : `rgb(${store.chosen.length ? this.theme.faint : this.colors.palette[this.colors.codes[i]]})`);
    const members = placeChips(points).map((at) => ({ i: numbers[at], at: points[at], color: colorOf(numbers[at]) }));
    if (paintChips(this.canvas, frame, members, (i) => this.pictures.thumbnail(i, SIDE_PX, () => this.later()))) this.chips = members;
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
    const pixel = this.#at(event);
    const chip = this.chips.find(({ at }) => Math.max(Math.abs(at[0] - pixel[0]), Math.abs(at[1] - pixel[1])) <= SIDE_PX / 2);
    if (chip) return chip.i;
    const [x, y] = view.toPlane(...pixel);
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
    if (this.drag.isLine) this.line.start(at);
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
    const ring = Float64Array.from(points.flatMap(([x, y]) => this.view.toPlane(x, y)));
    this.actions.choose(pointsInside(ring, this.xy), adds);
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
    else this.preview.show(i, this.clientPixelOf(i), this.root.parentElement);
  }

  #leave() {
    if (this.drag) return;
    this.preview.hide();
    this.store.set("hovered", -1);
  }

  /** Whether the dot of building i is in view. */
  isInView(i) {
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

// Which part of the plane it shows.
const MARGIN = 0.06; // of the room, around all dots
const FARTHEST = 2; // times the resolution that shows all
const NEAREST = 4000;

export class ScatterView {
  constructor() {
    this.center = [0, 0];
    this.resolution = 1; // units of the plane a screen pixel
    this.all = 1;
    this.size = [0, 0];
  }

  get frame() {
    return makeFrame(this.center, this.resolution, ...this.size, Math.min(window.devicePixelRatio || 1, 2));
  }

  get isFitted() {
    return this.resolution === this.all;
  }

  /** @param box [minX, minY, maxX, maxY] to show */
  fit([minX, minY, maxX, maxY]) {
    const room = this.size.map((side) => Math.max(1, side) * (1 - 2 * MARGIN));
    this.center = [(minX + maxX) / 2, (minY + maxY) / 2];
    this.resolution = this.all = Math.max((maxX - minX) / room[0], (maxY - minY) / room[1]) || 1;
  }

  moveBy(dx, dy) {
    this.center = [this.center[0] - dx * this.resolution, this.center[1] - dy * this.resolution];
  }

  /** Zoom in by a factor; the point of the plane at pixel (x, y) stays there. */
  zoomBy(factor, x = this.size[0] / 2, y = this.size[1] / 2) {
    const [px, py] = this.toPlane(x, y);
    this.resolution = Math.min(this.all * FARTHEST, Math.max(this.all / NEAREST, this.resolution / factor));
    this.center = [px - (x - this.size[0] / 2) * this.resolution, py - (y - this.size[1] / 2) * this.resolution];
  }

  toPlane(x, y) {
    return [this.center[0] + (x - this.size[0] / 2) * this.resolution, this.center[1] + (y - this.size[1] / 2) * this.resolution];
  }

  toScreen(x, y) {
    return [(x - this.center[0]) / this.resolution + this.size[0] / 2, (y - this.center[1]) / this.resolution + this.size[1] / 2];
  }
}

// Chips in place of dots, where it is zoomed in so far that there is room for them.
const SIDE_PX = 44;
const MOST = 150; // chips at once
const ZOOMED_IN = 0.75; // of the resolution that shows all dots
const LEAST_GAP = 1.08; // of a side: chips nearer than this stay dots
const CHIP_RIM_PX = 3;

/** Whether so many dots in view are drawn as chips. */
export function showsChips(n, resolution, all) {
  return n > 0 && n <= MOST && resolution <= ZOOMED_IN * all;
}

/**
 * @param points [x, y] in pixels, those first that count most
 * @returns places in `points` of those that get a chip: none covers another
 */
export function placeChips(points, side = SIDE_PX) {
  const least = side * LEAST_GAP;
  const taken = [];
  points.forEach(([x, y], at) => {
    if (taken.every((other) => Math.max(Math.abs(points[other][0] - x), Math.abs(points[other][1] - y)) >= least)) taken.push(at);
  });
  return taken;
}

/**
 * @param members [{i, at: [x, y], color: css}] in pixels of the canvas' frame
 * @param pictureOf number => what is drawn of a building, null where it is not here
 * @returns whether any chip was drawn
 */
export function paintChips(canvas, { pixelRatio }, members, pictureOf) {
  const context = canvas.getContext("2d");
  context.setTransform(pixelRatio, 0, 0, pixelRatio, 0, 0);
  let isDrawn = false;
  for (const { i, at: [x, y], color } of members) {
    const picture = pictureOf(i);
    if (!picture) continue;
    const [left, top] = [x - SIDE_PX / 2, y - SIDE_PX / 2];
    context.fillStyle = color;
    context.fillRect(left - CHIP_RIM_PX, top - CHIP_RIM_PX, SIDE_PX + 2 * CHIP_RIM_PX, SIDE_PX + 2 * CHIP_RIM_PX);
    context.drawImage(picture, left, top, SIDE_PX, SIDE_PX);
    isDrawn = true;
  }
  context.setTransform(1, 0, 0, 1, 0, 0);
  return isDrawn;
}

// What the colors of the scatter mean. Pointing at a category lights its dots up; a click selects them.
class ScatterLegend {
  /** @param lit (code or null) @param chosen (code) */
  constructor(lit, chosen) {
    Object.assign(this, { lit, chosen });
    this.root = h("div.dotlegend", { hidden: true });
  }

  /** @param colors see `colorDots` */
  show(color, { codes, entries, isRamp }) {
    this.root.hidden = false;
    const title = h("b", {}, color.title);
    if (isRamp) {
      const css = color.kind === "scores" ? RAMP_CSS : CIVIDIS_CSS;
      const [low, high] = color.ends;
      this.root.replaceChildren(h("div.rampbox", {}, title, h("div.ramp", { style: `background:${css}` }), h("div.rampends", {}, h("span", {}, low), h("span", {}, high))));
      return;
    }
    const counts = new Map();
    for (const code of codes) counts.set(code, (counts.get(code) ?? 0) + 1);
    const entry = ({ code, text, color: dot }) => h("button.entry", {
      type: "button", title: words.chooseHint(text), onclick: () => this.chosen(code),
      onpointerenter: () => this.lit(code), onpointerleave: () => this.lit(null), onfocus: () => this.lit(code), onblur: () => this.lit(null),
    }, h("i.dot", { style: `background:${dot}` }), h("span.text", {}, text), h("span.num.soft", {}, TEXTS.number(counts.get(code))));
    const held = this.root.querySelector(":hover, :focus");
    if (held && this.shown === color.by && this.#refresh(entries, counts)) return; // a button under the pointer stays
    this.shown = color.by;
    this.root.replaceChildren(title, ...entries.filter(({ code }) => counts.get(code)).map(entry));
  }

  #refresh(entries, counts) {
    const there = entries.filter(({ code }) => counts.get(code));
    const rows = [...this.root.querySelectorAll(".entry")];
    if (rows.length !== there.length || rows.some((row, at) => row.querySelector(".text").textContent !== there[at].text)) return false;
    rows.forEach((row, at) => (row.querySelector(".num").textContent = TEXTS.number(counts.get(there[at].code))));
    return true;
  }
}

// The chip of the dot under the pointer.
const WIDTH_PX = 112;
const AWAY_PX = 14;

class ScatterPreview {
  constructor(store, pictures) {
    Object.assign(this, { store, pictures, i: -1 });
    this.figures = h("div.pair");
    this.facts = h("div.facts");
    this.root = h("div.dotpreview", { hidden: true }, this.figures, this.facts);
    for (const event of ["details", "scores", "blind", "imageQuality"]) store.on(event, () => this.#fill());
  }

  /** @param pane element that it lies in, over all parts of the view */
  show(i, [x, y], pane) {
    if (i === this.i) return;
    this.i = i;
    const { pictures } = this;
    const figure = (part) => h("figure", {}, pictures.make(i, WIDTH_PX, part), h("figcaption", {}, TEXTS.part(part)));
    this.figures.replaceChildren(...(pictures.has(i) ? pictures.parts.map(figure) : []));
    this.root.hidden = false;
    this.#fill();
    const box = pane.getBoundingClientRect();
    const [left, top] = [x - box.left, y - box.top];
    const [wide, high] = [this.root.offsetWidth, this.root.offsetHeight];
    this.root.style.left = `${Math.max(2, left + AWAY_PX + wide < box.width ? left + AWAY_PX : left - AWAY_PX - wide)}px`;
    this.root.style.top = `${Math.max(2, Math.min(box.height - high - 2, top - high / 2))}px`;
  }

  hide() {
    this.i = -1;
    this.root.hidden = true;
  }

  #fill() {
    if (!this.root.hidden && this.i >= 0) this.facts.replaceChildren(...describe(this.store, this.i));
  }
}

// Colors of the page around us, as numbers for what is drawn pixel by pixel.
/** @returns {background, faint: what steps back, plain: what has no color of its own, strong: the same where it stands out} */
function themeOf(element) {
  const style = getComputedStyle(element);
  const [ink, background] = [rgbOf(style.color, [29, 35, 48]), rgbOf(style.backgroundColor, [255, 255, 255])];
  const mixed = (share) => background.map((value, band) => Math.round(value + share * (ink[band] - value)));
  return { background, faint: mixed(0.15), plain: mixed(0.42), strong: mixed(0.72) };
}

function rgbOf(color, fallback) {
  const found = /^rgba?\((\d+), (\d+), (\d+)/.exec(color);
  return found && color !== "rgba(0, 0, 0, 0)" ? found.slice(1).map(Number) : fallback;
}
