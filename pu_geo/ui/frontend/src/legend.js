// What the colours on the map mean.

import { LABEL_TEXTS, RAMP_CSS } from "./colors.js";
import { REASON_TEXTS } from "./details.js";
import { swatch } from "./describe.js";
import { h } from "./dom.js";
import { arrowLegend } from "./shift_arrows.js";

/** @param resolution grid pixels per screen pixel */
export function legendRows(store, resolution) {
  const entry = (code, hollow) => h("div.entry", {}, swatch(code, hollow), LABEL_TEXTS[code]);
  const rows = [];
  if (store.colorBy === "scores" && store.scores) rows.push(ramp(store.threshold), ...[1, 2].map((code) => entry(code, true)));
  else rows.push(...[1, 2, 3, 0].map((code) => entry(code)));
  if (store.chosen.length) rows.push(h("div.entry", {}, h("span.swatch.chosen"), "Selected"));
  if (store.hidden.size) {
    const why = [...new Set(store.hidden.values())].map((reason) => REASON_TEXTS[reason]).sort();
    rows.push(h("div.entry", {}, h("span.swatch.unseen"), `Not assessed: ${why.join(", ")}`));
  }
  rows.push(...arrowLegend(store, resolution));
  if (!store.outlines) rows.push(h("div.hint", {}, "Outlines hidden — press Space"));
  return rows;
}

function ramp(threshold) {
  const bar = h("div.ramp", { style: `background:${RAMP_CSS}` });
  if (threshold !== null) bar.append(h("i", { style: `left:${threshold * 100}%` }));
  return h("div.rampbox", {}, h("b", {}, threshold === null ? "Score" : `Score · threshold ${threshold.toFixed(2)}`), bar, h("div.rampends", {}, h("span", {}, "0"), h("span", {}, "1 likely damaged")));
}
