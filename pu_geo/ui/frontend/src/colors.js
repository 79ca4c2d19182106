// Colours that are distinct to colour-blind eyes (Okabe-Ito), and the ramp for scores (viridis).

import { TEXTS } from "./texts.js";

export const UNLABELED = 0;
export const POSITIVE = 1;
export const NOT_DAMAGED = 2;
export const NOT_ASSESSABLE = 3;

// Names on the wire, by code. Code 0 travels as "cleared".
export const LABEL_NAMES = ["cleared", "positive", "not_damaged", "not_assessable"];
export const LABEL_TEXTS = TEXTS.labels;
export const LABEL_COLORS = ["#f4f4f4", "#D55E00", "#0072B2", "#8a8a8a"];
export const SELECTED = "#FF4DB8"; // unlike every step of the ramp below

const VIRIDIS = ["#440154", "#482878", "#3e4989", "#31688e", "#26828e", "#1f9e89", "#35b779", "#6ece58", "#b5de2b", "#fde725"];
const STOPS = VIRIDIS.map(rgbOf);

/** Steps that scores are drawn in: few enough to draw one path per step. */
export const SCORE_STEPS = 20;

export function scoreStep(score) {
  return Math.max(0, Math.min(SCORE_STEPS - 1, Math.floor(score * SCORE_STEPS)));
}

/** [red, green, blue] of a step, 0 to 255 */
export function stepRgb(step) {
  return between(STOPS, (step + 0.5) / SCORE_STEPS);
}

/** "#rrggbb" as [red, green, blue] of 0 to 255. */
export function rgbOf(hex) {
  return [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16));
}

/** The color at a place of a ramp, 0 to 1. @param stops [red, green, blue] each, evenly spaced */
export function between(stops, place) {
  const at = place * (stops.length - 1);
  const [low, high] = [stops[Math.floor(at)], stops[Math.ceil(at)]];
  return low.map((value, band) => Math.round(value + (high[band] - value) * (at % 1)));
}

// Even to color-blind eyes, and another ramp than that of scores.
export const CIVIDIS = ["#00224e", "#123570", "#3b496c", "#575d6d", "#707173", "#8a8678", "#a59c74", "#c3b369", "#e1cc55", "#fee838"];
export const CIVIDIS_CSS = `linear-gradient(90deg, ${CIVIDIS.join(", ")})`;

/** How opaque a step is: the many low ones are faint, so that the few high ones stand out. */
export const stepAlpha = (step) => 0.06 + 0.94 * ((step + 0.5) / SCORE_STEPS) ** 1.5;

export function stepColor(step, alpha = 1) {
  return `rgba(${stepRgb(step)},${alpha})`;
}

export const RAMP_CSS = `linear-gradient(90deg, ${VIRIDIS.join(", ")})`;
