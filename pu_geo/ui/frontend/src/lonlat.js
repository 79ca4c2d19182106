// Longitude and latitude of a place on the grid, from those of a few nodes that the server projected.

/** Weights of equally spaced nodes for a place between 0 (first) and 1 (last): Lagrange's polynomial through all of them. */
function weights(n, at) {
  return Array.from({ length: n }, (_, k) => {
    let weight = 1;
    for (let j = 0; j < n; j++) if (j !== k) weight *= (at * (n - 1) - j) / (k - j);
    return weight;
  });
}

/**
 * @param nodes {n, lon, lat}: n x n nodes row by row, evenly over the grid with its borders; degrees, without a jump at 180
 * @param grid [width, height] in pixels
 * @returns [lon, lat] in degrees, or null for a project without a place on the Earth
 */
export function lonLatAt(nodes, grid, x, y) {
  if (!nodes) return null;
  const { n, lon, lat } = nodes;
  const [across, down] = [weights(n, x / grid[0]), weights(n, y / grid[1])];
  let [east, north] = [0, 0];
  for (let row = 0; row < n; row++) {
    for (let column = 0; column < n; column++) {
      const weight = down[row] * across[column];
      east += weight * lon[row * n + column];
      north += weight * lat[row * n + column];
    }
  }
  return [((((east + 180) % 360) + 360) % 360) - 180, north];
}
