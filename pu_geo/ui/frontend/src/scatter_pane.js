// The scatter: drag moves it, the wheel zooms, a line drawn by hand selects. What was drawn moves as a sheet somewhat larger than
// the room; where drawing takes long, it is drawn anew once the hand rests.

import { CIVIDIS_CSS, POSITIVE, SELECTED } from "./colors.js";
import { h, icon, isShown, onceAFrame, remember, remembered } from "./dom.js";
import { colorDots, dotsOf } from "./dot_colors.js";
import { HandLine } from "./hand_line.js";
import { makeFrame } from "./painter.js";
import { boxOf, pointsInside } from "./polygon.js";
import { inView, paintDensity, paintMarks, paintScatter, sizeFor } from "./scatter_painter.js";
import { TEXTS } from "./texts.js";

const words = TEXTS.scatter;

const HIT_PX = 9;
const CLICK_PX = 4;
const PREVIEW = { largest: 112, delay: 0 };
const WHEEL = 0.0016;
const STEP = 1.6; // of the buttons
const [FAST_MS, REST_MS] = [9, 140]; // drawing that takes no longer goes into every frame; else the hand has to rest
const [MANY, BEYOND] = [20_000, 0.25]; // from so many dots on the sheet reaches beyond the room, by this share of it to each side; in a hurry so many are drawn
const WAYS = ["marks", "move", "dots"]; // what has to be drawn anew, from little to all

export class ScatterPane {
  /** @param actions {choose(numbers, adds), select(i), locate(i)} */
  constructor(store, pictures, preview, actions) {
    Object.assign(this, { store, actions, pictures, preview, chips: [], drawSoon: onceAFrame(() => this.draw()) });
    this.view = new ScatterView();
    this.box = [-1, -1, 1, 1];
    this.xy = null; // x, -y of each building; NaN for those that the picture does not have
    this.colors = null;
    this.lit = null;
    this.isLasso = false;
    this.drawn = { n: 0, took: 0, frame: null };
    [this.shade, this.canvas, this.marks] = [h("canvas.shade"), h("canvas"), h("canvas.marks")];
    this.sheet = h("div.sheet", {}, this.shade, this.canvas, this.marks);
    this.line = new HandLine();
    this.stage = h("div.plane", { role: "group", "aria-label": words.title }, this.sheet, this.line.root);
    this.count = h("div.inview");
    const button = (name, title, act, label = title) => h("button", { type: "button", title, "aria-label": label, onclick: act }, icon(name));
    this.lasso = button("lasso", words.lassoHint, () => this.#chooseLasso(!this.isLasso), words.lasso);
    this.zooms = h("div.zoom", {}, button("plus", words.zoomIn, () => this.zoom(STEP)), button("minus", words.zoomOut, () => this.zoom(1 / STEP)), button("fit", words.showAll, () => this.fit()), this.lasso);
    this.legend = new ScatterLegend((lit) => lit !== this.lit && Object.assign(this, { lit }).later(), (code) => actions.choose(dotsOf(code, this.colors.codes, this.xy), false));
    this.regions = new Regions(pictures, ({ x, y }) => {
      Object.assign(this.view, { center: [x, -y], resolution: this.view.all / CLOSER });
      this.later();
    });
    this.notice = h("div.notice", { role: "status" }, words.loading);
    this.root = h("section.pane.scatterpane", { "aria-label": words.title, hidden: true }, h("div.stage", {}, this.stage, this.regions.root, this.legend.root, this.zooms, this.count, this.notice));
    this.#listen();
    this.#chooseLasso(false);
  }

  #listen() {
    const { store, stage } = this;
    for (const event of ["geometry", "labels", "imageQuality", "blind"]) store.on(event, () => this.#recolor());
    for (const event of ["chosen", "outlines"]) store.on(event, () => this.later());
    for (const event of ["hovered", "selected"]) store.on(event, () => this.later("marks"));
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

  /** @param data {source, v, color, regions, outline, ...}; see `ui/components/scatter.py` */
  configure(data, token) {
    const place = `pugeo:dots:${token}:${data.source}:${data.v}`;
    if (place !== this.place) {
      this.place = place;
      this.xy = null;
      this.#cancel(); // what is being drawn was drawn around dots that stood elsewhere
    }
    this.data = data;
    this.outline = (data.outline ?? []).map((ring) => ring.map(([x, y]) => [x, -y]));
    this.regions.show(data.regions ?? []);
    this.#note(data.v ? words.loading : data.progress || (data.is_waiting ? words.drawing : words.noPicture));
    this.stage.setAttribute("aria-label", data.title || words.title);
    this.later();
  }

  // Over the picture until there is one.
  #note(text) {
    this.notice.hidden = this.xy !== null;
    if (this.notice.textContent !== text) this.notice.textContent = text;
    for (const part of [this.sheet, this.legend.root, this.regions.root, this.count]) part.classList.toggle("gone", this.xy === null);
  }

  /** @param xy float32 [2N] as the server sends it */
  setPositions(xy) {
    this.xy = xy.slice();
    for (let k = 1; k < xy.length; k += 2) this.xy[k] = -xy[k]; // the plane counts upwards, screens down
    const box = boxOf(this.xy);
    if (box[0] <= box[2]) this.box = box;
    this.shadedIn = null;
    this.#note("");
    this.#start();
  }

  setValues(values) {
    this.values = values;
    this.#recolor();
  }

  sayNotLoaded(error) {
    this.#note(words.notLoaded(error.message));
  }

  get isReady() {
    return this.xy !== null && this.colors !== null && this.view.size[0] > 0;
  }

  #measure() {
    const wasNarrow = this.view.size[0] < LEAST_PX;
    this.view.size = [this.stage.clientWidth, this.stage.clientHeight];
    if (wasNarrow !== this.view.size[0] < LEAST_PX) this.legend.fold(!wasNarrow);
  }

