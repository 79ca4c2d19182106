// What belongs to a label: reason, grade, damage types, comment, who gave it, and what the building was shown for.

import { NOT_ASSESSABLE, POSITIVE, UNLABELED } from "./colors.js";
import { TEXTS } from "./texts.js";

// [value, text, key]. No digits: they grade the building that keys act on, also while a reason is asked for.
export const REASONS = [
  ["cloud", "c"],
  ["outside_image", "o"],
  ["nodata", "x"],
  ["misaligned", "m"],
  ["no_building", "b"],
  ["unclear", "u"],
].map(([value, key]) => [value, TEXTS.reasons[value], key]);
// Why the imagery, or a run, keeps a building from being assessed is no answer that anybody gives.
export const REASON_TEXTS = { ...Object.fromEntries(REASONS.map(([value, text]) => [value, text.toLowerCase()])), ...TEXTS.notAnswers };
export const IS_ANSWER = new Set(REASONS.map(([value]) => value));
export const YOU = "you"; // who gave an answer of this browser that the page's data do not hold yet
export const NO_DETAILS = Object.freeze({ reason: "", grade: "", damage_types: [], absent_types: [], comment: "", by: "", shown: "" });

/** "0 3 a": differences of positions in base 36. */
export function* placesOf(text) {
  let at = 0;
  if (!text) return;
  for (const step of text.split(" ")) {
    at += parseInt(step, 36);
    yield at;
  }
}

/** The same text of ascending positions. */
export function encodePlaces(places) {
  return places.map((at, k) => (at - (k ? places[k - 1] : 0)).toString(36)).join(" ");
}

/** @returns Map of position to details */
export function decodeDetails(encoded) {
  const found = new Map();
  const of = (at) => found.get(at) ?? found.set(at, { ...NO_DETAILS, damage_types: [], absent_types: [] }).get(at);
  for (const name of ["by", "reason", "shown", "grade"]) {
    for (const [text, places] of Object.entries(encoded?.[name] ?? {})) for (const at of placesOf(places)) of(at)[name] = text;
  }
  for (const [text, places] of Object.entries(encoded?.type ?? {})) for (const at of placesOf(places)) of(at).damage_types.push(text);
  for (const [text, places] of Object.entries(encoded?.no_type ?? {})) for (const at of placesOf(places)) of(at).absent_types.push(text);
  for (const [at, text] of Object.entries(encoded?.comment ?? {})) of(Number(at)).comment = text;
  return found;
}

/** What an operation of the log leaves as details. */
export function detailsOf({ reason = "", grade = "", damage_types = [], absent_types = [], comment = "", shown = "" }) {
  return { reason, grade, damage_types, absent_types, comment, shown, by: YOU };
}

/** The details that go with a new label: a comment stays, grade and types belong to damaged ones, reasons to not assessable ones. */
export function detailsFor(code, before, change = {}) {
  if (code === UNLABELED) return {};
  const detail = { ...before, ...change };
  const kept = {};
  if (detail.comment) kept.comment = detail.comment;
  if (code === POSITIVE && detail.grade) kept.grade = detail.grade;
  if (code === POSITIVE && detail.damage_types.length) kept.damage_types = detail.damage_types;
  if (code === POSITIVE && detail.absent_types.length) kept.absent_types = detail.absent_types;
  if (code === NOT_ASSESSABLE) kept.reason = detail.reason || "unclear";
  return kept;
}
