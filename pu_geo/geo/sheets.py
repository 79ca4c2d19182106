"""Chip sheets: chips side by side in JPEG pictures, so that a browser loads 64 of them at once."""

from __future__ import annotations

from pathlib import Path

import cv2
import numpy as np
from numpy.typing import NDArray

from pu_geo.files import make_folder, write_file
from pu_geo.geo.raster.mosaic import Report

Chips = NDArray[np.uint8]
PER_SHEET, COLUMNS, QUALITY = 64, 8, 88


def write_chip_sheets(chips: Chips, folder: Path, report: Report | None = None) -> dict[str, int | bool]:
    """Write chips as sheets `0000.jpg`, `0001.jpg`, ...; chip i is cell i % 64 of sheet i // 64, row by row.

    Args:
        chips: uint8 [N, 3 or 6, size, size]; of 6 bands the first 3 are pre and are drawn above the post ones.
        report: called with {"stage": "sheets", "done", "total"}.

    Returns:
        {"per_sheet", "columns", "cell_w", "cell_h", "n", "n_sheets", "has_pre"}, cell sizes in pixels.
    """
    make_folder(folder)
    n, bands, size, _ = chips.shape
    n_sheets = -(-n // PER_SHEET)
    for sheet in range(n_sheets):
        part = np.asarray(chips[sheet * PER_SHEET : (sheet + 1) * PER_SHEET])
        write_jpeg(folder / f"{sheet:04d}.jpg", _sheet(part), QUALITY)
        if report is not None:
            report({"stage": "sheets", "done": sheet + 1, "total": n_sheets})
    return {
        "per_sheet": PER_SHEET,
        "columns": COLUMNS,
        "cell_w": size,
        "cell_h": size * bands // 3,
        "n": n,
        "n_sheets": n_sheets,
        "has_pre": bands == 6,
    }


def _sheet(chips: Chips) -> Chips:
    """Lay chips [M, B, size, size] out as one picture, uint8 [rows * cell_h, columns * cell_w, 3]; empty cells are black."""
    m, bands, size, _ = chips.shape
    rows, cell_h = -(-PER_SHEET // COLUMNS), size * bands // 3
    cells = np.zeros((rows * COLUMNS, cell_h, size, 3), dtype=np.uint8)
    stacked = chips.reshape(m, bands // 3, 3, size, size).transpose(0, 1, 3, 4, 2)
    cells[:m] = stacked.reshape(m, cell_h, size, 3)
    lined = cells.reshape(rows, COLUMNS, cell_h, size, 3).transpose(0, 2, 1, 3, 4)
    return np.ascontiguousarray(lined.reshape(rows * cell_h, COLUMNS * size, 3))


def write_jpeg(path: Path, picture: Chips, quality: int) -> None:
    """Write an RGB picture, uint8 [H, W, 3], or a gray one, uint8 [H, W, 1], as JPEG."""
    done, data = cv2.imencode(".jpg", picture[..., ::-1], [cv2.IMWRITE_JPEG_QUALITY, quality])
    if not done:
        raise ValueError(f"{path.name} could not be encoded as JPEG.")
    write_file(path, data.tobytes())
