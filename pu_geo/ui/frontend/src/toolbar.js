// The line above map and chips: how to look, undo, counts, whether all is saved, help.

import { LABEL_TEXTS, NOT_ASSESSABLE, NOT_DAMAGED, POSITIVE } from "./colors.js";
import { h, icon, segmented } from "./dom.js";
import { HELP } from "./keys.js";
import { countHidden } from "./image_quality.js";

const SAID_MS = 4000;
const VIEWS = [["pre", "Pre", "Pre-event image (A)"], ["swipe", "Swipe", "Swipe between pre and post (S)"], ["post", "Post", "Post-event image (D)"], ["side", "Both", "Pre and post side by side (F)"]];
const COLORS = [["labels", "Labels", "Colour by label (P)"], ["scores", "Scores", "Colour by score (P)"]];

export class Toolbar {
  /** @param actions {view(name), colors(by), toggle(name), step(which), card(), dismiss()} */
  constructor(store, actions) {
    this.store = store;
    const button = (name, title, act) => h("button.flat", { type: "button", title, "aria-label": title, onclick: act }, icon(name));
    this.views = segmented("Image", VIEWS, actions.view);
    this.colors = segmented("Colours", COLORS, actions.colors);
    this.eye = button("eye", "Hide or show outlines (Space)", () => actions.toggle("outlines"));
    this.arrows = button("shift", "Arrows: how far pre and post are apart (V)", () => actions.toggle("arrows"));
    this.counts = h("div.counts", { "aria-live": "polite" });
    this.keys = h("div.keys", { hidden: true, role: "status" });
    this.others = h("div.others", { hidden: true, "aria-live": "polite" });
    this.status = h("div.status", { role: "status" });
    this.refusedText = h("span");
    this.refused = h("div.refused", { role: "alert", hidden: true }, this.refusedText, h("button.flat", { type: "button", title: "Dismiss", "aria-label": "Dismiss", onclick: actions.dismiss }, "✕"));
    this.mapTools = h("div.group", {}, this.views, this.colors, this.eye, this.arrows);
    this.labelTools = h("div.group", {}, button("undo", "Undo (Ctrl/⌘ Z)", () => actions.step("undo")), button("redo", "Redo (Ctrl/⌘ Shift Z)", () => actions.step("redo")));
    const more = h("div.group", {}, button("card", "About the selected building (I)", actions.card), button("help", "All shortcuts (?)", () => this.toggleHelp()));
    this.root = h("header", {}, this.mapTools, this.labelTools, this.keys, this.counts, h("div.push"), this.others, this.refused, this.status, more);
    const parts = HELP.flatMap(([title, entries]) => [h("dt.part", {}, title), ...entries.flatMap(([keys, text]) => [h("dt", {}, keys), h("dd", {}, text)])]);
    this.help = h("div.help", { hidden: true, role: "dialog", "aria-label": "Shortcuts", onclick: () => this.toggleHelp() }, h("b", {}, "Shortcuts"), h("dl", {}, ...parts));
  }

  toggleHelp() {
    this.help.hidden = !this.help.hidden;
  }

  show(data) {
    const { store } = this;
    this.mapTools.hidden = !data.panes.includes("map");
    this.labelTools.hidden = data.mode !== "label";
    this.views.choose(store.view);
    this.views.hidden = data.layers.length < 2;
    this.colors.hidden = !data.score_id || Boolean(data.flagging); // the damage map has its own
    this.counts.hidden = Boolean(data.flagging); // its legend counts
    this.colors.choose(store.scores ? store.colorBy : "labels");
    this.eye.classList.toggle("off", !store.outlines);
    this.arrows.hidden = !store.shifts;
    this.arrows.classList.toggle("on", store.arrows);
    this.arrows.setAttribute("aria-pressed", String(store.arrows));
    this.showCounts();
  }

  showCounts() {
    if (!this.store.ready) return;
    const counts = this.store.counts();
    const entries = [POSITIVE, NOT_DAMAGED, NOT_ASSESSABLE].filter((code) => counts[code] || code === POSITIVE)
      .map((code) => h("span", { title: LABEL_TEXTS[code] }, h(`i.dot.label${code}`), h("b", {}, counts[code].toLocaleString("en")), ` ${LABEL_TEXTS[code].toLowerCase()}`));
    const obscured = countHidden(this.store);
    if (obscured) entries.push(h("span", { title: "Not assessed: the imagery hides them, or the run has no evidence there" }, h("i.dot.obscured"), h("b", {}, obscured.toLocaleString("en")), " not assessed"));
    this.counts.replaceChildren(...entries, h("span.soft", {}, `of ${this.store.n.toLocaleString("en")} buildings`));
  }

  /** Name what keys act on. @param target {i, on}, or null where it would be out of sight */
  showTarget(target) {
    const { store } = this;
    this.keys.hidden = store.mode !== "label";
    const who = { selection: `the ${store.chosen.length.toLocaleString("en")} selected`, queue: `${store.ids[target?.i]}, in the queue` };
    const text = target ? (who[target.on] ?? store.ids[target.i]) : "no building";
    if (text === this.keys.dataset.text || (!target && this.saying)) return;
    clearTimeout(this.saying);
    this.saying = null;
    this.keys.dataset.text = this.keys.title = text;
    this.keys.classList.toggle("none", !target);
    this.keys.classList.remove("says");
    this.keys.replaceChildren(h("span.soft", {}, "Keys: "), h("b", {}, text));
  }

  /** A key was pressed and there was nothing in sight that it could have meant. */
  sayNoTarget(words) {
    clearTimeout(this.saying);
    this.keys.dataset.text = this.keys.title = words;
    this.keys.classList.add("says");
    this.keys.replaceChildren(h("b", {}, words));
    this.saying = setTimeout(() => {
      this.saying = null;
      this.showTarget(null);
    }, SAID_MS);
  }

  showOthers({ analyst, color } = {}) {
    const { others } = this.store;
    this.others.hidden = !others.length;
    const person = (name, dot) => h("span", { title: name }, h("i.dot", { style: `background:${dot}` }), name);
    this.others.replaceChildren(h("span.soft", {}, others.length === 1 ? "1 other here" : `${others.length} others here`), ...others.map((each) => person(each.name, each.color)));
    this.others.title = analyst ? `You are ${analyst}` : "";
    this.others.style.borderColor = color ?? "";
  }

  showStatus({ ops, problem, refused, state: logState }) {
    this.refused.hidden = !refused;
    this.refusedText.textContent = refused ? `${refused.problem} ${refused.hint}` : "";
    const labelling = this.store.mode === "label";
    const state = labelling || !ops.length ? logState : "waiting";
    const many = ops.length.toLocaleString("en");
    let waiting = problem ? `not saved, trying again: ${problem}` : `offline? ${many} waiting`;
    if (!labelling) waiting = `${many} not saved yet; they are sent once you label again`;
    this.status.textContent = { saved: "Saved", saving: `Saving ${many} …`, waiting }[state];
    this.status.dataset.state = state;
    this.status.title = state === "waiting" ? `${waiting}. The clicks are kept in this browser and sent again until the server has stored them.` : "";
    this.status.hidden = !labelling && state === "saved";
  }
}
