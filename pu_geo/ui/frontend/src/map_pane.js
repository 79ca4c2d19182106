// The map: two quicklook pyramids with a swipe between them, the footprints, and what the pointer does.

import Map from "ol/Map.js";
import View from "ol/View.js";
import TileLayer from "ol/layer/Tile.js";
import Projection from "ol/proj/Projection.js";
import { getRenderPixel } from "ol/render.js";
import XYZ from "ol/source/XYZ.js";
import TileGrid from "ol/tilegrid/TileGrid.js";
import DragBox from "ol/interaction/DragBox.js";
import { defaults as defaultInteractions } from "ol/interaction/defaults.js";
import { shiftKeyOnly } from "ol/events/condition.js";
import { FootprintLayer } from "./footprint_layer.js";
import { LABEL_COLORS, LABEL_TEXTS, RAMP_CSS } from "./colors.js";
import { h, icon, remember, remembered } from "./dom.js";

const HIT_SLACK_PX = 5;
const LOCATE_M = 70; // at least so much ground is shown around a building

export class MapPane {
  /** @param actions {label(i, code | "toggle"), box(numbers), select(i)} */
  constructor(store, actions) {
    this.store = store;
    this.actions = actions;
    this.target = h("div.map");
    this.tooltip = h("div.tooltip", { hidden: true });
    this.divider = h("div.swipe", { role: "slider", "aria-label": "Swipe between pre and post", tabindex: "-1" }, h("div.grip", {}, icon("arrows")));
    this.tags = [h("div.tag.left", {}, "Pre"), h("div.tag.right", {}, "Post")];
    this.pulse = h("div.pulse", { hidden: true });
    this.scale = h("div.scale", {}, h("span"));
    this.legend = h("div.legend");
    this.readout = h("div.readout");
    const zoom = h("div.zoom", {},
      h("button", { type: "button", title: "Zoom in", onclick: () => this.zoomBy(1) }, icon("plus")),
      h("button", { type: "button", title: "Zoom out", onclick: () => this.zoomBy(-1) }, icon("minus")),
      h("button", { type: "button", title: "Show everything", onclick: () => this.fit() }, icon("fit")));
    this.notice = h("div.notice", {}, "Loading buildings …");
    const foot = h("div.foot", {}, this.scale, this.readout);
    this.root = h("section.pane.mappane", { "aria-label": "Map" }, this.target, this.divider, ...this.tags, this.pulse, zoom, this.legend, foot, this.tooltip, this.notice);
    this.swipeAt = 0.5;
    this.grid = null;
    this.#listen();
  }

