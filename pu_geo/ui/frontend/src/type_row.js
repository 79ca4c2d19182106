// The damage types of one building as small buttons of three states: nobody said, yes, no. Signs and edges tell them apart
// without color. Each press is an answer of its own, stored like a click.

import { POSITIVE } from "./colors.js";
import { h, keepingFocus } from "./dom.js";
import { focusByKey } from "./keys.js";
import { TEXTS } from "./texts.js";

const { types: words } = TEXTS;
const LONGEST_TYPE = 60;
const MOST_TYPES = 20; // of one building, with a type or without
const NEXT = { open: "yes", yes: "no", no: "open" };
const SIGNS = { open: "", yes: "✓", no: "✕" };

/** "yes", "no", or "open" where nobody said. */
export function stateOf({ damage_types: has, absent_types: hasNot }, type) {
  return has.includes(type) ? "yes" : hasNot.includes(type) ? "no" : "open";
}

/** What an answer holds once a type has another state. */
export function withType({ damage_types: has, absent_types: hasNot }, type, state) {
  const without = (types) => types.filter((each) => each !== type);
  return {
    damage_types: state === "yes" ? [...without(has), type] : without(has),
    absent_types: state === "no" ? [...without(hasNot), type] : without(hasNot),
  };
}

export class TypeRow {
  /**
   * @param detailOf i => {damage_types, absent_types} of a building as it is now: two presses may come within one drawing
   * @param given (i, {damage_types, absent_types}) called with each press
   * @param extra elements at the end of the row
   * @param isOpen i => whether a type is all that marks the building damaged
   */
  constructor(store, detailOf, given, extra = [], isOpen = (i) => store.labels[i] !== POSITIVE) {
    Object.assign(this, { store, detailOf, given, isOpen, offered: [], i: -1 });
    this.own = h("input.owntype", { type: "text", maxlength: LONGEST_TYPE, hidden: true, placeholder: words.own, "aria-label": words.own, onchange: () => this.commit(), onkeydown: (event) => this.#typed(event) });
    this.more = h("button.type.more", { type: "button", title: words.addHint, onclick: () => this.#ask() }, words.add);
    this.buttons = h("span.typebuttons");
    this.note = h("span.soft", { role: "status" });
    const lead = h("span.soft", { title: words.hint }, words.ask);
    this.offers = [lead, this.buttons, ...extra]; // only once somebody uses types in this project
    this.root = h("div.types", { role: "group", "aria-label": words.title, hidden: true }, lead, this.buttons, this.more, this.own, ...extra, this.note);
    store.on("emptied", () => (this.isUsed = false));
  }

  /** @param types that the project offers */
  configure(types = []) {
    this.offered = types;
    this.#draw();
  }

  /**
   * @param i building, -1 for none
   * @param isKept whether its types go with the answer "damaged", and are not given yet
   */
  show(i, isKept = false) {
    if (i !== this.i) this.#leave();
    Object.assign(this, { i, isKept });
    this.root.hidden = i < 0;
    this.#draw();
  }

  /**
   * Give the type that was typed and not given yet, to the building that it was typed for. Where it would mark the building damaged,
   * it stays in its field until it is entered.
   */
  commit(isEntered = false) {
    const text = this.own.value.trim();
    if (text && !isEntered && this.i >= 0 && this.isOpen(this.i)) return;
    this.drop();
    if (!text || this.i < 0) return;
    const known = this.#all().find((each) => each.toLowerCase() === text.toLowerCase()) ?? text;
    if (known === text && !this.store.ownTypes.includes(text)) this.store.ownTypes.push(text);
    this.#give(known, "yes");
  }

  /** Forget what was typed and not given. */
  drop() {
    this.own.value = "";
    this.own.hidden = true;
    this.more.hidden = false;
  }

  /** Let keys reach the types: from now on Enter and Space press what has the focus. */
  focus() {
    this.isUsed = true;
    this.#draw();
    focusByKey(this.buttons.firstChild ?? this.more);
  }

  // Another building comes: keys mean its answer again, until the analyst goes to its types.
  #leave() {
    this.commit();
    this.drop();
    this.note.textContent = "";
    const focused = this.root.getRootNode().activeElement;
    if (focused && this.buttons.contains(focused)) focused.blur();
  }

  #all() {
    const { damage_types: has, absent_types: hasNot } = this.detailOf(this.i);
    return [...new Set([...this.offered, ...this.store.ownTypes, ...has, ...hasNot])];
  }

  // Drawn anew only where they differ: a button replaced under a pressed mouse loses its click, and the focus is lost with it.
  #draw() {
    if (this.i < 0) return;
    this.isUsed ||= [...this.store.details.values()].some(({ damage_types: has, absent_types: hasNot }) => has.length + hasNot.length);
    for (const part of this.offers) part.hidden = !this.isUsed;
    const all = this.#all();
    const names = JSON.stringify(all);
    if (names !== this.drawnNames) {
      this.drawnNames = names;
      keepingFocus(this.buttons, () => this.buttons.replaceChildren(...all.map((type) => this.#button(type))));
    }
    all.forEach((type, at) => this.#dress(this.buttons.children[at], type));
  }

  #button(type) {
    const press = (event) => this.#press(type, event);
    return h("button.type", { type: "button", onclick: press, oncontextmenu: press }, h("i", { "aria-hidden": "true" }), h("span", {}, type));
  }

  #dress(button, type) {
    const state = stateOf(this.detailOf(this.i), type);
    for (const each of Object.keys(NEXT)) button.classList.toggle(each, each === state);
    button.classList.toggle("kept", this.isKept && state !== "open");
    const n = this.store.countOf(type);
    button.firstChild.textContent = SIGNS[state];
    button.dataset.n = n || "";
    button.setAttribute("aria-label", words.label(type, state));
    button.setAttribute("title", words.meaning(type, state) + (this.isKept ? words.waiting[state] : "") + words.soFar(n));
  }

  // The right button says "no" at once, as it does for a building.
  #press(type, event) {
    event?.preventDefault?.();
    const state = stateOf(this.detailOf(this.i), type);
    this.#give(type, event?.type === "contextmenu" ? (state === "no" ? "open" : "no") : NEXT[state]);
  }

  #give(type, state) {
    const change = withType(this.detailOf(this.i), type, state);
    const isTooMany = Math.max(change.damage_types.length, change.absent_types.length) > MOST_TYPES;
    this.note.textContent = isTooMany ? words.most(MOST_TYPES) : "";
    if (isTooMany) return;
    this.given(this.i, change);
  }

  #ask() {
    this.isUsed = true;
    this.#draw();
    this.more.hidden = true;
    this.own.hidden = false;
    this.own.focus();
  }

  #typed(event) {
    if (event.key === "Escape") this.own.value = "";
    if (event.key !== "Escape" && event.key !== "Enter") return;
    event.preventDefault?.();
    event.stopPropagation?.();
    this.commit(true);
    this.more.focus();
  }
}
