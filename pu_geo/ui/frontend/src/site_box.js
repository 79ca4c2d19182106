// On the map of an event of several sites: the name of the one it shows, and a list of all with counts, which leads to each.

import { NOT_ASSESSABLE, POSITIVE, UNLABELED } from "./colors.js";
import { h, onceAFrame } from "./dom.js";
import { UNKNOWN, categoryOf } from "./flagging.js";
import { TEXTS } from "./texts.js";

const { sites: words, number } = TEXTS;
const COLUMNS = Object.keys(words.columns);
const MARKS = { buildings: ["span", "⌂"], damaged: ["i.dot.label1"], reviewed: ["span", "✓"], flagged: ["span.swatch.flagged"], notAssessed: ["i.dot.obscured"] };

/** Counts of each site: {buildings, damaged, reviewed, flagged: by score, null where there is no threshold, notAssessed}. */
export function countSites(store) {
  const hasThreshold = store.scores !== null && store.threshold !== null;
  const counts = store.sites.map(() => ({ buildings: 0, damaged: 0, reviewed: 0, flagged: hasThreshold ? 0 : null, notAssessed: 0 }));
  for (let i = 0; i < store.n; i++) {
    const [found, label, score] = [counts[store.siteOf[i]], store.labels[i], store.score(i)];
    found.buildings++;
    found.damaged += label === POSITIVE;
    found.reviewed += label !== UNLABELED;
    if (hasThreshold) found.flagged += label === UNLABELED && score !== null && !store.isBelow(score);
    found.notAssessed += store.isFlagging ? categoryOf(store, i) === UNKNOWN : label === NOT_ASSESSABLE || store.isHidden(i);
  }
  return counts;
}

/** How far a site is, in words; "" for one that is on its way. */
export function stateOf({ buildings, reviewed }) {
  if (!buildings) return words.noBuildings;
  return reviewed === buildings ? words.done : reviewed ? "" : words.noAnswers;
}

export class SiteBox {
  /** @param go (number of a site) */
  constructor(store, go) {
    Object.assign(this, { store, go, countSoon: onceAFrame(() => this.#count()) });
    this.name = h("b");
    this.place = h("span.num");
    this.button = h("button.site", { type: "button", title: words.hint, "aria-expanded": "false", onclick: () => this.toggle() }, this.name, this.place, "▾");
    this.list = h("div.sites", { hidden: true, role: "group", "aria-label": words.list });
    this.root = h("div.sitebox", { hidden: true }, this.button, this.list);
    store.on("sites", () => this.#build());
    store.on("site", () => this.#show());
    for (const event of ["geometry", "labels", "imageQuality", "scores", "blind", "threshold", "flagging"]) store.on(event, () => this.#later());
  }

  get isOpen() {
    return !this.list.hidden;
  }

  toggle(isOpen = !this.isOpen) {
    this.list.hidden = !isOpen;
    this.button.setAttribute("aria-expanded", String(isOpen));
    if (isOpen) this.#count();
    if (isOpen) this.rows[this.store.site].root.scrollIntoView?.({ block: "nearest" });
    else if (this.list.contains(this.root.getRootNode().activeElement)) this.button.focus();
  }

  // Rows stay while counts change: one that is pressed must not be replaced.
  #build() {
    const { sites } = this.store;
    this.root.hidden = sites.length < 2;
    this.rows = sites.map(({ name }, k) => {
      const [state, cells] = [h("span.state"), COLUMNS.map(() => h("span.num"))];
      return { cells, state, root: h("button.row", { type: "button", onclick: () => (this.toggle(false), this.go(k)) }, h("span.named", {}, h("span", { title: name }, name), state), ...cells) };
    });
    const head = COLUMNS.map((column) => h("span", { title: words.columns[column][1] }, h(MARKS[column][0], {}, MARKS[column][1]), h("span.word", {}, ` ${words.columns[column][0]}`)));
    this.cells = [head, ...this.rows.map(({ cells }) => cells)];
    this.list.replaceChildren(h("div.row", {}, h("span.named"), ...head), ...this.rows.map(({ root }) => root));
    this.#show();
    this.#later();
  }

  #show() {
    const { sites, site } = this.store;
    this.name.textContent = sites[site].name;
    this.place.textContent = words.place(site + 1, sites.length);
    this.rows?.forEach(({ root }, k) => root.setAttribute("aria-current", String(k === site)));
  }

  // Only for those who look, and once a frame.
  #later() {
    if (this.isOpen) this.countSoon();
  }

  #count() {
    countSites(this.store).forEach((counts, k) => {
      const { cells, state } = this.rows[k];
      cells.forEach((cell, at) => (cell.textContent = number(counts[COLUMNS[at]] ?? 0)));
      state.textContent = stateOf(counts);
      for (const row of this.cells) row[COLUMNS.indexOf("flagged")].hidden = counts.flagged === null;
    });
  }
}
