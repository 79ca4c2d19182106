// One view: toolbar, scatter, map, queue and wall on one store and one operation log.

import { Card } from "./card.js";
import { ChipPictures } from "./chip_pictures.js";
import { NOT_ASSESSABLE, NOT_DAMAGED, POSITIVE, UNLABELED } from "./colors.js";
import { h, remember, remembered } from "./dom.js";
import { Explore } from "./explore.js";
import { listenForKeys } from "./keys.js";
import { Labeler } from "./labeler.js";
import { Loader } from "./loader.js";
import { MapPane } from "./map_pane.js";
import { MarkBar } from "./mark_bar.js";
import { OperationLog } from "./oplog.js";
import { Panes } from "./panes.js";
import { Presence } from "./presence.js";
import { QueuePane } from "./queue_pane.js";
import { QueueState } from "./queue_state.js";
import { ReasonPicker } from "./reason_picker.js";
import { Store } from "./store.js";
import { Toolbar } from "./toolbar.js";
import { WallPane } from "./wall_pane.js";

const logs = new Map(); // by project; they outlive a change of page

const VIEW_KEYS = { a: "pre", s: "swipe", d: "post", f: "side" };
const MARK_KEYS = { 1: POSITIVE, 2: NOT_DAMAGED, 3: NOT_ASSESSABLE };

export class DamageView {
  constructor(style) {
    const store = (this.store = new Store());
    this.loader = new Loader(store, (error) => this.#sayNotLoaded(error));
    this.queue = new QueueState(store, {
      wish: (operation) => this.labeler.usable && this.log.add(operation, { now: true }),
      moved: (hasWalked) => this.#queueMoved(hasWalked),
    });
    this.labeler = new Labeler(store, () => this.log, this.queue, (...answer) => this.#answered(...answer));
    this.pictures = new ChipPictures();
    this.picker = new ReasonPicker(store, this.pictures, (...reason) => this.labeler.because(...reason));
    this.marks = new MarkBar((numbers, code) => this.#markMany(numbers, code));
    this.card = new Card(store, (i, change) => this.labeler.edit(i, change), this.pictures);
    const actions = {
      label: (i, wish, screen) => this.labeler.usable && this.labeler.toggle(i, wish, screen),
      many: (numbers, adds) => (store.picks ? store.choose(numbers, adds) : this.labeler.usable && this.marks.ask(numbers)),
      select: (i) => store.set("selected", i),
      locate: (i) => this.locate(i),
    };
    this.map = new MapPane(store, actions);
    this.wall = new WallPane(store, this.pictures, actions);
    this.queuePane = new QueuePane(store, this.queue, this.pictures, (i, code) => this.labeler.give([i], code, "queue"));
    this.explore = new Explore(this);
    this.presence = new Presence(store, () => this.queue.current?.i ?? store.selected);
    this.#build(style);
    this.stopKeys = listenForKeys(this.root, (name, event) => this.#key(name, event), () => this.queue.current !== null);
    this.logChanged = () => this.#showLog();
    for (const event of ["geometry", "labels", "seen"]) store.on(event, () => this.toolbar.showCounts());
    store.on("selected", () => this.presence.moved());
    store.on("others", () => this.toolbar.showOthers(this.data.here));
    for (const event of ["scores", "view", "colorBy", "outlines", "shifts", "arrows"]) store.on(event, () => this.data && this.toolbar.show(this.data));
  }

  #build(style) {
    const { store } = this;
    this.toolbar = new Toolbar(store, {
      view: (view) => this.#setView(view),
      colors: (by) => this.#setColors(by),
      toggle: (name) => this.#toggle(name),
      step: (which) => this.#step(which),
      card: () => this.card.toggle(),
      dismiss: () => this.log.dismiss(),
    });
    const parts = { scatter: this.explore.pane, map: this.map, queuePane: this.queuePane, wall: this.wall };
    this.panes = new Panes(parts, [this.card.root, this.picker.root, parts.scatter.preview.root], { tab: (tab) => this.#setTab(tab), resized: () => this.#look({}) });
    this.map.root.append(this.marks.root);
    this.root = h("div.pugeo", { tabindex: "-1" }, h("style", {}, style), this.toolbar.root, this.panes.root, this.explore.bar.root, this.toolbar.help);
  }

  /** Called on each run of the page. */
  update({ data, setStateValue }) {
    Object.assign(this, { data, setStateValue });
    this.store.set("mode", data.mode);
    if (data.token !== this.token) this.#openProject(data);
    if (data.mode === "label") this.log.connect(this, (value) => this.setStateValue("operations", value), data);
    else this.log.disconnect(this); // nobody would store them
    this.root.style.height = `${data.height}px`;
    this.root.dataset.mode = data.mode;
    this.store.set("threshold", data.threshold);
    if (data.layers.length === 1) this.store.set("view", data.layers[0].name);
    this.store.setConflicts(data.conflicts);
    this.#load(data);
    if (data.wall) this.pictures.configure(data);
    this.explore.update(data);
    this.#showPanes();
    if (data.panes.includes("map")) this.map.configure(data);
    if (data.wall) this.wall.configure(data);
    this.queuePane.configure(data);
    this.card.configure(data);
    this.presence.update(data, this.log.session);
    this.log.take(data); // brings the labels, which say what of the queue is answered
    this.queue.take(data.token, data.mode === "label" ? data.queue : null);
    this.toolbar.show(data);
  }

  #openProject({ token, color_by }) {
    this.store.set("selected", -1); // a comment that is being written goes into the log of the project it belongs to
    this.picker.close();
    this.marks.close();
    this.log?.disconnect(this);
    this.token = token;
    if (!logs.has(token)) logs.set(token, new OperationLog(token));
    this.log = logs.get(token);
    this.log.changed = this.logChanged;
    const saved = remembered(`pugeo:look:${token}`, {});
    this.store.set("view", saved.view ?? "post");
    this.store.set("colorBy", saved.colorBy ?? color_by ?? "labels");
    this.store.set("arrows", saved.arrows ?? false);
    this.tab = saved.tab ?? "queue";
    this.panes.split({ share: saved.split ?? 0.6, first: saved.first });
    this.givenColor = color_by;
  }

  #load(data) {
    if (data.color_by && data.color_by !== this.givenColor) this.store.set("colorBy", data.color_by);
    this.givenColor = data.color_by;
    this.loader.load(data);
  }

  #sayNotLoaded(error) {
    const textContent = `The server did not send the buildings or their scores (${error.message}). Reload the page.`;
    Object.assign(this.map.notice, { hidden: false, textContent });
  }

  // ---- labelling ----

  #answered(numbers, code, act, screen) {
    this.isOnMap = screen === "map";
    if (code === NOT_ASSESSABLE) this.picker.open(numbers, act);
    else this.picker.close();
    if (numbers.length === 1) this.store.set("selected", numbers[0]);
  }

  #markMany(numbers, code) {
    this.labeler.give(numbers.filter((i) => this.store.labels[i] !== code), code, "map");
  }

