// What map and wall share: buildings, scores, labels (server's, with pending operations on top), selection, settings.

import { LABEL_NAMES, POSITIVE, UNLABELED } from "./colors.js";
import { IS_ANSWER, NO_DETAILS, decodeDetails, detailsOf, placesOf } from "./details.js";
import { written } from "./flagging.js";
import { Scale } from "./grades.js";
import { NO_OUTLINES } from "./outlines.js";
import { boxOf, isInside, pointsInside } from "./polygon.js";

const differ = (before, now) => now.some((each, i) => each !== before[i]);
const NOWHERE = { name: "", box: [0, 0, 1, 1], gsd_m: 1, lonlat: null };

export class Store {
  constructor() {
    this.listeners = new Map();
    this.taken = new Map(); // what the page sent last, as JSON, by what it is
    this.n = 0;
    this.ids = [];
    this.numbers = null; // see `index`
    this.shapes = NO_OUTLINES; // see outlines.js
    this.boxes = new Float32Array(0); // minx, miny, maxx, maxy of each building, grid pixels
    this.areas = new Float32Array(0); // square pixels
    this.sites = [NOWHERE]; // {name, box in grid pixels, gsd_m, lonlat}, from top to bottom; the map shows one of them
    this.borders = []; // rows between them
    this.site = 0; // number of the one on the map
    this.siteOf = new Uint16Array(0); // of each building
    this.medianSize = 20; // of its buildings, in grid pixels
    this.scores = null;
    this.ranks = null;
    this.nScored = 0;
    this.byScore = null; // building numbers, lowest score first
    this.server = new Uint8Array(0);
    this.labels = new Uint8Array(0);
    this.scale = new Scale();
    this.grades = new Uint8Array(0); // number of the grade of each building, 0 for none; see grades.js
    this.encoded = null;
    this.pending = [];
    this.settled = []; // operations that are stored, with the number of an event that the page's data do not reach yet
    this.encodedDetails = null;
    this.serverDetails = new Map();
    this.details = new Map(); // by building number
    this.blind = new Set(); // buildings whose scores are kept from the analyst
    this.heard = new Map(); // building number to {code, event, and details}: answers of others that the page's data do not hold yet
    this.others = []; // {name, color, building}: who else is here, building -1 where nobody knows
    this.conflicts = null;
    this.hidden = new Map(); // building number to why the imagery keeps it from being assessed
    this.candidates = new Map(); // and to the reason it would likely be called not assessable for
    this.shifts = null; // see shifts.js
    this.arrows = false;
    this.selected = -1;
    this.chosen = []; // numbers that are selected together, ascending
    this.isChosen = new Uint8Array(0);
    this.picks = false; // a click selects, also where labels are taken
    this.asked = null; // {v, title, places, notes: Map of number to a reason, isAnswered(i)} of a question that fills the wall
    this.hovered = -1;
    this.only = null; // numbers of the buildings that may be seen and answered while random checks are; null for all
    this.threshold = null;
    this.flagging = false; // whether this is the damage map: see flagging.js
    this.types = []; // damage types of the run that is shown: {name, people, score: sets of building numbers, n_named, is_enough}
    this.isScale = false; // whether these are a scale, the mildest first
    this.ownTypes = []; // damage types that the analyst added in this browser, offered before the page's data have them
    this.cells = null; // {side, tops, ramp, hasUnknown} where cells are drawn in place of buildings
    this.mode = "view";
    this.colorBy = "labels";
    this.outlines = true;
    this.scoreName = null; // whose scores these are
    this.view = "post";
    this.named = []; // named layers: {name, when, max_zoom, v, is_gray, n_bands, low, high, unit, missing: set of building numbers}
    this.layer = ""; // which of them lies over the imagery
    this.opacity = 0.8; // of it, 0 to 1
    this.ramp = "grey"; // its colors where it has one band
    this.ready = false;
    this.inQueue = false; // the queue is open
  }

  /** The layer that is shown, null where there is none. */
  get namedLayer() {
    return this.named.find(({ name }) => name === this.layer) ?? null;
  }

  /** @param named as the page sends them, buildings without a layer as differences in base 36 */
  setNamed(named = []) {
    if (this.#isNew("named", named)) this.set("named", named.map((layer) => ({ ...layer, missing: new Set(placesOf(layer.missing)) })));
  }

  // Runs of the page bring the same again and again.
  #isNew(name, value) {
    const before = this.taken.get(name);
    this.taken.set(name, JSON.stringify(value));
    return this.taken.get(name) !== before;
  }

  on(event, listener) {
    if (!this.listeners.has(event)) this.listeners.set(event, new Set());
    this.listeners.get(event).add(listener);
  }

