"""Makes a project folder with as much in it as the damage view needs: tiles, footprints, chip sheets, scores."""

from __future__ import annotations

import json
from pathlib import Path

import cv2
import numpy as np

NASTY_ID = "<img src=x onerror='window.hit = 1'>"  # a footprint file may hold any text
SHEET_COLUMNS = 16
SHEET_ROWS = 8


def make_project(folder: Path, *, n: int, side: int, chip_px: int = 64, seed: int = 0) -> Path:
    """Draw `n` houses on a grid of `side` pixels, about a sixth of them damaged in the post picture."""
    rng = np.random.default_rng(seed)
    boxes, angles = _houses(rng, n, side)
    damaged = rng.random(n) < 0.16
    pre = _ground(rng, side)
    post = np.clip(pre.astype(np.int16) + 6, 0, 255).astype(np.uint8)
    rings = [_ring(box, angle) for box, angle in zip(boxes, angles, strict=True)]
    _draw(rng, pre, post, rings, damaged)
    max_zoom = int(np.ceil(np.log2(max(side, 256) / 256)))
    for name, picture in (("pre", pre), ("post", post)):
        _pyramid(folder / "quicklooks" / name, picture, max_zoom)
    ids = [f"b{i:05d}" for i in range(n)]
    ids[n // 2] = NASTY_ID
    shapes = [[np.round(ring, 1).ravel().tolist()] for ring in rings]
    (folder / "quicklooks" / "footprints.json").write_text(json.dumps({"ids": ids, "rings": shapes}))
    n_sheets = _sheets(folder / "chips" / "main.sheets", pre, post, rings, chip_px)
    np.save(folder / "scores.npy", np.clip(damaged * 0.55 + rng.beta(2, 4, n) * 0.6, 0, 1).astype(np.float32))
    wall = {
        "chip_set": "main", "per_sheet": SHEET_COLUMNS * SHEET_ROWS, "columns": SHEET_COLUMNS,
        "cell_w": chip_px, "cell_h": 2 * chip_px, "n": n, "n_sheets": n_sheets, "has_pre": True, "v": "1",
    }  # fmt: skip
    (folder / "facts.json").write_text(json.dumps({"grid": [side, side], "max_zoom": max_zoom, "wall": wall}))
    return folder


def _houses(rng: np.random.Generator, n: int, side: int) -> tuple[np.ndarray, np.ndarray]:
    columns = int(np.ceil(np.sqrt(n)))
    pitch = side / columns
    spots = np.stack(np.meshgrid(np.arange(columns), np.arange(columns)), -1).reshape(-1, 2)[:n]
    centers = (spots + 0.5 + rng.uniform(-0.1, 0.1, (n, 2))) * pitch
    sizes = rng.uniform(0.3, 0.62, (n, 2)) * pitch
    return np.hstack([centers, sizes]), rng.normal(0.25, 0.1, n)


def _ring(box: np.ndarray, angle: float) -> np.ndarray:
    x, y, w, h = box
    corners = np.array([[-w, -h], [w, -h], [w, h], [-w, h]]) / 2
    turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    return corners @ turn.T + [x, y]


def _ground(rng: np.random.Generator, side: int) -> np.ndarray:
    coarse = rng.uniform(0.75, 1.1, (24, 24)).astype(np.float32)
    shade = cv2.resize(coarse, (side, side), interpolation=cv2.INTER_CUBIC)
    grain = rng.integers(-9, 10, (side, side), dtype=np.int16)
    ground = shade[..., None] * np.array([92, 116, 104], np.float32) + grain[..., None]
    return np.clip(ground, 0, 255).astype(np.uint8)


def _draw(rng: np.random.Generator, pre: np.ndarray, post: np.ndarray, rings: list, damaged: np.ndarray) -> None:
    roofs = np.array([[70, 80, 160], [150, 150, 155], [95, 110, 140], [185, 190, 195]])
    for ring, broken in zip(rings, damaged, strict=True):
        roof = (roofs[rng.integers(4)] + rng.integers(-18, 18, 3)).tolist()
        polygon = np.round(ring).astype(np.int32)
        for picture in (pre, post):
            cv2.fillPoly(picture, [polygon + 2], (45, 50, 48))
            cv2.fillPoly(picture, [polygon], roof)
        cv2.line(pre, polygon[0].tolist(), polygon[1].tolist(), (220, 220, 220), 1)
        if broken:
            cv2.fillPoly(post, [polygon], (96, 108, 118))
            size = float(np.ptp(ring, axis=0).mean())
            for spot in rng.normal(ring.mean(0), size / 4, (14, 2)).astype(int):
                cv2.circle(post, spot.tolist(), max(1, int(size / 14)), rng.integers(50, 210, 3).tolist(), -1)


def _pyramid(folder: Path, picture: np.ndarray, max_zoom: int) -> None:
    full = 256 * 2**max_zoom
    level = cv2.copyMakeBorder(picture, 0, full - picture.shape[0], 0, full - picture.shape[1], cv2.BORDER_CONSTANT)
    for z in range(max_zoom, -1, -1):
        for x in range(2**z):
            (folder / str(z) / str(x)).mkdir(parents=True, exist_ok=True)
            for y in range(2**z):
                tile = level[256 * y : 256 * y + 256, 256 * x : 256 * x + 256]
                cv2.imwrite(str(folder / str(z) / str(x) / f"{y}.jpg"), tile, [cv2.IMWRITE_JPEG_QUALITY, 82])
        level = cv2.resize(level, (level.shape[1] // 2, level.shape[0] // 2), interpolation=cv2.INTER_AREA)


def _sheets(folder: Path, pre: np.ndarray, post: np.ndarray, rings: list, chip_px: int) -> int:
    folder.mkdir(parents=True)
    per_sheet = SHEET_COLUMNS * SHEET_ROWS
    for number, first in enumerate(range(0, len(rings), per_sheet)):
        members = rings[first : first + per_sheet]
        rows = -(-len(members) // SHEET_COLUMNS)
        sheet = np.zeros((rows * 2 * chip_px, SHEET_COLUMNS * chip_px, 3), np.uint8)
        for at, ring in enumerate(members):
            row, column = divmod(at, SHEET_COLUMNS)
            half = np.ptp(ring, axis=0).max()
            for part, picture in enumerate((pre, post)):
                chip = cv2.getRectSubPix(picture, (int(2 * half), int(2 * half)), ring.mean(0).astype(np.float32).tolist())
                top = row * 2 * chip_px + part * chip_px
                sheet[top : top + chip_px, column * chip_px : (column + 1) * chip_px] = cv2.resize(chip, (chip_px, chip_px))
        cv2.imwrite(str(folder / f"{number:04d}.jpg"), sheet, [cv2.IMWRITE_JPEG_QUALITY, 85])
    return -(-len(rings) // per_sheet)
