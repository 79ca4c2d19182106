// The ground around a building, drawn from map tiles: what is shown of it, and the pictures that the tiles are kept in.
// Knows nothing of the page; `chip_pictures.js` puts the canvases into it.

import { hatch, patternOf, strokes } from "./raster.js";

const TILE_PX = 256;
const AROUND_M = 15; // at least so much ground on each side of the building
const MOST_TILES = 300; // decoded ones that are kept, 256 kB each
const RETRY_MS = 5000;
const AT_ONCE = 6; // requests; browsers have no more connections to a server
export const NO_DATA_GREY = 40; // of pixels without data inside a map tile, see geo/ground.py
const LEAST_EMPTY = 0.25; // of the tile's edge: ground as dark, and so even, is a shadow and smaller
export const BLOCK_PX = 8; // JPEG keeps a block of one colour exactly
const TICKS_M = [500, 200, 100, 50, 20, 10, 5, 2, 1];

/**
 * The square of ground that a picture of building i shows, in grid pixels: {x, y, side} with its upper left corner.
 * The building is in its middle; the pre picture is moved by the shift that was measured here, as the model's chips are.
 */
export function groundOf(store, i, part) {
  const [minX, minY, maxX, maxY] = store.boxes.subarray(4 * i, 4 * i + 4);
  const longest = Math.max(maxX - minX, maxY - minY);
  const side = Math.max(longest + (2 * AROUND_M) / store.siteWith(i).gsd_m, 2 * longest);
  const [dx, dy] = part === "pre" ? shiftPx(store, i) : [0, 0];
  return { x: (minX + maxX - side) / 2, y: (minY + maxY - side) / 2, side, dx, dy };
}

function shiftPx({ shifts, siteOf }, i) {
  if (!shifts || i >= shifts.n || !shifts.quality[i]) return [0, 0];
  return shifts.perPx[siteOf[i]].map((metres, axis) => shifts.cm[2 * i + axis] / 100 / metres);
}

/**
 * The map tiles that show a square of ground at a size.
 * @param width screen pixels, those of a dense screen counted
 * @returns {zoom, resolution: grid pixels per tile pixel, tiles: [{x, y}]}; only tiles that touch the grid
 */
export function tilesOf({ x, y, side, dx, dy }, width, { max_zoom, grid }) {
  const back = Math.max(0, Math.min(max_zoom, Math.floor(Math.log2(Math.max(1, side / width)))));
  const resolution = 2 ** back;
  const reach = TILE_PX * resolution;
  const [left, top] = [x - dx, y - dy];
  const tiles = [];
  const last = (size) => Math.ceil(size / reach) - 1;
  for (let row = Math.max(0, Math.floor(top / reach)); row <= Math.min(last(grid[1]), Math.floor((top + side) / reach)); row++) {
    for (let column = Math.max(0, Math.floor(left / reach)); column <= Math.min(last(grid[0]), Math.floor((left + side) / reach)); column++) tiles.push({ x: column, y: row });
  }
  return { zoom: max_zoom - back, resolution, tiles };
}

/** The longest round number of metres that takes up at most a third of the width. */
export function tickOf(sideM) {
  return TICKS_M.find((each) => each <= sideM / 3) ?? TICKS_M.at(-1);
}

/** Map tiles as canvases, by address; what was asked for last comes first, and what nobody shows any more is not asked for. */
export class TilePictures {
  constructor() {
    this.tiles = new Map(); // address to {canvas: null where there is no data, undefined while it is on its way, waiting: done to isWanted}
    this.queue = [];
    this.running = 0;
  }

  /**
   * @param isWanted () => whether somebody still shows it
   * @param done called once, however often the same function was given
   * @returns the tile's canvas; null where the imagery has no data; undefined if it is not here yet: `done` is called then
   */
  get(url, isWanted, done) {
    let tile = this.tiles.get(url);
    if (!tile) {
      tile = { canvas: undefined, waiting: new Map() };
      this.tiles.set(url, tile);
      this.queue.push(url);
    } else if (tile.canvas !== undefined) {
      this.tiles.delete(url); // and in again as the newest
      this.tiles.set(url, tile);
      return tile.canvas;
    }
    tile.waiting.set(done, isWanted);
    this.#next();
    return undefined;
  }

