// Streamlit calls the default export on each run of the page; the view stays and is only told what is new.

import olStyle from "ol/ol.css";
import { DamageView } from "./damage_view.js";
import { LABEL_NAMES } from "./colors.js";
import style from "./style.css";

const views = new Map(); // by the place Streamlit gave us

export default function damageView(component) {
  const place = component.parentElement;
  if (!views.has(place)) {
    const view = new DamageView(olStyle + style);
    views.set(place, view);
    place.append(view.root);
    window.__pugeo = hooks(view);
  }
  views.get(place).update(component);
  return () => {
    views.get(place)?.dispose();
    views.delete(place);
  };
}

/** For the browser tests and for a look from the developer console. */
function hooks(view) {
  const { store, map, wall, queue } = view;
  return {
    get ready() {
      const scored = !view.data.score_id || store.scores !== null;
      return store.ready && scored && (map.root.hidden || Boolean(map.map?.getSize())) && (wall.root.hidden || wall.cells.size > 0);
    },
    get status() {
      return view.log.state;
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
    pixelOf: (id, twin = false) => map.clientPixelOf(store.index.get(id), twin),
    chipOf: (id) => wall.clientPixelOf(store.index.get(id)),
    wallIds: () => wall.items.map((i) => store.ids[i]),
    look: () => ({ view: store.view, colorBy: store.colorBy, outlines: store.outlines, tab: view.tab, center: map.map?.getView().getCenter(), resolution: map.map?.getView().getResolution() }),
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
    drawTimes: () => map.footprints.drawTimes,
    /** Milliseconds from frame to frame while panning (mean and longest), and what of it scripts took (median). */
    measurePan: async (frames, step, footprints = true) => {
      const nextFrame = () => new Promise(requestAnimationFrame);
      const [olMap, olView] = [map.map, map.map.getView()];
      const [x, y] = olView.getCenter();
      const [gaps, scripts] = [[], []];
      map.footprints.setVisible(footprints);
      olView.beginInteraction();
      await nextFrame();
      let last = await nextFrame();
      for (let k = 1; k <= frames; k++) {
        olView.setCenterInternal([x + k * step * olView.getResolution(), y]);
        const start = performance.now();
        olMap.renderSync();
        scripts.push(performance.now() - start);
        const now = await nextFrame();
        gaps.push(now - last);
        last = now;
      }
      olView.endInteraction();
      olView.setCenter([x, y]);
      map.footprints.setVisible(true);
      scripts.sort((a, b) => a - b);
      return { mean: gaps.reduce((sum, gap) => sum + gap) / frames, longest: Math.max(...gaps), script: scripts[frames >> 1] };
    },
  };
}