  #step(which) {
    this.picker.close(); // what it would explain may be gone
    this.card.commit();
    if (which === "undo") this.queue.expectUndo();
    this.labeler.step(which);
  }

  get selectedId() {
    return this.store.selected < 0 ? null : this.store.ids[this.store.selected];
  }

  locate(i) {
    if (!this.map.root.hidden) this.map.locate(i);
    this.store.set("selected", i);
  }

  // Under a pointer that clicks on the map, the map stays.
  #queueMoved(hasWalked) {
    if (hasWalked) this.isOnMap = false;
    const i = this.queue.current?.i ?? -1;
    this.queuePane.later();
    this.presence.moved();
    if (i === this.shownItem) return;
    this.shownItem = i;
    if (i < 0) return;
    this.store.set("selected", i);
    if (!this.map.root.hidden && !this.isOnMap) this.map.locateSoon(i);
  }

  // ---- keys ----

  #key(name, event) {
    const { store } = this;
    if (this.picker.key(name, this.queue.current !== null)) return true;
    if (name === "undo" || name === "redo") return this.labeler.usable && (this.#step(name), true);
    if (this.explore.key(name)) return true;
    if (this.queue.isActive && this.#queueKey(name, event)) return true;
    if (this.#lookKey(name)) return true;
    const target = [this.map.underPointer(), store.hovered, store.selected].find((i) => i >= 0) ?? -1;
    const canMark = this.labeler.usable && target >= 0;
    if (name in MARK_KEYS) return canMark && (this.labeler.toggle(target, MARK_KEYS[name], "keys"), true);
    switch (name) {
      case "0": case "Backspace": return canMark && (store.labels[target] !== UNLABELED && this.labeler.give([target], UNLABELED, "keys"), true);
      case "Enter": return this.labeler.usable && store.selected >= 0 && (this.labeler.toggle(store.selected, "toggle", "keys"), true);
      case "k": return target >= 0 && !this.panes.side.hidden && Boolean(this.data.wall) && (this.#setTab("wall"), this.wall.sortLike(target), true);
      case "l": return target >= 0 && (this.locate(target), true);
      case "q": return this.hasQueue && (this.#setTab("queue"), true);
      case "w": return this.hasQueue && this.hasWall && (this.#setTab(this.tab === "queue" ? "wall" : "queue"), true);
      case "Escape": return this.#escape();
      default: return !this.wall.root.hidden && this.wall.walk(name);
    }
  }

  // Whatever an analyst does in the queue but for a letter of the picker means that the reason stays as it is.
  #queueKey(name, event) {
    const used = this.queuePane.key(name, event);
    if (used && !(name in MARK_KEYS)) this.picker.close();
    return used;
  }

  #lookKey(name) {
    const { store } = this;
    const mapShown = !this.map.root.hidden;
    if (name in VIEW_KEYS) return mapShown && (this.#setView(VIEW_KEYS[name]), true);
    switch (name) {
      case "space": return mapShown && (this.#toggle("outlines"), true);
      case "v": return mapShown && Boolean(store.shifts) && (this.#toggle("arrows"), true);
      case "p": return Boolean(store.scores) && (this.#setColors(store.colorBy === "labels" ? "scores" : "labels"), true);
      case "i": return this.card.toggle(), true;
      case "?": return this.toolbar.toggleHelp(), true;
      default: return false;
    }
  }

  #escape() {
    if (!this.toolbar.help.hidden) this.toolbar.toggleHelp();
    else if (!this.marks.root.hidden) this.marks.close();
    else if (this.picker.isOpen) this.picker.close();
    else if (!this.card.root.hidden) this.card.toggle();
    else if (this.explore.escape()) return true;
    else if (this.store.selected >= 0) this.store.set("selected", -1);
    else return false;
    return true;
  }

  // ---- look ----

  get hasQueue() {
    return this.data.mode === "label" && Boolean(this.data.queue);
  }

  get hasWall() {
    return this.data.panes.includes("wall") && Boolean(this.data.wall);
  }

  #showPanes() {
    const queueShown = this.hasQueue && (this.tab === "queue" || !this.hasWall);
    const { hasQueue, hasWall } = this;
    this.panes.show({ hasScatter: this.explore.isActive, hasMap: this.data.panes.includes("map"), hasQueue, hasWall, queueShown });
    this.queue.setActive(queueShown);
  }

  #setTab(tab) {
    this.tab = tab;
    this.#look({});
    this.#showPanes();
    this.queuePane.later(true);
  }

  #look(change) {
    const { view, colorBy, arrows } = this.store;
    remember(`pugeo:look:${this.token}`, { view, colorBy, arrows, split: this.panes.share, first: this.panes.first, tab: this.tab, ...change });
  }

  #setView(view) {
    if (this.data.layers.length < 2) return;
    this.store.set("view", view);
    this.#look({});
  }

  #setColors(by) {
    if (by === "scores" && !this.store.scores) return;
    this.store.set("colorBy", by);
    this.#look({});
  }

  #toggle(name) {
    this.store.set(name, !this.store[name]);
    this.#look({});
  }

  #showLog() {
    this.store.setLabels(this.data.labels, this.log, this.data.details);
    this.toolbar.showStatus(this.log);
  }

  dispose() {
    this.card.dispose();
    this.explore.dispose();
    this.presence.dispose();
    this.stopKeys();
    if (this.log) {
      this.log.disconnect(this);
      if (this.log.changed === this.logChanged) this.log.changed = () => {};
    }
    this.map.dispose();
    this.wall.dispose();
    this.root.remove();
  }
}
