// Served by tests and benchmarks in place of the shipped bundle, see `real_app.add_hooks`: the same bundle, with
// `window.__pugeo` beside it, which answers questions about the view that was drawn last. Nothing of this ships.

import damageView, { DamageView } from "/pugeo/assets/damage_view.js?shipped";
import { isInside, pointsInside } from "/pugeo/assets/src/polygon.js";

const LABEL_NAMES = ["cleared", "positive", "not_damaged", "not_assessable"];
const views = new WeakSet();
const RESTING_FRAMES = 5; // on a busy machine one frame may take longer than the map's whole way
const RESTING_MS = 150;
const TILES_MS = 5000;
const update = DamageView.prototype.update;

DamageView.prototype.update = function (component) {
  if (!views.has(this)) this.store.on("geometry", () => performance.mark("pugeo:geometry"));
  views.add(this);
  window.__pugeo = hooks(this);
  return update.call(this, component);
};

export default damageView;

function hooks(view) {
  const { store, map, wall, queue } = view;
  const { pane } = view.explore;
  const number = (id) => store.index.get(id);
  const toWindow = (x, y) => {
    const { left, top } = map.target.getBoundingClientRect();
    const [column, row] = map.map.getPixelFromCoordinate([x, -y]);
    return [left + column, top + row];
  };
  return {
    get ready() {
      const hasScores = !view.data.score_id || store.scores !== null;
      return store.ready && hasScores && (map.root.hidden || Boolean(map.map?.getSize())) && (wall.root.hidden || wall.cells.size > 0) && (pane.root.hidden || pane.isReady);
    },
    /** Whether all pictures of buildings in sight are drawn, not only their places. */
    get isPictured() {
      return [...view.root.querySelectorAll("canvas.picture")].every(({ dataset, offsetParent }) => dataset.drawn || !offsetParent);
    },
    get status() {
      return view.log.state;
    },
    /** The building that keys act on, and on which surface; null if none is in sight. */
    get target() {
      const { target } = view;
      return target && { id: store.ids[target.i] ?? null, on: target.on };
    },
    get selected() {
      return store.selected < 0 ? null : store.ids[store.selected];
    },
    select: (id) => store.set("selected", number(id)),
    ids: () => store.ids,
    labels: () => {
      const found = {};
      store.labels.forEach((code, i) => code && (found[store.ids[i]] = LABEL_NAMES[code]));
      return found;
    },
    pending: () => view.log.ops.length,
    /** Whether the page shows what the server has. */
    fresh: () => !view.log.ops.length && !view.log.reruns.isWanted && !view.log.reruns.isUnderWay,
    /** Ask for a run of the page, as news do. */
    rerun: () => view.log.reruns.want(true),
    pixelOf: (id) => map.clientPixelOf(number(id)),
    /** The same on the picture of before, where both are side by side. */
    twinPixelOf: (id) => {
      const { left, top } = map.twinTarget.getBoundingClientRect();
      const [x, y] = map.pixelOf(number(id), map.twin);
      return [left + x, top + y];
    },
    chipOf: (id) => {
      const box = wall.cells.get(wall.placeOf?.get(number(id)))?.getBoundingClientRect();
      return box ? [box.left + box.width / 2, box.top + box.height / 2] : null;
    },
    wallIds: () => wall.items.map((i) => store.ids[i]),
    look: () => ({ view: store.view, colorBy: store.colorBy, outlines: store.outlines, arrows: store.arrows, tab: view.tab, center: map.map?.getView().getCenter(), resolution: map.map?.getView().getResolution() }),
    /** The arrows on the map: tail and head in pixels of the window, and how many times too long they are. */
    arrows: () => {
      const { times, arrows } = map.footprints.drawnArrows;
      return { times, arrows: arrows.map(({ x, y, dx, dy, quality, n }) => ({ tail: toWindow(x - times * dx, y - times * dy), head: toWindow(x, y), quality, n })) };
    },
    /** The middle of a building's box, in grid pixels. */
    gridCenter: (id) => store.center(number(id)),
    details: (id) => store.detail(number(id)),
    queue: () => ({ id: queue.id, current: queue.current && store.ids[queue.current.i], kind: queue.current?.kind, kinds: queue.items.map(({ kind }) => kind), ids: queue.items.map(({ i }) => store.ids[i]), skipped: [...queue.skipped].map((at) => store.ids[queue.items[at].i]) }),
    /** What the analyst may know; null while it is kept back. */
    score: (id) => store.score(number(id)),
    setView: (center, resolution) => {
      map.map.getView().cancelAnimations();
      map.map.getView().setCenter([center[0], -center[1]]);
      map.map.getView().setResolution(resolution);
    },
    analyst: () => view.labeler.analyst,
    /** Wait until the map stands still: a key may send it to the queue's next building with the frame after it. */
    rest: async () => {
      const place = () => map.map && String([...map.map.getView().getCenter(), map.map.getView().getResolution(), ...map.map.getSize() ?? []]);
      let [last, since, frames] = [place(), performance.now(), 0];
      while (performance.now() - since < RESTING_MS || frames < RESTING_FRAMES) {
        await nextFrame();
        frames += 1;
        if (place() !== last || map.map?.getView().getAnimating()) [last, since, frames] = [place(), performance.now(), 0];
      }
    },
    /** Wait until the tiles that the map shows are here and drawn, for some seconds at most. */
    tiled: () => {
      const isComplete = new Promise((resolve) => map.map.once("rendercomplete", () => resolve()));
      map.map.render();
      return Promise.race([isComplete, new Promise((resolve) => setTimeout(resolve, TILES_MS))]);
    },
    /** How many map tiles of outlines there are, are here, and are on their way. */
    outlines: () => ({ all: store.shapes.tiles.length, here: store.shapes.tiles.filter(Boolean).length, missing: store.shapes.nMissing }),
    /** Ids whose middle is inside the map with `margin` pixels to spare, and so can be clicked. */
    onScreen: (margin = 30) => {
      const box = map.target.getBoundingClientRect();
      return store.ids.filter((id, i) => {
        const [x, y] = map.pixelOf(i) ?? [-1, -1];
        return x > margin && y > margin && x < box.width - margin && y < box.height - margin;
      });
    },
    /** The scatter: how it is drawn, where a dot is in the window, and what is selected. */
    scatter: () => ({ n: pane.drawn.n, source: pane.data?.source, by: pane.data?.color.by, isColored: !["categories", "numbers"].includes(pane.data?.color.kind) || Boolean(pane.values), resolution: pane.view.resolution, center: pane.view.center }),
    dotOf: (id) => pane.clientPixelOf(number(id)),
    chosen: () => Array.from(store.chosen, (i) => store.ids[i]),
    /** Whether the map shows that building `id` is selected. */
    isMarkedOnMap: (id) => {
      const { chosen: canvas, frame } = map.footprints;
      const box = store.boxes.subarray(4 * number(id), 4 * number(id) + 4);
      const [left, top, right, bottom] = Array.from(box, (at, k) => Math.round(((at - frame.box[k & 1]) / frame.resolution) * frame.pixelRatio) + (k < 2 ? -2 : 2));
      const { data } = canvas.getContext("2d").getImageData(left, top, right - left, bottom - top);
      return data.some((_, k) => k % 4 === 0 && data[k] > 200 && data[k + 1] < 130 && data[k + 2] > 150 && data[k + 3] > 200);
    },
    choose: (ids) => store.choose(ids.map(number)),
    ...mapMeasures(view),
    ...scatterMeasures(view),
  };
}

