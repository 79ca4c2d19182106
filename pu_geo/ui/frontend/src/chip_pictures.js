// Pictures of buildings: the ground around each, cut from the map's tiles, with its outline.

import { h } from "./dom.js";
import { groundOf, paintGround, paintOutline, paintTick, tilesOf } from "./ground.js";
import { GREY, inColors, partOf, tilePictures } from "./layer_tiles.js";
import { TEXTS } from "./texts.js";

const NORTH_FROM_PX = 140;
const TICK_FROM_PX = 60;
const MANY = 500;

export class ChipPictures {
  constructor(store) {
    this.store = store;
    this.layers = [];
    this.shown = new WeakMap(); // canvas to {i, width, part}
    this.thumbnails = new Map(); // for other canvases
    this.live = new Set(); // canvases on the page, and some that were
    this.coming = new WeakSet(); // canvases that are drawn in the next frame
    this.wishes = new WeakMap(); // canvas to [isWanted, done], one pair each: a tile that comes draws it once
    for (const event of ["outlines", "shifts", "geometry", "ramp"]) store.on(event, () => this.#again());
  }

  /** @returns whether it is another set of pictures than before */
  configure({ token, base, layers, grid }) {
    const key = JSON.stringify([token, layers, grid]);
    if (key === this.configured) return false;
    Object.assign(this, { configured: key, layers, grid });
    this.tileUrl = ({ name, v }, zoom, { x, y }) => `${base}/${token}/tiles/${name}/${zoom}/${x}/${y}.jpg?v=${v ?? ""}`;
    return true;
  }

  has(i) {
    return this.store.ready && i < this.store.n && this.layers.length > 0;
  }

  /** Of what there are pictures: the dates, and the layer that lies over the map. */
  get parts() {
    const { namedLayer } = this.store;
    return namedLayer ? [...this.dates, partOf(namedLayer.name)] : this.dates;
  }

  /** Of which dates there are pictures. */
  get dates() {
    return ["pre", "post"].filter((part) => this.layers.some(({ name }) => name === part));
  }

  /** Changes whenever there are pictures of something else. */
  get shows() {
    return `${this.configured} ${this.parts}`;
  }

  /** Building i, `width` pixels wide; `part`: "pre" or "post", or null for all parts above each other. */
  make(i, width, part = null) {
    if (part !== null) return this.#ground(i, width, part);
    return h("div.picture.stack", {}, ...this.parts.map((each) => this.#ground(i, width, each)));
  }

  #ground(i, width, part) {
    const layer = this.#namedBy(part);
    if (layer?.missing.has(i)) {
      const style = `width:${width}px;height:${width}px`;
      return h("div.picture.lacking", { role: "img", "aria-label": TEXTS.ground(part, i), style }, h("span", {}, TEXTS.layers.lacking(layer.name)));
    }
    const canvas = h("canvas.picture", { role: "img", "aria-label": TEXTS.ground(part, i), style: `width:${width}px;height:${width}px` });
    this.shown.set(canvas, { i, width, part });
    this.#soon(canvas);
    return canvas;
  }

  #namedBy(part) {
    return this.store.named.find(({ name }) => partOf(name) === part);
  }

  // What was drawn before is drawn anew; what is gone is forgotten.
  #again() {
    this.thumbnails.clear();
    for (const canvas of this.live) this.#soon(canvas);
  }

  // Once a frame, however many of its tiles arrive meanwhile.
  #soon(canvas) {
    if (this.coming.has(canvas)) return;
    this.coming.add(canvas);
    requestAnimationFrame(() => {
      this.coming.delete(canvas);
      if (!canvas.isConnected) return this.live.delete(canvas);
      this.live.add(canvas);
      if (this.live.size > MANY) for (const each of this.live) if (!each.isConnected) this.live.delete(each);
      this.#draw(canvas);
    });
  }

  #draw(canvas) {
    if (!this.wishes.has(canvas)) this.wishes.set(canvas, [() => canvas.isConnected, () => canvas.isConnected && this.#soon(canvas)]);
    if (this.#paint(canvas, this.shown.get(canvas), ...this.wishes.get(canvas))) canvas.dataset.drawn = "yes";
  }

  /**
   * The ground around building i after the event, to be drawn on another canvas.
   * @param done called once it can be had, where it is not here yet
   * @returns a canvas, or null
   */
  thumbnail(i, width, done) {
    const key = `${this.configured} ${i} ${width} ${this.store.outlines}`;
    const found = this.thumbnails.get(key);
    if (found) return found;
    const canvas = document.createElement("canvas");
    if (!this.#paint(canvas, { i, width, part: this.dates.at(-1) }, () => true, done)) return null;
    if (this.store.shapes.isFailing) return canvas; // with a box in the place of the outline, perhaps
    if (this.thumbnails.size >= MANY) this.thumbnails.delete(this.thumbnails.keys().next().value);
    this.thumbnails.set(key, canvas);
    return canvas;
  }

  /** @returns whether it could be drawn; if not, `done` is called once more of it is here */
  #paint(canvas, { i, width, part }, isWanted, done) {
    const { store } = this;
    const named = this.#namedBy(part);
    const layer = named ? { ...named, name: part } : this.layers.find(({ name }) => name === part);
    if (!layer || !store.ready || i >= store.n) return false;
    const ratio = Math.min(2, window.devicePixelRatio || 1);
    const ground = groundOf(store, i, part);
    const cut = tilesOf(ground, width * ratio, { max_zoom: layer.max_zoom, grid: this.grid });
    const found = cut.tiles.map((tile) => {
      const url = this.tileUrl(layer, cut.zoom, tile);
      return { ...tile, canvas: tilePictures.get(url, isWanted, done) };
    });
    const { shapes } = store;
    const rings = store.outlines ? (shapes.get(i, done) ?? (shapes.isFailing ? shapes.of(i) : null)) : [];
    if (!rings || found.some((tile) => tile.canvas === undefined)) return false;
    const ramp = named?.is_gray ? store.ramp : GREY;
    if (named) for (const tile of found) tile.canvas &&= inColors(tile.canvas, ramp);
    canvas.width = canvas.height = Math.round(width * ratio);
    paintGround(canvas, ground, cut, found.filter((tile) => tile.canvas));
    if (store.outlines) paintOutline(canvas, ground, rings, ratio);
    const { gsd_m, lonlat } = store.siteWith(i);
    if (width >= TICK_FROM_PX) paintTick(canvas, ground, gsd_m, ratio, { text: TEXTS.metres, hasNorth: Boolean(lonlat) && width >= NORTH_FROM_PX });
    return true;
  }
}
