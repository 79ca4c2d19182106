// Which of many points lie inside a line drawn by hand. Even-odd, as everywhere here.

const BANDS = 256;

/** Whether a point lies inside rings of [x, y, x, y, ...]. */
export function isInside(rings, x, y) {
  let inside = false;
  for (const ring of rings) {
    for (let k = 0, j = ring.length - 2; k < ring.length; j = k, k += 2) {
      const [xk, yk, xj, yj] = [ring[k], ring[k + 1], ring[j], ring[j + 1]];
      if (yk > y !== yj > y && x < ((xj - xk) * (y - yk)) / (yj - yk) + xk) inside = !inside;
    }
  }
  return inside;
}

/**
 * Numbers of the points inside a line, the same as `isInside` finds one by one. Its edges lie in bands of equal height, so
 * that each point is held against the few of its band only.
 * @param ring [x, y, x, y, ...]
 * @param xy of the points; one that is NaN is inside nothing
 */
export function pointsInside(ring, xy) {
  const [minX, minY, maxX, maxY] = boxOf(ring);
  const scale = BANDS / (maxY - minY || 1);
  const band = (y) => Math.max(0, Math.min(BANDS - 1, Math.floor((y - minY) * scale)));
  const edges = Array.from({ length: BANDS }, () => []);
  for (let k = 0, j = ring.length - 2; k < ring.length; j = k, k += 2) {
    const [low, high] = [band(Math.min(ring[k + 1], ring[j + 1])), band(Math.max(ring[k + 1], ring[j + 1]))];
    for (let at = low; at <= high; at++) edges[at].push(ring[k], ring[k + 1], ring[j], ring[j + 1]);
  }
  const found = [];
  for (let i = 0, k = 0; k < xy.length; i++, k += 2) {
    const [x, y] = [xy[k], xy[k + 1]];
    if (!(x >= minX && x <= maxX && y >= minY && y <= maxY)) continue;
    const near = edges[band(y)];
    let inside = false;
    for (let e = 0; e < near.length; e += 4) {
      const yk = near[e + 1];
      const yj = near[e + 3];
      if (yk > y !== yj > y && x < ((near[e + 2] - near[e]) * (y - yk)) / (yj - yk) + near[e]) inside = !inside;
    }
    if (inside) found.push(i);
  }
  return found;
}

export function boxOf(ring) {
  let [minX, minY, maxX, maxY] = [Infinity, Infinity, -Infinity, -Infinity];
  for (let k = 0; k < ring.length; k += 2) {
    if (ring[k] < minX) minX = ring[k];
    if (ring[k] > maxX) maxX = ring[k];
    if (ring[k + 1] < minY) minY = ring[k + 1];
    if (ring[k + 1] > maxY) maxY = ring[k + 1];
  }
  return [minX, minY, maxX, maxY];
}
