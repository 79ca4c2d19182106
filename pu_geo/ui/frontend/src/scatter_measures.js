// How fast the scatter is, measured inside the page; benchmarks/scatter.py reads the numbers. All times in milliseconds.

import { measureFrames } from "./measures.js";
import { isInside, pointsInside } from "./polygon.js";

const RING_POINTS = 240; // a line drawn by hand without haste
const median = (values) => values.sort((a, b) => a - b)[values.length >> 1];

function timed(act, times) {
  let result;
  const took = Array.from({ length: times }, () => {
    const began = performance.now();
    result = act();
    return performance.now() - began;
  });
  return { result, took: median(took) };
}

export function scatterMeasures({ store, explore: { pane } }) {
  /** A line around the middle half of what is in view, wavy as a hand's. */
  const ring = () => {
    const [width, height] = pane.view.size;
    return Float64Array.from({ length: 2 * RING_POINTS }, (_, k) => {
      const turn = (2 * Math.PI * (k >> 1)) / RING_POINTS;
      const reach = 0.3 + 0.03 * Math.sin(9 * turn);
      return pane.view.toPlane(width * (0.5 + reach * Math.cos(turn)), height * (0.5 + reach * Math.sin(turn)))[k & 1];
    });
  };
  return {
    /** Pan by `step` screen pixels a frame, drawn as "dots", "heat" or "auto". */
    measureScatterPan: async (frames, step, how = "auto") => {
      const before = { how: pane.how, center: pane.view.center };
      pane.how = how;
      const found = await measureFrames(frames, (k) => {
        pane.view.moveBy(k % 20 < 10 ? step : -step, 0);
        pane.later();
        pane.draw();
      });
      pane.how = before.how;
      pane.view.center = before.center;
      pane.later();
      return { ...found, isHeat: pane.drawn.isHeat };
    },
    /** Which points a line holds: ours, and one point after the other; whether they agree. */
    measureLasso: (times = 5) => {
      const line = ring();
      const ours = timed(() => pointsInside(line, pane.xy), times);
      const plain = timed(() => Array.from({ length: store.n }, (_, i) => i).filter((i) => isInside([line], pane.xy[2 * i], pane.xy[2 * i + 1])), times);
      return { ours: ours.took, plain: plain.took, n: ours.result.length, agree: String(ours.result) === String(plain.result) };
    },
    /** From the end of a line to the frame in which scatter, map and wall show what is selected. */
    measureSelection: async () => {
      const began = performance.now();
      store.choose(pointsInside(ring(), pane.xy));
      await new Promise(requestAnimationFrame);
      await new Promise(requestAnimationFrame);
      return { took: performance.now() - began, n: store.chosen.length };
    },
    /** How long the last drawings took. */
    scatterTimes: () => pane.drawTimes,
  };
}
