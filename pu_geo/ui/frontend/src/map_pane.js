// The map: pre and post with a swipe between them or side by side, the footprints, and what the pointer does.

import { getRenderPixel } from "ol/render.js";
import { LABEL_TEXTS, NOT_DAMAGED, RAMP_CSS } from "./colors.js";
import { damageLegend } from "./damage_legend.js";
import { describe, swatch } from "./describe.js";
import { REASON_TEXTS } from "./details.js";
import { draggable, h, icon, isSelecting, isShown, remember, remembered } from "./dom.js";
import { FootprintLayer } from "./footprint_layer.js";
import { gradeCounts } from "./grades.js";
import { boxOf } from "./polygon.js";
import { arrowLegend } from "./shifts.js";
import { layerLegend } from "./layer_box.js";
import { GREY, isOn, partOf, shareOf, tileLoader } from "./layer_tiles.js";
import { extentOf, gridAt, lonLatAt, makeImagery, makeMap, makeSource, makeView, projectionOf } from "./map_parts.js";
import { TEXTS } from "./texts.js";

const { map: words } = TEXTS;

const HIT_SLACK_PX = 5;
const LOCATE_M = 70; // at least so much ground is shown around a building
const CROSS_SLACK_PX = 40; // the building that a cross means may be so far away
const PAN_STEP = 0.12; // of the shorter side, by an arrow key
const IN_VIEW = 0.15; // so far from the border a building is well in view
const SOFTLY_MS = 350;
const isStill = () => globalThis.matchMedia?.("(prefers-reduced-motion: reduce)").matches ?? false;
const softly = (ms) => (isStill() ? 0 : ms);
const SMALLEST_IN_VIEW_PX = 8;
const LEGEND = "pugeo:legend"; // whether it is open, in this browser
const LAT_LON = /^([-−]?[\d.]+)°?\s*([NS]?)[,;\s]+([-−]?[\d.]+)°?\s*([EW]?)$/i; // also as the map writes it
const LET_REST_MS = 60; // somebody who answers fast is not led over the map building by building

