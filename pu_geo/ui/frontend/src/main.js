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
  const { store, map, wall } = view;
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
    ids: () => store.ids,
    labels: () => {
      const found = {};
      store.labels.forEach((code, i) => code && (found[store.ids[i]] = LABEL_NAMES[code]));
      return found;
    },
    pending: () => view.log.ops.length,
    pixelOf: (id) => map.clientPixelOf(store.index.get(id)),
    chipOf: (id) => wall.clientPixelOf(store.index.get(id)),
    wallIds: () => wall.items.map((i) => store.ids[i]),
    look: () => ({ view: store.view, colorBy: store.colorBy, outlines: store.outlines, center: map.map.getView().getCenter(), resolution: map.map.getView().getResolution() }),
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
    /** Median and worst milliseconds of a map frame while panning. */
    measurePan: (frames = 60, step = 12) => {
      const times = [];
      const [olMap, olView] = [map.map, map.map.getView()];
      const [x, y] = olView.getCenter();
      olView.beginInteraction();
      for (let k = 0; k < frames; k++) {
        olView.setCenterInternal([x + k * step * olView.getResolution(), y]);
        const start = performance.now();
        olMap.renderSync();
        times.push(performance.now() - start);
      }
      olView.endInteraction();
      olView.setCenter([x, y]);
      times.sort((a, b) => a - b);
      return { median: times[times.length >> 1], worst: times.at(-1) };
    },
  };
}
