// "Next 20": one building large, the others small, answers by single keys.

import { NOT_ASSESSABLE, NOT_DAMAGED, POSITIVE, UNLABELED } from "./colors.js";
import { areaText, labelText, markHere, scoreText, swatchOf } from "./describe.js";
import { h } from "./dom.js";
import { GRADE, colorOf } from "./grades.js";
import { isShown } from "./target.js";

const KINDS = {
  exploit: ["Likely damaged", "one of the highest scores that nobody has answered"],
  explore: ["Something new", "unlike what was answered so far"],
  audit: ["Random check", "drawn by chance to see how good the ranking is; judge the pictures alone"],
};
const ANSWERS = [[POSITIVE, "1", "Positive"], [NOT_DAMAGED, "2", "Not damaged"], [NOT_ASSESSABLE, "3", "Not assessable"]];
const KEYS = { 1: POSITIVE, Enter: POSITIVE, 2: NOT_DAMAGED, 3: NOT_ASSESSABLE };
const STEPS = { ArrowLeft: -1, ArrowUp: -1, ArrowRight: 1, ArrowDown: 1 };
const LARGEST_PX = 340;
const THUMB_PX = 46;
const GAP = 8;

export class QueuePane {
  /** @param actions {give(i, code, grade or null), regrade(i, grade): as a key on a damaged building does} */
  constructor(store, queue, pictures, actions) {
    Object.assign(this, { store, queue, pictures, actions });
    this.title = h("b");
    this.progress = h("span.soft");
    this.askText = h("span");
    this.askButton = h("button.choice", { type: "button", title: "Ask for the next ones now; what is open here may come again", onclick: () => this.queue.ask(true) }, h("kbd", {}, "Q"), this.askText);
    this.large = h("div.large");
    this.reason = h("div.why");
    this.facts = h("div.facts");
    const button = ([code, key, text]) => h(`button.choice.label${code}`, { type: "button", "data-code": code, onclick: () => this.#answer(code) }, h("kbd", {}, key), text);
    this.answers = h("div.answers", {}, ...ANSWERS.map(button),
      h("button.choice", { type: "button", onclick: () => this.#clear() }, h("kbd", {}, "0"), "Clear"),
      h("button.choice", { type: "button", onclick: () => this.queue.skip() }, h("kbd", {}, "N"), "Skip"));
    this.grades = h("div.answers.grades", { role: "group", "aria-label": GRADE });
    this.thumbs = h("div.thumbs", { role: "listbox", "aria-label": "The queue" });
    this.note = h("div.note.soft", { role: "status" });
    this.root = h("section.pane.queuepane", { "aria-label": "What to look at next" },
      h("div.tools", {}, this.title, this.progress, h("div.push"), this.askButton), h("div.body", {}, this.large, this.reason, this.facts, this.answers, this.grades, this.thumbs, this.note));
    store.on("scale", () => this.#buildGrades());
    for (const event of ["labels", "details", "scores", "blind", "others"]) store.on(event, () => this.later());
    new ResizeObserver(() => this.later(true)).observe(this.root);
  }

  configure({ gsd_m }) {
    this.gsd = gsd_m;
    this.later(true);
  }

  later(rebuild = false) {
    this.rebuild ||= rebuild;
    if (this.scheduled) return;
    this.scheduled = true;
    requestAnimationFrame(() => {
      this.scheduled = false;
      this.#draw();
    });
  }

  /** Whether the large picture is in view; it is that of the current building. */
  isInView() {
    return isShown(this.large.getBoundingClientRect(), this.large);
  }

  showTarget(isTarget) {
    this.large.classList.toggle("target", isTarget);
  }

  // ---- answers ----

  /** @returns true if the key was used */
  key(name, event) {
    const { queue } = this;
    if (name === "q") return this.#once(event, () => queue.ask(true));
    if (!queue.current) return false;
    const grade = this.store.scale.ofKey(name);
    if (queue.isOver && (name in KEYS || grade || name === "n")) return this.#once(event, () => this.#goFurther(name));
    if (name in STEPS) return queue.go(queue.at + STEPS[name]), true;
    if (name in KEYS) return this.#once(event, () => this.#answer(KEYS[name]));
    if (grade) return this.#once(event, () => this.#grade(grade));
    if (name === "0" || name === "Backspace") return this.#once(event, () => this.#clear());
    if (name === "n") return this.#once(event, () => queue.skip());
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
    const item = this.queue.current;
    if (!item) return;
    this.queue.touch();
    this.actions.give(item.i, code);
    this.queue.goOn();
  }

  // A grade answers what is open, and corrects what was answered before; an audit's answer is never changed by half.
  #grade(grade) {
    const item = this.queue.current;
    if (!item) return;
    const { labels } = this.store;
    this.queue.touch();
    if (labels[item.i] === POSITIVE && item.kind !== "audit") {
      this.actions.regrade(item.i, grade);
      this.queue.go(this.queue.at);
      return;
    }
    this.actions.give(item.i, POSITIVE, grade);
    this.queue.goOn();
  }

  #buildGrades() {
    const { scale } = this.store;
    const button = ([id, name, key], at) => h("button.choice", { type: "button", "data-grade": id, style: `--c:${scale.color(at + 1)}`, onclick: () => this.#grade(id) }, h("kbd", {}, key), h("i.gradedot"), name);
    this.grades.replaceChildren(...(scale.choices.length ? [h("span.soft", {}, `${GRADE}:`), ...scale.choices.map(button)] : []));
  }

  #clear() {
    const item = this.queue.current;
    if (!item) return;
    this.queue.touch();
    if (this.store.labels[item.i] !== UNLABELED) this.actions.give(item.i, UNLABELED);
    this.queue.go(this.queue.at);
  }

  // ---- drawing ----

  #draw() {
    const { queue, store } = this;
    if (this.root.hidden || !store.ready || !this.root.clientWidth) return;
    const n = queue.items.length;
    this.title.textContent = n ? `Next ${n}` : "Nothing to look at";
    const skipped = n - queue.answered - queue.items.filter((_, place) => queue.isOpen(place)).length;
    this.progress.textContent = n ? `${queue.answered} answered${skipped ? ` · ${skipped} skipped` : ""}` : "";
    this.#drawWish();
    const item = queue.items[queue.at] ?? null;
    for (const part of [this.large, this.reason, this.facts, this.answers, this.grades, this.thumbs]) part.hidden = !item;
    if (!item) return;
    if (this.rebuild || this.drawnId !== queue.id || this.thumbs.children.length !== n) this.#buildThumbs();
    this.#drawItem(item);
    queue.items.forEach((each, place) => this.#dress(this.thumbs.children[place], each, place));
  }

  #drawWish() {
    const { queue } = this;
    this.askText.textContent = queue.isDone || !queue.items.length ? "Ask again" : "Next ones";
    this.askButton.hidden = queue.isOnItsWay;
    if (queue.isOnItsWay) this.note.textContent = "Asking for the next ones …";
    else if (queue.isDone || !queue.items.length) this.note.textContent = "All of these are answered or skipped, and nothing else came back so far. Enter asks again; arrows lead back.";
    else this.note.textContent = "Keys answer the large picture, wherever the pointer is.";
  }

  #drawItem({ i, kind, why }) {
    const drawn = `${i} ${this.root.clientWidth} ${this.root.clientHeight} ${this.pictures.configured}`;
    if (drawn !== this.drawnItem) {
      this.drawnItem = drawn;
      this.large.replaceChildren(...this.#figures(i));
    }
    const [word, meaning] = KINDS[kind] ?? [kind, ""];
    this.reason.replaceChildren(h(`span.kind.${kind in KINDS ? kind : "other"}`, {}, word), h("span", {}, (kind !== "audit" && why) || meaning));
    const facts = [h("b.who", {}, this.store.ids[i]), h("span", {}, swatchOf(this.store, i), labelText(this.store, i))];
    const score = scoreText(this.store, i);
    if (score) facts.push(h("span.num", {}, score));
    const others = this.store.othersAt(i).map(({ name }) => name);
    if (others.length) facts.push(h("b.alsohere", {}, `${others.join(", ")} on it too`));
    this.facts.replaceChildren(...facts, h("span.num.soft", {}, areaText(this.store, i, this.gsd)));
    const given = this.store.labels[i] === POSITIVE ? this.store.detail(i).grade : "";
    for (const button of this.grades.children) if (button.dataset.grade) button.classList.toggle("given", button.dataset.grade === given);
    for (const button of this.answers.children) button.classList.toggle("given", Number(button.dataset.code) === this.store.labels[i]);
  }

  #figures(i) {
    if (!this.pictures.has(i)) return [h("div.empty", {}, "No chip of this building; look at the map.")];
    const { parts, shape } = this.pictures;
    const wide = (this.root.clientWidth - GAP * (parts.length + 1)) / parts.length;
    const high = this.root.clientHeight * 0.5;
    const width = Math.floor(Math.min(LARGEST_PX, wide, high / shape));
    return parts.map((part) => h("figure", {}, h("div.picture", { style: this.pictures.style(i, width, part) }), h("figcaption", {}, part)));
  }

  #buildThumbs() {
    this.rebuild = false;
    this.drawnId = this.queue.id;
    this.drawnItem = null;
    this.thumbs.replaceChildren(...this.queue.items.map(({ i }, place) => {
      const picture = this.pictures.has(i) ? h("div.picture", { style: this.pictures.style(i, THUMB_PX, "post") }) : h("div.picture", { style: `width:${THUMB_PX}px;height:${THUMB_PX}px` });
      return h("button.thumb", { type: "button", role: "option", tabindex: "-1", onclick: () => this.queue.go(place) }, picture, h("span.here"), h("span.mark"));
    }));
  }

  #dress(thumb, { i, kind }, place) {
    const code = this.store.labels[i];
    const skipped = !this.queue.isAnswered(place) && this.queue.skipped.has(place);
    thumb.dataset.label = code;
    thumb.style.setProperty("--c", colorOf(this.store, i));
    thumb.classList.toggle("skipped", skipped);
    thumb.classList.toggle("selected", place === this.queue.at);
    thumb.setAttribute("aria-selected", String(place === this.queue.at));
    thumb.title = `${place + 1}. ${KINDS[kind]?.[0] ?? kind} — ${skipped ? "Skipped" : labelText(this.store, i)}`;
    markHere(thumb.querySelector(".here"), this.store.othersAt(i));
    const graded = this.store.scale.choices[this.store.grades[i] - 1]?.[2];
    thumb.lastChild.textContent = skipped ? "↷" : { [POSITIVE]: graded ?? "1", [NOT_DAMAGED]: "2", [NOT_ASSESSABLE]: "3" }[code] ?? "";
  }
}
