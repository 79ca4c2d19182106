// Chips in place of dots, where the scatter is zoomed in so far that there is room for them.

export const SIDE_PX = 44;
const MOST = 150; // chips at once
const ZOOMED_IN = 0.75; // of the resolution that shows all dots
const LEAST_GAP = 1.08; // of a side: chips nearer than this stay dots
const RIM_PX = 3;
const MOST_SHEETS = 24; // decoded ones that are kept

/** Whether so many dots in view are drawn as chips. */
export function showsChips(n, resolution, all) {
  return n > 0 && n <= MOST && resolution <= ZOOMED_IN * all;
}

/**
 * @param points [x, y] in pixels, those first that count most
 * @returns places in `points` of those that get a chip: none covers another
 */
export function placeChips(points, side = SIDE_PX) {
  const least = side * LEAST_GAP;
  const taken = [];
  points.forEach(([x, y], at) => {
    if (taken.every((other) => Math.max(Math.abs(points[other][0] - x), Math.abs(points[other][1] - y)) >= least)) taken.push(at);
  });
  return taken;
}

/** Where the chip of building i is on its sheet: {sheet, x, y, width, height}; of its two dates the later one. */
export function cellOf(i, { per_sheet, columns, cell_w, cell_h, has_pre }) {
  const at = i % per_sheet;
  const height = has_pre ? cell_h / 2 : cell_h;
  return { sheet: Math.floor(i / per_sheet), x: (at % columns) * cell_w, y: Math.floor(at / columns) * cell_h + (has_pre ? height : 0), width: cell_w, height };
}

/** Sprite sheets as pictures, by address; `loaded` is called once one that was asked for is there. */
export class Sheets {
  constructor(loaded) {
    this.loaded = loaded;
    this.pictures = new Map();
  }

  /** @returns the picture, or null while it is on its way */
  get(url) {
    if (!this.pictures.has(url)) {
      if (this.pictures.size >= MOST_SHEETS) this.pictures.delete(this.pictures.keys().next().value);
      const picture = new Image();
      picture.onload = () => this.loaded();
      picture.src = url;
      this.pictures.set(url, picture);
    }
    const found = this.pictures.get(url);
    return found.complete && found.naturalWidth ? found : null;
  }
}

function ofModel(i, pictures, sheets) {
  if (!pictures.hasModel(i)) return null;
  const cell = cellOf(i, pictures.wall);
  const picture = sheets.get(pictures.urlOf(cell.sheet));
  return picture && { picture, cell };
}

function ofGround(i, pictures, loaded) {
  const picture = pictures.has(i) ? pictures.thumbnail(i, SIDE_PX, loaded) : null;
  return picture && { picture, cell: { x: 0, y: 0, width: picture.width, height: picture.height } };
}

/**
 * @param members [{i, at: [x, y], color: css}] in pixels of the canvas' frame
 * @returns whether any chip was drawn
 */
export function paintChips(canvas, { pixelRatio }, members, pictures, sheets) {
  const context = canvas.getContext("2d");
  context.setTransform(pixelRatio, 0, 0, pixelRatio, 0, 0);
  let isDrawn = false;
  for (const { i, at: [x, y], color } of members) {
    const found = pictures.isModel ? ofModel(i, pictures, sheets) : ofGround(i, pictures, sheets.loaded);
    if (!found) continue;
    const { picture, cell } = found;
    const [left, top] = [x - SIDE_PX / 2, y - SIDE_PX / 2];
    context.fillStyle = color;
    context.fillRect(left - RIM_PX, top - RIM_PX, SIDE_PX + 2 * RIM_PX, SIDE_PX + 2 * RIM_PX);
    context.drawImage(picture, cell.x, cell.y, cell.width, cell.height, left, top, SIDE_PX, SIDE_PX);
    isDrawn = true;
  }
  context.setTransform(1, 0, 0, 1, 0, 0);
  return isDrawn;
}
