// The chip wall: every building as a small picture, pre above post, cut out of sprite sheets; only what is in view exists.

import { LABEL_COLORS, NOT_DAMAGED, POSITIVE, UNLABELED, stepColor, scoreStep } from "./colors.js";
import { describe } from "./map_pane.js";
import { h, icon, remember, remembered } from "./dom.js";

const GAP = 6;
const SIZES = { S: 64, M: 96, L: 148 };
const PREVIEW_DELAY_MS = 450;
const PREVIEW_PX = 220;

export const ORDERS = [["score", "Score, high first"], ["uncertain", "Most uncertain"], ["area", "Area, large first"], ["id", "Building id"]];
export const FILTERS = [["all", "All"], ["unlabeled", "Unlabeled"], ["positive", "Positive"], ["not_damaged", "Not damaged"], ["not_assessable", "Not assessable"]];
const FILTER_CODES = { unlabeled: UNLABELED, positive: POSITIVE, not_damaged: NOT_DAMAGED, not_assessable: 3 };

export class WallPane {
  /** @param actions {label(i, code | "toggle"), select(i), locate(i)} */
  constructor(store, actions) {
    this.store = store;
    this.actions = actions;
    this.order = "score";
    this.filter = "all";
    this.size = "M";
    this.items = [];
    this.cells = new Map();
    this.cursor = -1; // place in items
    this.runway = h("div.runway");
    this.scroller = h("div.scroller", { tabindex: "0", "aria-label": "Chips", onscroll: () => this.#later() }, this.runway);
    this.empty = h("div.empty", { hidden: true });
    this.preview = h("div.preview", { hidden: true });
    this.orderSelect = h("select", { title: "Order of the chips", "aria-label": "Order", onchange: () => this.#choose({ order: this.orderSelect.value }) });
    this.filterSelect = h("select", { title: "Which chips are shown", "aria-label": "Show", onchange: () => this.#choose({ filter: this.filterSelect.value }) },
      ...FILTERS.map(([value, text]) => h("option", { value }, text)));
    this.slider = h("input", { type: "range", min: "0", max: "2", step: "1", title: "Chip size", "aria-label": "Chip size", oninput: () => this.#choose({ size: "SML"[this.slider.value] }) });
    this.count = h("span.count");
    this.renew = h("button.renew", { type: "button", hidden: true, title: "Scores changed since the chips were put in order", onclick: () => this.#sort() }, "Reorder");
    const tools = h("div.tools", {}, this.orderSelect, this.filterSelect, h("span.size", {}, h("small", {}, "S"), this.slider, h("small", {}, "L")), this.renew, this.count);
    this.root = h("section.pane.wallpane", { "aria-label": "Chip wall" }, tools, h("div.stage", {}, this.scroller, this.empty), this.preview);
    this.#listen();
  }

  #listen() {
    const { store } = this;
    store.on("geometry", () => this.#sort());
    store.on("scores", () => this.#sortWhenSafe());
    this.root.addEventListener("pointerenter", () => (this.over = true));
    this.root.addEventListener("pointerleave", () => {
      this.over = false;
      if (!this.renew.hidden) this.#sort();
    });
    store.on("labels", () => this.#later());
    store.on("selected", () => this.#follow(!this.clicking));
    store.on("hovered", () => this.#later());
    const on = (name, act) => this.runway.addEventListener(name, (event) => {
      const cell = event.target.closest?.(".chip");
      if (!cell) return;
      this.clicking = true;
      act(Number(cell.dataset.building), event);
      this.clicking = false;
    });
    on("click", (i, event) => {
      if (event.target.closest(".locate")) this.actions.locate(i);
      else if (store.mode === "label") this.actions.label(i, "toggle", "wall");
      else this.actions.select(i);
    });
    on("dblclick", (i) => store.mode === "view" && this.actions.locate(i));
    on("contextmenu", (i, event) => {
      event.preventDefault();
      this.actions.label(i, NOT_DAMAGED, "wall");
    });
    on("pointerover", (i, event) => this.#hover(i, event));
    this.runway.addEventListener("pointerleave", () => this.#leave());
    this.scroller.addEventListener("scroll", () => this.#leave());
    new ResizeObserver(() => this.#later(true)).observe(this.scroller);
  }

  configure({ token, base, wall, gsd_m }) {
    this.gsd = gsd_m;
    const key = JSON.stringify([token, wall]);
    if (key !== this.configured) {
      this.configured = key;
      this.wall = wall;
      this.urlOf = (sheet) => `${base}/${token}/sheets/${wall.chip_set}/${sheet}.jpg?v=${wall.v ?? ""}`;
      this.storageKey = `pugeo:wall:${token}`;
      const saved = remembered(this.storageKey, {});
      Object.assign(this, { order: saved.order ?? "score", filter: saved.filter ?? "all", size: saved.size ?? "M" });
      this.#sort();
    }
    this.#showTools();
  }

  /** Chip k shows building k. */
  get chips() {
    return Math.min(this.wall.n, this.store.n);
  }

  #choose(settings) {
    Object.assign(this, settings);
    remember(this.storageKey, { order: this.order, filter: this.filter, size: this.size });
    this.#showTools();
    if (settings.size) this.#later(true);
    else {
      this.#sort();
      this.scroller.scrollTop = 0;
    }
  }

  #showTools() {
    const usable = ORDERS.filter(([value]) => this.store.scores || !["score", "uncertain"].includes(value));
    const shown = usable.map(([value]) => value).join();
    if (shown !== this.shownOrders) {
      this.shownOrders = shown;
      this.orderSelect.replaceChildren(...usable.map(([value, text]) => h("option", { value }, text)));
    }
    this.orderSelect.value = this.effectiveOrder;
    this.filterSelect.value = this.filter;
    this.slider.value = "SML".indexOf(this.size);
  }

  get effectiveOrder() {
    const { order, store } = this;
    if (["score", "uncertain"].includes(order) && !store.scores) return "id";
    return order;
  }

  // Chips must not change places under a pointer that is about to click: new scores come after each answer.
  #sortWhenSafe() {
    if (!this.over || !this.items.length) this.#sort();
    else {
      this.renew.hidden = false;
      this.#showTools();
      this.#later();
    }
  }

  /** Which chips, in which order. Labels set since then do not move chips away under the pointer. */
  #sort() {
    const { store } = this;
    if (!store.ready || !this.wall) return;
    const order = this.effectiveOrder;
    let items = Array.from({ length: this.chips }, (_, i) => i);
    if (this.filter !== "all") items = items.filter((i) => store.labels[i] === FILTER_CODES[this.filter]);
    const by = {
      score: (i) => -(store.score(i) ?? -1),
      uncertain: (i) => Math.abs((store.score(i) ?? 9) - (store.threshold ?? 0.5)),
      area: (i) => -store.areas[i],
    }[order];
    if (by) {
      const keys = new Map(items.map((i) => [i, by(i)]));
      items.sort((a, b) => keys.get(a) - keys.get(b) || a - b);
    }
    if (order === "id") items.sort((a, b) => (store.ids[a] < store.ids[b] ? -1 : 1));
    this.items = items;
    this.placeOf = new Map(items.map((i, place) => [i, place]));
    this.cursor = this.placeOf.get(store.selected) ?? -1;
    this.renew.hidden = true;
    this.#showTools();
    this.#later(true);
  }

  #later(relayout = false) {
    this.relayout ||= relayout;
    if (this.scheduled) return;
    this.scheduled = true;
    requestAnimationFrame(() => {
      this.scheduled = false;
      this.#draw();
    });
  }

  #layout() {
    const width = this.scroller.clientWidth - GAP;
    this.columns = Math.max(1, Math.round(width / (SIZES[this.size] + GAP)));
    this.cellWidth = Math.floor(width / this.columns) - GAP;
    this.cellHeight = Math.round((this.cellWidth * this.wall.cell_h) / this.wall.cell_w);
    this.runway.style.height = `${Math.ceil(this.items.length / this.columns) * (this.cellHeight + GAP) + GAP}px`;
    this.runway.dataset.size = this.size;
    for (const cell of this.cells.values()) cell.remove();
    this.cells.clear();
  }

  #draw() {
    if (!this.wall || !this.store.ready || !this.scroller.clientWidth) return;
    if (this.relayout || this.columns === undefined) this.#layout();
    this.relayout = false;
    const row = this.cellHeight + GAP;
    const first = Math.max(0, Math.floor(this.scroller.scrollTop / row) - 1) * this.columns;
    const last = Math.min(this.items.length, (Math.ceil((this.scroller.scrollTop + this.scroller.clientHeight) / row) + 1) * this.columns);
    for (const [place, cell] of this.cells) {
      if (place < first || place >= last) {
        cell.remove();
        this.cells.delete(place);
      }
    }
    for (let place = first; place < last; place++) {
      if (!this.cells.has(place)) this.#make(place);
      this.#dress(this.cells.get(place), this.items[place]);
    }
    const total = this.chips;
    const shown = this.items.length;
    this.count.textContent = shown === total ? `${total.toLocaleString("en")} chips` : `${shown.toLocaleString("en")} of ${total.toLocaleString("en")}`;
    this.empty.hidden = shown > 0;
    this.empty.textContent = total ? "No chip matches this filter." : "No chips yet. Cut them on the Imagery page.";
  }

  #make(place) {
    const i = this.items[place];
    const [column, row] = [place % this.columns, Math.floor(place / this.columns)];
    const cell = h("div.chip", { "data-building": i, style: `width:${this.cellWidth}px;height:${this.cellHeight}px;transform:translate(${GAP + column * (this.cellWidth + GAP)}px,${GAP + row * (this.cellHeight + GAP)}px)` },
      h("div.picture", { style: this.#picture(i, this.cellWidth) }), h("span.badge"),
      h("button.locate", { type: "button", title: "Show on the map", tabindex: "-1" }, icon("target")));
    if (this.wall.has_pre) cell.classList.add("both");
    this.runway.append(cell);
    this.cells.set(place, cell);
  }

  // `part`: "pre" or "post" for one half of a cell, otherwise the whole cell.
  #picture(i, width, part = null) {
    const { per_sheet, columns, cell_w, cell_h, has_pre } = this.wall;
    const at = i % per_sheet;
    const scale = width / cell_w;
    const [x, y] = [(at % columns) * cell_w * scale, (Math.floor(at / columns) * cell_h + (part === "post" && has_pre ? cell_h / 2 : 0)) * scale];
    const size = part ? `width:${width}px;height:${(cell_h * scale) / (has_pre ? 2 : 1)}px;` : "";
    // "auto" height: the last sheet may be full or cut to its last row.
    return `${size}background-image:url("${this.urlOf(Math.floor(i / per_sheet))}");background-size:${columns * cell_w * scale}px auto;background-position:${-x}px ${-y}px`;
  }

  #dress(cell, i) {
    const { store } = this;
    const code = store.labels[i];
    const score = store.score(i);
    cell.dataset.label = code;
    cell.style.setProperty("--c", LABEL_COLORS[code]);
    cell.classList.toggle("selected", i === store.selected);
    cell.classList.toggle("hovered", i === store.hovered);
    const badge = cell.children[1];
    badge.textContent = score === null ? "" : score.toFixed(2).replace(/^0/, "");
    badge.style.setProperty("--score", score === null ? "transparent" : stepColor(scoreStep(score)));
  }

  // ---- walking ----

  /** Moves by arrow keys; returns false where the key is not one of ours. */
  walk(key) {
    const step = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -this.columns, ArrowDown: this.columns }[key];
    if (step === undefined || !this.items.length) return false;
    const place = this.cursor < 0 ? 0 : Math.max(0, Math.min(this.items.length - 1, this.cursor + step));
    this.actions.select(this.items[place]);
    return true;
  }

  // A chip that was clicked is in sight; scrolling would put another one under the pointer.
  #follow(scroll) {
    this.cursor = this.placeOf?.get(this.store.selected) ?? this.cursor;
    const place = this.placeOf?.get(this.store.selected);
    if (scroll && place !== undefined && this.columns) {
      const top = GAP + Math.floor(place / this.columns) * (this.cellHeight + GAP);
      const { scrollTop, clientHeight } = this.scroller;
      if (top < scrollTop) this.scroller.scrollTop = top - GAP;
      else if (top + this.cellHeight > scrollTop + clientHeight) this.scroller.scrollTop = top + this.cellHeight + GAP - clientHeight;
    }
    this.#later();
  }

  // ---- preview ----

  #hover(i, event) {
    this.store.set("hovered", i);
    clearTimeout(this.previewTimer);
    this.preview.hidden = true;
    const cell = event.target.closest(".chip");
    this.previewTimer = setTimeout(() => cell.isConnected && this.#showPreview(i, cell), PREVIEW_DELAY_MS);
  }

  #leave() {
    clearTimeout(this.previewTimer);
    this.preview.hidden = true;
    this.store.set("hovered", -1);
  }

  #showPreview(i, cell) {
    const halves = this.wall.has_pre ? ["pre", "post"] : ["post"];
    const width = Math.min(PREVIEW_PX, Math.floor((this.root.clientWidth - 40) / halves.length));
    const pictures = halves.map((part) => h("figure", {}, h("div.picture", { style: this.#picture(i, width, part) }), h("figcaption", {}, part)));
    this.preview.replaceChildren(h("div.pair", {}, ...pictures), h("div.facts", {}, ...describe(this.store, i, this.gsd)));
    this.preview.hidden = false;
    const [box, own] = [this.root.getBoundingClientRect(), cell.getBoundingClientRect()];
    const [wide, high] = [this.preview.offsetWidth, this.preview.offsetHeight];
    const left = Math.max(4, Math.min(box.width - wide - 4, own.left - box.left + own.width / 2 - wide / 2));
    const below = own.bottom - box.top + 6;
    this.preview.style.left = `${left}px`;
    this.preview.style.top = `${below + high < box.height ? below : Math.max(4, own.top - box.top - high - 6)}px`;
  }

  clientPixelOf(i) {
    const cell = this.cells.get(this.placeOf?.get(i));
    if (!cell) return null;
    const box = cell.getBoundingClientRect();
    return [box.left + box.width / 2, box.top + box.height / 2];
  }

  dispose() {
    clearTimeout(this.previewTimer);
  }
}
