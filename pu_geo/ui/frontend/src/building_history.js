// The history of the selected building, asked for over HTTP: who answered what and when, how each run scored it, what resembles it.
// Only where nothing is labeled: an answer must not hang on what the machine thinks.

import { h } from "./dom.js";

const WORDS = { positive: "damaged", not_damaged: "not damaged", not_assessable: "not assessable", cleared: "cleared" };
const SHARES = [["post_hidden_share", "after the event"], ["pre_hidden_share", "before it"]];
const PICTURE_PX = 64;
const WAIT_MS = 150; // walking along with the arrows asks for none of those in between

export class BuildingHistory {
  constructor(store, pictures) {
    Object.assign(this, { store, pictures, i: -1, url: null });
    this.root = h("div.history", { hidden: true });
  }

  configure({ base, token }) {
    this.url = base && token ? `${base}/${token}/story/` : null;
  }

  /** Show building i, or nothing where i is below 0. */
  show(i) {
    const wanted = this.url && i >= 0 && this.store.mode === "view" ? i : -1;
    this.root.hidden = wanted < 0;
    if (wanted === this.i) return;
    this.i = wanted;
    clearTimeout(this.timer);
    this.root.replaceChildren();
    if (wanted >= 0) this.timer = setTimeout(() => this.#load(wanted), WAIT_MS);
  }

  async #load(i) {
    try {
      const answer = await fetch(`${this.url}${i}.json`);
      if (!answer.ok) throw new Error(String(answer.status));
      const history = await answer.json();
      if (this.i === i) this.root.replaceChildren(...this.#draw(history));
    } catch {
      if (this.i === i) this.root.replaceChildren(h("span.soft", {}, "Its story cannot be read right now."));
    }
  }

  #draw({ events, runs, alike, before, attributes, imagery }) {
    const list = (title, rows) => (rows.length ? [h("b", {}, title), h("ul", {}, ...rows.map((row) => h("li", {}, row)))] : []);
    const answers = events.map((one) => `${when(one.at)} ${one.analyst}: ${WORDS[one.label] ?? one.label}${one.grade ? `: ${one.grade}` : ""}${one.kind === "set" ? "" : ` (${one.kind})`}${one.reason ? `, ${one.reason}` : ""}${one.comment ? `, “${one.comment}”` : ""}`);
    const scored = runs.map((run) => `${run.run_id}: ${run.score.toFixed(2)}, rank ${run.rank.toLocaleString("en")} of ${run.n.toLocaleString("en")}`);
    const earlier = before.map((one) => `round ${one.round}: ${WORDS[one.label] ?? one.damage_binary.replace("_", " ")}${one.grade ? `: ${one.grade}` : ""}`);
    const known = Object.entries(attributes).filter(([, value]) => value !== null).map(([name, value]) => `${name}: ${typeof value === "object" ? JSON.stringify(value) : value}`);
    return [
      ...this.#pictures([this.i], "Pre and post", this.pictures.wall ? this.pictures.parts : []),
      ...list("Imagery", imageryRows(imagery)), ...list("People said", answers), ...list("Earlier rounds", earlier), ...list("Scores", scored),
      ...this.#pictures(alike, "Looks like", ["post"]), ...list("From the footprint file", known),
    ];
  }

  #pictures(places, title, halves) {
    const shown = places.filter((i) => this.pictures.has(i));
    if (!shown.length) return [];
    const picture = (i, half) => h("button.picture", { type: "button", title: this.store.ids[i], style: this.pictures.style(i, PICTURE_PX, half), onclick: () => this.store.set("selected", i) });
    return [h("b", {}, title), h("div.pictures", {}, ...shown.flatMap((i) => halves.map((half) => picture(i, half))))];
  }
}

// The shift stands above, among the facts.
function imageryRows(imagery = {}) {
  const hidden = SHARES.filter(([key]) => imagery[key] > 0).map(([key, text]) => `${text} ${Math.max(1, Math.round(imagery[key] * 100))} %`);
  return hidden.length ? [`hidden of its outline: ${hidden.join(", ")}`] : [];
}

function when(at) {
  return at.slice(0, 16).replace("T", " ");
}
