// The scatter beside map and wall: loads its dots, labels what is selected, and sends the selection to the page.

import { LABEL_KEYS } from "./keys.js";
import { POSITIVE } from "./colors.js";
import { encodePlaces, placesOf } from "./details.js";
import { Files, asFloats, inOrderOf } from "./files.js";
import { ScatterPane } from "./scatter_pane.js";
import { SelectionBar } from "./mark_bars.js";

const SEND_AFTER_MS = 250; // a selection that is being drawn is not sent
const PATIENCE_MS = 8000; // a message that no run of the page has heard of by then is sent again

const files = new Files(8); // they outlive a change of page
let timesSent = 0; // the page hears only of messages that differ, and may have loaded another selection in between

export class Explore {
  /** @param view DamageView; asked for its store, labeler and map once somebody acts */
  constructor(view) {
    const { store, pictures } = view;
    Object.assign(this, { view, store, data: null, loaded: null, sent: "|-1" });
    this.pane = new ScatterPane(store, pictures, {
      choose: (numbers, adds) => {
        store.choose(numbers, adds);
        this.#showOnMap();
      },
      select: (i) => {
        store.set("selected", i);
        if (i >= 0 && !view.map.root.hidden && !view.map.isInView(i)) view.map.locate(i);
      },
      locate: (i) => i >= 0 && view.locate(i),
    });
    this.bar = new SelectionBar(store, {
      label: (numbers, code, grade) => view.labeler.give(numbers, code, "scatter", grade),
      show: () => this.#showOnMap(),
      clear: () => store.choose([]),
    });
    store.on("chosen", () => this.#sendSoon());
    store.on("selected", () => this.data?.tells_focus && this.#sendSoon());
    store.on("geometry", () => this.#take());
  }

  #showOnMap() {
    const { map } = this.view;
    if (this.store.chosen.length && !map.root.hidden) map.showAll(this.store.chosen);
  }

  get isActive() {
    return this.data !== null;
  }

  /** Called on each run of the page, before the panes are shown. */
  update({ scatter, base, token, geometry_v }) {
    const before = this.data;
    this.data = scatter ?? null;
    this.store.set("picks", this.isActive);
    this.bar.root.hidden = !this.isActive;
    if (!this.isActive) return;
    this.bar.confirmAbove = scatter.confirm_above;
    this.pane.configure(scatter, token);
    this.#load(`${base}/${token}/dots/${scatter.run_id}`, scatter, inOrderOf(geometry_v));
    if (scatter.tells_focus && !before?.tells_focus && this.store.selected >= 0) this.#sendSoon();
    this.#take();
    this.bar.draw();
  }

  #load(folder, { kind, v, color }, order) {
    const failed = (error) => this.pane.sayNotLoaded(error);
    const positions = `${folder}/${kind.toLowerCase()}.bin?v=${v}&${order}`;
    if (positions !== this.positions) {
      this.positions = positions;
      files.get(positions, asFloats).then((found) => positions === this.positions && this.pane.setPositions(found), failed);
    }
    const hasValues = color.kind === "categories" || color.kind === "numbers";
    const values = hasValues ? `${folder}/color.bin?by=${encodeURIComponent(color.by)}&v=${color.v}&${order}` : color.by;
    if (values === this.values) return;
    this.values = values;
    this.pane.setValues(null);
    if (hasValues) files.get(values, asFloats).then((found) => values === this.values && this.pane.setValues(found), failed);
  }

  // What the page wants to be selected, once for each name of it.
  #take() {
    if (!this.isActive || !this.store.ready || this.loaded === this.data.load) return;
    const isFirst = this.loaded === null;
    this.loaded = this.data.load;
    if (isFirst && !this.data.selected) return;
    this.store.choose([...placesOf(this.data.selected)]);
    if (!isFirst) this.#showOnMap();
    this.sent = this.#selection().text; // the page knows
  }

  #sendSoon() {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.#send(), SEND_AFTER_MS);
  }

  #selection() {
    const places = encodePlaces(this.store.chosen);
    const focus = this.data.tells_focus ? this.store.selected : -1;
    return { places, focus, text: `${places}|${focus}` };
  }

  #send() {
    if (!this.isActive) return;
    const { places, focus, text } = this.#selection();
    if (text === this.sent) return;
    this.sent = text;
    const number = ++timesSent;
    this.view.setStateValue("selection", { places, focus, number });
    clearTimeout(this.patience);
    this.patience = setTimeout(() => this.#sendAgain(number), PATIENCE_MS);
  }

  #sendAgain(number) {
    if (!this.isActive || this.data.heard === number) return;
    this.sent = null;
    this.#send();
  }

  /** @returns whether the key was one of ours */
  key(name, event) {
    if (!this.isActive || !this.store.chosen.length) return false;
    if (name === "Enter") return event?.repeat || this.bar.confirm(), true; // never the one that was clicked
    const grade = this.store.scale.ofKey(name);
    if (!(grade || name in LABEL_KEYS) || !this.view.labeler.usable) return false;
    if (!event?.repeat) this.bar.ask(grade ? POSITIVE : LABEL_KEYS[name], grade); // held down, it would confirm its own question
    return true;
  }

  /** @returns whether there was something to close or let go of */
  escape() {
    if (!this.isActive) return false;
    if (this.bar.cancel()) return true;
    if (!this.store.chosen.length) return false;
    this.store.choose([]);
    return true;
  }

  dispose() {
    clearTimeout(this.timer);
    clearTimeout(this.patience);
    this.data = null;
  }
}
