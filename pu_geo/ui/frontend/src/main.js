// Streamlit calls the default export on each run of the page; the view stays and only gets what is new.

import olStyle from "ol/ol.css";
import { DamageView } from "./damage_view.js";
import { keeping } from "./kept_views.js";
import style from "./style.css";

export { DamageView };
export default keeping(() => new DamageView(olStyle + style));
