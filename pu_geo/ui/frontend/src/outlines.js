// Outlines of buildings by map tile: fetched where somebody needs one, the newest kept. Until a building's tile is here its box stands for it.

const KEPT = 96; // tiles; more only while all of them are in use
const AT_ONCE = 4; // requests; a browser has six connections to a server, and pictures need some
const TOGETHER_MS = 40; // tiles that come so soon after each other are drawn together
const RETRY_MS = 5000;
const FEW = 20; // less than one in so many buildings
const HEADER = { bytes: 48, name: [16, 32] }; // see `geo/vector/outlines.py`

/**
 * What the server sends first, without a copy of its arrays.
 * @returns {ids, boxes: [min x, min y, max x, max y, ...] in grid pixels, areas, order: building numbers tile by tile, perTile, name}
 */
export function decodeFirstPart(buffer) {
  const [n, perTile, , idsBytes] = new Uint32Array(buffer, 0, 4);
  const text = (at, length) => new TextDecoder().decode(new Uint8Array(buffer, at, length));
  const at = HEADER.bytes;
  return {
    perTile,
    name: text(...HEADER.name),
    order: new Uint32Array(buffer, at, n),
    boxes: new Float32Array(buffer, at + 4 * n, 4 * n),
    areas: new Float32Array(buffer, at + 20 * n, n),
    ids: JSON.parse(text(at + 24 * n, idsBytes)),
  };
}

/** Rings of each building of a tile: arrays of [x, y, x, y, ...] in grid pixels, the first point not repeated. */
export function decodeTile(buffer, n) {
  const counts = new Uint32Array(buffer, 0, n);
  const points = new Uint32Array(buffer, 4 * n, counts.reduce((sum, count) => sum + count, 0));
  const xy = new Float32Array(buffer, 4 * (n + points.length));
  let [ring, at] = [0, 0];
  return Array.from(counts, (count) => Array.from({ length: count }, () => xy.subarray(at, (at += 2 * points[ring++]))));
}

export class Outlines {
  /**
   * @param first as `decodeFirstPart` returns it
   * @param url (tile) => its address
   */
  constructor({ order, boxes, perTile }, url) {
    Object.assign(this, { order, boxes, perTile, url });
    const nTiles = Math.ceil(order.length / perTile);
    this.changed = () => {}; // called once tiles came, or could not be fetched
    this.tiles = new Array(nTiles).fill(null); // rings by place in the tile
    this.isAsked = new Uint8Array(nTiles); // whether it is wanted or on its way
    this.usedAt = new Float64Array(nTiles); // by `clock`
    this.clock = 0;
    this.wanted = [];
    this.nRunning = 0;
    this.room = KEPT;
    this.waiting = new Set(); // called at the next change
    this.isFailing = false; // whether the newest request failed
    this.place = new Uint32Array(order.length);
    for (let k = 0; k < order.length; k++) this.place[order[k]] = k;
    this.bounds = Float32Array.from({ length: 4 * nTiles }, (_, k) => (k % 4 < 2 ? Infinity : -Infinity)); // of each tile
    for (let tile = 0; tile < nTiles; tile++) this.#measure(tile);
  }