  #next() {
    while (this.running < AT_ONCE && this.queue.length) {
      const url = this.queue.pop();
      const tile = this.tiles.get(url);
      if (tile && [...tile.waiting.values()].some((isWanted) => isWanted())) this.#load(url, tile);
      else this.tiles.delete(url);
    }
  }

  async #load(url, tile) {
    this.running += 1;
    try {
      const answer = await fetch(url);
      if (!answer.ok) throw new Error(String(answer.status));
      tile.canvas = answer.status === 204 ? null : await decode(await answer.blob()); // 204: the pyramid has no such tile
    } catch {
      this.tiles.delete(url);
      const again = takeAll(tile.waiting);
      setTimeout(() => again.forEach(([done, isWanted]) => isWanted() && done()), RETRY_MS); // whoever draws then asks again
    }
    this.running -= 1;
    this.#forget();
    for (const [done] of takeAll(tile.waiting)) done();
    this.#next();
  }

  #forget() {
    for (const [url, tile] of this.tiles) {
      if (this.tiles.size <= MOST_TILES) return;
      if (tile.canvas !== undefined) this.tiles.delete(url);
    }
  }
}

function takeAll(waiting) {
  const all = [...waiting];
  waiting.clear();
  return all;
}

async function decode(blob) {
  const picture = await createImageBitmap(blob);
  const canvas = document.createElement("canvas");
  [canvas.width, canvas.height] = [picture.width, picture.height];
  const context = canvas.getContext("2d", { willReadFrequently: true });
  context.drawImage(picture, 0, 0);
  picture.close();
  clearNoData(context, canvas.width, canvas.height);
  return canvas;
}

/** Make transparent what holds no data: blocks of that gray which hang together, reach the tile's border, and are many. */
export function clearNoData(context, width, height) {
  const { data } = context.getImageData(0, 0, width, height);
  const [columns, rows] = [Math.ceil(width / BLOCK_PX), Math.ceil(height / BLOCK_PX)];
  const isGray = Uint8Array.from({ length: columns * rows }, (_, k) => isNoData(data, width, (k % columns) * BLOCK_PX, Math.floor(k / columns) * BLOCK_PX));
  const least = (LEAST_EMPTY * Math.max(width, height)) / BLOCK_PX;
  for (let k = 0; k < isGray.length; k++) {
    if (!isGray[k]) continue;
    const { blocks, reachesBorder, extent } = takeRegion(isGray, columns, rows, k);
    if (reachesBorder && extent >= least) for (const at of blocks) context.clearRect((at % columns) * BLOCK_PX, Math.floor(at / columns) * BLOCK_PX, BLOCK_PX, BLOCK_PX);
  }
}

// The blocks that hang together with block `first`, side by side; they are taken out of `isGray`.
function takeRegion(isGray, columns, rows, first) {
  const blocks = [first];
  isGray[first] = 0;
  let [west, east, north, south] = [columns, -1, rows, -1];
  for (let k = 0; k < blocks.length; k++) {
    const [x, y] = [blocks[k] % columns, Math.floor(blocks[k] / columns)];
    [west, east, north, south] = [Math.min(west, x), Math.max(east, x), Math.min(north, y), Math.max(south, y)];
    for (const [column, row] of [[x - 1, y], [x + 1, y], [x, y - 1], [x, y + 1]]) {
      const at = row * columns + column;
      if (column < 0 || row < 0 || column >= columns || row >= rows || !isGray[at]) continue;
      isGray[at] = 0;
      blocks.push(at);
    }
  }
  const reachesBorder = west === 0 || north === 0 || east === columns - 1 || south === rows - 1;
  return { blocks, reachesBorder, extent: Math.max(east - west, south - north) + 1 };
}

