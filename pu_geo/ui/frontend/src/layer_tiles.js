// The map tiles of a named layer (SAR, elevation, ...): where they are, and their colors. One band comes as gray, and may be shown in viridis.

import { between, rgbOf } from "./colors.js";
import { BLOCK_PX, NO_DATA_GREY, TilePictures } from "./ground.js";

/** What a layer's tiles are asked for by, as the dates are by "pre" and "post". */
export const partOf = (name) => `layers/${name}`;
export const GREY = "grey";
export const VIRIDIS = "viridis";

// Stops of viridis (Smith and van der Walt 2015, public domain), evenly spaced.
const STOPS = ["440154", "48186a", "472d7b", "424086", "3b528b", "33638d", "2c728e", "26828e", "21918c", "1f9f88", "27ad81", "3dbc74", "5cc863", "81d34d", "aadc32", "d5e21a", "fde725"];
const CHANNELS = STOPS.map((stop) => rgbOf(`#${stop}`));

export const RAMPS = {
  [GREY]: "linear-gradient(90deg, #000, #fff)",
  [VIRIDIS]: `linear-gradient(90deg, ${STOPS.map((stop) => `#${stop}`).join(", ")})`,
};

/** The color of a gray of 0 to 255 in viridis, [red, green, blue]. */
export const viridis = (gray) => between(CHANNELS, gray / 255);

const TABLE = Array.from({ length: 256 }, (_, gray) => viridis(gray));

/** Give gray pixels, [red, green, blue, alpha, ...] of 0 to 255, their colors, in place. */
export function paintViridis(data) {
  for (let at = 0; at < data.length; at += 4) {
    const [red, green, blue] = TABLE[data[at]];
    data[at] = red;
    data[at + 1] = green;
    data[at + 2] = blue;
  }
}

const NEAR_GREY = 14; // what JPEG makes of pixels without data beside others

/**
 * Make transparent what is left of missing data at its rim: in blocks beside transparent ones, pixels of about that gray.
 * They would be taken for low values of the layer.
 * @param data [red, green, blue, alpha, ...] of a tile, changed in place
 */
export function clearRim(data, width, height) {
  const [columns, rows] = [Math.ceil(width / BLOCK_PX), Math.ceil(height / BLOCK_PX)];
  const isClear = Uint8Array.from({ length: columns * rows }, (_, k) => data[4 * (Math.floor(k / columns) * BLOCK_PX * width + (k % columns) * BLOCK_PX) + 3] === 0);
  const touches = (column, row) => [-1, 0, 1].some((down) => [-1, 0, 1].some((right) => {
    const [x, y] = [column + right, row + down];
    return x >= 0 && y >= 0 && x < columns && y < rows && isClear[y * columns + x];
  }));
  for (let k = 0; k < isClear.length; k++) {
    const [column, row] = [k % columns, Math.floor(k / columns)];
    if (isClear[k] || !touches(column, row)) continue;
    for (let y = row * BLOCK_PX; y < Math.min(height, (row + 1) * BLOCK_PX); y++) {
      for (let x = column * BLOCK_PX; x < Math.min(width, (column + 1) * BLOCK_PX); x++) {
        const at = 4 * (y * width + x);
        if ([0, 1, 2].every((band) => Math.abs(data[at + band] - NO_DATA_GREY) <= NEAR_GREY)) data[at + 3] = 0;
      }
    }
  }
}

const painted = new WeakMap(); // canvas of a tile to its copies, by ramp

/** A tile of a layer as it is shown: a copy in the colors of a ramp, without a rim of missing data. */
export function inColors(canvas, ramp) {
  const copies = painted.get(canvas) ?? new Map();
  painted.set(canvas, copies);
  if (!copies.has(ramp)) {
    const copy = document.createElement("canvas");
    [copy.width, copy.height] = [canvas.width, canvas.height];
    const pixels = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
    clearRim(pixels.data, canvas.width, canvas.height);
    if (ramp === VIRIDIS) paintViridis(pixels.data);
    copy.getContext("2d").putImageData(pixels, 0, 0);
    copies.set(ramp, copy);
  }
  return copies.get(ramp);
}

export const tilePictures = new TilePictures(); // they outlive a change of page

/** What OpenLayers loads tiles of a layer with: transparent where there are no data, in the colors of a ramp. */
export function tileLoader(ramp, pictures = tilePictures) {
  return (tile, url) => {
    const show = () => {
      const canvas = pictures.get(url, () => true, show);
      if (canvas !== undefined) tile.setImage(canvas === null ? document.createElement("canvas") : inColors(canvas, ramp));
    };
    show();
  };
}

/** Which of the layers comes after one: none after the last, the first after none. */
export function nextLayer(layers, name) {
  return layers[layers.findIndex((layer) => layer.name === name) + 1]?.name ?? "";
}

/**
 * Whether a layer is shown on one of the pictures of the map.
 * @param when date of the layer: "pre", "post", "" for none
 * @param view "pre", "post", "swipe", "side"
 * @param part the picture: "pre" or "post"; the map that shows both, or one alone, is asked for as "post"
 */
export function isOn(when, view, part) {
  return view === "side" ? when === "" || when === part : part === "post";
}

/** Which part of the width a layer takes on the map with the swipe, [from, to] in shares. */
export function shareOf(when, view, swipeAt) {
  if (view !== "swipe" || when === "") return [0, 1];
  return when === "pre" ? [0, swipeAt] : [swipeAt, 1];
}
