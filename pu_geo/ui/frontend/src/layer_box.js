// On the map: which named layer lies over the imagery, how strongly, and in which colors. Absent where a project has no layers.

import { h, offer, segmented } from "./dom.js";
import { GREY, RAMPS, VIRIDIS } from "./layer_tiles.js";
import { TEXTS } from "./texts.js";

const { layers: words } = TEXTS;

export class LayerBox {
  /** @param actions {layer(name), opacity(0 to 1), ramp(name)} */
  constructor(store, actions) {
    this.store = store;
    this.select = h("select", { "aria-label": words.choose, title: words.chooseHint, onchange: () => this.#choose(actions) });
    this.slider = h("input", { type: "range", min: "0", max: "100", step: "5", "aria-label": words.opacity, title: words.opacity, oninput: () => actions.opacity(Number(this.slider.value) / 100) });
    this.strength = h("label.strength", {}, this.slider);
    this.ramps = segmented(words.colors, words.ramps, actions.ramp);
    this.root = h("div.layerbox", { hidden: true, role: "group", "aria-label": words.group }, this.select, this.strength, this.ramps);
    for (const event of ["named", "layer", "opacity", "ramp"]) store.on(event, () => this.#show());
  }

  // Chosen by mouse, it gives the focus back: the next key answers a building.
  #choose(actions) {
    actions.layer(this.select.value);
    if (this.select.matches(":focus") && !this.root.closest("[data-tabbed]")) this.select.blur();
  }

  #show() {
    const { named, opacity, ramp } = this.store;
    const layer = this.store.namedLayer;
    this.root.hidden = !named.length;
    offer(this.select, [["", words.none], ...named.map(({ name, when }) => [name, words.option(name, when)])]);
    this.select.value = layer?.name ?? "";
    this.strength.hidden = !layer;
    this.ramps.hidden = !layer?.is_gray;
    const percent = Math.round(100 * opacity);
    this.slider.value = String(percent);
    this.slider.setAttribute("aria-valuetext", words.percent(percent));
    this.ramps.choose(ramp === VIRIDIS ? VIRIDIS : GREY);
  }
}

/** Rows of the map's legend for the layer that is shown. */
export function layerLegend(store) {
  const layer = store.namedLayer;
  if (!layer) return [];
  if (!layer.is_gray) return [h("div.entry", {}, words.rgb(layer.name, layer.n_bands))];
  const ends = h("div.rampends", {}, h("span", {}, words.value(layer.low, layer.unit)), h("span", {}, words.value(layer.high, layer.unit)));
  const of = layer.n_bands > 1 ? words.firstBand(layer.name, layer.n_bands) : layer.name;
  return [h("div.rampbox", {}, h("b", {}, of), h("div.ramp", { style: `background:${RAMPS[store.ramp] ?? RAMPS[GREY]}` }), ends)];
}
