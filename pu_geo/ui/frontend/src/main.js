// Streamlit calls the default export on each run of the page; the view stays and only gets what is new.

import olStyle from "ol/ol.css";
import { DamageView } from "./damage_view.js";
import style from "./style.css";

export { DamageView };

const views = new Map(); // by the place Streamlit gave us

export default function damageView(component) {
  const place = component.parentElement;
  if (!views.has(place)) {
    const view = new DamageView(olStyle + style);
    views.set(place, view);
    place.append(view.root);
  }
  views.get(place).update(component);
  return () => {
    views.get(place)?.dispose();
    views.delete(place);
  };
}
