// How fast the map is, measured inside the page; benchmarks/browser_frames.py reads the numbers. All times in milliseconds.

const REACH_PX = 8; // at low zoom a click may mean a neighbour
const nextFrame = () => new Promise(requestAnimationFrame);

/** Run `step(k)` before each of so many frames; the gaps between them (mean, longest), and what of each scripts took (median). */
export async function measureFrames(frames, step) {
  const [gaps, scripts] = [[], []];
  await nextFrame();
  let last = await nextFrame();
  for (let k = 1; k <= frames; k++) {
    const start = performance.now();
    step(k);
    scripts.push(performance.now() - start);
    const now = await nextFrame();
    gaps.push(now - last);
    last = now;
  }
  scripts.sort((a, b) => a - b);
  return { mean: gaps.reduce((sum, gap) => sum + gap) / frames, longest: Math.max(...gaps), script: scripts[frames >> 1] };
}

export function measures({ store, map }) {
  const moving = async (frames, footprints, step) => {
    const olView = map.map.getView();
    const [center, resolution] = [olView.getCenter(), olView.getResolution()];
    map.footprints.setVisible(footprints);
    olView.beginInteraction();
    const found = await measureFrames(frames, (k) => {
      step(k, olView, center, resolution);
      map.map.renderSync();
    });
    olView.endInteraction();
    olView.setCenter(center);
    olView.setResolution(resolution);
    map.footprints.setVisible(true);
    await nextFrame();
    return found;
  };
  return {
    /** How long the last drawings of all outlines took the script. */
    drawTimes: () => map.footprints.drawTimes,
    /** Pan by `step` screen pixels a frame. */
    measurePan: (frames, step, footprints = true) =>
      moving(frames, footprints, (k, olView, [x, y], resolution) => olView.setCenterInternal([x + k * step * resolution, y])),
    /** Zoom in by a factor, and out again. */
    measureZoom: (frames, factor, footprints = true) =>
      moving(frames, footprints, (k, olView, center, resolution) => olView.setResolution(resolution / factor ** (1 - Math.abs(1 - (2 * k) / frames)))),
    /** Wait for the next click; the time from its pointerup to the frame in which the map looks otherwise around building `id`. */
    measureClick: async (id) => {
      const { frame, labels: canvas } = map.footprints;
      const [x, y] = store.center(store.index.get(id)).map((at, axis) => Math.round(((at - frame.box[axis]) / frame.resolution) * frame.pixelRatio));
      const look = () => canvas.getContext("2d").getImageData(x - REACH_PX, y - REACH_PX, 2 * REACH_PX, 2 * REACH_PX).data.join();
      const before = look();
      const up = await new Promise((resolve) => window.addEventListener("pointerup", resolve, { once: true, capture: true }));
      while (look() === before) await nextFrame();
      return (await nextFrame()) - up.timeStamp;
    },
    /** From the request for the geometry until it was measured and ready to be drawn. */
    loadTime: () => {
      const asked = performance.getEntriesByType("resource").find(({ name }) => name.includes("/geometry.json"));
      const fetched = asked.responseEnd - asked.startTime;
      return { fetched, ready: performance.getEntriesByName("pugeo:geometry")[0].startTime - asked.startTime };
    },
  };
}