  off(event, listener) {
    this.listeners.get(event)?.delete(listener);
  }

  emit(event, detail) {
    for (const listener of this.listeners.get(event) ?? []) listener(detail);
  }

  set(name, value) {
    if (this[name] === value) return;
    const before = this[name];
    this[name] = value;
    this.emit(name, before);
  }

  /** @param shapes Outlines of the buildings with these ids and areas */
  setGeometry({ ids, areas, shapes }) {
    this.#leaveShapes();
    Object.assign(this, { n: ids.length, ids, areas, shapes, boxes: shapes.boxes, numbers: null });
    shapes.changed = () => this.emit("outlined");
    this.#divide();
    this.server = new Uint8Array(this.n);
    this.labels = new Uint8Array(this.n);
    this.grades = new Uint8Array(this.n);
    this.choose([]);
    this.ready = true;
    this.#decodeLabels();
    this.relabel(); // first: who listens for the geometry may ask for labels
    this.emit("geometry");
  }

  /** @param sites as the page sends them */
  setSites(sites) {
    if (!this.#isNew("sites", sites)) return;
    Object.assign(this, { sites, site: Math.min(this.site, sites.length - 1) });
    this.borders = sites.slice(1).map(({ box }, k) => (sites[k].box[3] + box[1]) / 2);
    this.#divide();
    this.emit("sites");
  }

  #divide() {
    this.siteOf = Uint16Array.from({ length: this.n }, (_, i) => this.siteAt((this.boxes[4 * i + 1] + this.boxes[4 * i + 3]) / 2));
    this.#measure();
  }

