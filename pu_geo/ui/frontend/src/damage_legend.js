// What the colors of the damage map mean, with counts.

import { ANSWER_COLORS, BY_PEOPLE, BY_SCORE, CATEGORY_COLORS, CELL_NONE, NEAR_COLORS, NO_TYPE, SEVERAL, drawnTypes, typeColor } from "./damage_painter.js";
import { RAMP_CSS } from "./colors.js";
import { REASON_TEXTS } from "./details.js";
import { h } from "./dom.js";
import { BELOW, FLAGGED, NEAR, UNKNOWN, categoryOf, countAbove, countCategories, countFrom, openScores } from "./flagging.js";
import { TEXTS } from "./texts.js";

const NAMES = ["confirmed", "flagged", "below", "unknown"];
const { damageMap: words, number } = TEXTS;

/** @returns rows of the legend */
export function damageLegend(store) {
  if (store.isTyped) return types(store);
  if (store.colorBy === "uncertainty") return [...uncertainty(), ...answers()];
  if (store.colorBy === "scores") return [rank(store), ...answers()];
  return [...(store.cells ? cells(store) : []), ...categories(store)];
}

const entry = (mark, ...words) => h("div.entry", {}, mark, ...words);

function categories(store) {
  const { categories: counts, notDamaged, reasons } = countCategories(store);
  return counts.flatMap((n, category) => {
    const rows = [h("div.entry.category", {}, h(`span.swatch.${NAMES[category]}`), h("span", {}, words.categories[category]), h("b.num", {}, number(n)))];
    if (category === 2 && notDamaged) rows.push(h("div.also", {}, words.notDamaged(notDamaged)));
    if (category === 3 && n) rows.push(h("div.also", {}, [...reasons].sort((a, b) => b[1] - a[1]).map(([reason, k]) => `${REASON_TEXTS[reason] ?? reason} ${number(k)}`).join(", ")));
    return rows;
  });
}

function cells(store) {
  const side = TEXTS.metres(Math.round(store.cells.side * store.gsd * 100) / 100);
  const { tops, ramp, hasUnknown } = store.cells;
  const box = (color) => h("span.swatch.cell", { style: `background:${color}` });
  const range = (k) => {
    const low = k ? tops[k - 1] + 1 : 1;
    return low === tops[k] ? number(low) : `${number(low)}–${number(tops[k])}`;
  };
  return [h("b", {}, words.cells(side)), h("div.entry.cells", {}, box(CELL_NONE), words.cellNone, ...ramp.flatMap((color, k) => [box(color), range(k)])), ...(hasUnknown ? [entry(h("span.swatch.unknown"), words.cellUnknown)] : [])];
}

function rank(store) {
  const sorted = openScores(store);
  const bar = h("div.ramp", { style: `background:${RAMP_CSS}` });
  if (sorted.length) {
    const place = 1 - (countFrom(sorted, store.threshold) + countAbove(sorted, store.threshold)) / 2 / sorted.length;
    bar.append(h("i", { style: `left:${100 * place}%` }));
  }
  return h("div.rampbox", {}, h("b", {}, words.rank), bar, h("div.rampends", {}, ...words.rankEnds.map((end) => h("span", {}, end))));
}

// Of each type how many have it and who says so; a building with several is counted at each, and drawn as one of several. On a scale
// each is counted and drawn at the worst that it reaches.
function types(store) {
  const counts = store.types.map(() => [0, 0]);
  let [several, none] = [0, 0];
  const others = [0, 0, 0, 0];
  for (let i = 0; i < store.n; i++) {
    const category = categoryOf(store, i);
    if (category > FLAGGED) {
      others[category]++;
      continue;
    }
    const found = drawnTypes(store, i);
    none += !found.length;
    several += found.length > 1;
    for (const k of found) counts[k][store.types[k].people.has(i) ? 0 : 1]++;
  }
  const box = (color, alpha = BY_PEOPLE) => h("span.swatch.cell", { style: `background:color-mix(in srgb, ${color} ${100 * alpha}%, transparent)` });
  const line = (mark, text, n, ...also) => [h("div.entry.category", {}, mark, h("span", {}, text), h("b.num", {}, number(n))), ...also.map((words) => h("div.also", {}, words))];
  const color = (k) => typeColor(k, store.types.length, store.isScale);
  const strongest = color(store.isScale ? store.types.length - 1 : 0);
  const ofSeveral = store.isScale ? [] : line(h("span.swatch.cell", { style: `background:${SEVERAL};border-color:#fff` }), words.typeSeveral, several);
  const rows = store.types.flatMap(({ name, named, enough }, k) => {
    const [people, score] = counts[k];
    const notes = [words.typeCounts(people, score), ...(enough ? [] : [words.typeFew(named)])];
    return line(box(color(k)), store.isScale ? words.worstGrade(name) : name, people + score, notes.join("; "));
  });
  return [
    h("b", {}, store.isScale ? words.typesOfScale : words.types), ...rows, ...ofSeveral, ...line(box(NO_TYPE, 0.35), words.typeNone, none),
    ...line(h("span.swatch.below"), words.categories[BELOW], others[BELOW]), ...line(box(CATEGORY_COLORS[UNKNOWN], 0.55), words.categories[UNKNOWN], others[UNKNOWN]),
    h("div.entry", {}, box(strongest), words.typeStrong, box(strongest, BY_SCORE), words.typePale),
    h("div.also", {}, words.typeNote),
  ];
}

function uncertainty() {
  const rows = NEAR_COLORS.map((color, step) => entry(h("span.swatch.cell", { style: `background:${color}` }), step < NEAR.length ? words.within(100 * NEAR[step]) : words.beyond(100 * NEAR.at(-1))));
  return [h("b", {}, words.uncertainty), ...rows, h("div.also", {}, words.uncertaintyNote)];
}

const answers = () => words.answered.map((words, k) => entry(h("span.swatch.hollow", { style: `--c:${ANSWER_COLORS[k]}` }), words));
