// Brings geometry and scores from the server into the store, each address once.

import { Files, asBytes, asFloats, inOrderOf } from "./files.js";
import { Outlines, decodeFirstPart } from "./outlines.js";
import { BYTES_PER_SHIFT, decodeShifts } from "./shifts.js";
import { TEXTS } from "./texts.js";

const files = new Files(6); // they outlive a change of page; each answer may bring new scores

async function asOutlines(response, project) {
  const first = decodeFirstPart(await response.arrayBuffer());
  const shapes = new Outlines(first, (tile) => `${project}/outlines/${first.name}/${tile}.bin?v=1`);
  return { ids: first.ids, areas: first.areas, shapes };
}

export class Loader {
  /** @param failed (error) */
  constructor(store, failed) {
    Object.assign(this, { store, failed });
    this.waiting = []; // what came before the geometry that it is for
    this.geometry = this.scores = this.shifts = null; // addresses of what is shown, or on its way
  }

  load({ base, token, geometry_v, score_id, score_name, seen: quality }) {
    const order = inOrderOf(geometry_v);
    const geometry = `${base}/${token}/outlines.bin?v=1&${order}`;
    const isOther = geometry !== this.geometry;
    if (isOther) {
      this.geometry = geometry;
      this.waiting = [];
      this.#fetch(geometry, (response) => asOutlines(response, `${base}/${token}`), (found) => geometry === this.geometry && this.#draw(found));
    }
    const scores = score_id ? `${base}/${token}/scores/${score_id}.bin?v=${score_id}&${order}` : null;
    if (scores !== this.scores) {
      this.scores = scores;
      if (!scores || isOther || score_name !== this.scoreName) this.store.setScores(null); // none are better than another run's under this name, or in another order
      if (scores) this.#fetch(scores, asFloats, (found) => this.#fit(found.length, () => scores === this.scores, () => this.store.setScores(found), () => this.#lose(scores)), () => this.#lose(scores));
    }
    this.scoreName = score_name;
    this.store.setImageQuality(quality);
    const shifts = quality?.shifts ? `${base}/${token}/shifts.bin?v=${quality.shifts.v}&${order}` : null;
    if (shifts !== this.shifts) {
      this.shifts = shifts;
      if (!shifts || isOther) this.store.set("shifts", null);
      if (shifts) this.#fetch(shifts, asBytes, (found) => this.#fit(found.byteLength / BYTES_PER_SHIFT, () => shifts === this.shifts, () => this.store.set("shifts", decodeShifts(found, quality.shifts.m_per_px))));
    }
  }

  #draw(geometry) {
    this.store.setGeometry(geometry);
    for (const use of this.waiting.splice(0)) use();
  }

  // Values by building are used where there is one for each building on the map: of another number they are of other footprints.
  #fit(n, isWanted, use, lost = () => {}) {
    if (!this.store.ready) {
      this.waiting.push(() => this.#fit(n, isWanted, use, lost));
      return;
    }
    if (!isWanted()) return;
    if (n === this.store.n) {
      use();
      return;
    }
    lost();
    this.failed(new Error(TEXTS.map.otherFootprints(n, this.store.n)));
  }

  // The next run of the page asks again.
  #lose(scores) {
    if (scores !== this.scores) return;
    this.scores = undefined;
    this.store.setScores(null);
  }

  #fetch(url, read, done, lost = () => {}) {
    files.get(url, read).then(done, (error) => {
      lost();
      this.failed(error);
    });
  }
}
