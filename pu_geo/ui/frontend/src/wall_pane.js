// The chip wall: every building as a small picture, pre above post; only what is in view exists.

import { NOT_DAMAGED, scoreStep, stepColor } from "./colors.js";
import { chipLabel, markHere } from "./describe.js";
import { h, icon, isSelecting, isShown, offer, onceAFrame, remember, remembered } from "./dom.js";
import { colorOf } from "./grades.js";
import { TEXTS } from "./texts.js";
import { arrange, distancesFrom, usableFilters, usableOrders } from "./wall_order.js";

const { wall: words } = TEXTS;
const GAP = 6;
const [LINE_PX, LETTER_PX, MOST_LINES] = [13, 5.6, 6]; // of the notes below chips, which say why they are asked for
const SIZES = { S: 64, M: 96, L: 148 };

export class WallPane {
  /** @param actions {label(i, code | "toggle"), many(numbers, adds), select(i), locate(i)} */
  constructor(store, pictures, preview, actions) {
    Object.assign(this, { store, pictures, preview, actions, drawSoon: onceAFrame(() => this.#draw()) });
    this.like = null; // {i, distances} of the chip that others are compared with
    this.order = "score";
    this.filter = "all";
    this.size = "M";
    this.items = [];
    this.cells = new Map();
    this.cursor = -1; // place in items
    this.runway = h("div.runway", { role: "list", "aria-label": words.list });
    this.scroller = h("div.scroller", { onscroll: () => this.#later() }, this.runway);
    this.empty = h("div.empty", { hidden: true });
    this.box = new WallBox(this.scroller, this.runway, () => store.picks, (box, adds) => actions.many(this.#within(box), adds));
    this.orderSelect = h("select", { title: words.orderHint, "aria-label": words.order, onchange: () => this.#choose({ order: this.orderSelect.value }) });
    this.filterSelect = h("select", { title: words.showHint, "aria-label": words.show, onchange: () => this.#choose({ filter: this.filterSelect.value }) });
    this.slider = h("input", { type: "range", min: "0", max: "2", step: "1", title: words.size, "aria-label": words.size, oninput: () => this.#choose({ size: "SML"[this.slider.value] }) });
    this.count = h("span.count");
    this.renew = h("button.renew", { type: "button", hidden: true, title: words.reorderHint, onclick: () => this.#sort() }, words.reorder);
    this.asks = h("div.asks", { role: "status" });
    const tools = h("div.tools", {}, this.asks, this.orderSelect, this.filterSelect, h("span.size", {}, h("small", {}, words.smallest), this.slider, h("small", {}, words.largest)), this.renew, this.count);
    this.root = h("section.pane.wallpane", { "aria-label": words.region }, tools, h("div.stage", {}, this.scroller, this.empty));
    this.#listen();
  }

  #listen() {
    const { store } = this;
    store.on("geometry", () => this.#sort());
    store.on("emptied", () => this.#forget());
    store.on("scores", () => this.#sortWhenSafe());
    this.root.addEventListener("pointerenter", () => (this.over = true));
    this.root.addEventListener("pointerleave", () => {
      this.over = false;
      if (!this.renew.hidden) this.#sort();
    });
    for (const event of ["labels", "grades", "reviewed"]) store.on(event, () => this.#later());
    store.on("scale", () => this.#showTools());
    for (const event of ["layer", "named"]) store.on(event, () => this.#later(true));
    store.on("blind", () => this.#sortWhenSafe()); // a place in the order tells of the score
    store.on("conflicts", () => (this.filter === "conflicts" ? this.#sortWhenSafe() : this.#showTools()));
    store.on("imageQuality", () => this.#sortWhenSafe());
    for (const event of ["chosen", "asked"]) store.on(event, () => this.#showChosen());
    store.on("selected", () => this.#follow(!this.clicking));
    for (const event of ["hovered", "others"]) store.on(event, () => this.#later());
    const on = (name, act) => this.runway.addEventListener(name, (event) => {
      const cell = event.target.closest?.(".chip");
      if (!cell) return;
      this.clicking = true;
      act(Number(cell.dataset.building), event);
      this.clicking = false;
    });
    on("click", (i, event) => {
      if (event.target.closest(".alike")) this.sortLike(i);
      else if (event.target.closest(".locate")) this.actions.locate(i);
      else if (store.clickLabels && !isSelecting(event)) this.actions.label(i, "toggle", "wall");
      else {
        this.preview.hide(); // the card has it all
        this.actions.select(i);
      }
    });
    on("dblclick", (i) => store.clickLabels || this.actions.locate(i));
    on("contextmenu", (i, event) => {
      event.preventDefault();
      if (isSelecting(event)) this.actions.select(i);
      else if (!store.picks) this.actions.label(i, NOT_DAMAGED, "wall");
    });
    on("pointerover", (i, event) => this.#hover(i, event));
    this.runway.addEventListener("pointerleave", () => this.#leave());
    this.scroller.addEventListener("scroll", () => this.over && this.#leave()); // a click on the map scrolls the wall too
    new ResizeObserver(() => this.#later(true)).observe(this.scroller);
  }

  /** Called after `pictures` were configured. */
  configure(data) {
    this.data = data;
    this.wall = data.wall;
    const configured = JSON.stringify([data.wall, this.pictures.configured]);
    if (configured !== this.configured) {
      this.configured = configured;
      this.storageKey = `pugeo:wall:${data.token}`;
      const saved = remembered(this.storageKey, {});
      Object.assign(this, { order: saved.order ?? "score", filter: saved.filter ?? "all", size: saved.size ?? "M", like: null });
      if (saved.order === "like") this.order = "score"; // the chosen chip is not kept
      this.#sort();
    }
    this.#showTools();
  }

  /** Whether a question fills the wall: what it asks for, in its order. What is selected comes before it. */
  get isAsked() {
    return this.store.asked !== null && !this.store.chosen.length;
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
    offer(this.orderSelect, usableOrders(this.store, this.like));
    offer(this.filterSelect, usableFilters(this.store));
    this.orderSelect.value = this.effectiveOrder;
    this.filterSelect.value = this.effectiveFilter;
    this.slider.value = "SML".indexOf(this.size);
  }

  get effectiveOrder() {
    return usableOrders(this.store, this.like).some(([value]) => value === this.order) ? this.order : "id";
  }

  get effectiveFilter() {
    return usableFilters(this.store).some(([value]) => value === this.filter) ? this.filter : "all";
  }

  /** Put the chips that resemble chip i first. Where the server cannot tell, everything stays as it is. */
  async sortLike(i) {
    const { configured } = this;
    const found = i >= 0 && i < this.chips ? await distancesFrom(i, this.store.n, this.data) : null;
    if (!found || configured !== this.configured) return;
    this.like = { i, distances: found };
    this.#choose({ order: "like" });
  }

  #forget() {
    this.preview.hide();
    this.items = [];
    this.placeOf = new Map();
    this.cursor = -1;
    for (const [place, cell] of this.cells) this.#remove(place, cell);
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

  /** Which chips, in which order. Labels set since then do not move chips away under the pointer. @param keeps whether the selected chip, if it is in view, is followed to its new place */
  #sort(keeps = true) {
    const { store } = this;
    if (!store.ready || !this.wall) return;
    this.isStale = this.root.hidden; // sorted once somebody looks: scores change with each answer in the queue
    if (this.isStale) return;
    const follows = keeps && !this.over && store.selected >= 0 && this.isInView(store.selected); // wherever it goes now
    this.items = this.isAsked ? store.asked.places.filter((i) => i < this.chips) : arrange(store, this.chips, { order: this.effectiveOrder, filter: this.effectiveFilter, like: this.like });
    this.placeOf = new Map(this.items.map((i, place) => [i, place]));
    this.cursor = this.placeOf.get(store.selected) ?? -1;
    this.renew.hidden = true;
    this.#showTools();
    this.#later(true);
    if (follows) this.#follow(true);
  }

  #showChosen() {
    if (!this.store.picks) return;
    this.#sort(false);
    this.scroller.scrollTop = 0;
    if (this.isAsked) this.#follow(true);
  }

  /** Numbers of the buildings whose chips a box of the runway touches. */
  #within([left, top, right, bottom]) {
    const [wide, high] = [this.cellWidth + GAP, this.row];
    return this.items.filter((_, place) => {
      const [x, y] = [GAP + (place % this.columns) * wide, GAP + Math.floor(place / this.columns) * high];
      return x <= right && y <= bottom && x + this.cellWidth >= left && y + this.cellHeight >= top;
    });
  }

  #later(relayout = false) {
    this.relayout ||= relayout;
    this.drawSoon();
  }

  #layout() {
    const width = this.scroller.clientWidth - GAP;
    this.columns = Math.max(1, Math.round(width / (SIZES[this.size] + GAP)));
    this.cellWidth = Math.floor(width / this.columns) - GAP;
    this.cellHeight = this.cellWidth * this.pictures.parts.length;
    const longest = this.isAsked ? Math.max(0, ...this.items.map((i) => this.store.asked.notes.get(i).length)) : 0;
    this.noteHeight = longest && 4 + LINE_PX * Math.min(MOST_LINES, Math.ceil((longest * LETTER_PX) / this.cellWidth));
    this.row = this.cellHeight + GAP + this.noteHeight;
    this.runway.style.height = `${Math.ceil(this.items.length / this.columns) * this.row + GAP}px`;
    this.root.classList.toggle("asked", this.isAsked);
    this.runway.dataset.size = this.size;
    for (const [place, cell] of this.cells) this.#remove(place, cell);
  }

  #draw() {
    if (!this.wall || !this.store.ready || !this.scroller.clientWidth) return;
    if (this.isStale) this.#sort();
    if (this.relayout || this.columns === undefined) this.#layout();
    this.relayout = false;
    const { row } = this;
    const first = Math.max(0, Math.floor(this.scroller.scrollTop / row) - 1) * this.columns;
    const last = Math.min(this.items.length, (Math.ceil((this.scroller.scrollTop + this.scroller.clientHeight) / row) + 1) * this.columns);
    for (const [place, cell] of this.cells) {
      if (place < first || place >= last) this.#remove(place, cell);
    }
    for (let place = first; place < last; place++) {
      if (!this.cells.has(place)) this.#make(place);
      this.#dress(this.cells.get(place), this.items[place]);
    }
    this.#rove(Math.ceil(this.scroller.scrollTop / row) * this.columns);
    const total = this.chips;
    const shown = this.items.length;
    this.count.textContent = words.count(shown, total);
    if (this.isAsked) this.asks.replaceChildren(h("b", {}, this.store.asked.title), h("span.soft", {}, words.answered(this.items.filter(this.store.asked.isAnswered).length, shown)));
    this.empty.hidden = shown > 0;
    this.empty.textContent = total ? words.noMatch : words.noChips;
  }

  #make(place) {
    const i = this.items[place];
    const [column, row] = [place % this.columns, Math.floor(place / this.columns)];
    // The face is what Tab and arrows reach; what the small buttons do, keys do as well.
    const face = h("div.face", { role: "button", tabindex: "-1", "data-view-keys": "yes", onfocus: () => this.#focused(i) }, this.pictures.make(i, this.cellWidth));
    const cell = h("div.chip", { role: "listitem", "data-building": i, style: `width:${this.cellWidth}px;height:${this.cellHeight}px;transform:translate(${GAP + column * (this.cellWidth + GAP)}px,${GAP + row * this.row}px)` },
      face, h("span.badge", { "aria-hidden": "true" }), h("span.here"), h("span.graded", { "aria-hidden": "true" }),
      h("button.locate", { type: "button", title: words.locate, "aria-label": words.locate, tabindex: "-1" }, icon("target")),
      h("button.locate.alike", { type: "button", title: words.alike, "aria-label": words.alike, tabindex: "-1" }, icon("alike")));
    if (this.isAsked) cell.append(h("small.reason", { style: `height:${this.noteHeight}px` }, this.store.asked.notes.get(i)));
    cell.dataset.parts = this.pictures.parts.length;
    this.runway.append(cell);
    this.cells.set(place, cell);
  }

  #dress(cell, i) {
    const { store } = this;
    const code = store.labels[i];
    const score = store.score(i);
    cell.dataset.label = code;
    cell.style.setProperty("--c", colorOf(store, i));
    const number = store.grades[i];
    const tag = cell.querySelector(".graded");
    tag.textContent = number ? store.scale.grades[number - 1].name : "";
    tag.dataset.pattern = store.scale.pattern(number);
    cell.classList.toggle("obscured", store.isHidden(i));
    cell.classList.toggle("selected", i === store.selected);
    cell.classList.toggle("done", this.isAsked && store.asked.isAnswered(i));
    cell.classList.toggle("hovered", i === store.hovered);
    markHere(cell.querySelector(".here"), store.othersAt(i));
    const badge = cell.children[1];
    badge.textContent = score === null ? "" : TEXTS.number(store.ranks[i]);
    const face = cell.firstChild;
    face.setAttribute("aria-label", chipLabel(store, i));
    face.setAttribute("aria-pressed", String(code !== 0));
    badge.style.setProperty("--score", score === null ? "transparent" : stepColor(scoreStep(score)));
  }

  // ---- walking ----

  // One face at a time is reached by Tab: that of the cursor, else the first in view.
  #rove(first) {
    const place = this.cells.has(this.cursor) ? this.cursor : first;
    const focused = this.root.getRootNode().activeElement;
    const isInside = focused?.classList.contains("face") && this.runway.contains(focused);
    for (const [each, cell] of this.cells) cell.firstChild.setAttribute("tabindex", each === place ? "0" : "-1");
    const face = this.cells.get(place)?.firstChild;
    if (face && face !== focused && (isInside || this.lostFocus)) face.focus({ preventScroll: true });
    this.lostFocus = false;
  }

  #focused(i) {
    if (this.store.selected === i || !this.root.closest("[data-tabbed]")) return;
    this.clicking = true; // it is in view
    this.actions.select(i);
    this.clicking = false;
  }

  #remove(place, cell) {
    this.lostFocus ||= cell.contains(cell.getRootNode().activeElement);
    cell.remove();
    this.cells.delete(place);
  }

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
      const top = GAP + Math.floor(place / this.columns) * this.row;
      const { scrollTop, clientHeight } = this.scroller;
      if (top < scrollTop) this.scroller.scrollTop = top - GAP;
      else if (top + this.row - GAP > scrollTop + clientHeight) this.scroller.scrollTop = top + this.row - clientHeight;
    }
    this.#later();
  }

  // ---- pointer ----

  #hover(i, event) {
    this.store.set("hovered", i);
    const [wall, cell] = [this.root, event.target.closest(".chip")].map((each) => each.getBoundingClientRect());
    this.preview.soon(i, [wall.left, cell.top, wall.right, cell.bottom]); // beside the wall: chips stay free
  }

  #leave() {
    this.preview.hide();
    this.store.set("hovered", -1);
  }

  /** Whether the chip of building i is in view. */
  isInView(i) {
    const cell = this.cells.get(this.placeOf?.get(i));
    return Boolean(cell) && isShown(cell.getBoundingClientRect(), cell);
  }

  dispose() {
    this.preview.hide();
  }
}

// Shift + drag on the wall of chips: a box that selects.
const CLICK_PX = 4;

class WallBox {
  /**
   * @param scroller holds the chips and scrolls them
   * @param isWanted () => whether boxes are drawn here at all
   * @param done ([left, top, right, bottom] in pixels of what is scrolled, adds)
   */
  constructor(scroller, runway, isWanted, done) {
    Object.assign(this, { scroller, runway, isWanted, done });
    this.root = h("div.dragbox.onwall", { hidden: true });
    runway.append(this.root);
    scroller.addEventListener("pointerdown", (event) => this.#down(event), true);
    scroller.addEventListener("pointermove", (event) => this.from && this.#show(event));
    scroller.addEventListener("pointerup", (event) => this.#up(event));
    scroller.addEventListener("pointercancel", () => this.#end());
    scroller.addEventListener("click", (event) => this.justDrawn && this.#swallow(event), true); // no chip was clicked
  }

  #at(event) {
    const { left, top } = this.runway.getBoundingClientRect();
    return [event.clientX - left, event.clientY - top];
  }

  #down(event) {
    this.justDrawn = false;
    if (event.button || !event.shiftKey || !this.isWanted()) return;
    event.preventDefault();
    this.scroller.setPointerCapture(event.pointerId);
    this.from = this.#at(event);
  }

  #boxTo(event) {
    const [x, y] = this.#at(event);
    return [Math.min(x, this.from[0]), Math.min(y, this.from[1]), Math.max(x, this.from[0]), Math.max(y, this.from[1])];
  }

  #show(event) {
    const [left, top, right, bottom] = this.#boxTo(event);
    this.root.hidden = false;
    Object.assign(this.root.style, { left: `${left}px`, top: `${top}px`, width: `${right - left}px`, height: `${bottom - top}px` });
  }

  #up(event) {
    if (!this.from) return;
    const box = this.#boxTo(event);
    this.#end();
    this.justDrawn = true;
    if (Math.max(box[2] - box[0], box[3] - box[1]) >= CLICK_PX) this.done(box, event.ctrlKey || event.metaKey);
  }

  #swallow(event) {
    this.justDrawn = false;
    event.stopPropagation();
    event.preventDefault();
  }

  #end() {
    this.from = null;
    this.root.hidden = true;
  }
}
