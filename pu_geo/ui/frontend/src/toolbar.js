// The line above map and chips: how to look, undo, what keys act on, counts, whether all is saved, help.

import { NOT_ASSESSABLE, NOT_DAMAGED, POSITIVE, UNLABELED } from "./colors.js";
import { h, icon, segmented } from "./dom.js";
import { TEXTS } from "./texts.js";

const { toolbar: words, labels, number } = TEXTS;
const SAID_MS = 4000;

export class Toolbar {
  /** @param actions {view(name), colors(by), toggle(name), step(which), card(), dismiss()} */
  constructor(store, actions) {
    this.store = store;
    const button = (name, title, act) => h("button.flat", { type: "button", title, "aria-label": title, onclick: act }, icon(name));
    this.views = segmented(words.image, words.views, actions.view);
    this.colors = segmented(words.colors, words.colorChoices, actions.colors);
    this.eye = button("eye", words.outlines, () => actions.toggle("outlines"));
    this.arrows = button("shift", words.arrows, () => actions.toggle("arrows"));
    this.counts = h("div.counts");
    this.keys = h("div.keys", { hidden: true });
    this.others = h("div.others", { hidden: true });
    this.status = h("div.status");
    this.spoken = h("div.spoken", { role: "status" }); // for screen readers: the answer just given, or why there is none; nothing else speaks
    this.refusedText = h("span");
    this.refused = h("div.refused", { role: "alert", hidden: true }, this.refusedText, h("button.flat", { type: "button", title: words.dismiss, "aria-label": words.dismiss, onclick: actions.dismiss }, "✕"));
    this.mapTools = h("div.group", {}, this.views, this.colors, this.eye, this.arrows);
    this.labelTools = h("div.group", {}, button("undo", words.undo, () => actions.step("undo")), button("redo", words.redo, () => actions.step("redo")));
    store.on("emptied", () => this.counts.replaceChildren());
    this.helpButton = button("help", words.help, () => this.toggleHelp());
    const more = h("div.group", {}, button("card", words.card, actions.card), this.helpButton);
    this.root = h("header", {}, this.mapTools, this.labelTools, this.keys, h("div.push"), this.others, this.counts, this.status, more, this.spoken);
    const parts = TEXTS.help.map(([title, entries]) => h("div.part", {}, h("b", {}, title), h("dl", {}, ...entries.flatMap(([keys, text]) => [h("dt", {}, keys), h("dd", {}, text)]))));
    const close = h("button.flat", { type: "button", title: words.close, "aria-label": words.close, onclick: () => this.toggleHelp() }, "✕");
    this.help = h("div.help", { hidden: true, role: "dialog", "aria-label": words.shortcuts, tabindex: "-1" }, h("div.cardhead", {}, h("b", {}, words.shortcuts), close), h("div.columns", {}, ...parts));
  }

  toggleHelp() {
    const isOpen = this.help.hidden;
    if (isOpen) this.cameFrom = this.help.getRootNode().activeElement;
    this.help.hidden = !isOpen;
    this.helpButton.setAttribute("aria-expanded", String(isOpen));
    if (isOpen) this.help.focus({ preventScroll: true });
    else (this.cameFrom ?? this.help.closest(".pugeo"))?.focus({ preventScroll: true });
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
    this.eye.setAttribute("aria-pressed", String(store.outlines));
    this.arrows.hidden = !store.shifts;
    this.arrows.classList.toggle("on", store.arrows);
    this.arrows.setAttribute("aria-pressed", String(store.arrows));
    this.showCounts();
  }

  // Only here: neither the page nor its sidebar has to repeat them. Words give way to dots where the line is short.
  showCounts() {
    const { store } = this;
    if (!store.ready) return;
    const counts = store.counts();
    const entry = (dot, n, text, title) => h("span", { title }, dot, h("b", {}, number(n)), h("span.word", {}, ` ${text}`));
    const entries = [POSITIVE, NOT_DAMAGED].filter((code) => counts[code] || code === POSITIVE)
      .map((code) => entry(h(`i.dot.label${code}`), counts[code], labels[code].toLowerCase(), `${number(counts[code])} ${labels[code].toLowerCase()}`));
    const obscured = [...store.hidden.keys()].filter((i) => store.isHidden(i)).length;
    const missing = counts[NOT_ASSESSABLE] + obscured; // each building once, as on the other screens
    if (missing) entries.push(entry(h("i.dot.obscured"), missing, words.notAssessed, words.notAssessedHint(counts[NOT_ASSESSABLE], obscured)));
    this.counts.replaceChildren(...entries, h("span.soft", {}, words.of(store.n), h("span.word.all", {}, words.buildings(store.n))));
    this.counts.title = words.reviewed(store.n - counts[UNLABELED], store.n);
  }

  /** Name what keys act on. @param target {i, on}, or null where it would be out of sight */
  showTarget(target) {
    const { store } = this;
    this.target = target;
    this.keys.hidden = store.mode !== "label";
    const who = { selection: () => words.selected(store.chosen.length), queue: () => words.inQueue(target.i) };
    const text = target ? (who[target.on]?.() ?? TEXTS.building(target.i)) : words.noBuilding;
    if (text === this.keys.dataset.text || (!target && this.saying)) return;
    clearTimeout(this.saying);
    this.saying = null;
    this.keys.dataset.text = text;
    this.keys.title = target ? words.keysHint(text, store.ids[target.i]) : text;
    this.keys.classList.toggle("none", !target);
    this.keys.classList.remove("says");
    this.keys.replaceChildren(h("span.soft", {}, words.keys), h("b", {}, text));
  }

  /** A key was pressed and there was nothing in sight that it could have meant. */
  sayNoTarget(text) {
    clearTimeout(this.saying);
    this.keys.dataset.text = this.keys.title = text;
    this.keys.classList.add("says");
    this.keys.replaceChildren(h("b", {}, text));
    this.spoken.textContent = text;
    this.saying = setTimeout(() => {
      this.saying = null;
      this.showTarget(this.target);
    }, SAID_MS);
  }

  /** Let a screen reader read out which answer was given. */
  announce(numbers, code) {
    const label = code === UNLABELED ? words.cleared : labels[code];
    this.spoken.textContent = numbers.length === 1 ? words.answered(numbers[0], label) : words.answeredMany(numbers.length, label);
  }

  showOthers({ analyst, color } = {}) {
    const { others } = this.store;
    this.others.hidden = !others.length;
    const person = (name, dot) => h("span", { title: name }, h("i.dot", { style: `background:${dot}` }), name);
    this.others.replaceChildren(h("span.soft", {}, words.othersHere(others.length)), ...others.map((each) => person(each.name, each.color)));
    this.others.title = analyst ? words.youAre(analyst) : "";
    this.others.style.borderColor = color ?? "";
  }

  showStatus({ ops, problem, refused, state: logState }) {
    this.refused.hidden = !refused;
    this.refusedText.textContent = refused ? `${refused.problem} ${refused.hint}` : "";
    const labelling = this.store.mode === "label";
    const state = labelling || !ops.length ? logState : "waiting";
    let waiting = problem ? words.retrying(problem) : words.offline(ops.length);
    if (!labelling) waiting = words.notLabeling(ops.length);
    this.status.textContent = { saved: words.saved, saving: words.saving(ops.length), waiting }[state];
    if (state === "waiting" && this.status.dataset.state !== state) this.spoken.textContent = waiting;
    this.status.dataset.state = state;
    this.status.title = state === "waiting" ? words.kept(waiting) : words.savedHint;
    this.status.hidden = !labelling && state === "saved";
  }
}