  #measure() {
    const areas = this.borders.length ? this.areas.filter((_, i) => this.isOnMap(i)) : this.areas.slice();
    this.medianSize = Math.sqrt(areas.sort()[areas.length >> 1]) || 20;
  }

  /** Number of the site that a row of the grid belongs to; a gap is shared by both. */
  siteAt(row) {
    let k = 0;
    while (row >= this.borders[k]) k++;
    return k;
  }

  /** The site of building i. */
  siteWith(i) {
    return this.sites[this.siteOf[i] ?? 0];
  }

  /** Whether building i is of the site that the map shows. */
  isOnMap(i) {
    return this.siteOf[i] === this.site;
  }

  /** Metres per grid pixel on the map. */
  get gsd() {
    return this.sites[this.site].gsd_m;
  }

  /** Let the map show site k. @returns whether it showed another one */
  showSite(k) {
    if (k === this.site) return false;
    this.site = k;
    this.#measure();
    this.emit("site");
    return true;
  }

  /** Another project comes: nothing of the one before can be seen or labelled until its own buildings are here. */
  empty() {
    this.ready = false;
    this.#leaveShapes();
    Object.assign(this, { n: 0, ids: [], numbers: null, shapes: NO_OUTLINES, boxes: new Float32Array(0), areas: new Float32Array(0), siteOf: new Uint16Array(0) });
    Object.assign(this, { server: new Uint8Array(0), labels: new Uint8Array(0), grades: new Uint8Array(0), encoded: null, encodedDetails: null });
    Object.assign(this, { serverDetails: new Map(), details: new Map(), heard: new Map(), pending: [], settled: [], ownTypes: [] });
    for (const name of ["selected", "hovered"]) this.set(name, -1);
    this.set("shifts", null);
    this.setBlind([]);
    this.choose([]);
    this.setScores(null);
    this.emit("emptied");
  }

  // Others may show them, too; nobody here wants to hear of them any more.
  #leaveShapes() {
    this.shapes.changed = () => {};
  }

  /** Building id to its number; made when somebody first asks. */
  get index() {
    this.numbers ??= new Map(this.ids.map((id, i) => [id, i]));
    return this.numbers;
  }

  /** Rings of building i; its box until its map tile of outlines is here, which "outlined" tells of. */
  rings(i) {
    return this.shapes.of(i);
  }

  setScores(scores) {
    this.scores = scores;
    this.ranks = null;
    this.byScore = null;
    this.nScored = scores ? scores.reduce((n, score) => n + !Number.isNaN(score), 0) : 0;
    if (scores) {
      this.byScore = order(scores);
      this.ranks = new Uint32Array(scores.length);
      this.byScore.forEach((i, k) => (this.ranks[i] = scores.length - k));
    }
    this.emit("scores");
  }

  /** Take the server's labels ({"1": "0 3 a", ...}: per code, differences of positions in base 36) and what of the log they lack. */
  setLabels(encoded, { ops, settled }, details = null) {
    this.pending = ops;
    this.settled = settled;
    if (encoded !== this.encoded) {
      this.encoded = encoded;
      this.#decodeLabels();
    }
    if (details !== this.encodedDetails) {
      this.encodedDetails = details;
      this.serverDetails = decodeDetails(details);
    }
    this.relabel();
  }

  #decodeLabels() {
    this.server.fill(UNLABELED);
    for (const [code, text] of Object.entries(this.encoded ?? {})) {
      for (const at of placesOf(text)) this.server[at] = Number(code);
    }
  }

  /** Work the labels out anew. `cause`: "heard" where nothing but what others did is new. */
  relabel(cause = null) {
    if (!this.ready) return;
    const before = this.labels;
    this.labels = this.server.slice();
    this.details = new Map(this.serverDetails);
    for (const [i, { code, event, ...details }] of this.heard) {
      this.labels[i] = code;
      this.details.delete(i); // they belong to the label before
      if (code !== UNLABELED) this.details.set(i, { ...NO_DETAILS, ...details });
    }
    for (const op of [...this.settled, ...this.pending]) {
      const i = this.index.get(op.building_id);
      if (i === undefined || this.heard.get(i)?.event >= op.event) continue; // somebody answered after it was stored
      this.labels[i] = LABEL_NAMES.indexOf(op.label);
      if (this.labels[i] === UNLABELED) this.details.delete(i);
      else this.details.set(i, detailsOf(op));
    }
    this.emit("details");
    this.#grade();
    if (differ(before, this.labels)) this.emit("labels", cause);
  }

  #grade() {
    const before = this.grades;
    this.grades = new Uint8Array(this.n);
    for (const [i, { grade }] of this.details) if (grade && i < this.n) this.grades[i] = this.scale.number(grade);
    if (differ(before, this.grades)) this.emit("grades");
  }

  /** @param grades the project's, see grades.js */
  setScale(grades) {
    if (!this.#isNew("scale", grades ?? [])) return;
    this.scale = new Scale(grades);
    this.#grade();
    this.emit("scale");
  }

  /** Whether a click labels; else it selects. */
  get clickLabels() {
    return this.mode === "label" && !this.picks;
  }

  /** Select buildings; `adds`: those that were selected stay so. */
  choose(numbers, adds = false) {
    const isChosen = adds ? this.isChosen.slice() : new Uint8Array(this.n);
    for (const i of numbers) isChosen[i] = 1;
    this.isChosen = isChosen;
    this.chosen = [];
    for (let i = 0; i < this.n; i++) if (isChosen[i]) this.chosen.push(i);
    this.emit("chosen");
  }

  /** Who else is on building i. */
  othersAt(i) {
    return this.others.filter(({ building }) => building === i);
  }

  counts() {
    const counts = [0, 0, 0, 0];
    for (const code of this.labels) counts[code]++;
    return counts;
  }

  center(i) {
    const b = this.boxes;
    return [(b[4 * i] + b[4 * i + 2]) / 2, (b[4 * i + 1] + b[4 * i + 3]) / 2];
  }

  /** What the analyst may see of a building's score. */
  score(i) {
    const score = this.scores?.[i];
    return score === undefined || Number.isNaN(score) || this.blind.has(i) || this.isHidden(i) ? null : score;
  }

  /** Whether what is flagged can be shown. */
  get isFlagging() {
    return this.flagging && this.ready && this.scores !== null && this.threshold !== null;
  }

  get isCategorical() {
    return this.isFlagging && (this.colorBy === "category" || this.isTyped);
  }

  /** Whether the map is colored by damage types. */
  get isTyped() {
    return this.isFlagging && this.colorBy === "types" && this.types.length > 0;
  }

  /**
   * @param types of each {name, people, score: positions as differences in base 36, named, enough}
   * @param isScale whether they are a scale, the mildest first: who reaches one reaches those before it
   */
  setTypes(types = [], isScale = false) {
    if (!this.#isNew("types", [types, isScale])) return;
    this.isScale = isScale;
    this.types = types.map((one) => ({ ...one, people: new Set(placesOf(one.people)), score: new Set(placesOf(one.score)) }));
    this.emit("types");
  }

  /** Where a building with this score is on the ramp, 0 to 1: on the damage map by its rank, as scores may crowd at one end. */
  shade(i, score) {
    return this.flagging && this.ranks ? 1 - (this.ranks[i] - 1) / Math.max(this.n - 1, 1) : score;
  }

  isBelow(score) {
    return this.threshold !== null && written(score) < this.threshold;
  }

  /** Whether the imagery hides building i and nobody answered otherwise: any answer counts more. */
  isHidden(i) {
    return this.labels[i] === UNLABELED && this.hidden.has(i);
  }

  /** @param quality {reasons, candidates}: per reason, differences of positions in base 36 */
  setImageQuality(quality) {
    if (!this.#isNew("quality", [quality?.reasons, quality?.candidates])) return;
    const decode = (texts) => Object.entries(texts ?? {}).flatMap(([reason, places]) => Array.from(placesOf(places), (i) => [i, reason]));
    this.hidden = new Map(decode(quality?.reasons));
    this.candidates = new Map([...this.hidden, ...decode(quality?.candidates)].filter(([, reason]) => IS_ANSWER.has(reason)));
    this.emit("imageQuality");
  }

  setBlind(numbers) {
    if (numbers.length === this.blind.size && numbers.every((i) => this.blind.has(i))) return;
    this.blind = new Set(numbers);
    this.emit("blind");
  }

  detail(i) {
    return this.details.get(i) ?? NO_DETAILS;
  }

  /** How many damaged buildings have a type by answers that are learned from: those to random checks are not. */
  countOf(type) {
    if (this.counted !== this.details) {
      this.counted = this.details;
      this.typeCounts = new Map();
      for (const [i, { damage_types, shown }] of this.details) {
        if (this.labels[i] !== POSITIVE || shown === "audit") continue;
        for (const each of damage_types) this.typeCounts.set(each, (this.typeCounts.get(each) ?? 0) + 1);
      }
    }
    return this.typeCounts.get(type) ?? 0;
  }

  /** @param numbers that are all there is on the map and for the pointer; null for every building */
  setOnly(numbers) {
    if (JSON.stringify(numbers) === JSON.stringify(this.only && [...this.only])) return;
    this.set("only", numbers && new Set(numbers));
  }

  /** What of a box belongs to the site on the map. */
  onMap([minX, minY, maxX, maxY]) {
    return [minX, Math.max(minY, this.borders[this.site - 1] ?? -Infinity), maxX, Math.min(maxY, this.borders[this.site] ?? Infinity)];
  }

  /** Numbers of the buildings to draw or hit whose boxes touch a box, ascending. */
  touching(box) {
    const found = this.shapes.touching(this.onMap(box));
    return this.only ? found.filter((i) => this.only.has(i)) : found;
  }

  setConflicts(encoded) {
    if (!this.#isNew("conflicts", encoded)) return;
    this.conflicts = encoded == null ? null : new Set(placesOf(encoded));
    this.emit("conflicts");
  }

  /** The building under a point of the grid; within `slack` pixels when none is hit (small ones must be clickable). */
  hit(x, y, slack) {
    let best = -1;
    let bestSize = Infinity;
    for (const i of this.touching([x, y, x, y])) {
      if (this.areas[i] < bestSize && isInside(this.rings(i), x, y)) {
        best = i;
        bestSize = this.areas[i];
      }
    }
    return best >= 0 ? best : this.#nearest(x, y, slack);
  }

  #nearest(x, y, slack) {
    const b = this.boxes;
    let best = -1;
    let bestAway = slack;
    for (const i of this.touching([x - slack, y - slack, x + slack, y + slack])) {
      const k = 4 * i;
      const dx = Math.max(b[k] - x, x - b[k + 2], 0);
      const dy = Math.max(b[k + 1] - y, y - b[k + 3], 0);
      const away = Math.hypot(dx, dy);
      if (away < bestAway) {
        best = i;
        bestAway = away;
      }
    }
    return best;
  }

  /** Buildings whose middle lies inside a polygon, given as [[x, y], ...]. */
  withinPolygon(corners) {
    const ring = Float32Array.from(corners.flat());
    const inBox = this.within(boxOf(ring));
    return pointsInside(ring, Float64Array.from(inBox.flatMap((i) => this.center(i)))).map((k) => inBox[k]);
  }

  /** Numbers of the buildings whose middle lies in a box, ascending. */
  within([minX, minY, maxX, maxY]) {
    const found = [];
    for (const i of this.touching([minX, minY, maxX, maxY])) {
      const [x, y] = this.center(i);
      if (x >= minX && x <= maxX && y >= minY && y <= maxY) found.push(i);
    }
    return found;
  }
}

const NUMBERS = 2 ** 20; // more buildings than any footprint file holds here

/** Building numbers, lowest score first; NaN counts as 0, and of equals the first building ends last. */
function order(scores) {
  // Plain numbers sort ten times as fast as anything with a function to compare; the bits of floats from 0 on have their order.
  const bits = new Uint32Array(Float32Array.from(scores, (score) => Math.max(0, score || 0)).buffer);
  const keys = new Float64Array(scores.length);
  for (let i = 0; i < keys.length; i++) keys[i] = bits[i] * NUMBERS + (NUMBERS - 1 - i);
  return Uint32Array.from(keys.sort(), (key) => NUMBERS - 1 - (key % NUMBERS));
}
