// What to do with the buildings inside a box or a line drawn by hand.

import { LABEL_TEXTS, NOT_ASSESSABLE, NOT_DAMAGED, POSITIVE, UNLABELED } from "./colors.js";
import { h, keepingFocus } from "./dom.js";
import { gradeButtons } from "./grades.js";
import { TEXTS } from "./texts.js";

const { marks: words } = TEXTS;

export class MarkBar {
  /** @param chosen (numbers, code, grade or null) */
  constructor(store, chosen) {
    Object.assign(this, { store, chosen });
    this.root = h("div.boxbar", { hidden: true, role: "group", "aria-label": words.title });
  }

  ask(numbers) {
    this.root.hidden = !numbers.length;
    if (this.root.hidden) return;
    const choice = (code, text) => h(`button.choice.label${code}`, { type: "button", onclick: () => this.#choose(numbers, code, null) }, text);
    const graded = gradeButtons(this.store.scale, (_, id) => this.#choose(numbers, POSITIVE, id), false);
    this.root.replaceChildren(h("b", {}, words.many(numbers.length)), choice(POSITIVE, LABEL_TEXTS[POSITIVE]), ...graded, ...[NOT_DAMAGED, NOT_ASSESSABLE].map((code) => choice(code, LABEL_TEXTS[code])), choice(UNLABELED, words.clear),
      h("button.flat", { type: "button", title: words.cancel, "aria-label": words.cancel, onclick: () => this.close() }, "✕"));
  }

  close() {
    keepingFocus(this.root, () => (this.root.hidden = true));
  }

  #choose(numbers, code, grade) {
    this.close();
    this.chosen(numbers, code, grade);
  }
}
