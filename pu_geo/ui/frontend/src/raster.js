// A canvas as an array of pixels. 100,000 small things are written into it in milliseconds; as canvas paths they take seconds.

/** A pixel as putImageData wants it. `alpha`: 0 to 1 */
export function pixel([r, g, b], alpha = 1) {
  return ((Math.round(alpha * 255) << 24) | (b << 16) | (g << 8) | r) >>> 0;
}

/** Draw the line of a path several times, each over those before: [color, width, dashes] of each. */
export function strokes(context, ...lines) {
  for (const [color, width, dashes] of lines) {
    context.strokeStyle = color;
    context.lineWidth = width;
    if (dashes) context.setLineDash(dashes);
    context.stroke();
    if (dashes) context.setLineDash([]);
  }
}

const made = new Map();

/** What `make` returns, made once for each key. */
export function once(key, make) {
  if (made.size > 500) made.clear();
  if (!made.has(key)) made.set(key, make());
  return made.get(key);
}

/** A pattern that is drawn once. @param draw (pen) on a tile of `side` pixels */
export function patternOf(context, key, side, draw) {
  return once(`pattern ${key}`, () => {
    const tile = document.createElement("canvas");
    tile.width = tile.height = side;
    draw(tile.getContext("2d"));
    return context.createPattern(tile, "repeat");
  });
}

/** Diagonal lines on such a tile. */
export function hatch(pen, side, color, width, isBackward = false) {
  pen.beginPath();
  for (const shift of [-side, 0, side]) {
    pen.moveTo(shift - 1, isBackward ? -1 : side + 1);
    pen.lineTo(shift + side + 1, isBackward ? side + 1 : -1);
  }
  strokes(pen, [color, width]);
}

/** A filled dot as a small picture. @param dress (context, middle, circle: traces its edge) draws what is on it */
export function roundDot(side, radius, ratio, color, dress) {
  const canvas = document.createElement("canvas");
  canvas.width = canvas.height = Math.ceil(side * ratio);
  const context = canvas.getContext("2d");
  context.scale(ratio, ratio);
  const middle = canvas.width / ratio / 2;
  const circle = () => {
    context.beginPath();
    context.arc(middle, middle, radius, 0, 2 * Math.PI);
  };
  circle();
  context.fillStyle = color;
  context.fill();
  dress(context, middle, circle);
  return canvas;
}

/** A small picture as `stamp` takes it. */
export function stampOf(canvas) {
  const { data, width, height } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
  return { data: new Uint32Array(data.buffer), width, height };
}

/** Places of buildings on the canvas, [x, y], one in each cell of `sidePx` screen pixels. */
export function thinned(raster, store, numbers, sidePx) {
  const cell = sidePx * raster.ratio;
  const columns = Math.ceil(raster.width / cell);
  const taken = new Uint8Array(columns * Math.ceil(raster.height / cell));
  const places = [];
  for (const i of numbers) {
    const [gridX, gridY] = store.center(i);
    const [x, y] = [raster.x(gridX), raster.y(gridY)];
    const at = Math.floor(x / cell) + columns * Math.floor(y / cell);
    if (x < 0 || y < 0 || x >= raster.width || y >= raster.height || taken[at]) continue;
    taken[at] = 1;
    places.push([x, y]);
  }
  return places;
}

export class Raster {
  /** @param frame see `makeFrame`; the canvas has its size */
  constructor(context, frame) {
    this.context = context;
    this.width = context.canvas.width;
    this.height = context.canvas.height;
    this.image = context.createImageData(this.width, this.height);
    this.pixels = new Uint32Array(this.image.data.buffer);
    this.left = frame.box[0];
    this.top = frame.box[1];
    this.ratio = frame.pixelRatio;
    this.scale = frame.pixelRatio / frame.resolution; // canvas pixels per grid pixel
  }

  show() {
    this.context.putImageData(this.image, 0, 0);
  }

  x(gridX) {
    return (gridX - this.left) * this.scale;
  }

  y(gridY) {
    return (gridY - this.top) * this.scale;
  }

