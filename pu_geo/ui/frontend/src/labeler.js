// Turns what the analyst does into operations of the log. Every answer is complete: label, details, why it was shown.

import { LABEL_NAMES, NOT_ASSESSABLE, POSITIVE, UNLABELED } from "./colors.js";
import { NO_DETAILS, YOU, detailsFor } from "./details.js";

export class Labeler {
  /**
   * @param log () => OperationLog
   * @param queue {current: item or null, id}
   * @param answered (numbers, code, act, screen) called after an answer, before anything else happens
   */
  constructor(store, log, queue, answered) {
    Object.assign(this, { store, log, queue, answered });
    this.analyst = null; // who answers, as the page names them
    this.shownFor = new Map(); // building id to what its answer was shown for, also after the queue is gone
  }

  get usable() {
    return this.store.mode === "label" && this.store.ready;
  }

  /** Give building i a label ("toggle" means positive); the label it already has is cleared instead. */
  toggle(i, wish, screen) {
    const wanted = wish === "toggle" ? POSITIVE : wish;
    this.give([i], wanted === this.store.labels[i] && !this.isForeignCheck(i) ? UNLABELED : wanted, screen);
  }

  /** Mark building i damaged with a grade; the grade it already has is taken away instead, and the building stays damaged. */
  grade(i, grade, screen) {
    const isGiven = this.store.labels[i] === POSITIVE && !this.isForeignCheck(i);
    if (!isGiven) this.give([i], POSITIVE, screen, grade);
    else this.#revise([i], { grade: this.store.detail(i).grade === grade ? "" : grade }, screen, null);
    if (isGiven) this.answered([i], POSITIVE, null, screen);
  }

  /** Give building i damage types; with them it is damaged. A random check is answered anew by them, unless this reader answered it. */
  type(i, types, screen) {
    if (this.store.labels[i] === POSITIVE && !this.isForeignCheck(i)) this.#revise([i], types, screen, null);
    else this.give([i], POSITIVE, screen, null, types);
  }

  /** Whether building i waits for this reader's answer to a random check: what it has is another reader's, or no answer to a check. */
  isForeignCheck(i) {
    const { current } = this.queue;
    return current?.i === i && current.kind === "audit" && !this.isOwnCheck(i);
  }

  /** Whether building i has this reader's answer to a random check. */
  isOwnCheck(i) {
    const detail = this.store.detail(i);
    return detail.shown === "audit" && this.#isOwn(detail);
  }

  #isOwn({ by }) {
    return by === YOU || by === this.analyst;
  }

  /**
   * Give one or many buildings a label, undone in one step; damaged ones a grade and damage types, too. Without them, what is
   * there stays.
   */
  give(numbers, code, screen, grade = null, types = {}) {
    if (!this.usable || !numbers.length) return;
    // An answer "not assessable" may get a reason later, which belongs to the same act.
    const act = numbers.length > 1 || code === NOT_ASSESSABLE ? this.#newAct() : null;
    const { current, id } = this.queue;
    this.log().addMany(numbers.map((i) => {
      const { asked } = this.store;
      const shown = numbers.length !== 1 ? {} : current?.i === i ? { shown: current.kind, queue: id } : asked?.shown && asked.notes.has(i) ? { shown: asked.shown } : {};
      this.shownFor.set(this.store.ids[i], shown);
      // A random check is answered from the pictures alone: what another reader graded, named or wrote does not slip into it.
      const before = numbers.length === 1 && this.isForeignCheck(i) ? NO_DETAILS : this.#learnable(i, shown);
      const own = grade !== null ? { grade } : shown.shown === "audit" ? { grade: "" } : {};
      return this.#operation(i, code, screen, act, detailsFor(code, before, { ...this.#likeliest(i, code), ...own, ...types }), shown);
    }));
    this.answered(numbers, code, act, screen);
  }

  // Nothing is learned from answers to random checks: their types and grades do not become part of another answer.
  #learnable(i, { shown }) {
    const detail = this.store.detail(i);
    return detail.shown === "audit" && shown !== "audit" ? { ...NO_DETAILS, comment: detail.comment } : detail;
  }

  // A wish for another reason comes after it, if it does; without one, this is what the imagery says.
  #likeliest(i, code) {
    const reason = code === NOT_ASSESSABLE && this.store.candidates.get(i);
    return reason ? { reason } : {};
  }

  /** Give the reason why buildings are not assessable, as part of the act that called them so. */
  because(numbers, reason, act) {
    const still = numbers.filter((i) => this.store.labels[i] === NOT_ASSESSABLE);
    this.#revise(still, { reason }, "keys", act);
  }

  /** Change a detail of building i: {reason}, {grade}, {damage_types, absent_types} or {comment}. */
  edit(i, change) {
    if (this.store.labels[i] !== UNLABELED) this.#revise([i], change, "card", null);
  }

  step(which) {
    if (this.usable) this.log().add({ [which]: true });
  }

  // The label stays, and so does what it was an answer to.
  #revise(numbers, change, screen, act) {
    if (!this.usable) return;
    const { store } = this;
    this.log().addMany(numbers.map((i) => {
      const detail = store.detail(i);
      const shown = (this.#isOwn(detail) && this.shownFor.get(store.ids[i])) || (detail.shown ? { shown: detail.shown } : {});
      return this.#operation(i, store.labels[i], screen, act, detailsFor(store.labels[i], detail, change), shown);
    }));
  }

  #operation(i, code, screen, act, details, shown) {
    return { building_id: this.store.ids[i], label: LABEL_NAMES[code], screen, ...(act ? { act } : {}), ...details, ...shown };
  }

  #newAct() {
    const log = this.log();
    return `${log.session}-act-${log.next}`;
  }
}
