// Which chips the wall shows, and in which order.

import { NOT_ASSESSABLE, NOT_DAMAGED, POSITIVE, UNLABELED } from "./colors.js";
import { Files, asFloats, inOrderOf } from "./files.js";
import { TEXTS } from "./texts.js";

const { orders: ORDERS, filters: FILTERS } = TEXTS.wall;

const CODES = { unlabeled: UNLABELED, positive: POSITIVE, not_damaged: NOT_DAMAGED, not_assessable: NOT_ASSESSABLE };
const GRADED = "grade:"; // a filter: the id of a grade, or nothing, behind it
const OF_SCORES = ["score", "uncertain"];
const HALF = 0.5; // the least certain score where no threshold is set

const distances = new Files(4);

/**
 * How far every building is from building i; null where the server has no such numbers.
 * @param n buildings on the map
 */
export async function distancesFrom(i, n, { base, token, geometry_v, wall }) {
  const url = `${base}/${token}/similar/${i}.f32?v=${encodeURIComponent(wall.v ?? "")}&${inOrderOf(geometry_v)}`;
  try {
    const found = await distances.get(url, asFloats);
    return found.length === n ? found : null;
  } catch {
    return null;
  }
}

/** @param like {i, distances} or null */
export function usableOrders(store, like) {
  return ORDERS.filter(([value]) => (store.scores || !OF_SCORES.includes(value)) && (value !== "like" || like))
    .map(([value, text]) => [value, value === "like" ? TEXTS.wall.like(like.i) : text]);
}

export function usableFilters(store) {
  const reasons = new Set(store.candidates.values());
  const has = { conflicts: Boolean(store.conflicts), hidden: store.hidden.size > 0, misaligned: reasons.has("misaligned") };
  const grades = [...store.scale.grades.map(({ id, name }) => [GRADED + id, `\u2003${name}`]), [GRADED, `\u2003${TEXTS.grades.notGraded}`]];
  const offered = store.scale.grades.length ? grades : [];
  return FILTERS.filter(([value]) => has[value] ?? true).flatMap((each) => (each[0] === "positive" ? [each, ...offered] : [each]));
}

/** Building numbers below n that pass the filter, sorted; only what is selected where clicks select and something is. */
export function arrange(store, n, { order, filter, like }) {
  let items = store.picks && store.chosen.length ? store.chosen.filter((i) => i < n) : Array.from({ length: n }, (_, i) => i);
  if (filter === "conflicts") items = items.filter((i) => store.conflicts?.has(i));
  else if (filter === "hidden") items = items.filter((i) => store.isHidden(i));
  else if (filter === "misaligned") items = items.filter((i) => store.candidates.get(i) === "misaligned");
  else if (filter.startsWith(GRADED)) items = items.filter((i) => store.labels[i] === POSITIVE && store.detail(i).grade === filter.slice(GRADED.length));
  else if (filter !== "all") items = items.filter((i) => store.labels[i] === CODES[filter]);
  if (order === "id") return items.sort((a, b) => (store.ids[a] < store.ids[b] ? -1 : 1));
  const by = {
    score: (i) => -(store.score(i) ?? -1),
    uncertain: (i) => Math.abs((store.score(i) ?? 9) - (store.threshold ?? HALF)),
    like: (i) => (Number.isNaN(like.distances[i]) ? Infinity : like.distances[i]),
    area: (i) => -store.areas[i],
  }[order];
  const keys = Float64Array.from({ length: n });
  for (const i of items) keys[i] = by(i);
  return items.sort((a, b) => (keys[a] === keys[b] ? a - b : keys[a] - keys[b]));
}
