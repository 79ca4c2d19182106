"""Draws made-up houses before and after an event: tiles and footprints, as a project folder holds them."""

import json
from pathlib import Path

import cv2
import numpy as np

NASTY_ID = "<img src=x onerror='window.hit = 1'>"  # a footprint file may hold any text
ROOFS = np.array([[70, 80, 160], [150, 150, 155], [95, 110, 140], [185, 190, 195]])


def make_project(folder: Path, *, n: int, side: int) -> Path:
    """Draw `n` houses on a grid of `side` pixels, about a sixth of them damaged in the post picture."""
    rng = np.random.default_rng(0)
    rings = _rings(rng, n, side)
    pre = rng.integers(0, 18, (side, side, 3), dtype=np.uint8) + np.array([83, 107, 95], np.uint8)
    post = pre + np.uint8(6)
    for ring in np.round(rings).astype(np.int32):
        roof = (ROOFS[rng.integers(4)] + rng.integers(-18, 18, 3)).tolist()
        for picture in (pre, post):
            cv2.fillPoly(picture, [ring + 2], (45, 50, 48))
            cv2.fillPoly(picture, [ring], roof)
        if rng.random() < 0.16:
            cv2.fillPoly(post, [ring], (96, 108, 118))
            for spot in rng.normal(ring.mean(0), np.ptp(ring, axis=0).mean() / 4, (14, 2)).astype(int):
                cv2.circle(post, spot.tolist(), 2, rng.integers(50, 210, 3).tolist(), -1)
    for name, picture in (("pre", pre), ("post", post)):
        write_pyramid(folder / "quicklooks" / name, picture)
    ids = [f"b{i:05d}" for i in range(n)]
    ids[n // 2] = NASTY_ID
    shapes = [[ring.round(1).ravel().tolist()] for ring in rings]
    (folder / "quicklooks" / "footprints.json").write_text(json.dumps({"ids": ids, "rings": shapes}))
    (folder / "facts.json").write_text(json.dumps({"grid": [side, side]}))
    return folder


def _rings(rng: np.random.Generator, n: int, side: int) -> np.ndarray:
    """Return four corners of each house, float64 [n, 4, 2] in grid pixels, a little turned."""
    columns = int(np.ceil(np.sqrt(n)))
    pitch = side / columns
    spots = np.stack(np.divmod(np.arange(n), columns)[::-1], axis=1)
    centers = (spots + 0.5 + rng.uniform(-0.1, 0.1, (n, 2))) * pitch
    corners = np.array([[-1, -1], [1, -1], [1, 1], [-1, 1]]) * (rng.uniform(0.15, 0.31, (n, 1, 2)) * pitch)
    sine, cosine = np.sin(angle := rng.normal(0.25, 0.1, n)), np.cos(angle)
    turn = np.stack([np.stack([cosine, sine], axis=1), np.stack([-sine, cosine], axis=1)], axis=1)
    return corners @ turn + centers[:, None, :]


def write_pyramid(folder: Path, picture: np.ndarray) -> None:
    max_zoom = int(np.ceil(np.log2(max(len(picture), 256) / 256)))
    missing = 256 * 2**max_zoom - len(picture)
    level = cv2.copyMakeBorder(picture, 0, missing, 0, missing, cv2.BORDER_CONSTANT)
    for z in range(max_zoom, -1, -1):
        for x in range(2**z):
            (folder / str(z) / str(x)).mkdir(parents=True, exist_ok=True)
            for y in range(2**z):
                rows, columns = (slice(256 * at, 256 * at + 256) for at in (y, x))
                cv2.imwrite(str(folder / str(z) / str(x) / f"{y}.jpg"), level[rows, columns])
        level = cv2.resize(level, (level.shape[1] // 2, level.shape[0] // 2), interpolation=cv2.INTER_AREA)
