// What the colors of the damage map mean, with counts.

import { ANSWER_COLORS, CELL_NONE, NEAR_COLORS } from "./damage_painter.js";
import { DAMAGE_TEXTS } from "./damage_texts.js";
import { RAMP_CSS } from "./colors.js";
import { REASON_TEXTS } from "./details.js";
import { h } from "./dom.js";
import { NEAR, countAbove, countCategories, countFrom, openScores } from "./flagging.js";

const NAMES = ["confirmed", "flagged", "below", "unknown"];
const { number } = DAMAGE_TEXTS;

/** @returns rows of the legend */
export function damageLegend(store) {
  if (store.colorBy === "uncertainty") return [...uncertainty(), ...answers()];
  if (store.colorBy === "scores") return [rank(store), ...answers()];
  return [...(store.cells ? cells(store) : []), ...categories(store)];
}

const entry = (mark, ...words) => h("div.entry", {}, mark, ...words);

function categories(store) {
  const { categories: counts, notDamaged, reasons } = countCategories(store);
  return counts.flatMap((n, category) => {
    const rows = [h("div.entry.category", {}, h(`span.swatch.${NAMES[category]}`), h("span", {}, DAMAGE_TEXTS.categories[category]), h("b.num", {}, number(n)))];
    if (category === 2 && notDamaged) rows.push(h("div.also", {}, DAMAGE_TEXTS.notDamaged(notDamaged)));
    if (category === 3 && n) rows.push(h("div.also", {}, DAMAGE_TEXTS.why([...reasons].sort((a, b) => b[1] - a[1]).map(([reason, k]) => `${REASON_TEXTS[reason] ?? reason} ${number(k)}`))));
    return rows;
  });
}

function cells(store) {
  const meters = Math.round(store.cells.side * store.gsd * 100) / 100;
  const side = meters >= 1000 ? `${meters / 1000} km` : `${meters} m`;
  const { tops, ramp } = store.cells;
  const box = (color) => h("span.swatch.cell", { style: `background:${color}` });
  const range = (k) => {
    const low = k ? tops[k - 1] + 1 : 1;
    return low === tops[k] ? number(low) : `${number(low)}–${number(tops[k])}`;
  };
  return [h("b", {}, DAMAGE_TEXTS.cells(side)), h("div.entry.cells", {}, box(CELL_NONE), DAMAGE_TEXTS.cellNone, ...ramp.flatMap((color, k) => [box(color), range(k)]))];
}

function rank(store) {
  const sorted = openScores(store);
  const bar = h("div.ramp", { style: `background:${RAMP_CSS}` });
  if (sorted.length) {
    const place = 1 - (countFrom(sorted, store.threshold) + countAbove(sorted, store.threshold)) / 2 / sorted.length;
    bar.append(h("i", { style: `left:${100 * place}%` }));
  }
  return h("div.rampbox", {}, h("b", {}, DAMAGE_TEXTS.rank), bar, h("div.rampends", {}, ...DAMAGE_TEXTS.rankEnds.map((end) => h("span", {}, end))));
}

function uncertainty() {
  const rows = NEAR_COLORS.map((color, step) => entry(h("span.swatch.cell", { style: `background:${color}` }), step < NEAR.length ? DAMAGE_TEXTS.within(100 * NEAR[step]) : DAMAGE_TEXTS.beyond(100 * NEAR.at(-1))));
  return [h("b", {}, DAMAGE_TEXTS.uncertainty), ...rows, h("div.also", {}, DAMAGE_TEXTS.uncertaintyNote)];
}

const answers = () => DAMAGE_TEXTS.answered.map((words, k) => entry(h("span.swatch.hollow", { style: `--c:${ANSWER_COLORS[k]}` }), words));