  #start() {
    this.#measure();
    this.startedAt = this.view.size[0] ? this.place : null;
    if (!this.startedAt) return; // once there is room
    this.fit();
    const saved = remembered(this.place, null);
    if (saved) Object.assign(this.view, { center: saved.center, resolution: saved.share * this.view.all });
    this.#recolor();
  }

  #recolor() {
    const { store } = this;
    if (!store.ready || !this.data || !this.xy) return;
    this.theme = themeOf(this.root);
    const { isDark, faint, plain } = this.theme;
    this.regions.show(this.data.regions ?? []); // by now there are pictures of buildings
    this.colors = colorDots(store, this.data.color, this.values, this.data.color.steps ? faint : plain, isDark ? "dark" : "light");
    this.legend.show(this.data.color, this.colors, dotsOf(POSITIVE, store.labels, this.xy).length);
    this.later();
  }

  #chooseLasso(isLasso) {
    this.isLasso = isLasso;
    this.lasso.classList.toggle("on", isLasso);
    this.lasso.setAttribute("aria-pressed", String(isLasso));
    this.stage.classList.toggle("drawing", isLasso);
  }

  // ---- drawing ----

  later(what = "dots") {
    this.stale = WAYS[Math.max(WAYS.indexOf(what), WAYS.indexOf(this.stale))];
    this.drawSoon();
  }

  draw() {
    if (!this.stale || !this.isReady || this.root.hidden) return;
    const { store, stale } = this;
    const { took, frame } = this.drawn;
    this.stale = null;
    clearTimeout(this.resting);
    if (stale === "dots" || !frame || (stale === "move" && (took < FAST_MS || !this.#isCovered(frame)))) this.#paint(stale === "move");
    if (stale === "move" && (frame === this.drawn.frame || this.drawn.every > 1)) this.resting = setTimeout(() => this.later(), REST_MS);
    this.#place();
    if (stale === "move" && frame === this.drawn.frame) return;
    const marks = [{ i: store.selected, color: SELECTED }, { i: store.hovered, color: store.hovered === store.selected ? SELECTED : "#ffffff" }].filter(({ i }) => i >= 0);
    paintMarks(this.marks, this.drawn.frame, this.xy, marks, this.outline, this.theme);
  }

  // Whether the sheet still reaches to all edges of the room.
  #isCovered({ box: [minX, minY, maxX, maxY] }) {
    const [left, top, right, bottom] = this.view.frame().box;
    return left >= minX && top >= minY && right <= maxX && bottom <= maxY;
  }

  // Where the sheet lies: it was drawn for the frame that `drawn` has.
  #place() {
    const { view, drawn: { frame } } = this;
    const [x, y] = view.toScreen(...frame.center);
    this.sheet.style.transform = `translate(${x - frame.width / 2}px,${y - frame.height / 2}px) scale(${frame.resolution / view.resolution})`;
    this.regions.place(view);
  }

  // In a hurry, so while the plane moves, not all of very many dots.
  #paint(isHurried) {
    const start = performance.now();
    const { store, view } = this;
    const frame = view.frame(this.xy.length / 2 > MANY ? BEYOND : 0);
    const every = isHurried ? Math.ceil(this.xy.length / 2 / MANY) : 1;
    const n = every > 1 ? this.drawn.n : inView(this.xy, view.frame().box).length;
    const dots = { xy: this.xy, colors: this.colors, isChosen: store.isChosen, hasChosen: store.chosen.length > 0, lit: this.lit, isRinged: (i) => store.labels[i] === POSITIVE };
    Object.assign(this.sheet.style, { width: `${frame.width}px`, height: `${frame.height}px` });
    this.#shadeBelow(frame);
    paintScatter(this.canvas, frame, dots, this.theme, sizeFor(n / every, view.size), every);
    const took = performance.now() - start;
    this.drawn = { n, frame, every, took: every > 1 ? this.drawn.took : took };
    this.#drawChips(frame);
    this.regions.arrange(view, this.zooms.offsetHeight, this.legend.root.offsetHeight);
    this.count.textContent = words.inView(n);
    remember(this.place, { center: view.center, share: view.resolution / view.all });
  }

  #shadeBelow(frame) {
    if (this.shadedIn !== String(this.theme.ink)) this.shaded = paintDensity(this.shade, this.xy, this.box, this.theme.isDark ? [150, 175, 215] : [70, 105, 160]);
    this.shadedIn = String(this.theme.ink);
    const [left, top, right, bottom] = this.shaded;
    const at = [left - frame.box[0], top - frame.box[1], right - left, bottom - top].map((each) => `${each / frame.resolution}px`);
    ["left", "top", "width", "height"].forEach((name, k) => (this.shade.style[name] = at[k]));
  }

  // What is selected comes first, then what has a label or a rare value.
  #drawChips(frame) {
    const { store, view } = this;
    this.chips = [];
    if (!this.pictures.dates.length || !showsChips(this.drawn.n, view.resolution, view.all)) return;
    const placeOf = new Map(this.colors.order.map((code, place) => [code, place]));
    const weight = (i) => (store.isChosen[i] ? 1000 : 0) + (i === store.selected ? 2000 : 0) + placeOf.get(this.colors.codes[i]);
    const numbers = [...inView(this.xy, view.frame().box)].sort((a, b) => weight(b) - weight(a) || a - b);
    const points = numbers.map((i) => view.toScreen(this.xy[2 * i], this.xy[2 * i + 1]));
    const colorOf = (i) => (store.isChosen[i] ? SELECTED : `rgb(${store.chosen.length ? this.theme.faint : this.colors.palette[this.colors.codes[i]]})`);
    const pictured = placeChips(points).map((at) => ({ i: numbers[at], at: points[at], picture: this.pictures.thumbnail(numbers[at], SIDE_PX, () => this.later()) }));
    this.chips = pictured.filter(({ picture }) => picture); // the others stay dots until theirs is here
    const context = this.canvas.getContext("2d");
    for (const { i, at, picture } of this.chips) {
      const [left, top] = at.map((pixel, axis) => pixel - SIDE_PX / 2 + ([frame.width, frame.height][axis] - view.size[axis]) / 2);
      context.fillStyle = colorOf(i);
      context.fillRect(left - CHIP_RIM_PX, top - CHIP_RIM_PX, SIDE_PX + 2 * CHIP_RIM_PX, SIDE_PX + 2 * CHIP_RIM_PX);
      context.drawImage(picture, left, top, SIDE_PX, SIDE_PX);
    }
  }

  #resized() {
    if (!this.stage.clientWidth || !this.xy) return;
    const before = this.view.size;
    this.#measure();
    if (this.startedAt !== this.place) this.#start();
    else if (this.view.isFitted && String(before) !== String(this.view.size)) this.fit();
    this.later();
  }

  zoom(factor, x, y) {
    this.view.zoomBy(factor, x, y);
    this.later("move");
  }

  fit() {
    this.view.fit(this.box, this.regions.widthIn(this.view.size));
    this.later();
  }

  /** Move the plane by pixels. */
  pan(dx, dy) {
    this.view.moveBy(dx, dy);
    this.later("move");
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
      this.pan(x - this.drag.at[0], y - this.drag.at[1]);
      this.drag.at = [x, y];
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
    else {
      const [x, y] = this.clientPixelOf(i);
      this.preview.soon(i, [x - HIT_PX, y, x + HIT_PX, y], PREVIEW);
    }
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

  /** @param beyond how far it reaches beyond the room, as a share of it to each side */
  frame(beyond = 0) {
    const size = this.size.map((side) => side + 2 * Math.round(side * beyond));
    return makeFrame(this.center, this.resolution, ...size, Math.min(window.devicePixelRatio || 1, 2));
  }

  get isFitted() {
    return this.resolution === this.all;
  }

  /** @param box [minX, minY, maxX, maxY] to show @param aside pixels that are left free at the left and at the right */
  fit([minX, minY, maxX, maxY], aside = 0) {
    const room = this.size.map((side, axis) => Math.max(1, side - (axis ? 0 : 2 * aside)) * (1 - 2 * MARGIN));
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

// Pictures that stand for the regions of the plane, at its left and right edge, with a line to where each lies.
const [TILE_PX, PICTURE_PX, TILE_GAP] = [104, 48, 8];
const ASIDE_PX = 100; // of that which all dots leave free: they seldom reach into the corners
const LEAST_PX = 440; // in a narrower room they would hide the dots
const CLOSER = 2.5; // than where all is shown, after a click on one
const SVG = "http://www.w3.org/2000/svg";

class Regions {
  /** @param go (region) */
  constructor(pictures, go) {
    Object.assign(this, { pictures, go, tiles: [] });
    this.lines = document.createElementNS(SVG, "svg");
    this.root = h("div.regions", {}, this.lines);
  }

  /** @param regions [{place, n, clicks, words, x, y}] */
  show(regions) {
    const given = JSON.stringify([regions, this.pictures.shows, this.pictures.has(0)]);
    if (given === this.given) return;
    this.given = given;
    this.tiles = regions.toSorted((a, b) => b.clicks - a.clicks || b.n - a.n).map((region) => {
      const pictures = this.pictures.has(region.place) ? this.pictures.dates.map((date) => this.pictures.make(region.place, PICTURE_PX, date)) : [];
      const tile = h("button.region", { type: "button", title: words.regionHint, "aria-label": `${region.words}. ${words.regionHint}`, onclick: () => this.go(region) }, h("span.pair", {}, ...pictures), h("span", {}, region.words));
      return { tile, region, line: document.createElementNS(SVG, "line") };
    });
    this.lines.replaceChildren(...this.tiles.map(({ line }) => line));
    this.root.replaceChildren(this.lines, ...this.tiles.map(({ tile }) => tile));
  }

  /** Pixels at either side that they take of a room. */
  widthIn([width]) {
    return this.tiles.length && width >= LEAST_PX ? ASIDE_PX : 0;
  }

  /** Put them where the room has space for them: those with clicks first, each beside what it stands for. */
  arrange(view, above, below) {
    this.root.hidden = !this.widthIn(view.size) || view.resolution < ZOOMED_IN * view.all;
    if (this.root.hidden) return;
    const [width, height] = view.size;
    const high = TILE_GAP + Math.max(...this.tiles.map(({ tile }) => tile.offsetHeight));
    const sides = [[TILE_GAP, height - below - 2 * TILE_GAP], [above + 2 * TILE_GAP, height - 3 * TILE_GAP]]; // top and end of the left one and the right one
    const [left, right] = sides.map(([top, end]) => Math.max(0, Math.floor((end - top + TILE_GAP) / high)));
    const shown = this.tiles.slice(0, left + right).sort((a, b) => a.region.x - b.region.x);
    const nLeft = Math.min(left, Math.max(shown.length - right, Math.ceil(shown.length / 2)));
    for (const each of this.tiles) each.tile.hidden = !shown.includes(each);
    [shown.slice(0, nLeft), shown.slice(nLeft)].forEach((members, side) => {
      members.sort((a, b) => b.region.y - a.region.y);
      members.forEach((each, k) => {
        const [first, last] = [sides[side][0] + k * high, sides[side][1] - (members.length - k) * high + TILE_GAP];
        const wish = view.toScreen(0, -each.region.y)[1] - high / 2;
        each.top = Math.min(last, Math.max(first, (members[k - 1]?.top ?? -high) + high, wish));
        each.isRight = side === 1;
        Object.assign(each.tile.style, { top: `${each.top}px`, left: side ? "" : `${TILE_GAP}px`, right: side ? `${TILE_GAP}px` : "" });
        each.from = [side ? width - TILE_GAP - TILE_PX : TILE_GAP + TILE_PX, each.top + PICTURE_PX / 2];
      });
    });
  }

  /** Let their lines end where they belong, as the plane moves below them. */
  place(view) {
    if (this.root.hidden) return;
    for (const { tile, line, from, region } of this.tiles) {
      line.style.display = tile.hidden ? "none" : "";
      if (!tile.hidden) [...from, ...view.toScreen(region.x, -region.y)].forEach((at, k) => line.setAttribute(["x1", "y1", "x2", "y2"][k], at));
    }
  }
}

// What the colors of the scatter mean. Pointing at a category lights its dots up; a click selects them.
class ScatterLegend {
  /** @param lit (code or null) @param chosen (code) */
  constructor(lit, chosen) {
    Object.assign(this, { lit, chosen });
    this.title = h("button.title", { type: "button", title: words.legendHint, "aria-expanded": "false", onclick: () => this.fold(!this.root.classList.contains("closed")) });
    this.root = h("div.dotlegend.closed");
  }

  fold(isFolded) {
    this.root.classList.toggle("closed", isFolded);
    this.title.setAttribute("aria-expanded", String(!isFolded));
  }

  /** @param colors see `colorDots` @param nRinged how many dots have a ring */
  show(color, { codes, entries }, nRinged) {
    const shown = JSON.stringify([color.title, color.ends, entries]);
    if (shown !== this.shown) this.#build(color, entries); // else a button under the pointer stays
    this.shown = shown;
    const counts = new Map([["ringed", color.kind === "labels" ? 0 : nRinged]]);
    for (const code of codes) counts.set(code, (counts.get(code) ?? 0) + 1);
    for (const [code, row] of this.rows) {
      row.hidden = !counts.get(code);
      row.lastChild.textContent = TEXTS.number(counts.get(code) ?? 0);
    }
  }

  #build(color, entries) {
    const row = (kind, attributes, dot, text) => h(kind, attributes, dot, h("span.text", {}, text), h("span.num.soft"));
    const entry = ({ code, text, color: dot }) => [code, row("button.entry", {
      type: "button", title: words.chooseHint(text), onclick: () => this.chosen(code),
      onpointerenter: () => this.lit(code), onpointerleave: () => this.lit(null), onfocus: () => this.lit(code), onblur: () => this.lit(null),
    }, h("i.dot", { style: `background:${dot}` }), text)];
    this.rows = [...(entries ?? []).map(entry), ["ringed", row("div.entry", {}, h("i.dot.ringed"), words.ringed)]];
    const ramp = () => h("div.rampbox", {}, h("div.ramp", { style: `background:${CIVIDIS_CSS}` }), h("div.rampends", {}, ...color.ends.map((end) => h("span", {}, end))));
    this.title.textContent = color.title;
    this.root.replaceChildren(this.title, ...(entries ? [] : [ramp()]), ...this.rows.map(([, each]) => each));
  }
}

// Colors of the page around us, as numbers for what is drawn pixel by pixel.
/** @returns {ink, background, isDark, faint: what steps back, plain: what has no color of its own, strong: the same where it stands out} */
function themeOf(element) {
  const style = getComputedStyle(element);
  const [ink, background] = [rgbOf(style.color, [29, 35, 48]), rgbOf(style.backgroundColor, [255, 255, 255])];
  const mixed = (share) => background.map((value, band) => Math.round(value + share * (ink[band] - value)));
  return { ink, background, isDark: Math.max(...background) < 128, faint: mixed(0.15), plain: mixed(0.42), strong: mixed(0.72) };
}

function rgbOf(color, fallback) {
  const found = /^rgba?\((\d+), (\d+), (\d+)/.exec(color);
  return found && color !== "rgba(0, 0, 0, 0)" ? found.slice(1).map(Number) : fallback;
}
