// What color each dot of the scatter has, and what the colors mean. A dot has a code, and each code a color.

import { CIVIDIS, LABEL_COLORS, LABEL_TEXTS, NOT_ASSESSABLE, NOT_DAMAGED, POSITIVE, UNLABELED, between, rgbOf } from "./colors.js";
import { TEXTS } from "./texts.js";

// Paul Tol's muted colors, and two more; pale ones and dark ones alternate, so that neighbors in the list differ.
const CATEGORIES = ["#CC6677", "#332288", "#DDCC77", "#117733", "#88CCEE", "#882255", "#44AA99", "#AA4499", "#999933", "#0072B2", "#E69F00", "#661100"];
const OTHER = "#77808c";
// Steps of one ramp, the least first: what counts most stands out most from the background.
const RAMPS = { light: ["#c4c9d0", "#f6b98a", "#e2562c", "#7a1408"], dark: ["#4d545f", "#8a5f45", "#f0642f", "#ffd27d"] };
const HIDDEN = "#009E73"; // not assessable: gray is what was not reviewed
export const STEPS = 20;

const hexOf = (rgb) => `#${rgb.map((band) => band.toString(16).padStart(2, "0")).join("")}`;
const STOPS = CIVIDIS.map(rgbOf);
const cividis = (step) => between(STOPS, (step + 0.5) / STEPS);

/**
 * @returns {
 *   codes: Uint8Array, one a building; 0 for what has no value
 *   palette: [red, green, blue] by code
 *   order: codes, those that are drawn first first
 *   entries: [{code, text, color}] of a legend of categories, null for a ramp
 * }
 * @param none [red, green, blue] of what has no value
 * @param ramp "light" or "dark", as the background
 */
export function colorDots(store, color, values, none, ramp = "light") {
  if (color.kind === "labels") return byLabel(store, none);
  if (color.kind === "numbers") {
    const span = color.high - color.low || 1;
    const step = (value) => Math.max(0, Math.min(STEPS - 1, Math.floor(((value - color.low) / span) * STEPS)));
    const codes = Uint8Array.from({ length: store.n }, (_, i) => (Number.isNaN(values?.[i] ?? NaN) ? 0 : 1 + step(values[i])));
    const palette = [none, ...Array.from({ length: STEPS }, (_, at) => cividis(at))];
    return { codes, palette, order: palette.map((_, code) => code), entries: null };
  }
  return byCategory(store.n, color, values, none, ramp);
}

/** Numbers of the buildings with a code that have a dot; `xy` is NaN for those that the run does not know. */
export function dotsOf(code, codes, xy) {
  const found = [];
  for (let i = 0; 2 * i < xy.length; i++) if (codes[i] === code && Number.isFinite(xy[2 * i])) found.push(i);
  return found;
}

function byLabel(store, none) {
  const palette = LABEL_COLORS.map((hex, code) => (code === UNLABELED ? none : rgbOf(code === NOT_ASSESSABLE ? HIDDEN : hex)));
  const order = [UNLABELED, NOT_ASSESSABLE, NOT_DAMAGED, POSITIVE];
  const entries = [POSITIVE, NOT_DAMAGED, NOT_ASSESSABLE, UNLABELED].map((code) => ({ code, text: LABEL_TEXTS[code], color: hexOf(palette[code]) }));
  return { codes: store.labels, palette, order, entries };
}

// Past the gray of the others only sites go on: the same colors, paler.
function colorAt(at) {
  const n = CATEGORIES.length;
  if (at <= n) return rgbOf(CATEGORIES[at] ?? OTHER);
  return rgbOf(CATEGORIES[(at - n - 1) % n]).map((band) => Math.round((band + 255) / 2));
}

function byCategory(n, { names, steps }, values, none, ramp) {
  const codes = new Uint8Array(n);
  const counts = new Uint32Array(names.length + 1);
  for (let i = 0; i < n; i++) {
    const value = values?.[i] ?? NaN;
    codes[i] = value >= 0 && value < names.length ? 1 + value : 0;
    counts[codes[i]]++;
  }
  const colors = names.map((_, at) => (steps ? rgbOf(RAMPS[ramp][at]) : colorAt(at)));
  const palette = [none, ...colors];
  // Rare ones last, so that they are not covered; of steps the highest.
  const order = [0, ...names.map((_, at) => at + 1).sort((a, b) => (steps ? 0 : counts[b] - counts[a]))];
  const entries = names.map((text, at) => ({ code: at + 1, text, color: hexOf(colors[at]) }));
  if (steps) entries.reverse();
  if (counts[0]) entries.push({ code: 0, text: TEXTS.scatter.none, color: hexOf(none) });
  return { codes, palette, order, entries };
}