// ---- how fast it is, for benchmarks; all times in milliseconds ----

const REACH_PX = 8; // at low zoom a click may mean a neighbour
const RING_POINTS = 240; // a line drawn by hand without haste
const nextFrame = () => new Promise(requestAnimationFrame);
const median = (values) => values.sort((a, b) => a - b)[values.length >> 1];

/** Run `step(k)` before each of so many frames; the gaps between them (mean, longest), and what of each scripts took (median). */
async function measureFrames(frames, step) {
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
  return { mean: gaps.reduce((sum, gap) => sum + gap) / frames, longest: Math.max(...gaps), script: median(scripts) };
}

function mapMeasures({ store, map }) {
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
    /** Pan by `step` screen pixels a frame. */
    measurePan: (frames, step, footprints = true) =>
      moving(frames, footprints, (k, olView, [x, y], resolution) => olView.setCenterInternal([x + k * step * resolution, y])),
    /** Zoom in by a factor, and out again. */
    measureZoom: (frames, factor, footprints = true) =>
      moving(frames, footprints, (k, olView, center, resolution) => olView.setResolution(resolution / factor ** (1 - Math.abs(1 - (2 * k) / frames)))),
    /** Wait for the next click; the time from its pointerup to the frame in which the map differs around building `id`. */
    measureClick: async (id) => {
      const { frame, labels: canvas } = map.footprints;
      const [x, y] = store.center(store.index.get(id)).map((at, axis) => Math.round(((at - frame.box[axis]) / frame.resolution) * frame.pixelRatio));
      const pixels = () => canvas.getContext("2d").getImageData(x - REACH_PX, y - REACH_PX, 2 * REACH_PX, 2 * REACH_PX).data.join();
      const before = pixels();
      const up = await new Promise((resolve) => window.addEventListener("pointerup", resolve, { once: true, capture: true }));
      while (pixels() === before) await nextFrame();
      return (await nextFrame()) - up.timeStamp;
    },
    /** From the request for the geometry until it was measured and ready to be drawn. */
    loadTime: () => {
      const asked = performance.getEntriesByType("resource").find(({ name }) => name.includes("/outlines.bin"));
      const fetched = asked.responseEnd - asked.startTime;
      return { fetched, ready: performance.getEntriesByName("pugeo:geometry")[0].startTime - asked.startTime };
    },
  };
}

function timed(act, times) {
  let result;
  const took = Array.from({ length: times }, () => {
    const start = performance.now();
    result = act();
    return performance.now() - start;
  });
  return { result, took: median(took) };
}

function scatterMeasures({ store, explore: { pane } }) {
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
    /** Pan so many made-up dots by `step` screen pixels a frame, as a drag does; with 0 an empty canvas is cleared in each. */
    measureScatterPan: async (frames, step, n) => {
      const { xy, colors, view: { center } } = pane;
      const bell = () => Math.random() + Math.random() + Math.random();
      if (n) pane.setPositions(Float32Array.from({ length: 2 * n }, bell));
      pane.colors = { ...colors, codes: Uint8Array.from({ length: n }, (_, i) => colors.order[i % colors.order.length]) };
      pane.fit();
      for (let k = 0; k < 60; k++) await nextFrame(); // until what was made up is forgotten
      const drawn = pane.drawn.took;
      const found = await measureFrames(frames, (k) => (n ? (pane.pan(k % 60 < 30 ? step : -step, 0), pane.draw()) : pane.canvas.getContext("2d").clearRect(0, 0, 9999, 9999)));
      Object.assign(pane, { xy, colors, shadedIn: null });
      pane.view.center = center;
      pane.fit();
      return { ...found, drawn };
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
      const start = performance.now();
      store.choose(pointsInside(ring(), pane.xy));
      await nextFrame();
      await nextFrame();
      return { took: performance.now() - start, n: store.chosen.length };
    },
  };
}
