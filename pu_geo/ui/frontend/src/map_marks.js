// Marks over the map that point at single buildings: a pulse at the selected one, a ring with a name where others are.

import { h } from "./dom.js";

const SMALLEST_PX = 28;

export class MapMarks {
  /** @param pane MapPane; asked for places once it shows a map */
  constructor(store, pane) {
    Object.assign(this, { store, pane });
    this.pulse = h("div.pulse", { hidden: true });
    this.rings = h("div.rings");
    this.roots = [this.rings, this.pulse];
    store.on("selected", () => this.place(true));
    for (const event of ["others", "geometry"]) store.on(event, () => this.#build());
  }

  /** Called whenever the map was drawn. `restart`: the pulse beats anew. */
  place(restart = false) {
    const { map } = this.pane;
    const i = this.store.ready && map ? this.store.selected : -1;
    this.pulse.hidden = i < 0 || !this.#put(this.pulse, i, 1.7);
    for (const ring of this.rings.children) ring.hidden = !map || !this.#put(ring, Number(ring.dataset.building), 2.1);
    if (!restart || this.pulse.hidden) return;
    this.pulse.classList.remove("go");
    void this.pulse.offsetWidth; // restarts the animation
    this.pulse.classList.add("go");
  }

  #build() {
    const places = new Set(this.store.others.map(({ building }) => building));
    const rings = [...places].filter((i) => i >= 0 && i < this.store.n).map((i) => {
      const who = this.store.othersAt(i);
      return h("div.ring", { "data-building": i, style: `--who:${who[0].color}` }, h("span", {}, who.map(({ name }) => name).join(", ")));
    });
    this.rings.replaceChildren(...rings);
    this.place();
  }

  #put(mark, i, times) {
    const pixel = this.pane.pixelOf(i);
    if (!pixel) return false;
    const size = Math.max(SMALLEST_PX, (Math.sqrt(this.store.areas[i]) / this.pane.map.getView().getResolution()) * times);
    Object.assign(mark.style, { left: `${pixel[0] + this.pane.target.offsetLeft}px`, top: `${pixel[1]}px`, width: `${size}px`, height: `${size}px` });
    return true;
  }
}