  #listen() {
    const { store } = this;
    store.on("view", () => this.#showView());
    for (const event of ["colorBy", "scores", "threshold", "labels", "geometry", "outlines"]) store.on(event, () => this.#drawLegend());
    store.on("geometry", () => (this.notice.hidden = true));
    store.on("selected", () => this.#movePulse(true));
    this.divider.addEventListener("pointerdown", (event) => this.#dragSwipe(event));
    this.target.addEventListener("pointermove", (event) => this.#hover(event));
    // Moves reach `pointermove` once a frame; a key pressed before that frame must mean the building under the pointer now.
    this.target.addEventListener("pointerrawupdate", (event) => (this.pointer = event));
    this.target.addEventListener("pointerleave", () => {
      this.pointer = null;
      store.set("hovered", -1);
      this.tooltip.hidden = true;
    });
    this.target.addEventListener("contextmenu", (event) => {
      event.preventDefault();
      const i = this.#under(event);
      if (i >= 0) this.actions.label(i, 2, "map");
    });
    new ResizeObserver(() => {
      this.map?.updateSize();
      this.#placeSwipe();
    }).observe(this.root);
  }

  configure({ token, base, grid, gsd_m, layers }) {
    const same = JSON.stringify([token, grid, layers]);
    if (same === this.configured) return;
    this.configured = same;
    this.map?.setTarget(null);
    this.grid = grid;
    this.gsd = gsd_m;
    this.storageKey = `pugeo:view:${token}`;
    const extent = [0, -grid[1], grid[0], 0];
    const projection = new Projection({ code: "grid-pixels", units: "pixels", extent });
    this.images = Object.fromEntries(layers.map((layer) => [layer.name, this.#imagery(layer, token, base, projection, extent)]));
    this.footprints = new FootprintLayer(this.store);
    const box = new DragBox({ condition: shiftKeyOnly, className: "dragbox" });
    box.on("boxend", () => {
      const [minX, minY, maxX, maxY] = box.getGeometry().getExtent();
      this.actions.box(this.store.within([minX, -maxY, maxX, -minY]));
    });
    this.map = new Map({
      target: this.target,
      layers: [...["pre", "post"].map((name) => this.images[name]).filter(Boolean), this.footprints],
      controls: [],
      // Double-click zoom would eat every second of two fast clicks.
      interactions: defaultInteractions({ doubleClickZoom: false, keyboard: false, altShiftDragRotate: false, pinchRotate: false, shiftDragZoom: false }).extend([box]),
      moveTolerance: 4,
      view: new View({ projection, extent, constrainOnlyCenter: true, showFullExtent: true, enableRotation: false, minResolution: 1 / 8, maxResolution: Math.max(...grid) / 200, smoothExtentConstraint: false, constrainResolution: false }),
    });
    this.map.on("click", (event) => this.#click(event));
    this.map.on("moveend", () => this.#moved());
    this.map.on("postrender", () => this.#movePulse(false));
    this.#restoreView();
    this.#showView();
    this.#drawLegend();
  }

  #imagery({ name, max_zoom, v }, token, base, projection, extent) {
    const resolutions = Array.from({ length: max_zoom + 1 }, (_, z) => 2 ** (max_zoom - z));
    const url = (z, x, y) => `${base}/${token}/tiles/${name}/${z}/${x}/${y}.jpg?v=${v ?? ""}`;
    const source = new XYZ({
      projection,
      tileGrid: new TileGrid({ origin: [0, 0], resolutions, tileSize: 256, extent }),
      tileUrlFunction: ([z, x, y]) => url(z, x, y),
      transition: 0,
      interpolate: false,
      wrapX: false,
    });
    const layer = new TileLayer({ source, extent, preload: 1, className: `image-${name}` });
    if (name === "post") {
      layer.on("prerender", (event) => this.#clip(event));
      layer.on("postrender", (event) => event.context.restore());
    }
    return layer;
  }

  #clip(event) {
    const context = event.context;
    context.save();
    if (this.store.view !== "swipe") return;
    const [width, height] = this.map.getSize();
    const corners = [[this.swipeAt * width, 0], [width, 0], [width, height], [this.swipeAt * width, height]];
    context.beginPath();
    corners.forEach((corner, at) => context[at ? "lineTo" : "moveTo"](...getRenderPixel(event, corner)));
    context.closePath();
    context.clip();
  }

  #showView() {
    if (!this.images) return;
    const swipe = this.store.view === "swipe";
    this.images.pre?.setVisible(this.store.view !== "post");
    this.images.post?.setVisible(this.store.view !== "pre");
    this.divider.hidden = !swipe;
    this.tags[0].hidden = this.store.view === "post" || !this.images.pre;
    this.tags[1].hidden = this.store.view === "pre" || !this.images.post;
    this.#placeSwipe();
    this.map.render();
  }

  #placeSwipe() {
    this.divider.style.left = `${this.swipeAt * 100}%`;
  }

  #dragSwipe(down) {
    down.preventDefault();
    this.divider.setPointerCapture(down.pointerId);
    const box = this.root.getBoundingClientRect();
    const move = (event) => {
      this.swipeAt = Math.max(0.02, Math.min(0.98, (event.clientX - box.left) / box.width));
      this.#placeSwipe();
      this.map.render();
    };
    this.divider.addEventListener("pointermove", move);
    this.divider.addEventListener("pointerup", () => this.divider.removeEventListener("pointermove", move), { once: true });
  }

  #gridAt(event) {
    const [x, y] = this.map.getEventCoordinate(event);
    return [x, -y];
  }

  /** The building under the pointer at this moment, -1 if none or the pointer is elsewhere. */
  underPointer() {
    return this.pointer ? this.#under(this.pointer) : -1;
  }

  #under(event) {
    if (!this.map || !this.store.ready) return -1;
    return this.store.hit(...this.#gridAt(event), HIT_SLACK_PX * this.map.getView().getResolution());
  }

  #click(event) {
    const i = this.#under(event.originalEvent);
    if (i < 0) return;
    if (this.store.mode === "label") this.actions.label(i, "toggle", "map");
    else this.actions.select(i);
  }

  #hover(event) {
    if (!this.map || event.buttons) {
      this.tooltip.hidden = true;
      return;
    }
    const i = this.#under(event);
    this.store.set("hovered", i);
    this.target.classList.toggle("over", i >= 0);
    const [x, y] = this.#gridAt(event);
    const inside = x >= 0 && y >= 0 && x <= this.grid[0] && y <= this.grid[1];
    this.readout.textContent = inside ? `x ${Math.floor(x)} · y ${Math.floor(y)} px` : "";
    this.tooltip.hidden = i < 0;
    if (i < 0) return;
    this.tooltip.replaceChildren(...describe(this.store, i, this.gsd));
    const box = this.root.getBoundingClientRect();
    const [left, top] = [event.clientX - box.left, event.clientY - box.top];
    const [wide, high] = [this.tooltip.offsetWidth, this.tooltip.offsetHeight];
    this.tooltip.style.left = `${left + 16 + wide > box.width ? left - wide - 12 : left + 16}px`;
    this.tooltip.style.top = `${top + 16 + high > box.height ? top - high - 12 : top + 16}px`;
  }

  // ---- view ----

  fit() {
    this.map.getView().fit([0, -this.grid[1], this.grid[0], 0], { padding: [16, 16, 16, 16], duration: 250, size: this.map.getSize() });
  }

  zoomBy(steps) {
    const view = this.map.getView();
    view.animate({ zoom: view.getZoom() + steps, duration: 180 });
  }

  locate(i) {
    const [x, y] = this.store.center(i);
    const side = Math.max(Math.sqrt(this.store.areas[i]) * 9, LOCATE_M / this.gsd);
    const resolution = Math.min(this.map.getView().getResolution(), side / Math.min(...this.map.getSize()));
    this.map.getView().animate({ center: [x, -y], resolution: Math.max(resolution, 1 / 6), duration: 350 }, () => this.#movePulse(true));
  }

  #restoreView() {
    const saved = remembered(this.storageKey, null);
    const view = this.map.getView();
    if (saved) {
      view.setCenter(saved.center);
      view.setResolution(saved.resolution);
      return;
    }
    view.fit([0, -this.grid[1], this.grid[0], 0], { size: this.map.getSize() ?? [800, 600], padding: [8, 8, 8, 8] });
  }

  #moved() {
    const view = this.map.getView();
    remember(this.storageKey, { center: view.getCenter(), resolution: view.getResolution() });
    const metres = this.gsd * view.getResolution();
    const goal = 110 * metres;
    const unit = 10 ** Math.floor(Math.log10(goal));
    const length = [5, 2, 1].map((times) => times * unit).find((each) => each <= goal);
    this.scale.firstChild.style.width = `${length / metres}px`;
    this.scale.firstChild.textContent = length >= 1000 ? `${length / 1000} km` : `${length} m`;
    this.#drawLegend();
  }

  #movePulse(restart) {
    const i = this.store.selected;
    this.pulse.hidden = i < 0 || !this.map || !this.store.ready;
    if (this.pulse.hidden) return;
    const pixel = this.pixelOf(i);
    if (!pixel) return;
    const size = Math.max(28, (Math.sqrt(this.store.areas[i]) / this.map.getView().getResolution()) * 1.7);
    Object.assign(this.pulse.style, { left: `${pixel[0]}px`, top: `${pixel[1]}px`, width: `${size}px`, height: `${size}px` });
    if (!restart) return;
    this.pulse.classList.remove("go");
    void this.pulse.offsetWidth; // restarts the animation
    this.pulse.classList.add("go");
  }

  /** Where building i is, in pixels of the map pane; a point inside it, not only inside its box. */
  pixelOf(i) {
    let [x, y] = this.store.center(i);
    if (this.store.hit(x, y, 0) !== i) {
      const ring = this.store.rings[i][0];
      [x, y] = [(ring[0] * 2 + ring[2] + ring[4]) / 4, (ring[1] * 2 + ring[3] + ring[5]) / 4];
    }
    return this.map.getPixelFromCoordinate([x, -y]);
  }

  clientPixelOf(i) {
    const pixel = this.pixelOf(i);
    const box = this.target.getBoundingClientRect();
    return pixel && [box.left + pixel[0], box.top + pixel[1]];
  }

  // ---- legend ----

  #drawLegend() {
    if (!this.store.ready) return;
    const rows = [];
    if (this.store.colorBy === "scores" && this.store.scores) {
      const bar = h("div.ramp", { style: `background:${RAMP_CSS}` });
      if (this.store.threshold !== null) bar.append(h("i", { style: `left:${this.store.threshold * 100}%` }));
      rows.push(h("div.rampbox", {}, h("b", {}, this.store.threshold === null ? "Score" : `Score · threshold ${this.store.threshold.toFixed(2)}`), bar, h("div.rampends", {}, h("span", {}, "0"), h("span", {}, "1 likely damaged"))));
      rows.push(...[1, 2].map((code) => swatch(code, true)));
    } else rows.push(...[1, 2, 3, 0].map((code) => swatch(code)));
    if (!this.store.outlines) rows.push(h("div.hint", {}, "Outlines hidden — press Space"));
    this.legend.replaceChildren(...rows);
  }

  dispose() {
    this.map?.setTarget(null);
  }
}

function swatch(code, hollow = false) {
  return h("div.entry", {}, h(`span.swatch.label${code}${hollow ? ".hollow" : ""}`, { style: `--c:${LABEL_COLORS[code]}` }), LABEL_TEXTS[code]);
}

/** Lines about one building, for tooltips and the chip preview. */
export function describe(store, i, gsd) {
  const score = store.score(i);
  const code = store.labels[i];
  const lines = [h("b", {}, store.ids[i])];
  lines.push(h("div", {}, h(`span.swatch.label${code}`, { style: `--c:${LABEL_COLORS[code]}` }), LABEL_TEXTS[code]));
  if (score !== null) lines.push(h("div.num", {}, `score ${score.toFixed(3)} · rank ${store.ranks[i].toLocaleString("en")}`));
  lines.push(h("div.num.soft", {}, `${Math.round(store.areas[i] * gsd * gsd).toLocaleString("en")} m²`));
  return lines;
}
