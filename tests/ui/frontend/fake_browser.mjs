// What the component's logic asks of a browser, for tests in Node: storage, locks, timers, a server, and elements that hold children.

import { mock } from "node:test";
import { Outlines, decodeTile } from "../../../pu_geo/ui/frontend/src/outlines.js";

class Storage {
  getItem(key) {
    return Object.hasOwn(this, key) ? this[key] : null;
  }
  setItem(key, value) {
    Storage.writes.push(key);
    this[key] = String(value);
  }
  removeItem(key) {
    delete this[key];
  }
}
Storage.writes = [];

/** Keys that were written, in order. */
export const writes = Storage.writes;

class Element extends EventTarget {
  constructor(tag) {
    super();
    Object.assign(this, { tagName: tag.toUpperCase(), children: [], parent: null, attributes: {}, dataset: {}, hidden: false, disabled: false, value: "", className: "", text: "", clientWidth: 600, clientHeight: 600 });
    this.style = { setProperty: () => {} };
    const names = () => this.className.split(" ").filter(Boolean);
    this.classList = {
      add: (...added) => (this.className = [...new Set([...names(), ...added])].join(" ")),
      remove: (...gone) => (this.className = names().filter((each) => !gone.includes(each)).join(" ")),
      contains: (name) => names().includes(name),
      toggle: (name, on = !names().includes(name)) => (on ? this.classList.add(name) : this.classList.remove(name)),
    };
  }
  setAttribute(name, value) {
    this.attributes[name] = String(value);
    if (["hidden", "disabled"].includes(name)) this[name] = true;
    if (name.startsWith("data-")) this.dataset[name.slice(5)] = String(value);
  }
  append(...added) {
    for (const each of added) {
      const child = typeof each === "object" ? each : Object.assign(new Element("#text"), { text: String(each) });
      child.parent = this;
      this.children.push(child);
    }
  }
  replaceChildren(...added) {
    if (this !== document.activeElement && this.contains(document.activeElement)) document.activeElement = document.body;
    for (const each of this.children) each.parent = null;
    this.children = [];
    this.append(...added);
  }
  get parentElement() {
    return this.parent;
  }
  get lastChild() {
    return this.children.at(-1);
  }
  get textContent() {
    return this.text + this.children.map((each) => each.textContent).join("");
  }
  set textContent(text) {
    this.children = [];
    this.text = text;
  }
  /** Elements below this one with a class. */
  all(name) {
    return this.children.flatMap((each) => [...(each.classList.contains(name) ? [each] : []), ...each.all(name)]);
  }
  querySelector(selector) {
    return this.all(selector.slice(1))[0] ?? null;
  }
  matches(selector) {
    const is = { ":focus": () => document.activeElement === this, "button:not([data-view-keys])": () => this.tagName === "BUTTON" && !("view-keys" in this.dataset) };
    return selector.split(", ").some((each) => is[each]?.() ?? false);
  }
  getRootNode() {
    return document;
  }
  getBoundingClientRect() {
    return { left: 0, top: 0, right: 600, bottom: 600, width: 600, height: 600 };
  }
  getClientRects() {
    return [this.getBoundingClientRect()];
  }
  focus() {
    document.activeElement = this;
  }
  remove() {
    if (this.parent) this.parent.children = this.parent.children.filter((each) => each !== this);
  }
  /** By class alone. */
  closest(selector) {
    return this.classList.contains(selector.slice(1)) ? this : (this.parent?.closest(selector) ?? null);
  }
  contains(other) {
    return other === this || this.children.some((each) => each.contains(other));
  }
  click() {
    this.dispatchEvent(new Event("click"));
  }
  removeAttribute(name) {
    delete this.attributes[name];
  }
  get firstChild() {
    return this.children[0] ?? null;
  }
  blur() {
    if (document.activeElement === this) document.activeElement = document.body;
    this.dispatchEvent(new Event("change"));
  }
}

class Window extends EventTarget {
  removeEventListener(type, act, capture) {
    super.removeEventListener(type, act, { capture }); // Node's own knows no `true` here
  }
}

/** Buttons below an element, by their text. */
export function buttons(root) {
  const found = (each) => [...(each.tagName === "BUTTON" ? [[each.textContent, each]] : []), ...each.children.flatMap(found)];
  return Object.fromEntries(found(root));
}

const held = new Map(); // what waits for each lock that a page has, by its name
const waitingFrames = [];
const define = (name, value) => Object.defineProperty(globalThis, name, { value, configurable: true, writable: true });

/** Set all up; called once, before the modules under test are imported. */
export function fakeBrowser() {
  define("Element", Element);
  define("location", { href: "http://127.0.0.1/" });
  define("navigator", { locks: { request: requestLock } });
  define("DOMParser", class { parseFromString() { return { documentElement: new Element("svg") }; } });
  define("requestAnimationFrame", (act) => waitingFrames.push(act));
  define("ResizeObserver", class { observe() {} disconnect() {} });
  freshPage();
}