export class MapPane {
  /** @param actions {label(i, code | "toggle"), many(numbers), select(i)} */
  constructor(store, actions) {
    Object.assign(this, { store, actions, map: null });
    this.target = h("div.map", { tabindex: "0", role: "application", "aria-label": words.surface });
    this.twinTarget = h("div.map.twin", { hidden: true, role: "img", "aria-label": words.twin }); // the pre picture, when both are side by side
    this.tooltip = h("div.tooltip", { hidden: true });
    this.divider = h("div.swipe", { role: "slider", "aria-label": words.swipe, "aria-valuemin": "0", "aria-valuemax": "100", "aria-valuenow": "50", tabindex: "0" }, h("div.grip", {}, icon("arrows")));
    this.cross = h("div.cross", { hidden: true });
    this.seam = h("div.seam", { hidden: true });
    this.ghost = h("div.ghost", { hidden: true });
    this.tags = [h("div.tag.left", {}, words.pre), h("div.tag.right", {}, words.post)];
    this.marks = new MapMarks(store, this);
    this.scale = h("div.scale", {}, h("span"));
    this.legendRows = h("div.legendrows");
    this.legend = h("details.legend", { open: remembered(LEGEND, true, "localStorage"), ontoggle: () => remember(LEGEND, this.legend.open, "localStorage") }, h("summary", {}, words.legend), this.legendRows);
    this.readout = h("div.readout");
    const button = (name, title, act) => h("button", { type: "button", title, "aria-label": title, onclick: act }, icon(name));
    const zoom = h("div.zoom", {}, button("plus", words.zoomIn, () => this.zoomBy(1)), button("minus", words.zoomOut, () => this.zoomBy(-1)));
    const fit = h("button.fit", { type: "button", title: words.fit, "aria-label": words.fit, onclick: () => this.fit() }, icon("fit"), h("span.word", {}, words.fit));
    const goal = h("input", { type: "text", placeholder: words.goTo, "aria-label": words.goTo, oninput: () => goal.setCustomValidity(""), onkeydown: ({ key }) => key === "Enter" && !this.#goTo(goal.value.trim()) && (goal.setCustomValidity(words.nowhere), goal.reportValidity()) });
    const sliders = words.looks.map(([name, text, max]) => h("label.strength", {}, text, h("input", { type: "range", name, min: "20", max, value: "100", oninput: () => this.root.style.setProperty("--look", sliders.map(({ lastChild: { name: by, value } }) => `${by}(${value}%)`).join(" ")) })));
    const tools = h("details.maptools", {}, h("summary", {}, words.tools), goal, ...sliders, h("span", {}, words.lookNote));
    this.corner = h("div.corner", {}, zoom, fit, tools);
    this.guide = h("div.notice.guide", { hidden: true, role: "note" }, words.guide);
    this.notice = h("div.notice", { role: "status" }, words.loading);
    const foot = h("div.foot", {}, this.scale, this.readout);
    this.root = h("section.pane.mappane", { "aria-label": words.region }, this.twinTarget, this.target, this.cross, this.divider, this.seam, this.ghost, ...this.tags, ...this.marks.roots, this.corner, this.legend, this.guide, foot, this.tooltip, this.notice);
    this.swipeAt = 0.5;
    this.moved = () => {}; // called once the map has come to rest
    this.#listen();
  }

  #listen() {
    const { store } = this;
    store.on("view", () => this.#showView());
    for (const event of ["colorBy", "scores", "threshold", "labels", "grades", "scale", "geometry", "outlines", "imageQuality", "shifts", "arrows", "chosen", "cells", "flagging", "types", "named", "layer", "ramp"]) store.on(event, () => this.#drawLegend());
    for (const event of ["layer", "opacity", "ramp"]) store.on(event, () => this.#showLayer());
    for (const event of ["details", "scores", "blind", "imageQuality", "shifts", "selected"]) store.on(event, () => this.#fillTooltip());
    for (const event of ["geometry", "labels", "mode", "only", "inQueue"]) store.on(event, () => (this.guide.hidden = (this.isGuided ||= store.inQueue || store.labels.some(Boolean)) || store.mode !== "label" || !store.ready || store.only !== null));
    store.on("geometry", () => (this.notice.hidden = true));
    store.on("outlined", () => this.#outlined());
    store.on("emptied", () => {
      this.legendRows.replaceChildren();
      this.tooltip.hidden = this.guide.hidden = true;
      this.isGuided = false; // nobody answered, or opened the queue, since its buildings are here
      Object.assign(this.notice, { hidden: false, textContent: words.loading });
    });
    draggable(this.divider, this.root, (share) => {
      this.#swipe(share);
    });
    this.divider.addEventListener("keydown", (event) => {
      const to = { ArrowLeft: this.swipeAt - 0.05, ArrowRight: this.swipeAt + 0.05, Home: 0, End: 1 }[event.key];
      if (to === undefined) return;
      this.#swipe(to);
      event.preventDefault();
      event.stopPropagation();
    });
    for (const event of ["focus", "blur"]) this.target.addEventListener(event, () => this.showCross());
    for (const target of [this.target, this.twinTarget]) {
      target.addEventListener("pointermove", (event) => {
        this.pointer = event;
        this.#hover(event);
      });
      target.addEventListener("pointerleave", () => this.#leave());
      target.addEventListener("contextmenu", (event) => {
        event.preventDefault();
        const i = this.#under(event);
        if (i < 0 || this.store.picks) return;
        if (isSelecting(event)) this.actions.select(i); // on a Mac, Ctrl makes a right click of it
        else this.actions.label(i, NOT_DAMAGED, "map");
      });
    }
    new ResizeObserver(() => {
      this.#fitMaps();
      this.#placeSwipe();
    }).observe(this.root);
  }

  configure({ token, base, grid, layers, flagging }) {
    const { named, sites } = this.store;
    const same = JSON.stringify([token, grid, sites.map(({ box }) => box), layers, named.map(({ name, v }) => [name, v])]);
    if (same === this.configured) return;
    this.configured = same;
    this.dispose();
    this.storageKey = `pugeo:view:${token}${flagging ? ":damage" : ""}`; // the damage map opens on all of it, not where somebody annotates
    const projection = (this.projection = projectionOf(grid));
    const sources = Object.fromEntries(layers.map((layer) => [layer.name, makeSource(layer, { token, base, grid }, projection)]));
    this.images = Object.fromEntries(Object.entries(sources).map(([name, source]) => [name, makeImagery(name, source)]));
    this.images.post?.on("prerender", (event) => this.#clip(event));
    this.images.post?.on("postrender", (event) => event.context.restore());
    this.overlays = named.map((layer) => {
      const source = makeSource({ ...layer, name: partOf(layer.name) }, { token, base, grid }, projection);
      const [main, twin] = ["layer", "layer-twin"].map((name) => makeImagery(name, source));
      main.on("prerender", (event) => this.#clipTo(event, shareOf(layer.when, this.store.view, this.swipeAt)));
      main.on("postrender", (event) => event.context.restore());
      return { layer, source, main, twin };
    });
    this.footprints = new FootprintLayer(this.store);
    const marked = ({ box, polygon }, adds) => this.actions.many(box ? this.store.within(box) : this.store.withinPolygon(polygon), adds);
    this.map = makeMap([...["pre", "post"].map((name) => this.images[name]).filter(Boolean), ...this.overlays.map(({ main }) => main), this.footprints], marked);
    this.twin = layers.length > 1 ? makeMap([makeImagery("pre", sources.pre), ...this.overlays.map(({ twin }) => twin), new FootprintLayer(this.store)], marked) : null;
    this.map.setTarget(this.target);
    for (const map of [this.map, this.twin].filter(Boolean)) map.on("click", (event) => this.#click(event));
    this.map.on("moveend", () => this.#moved());
    this.map.on("postrender", () => this.marks.place());
    this.#restoreView();
    this.#showView();
    this.#drawLegend();
  }

  // ---- pre and post ----

  get isSide() {
    return this.store.view === "side" && Boolean(this.twin);
  }

  #clip(event) {
    this.#clipTo(event, [this.store.view === "swipe" ? this.swipeAt : 0, 1]);
  }

  #clipTo(event, [from, to]) {
    const context = event.context;
    context.save();
    if (from === 0 && to === 1) return;
    const [width, height] = this.map.getSize();
    const corners = [[from * width, 0], [to * width, 0], [to * width, height], [from * width, height]];
    context.beginPath();
    corners.forEach((corner, at) => context[at ? "lineTo" : "moveTo"](...getRenderPixel(event, corner)));
    context.closePath();
    context.clip();
  }

  #showView() {
    if (!this.images) return;
    const { view } = this.store;
    const alone = view === "side" && !this.twin ? Object.keys(this.images)[0] : view;
    this.images.pre?.setVisible(["pre", "swipe"].includes(alone));
    this.images.post?.setVisible(alone !== "pre");
    this.divider.hidden = view !== "swipe";
    this.tags[0].hidden = view === "post" || !this.images.pre;
    this.tags[1].hidden = view === "pre" || !this.images.post;
    this.seam.hidden = this.twinTarget.hidden = !this.isSide;
    this.ghost.hidden = true;
    this.target.classList.toggle("half", this.isSide);
    this.twin?.setTarget(this.isSide ? this.twinTarget : null);
    this.#showLayer();
    this.#fitMaps();
    this.#placeSwipe();
    this.map.render();
  }

  #showLayer() {
    const { store } = this;
    const view = store.view === "side" && !this.isSide ? "post" : store.view;
    for (const overlay of this.overlays ?? []) {
      const { layer, source, main, twin } = overlay;
      const isShown = layer.name === store.layer;
      main.setVisible(isShown && isOn(layer.when, view, "post"));
      twin.setVisible(isShown && isOn(layer.when, view, "pre"));
      for (const each of [main, twin]) each.setOpacity(store.opacity);
      const ramp = layer.is_gray ? store.ramp : GREY;
      if (isShown && overlay.ramp !== ramp) {
        overlay.ramp = ramp;
        source.setTileLoadFunction(tileLoader(ramp));
      }
    }
    const shown = store.namedLayer;
    this.tags.forEach((tag, at) => {
      const isHere = shown && (shown.when === "" || shown.when === (at ? "post" : "pre") || ["pre", "post"].includes(view));
      tag.textContent = [at ? words.post : words.pre, ...(isHere ? [shown.name] : [])].join(" · ");
    });
  }

  #fitMaps() {
    this.map?.updateSize();
    if (this.map && this.whole === this.#place) this.#fitWhole(); // nobody moved it since: only now its size is known, or another one
    if (this.isSide) this.twin.updateSize();
  }

  #swipe(share) {
    this.swipeAt = Math.max(0.02, Math.min(0.98, share));
    this.divider.setAttribute("aria-valuenow", String(Math.round(100 * this.swipeAt)));
    this.#placeSwipe();
    this.map.render();
  }

  #placeSwipe() {
    this.divider.style.left = `${this.swipeAt * 100}%`;
  }

  // ---- pointer ----

  #isOverTwin(event) {
    return this.isSide && event.clientX < this.target.getBoundingClientRect().left;
  }

  // Amid a redraw of the page the map may be without a size for a moment, and then finds nothing under pointer or click.
  #gridAt(event) {
    const map = this.#isOverTwin(event) ? this.twin : this.map;
    const find = () => map.getSize() && map.getEventCoordinate(event);
    let at = find();
    if (!at && map.getTargetElement()) {
      map.updateSize();
      map.renderSync();
      at = find();
    }
    return at ? [at[0], -at[1]] : [NaN, NaN];
  }

  /** Whether building i is in view. */
  isInView(i) {
    const place = this.map && this.clientPixelOf(i);
    if (!place) return false;
    const { left, top, right, bottom } = this.target.getBoundingClientRect();
    const [x, y] = place;
    return x >= left && x <= right && y >= top && y <= bottom && isShown({ left: x, top: y, width: 0, height: 0 }, this.root);
  }

  // ---- keys: the cross in the middle is the pointer of who uses no mouse ----

  /** Whether the map has the focus because Tab led there. */
  get hasCross() {
    return Boolean(this.map) && this.target.getRootNode().activeElement === this.target && Boolean(this.root.closest("[data-tabbed]"));
  }

  /** The building under the cross, -1 if none is near. */
  underCross() {
    const view = this.map.getView();
    const [x, y] = this.goal ?? view.getCenter(); // where a key led, also while the map is on its way
    return this.store.ready ? this.store.hit(x, -y, CROSS_SLACK_PX * view.getResolution()) : -1;
  }

  showCross() {
    const { hasCross } = this;
    if (this.cross.hidden === !hasCross && !hasCross) return;
    this.cross.hidden = !hasCross;
    this.store.set("hovered", hasCross ? this.underCross() : -1);
    if (hasCross) this.actions.select(this.store.hovered);
    this.#tip(this.store.hovered, this.root.clientWidth / 2, this.root.clientHeight / 2);
    this.moved();
  }

  /** @returns whether the key moves the map */
  key(name) {
    const way = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1] }[name];
    if (way) this.#pan(way);
    else if (name === "+" || name === "=") this.zoomBy(1);
    else if (name === "-") this.zoomBy(-1);
    else if (name === "Home") this.fit();
    else return false;
    return true;
  }

  #pan([right, up]) {
    const view = this.map.getView();
    const step = PAN_STEP * Math.min(...this.map.getSize()) * view.getResolution();
    const [x, y] = this.goal ?? view.getCenter();
    const goal = (this.goal = view.getConstrainedCenter([x + right * step, y + up * step]));
    view.cancelAnimations();
    view.animate({ center: goal, duration: softly(120) }, () => {
      if (this.goal === goal) this.goal = null; // it is called late: another key may have been pressed
    });
  }

