// "Next 20": one building large, the others small, answers by single keys.

import { LABEL_TEXTS, NOT_ASSESSABLE, NOT_DAMAGED, POSITIVE, UNLABELED } from "./colors.js";
import { areaText, labelText, markHere, scoreText, swatchOf } from "./describe.js";
import { h, isShown, onceADoubleClick, onceAFrame } from "./dom.js";
import { colorOf } from "./grades.js";
import { NO_DETAILS } from "./details.js";
import { QUEUE_KEYS } from "./keys.js";
import { TEXTS } from "./texts.js";
import { TypeRow } from "./type_row.js";

const { queue: words } = TEXTS;
const KINDS = words.kinds;
const ANSWERS = [[POSITIVE, "1"], [NOT_DAMAGED, "2"], [NOT_ASSESSABLE, "3"]];
const STEPS = { ArrowLeft: -1, ArrowUp: -1, ArrowRight: 1, ArrowDown: 1 };
const LARGEST_PX = 420;
const SMALLEST_PX = 120;
const [THUMB_PX, SMALL_THUMB_PX] = [46, 30];
const LOW_PX = 640; // a pane lower than this has small thumbnails, so that the large picture stays large
const GAP = 8;

export class QueuePane {
  /**
   * @param actions {give(i, code, grade or null, types), regrade(i, grade): as a key on a damaged building does, type(i, types),
   *   isForeignCheck(i)}
   */
  constructor(store, queue, pictures, actions) {
    Object.assign(this, { store, queue, pictures, actions, pressed: onceADoubleClick(), later: onceAFrame(() => this.#draw()) });
    this.title = h("b");
    this.progress = h("span.soft");
    this.askText = h("span");
    this.askButton = h("button.choice", { type: "button", title: words.moreHint, onclick: () => this.queue.ask(true) }, h("kbd", {}, "Q"), this.askText);
    this.large = h("div.large", { title: words.keysHint });
    this.reason = h("div.why");
    this.facts = h("div.facts");
    const button = ([code, key]) => h(`button.choice.label${code}`, { type: "button", "data-code": code, onclick: (event) => this.pressed(event, () => this.#answer(code)) }, h("kbd", {}, key), LABEL_TEXTS[code]);
    this.answers = h("div.answers", { role: "group", "aria-label": words.answers }, ...ANSWERS.map(button),
      h("button.choice", { type: "button", onclick: () => this.#clear() }, h("kbd", {}, "0"), words.clear),
      h("button.choice", { type: "button", onclick: (event) => this.pressed(event, () => this.#skip()) }, h("kbd", {}, "N"), words.skip));
    this.kept = {}; // damage types that go with the next damaged building, too
    this.keep = h("button.type.keep", { type: "button", "aria-pressed": "false", title: TEXTS.types.keepHint, onclick: () => this.#keep() }, TEXTS.types.keep);
    this.drafts = new Map(); // building number to types that go with its answer "damaged", which is not given yet
    this.types = new TypeRow(store, (i) => this.#typesOf(i), (i, change) => this.#type(i, change), [this.keep], (i) => this.#isOpen(i) || store.labels[i] !== POSITIVE);
    this.thumbs = h("div.thumbs", { role: "listbox", "aria-label": words.list });
    this.note = h("div.note.soft", { role: "status" });
    this.root = h("section.pane.queuepane", { "aria-label": words.region },
      h("div.tools", {}, this.title, this.progress, h("div.push"), this.askButton), h("div.body", {}, this.large, this.reason, this.facts, this.answers, this.types.root, this.thumbs, this.note));
    for (const event of ["selected", "labels", "details", "scores", "blind", "others"]) store.on(event, () => this.later());
    for (const event of ["layer", "named"]) store.on(event, () => this.later());
    store.on("emptied", () => this.#forget());
    new ResizeObserver(() => this.later()).observe(this.root);
  }

  configure({ types }) {
    this.types.configure(types);
    this.later();
  }

  /** What is large, and answered by buttons and keys: the queue's next, or the building elsewhere that has the cursor; null for none. */
  get item() {
    const { current } = this.queue;
    const { selected } = this.store;
    return selected >= 0 && selected !== current?.i && !this.store.only ? { i: selected, kind: "elsewhere", why: "" } : current;
  }

  get #isElsewhere() {
    return this.item?.kind === "elsewhere";
  }

  /** Whether building i is large, and in view. */
  isInView(i) {
    return this.item?.i === i && isShown(this.large.getBoundingClientRect(), this.large);
  }

  showTarget(isTarget) {
    this.large.classList.toggle("target", isTarget);
  }

  // ---- answers ----

  /** @returns true if the key was used */
  key(name, event) {
    const { queue } = this;
    if (name === "q") return this.#once(event, () => queue.ask(true));
    if (!this.item) return false;
    const grade = this.store.scale.ofKey(name);
    if (queue.isOver && !this.#isElsewhere && (name in QUEUE_KEYS || grade || name === "n")) return this.#once(event, () => this.#goFurther(name));
    if (name in STEPS) return queue.go(queue.at + (this.#isElsewhere ? 0 : STEPS[name])), true;
    if (name in QUEUE_KEYS) return this.#once(event, () => this.#answer(QUEUE_KEYS[name]));
    if (grade) return this.#once(event, () => this.grade(grade));
    if (name === "0" || name === "Backspace") return this.#once(event, () => this.#clear());
    if (name === "n") return this.#once(event, () => this.#skip());
    if (name === "t" && !this.types.root.hidden) return this.#once(event, () => this.types.focus());
    return false;
  }

  // The key may be meant for a picture that is not here yet: it must not change the answer before it.
  #goFurther(name) {
    if (name === "n" || name === "Enter") this.queue.ask(true);
  }

  // A key that is held down must not answer the whole queue.
  #once(event, act) {
    if (!event?.repeat) act();
    return true;
  }

  #answer(code) {
    const { item } = this;
    if (!item) return;
    this.types.commit(code === POSITIVE);
    this.#touch();
    this.#giveWithTypes(item, code);
    this.#goOn();
  }

  #touch() {
    if (!this.#isElsewhere) this.queue.touch();
  }

  #goOn() {
    if (this.#isElsewhere) this.queue.back();
    else this.queue.goOn();
  }

  #skip() {
    if (this.#isElsewhere) this.queue.back();
    else this.queue.skip();
  }

  // A grade answers what is open, and corrects what was answered before; an audit's answer is never changed by half.
  grade(grade) {
    const { item } = this;
    if (!item) return;
    const { labels } = this.store;
    this.#touch();
    if (labels[item.i] === POSITIVE && item.kind !== "audit") return this.actions.regrade(item.i, grade);
    this.#giveWithTypes(item, POSITIVE, grade);
    this.#goOn();
  }

  #giveWithTypes(item, code, grade = null) {
    this.actions.give(item.i, code, grade, code === POSITIVE ? this.#typesFor(item) : {});
    this.drafts.delete(item.i);
    this.#keepFrom(item, code);
  }

  // ---- damage types ----

  // Only a type that a building has makes it damaged. What it has not says so of damaged ones alone, and waits for that answer.
  #type(i, change) {
    const { damage_types: before } = this.#typesOf(i);
    if (this.#isOpen(i) && change.damage_types.every((type) => before.includes(type))) {
      this.drafts.set(i, change);
      return this.later();
    }
    this.drafts.delete(i);
    if (this.queue.current?.i === i) {
      this.queue.touch();
      this.queue.hold();
    }
    this.actions.type(i, change);
    this.#keepFrom({ i }, POSITIVE);
    this.later();
  }

  #keep() {
    const { item } = this;
    this.#setKeeps(!this.keeps);
    if (item) this.#keepFrom(item, this.store.labels[item.i]);
    this.later();
  }

  #setKeeps(keeps) {
    Object.assign(this, { keeps, kept: {} });
    this.keep.setAttribute("aria-pressed", String(keeps));
    this.keep.classList.toggle("on", keeps);
  }

  // The types of another project, or of other buildings, are none of those before.
  #forget() {
    this.drafts.clear();
    this.#setKeeps(false);
    this.#show(null);
  }

  #keepFrom({ i }, code) {
    if (!this.keeps || code !== POSITIVE || this.#isOpen(i)) return;
    const { damage_types, absent_types } = this.store.detail(i);
    if (damage_types.length + absent_types.length) this.kept = { damage_types, absent_types };
  }

  // Whether nobody answered building i, or another reader in place of this one.
  #isOpen(i) {
    return this.store.labels[i] === UNLABELED || this.actions.isForeignCheck(i);
  }

  // What goes with the answer "damaged". Nothing is put into a random check, and nothing into what was answered before.
  #typesFor({ i, kind }) {
    const kept = this.keeps && kind !== "audit" && this.store.labels[i] === UNLABELED ? this.kept : {};
    return this.#isOpen(i) ? (this.drafts.get(i) ?? kept) : {};
  }

  #showTypes(item) {
    const isOpen = Boolean(item) && this.#isOpen(item.i);
    if (!item || (!isOpen && this.store.labels[item.i] !== POSITIVE)) return this.types.show(-1);
    this.types.show(item.i, isOpen);
  }

  #typesOf(i) {
    const item = this.queue.items.find((each) => each.i === i) ?? { i };
    return this.#isOpen(i) ? { ...NO_DETAILS, ...this.#typesFor(item) } : this.store.detail(i);
  }

  #clear() {
    const { item } = this;
    if (!item) return;
    this.#touch();
    if (this.store.labels[item.i] !== UNLABELED) this.actions.give(item.i, UNLABELED);
  }

  // ---- drawing ----

  #draw() {
    const { queue, store } = this;
    if (this.root.hidden || !store.ready || !this.root.clientWidth) return;
    const n = queue.items.length;
    const skipped = n - queue.answered - queue.items.filter((_, place) => queue.isOpen(place)).length;
    this.progress.textContent = n ? words.progress(queue.answered, skipped) : "";
    this.#drawWish();
    const item = this.#isElsewhere ? this.item : (queue.items[queue.at] ?? null);
    this.#show(item);
    if (!item) return;
    this.#showTypes(item);
    this.#buildThumbs();
    queue.items.forEach((each, place) => this.#dress(this.thumbs.children[place], each, place));
    this.#drawItem(item);
  }

  #show(item) {
    for (const part of [this.large, this.reason, this.facts, this.answers, this.thumbs]) part.hidden = !item;
    if (!item) this.types.show(-1);
  }

  #drawWish() {
    const { queue, store } = this;
    const isChecked = store.only !== null && !queue.items.length; // of an assessment; the page says where its result is
    this.title.textContent = isChecked ? words.checked : words.title(queue.items.length);
    this.askText.textContent = queue.isDone || !queue.items.length ? words.again : words.more;
    this.askButton.hidden = queue.isOnItsWay || isChecked;
    if (queue.isOnItsWay) this.progress.textContent = words.loading;
    const isDone = (queue.isDone && !queue.isHeld) || !queue.items.length;
    this.note.textContent = isDone && !queue.isOnItsWay && !isChecked ? words.done : "";
  }

  #drawItem({ i, kind, why }) {
    const [word, meaning] = KINDS[kind] ?? [kind, ""];
    this.reason.replaceChildren(h(`span.kind.${kind in KINDS ? kind : "other"}`, {}, word), h("span", {}, (kind !== "audit" && why) || meaning));
    const isForeign = this.store.labels[i] !== UNLABELED && this.actions.isForeignCheck(i); // a check is answered from the pictures alone
    const facts = [h("b.who", { title: TEXTS.id(this.store.ids[i]) }, TEXTS.building(i))];
    if (!isForeign) facts.push(h("span", {}, swatchOf(this.store, i), labelText(this.store, i)));
    const score = scoreText(this.store, i);
    if (score) facts.push(h("span.num", {}, score));
    const others = this.store.othersAt(i).map(({ name }) => name);
    if (others.length) facts.push(h("b.alsohere", {}, TEXTS.alsoHere(others.join(", "))));
    this.facts.replaceChildren(...facts, h("span.num.soft", {}, areaText(this.store, i)));
    for (const button of this.answers.children) {
      const isGiven = !isForeign && Number(button.dataset.code) === this.store.labels[i];
      button.classList.toggle("given", isGiven);
      if (button.dataset.code) button.setAttribute("aria-pressed", String(isGiven));
    }
    const drawn = `${i} ${this.root.clientWidth} ${this.root.clientHeight} ${this.pictures.shows}`;
    if (drawn !== this.drawnItem) {
      this.drawnItem = drawn;
      this.large.replaceChildren(...this.#figures(i));
    }
  }

  #figures(i) {
    if (!this.pictures.has(i)) return [h("div.empty", {}, TEXTS.noPicture)];
    const { parts } = this.pictures;
    const wide = (this.root.clientWidth - GAP * (parts.length + 1)) / parts.length;
    const width = Math.floor(Math.min(LARGEST_PX, wide, Math.max(SMALLEST_PX, this.#roomFor())));
    return parts.map((part) => h("figure", {}, this.pictures.make(i, width, part), h("figcaption", {}, TEXTS.part(part))));
  }

  // What the buttons and thumbnails leave of the height, so that nothing has to be scrolled.
  #roomFor() {
    const body = this.large.parentElement;
    const others = [this.reason, this.facts, this.answers, this.types.root, this.thumbs, this.note].reduce((sum, { offsetHeight }) => sum + (offsetHeight ? offsetHeight + GAP : 0), 0);
    return body.clientHeight - others - 2 * GAP;
  }

  // Only where they differ: each run of the page comes here, maybe between press and release on one of them.
  #buildThumbs() {
    const side = this.root.clientHeight < LOW_PX ? SMALL_THUMB_PX : THUMB_PX;
    const drawn = JSON.stringify([this.queue.id, this.queue.items.map(({ i }) => i), side, this.pictures.configured]);
    if (drawn === this.drawnThumbs) return;
    this.drawnThumbs = drawn;
    this.drawnItem = null;
    const hadFocus = this.thumbs.contains(this.root.getRootNode().activeElement);
    this.thumbs.dataset.side = side;
    this.thumbs.replaceChildren(...this.queue.items.map(({ i }, place) => {
      const picture = this.pictures.has(i) ? this.pictures.make(i, side, this.pictures.dates.at(-1)) : h("div.picture", { style: `width:${side}px;height:${side}px` });
      return h("button.thumb", { type: "button", role: "option", tabindex: "-1", "data-view-keys": "yes", onclick: () => this.queue.go(place), onfocus: () => this.#focused(place) }, picture, h("span.here"), h("span.mark"));
    }));
    if (hadFocus) this.thumbs.children[this.queue.at].focus();
  }

  // Tab reaches one of the thumbnails; from there on arrows lead the focus along.
  #focused(place) {
    if (this.root.getRootNode().activeElement?.matches(":focus-visible") && (place !== this.queue.at || this.#isElsewhere)) this.queue.go(place);
  }

  #dress(thumb, { i, kind }, place) {
    const code = this.store.labels[i];
    const skipped = !this.queue.isAnswered(place) && this.queue.skipped.has(place);
    thumb.dataset.label = code;
    thumb.style.setProperty("--c", colorOf(this.store, i));
    thumb.classList.toggle("skipped", skipped);
    const isSelected = place === this.queue.at && !this.#isElsewhere;
    thumb.classList.toggle("selected", isSelected);
    thumb.setAttribute("aria-selected", String(isSelected));
    const state = skipped ? words.skipped : labelText(this.store, i);
    thumb.title = TEXTS.thumbLabel(place + 1, i, KINDS[kind]?.[0] ?? kind, state);
    thumb.setAttribute("aria-label", thumb.title);
    thumb.setAttribute("tabindex", place === this.queue.at ? "0" : "-1");
    const focused = this.root.getRootNode().activeElement;
    if (place === this.queue.at && focused !== thumb && focused?.parentElement === this.thumbs) thumb.focus();
    markHere(thumb.querySelector(".here"), this.store.othersAt(i));
    const graded = this.store.scale.choices[this.store.grades[i] - 1]?.[2];
    thumb.lastChild.textContent = skipped ? "↷" : { [POSITIVE]: graded ?? "1", [NOT_DAMAGED]: "2", [NOT_ASSESSABLE]: "3" }[code] ?? "";
  }
}
