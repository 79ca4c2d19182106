// Words about one building, for the tooltip, the chip preview, the card and the queue.

import { LABEL_COLORS, LABEL_TEXTS, NOT_ASSESSABLE } from "./colors.js";
import { REASON_TEXTS } from "./details.js";
import { h } from "./dom.js";
import { colorOf, gradeText } from "./grades.js";
import { qualityLines } from "./image_quality.js";

export function swatch(code, hollow = false, color = LABEL_COLORS[code], pattern = "") {
  return h(`span.swatch.label${code}${hollow ? ".hollow" : ""}${pattern ? `.${pattern}` : ""}`, { style: `--c:${color}` });
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
  if (store.isHidden(i)) return `Not assessed: ${REASON_TEXTS[store.hidden.get(i)]}`;
  const reason = store.labels[i] === NOT_ASSESSABLE && REASON_TEXTS[store.detail(i).reason];
  return LABEL_TEXTS[store.labels[i]] + (reason ? `: ${reason}` : gradeText(store, i));
}

export function scoreText(store, i) {
  const score = store.score(i);
  return score === null ? null : `score ${score.toFixed(3)} · rank ${store.ranks[i].toLocaleString("en")}`;
}

export function areaText(store, i, gsd) {
  return `${Math.round(store.areas[i] * gsd * gsd).toLocaleString("en")} m²`;
}

export function describe(store, i, gsd) {
  const lines = [h("b", {}, store.ids[i]), h("div", {}, swatchOf(store, i), labelText(store, i))];
  const score = scoreText(store, i);
  if (score) lines.push(h("div.num", {}, score));
  lines.push(h("div.num.soft", {}, areaText(store, i, gsd)));
  lines.push(...qualityLines(store, i));
  if (store.queued >= 0 && store.queued !== i) lines.push(h("div.soft", {}, `A click labels it; keys answer ${store.ids[store.queued]} in the queue`));
  return lines;
}
