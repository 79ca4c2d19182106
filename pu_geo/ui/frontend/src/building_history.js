// The history of the selected building, asked for over HTTP: who answered what and when, how each run scored it, what resembles it.
// Only where nothing is labeled: an answer must not hang on what the machine thinks.

import { REASON_TEXTS } from "./details.js";
import { h } from "./dom.js";
import { inOrderOf } from "./files.js";
import { TEXTS } from "./texts.js";

const { card: words, history: WORDS } = TEXTS;
const SHARES = [["post_hidden_share", words.after], ["pre_hidden_share", words.before]];
const PICTURE_PX = 108;
const SMALL_PX = 70;
const WAIT_MS = 150; // walking along with the arrows asks for none of those in between
const AGAIN_MS = 2000; // after an answer without the chips like this one, which a large project works out first

export class BuildingHistory {
  constructor(store, pictures) {
    Object.assign(this, { store, pictures, i: -1, url: null });
    this.root = h("div.history", { hidden: true });
    for (const event of ["layer", "named"]) store.on(event, () => this.last && this.root.replaceChildren(...this.#draw(this.last)));
  }

  configure({ base, token, geometry_v }) {
    this.url = base && token ? (i) => `${base}/${token}/story/${i}.json?${inOrderOf(geometry_v)}` : null;
  }

  /** Show building i, or nothing where i is below 0. */
  show(i) {
    const wanted = this.url && i >= 0 && this.store.mode === "view" ? i : -1;
    this.root.hidden = wanted < 0;
    if (wanted === this.i) return;
    this.i = wanted;
    this.last = null;
    clearTimeout(this.timer);
    this.root.replaceChildren();
    if (wanted >= 0) this.timer = setTimeout(() => this.#load(wanted), WAIT_MS);
  }

  async #load(i) {
    try {
      const answer = await fetch(this.url(i));
      if (!answer.ok) throw new Error(String(answer.status));
      const history = await answer.json();
      if (this.i !== i) return;
      this.last = history;
      this.root.replaceChildren(...this.#draw(history));
      if (!history.alike) this.timer = setTimeout(() => this.#load(i), AGAIN_MS);
    } catch {
      if (this.i === i) this.root.replaceChildren(h("span.soft", {}, words.failed));
    }
  }

  #draw({ events, runs, alike, before, attributes, imagery }) {
    const list = (title, rows) => (rows.length ? [h("b", {}, title), h("ul", {}, ...rows.map((row) => h("li", {}, row)))] : []);
    const answers = events.map((one) => `${when(one.at)} ${one.analyst}: ${graded(WORDS[one.label] ?? one.label, one.grade)}${one.kind === "set" ? "" : ` (${words.kinds[one.kind] ?? one.kind})`}${one.reason ? `, ${REASON_TEXTS[one.reason] ?? one.reason}` : ""}${typed(one)}${one.comment ? `, “${one.comment}”` : ""}`);
    const scored = runs.map((run) => TEXTS.rankAndScore(run.name ?? run.run_id, run.rank, run.n, run.score));
    const earlier = before.map((one) => words.round(one.round, graded(WORDS[one.label] ?? words.categories[one.damage_binary] ?? one.damage_binary, one.grade)));
    const known = Object.entries(attributes).filter(([, value]) => value !== null).map(([name, value]) => `${name}: ${typeof value === "object" ? JSON.stringify(value) : value}`);
    return [
      ...this.#pictures([this.i], words.pictures(this.store.namedLayer?.name), this.pictures.parts, PICTURE_PX),
      ...list(words.imagery, imageryRows(imagery)), ...list(words.answers, answers), ...list(words.rounds, earlier), ...list(words.scores, scored),
      ...(alike ? this.#pictures(alike, words.alike, ["post"], SMALL_PX) : list(words.alike, [words.alikeLater])), ...list(words.attributes, known),
    ];
  }

  #pictures(places, title, halves, width) {
    const shown = places.filter((i) => this.pictures.has(i));
    if (!shown.length) return [];
    const picture = (i, half) => h("button.picturebutton", { type: "button", title: TEXTS.building(i), onclick: () => this.store.set("selected", i) }, this.pictures.make(i, width, half));
    return [h("b", {}, title), h("div.pictures", {}, ...shown.flatMap((i) => halves.map((half) => picture(i, half))))];
  }
}

// The shift stands above, among the facts.
function imageryRows(imagery = {}) {
  const hidden = SHARES.filter(([key]) => imagery[key] > 0).map(([key, text]) => text(Math.max(1, Math.round(imagery[key] * 100))));
  return hidden.length ? [words.obscured(hidden.join(", "))] : [];
}

function graded(label, grade) {
  return grade ? TEXTS.grades.of(label, grade) : label;
}

function typed({ damage_types: has = [], absent_types: hasNot = [] }) {
  return [TEXTS.types.has(has), TEXTS.types.hasNot(hasNot)].filter(Boolean).map((text) => `, ${text}`).join("");
}

function when(at) {
  return at.slice(0, 16).replace("T", " ");
}