  #under(event) {
    if (!this.map || !this.store.ready) return -1;
    return this.store.hit(...this.#gridAt(event), HIT_SLACK_PX * this.map.getView().getResolution());
  }

  #click(event) {
    const i = this.#under(event.originalEvent);
    if (i < 0) return;
    if (this.store.clickLabels && !isSelecting(event.originalEvent)) this.actions.label(i, "toggle", "map");
    else this.actions.select(i);
  }

  // What lies under the pointer or the cross may be another building by its outline than it was by its box.
  #outlined() {
    this.#drawLegend();
    if (this.hasCross) this.showCross();
    else if (this.pointer && !this.pointer.buttons) this.#hover(this.pointer);
    this.moved();
  }

  #leave() {
    this.pointer = null;
    this.store.set("hovered", -1);
    this.tooltip.hidden = this.ghost.hidden = true;
  }

  #hover(event) {
    if (!this.map || event.buttons) {
      this.tooltip.hidden = this.ghost.hidden = true;
      return;
    }
    const i = this.#under(event);
    this.store.set("hovered", i);
    for (const target of [this.target, this.twinTarget]) target.classList.toggle("over", i >= 0);
    const [x, y] = this.#gridAt(event);
    const [left0, top0, right, bottom] = this.box;
    const inside = x >= left0 && y >= top0 && x <= right && y <= bottom;
    this.readout.replaceChildren(...(inside ? this.#where(x, y) : []));
    const box = this.root.getBoundingClientRect();
    const [left, top] = [event.clientX - box.left, event.clientY - box.top];
    this.#placeGhost(left + (this.#isOverTwin(event) ? 1 : -1) * (box.width / 2), top);
    this.#tip(i, left, top);
  }

  #where(x, y) {
    const { store } = this;
    const [left, top, right, bottom] = this.box;
    const place = lonLatAt(store.sites[store.site].lonlat, [right - left, bottom - top], x - left, y - top);
    return place ? [h("b", {}, words.lonLat(...place))] : [];
  }

  /** Show a building by its ID or number, or a place by its latitude and longitude. @returns whether there is one */
  #goTo(text) {
    const { ids, index, sites } = this.store;
    const i = index.get(text) ?? Number(text.replace(/^building |,(?=\d{3}\b)/gi, "")) - 1;
    if (ids[i] !== undefined) return this.actions.locate(i), true;
    const [, north, ns, east, ew] = (LAT_LON.exec(text) ?? []).map((part) => part?.replace("−", "-"));
    const [lat, lon] = [/s/i.test(ns) ? -north : Number(north), /w/i.test(ew) ? -east : Number(east)];
    return sites.some(({ lonlat, box: [left, top, right, bottom], gsd_m }, k) => {
      const place = gridAt(lonlat, [right - left, bottom - top], lon, lat);
      if (!place) return false;
      this.showSite(k);
      const view = this.map.getView();
      view.setCenter([left + place[0], -top - place[1]]);
      view.setResolution(Math.min(view.getResolution(), (4 * LOCATE_M) / gsd_m / Math.min(...this.map.getSize())));
      this.cross.hidden = false;
      this.map.once("moveend", () => this.map.once("movestart", () => this.showCross()));
      return true;
    });
  }

  #tip(i, left, top) {
    const box = this.root.getBoundingClientRect();
    this.tooltip.hidden = i < 0;
    if (i < 0) return;
    this.#fillTooltip();
    const [wide, high] = [this.tooltip.offsetWidth, this.tooltip.offsetHeight];
    this.tooltip.style.left = `${left + 16 + wide > box.width ? Math.max(0, left - wide - 12) : left + 16}px`;
    this.tooltip.style.top = `${top + 16 + high > box.height ? top - high - 12 : top + 16}px`;
  }

  #fillTooltip() {
    if (!this.tooltip.hidden && this.store.hovered >= 0) this.tooltip.replaceChildren(...describe(this.store, this.store.hovered));
  }

  // The same place in the other picture.
  #placeGhost(left, top) {
    this.ghost.hidden = !this.isSide;
    Object.assign(this.ghost.style, { left: `${left}px`, top: `${top}px` });
  }

  // ---- view ----

  /** Of the site that is shown, in grid pixels: beyond it there is nothing on this map. */
  get box() {
    return this.store.sites[this.store.site].box;
  }

  /** Show all of site k. @returns whether it showed another one */
  showSite(k) {
    const isOther = this.store.showSite(k);
    if (isOther && this.map) this.#enter();
    return isOther;
  }

  #enter() {
    this.goal = null;
    this.#leave(); // what was under the pointer is not there any more
    this.map.getView().cancelAnimations();
    const view = makeView(this.projection, this.box);
    for (const map of [this.map, this.twin].filter(Boolean)) {
      map.setView(view);
      for (const layer of map.getLayers().getArray()) layer.setExtent(extentOf(this.box));
    }
    this.#fitWhole();
  }

  #fitWhole() {
    this.map.getView().fit(extentOf(this.box), { size: this.map.getSize() ?? [800, 600], padding: [8, 8, 8, 8] });
    this.whole = this.#place;
  }

  get #place() {
    return String([this.map.getView().getCenter(), this.map.getView().getResolution()]);
  }

  fit() {
    this.map.getView().fit(extentOf(this.box), { padding: [16, 16, 16, 16], duration: softly(250), size: this.map.getSize() });
  }

  /** Show all of some buildings: of those of the site that is shown, else of that of the first one. */
  showAll(numbers) {
    const { siteOf, site } = this.store;
    if (numbers.every((i) => siteOf[i] !== site)) this.showSite(siteOf[numbers[0]]);
    const [minX, minY, maxX, maxY] = boxOf(numbers.filter((i) => this.store.isOnMap(i)).flatMap((i) => this.store.center(i)));
    const around = LOCATE_M / 2 / this.store.gsd;
    this.map.getView().fit([minX - around, -maxY - around, maxX + around, around - minY], { padding: [30, 30, 30, 30], duration: softly(SOFTLY_MS), size: this.map.getSize() });
  }

  zoomBy(steps) {
    const view = this.map.getView();
    view.animate({ zoom: view.getZoom() + steps, duration: softly(180) });
  }

  /**
   * Go there softly, in another site from a little above: what the card needs is loaded before the map's tiles. Nearer than it is now only
   * where the building could not be made out.
   */
  locate(i, times = 1) {
    const { store } = this;
    const [x, y] = store.center(i);
    const metres = this.map.getView().getResolution() * store.gsd;
    const isOther = this.showSite(store.siteOf[i]);
    const side = Math.max(Math.sqrt(store.areas[i]) * 9, LOCATE_M / store.gsd) * times;
    const view = this.map.getView();
    if (isOther) view.setResolution(metres / store.gsd);
    const resolution = Math.min(view.getResolution(), side / Math.min(...this.map.getSize()));
    view.cancelAnimations();
    if (isOther) view.setCenter([x, -y]);
    if (isOther) view.setResolution(1.25 * resolution);
    view.animate({ center: [x, -y], resolution: Math.max(resolution, 1 / 6), duration: softly(SOFTLY_MS) }, () => this.marks.place(true));
  }

  /** Show where building i is: the map stays where it is well in view already. */
  follow(i) {
    if (this.root.hidden || !this.map?.getSize()) return;
    const place = this.pixelOf(i);
    const [width, height] = this.map.getSize();
    const isIn = place && [place[0] / width, place[1] / height].every((share) => share > IN_VIEW && share < 1 - IN_VIEW);
    const isLarge = Math.sqrt(this.store.areas[i]) / this.map.getView().getResolution() > SMALLEST_IN_VIEW_PX;
    if (!isIn || !isLarge) this.locateSoon(i);
  }

  /** As `locate`, with more around it, once nobody asks for another one. */
  locateSoon(i) {
    clearTimeout(this.goTimer);
    this.goTimer = setTimeout(() => this.map?.getSize() && this.store.ready && this.locate(i, 2), LET_REST_MS);
  }

  #restoreView() {
    const saved = remembered(this.storageKey, null);
    this.store.showSite(saved ? this.store.siteAt(-saved.center[1]) : 0);
    this.#enter();
    if (!saved) return;
    const view = this.map.getView();
    view.setCenter(saved.center);
    view.setResolution(saved.resolution);
  }

  #moved() {
    const view = this.map.getView();
    remember(this.storageKey, { center: view.getCenter(), resolution: view.getResolution() });
    this.moved();
    if (this.hasCross) this.showCross();
    const metres = this.store.gsd * view.getResolution();
    const goal = 110 * metres;
    const unit = 10 ** Math.floor(Math.log10(goal));
    const length = [5, 2, 1].map((times) => times * unit).find((each) => each <= goal);
    this.scale.firstChild.style.width = `${length / metres}px`;
    this.scale.firstChild.textContent = TEXTS.metres(length);
    this.#drawLegend();
  }

  /** Where building i is, in pixels of the map; a point inside it, not only inside its box. Null where the map shows another site. */
  pixelOf(i) {
    if (!this.store.isOnMap(i)) return null;
    let [x, y] = this.store.center(i);
    if (this.store.hit(x, y, 0) !== i) {
      const ring = this.store.rings(i)[0];
      [x, y] = [(ring[0] * 2 + ring[2] + ring[4]) / 4, (ring[1] * 2 + ring[3] + ring[5]) / 4];
    }
    return this.map.getPixelFromCoordinate([x, -y]);
  }

  /** The same in pixels of the browser's window. */
  clientPixelOf(i) {
    const pixel = this.pixelOf(i);
    const { left, top } = this.target.getBoundingClientRect();
    return pixel && [left + pixel[0], top + pixel[1]];
  }

  #drawLegend() {
    if (this.store.ready && this.map) this.legendRows.replaceChildren(...legendRows(this.store, this.map.getView().getResolution()));
  }

  dispose() {
    clearTimeout(this.goTimer);
    for (const map of [this.map, this.twin].filter(Boolean)) {
      map.setTarget(null);
      for (const layer of map.getLayers().getArray()) if (layer instanceof FootprintLayer) layer.dispose();
    }
  }
}

