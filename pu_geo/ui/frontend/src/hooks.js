// What the browser tests and a developer at the console can ask a view.

import { LABEL_NAMES } from "./colors.js";
import { measures } from "./measures.js";
import { scatterMeasures } from "./scatter_measures.js";

export function hooks(view) {
  const { store, map, wall, queue } = view;
  const { pane } = view.explore;
  return {
    get ready() {
      const scored = !view.data.score_id || store.scores !== null;
      return store.ready && scored && (map.root.hidden || Boolean(map.map?.getSize())) && (wall.root.hidden || wall.cells.size > 0) && (pane.root.hidden || pane.isReady);
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
      return view.selectedId;
    },
    session: () => view.log.session,
    select: (id) => store.set("selected", store.index.get(id)),
    ids: () => store.ids,
    labels: () => {
      const found = {};
      store.labels.forEach((code, i) => code && (found[store.ids[i]] = LABEL_NAMES[code]));
      return found;
    },
    pending: () => view.log.ops.length,
    /** Whether the page shows what the server has. */
    fresh: () => view.log.isFresh,
    pixelOf: (id, twin = false) => map.clientPixelOf(store.index.get(id), twin),
    chipOf: (id) => wall.clientPixelOf(store.index.get(id)),
    wallIds: () => wall.items.map((i) => store.ids[i]),
    look: () => ({ view: store.view, colorBy: store.colorBy, outlines: store.outlines, arrows: store.arrows, tab: view.tab, center: map.map?.getView().getCenter(), resolution: map.map?.getView().getResolution() }),
    /** The arrows on the map: tail and head in pixels of the window, and how many times too long they are. */
    arrows: () => {
      const { times, arrows } = map.footprints.drawnArrows;
      return { times, arrows: arrows.map(({ x, y, dx, dy, quality, n }) => ({ tail: map.toClient(x - times * dx, y - times * dy), head: map.toClient(x, y), quality, n })) };
    },
    /** The middle of a building's box, in grid pixels and in pixels of the window. */
    gridCenter: (id) => store.center(store.index.get(id)),
    centerOf: (id) => map.toClient(...store.center(store.index.get(id))),
    seen: (id) => ({ hidden: store.isHidden(store.index.get(id)), candidate: store.candidates.get(store.index.get(id)) ?? null }),
    order: () => ({ order: wall.effectiveOrder, filter: wall.effectiveFilter }),
    details: (id) => store.detail(store.index.get(id)),
    queue: () => ({ id: queue.id, current: queue.current && store.ids[queue.current.i], kind: queue.current?.kind, ids: queue.items.map(({ i }) => store.ids[i]), skipped: [...queue.skipped].map((at) => store.ids[queue.items[at].i]) }),
    /** What the analyst may see; null while it is kept back. */
    score: (id) => store.score(store.index.get(id)),
    setView: (center, resolution) => {
      map.map.getView().setCenter([center[0], -center[1]]);
      map.map.getView().setResolution(resolution);
    },
    /** Ids whose middle is inside the map with `margin` pixels to spare, and so can be clicked. */
    onScreen: (margin = 30) => {
      const box = map.target.getBoundingClientRect();
      return store.ids.filter((id, i) => {
        const [x, y] = map.pixelOf(i) ?? [-1, -1];
        return x > margin && y > margin && x < box.width - margin && y < box.height - margin;
      });
    },
    /** The scatter: how it is drawn, where a dot is in the window, and what is selected. */
    scatter: () => ({ ...pane.drawn, kind: pane.data?.kind, by: pane.data?.color.by, resolution: pane.view.resolution, center: pane.view.center }),
    dotOf: (id) => pane.clientPixelOf(store.index.get(id)),
    colorOf: (id) => pane.colors.palette[pane.colors.codes[store.index.get(id)]],
    chosen: () => Array.from(store.chosen, (i) => store.ids[i]),
    /** Whether the map shows that building `id` is selected. */
    isMarkedOnMap: (id) => {
      const { chosen: canvas, frame } = map.footprints;
      const box = store.boxes.subarray(4 * store.index.get(id), 4 * store.index.get(id) + 4);
      const [left, top, right, bottom] = Array.from(box, (at, k) => Math.round(((at - frame.box[k & 1]) / frame.resolution) * frame.pixelRatio) + (k < 2 ? -2 : 2));
      const { data } = canvas.getContext("2d").getImageData(left, top, right - left, bottom - top);
      return data.some((_, k) => k % 4 === 0 && data[k] > 200 && data[k + 1] > 190 && data[k + 2] < 130 && data[k + 3] > 200);
    },
    choose: (ids) => store.choose(ids.map((id) => store.index.get(id))),
    ...measures(view),
    ...scatterMeasures(view),
  };
}
