// Words about one building, for the tooltip, the chip preview, the card and the queue.

import { LABEL_COLORS, LABEL_TEXTS, NOT_ASSESSABLE, UNLABELED } from "./colors.js";
import { REASON_TEXTS } from "./details.js";
import { h } from "./dom.js";
import { typesOf } from "./flagging.js";
import { colorOf, withGrade } from "./grades.js";
import { shiftText } from "./shifts.js";
import { TEXTS } from "./texts.js";

export function swatch(code, hollow = false, color = LABEL_COLORS[code], pattern = "") {
  return h(`span.swatch.label${code}${hollow ? ".hollow" : ""}${pattern ? `.grade-${pattern}` : ""}`, { style: `--c:${color}` });
}

/** Name on a chip the others who are on its building. */
export function markHere(mark, others) {
  mark.hidden = !others.length;
  mark.textContent = others.map(({ name }) => name).join(", ");
  mark.style.setProperty("--who", others[0]?.color ?? "");
}

/** The swatch of building i as the map shows it. */
export function swatchOf(store, i) {
  return store.isHidden(i) ? h("span.swatch.obscured") : swatch(store.labels[i], false, colorOf(store, i), store.scale.pattern(store.grades[i]));
}

export function labelText(store, i) {
  if (store.isHidden(i)) return TEXTS.notAssessed(REASON_TEXTS[store.hidden.get(i)]);
  const reason = store.labels[i] === NOT_ASSESSABLE && REASON_TEXTS[store.detail(i).reason];
  return reason ? `${LABEL_TEXTS[store.labels[i]]}: ${reason}` : withGrade(store, i, LABEL_TEXTS[store.labels[i]]);
}

export function scoreText(store, i) {
  const score = store.score(i);
  return score === null ? null : TEXTS.rankAndScore(store.scoreName ?? TEXTS.scoreName, store.ranks[i], store.nScored, score);
}

/** What a screen reader reads of a chip. */
export function chipLabel(store, i) {
  return TEXTS.chipLabel(i, labelText(store, i), store.score(i) === null ? null : store.ranks[i]);
}

/** Its size, and where it is in an event of several sites. */
export function areaText(store, i) {
  const { name, gsd_m } = store.siteWith(i);
  return [TEXTS.area(store.areas[i] * gsd_m ** 2), ...(store.borders.length ? [name] : [])].join(" · ");
}

export function describe(store, i) {
  const lines = [h("b", { title: store.ids[i] }, TEXTS.building(i)), h("div", {}, swatchOf(store, i), labelText(store, i))];
  const score = scoreText(store, i);
  if (score) lines.push(h("div.num", {}, score));
  const types = store.isFlagging ? typesOf(store, i).map((k) => (store.types[k].people.has(i) ? store.types[k].name : TEXTS.damageMap.typeByScore(store.types[k].name))) : [];
  if (types.length) lines.push(h("div", {}, TEXTS.damageMap.typesOf(types)));
  lines.push(h("div.num.soft", {}, areaText(store, i)));
  const why = store.asked?.notes.get(i);
  if (why) lines.push(h("div", {}, why));
  lines.push(...qualityLines(store, i));
  if (store.clickLabels && !store.only && store.selected >= 0 && store.selected !== i) lines.push(h("div.soft", {}, TEXTS.clickAndKeys(store.selected)));
  return lines;
}

/** What the imagery says of a building: whether it hides it, and how pre and post fit there. */
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