/** Forget what was there: storage, locks, timers, who listens to window and document. */
export function freshPage() {
  held.clear();
  waitingFrames.length = 0;
  mock.timers.reset();
  mock.timers.enable({ apis: ["setTimeout", "Date"], now: 1_700_000_000_000 });
  define("localStorage", new Storage());
  define("sessionStorage", new Storage());
  define("window", Object.assign(new Window(), { devicePixelRatio: 1 }));
  define("document", Object.assign(new EventTarget(), { hidden: false, querySelector: () => null, body: new Element("body"), createElement: (tag) => new Element(tag), createElementNS: (_, tag) => new Element(tag) }));
  document.activeElement = document.body;
  define("fetch", () => Promise.reject(new Error("no server")));
}

async function requestLock(name, act) {
  if (held.has(name)) await new Promise((resolve) => held.get(name).push(resolve));
  else held.set(name, []);
  return Promise.resolve(act({ name })).finally(() => releaseLock(name));
}

/** The page that held a lock is gone. */
export function releaseLock(name) {
  const next = held.get(name)?.shift();
  if (next) next();
  else held.delete(name);
}

/** Draw the next frame. */
export function frame() {
  for (const act of waitingFrames.splice(0)) act();
}

/** Let everything happen that waits for nothing but its turn. */
export async function settle() {
  for (let k = 0; k < 5; k++) await new Promise((resolve) => setImmediate(resolve));
}

/** Let time pass. */
export async function pass(ms) {
  await settle();
  mock.timers.tick(ms);
  await settle();
}

/**
 * A server whose answers wait until a test gives them.
 * @returns {requests: [{url, body, init, answer(json, status), fail()}], open: those without an answer}
 */
export function fakeServer() {
  const requests = [];
  globalThis.fetch = (url, init = {}) => new Promise((resolve, reject) => {
    const request = { url, init, body: init.body && JSON.parse(init.body), isOpen: true };
    const end = (act) => (value) => {
      request.isOpen = false;
      act(value);
    };
    request.answer = (json, status = 200, headers = {}) => end(resolve)({ ok: status < 400, status, headers: new Headers(headers), json: async () => json, text: async () => String(json), arrayBuffer: async () => json });
    request.fail = () => end(reject)(new TypeError("Failed to fetch"));
    init.signal?.addEventListener("abort", () => end(reject)(new Error("aborted")));
    requests.push(request);
  });
  return { requests, get open() {
    return requests.filter(({ isOpen }) => isOpen);
  } };
}

/** Sites as the page sends them, from their boxes. */
export const sitesOf = (boxes = [[0, 0, 1000, 1000]], gsd_m = 0.5) => boxes.map((box, k) => ({ name: `Site ${k + 1}`, box, gsd_m, lonlat: null }));

/** n squares in a row, ten apart, with their ids, as `Store.setGeometry` takes them; all outlines are here. */
export function squares(n, side = 4) {
  return shapesOf(ringsOf(n, side));
}

const ringsOf = (n, side) => Object.fromEntries(Array.from({ length: n }, (_, i) => [`b${i}`, [[10 * i, 0, 10 * i + side, 0, 10 * i + side, side, 10 * i, side]]]));
const boxOf = (rings) => [Math.min, Math.max].flatMap((most) => [0, 1].map((axis) => most(...rings.flatMap((ring) => ring.filter((_, k) => k % 2 === axis)))));

/** Buildings as `Store.setGeometry` takes them, in tiles in the order of their ids. @param rings of each building by its id */
export function shapesOf(rings, { perTile = Object.keys(rings).length || 1, isHere = true } = {}) {
  const ids = Object.keys(rings);
  const boxes = Float32Array.from(ids.flatMap((id) => boxOf(rings[id])));
  const areas = Float32Array.from(ids, (_, i) => (boxes[4 * i + 2] - boxes[4 * i]) * (boxes[4 * i + 3] - boxes[4 * i + 1]));
  const shapes = new Outlines({ order: Uint32Array.from(ids.keys()), boxes, perTile }, (tile) => `/outlines/${tile}.bin`);
  if (isHere) shapes.tiles = shapes.tiles.map((_, tile) => decodeTile(tileOf(rings, tile, perTile), shapes.members(tile).length));
  return { ids, areas, shapes };
}

/** What the server sends of a tile; see `geo/vector/outlines.py`. */
export function tileOf(rings, tile, perTile) {
  const some = Object.values(rings).slice(tile * perTile, (tile + 1) * perTile);
  const counts = Uint32Array.from([...some.map((each) => each.length), ...some.flat().map((ring) => ring.length / 2)]);
  return joined(counts, Float32Array.from(some.flat(2)));
}

/** What the server sends first of n squares. */
export function firstPart(n, { side = 4, prefix = "" } = {}) {
  const { ids, areas, shapes } = squares(n, side);
  const names = new TextEncoder().encode(JSON.stringify(ids.map((id) => prefix + id)));
  const name = new TextEncoder().encode("0123456789abcdef".repeat(2));
  return joined(Uint32Array.of(n, n, 1, names.length), name, shapes.order, shapes.boxes, areas, names);
}

function joined(...arrays) {
  const bytes = new Uint8Array(arrays.reduce((sum, { byteLength }) => sum + byteLength, 0));
  arrays.reduce((at, { buffer, byteOffset, byteLength }) => (bytes.set(new Uint8Array(buffer, byteOffset, byteLength), at), at + byteLength), 0);
  return bytes.buffer;
}