  #measure(tile) {
    const { boxes: b } = this;
    let [minX, minY, maxX, maxY] = [Infinity, Infinity, -Infinity, -Infinity];
    for (const i of this.members(tile)) {
      if (b[4 * i] < minX) minX = b[4 * i];
      if (b[4 * i + 1] < minY) minY = b[4 * i + 1];
      if (b[4 * i + 2] > maxX) maxX = b[4 * i + 2];
      if (b[4 * i + 3] > maxY) maxY = b[4 * i + 3];
    }
    this.bounds.set([minX, minY, maxX, maxY], 4 * tile);
  }

  /** How many tiles were asked for and are not here. */
  get nMissing() {
    return this.wanted.length + this.nRunning;
  }

  /** Building numbers of a tile. */
  members(tile) {
    return this.order.subarray(tile * this.perTile, (tile + 1) * this.perTile);
  }

  #tilesIn([minX, minY, maxX, maxY]) {
    const b = this.bounds;
    const found = [];
    for (let tile = 0, k = 0; k < b.length; tile++, k += 4) if (b[k] <= maxX && b[k + 2] >= minX && b[k + 1] <= maxY && b[k + 3] >= minY) found.push(tile);
    return found;
  }

  /** Numbers of the buildings whose boxes touch a box, ascending, as Uint32Array. */
  touching(box) {
    const found = this.#found(box, Infinity);
    return found.length * FEW < this.order.length ? found.sort() : this.#ascending(found);
  }

  /** Whether the boxes of more than so many buildings touch a box. */
  isMore(box, most) {
    return this.#found(box, most).length > most;
  }

  // Tile by tile, and no further tile once there are more than `most`.
  #found(box, most) {
    const [minX, minY, maxX, maxY] = box;
    const { boxes: b, perTile } = this;
    const tiles = this.#tilesIn(box);
    const found = new Uint32Array(Math.min(tiles.length * perTile, most + perTile));
    let n = 0;
    for (const tile of tiles) {
      for (const i of this.members(tile)) {
        const k = 4 * i;
        if (b[k] <= maxX && b[k + 2] >= minX && b[k + 1] <= maxY && b[k + 3] >= minY) found[n++] = i;
      }
      if (n > most) break;
    }
    return found.subarray(0, n);
  }

  // Of many, faster than sorting.
  #ascending(numbers) {
    const isIn = new Uint8Array(this.order.length);
    for (const i of numbers) isIn[i] = 1;
    for (let i = 0, n = 0; n < numbers.length; i++) if (isIn[i]) numbers[n++] = i;
    return numbers;
  }

  /** The map draws outlines in this box: there must be room for all of them. */
  show(box) {
    this.clock += 1;
    this.room = Math.max(KEPT, 2 * this.#tilesIn(box).length);
  }

  /** Rings of building i; undefined if they are not here yet: they are fetched, and `done` is called at the next change. */
  get(i, done = null) {
    const tile = Math.floor(this.place[i] / this.perTile);
    this.usedAt[tile] = this.clock;
    const rings = this.tiles[tile];
    if (rings) return rings[this.place[i] % this.perTile];
    if (done) this.waiting.add(done);
    if (!this.isAsked[tile] && !this.isResting) {
      this.isAsked[tile] = 1;
      this.wanted.push(tile);
      this.#next();
    }
    return undefined;
  }

  /** Rings of building i, or its box until they are here. */
  of(i) {
    return this.get(i) ?? [this.#box(i)];
  }

  #box(i) {
    const [minX, minY, maxX, maxY] = this.boxes.subarray(4 * i, 4 * i + 4);
    return Float32Array.of(minX, minY, maxX, minY, maxX, maxY, minX, maxY);
  }

  #next() {
    const { wanted, usedAt } = this;
    while (this.nRunning < AT_ONCE && wanted.length) {
      let newest = 0;
      for (let k = 1; k < wanted.length; k++) if (usedAt[wanted[k]] >= usedAt[wanted[newest]]) newest = k;
      this.#load(...wanted.splice(newest, 1));
    }
  }

  async #load(tile) {
    this.nRunning += 1;
    try {
      const answer = await fetch(this.url(tile));
      if (!answer.ok) throw new Error(String(answer.status));
      this.tiles[tile] = decodeTile(await answer.arrayBuffer(), this.members(tile).length);
      this.usedAt[tile] = this.clock += 1; // whoever waits for it has it
      this.isFailing = false;
      this.#forget();
      this.#later(TOGETHER_MS);
    } catch {
      this.#rest();
    }
    this.isAsked[tile] = 0;
    this.nRunning -= 1;
    this.#next();
  }

  #forget() {
    const here = [...this.tiles.keys()].filter((tile) => this.tiles[tile]);
    here.sort((a, b) => this.usedAt[a] - this.usedAt[b]);
    for (const tile of here.slice(0, Math.max(0, here.length - this.room))) this.tiles[tile] = null;
  }

  // The server may be gone for a moment; who draws after it asks again.
  #rest() {
    for (const tile of this.wanted.splice(0)) this.isAsked[tile] = 0;
    if (this.isResting) return;
    this.isFailing = this.isResting = true;
    this.#later(0);
    setTimeout(() => {
      this.isResting = false;
      this.#later(0);
    }, RETRY_MS);
  }

  #later(ms) {
    if (this.isScheduled) return;
    this.isScheduled = true;
    setTimeout(() => {
      this.isScheduled = false;
      const waiting = [...this.waiting];
      this.waiting.clear();
      for (const done of waiting) done();
      this.changed();
    }, ms);
  }
}

export const NO_OUTLINES = new Outlines({ order: new Uint32Array(0), boxes: new Float32Array(0), perTile: 1 }, null);
