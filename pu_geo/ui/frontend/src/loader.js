// Brings geometry and scores from the server into the store, each address once.

import { Files, asBytes, asFloats, asJson } from "./files.js";
import { decodeShifts } from "./shifts.js";

const files = new Files(6); // they outlive a change of page; each answer may bring new scores

export class Loader {
  /** @param failed (error) */
  constructor(store, failed) {
    Object.assign(this, { store, failed });
    this.geometry = this.scores = this.shifts = null; // addresses of what is shown, or on its way
  }

  load({ base, token, geometry_v, score_id, score_name, seen: quality }) {
    const geometry = `${base}/${token}/geometry.json?v=${geometry_v}`;
    if (geometry !== this.geometry) {
      this.geometry = geometry;
      this.#fetch(geometry, asJson, (found) => geometry === this.geometry && this.store.setGeometry(found));
    }
    const scores = score_id ? `${base}/${token}/scores/${score_id}.bin?v=${score_id}` : null;
    if (scores !== this.scores) {
      this.scores = scores;
      if (!scores || score_name !== this.scoreName) this.store.setScores(null); // none are better than another run's under this name
      if (scores) this.#fetch(scores, asFloats, (found) => scores === this.scores && this.store.setScores(found), () => this.#lose(scores));
    }
    this.scoreName = score_name;
    this.store.setImageQuality(quality);
    const shifts = quality?.shifts ? `${base}/${token}/shifts.bin?v=${quality.shifts.v}` : null;
    if (shifts !== this.shifts) {
      this.shifts = shifts;
      if (!shifts) this.store.set("shifts", null);
      else this.#fetch(shifts, asBytes, (found) => shifts === this.shifts && this.store.set("shifts", decodeShifts(found, quality.shifts.m_per_px)));
    }
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
