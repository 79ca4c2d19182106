// What a threshold makes of the buildings of a run: the same categories, counts and ties as in exports.

import { NOT_ASSESSABLE, NOT_DAMAGED, POSITIVE, UNLABELED } from "./colors.js";

export const [CONFIRMED, FLAGGED, BELOW, UNKNOWN] = [0, 1, 2, 3];
export const NEAR = [0.02, 0.05, 0.1, 0.25]; // shares of the ranking that steps of uncertainty end at
const DECIMALS = 1e4;

/** A score as files have it, with 4 decimals; halves go to the even neighbor, as numpy rounds. */
export function written(score) {
  const scaled = score * DECIMALS;
  const low = Math.floor(scaled);
  if (scaled - low === 0.5) return (low % 2 ? low + 1 : low) / DECIMALS;
  return Math.round(scaled) / DECIMALS;
}

/** Whether building i may be flagged: assessed by the run, and without an answer. */
export function isOpen(store, i) {
  return store.labels[i] === UNLABELED && !store.hidden.has(i) && !Number.isNaN(store.scores[i]);
}

export function categoryOf(store, i) {
  const label = store.labels[i];
  if (label === POSITIVE) return CONFIRMED;
  if (label === NOT_DAMAGED) return BELOW;
  if (label === NOT_ASSESSABLE || !isOpen(store, i)) return UNKNOWN;
  return written(store.scores[i]) >= store.threshold ? FLAGGED : BELOW;
}

/** Written scores of the buildings that may be flagged, highest first. */
export function openScores(store) {
  const found = [];
  for (let i = 0; i < store.n; i++) if (isOpen(store, i)) found.push(written(store.scores[i]));
  return Float64Array.from(found).sort().reverse();
}

/** How many of `sorted`, highest first, are at least `limit`. */
export const countFrom = (sorted, limit) => countWhile(sorted, (score) => score >= limit);

/** How many of them are above it. */
export const countAbove = (sorted, limit) => countWhile(sorted, (score) => score > limit);

function countWhile(sorted, isIn) {
  let [low, high] = [0, sorted.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (isIn(sorted[middle])) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** The threshold that flags the k highest; of equal scores the number nearest to k. As `estimates.first_threshold`. */
export function thresholdFor(sorted, k) {
  const n = sorted.length;
  if (!n) return 0.5;
  const wanted = Math.max(1, Math.min(n, Math.round(k)));
  const kth = sorted[wanted - 1];
  let nHigher = wanted - 1;
  while (nHigher && sorted[nHigher - 1] === kth) nHigher--;
  const nFrom = countFrom(sorted, kth);
  if (nHigher && (kth === 0 || wanted - nHigher < nFrom - wanted)) return sorted[nHigher - 1];
  return Math.max(kth, 1 / DECIMALS);
}

/** Counts by category, of the answered not damaged ones among `BELOW`, and of why others are not assessed. */
export function countCategories(store) {
  const counts = { categories: [0, 0, 0, 0], notDamaged: 0, reasons: new Map() };
  for (let i = 0; i < store.n; i++) {
    const category = categoryOf(store, i);
    counts.categories[category]++;
    if (store.labels[i] === NOT_DAMAGED) counts.notDamaged++;
    if (category !== UNKNOWN) continue;
    const reason = store.labels[i] === NOT_ASSESSABLE ? store.detail(i).reason || "unclear" : (store.hidden.get(i) ?? "not_in_run");
    counts.reasons.set(reason, (counts.reasons.get(reason) ?? 0) + 1);
  }
  return counts;
}

/** Numbers of the damage types of building i, as of its newest answer: none on what is no longer damaged. */
export function typesOf(store, i) {
  if (categoryOf(store, i) > FLAGGED) return [];
  return store.types.flatMap(({ people, score }, k) => (people.has(i) || score.has(i) ? [k] : []));
}

/** Step of uncertainty of building i, 0 for nearest to the threshold; -1 for what is answered or not assessed. */
export function uncertaintyOf(store, sorted, nFlagged, i) {
  if (!isOpen(store, i)) return -1;
  const score = written(store.scores[i]);
  const place = (countFrom(sorted, score) + countAbove(sorted, score)) / 2; // the middle of equal ones
  const away = Math.abs(place - nFlagged) / Math.max(sorted.length, 1);
  const step = NEAR.findIndex((end) => away <= end);
  return step < 0 ? NEAR.length : step;
}

// The slider is finer at its left end: of 50,000 buildings the first 500 take a tenth of it.

/** Place of the k-th of n on the slider, 0 to 1. */
export const placeOf = (k, n) => (n ? Math.sqrt(Math.min(k, n) / n) : 0);

/** How many are flagged at a place of the slider; at least one. */
export const countAt = (place, n) => Math.max(1, Math.min(n, Math.round(n * Math.max(0, Math.min(1, place)) ** 2)));

/** Mean score of each bar of the profile, and how many of the ranking end before it. */
export function profileOf(sorted, nBars) {
  const n = sorted.length;
  const bars = [];
  let from = 0;
  for (let bar = 0; bar < nBars && from < n; bar++) {
    const to = bar === nBars - 1 ? n : Math.min(n, Math.round(n * ((bar + 1) / nBars) ** 2));
    if (to <= from) continue;
    let sum = 0;
    for (let k = from; k < to; k++) sum += sorted[k];
    bars.push({ left: placeOf(from, n), right: placeOf(to, n), from, to, score: sum / (to - from) });
    from = to;
  }
  return bars;
}
