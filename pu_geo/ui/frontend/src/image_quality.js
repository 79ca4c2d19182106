// What the imagery says of a building, in words: whether it hides it, and how pre and post fit there.

import { UNLABELED } from "./colors.js";
import { REASON_TEXTS } from "./details.js";
import { h } from "./dom.js";
import { shiftText } from "./shifts.js";
import { TEXTS } from "./texts.js";

export function qualityLines(store, i) {
  const lines = [];
  const why = store.hidden.get(i);
  if (store.isHidden(i)) lines.push(h("div.soft", {}, store.mode === "label" ? TEXTS.overrideMine : TEXTS.overrideThere));
  else if (why) lines.push(h("div.soft", {}, TEXTS.imageryAgainst(REASON_TEXTS[why])));
  const shift = shiftText(store.shifts, i);
  if (shift) lines.push(h("div.num.soft", {}, shift));
  if (store.candidates.get(i) === "misaligned") {
    if (!shift) lines.push(h("div.soft", {}, TEXTS.cannotAlign));
    if (store.labels[i] === UNLABELED) lines.push(h("div.soft", {}, TEXTS.preMayDiffer));
  }
  return lines;
}

/** How many buildings the imagery keeps from being assessed, as answers stand. */
export function countHidden(store) {
  let n = 0;
  for (const i of store.hidden.keys()) n += store.isHidden(i);
  return n;
}
