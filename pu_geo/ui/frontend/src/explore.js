// The scatter beside map and wall: loads its dots, labels what is selected, and sends the selection to the page.

import { LABEL_KEYS, QUEUE_KEYS } from "./keys.js";
import { POSITIVE } from "./colors.js";
import { encodePlaces, placesOf } from "./details.js";
import { Files, asFloats, inOrderOf } from "./files.js";
import { ScatterPane } from "./scatter_pane.js";
import { SelectionBar } from "./mark_bars.js";

const SEND_AFTER_MS = 250; // a selection that is being drawn is not sent
const PATIENCE_MS = 8000; // a message that no run of the page has heard of by then is sent again

const files = new Files(8); // they outlive a change of page
let timesSent = 0; // the page hears only of messages that differ, and may have loaded another selection in between
const ANSWERS = { ...LABEL_KEYS, ...QUEUE_KEYS };
const question = { v: null, acts: [], undone: [], passed: new Set() }; // what was answered, newest last, since the wall was filled with it; outlives a change of page, too

export class Explore {
  /** @param view DamageView; asked for its store, labeler and map once somebody acts */
  constructor(view) {
    const { store, pictures } = view;
    Object.assign(this, { view, store, data: null, loaded: null, sent: "|-1" });
    this.pane = new ScatterPane(store, pictures, view.preview, {
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
      answer: (code, grade) => this.#answer(code, grade),
      skip: () => this.#skip(),
    });
    for (const event of ["chosen", "selected"]) store.on(event, () => this.#sendSoon());
    store.on("geometry", () => this.#take());
    store.on("emptied", () => store.set("asked", null));
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
    this.data = scatter ?? null;
    this.store.set("picks", this.isActive);
    this.bar.root.hidden = !this.isActive;
    if (!this.isActive) return this.store.set("asked", null);
    this.bar.confirmAbove = scatter.confirm_above;
    this.pane.configure(scatter, token);
    this.#load(`${base}/${token}/dots/${scatter.source}`, scatter, inOrderOf(geometry_v));
    this.#take();
    this.bar.draw();
  }

  #load(folder, { v, color }, order) {
    const failed = (error) => this.pane.sayNotLoaded(error);
    const positions = v && `${folder}/plane.bin?v=${v}&${order}`;
    if (positions !== this.positions) {
      this.positions = positions;
      if (v) files.get(positions, asFloats).then((found) => positions === this.positions && this.pane.setPositions(found), failed);
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
    if (!this.isActive || !this.store.ready) return;
    this.#ask(this.data.asked ?? null);
    if (this.loaded === this.data.load) return;
    const isFirst = this.loaded === null;
    this.loaded = this.data.load;
    if (isFirst && !this.data.selected) return;
    this.store.choose([...placesOf(this.data.selected)]);
    if (!isFirst) this.#showOnMap();
    this.sent = encodePlaces(this.store.chosen); // the page knows
  }

  #sendSoon() {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.#send(), SEND_AFTER_MS);
  }

  #send() {
    if (!this.isActive) return;
    const places = encodePlaces(this.store.chosen);
    if (places === this.sent) return;
    this.sent = places;
    const number = ++timesSent;
    this.view.setStateValue("selection", { places, number });
    clearTimeout(this.patience);
    this.patience = setTimeout(() => this.#sendAgain(number), PATIENCE_MS);
  }

  #sendAgain(number) {
    if (!this.isActive || this.data.heard === number) return;
    this.sent = null;
    this.#send();
  }

  // ---- a question fills the wall: buildings in its order, the cursor goes from one to the next ----

  /** Whether keys answer one building of a question after the other. */
  get isAsking() {
    return Boolean(this.store.asked?.places.includes(this.store.selected)) && !this.store.chosen.length;
  }

  #ask(asked) {
    const { store } = this;
    if (asked?.v === store.asked?.v) return;
    if (asked && asked.v !== question.v) Object.assign(question, { v: asked.v, acts: [], undone: [], passed: new Set() });
    const isAnswered = (i) => question.acts.some((numbers) => numbers.includes(i));
    store.set("asked", asked && { ...asked, isAnswered, notes: new Map(asked.places.map((i, k) => [i, asked.notes[k]])) });
    if (!asked) return;
    store.choose([]);
    this.view.panes.fold(false);
    store.set("selected", -1);
    this.#goOn();
  }

  #answer(code, grade = null) {
    this.view.labeler.give([this.store.selected], code, "wall", grade);
    this.#goOn();
  }

  #skip() {
    question.passed.add(this.store.selected);
    this.#goOn();
  }

  // To the next one that waits for an answer, then to those that were skipped; the last one stays.
  #goOn() {
    const { asked, selected } = this.store;
    const from = asked.places.indexOf(selected) + 1;
    const open = [...asked.places.slice(from), ...asked.places.slice(0, from)].filter((i) => i !== selected && !asked.isAnswered(i));
    this.#reach(open.find((i) => !question.passed.has(i)) ?? open[0]);
  }

  #reach(i) {
    if (i !== undefined) {
      this.store.set("selected", i);
      this.view.map.follow(i);
    }
    this.store.emit("reviewed");
  }

  /** Answers were given, in one act. */
  answered(numbers) {
    Object.assign(question, { acts: [...question.acts, numbers], undone: [] });
    this.store.emit("reviewed");
  }

  /** An act was taken back, or done again: the cursor goes back to what is open by that. */
  stepped(which) {
    const [from, to] = which === "undo" ? [question.acts, question.undone] : [question.undone, question.acts];
    const numbers = from.pop();
    if (!numbers) return;
    to.push(numbers);
    this.#reach(which === "undo" && !this.store.chosen.length ? numbers.find((i) => this.store.asked?.notes.has(i)) : undefined);
  }

  /** @returns whether the key was one of ours */
  key(name, event) {
    const { isAsking } = this;
    if (!this.isActive || !(isAsking || this.store.chosen.length)) return false;
    if (name === "Enter" && !isAsking) return event?.repeat || this.bar.confirm(), true; // never the one that was clicked
    const grade = this.store.scale.ofKey(name);
    const isOurs = grade || name in ANSWERS || (isAsking && name === "n");
    if (!isOurs || !this.view.labeler.usable || (isAsking && !this.view.target)) return false;
    if (event?.repeat) return true; // held down, it would confirm its own question, or answer the next one
    if (name === "n") this.#skip();
    else if (isAsking) this.#answer(grade ? POSITIVE : ANSWERS[name], grade || null);
    else this.bar.ask(grade ? POSITIVE : ANSWERS[name], grade || null);
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