  /** A square of canvas pixels around a point. */
  block(x, y, side, color) {
    const left = Math.round(x - side / 2);
    const top = Math.round(y - side / 2);
    const [right, bottom] = [Math.min(this.width, left + side), Math.min(this.height, top + side)];
    for (let row = Math.max(0, top); row < bottom; row++) {
      for (let at = row * this.width + Math.max(0, left); at < row * this.width + right; at++) this.pixels[at] = color;
    }
  }

  /** A small picture around a point; what is half transparent in it does not cover what is there. */
  stamp(x, y, { data, width, height }) {
    const [fromX, fromY] = [Math.round(x - width / 2), Math.round(y - height / 2)];
    for (let row = Math.max(0, -fromY); row < height && fromY + row < this.height; row++) {
      for (let column = Math.max(0, -fromX); column < width && fromX + column < this.width; column++) {
        const color = data[row * width + column];
        const at = (fromY + row) * this.width + fromX + column;
        if (color >>> 24 > 127 || this.pixels[at] === 0) this.pixels[at] = color;
      }
    }
  }

  /** The lines of a building, `shift` canvas pixels to the right and down. */
  outline(rings, color, shift = 0) {
    for (const ring of rings) {
      const n = ring.length;
      let [x0, y0] = [this.x(ring[n - 2]) + shift, this.y(ring[n - 1]) + shift];
      for (let k = 0; k < n; k += 2) {
        const x1 = this.x(ring[k]) + shift;
        const y1 = this.y(ring[k + 1]) + shift;
        this.#line(x0, y0, x1, y1, color);
        x0 = x1;
        y0 = y1;
      }
    }
  }

  #line(x0, y0, x1, y1, color) {
    const { width, height, pixels } = this;
    const steps = Math.ceil(Math.max(Math.abs(x1 - x0), Math.abs(y1 - y0))) || 1;
    const thick = this.ratio > 1 ? 2 : 1;
    for (let step = 0; step < steps; step++) {
      const x = Math.floor(x0 + ((x1 - x0) * step) / steps);
      const y = Math.floor(y0 + ((y1 - y0) * step) / steps);
      if (thick > 1) this.block(x, y, thick, color);
      else if (x >= 0 && y >= 0 && x < width && y < height) pixels[y * width + x] = color;
    }
  }

  /** The inside of a building, by the even-odd rule. `stripe`: a second color in diagonal stripes; `isBackward`: they lean to the left. */
  fill(rings, [minX, minY, maxX, maxY], color, stripe = null, isBackward = false) {
    if (this.x(maxX) < 0 || this.x(minX) > this.width) return;
    const first = Math.max(0, Math.ceil(this.y(minY) - 0.5));
    const last = Math.min(this.height - 1, Math.floor(this.y(maxY) - 0.5));
    const found = [];
    for (let row = first; row <= last; row++) {
      this.#crossings(rings, (row + 0.5) / this.scale + this.top, found);
      for (let k = 0; k + 1 < found.length; k += 2) {
        const end = row * this.width + Math.min(this.width, Math.round(found[k + 1]));
        const from = row * this.width + Math.max(0, Math.round(found[k]));
        if (stripe === null) this.pixels.fill(color, from, Math.max(from, end));
        else this.#stripe(row, from, end, color, stripe, isBackward);
      }
    }
  }

  #stripe(row, from, end, color, stripe, isBackward) {
    const period = Math.round(4 * this.ratio);
    const start = row * this.width;
    for (let at = from; at < end; at++) {
      const along = isBackward ? at - start - row + period * this.height : at - start + row;
      this.pixels[at] = along % period < period / 4 ? stripe : color;
    }
  }

  #crossings(rings, gridY, found) {
    found.length = 0;
    for (const ring of rings) {
      for (let k = 0, j = ring.length - 2; k < ring.length; j = k, k += 2) {
        const yk = ring[k + 1];
        const yj = ring[j + 1];
        if (yk > gridY !== yj > gridY) found.push(this.x(ring[k] + ((ring[j] - ring[k]) * (gridY - yk)) / (yj - yk)));
      }
    }
    if (found.length === 2) {
      if (found[0] > found[1]) found.reverse();
    } else found.sort((a, b) => a - b);
  }
}
