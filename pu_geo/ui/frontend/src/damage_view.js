// One view: toolbar, scatter, map, queue and wall on one store and one operation log.

import { Card } from "./card.js";
import { ChipPictures } from "./chip_pictures.js";
import { NOT_ASSESSABLE, POSITIVE, UNLABELED } from "./colors.js";
import { placesOf } from "./details.js";
import { h, onceAFrame, remember, remembered } from "./dom.js";
import { Explore } from "./explore.js";
import { FlagBar } from "./flag_bar.js";
import { fillWindow, stopFilling } from "./fill_window.js";
import { CLEAR_KEYS, listenForKeys, MARK_KEYS, SITE_KEYS, VIEW_KEYS } from "./keys.js";
import { Labeler } from "./labeler.js";
import { LayerBox } from "./layer_box.js";
import { nextLayer } from "./layer_tiles.js";
import { Loader } from "./loader.js";
import { MapPane } from "./map_pane.js";
import { GradeBar, MarkBar, ReasonPicker } from "./mark_bars.js";
import { OperationLog } from "./oplog.js";
import { Panes } from "./panes.js";
import { Preview } from "./preview.js";
import { Presence } from "./presence.js";
import { QueuePane } from "./queue_pane.js";
import { QueueState } from "./queue_state.js";
import { SiteBox } from "./site_box.js";
import { Store } from "./store.js";
import { TEXTS } from "./texts.js";
import { Toolbar } from "./toolbar.js";
import { WallPane } from "./wall_pane.js";

const logs = new Map(); // by project; they outlive a change of page

const LOOK = { view: "post", arrows: false, layer: "", opacity: 0.8, ramp: "grey" }; // kept for a project in this tab
const FIRST_CLICKS = 5; // damaged ones, until which all chips are a better start than the queue
const COLORS = ["category", "scores", "uncertainty", "types"]; // of the damage map, as P walks through them

