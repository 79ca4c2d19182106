// What the imagery says of a building, in words: whether it hides it, and how pre and post fit there.

import { UNLABELED } from "./colors.js";
import { REASON_TEXTS } from "./details.js";
import { h } from "./dom.js";
import { shiftText } from "./shifts.js";

export function qualityLines(store, i) {
  const lines = [];
  const why = store.hidden.get(i);
  if (store.isHidden(i)) lines.push(h("div.soft", {}, store.mode === "label" ? "an answer of yours overrides it" : "an answer on Annotate overrides it"));
  else if (why) lines.push(h("div.soft", {}, `the imagery says: ${REASON_TEXTS[why]}; the answer counts`));
  const shift = shiftText(store.shifts, i);
  if (shift) lines.push(h("div.num.soft", {}, shift));
  if (store.candidates.get(i) === "misaligned") {
    if (!shift) lines.push(h("div.soft", {}, "pre and post could not be aligned here"));
    if (store.labels[i] === UNLABELED) lines.push(h("div.soft", {}, "pre may show another place: look closely"));
  }
  return lines;
}

/** How many buildings the imagery keeps from being assessed, as answers stand. */
export function countHidden(store) {
  let n = 0;
  for (const i of store.hidden.keys()) n += store.isHidden(i);
  return n;
}
