// Draws the arrows of shifts, and what their colours mean.

import { CIVIDIS, CIVIDIS_CSS } from "./colors.js";
import { h } from "./dom.js";
import { strokes } from "./raster.js";
import { arrowsIn, exaggeration } from "./shifts.js";
import { TEXTS } from "./texts.js";

const { map: words } = TEXTS;

const HEAD_PX = 8;
const SHORTEST_PX = 4; // below it an arrow would be all head
const DOT_PX = 4;

/** @returns the arrows that were drawn, see `arrowsIn`, and by how much they are too long */
export function paintArrows(context, store, frame) {
  if (!store.ready || !store.arrows || !store.shifts) return { arrows: [], times: 1 };
  const times = exaggeration(store, frame.resolution);
  const arrows = arrowsIn(store, frame);
  const place = (x, y) => [(x - frame.box[0]) / frame.resolution, (y - frame.box[1]) / frame.resolution];
  context.lineCap = context.lineJoin = "round";
  for (const arrow of [...arrows].sort((a, b) => a.quality - b.quality)) {
    const head = place(arrow.x, arrow.y);
    const tail = place(arrow.x - times * arrow.dx, arrow.y - times * arrow.dy);
    if (!arrow.quality) paintFailed(context, head);
    else paintArrow(context, tail, head, arrow.quality);
  }
  return { arrows, times };
}

function paintFailed(context, [x, y]) {
  context.beginPath();
  context.arc(x, y, DOT_PX, 0, 2 * Math.PI);
  strokes(context, ["rgba(255,255,255,0.9)", 4], ["#111", 1.8]);
}

function paintArrow(context, tail, head, quality) {
  const step = Math.min(CIVIDIS.length - 1, Math.floor(quality * CIVIDIS.length));
  const halo = step < CIVIDIS.length / 2 ? "rgba(255,255,255,0.9)" : "rgba(0,0,0,0.8)";
  const [dx, dy] = [head[0] - tail[0], head[1] - tail[1]];
  const length = Math.hypot(dx, dy);
  const isDot = length < SHORTEST_PX;
  context.beginPath();
  if (isDot) context.arc(...head, 1.5, 0, 2 * Math.PI);
  else traceArrow(context, tail, head, [dx / length, dy / length], Math.min(HEAD_PX, 0.6 * length));
  strokes(context, [halo, 4.4], [CIVIDIS[step], 2.2]);
}

function traceArrow(context, tail, head, [ux, uy], size) {
  context.moveTo(...tail);
  context.lineTo(...head);
  for (const side of [-0.5, 0.5]) {
    context.moveTo(head[0] - size * (ux + side * uy), head[1] - size * (uy - side * ux));
    context.lineTo(...head);
  }
}

export function arrowLegend(store, resolution) {
  if (!store.arrows || !store.shifts) return [];
  const { longest } = store.shifts;
  const failed = h("div.entry", {}, h("i.failed"), words.failed);
  if (!longest) return [h("div.rampbox.arrowbox", {}, h("b", {}, words.arrows), failed)];
  const title = words.arrowScale(exaggeration(store, resolution), longest);
  const bar = h("div.ramp", { style: `background:${CIVIDIS_CSS}` });
  return [h("div.rampbox.arrowbox", {}, h("b", {}, title), bar, h("div.rampends", {}, h("span", {}, words.lowQuality), h("span", {}, words.highQuality)), failed)];
}