function isNoData(data, width, left, top) {
  for (let row = top + 1; row < top + BLOCK_PX - 1; row++) { // decoders let the color of neighbors run into a block's rim
    for (let at = 4 * (row * width + left + 1); at < 4 * (row * width + left + BLOCK_PX - 1); at++) {
      if ((at & 3) !== 3 && Math.abs(data[at] - NO_DATA_GREY) > 1) return false;
    }
  }
  return true;
}

/**
 * Draw the ground on a canvas.
 * @param found [{x, y, canvas}]: the tiles that hold something
 */
export function paintGround(canvas, ground, { resolution }, found) {
  const context = canvas.getContext("2d");
  const { width, height } = canvas;
  context.setTransform(1, 0, 0, 1, 0, 0);
  paintHatch(context, width, height);
  const [left, top, side] = [ground.x - ground.dx, ground.y - ground.dy, ground.side].map((each) => each / resolution);
  const [column, row, size] = [Math.floor(left), Math.floor(top), Math.ceil(side) + 1];
  const whole = document.createElement("canvas"); // put together unscaled: scaled tile by tile, seams would show
  whole.width = whole.height = size;
  const pen = whole.getContext("2d");
  for (const tile of found) pen.drawImage(tile.canvas, tile.x * TILE_PX - column, tile.y * TILE_PX - row);
  context.imageSmoothingEnabled = true;
  context.imageSmoothingQuality = "high";
  context.drawImage(whole, left - column, top - row, side, side, 0, 0, width, height);
}

function paintHatch(context, width, height) {
  context.fillStyle = "#3a3e46";
  context.fillRect(0, 0, width, height);
  context.fillStyle = patternOf(context, "no ground", 8, (pen) => hatch(pen, 8, "#6b7078", 1.5));
  context.fillRect(0, 0, width, height);
}

/** The footprint's outline over it. */
export function paintOutline(canvas, ground, rings, ratio) {
  const context = canvas.getContext("2d");
  const scale = canvas.width / ground.side;
  context.beginPath();
  for (const ring of rings) {
    for (let k = 0; k < ring.length; k += 2) context[k ? "lineTo" : "moveTo"]((ring[k] - ground.x) * scale, (ring[k + 1] - ground.y) * scale);
    context.closePath();
  }
  context.lineJoin = "round";
  const thin = canvas.width / ratio < 80;
  strokes(context, ["rgba(0,0,0,0.6)", (thin ? 2.4 : 3.4) * ratio], ["#fff", (thin ? 1 : 1.6) * ratio]);
}

/** A scale tick at the lower left, with its length where there is room; on large pictures an arrow to the north. */
export function paintTick(canvas, ground, gsd, ratio, { text, hasNorth }) {
  const width = canvas.width / ratio;
  const metres = tickOf(ground.side * gsd);
  const length = (metres / (ground.side * gsd)) * width;
  const context = canvas.getContext("2d");
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  const [x, y] = [6, width - 6];
  context.lineJoin = context.lineCap = "round";
  context.beginPath();
  const line = (...points) => points.forEach((point, k) => context[k ? "lineTo" : "moveTo"](...point));
  line([x, y - 4], [x, y], [x + length, y], [x + length, y - 4]);
  if (hasNorth) {
    line([width - 10, 22], [width - 10, 8], [width - 13, 12]);
    line([width - 10, 8], [width - 7, 12]);
  }
  strokes(context, ["rgba(0,0,0,0.65)", 3.4], ["#fff", 1.4]);
  if (width >= 84) paintText(context, text(metres), x + 3, y - 5, "left", width < 140 ? 9 : 11);
  if (hasNorth) paintText(context, "N", width - 10, 33, "center", 10);
  context.setTransform(1, 0, 0, 1, 0, 0);
}

function paintText(context, text, x, y, align, size) {
  context.font = `600 ${size}px system-ui, sans-serif`;
  context.textAlign = align;
  context.lineWidth = 3;
  context.strokeStyle = "rgba(0,0,0,0.75)";
  context.strokeText(text, x, y);
  context.fillStyle = "#fff";
  context.fillText(text, x, y);
}