export class DamageView {
  constructor(style) {
    const store = (this.store = new Store());
    this.loader = new Loader(store, (error) => this.#sayNotLoaded(error));
    this.queue = new QueueState(store, {
      wish: (operation) => this.labeler.usable && this.log.add(operation),
      moved: (hasWalked) => this.#queueMoved(hasWalked),
      isOwn: (i) => this.labeler.isOwnCheck(i),
    });
    this.labeler = new Labeler(store, () => this.log, this.queue, (...answer) => this.#answered(...answer));
    this.pictures = new ChipPictures(store);
    this.picker = new ReasonPicker(store, this.pictures, (...reason) => this.labeler.because(...reason));
    this.gradeBar = new GradeBar(store, (grade) => this.#grade(grade, "bar"));
    this.marks = new MarkBar(store, (numbers, code, grade) => this.#markMany(numbers, code, grade));
    this.card = new Card(store, (i, change) => this.labeler.edit(i, change), this.pictures, (i) => this.labeler.isForeignCheck(i));
    const actions = {
      label: (i, wish, screen) => (this.store.only ? this.#reach(i) : this.labeler.usable && this.labeler.toggle(i, wish, screen)),
      many: (numbers, adds) => (store.picks ? store.choose(numbers, adds) : this.labeler.usable && !store.only && this.marks.ask(numbers)),
      select: (i) => this.#reach(i),
      locate: (i) => this.locate(i),
    };
    this.map = new MapPane(store, actions);
    this.preview = new Preview(store, this.pictures);
    this.wall = new WallPane(store, this.pictures, this.preview, { ...actions, select: (i) => this.#selectOnWall(i) });
    this.queuePane = new QueuePane(store, this.queue, this.pictures, {
      give: (i, code, grade = null, types = {}) => this.labeler.give([i], code, "queue", grade, types),
      type: (i, types) => this.labeler.type(i, types, "queue"),
      isForeignCheck: (i) => this.labeler.isForeignCheck(i),
      regrade: (i, grade) => this.labeler.grade(i, grade, "queue"),
    });
    this.explore = new Explore(this);
    this.flagBar = new FlagBar(store, { colors: (by) => this.#setColors(by), choose: (top, n, of) => this.setStateValue("flag", { n, top, of }) });
    this.presence = new Presence(store, () => store.selected);
    this.#build(style);
    this.#followTarget();
    this.stopKeys = listenForKeys(this.root, (name, event) => this.#key(name, event), () => this.queue.current !== null || this.explore.isAsking);
    this.logChanged = () => this.#showLog();
    for (const event of ["geometry", "labels", "imageQuality"]) store.on(event, () => this.toolbar.showCounts());
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
    this.panes = new Panes(parts, [this.card.root, this.picker.root, this.preview.root], { tab: (tab) => this.#setTab(tab), resized: () => this.#layout() });
    this.layerBox = new LayerBox(store, { layer: (name) => this.#setLayer({ layer: name }), opacity: (opacity) => this.#setLayer({ opacity }), ramp: (ramp) => this.#setLayer({ ramp }) });
    this.siteBox = new SiteBox(store, (k) => this.#goToSite(k));
    this.map.target.addEventListener("pointerdown", () => this.siteBox.toggle(false));
    this.map.corner.append(this.layerBox.root);
    this.map.root.append(this.siteBox.root, this.marks.root);
    this.root = h("div.pugeo", { tabindex: "-1" }, h("style", {}, style), this.toolbar.root, this.panes.root, this.flagBar.root, this.gradeBar.root, this.explore.bar.root, this.toolbar.refused, this.toolbar.help);
  }

  /** Called on each run of the page. */
  update({ data, setStateValue }) {
    Object.assign(this, { data, setStateValue });
    this.store.set("mode", data.mode);
    if (data.token !== this.token) this.#openProject(data);
    else if (data.geometry_v !== this.geometry_v) {
      this.#leaveBuildings();
      this.#forgetBuildings();
    }
    this.geometry_v = data.geometry_v;
    if (data.mode === "label") this.log.connect(this, (value) => this.setStateValue("operations", value), data);
    else this.log.disconnect(this); // nobody would store them
    this.labeler.analyst = data.here?.analyst ?? null;
    fillWindow(this.root);
    this.root.dataset.mode = data.mode;
    this.store.setSites(data.sites);
    this.store.set("flagging", Boolean(data.flagging));
    this.store.setTypes(data.flagging?.types, data.flagging?.scale);
    this.flagBar.configure(data);
    if (!this.flagBar.isAhead) this.store.set("threshold", data.threshold);
    this.store.set("scoreName", data.score_name ?? null);
    if (data.layers.length === 1) this.store.set("view", data.layers[0].name);
    this.store.setNamed(data.named);
    this.store.setConflicts(data.conflicts);
    this.store.setScale(data.grades);
    this.#load(data);
    this.pictures.configure(data);
    this.explore.update(data);
    this.#showPanes();
    if (data.panes.includes("map")) this.map.configure(data);
    if (data.wall) this.wall.configure(data);
    this.queuePane.configure(data);
    this.card.configure(data);
    this.presence.update(data, this.log.session);
    this.log.take(data); // brings the labels, which say what of the queue is answered
    this.store.setOnly(this.isAssessment ? data.queue.items.map(([i]) => i) : null);
    if (!this.store.only) this.nChecked = 0;
    else if (!this.store.only.has(this.store.selected)) this.isElsewhere = false; // where it was is not on the screen any more
    const isUnderPointer = data.queue?.id === this.queue.id && this.queuePane.thumbs.matches(":hover"); // a renewed one waits
    if (!isUnderPointer) this.queue.take(data.token, data.mode === "label" ? data.queue : null);
    this.toolbar.show(data);
  }

  get #lookName() {
    return `pugeo:look:${this.token}${this.data.flagging ? ":damage" : ""}`;
  }

  #leaveBuildings() {
    this.store.set("selected", -1); // a comment that is being written goes into the log of the project it belongs to
    this.picker.close();
    this.marks.close();
  }

  /** Before others come: each place that is known here may mean another building then. */
  #forgetBuildings() {
    Object.assign(this, { isElsewhere: false, nChecked: 0 });
    this.queue.forget();
    this.store.empty();
  }

  #openProject({ token, color_by, flagging, labels }) {
    this.#leaveBuildings();
    this.log?.disconnect(this);
    this.#forgetBuildings();
    this.token = token;
    if (!logs.has(token)) logs.set(token, new OperationLog(token));
    this.log = logs.get(token);
    this.log.changed = this.logChanged;
    const saved = remembered(this.#lookName, {});
    for (const [name, usual] of Object.entries(LOOK)) this.store.set(name, saved[name] ?? usual);
    this.store.set("colorBy", flagging ? color_by : (saved.colorBy ?? color_by ?? "labels"));
    this.tab = saved.tab ?? ([...placesOf(labels[POSITIVE] ?? "")].length < FIRST_CLICKS ? "wall" : "queue");
    this.givenColor = color_by;
  }

  #load(data) {
    if (data.color_by && data.color_by !== this.givenColor) this.store.set("colorBy", data.color_by);
    this.givenColor = data.color_by;
    this.loader.load(data);
  }

  #sayNotLoaded(error) {
    const textContent = TEXTS.map.notLoaded(error.message);
    Object.assign(this.map.notice, { hidden: false, textContent });
  }

  // ---- labelling ----

  #answered(numbers, code, act, screen) {
    this.picker.close();
    if (code === NOT_ASSESSABLE) this.picker.open(numbers, act);
    this.toolbar.announce(numbers, code);
    this.explore.answered(numbers);
    if (this.store.only) this.nChecked += 1;
    this.#reach(numbers.length === 1 ? numbers[0] : this.store.selected, screen !== "queue");
    if (screen === "wall" && numbers.length === 1) this.map.follow(numbers[0]);
  }

  // ---- the cursor: the building that was clicked or reached last. Keys, card, grades and types are about it, and nothing else ----

  /** Put the cursor on building i, -1 for none. With the queue open it is large there; the queue keeps its place. */
  #reach(i, isByHand = true) {
    const { queue, store } = this;
    const place = store.only ? queue.items.findIndex((item) => item.i === i) : -1;
    if (place >= 0 && place !== queue.at) return queue.go(place); // first: what others answered to a check is not shown
    this.isElsewhere = queue.current !== null && i >= 0 && !store.only && (isByHand || i !== queue.current.i);
    store.set("selected", i);
  }

  #selectOnWall(i) {
    this.#reach(i);
    this.map.follow(i);
  }

  #markMany(numbers, code, grade = null) {
    const { labels } = this.store;
    this.labeler.give(numbers.filter((i) => labels[i] !== code || (grade !== null && this.store.detail(i).grade !== grade)), code, "map", grade);
  }

  #step(which) {
    this.picker.close(); // what it is about may be gone
    this.card.commit();
    if (this.store.only) { // what was answered before is not on the screen
      if (which === "undo" && !this.nChecked) return this.toolbar.sayNoTarget(TEXTS.toolbar.nothingToUndo);
      this.nChecked += which === "undo" ? -1 : 1;
    }
    if (which === "undo") this.queue.expectUndo();
    this.labeler.step(which);
    this.explore.stepped(which);
  }

  locate(i) {
    if (this.panes.isTight) this.panes.fold(true);
    if (!this.map.root.hidden) this.map[this.panes.isTight ? "locateSoon" : "locate"](i);
    if (i !== this.store.selected) this.#reach(i);
  }

  /** {i, on: "queue" where it is the queue's next, "selection" with i -1 where many are selected}; null where it is nowhere in view. */
  get target() {
    const { store, explore, queue } = this;
    if (!store.ready || !this.data) return null;
    if (explore.isActive && store.chosen.length) return { i: -1, on: "selection" };
    const i = store.selected;
    return i >= 0 && this.#isInView(i) ? { i, on: i === queue.current?.i ? "queue" : null } : null;
  }

  #isInView(i) {
    return [this.queuePane, this.map, this.wall, this.explore.pane].some((pane) => !pane.root.hidden && pane.isInView(i));
  }

  #followTarget() {
    const { store } = this;
    const later = (this.targetLater = onceAFrame(() => !this.isGone && this.#showTarget()));
    for (const event of ["selected", "chosen", "geometry", "labels", "grades", "scale", "mode"]) store.on(event, later);
    this.map.moved = later;
    this.root.addEventListener("scroll", later, true);
    for (const event of ["pointerup", "keyup"]) this.root.addEventListener(event, later); // a panel may have come or gone
    this.root.addEventListener("focusout", () => requestAnimationFrame(() => !this.isGone && this.#queueMoved(false))); // of the card, or the map's cross
    window.addEventListener("scroll", later, true);
    window.addEventListener("resize", later);
    this.stopTarget = () => {
      window.removeEventListener("scroll", later, true);
      window.removeEventListener("resize", later);
    };
  }

  #showTarget() {
    const target = this.labeler.usable ? this.target : null;
    this.queuePane.showTarget(Boolean(target));
    this.toolbar.showTarget(target);
    this.gradeBar.show(target);
  }

  // Nothing is labelled that nobody sees.
  #sayNoTarget() {
    this.#showTarget();
    this.toolbar.sayNoTarget(this.store.selected >= 0 ? TEXTS.toolbar.scrollFirst : TEXTS.toolbar.clickFirst);
    return true;
  }

  // The cursor goes with the queue, unless it was put elsewhere since somebody walked in the queue, or opened it.
  #queueMoved(hasWalked) {
    if (hasWalked) this.isElsewhere = false;
    const i = this.queue.current?.i ?? -1;
    this.queuePane.later();
    if (i < 0 || this.isElsewhere || i === this.store.selected || this.map.hasCross || this.card.isWriting) return; // once it is written
    const isFirst = this.store.selected < 0;
    this.store.set("selected", i);
    if (isFirst && !this.store.only) this.map.showSite(this.store.siteOf[i]); // the map opens on all of it
    else if (!this.map.root.hidden) this.map.locateSoon(i);
  }

  // ---- keys ----

  #key(name, event) {
    const { store } = this;
    if (this.picker.key(name)) return true;
    if (name === "undo" || name === "redo") return this.labeler.usable && (this.#step(name), true);
    if (this.explore.key(name, event)) return true;
    if (this.map.hasCross && this.map.key(name)) return true;
    if (!this.map.hasCross && this.queue.isActive && this.#queueKey(name, event)) return true;
    if (this.#lookKey(name)) return true;
    if (this.labeler.usable && (name in MARK_KEYS || CLEAR_KEYS.includes(name) || name === "Enter" || store.scale.ofKey(name))) return this.#markKey(name, event);
    const target = store.selected;
    switch (name) {
      case "k": return target >= 0 && !this.panes.side.hidden && this.hasWall && (this.#setTab("wall"), this.wall.sortLike(target), true);
      case "l": return target >= 0 && (this.locate(target), true);
      case "q": return this.hasQueue && (this.#setTab("queue"), true);
      case "w": return this.hasQueue && this.hasWall && (this.#setTab(this.tab === "queue" ? "wall" : "queue"), true);
      case "Escape": return this.#escape();
      default: return !this.wall.root.hidden && this.wall.walk(name);
    }
  }

  #markKey(name, event) {
    const { labeler, store, target } = this;
    if (!target) return name === "Enter" && event.composedPath().some((each) => each.tagName === "BUTTON") ? false : this.#sayNoTarget();
    if (event.repeat) return true; // held down, it would mark and clear by turns
    const grade = store.scale.ofKey(name);
    const screen = this.map.hasCross ? "map" : "keys";
    if (grade) this.#grade(grade, screen);
    else if (!CLEAR_KEYS.includes(name)) labeler.toggle(target.i, MARK_KEYS[name] ?? "toggle", screen);
    else if (store.labels[target.i] !== UNLABELED) labeler.give([target.i], UNLABELED, "keys");
    return true;
  }

  #grade(grade, screen) {
    const { target } = this;
    if (!target || target.i < 0) this.#sayNoTarget();
    else if (this.queue.isActive && !this.map.hasCross) this.queuePane.grade(grade);
    else this.labeler.grade(target.i, grade, screen);
  }

  // Whatever an analyst does in the queue but for a letter of the picker means that the reason stays as it is.
  #queueKey(name, event) {
    const answers = name in MARK_KEYS || this.store.scale.ofKey(name) || CLEAR_KEYS.includes(name) || name === "Enter" || name === "n";
    if (answers && this.queuePane.item && !this.target) return this.#sayNoTarget();
    const used = this.queuePane.key(name, event);
    if (used && name !== "3") this.picker.close();
    return used;
  }

  #lookKey(name) {
    const { store } = this;
    const mapShown = !this.map.root.hidden;
    if (name in VIEW_KEYS) return mapShown && (this.#setView(VIEW_KEYS[name]), true);
    if (name in SITE_KEYS) return mapShown && store.borders.length > 0 && this.#goToSite((store.site + SITE_KEYS[name] + store.sites.length) % store.sites.length);
    switch (name) {
      case "space": return this.#toggle("outlines"), true;
      case "h": return this.data.panes.includes("map") && (this.hasQueue || this.hasWall) && (this.panes.fold(), true);
      case "e": return mapShown && store.named.length > 0 && this.#nextLayer();
      case "v": return mapShown && Boolean(store.shifts) && (this.#toggle("arrows"), true);
      case "p": return Boolean(store.scores) && (this.#setColors(this.data.flagging ? this.#nextColors() : store.colorBy === "labels" ? "scores" : "labels"), true);
      case "i": return this.card.toggle(), true;
      case "?": return this.toolbar.toggleHelp(), true;
      default: return false;
    }
  }

  #escape() {
    if (!this.toolbar.help.hidden) this.toolbar.toggleHelp();
    else if (!this.marks.root.hidden) this.marks.close();
    else if (this.siteBox.isOpen) this.siteBox.toggle(false);
    else if (this.picker.isOpen) this.picker.close();
    else if (!this.card.root.hidden) this.card.toggle();
    else if (this.explore.escape()) return true;
    else if (this.queue.current) return this.isElsewhere && (this.queue.go(this.queue.at), true);
    else if (this.store.selected >= 0) this.#reach(-1);
    else return false;
    return true;
  }

  // ---- look ----

  get hasQueue() {
    return this.data.mode === "label" && Boolean(this.data.queue);
  }

  /** Random checks are answered: only they are on the screen, and nothing else can be labeled. */
  get isAssessment() {
    return this.hasQueue && Boolean(this.data.queue.is_assessment);
  }

  get hasWall() {
    return this.data.panes.includes("wall") && Boolean(this.data.wall);
  }

  #showPanes() {
    const queueShown = this.hasQueue && (this.tab === "queue" || !this.hasWall);
    const { hasQueue, hasWall } = this;
    this.panes.show({ hasScatter: this.explore.isActive, hasMap: this.data.panes.includes("map"), hasQueue, hasWall, queueShown, isFixed: this.isAssessment });
    this.store.set("inQueue", queueShown && !this.panes.side.hidden);
    this.queue.setActive(this.store.inQueue);
    this.targetLater();
  }

  // The panel was folded or unfolded: what keys act on hangs on it.
  #layout() {
    this.#showPanes();
    this.queuePane.later();
    if (this.panes.isTight && this.store.selected >= 0 && !this.map.root.hidden) this.map.locateSoon(this.store.selected); // it did not follow while chips lay there
  }

  #setTab(tab) {
    this.tab = tab;
    this.panes.fold(false);
    this.#look({ tab });
    this.#showPanes();
    this.queuePane.later();
  }

  #look(change) {
    const { view, colorBy, arrows, layer, opacity, ramp } = this.store;
    remember(this.#lookName, { ...remembered(this.#lookName, {}), view, colorBy, arrows, layer, opacity, ramp, ...change });
  }

  #setView(view) {
    if (this.data.layers.length < 2) return;
    this.store.set("view", view);
    this.#look({});
  }

  #setLayer(change) {
    for (const [name, value] of Object.entries(change)) this.store.set(name, value);
    this.#look({});
  }

  // By a key: what is shown then is read out, since the focus is elsewhere.
  #nextLayer() {
    const { store } = this;
    this.#setLayer({ layer: nextLayer(store.named, store.layer) });
    this.toolbar.spoken.textContent = store.layer ? TEXTS.layers.shown(store.layer) : TEXTS.layers.none;
    return true;
  }

  #goToSite(k) {
    const { sites } = this.store;
    this.map.showSite(k);
    this.toolbar.spoken.textContent = `${sites[k].name}, ${TEXTS.sites.place(k + 1, sites.length)}`;
    return true;
  }

  #setColors(by) {
    if (by === "scores" && !this.store.scores) return;
    this.store.set("colorBy", by);
    this.#look({});
    if (this.data.flagging) this.setStateValue("map_color", by); // kept in the project
  }

  #nextColors() {
    const offered = COLORS.filter((by) => by !== "types" || this.store.types.length);
    return offered[(offered.indexOf(this.store.colorBy) + 1) % offered.length];
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
    stopFilling(this.root);
    this.card.dispose();
    this.explore.dispose();
    this.flagBar.dispose();
    this.presence.dispose();
    this.stopKeys();
    this.stopTarget();
    this.isGone = true; // a frame that was asked for may still come
    if (this.log) {
      this.log.disconnect(this);
      if (this.log.changed === this.logChanged) this.log.changed = () => {};
    }
    this.map.dispose();
    this.wall.dispose();
    this.root.remove();
  }
}
