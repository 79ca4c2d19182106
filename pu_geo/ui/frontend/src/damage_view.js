// One view: header, map and wall on one store and one operation log.

import { LABEL_NAMES, LABEL_TEXTS, NOT_ASSESSABLE, NOT_DAMAGED, POSITIVE, UNLABELED } from "./colors.js";
import { h, icon, remember, remembered, segmented } from "./dom.js";
import { HELP, listenForKeys } from "./keys.js";
import { MapPane } from "./map_pane.js";
import { OperationLog } from "./oplog.js";
import { Store } from "./store.js";
import { WallPane } from "./wall_pane.js";

const logs = new Map(); // by project; they outlive a change of page
const files = new Map(); // geometry and scores by address; so do they

const FILES_KEPT = 6; // each answer may bring new scores

async function fetchOnce(url, read) {
  if (!files.has(url)) {
    const answer = fetch(url).then((response) => {
      if (!response.ok) throw new Error(`${response.status} for ${new URL(url, location.href).pathname}`);
      return read(response);
    });
    files.set(url, answer);
    if (files.size > FILES_KEPT) files.delete(files.keys().next().value);
    answer.catch(() => files.delete(url));
  }
  return files.get(url);
}

export class DamageView {
  constructor(style) {
    this.store = new Store();
    const actions = { label: this.label.bind(this), box: this.box.bind(this), select: this.select.bind(this), locate: this.locate.bind(this) };
    this.map = new MapPane(this.store, actions);
    this.wall = new WallPane(this.store, actions);
    this.root = h("div.pugeo", { tabindex: "-1" }, h("style", {}, style));
    this.stopKeys = listenForKeys(this.root, (name) => this.#key(name));
    this.logChanged = () => this.#showLog();
    this.#build();
    for (const event of ["geometry", "labels"]) this.store.on(event, () => this.#showCounts());
    this.store.on("scores", () => this.#showTools());
    for (const event of ["view", "colorBy", "outlines"]) this.store.on(event, () => this.#showTools());
  }

  #build() {
    this.views = segmented("Image", [["pre", "Pre", "Pre-event image (A)"], ["swipe", "Swipe", "Swipe between pre and post (S)"], ["post", "Post", "Post-event image (D)"]], (view) => this.#setView(view));
    this.colors = segmented("Colours", [["labels", "Labels", "Colour by label (P)"], ["scores", "Scores", "Colour by score (P)"]], (by) => this.#setColors(by));
    const button = (name, title, act) => h("button.flat", { type: "button", title, "aria-label": title, onclick: act }, icon(name));
    this.eye = button("eye", "Hide or show outlines (Space)", () => this.store.set("outlines", !this.store.outlines));
    this.undo = button("undo", "Undo (Ctrl/⌘ Z)", () => this.#step("undo"));
    this.redo = button("redo", "Redo (Ctrl/⌘ Shift Z)", () => this.#step("redo"));
    this.counts = h("div.counts", { "aria-live": "polite" });
    this.status = h("div.status", { role: "status" });
    const help = button("help", "All shortcuts (?)", () => this.#toggleHelp());
    this.mapTools = h("div.group", {}, this.views, this.colors, this.eye);
    this.labelTools = h("div.group", {}, this.undo, this.redo);
    this.header = h("header", {}, this.mapTools, this.labelTools, this.counts, h("div.push"), this.status, help);
    this.help = h("div.help", { hidden: true, role: "dialog", "aria-label": "Shortcuts", onclick: () => this.#toggleHelp() },
      h("b", {}, "Shortcuts"), h("dl", {}, ...HELP.flatMap(([keys, text]) => [h("dt", {}, keys), h("dd", {}, text)])));
    this.boxBar = h("div.boxbar", { hidden: true });
    this.splitter = h("div.splitter", { title: "Drag to share the width", onpointerdown: (event) => this.#dragSplit(event) });
    this.panes = h("div.panes", {}, this.map.root, this.splitter, this.wall.root);
    this.map.root.append(this.boxBar);
    this.root.append(this.header, this.panes, this.help);
  }

  /** Called on each run of the page. */
  update({ data, setStateValue }) {
    this.data = data;
    this.setStateValue = setStateValue;
    this.store.set("mode", data.mode);
    if (data.token !== this.token) this.#openProject(data);
    if (data.mode === "label") this.log.connect(this, (value) => this.setStateValue("operations", value));
    else this.log.disconnect(this); // nobody would store them
    const shown = (name) => data.panes.includes(name);
    this.root.style.height = `${data.height}px`;
    this.root.dataset.mode = data.mode;
    this.map.root.hidden = !shown("map");
    this.mapTools.hidden = !shown("map");
    this.wall.root.hidden = !shown("wall") || !data.wall;
    this.splitter.hidden = this.map.root.hidden || this.wall.root.hidden;
    this.labelTools.hidden = data.mode !== "label";
    this.store.set("threshold", data.threshold);
    this.#load(data);
    if (shown("map")) this.map.configure(data);
    if (data.wall) this.wall.configure(data);
    this.log.acknowledge(data.ack, data.problem);
    this.#showTools();
  }

  #openProject({ token, color_by }) {
    this.log?.disconnect(this);
    this.token = token;
    this.store.set("selected", -1);
    if (!logs.has(token)) logs.set(token, new OperationLog(token));
    this.log = logs.get(token);
    this.log.changed = this.logChanged;
    const saved = remembered(`pugeo:look:${token}`, {});
    this.store.set("view", saved.view ?? "post");
    this.store.set("colorBy", saved.colorBy ?? color_by ?? "labels");
    this.#split(saved.split ?? 0.6);
    this.givenColor = color_by;
  }

  #load({ base, token, geometry_v, score_id, color_by }) {
    if (color_by && color_by !== this.givenColor) this.store.set("colorBy", color_by);
    this.givenColor = color_by;
    const geometry = `${base}/${token}/geometry.json?v=${geometry_v}`;
    if (geometry !== this.geometryUrl) {
      this.geometryUrl = geometry;
      this.#fetch(geometry, (response) => response.json(), (found) => geometry === this.geometryUrl && this.store.setGeometry(found));
    }
    const scores = score_id ? `${base}/${token}/scores/${score_id}.bin?v=${score_id}` : null;
    if (scores !== this.scoresUrl) {
      this.scoresUrl = scores;
      if (!scores) this.store.setScores(null);
      else this.#fetch(scores, async (response) => new Float32Array(await response.arrayBuffer()), (found) => scores === this.scoresUrl && this.store.setScores(found));
    }
  }

  #fetch(url, read, done) {
    fetchOnce(url, read).then(done, (error) => {
      this.map.notice.hidden = false;
      this.map.notice.textContent = `The server did not send the buildings or their scores (${error.message}). Reload the page.`;
    });
  }

  // ---- labelling ----

  get canLabel() {
    return this.store.mode === "label" && this.store.ready;
  }

  /** Give building i a label ("toggle" means positive); the label it already has is cleared instead. */
  label(i, wish, screen) {
    if (!this.canLabel) return;
    const wanted = wish === "toggle" ? POSITIVE : wish;
    const code = wanted === this.store.labels[i] ? UNLABELED : wanted;
    this.store.set("selected", i);
    this.log.add({ building_id: this.store.ids[i], label: LABEL_NAMES[code], screen });
  }

  box(numbers) {
    this.boxBar.hidden = !numbers.length || !this.canLabel;
    if (this.boxBar.hidden) return;
    const choice = (code, text) => h(`button.choice.label${code}`, { type: "button", onclick: () => this.#labelBox(numbers, code) }, text);
    const many = `${numbers.length.toLocaleString("en")} building${numbers.length > 1 ? "s" : ""}:`;
    this.boxBar.replaceChildren(h("b", {}, many), choice(POSITIVE, "Positive"), choice(NOT_DAMAGED, "Not damaged"), choice(NOT_ASSESSABLE, "Not assessable"), choice(UNLABELED, "Clear"),
      h("button.flat", { type: "button", title: "Cancel (Esc)", onclick: () => (this.boxBar.hidden = true) }, "✕"));
  }

  // One act of many operations: undone in one step.
  #labelBox(numbers, code) {
    this.boxBar.hidden = true;
    const act = `${this.log.session}-box-${this.log.next}`;
    const changed = numbers.filter((i) => this.store.labels[i] !== code);
    this.log.addMany(changed.map((i) => ({ building_id: this.store.ids[i], label: LABEL_NAMES[code], screen: "map", act })));
  }

  #step(which) {
    if (this.canLabel) this.log.add({ [which]: true }, { now: true });
  }

  // ---- selection ----

  get selectedId() {
    return this.store.selected < 0 ? null : this.store.ids[this.store.selected];
  }

  select(i) {
    this.store.set("selected", i);
  }

  locate(i) {
    if (!this.map.root.hidden) this.map.locate(i);
    this.select(i);
  }

  // ---- keys ----

  #key(name) {
    const { store } = this;
    const target = [this.map.underPointer(), store.hovered, store.selected].find((i) => i >= 0) ?? -1;
    const mark = (code) => target >= 0 && this.canLabel && (this.label(target, code, "keys"), true);
    const mapShown = !this.map.root.hidden;
    switch (name) {
      case "undo": case "redo": return this.canLabel && (this.#step(name), true);
      case "1": return mark(POSITIVE);
      case "2": return mark(NOT_DAMAGED);
      case "3": return mark(NOT_ASSESSABLE);
      case "Enter": return store.selected >= 0 && this.canLabel && (this.label(store.selected, "toggle", "keys"), true);
      case "a": return mapShown && (this.#setView("pre"), true);
      case "s": return mapShown && (this.#setView("swipe"), true);
      case "d": return mapShown && (this.#setView("post"), true);
      case "space": return mapShown && (store.set("outlines", !store.outlines), true);
      case "p": return Boolean(store.scores) && (this.#setColors(store.colorBy === "labels" ? "scores" : "labels"), true);
      case "l": return target >= 0 && (this.locate(target), true);
      case "?": return this.#toggleHelp(), true;
      case "Escape": return this.#escape();
      default: return !this.wall.root.hidden && this.wall.walk(name);
    }
  }

  #escape() {
    if (!this.help.hidden) this.#toggleHelp();
    else if (!this.boxBar.hidden) this.boxBar.hidden = true;
    else if (this.store.selected >= 0) this.select(-1);
    else return false;
    return true;
  }

  // ---- look ----

  #look(change) {
    const { view, colorBy } = this.store;
    remember(`pugeo:look:${this.token}`, { view, colorBy, split: this.share, ...change });
  }

  #setView(view) {
    this.store.set("view", view);
    this.#look({});
  }

  #setColors(by) {
    if (by === "scores" && !this.store.scores) return;
    this.store.set("colorBy", by);
    this.#look({});
  }

  #split(share) {
    this.share = Math.max(0.25, Math.min(0.85, share));
    this.panes.style.setProperty("--share", this.share);
  }

  #dragSplit(down) {
    down.preventDefault();
    this.splitter.setPointerCapture(down.pointerId);
    const box = this.panes.getBoundingClientRect();
    const move = (event) => this.#split((event.clientX - box.left) / box.width);
    this.splitter.addEventListener("pointermove", move);
    this.splitter.addEventListener("pointerup", () => {
      this.splitter.removeEventListener("pointermove", move);
      this.#look({});
    }, { once: true });
  }

  #showTools() {
    const { store, data } = this;
    if (!data) return;
    this.views.choose(store.view);
    this.views.hidden = data.layers.length < 2;
    if (data.layers.length === 1) store.set("view", data.layers[0].name);
    this.colors.hidden = !data.score_id;
    this.colors.choose(store.scores ? store.colorBy : "labels");
    this.eye.classList.toggle("off", !store.outlines);
    this.#showCounts();
    this.#showStatus();
  }

  #showCounts() {
    if (!this.store.ready) return;
    const counts = this.store.counts();
    const entries = [POSITIVE, NOT_DAMAGED, NOT_ASSESSABLE].filter((code) => counts[code] || code === POSITIVE)
      .map((code) => h("span", { title: LABEL_TEXTS[code] }, h(`i.dot.label${code}`), h("b", {}, counts[code].toLocaleString("en")), ` ${LABEL_TEXTS[code].toLowerCase()}`));
    this.counts.replaceChildren(...entries, h("span.soft", {}, `of ${this.store.n.toLocaleString("en")} buildings`));
  }

  #showLog() {
    this.store.setLabels(this.data.labels, this.log.ops);
    this.#showStatus();
  }

  #showStatus() {
    const { ops, problem } = this.log;
    const labelling = this.store.mode === "label";
    const state = labelling || !ops.length ? this.log.state : "waiting";
    const many = ops.length.toLocaleString("en");
    let waiting = problem ? `not saved, trying again: ${problem}` : `offline? ${many} waiting`;
    if (!labelling) waiting = `${many} not saved yet; they are sent once you label again`;
    this.status.textContent = { saved: "Saved", saving: `Saving ${many} …`, waiting }[state];
    this.status.dataset.state = state;
    this.status.title = state === "waiting" ? "The clicks are kept in this browser and sent again until the server has stored them." : "";
    this.status.hidden = !labelling && state === "saved";
  }

  #toggleHelp() {
    this.help.hidden = !this.help.hidden;
  }

  dispose() {
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