// What the colours on the map mean.
/** @param resolution grid pixels per screen pixel */
function legendRows(store, resolution) {
  const entry = (code, hollow) => h("div.entry", {}, swatch(code, hollow), LABEL_TEXTS[code]);
  const rows = store.isFlagging ? damageLegend(store) : [];
  const isHollow = store.colorBy === "scores" && Boolean(store.scores);
  const damaged = gradeRows(store, isHollow) ?? [entry(1, isHollow)];
  if (rows.length && store.borders.length) rows.unshift(h("div.also", {}, TEXTS.sites.all));
  if (store.isFlagging); // it has all of it
  else if (isHollow) rows.push(ramp(store.scoreName, store.threshold), ...damaged, entry(2, true));
  else rows.push(...damaged, ...[2, 3, 0].map((code) => entry(code)));
  if (store.chosen.length) rows.push(h("div.entry", {}, h("span.swatch.chosen"), words.selected));
  if (store.hidden.size && !store.isCategorical) {
    const why = [...new Set(store.hidden.values())].map((reason) => REASON_TEXTS[reason]).sort();
    rows.push(h("div.entry", {}, h("span.swatch.obscured"), TEXTS.notAssessed(why.join(", "))));
  }
  rows.push(...layerLegend(store), ...arrowLegend(store, resolution));
  if (!store.outlines) rows.push(h("div.hint", {}, words.outlinesHidden));
  else if (store.shapes.isFailing) rows.push(h("div.hint", {}, words.boxesForOutlines));
  return rows;
}

