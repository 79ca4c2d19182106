// All about the selected building; what is changed here is an operation like a click.

import { NOT_ASSESSABLE, POSITIVE, UNLABELED } from "./colors.js";
import { areaText, labelText, qualityLines, scoreText, swatchOf } from "./describe.js";
import { NO_DETAILS, REASONS } from "./details.js";
import { h } from "./dom.js";
import { BuildingHistory } from "./building_history.js";
import { TEXTS } from "./texts.js";
import { TypeRow } from "./type_row.js";

const { card: words } = TEXTS;

const LONGEST_COMMENT = 500;

export class Card {
  /**
   * @param edit (i, change)
   * @param isForeignCheck i => whether another reader's answer must not be known, nor changed by half
   */
  constructor(store, edit, pictures, isForeignCheck = () => false) {
    Object.assign(this, { store, edit, isForeignCheck });
    this.history = new BuildingHistory(store, pictures);
    this.i = -1;
    this.closedAt = -1;
    this.types = new TypeRow(store, (i) => store.detail(i), (i, change) => this.#change(i, change));
    this.name = h("b.who");
    this.id = h("div.id.soft");
    this.facts = h("div.facts");
    this.hint = h("div.soft");
    this.choices = h("div.choices");
    this.comment = h("textarea", { maxlength: LONGEST_COMMENT, rows: "3", placeholder: words.comment, "aria-label": words.comment, onchange: () => this.commit(), onblur: () => this.draw(), onkeydown: (event) => this.#typed(event) });
    this.filled = ""; // what the analyst found in the field
    this.root = h("aside.card", { hidden: true, "aria-label": words.title },
      h("div.cardhead", {}, this.name, h("button.flat", { type: "button", title: words.close, "aria-label": words.close, onclick: () => this.toggle() }, "✕")), this.facts, this.choices, this.types.root, this.comment, this.hint, this.history.root, this.id);
    store.on("selected", () => this.#follow());
    for (const event of ["details", "scale", "scores", "blind", "mode", "imageQuality", "shifts"]) store.on(event, () => this.draw());
    this.leaving = () => this.commit();
    window.addEventListener("pagehide", this.leaving);
  }

  configure(data) {
    this.types.configure(data.types);
    this.history.configure(data);
    this.draw();
  }

  toggle() {
    this.commit();
    this.root.hidden = !this.root.hidden;
    this.closedAt = this.root.hidden ? this.store.selected : -1; // in view mode the next building opens it again
    this.#follow();
  }

  /** Whether the analyst writes a comment or a type. */
  get isWriting() {
    return [this.comment, this.types.own].includes(this.root.getRootNode().activeElement);
  }

  /** Log what was typed and not logged yet. A field that nobody changed says nothing: others may have written meanwhile. */
  commit() {
    const { i, store } = this;
    const text = this.comment.value.trim();
    this.types.commit();
    const isChanged = text !== this.filled.trim() && i >= 0 && i < store.n && text !== store.detail(i).comment;
    if (isChanged && !this.comment.disabled) this.edit(i, { comment: text });
    this.filled = text;
  }

  #typed(event) {
    if (event.key === "Escape" || (event.key === "Enter" && (event.ctrlKey || event.metaKey))) this.comment.blur(); // which logs it
  }

  #follow() {
    if (!this.root.hidden) this.commit();
    if (this.store.mode === "view" && this.store.selected >= 0 && this.store.selected !== this.closedAt) this.root.hidden = false;
    this.i = this.root.hidden ? -1 : this.store.selected;
    if (this.i >= 0) this.comment.value = this.filled = this.store.detail(this.i).comment;
    this.draw();
  }

  draw() {
    const { i, store } = this;
    this.history.show(this.root.hidden || !store.ready ? -1 : i);
    if (this.root.hidden || !store.ready) return;
    const some = i >= 0 && i < store.n;
    const code = some ? store.labels[i] : UNLABELED;
    const isForeign = some && this.isForeignCheck(i);
    const detail = isForeign ? NO_DETAILS : some ? store.detail(i) : null;
    const writable = some && store.mode === "label" && code !== UNLABELED && !isForeign;
    this.name.textContent = some ? TEXTS.building(i) : words.none;
    this.id.textContent = some ? TEXTS.id(store.ids[i]) : "";
    this.facts.replaceChildren(...(some ? this.#facts(i, detail, isForeign) : []));
    this.#drawChoices(writable ? i : -1, code, detail);
    this.types.show(writable && code === POSITIVE ? i : -1);
    this.comment.hidden = !some || (!writable && !detail.comment);
    this.comment.disabled = !writable;
    if (some && !this.comment.matches(":focus")) this.comment.value = this.filled = detail.comment;
    this.hint.textContent = !some ? words.howTo : code === UNLABELED && store.mode === "label" ? words.labelFirst : "";
  }

  #facts(i, detail, isForeign) {
    const rows = isForeign ? [] : [h("span", {}, swatchOf(this.store, i), labelText(this.store, i), detail.by ? h("span.soft", {}, TEXTS.by(detail.by)) : null)];
    rows.push(h("span.num", {}, this.store.blind.has(i) ? words.hidden : (scoreText(this.store, i) ?? (this.store.isHidden(i) ? words.noScore : words.notRanked))));
    rows.push(h("span.num.soft", {}, areaText(this.store, i)));
    rows.push(...qualityLines(this.store, i));
    if (this.store.mode !== "label") rows.push(...[TEXTS.types.has(detail.damage_types), TEXTS.types.hasNot(detail.absent_types)].filter(Boolean).map((text) => h("span", {}, text)));
    return rows;
  }

  /** Draw the buttons anew only where they differ: a button replaced under a pressed mouse loses its click. */
  #drawChoices(i, code, detail) {
    const drawn = JSON.stringify(i < 0 ? null : [i, code, detail.reason]);
    if (drawn === this.drawnChoices) return;
    this.drawnChoices = drawn;
    this.choices.replaceChildren(...(i < 0 ? [] : this.#choices(i, code, detail)));
  }

  #choices(i, code, detail) {
    const choice = (text, on, change) => h(`button.choice${on ? ".on" : ""}`, { type: "button", "aria-pressed": String(on), onclick: () => this.#change(i, change) }, text);
    return code === NOT_ASSESSABLE ? REASONS.map(([value, text]) => choice(text, detail.reason === value, { reason: value })) : [];
  }

  #change(i, change) {
    this.commit();
    this.edit(i, change);
  }

  dispose() {
    this.commit();
    window.removeEventListener("pagehide", this.leaving);
  }
}