// One row a grade that some building has; null before anybody graded.
function gradeRows(store, isHollow) {
  const counts = gradeCounts(store);
  const given = counts.map((count, number) => [count, number]).filter(([count, number]) => number && count);
  if (!given.length) return null;
  const row = (count, number, text) => h("div.entry", {}, swatch(1, isHollow, store.scale.color(number), store.scale.pattern(number)), text, h("span.tally", {}, TEXTS.number(count)));
  return [...given.map(([count, number]) => row(count, number, store.scale.grades[number - 1].name)), row(counts[0], 0, TEXTS.grades.notGraded)];
}

function ramp(name, threshold) {
  const bar = h("div.ramp", { style: `background:${RAMP_CSS}` });
  if (threshold !== null) bar.append(h("i", { style: `left:${threshold * 100}%` }));
  return h("div.rampbox", {}, h("b", {}, words.scores(name, threshold)), bar, h("div.rampends", {}, h("span", {}, words.low), h("span", {}, words.high)));
}

// Marks over the map that point at single buildings: a pulse at the selected one, a ring with a name where others are.
const SMALLEST_PX = 28;

class MapMarks {
  /** @param pane MapPane; asked for places once it shows a map */
  constructor(store, pane) {
    Object.assign(this, { store, pane });
    this.pulse = h("div.pulse", { hidden: true });
    this.rings = h("div.rings");
    this.roots = [this.rings, this.pulse];
    store.on("selected", () => this.place(true));
    for (const event of ["others", "geometry"]) store.on(event, () => this.#build());
  }

  /** Called whenever the map was drawn. `restart`: the pulse beats anew. */
  place(restart = false) {
    const { map } = this.pane;
    const i = this.store.ready && map ? this.store.selected : -1;
    this.pulse.hidden = i < 0 || !this.#put(this.pulse, i, 1.7);
    for (const ring of this.rings.children) ring.hidden = !map || !this.#put(ring, Number(ring.dataset.building), 2.1);
    if (!restart || this.pulse.hidden) return;
    this.pulse.classList.remove("go");
    void this.pulse.offsetWidth; // restarts the animation
    this.pulse.classList.add("go");
  }

  #build() {
    const places = new Set(this.store.others.map(({ building }) => building));
    const rings = [...places].filter((i) => i >= 0 && i < this.store.n).map((i) => {
      const who = this.store.othersAt(i);
      return h("div.ring", { "data-building": i, style: `--who:${who[0].color}` }, h("span", {}, who.map(({ name }) => name).join(", ")));
    });
    this.rings.replaceChildren(...rings);
    this.place();
  }

  #put(mark, i, times) {
    const pixel = this.pane.pixelOf(i);
    if (!pixel) return false;
    const size = Math.max(SMALLEST_PX, (Math.sqrt(this.store.areas[i]) / this.pane.map.getView().getResolution()) * times);
    Object.assign(mark.style, { left: `${pixel[0] + this.pane.target.offsetLeft}px`, top: `${pixel[1]}px`, width: `${size}px`, height: `${size}px` });
    return true;
  }
}
