"""Chips side by side in one picture: JPEG sheets for the browser, and contact sheets of a model's highest and lowest scores."""

from __future__ import annotations

from pathlib import Path

import cv2
import numpy as np
from numpy.typing import NDArray

from pu_geo.geo.chips import Report

CHIP_PX = 64
"""Side of a chip in the picture; larger ones are made smaller."""
_GAP, _TITLE_PX = 2, 18
_INK = (60, 60, 60)


def write_chip_sheets(
    chips: NDArray[np.uint8],
    folder: Path,
    per_sheet: int = 64,
    columns: int = 8,
    quality: int = 88,
    report: Report | None = None,
) -> dict[str, int | bool]:
    """Write chips as sheets `0000.jpg`, `0001.jpg`, ...; chip i is cell i % per_sheet of sheet i // per_sheet, row by row.

    Args:
        chips: uint8 [N, 3 or 6, size, size]; of 6 bands the first 3 are pre and are drawn above the post ones.
        folder: made if it is missing.
        quality: of the JPEG, 1..100.
        report: called with {"stage": "sheets", "done", "total"}.

    Returns:
        {"per_sheet", "columns", "cell_w", "cell_h", "n", "n_sheets", "has_pre"}, cell sizes in pixels.
    """
    folder.mkdir(parents=True, exist_ok=True)
    n, bands, size, _ = chips.shape
    n_sheets = -(-n // per_sheet)
    for sheet in range(n_sheets):
        part = np.asarray(chips[sheet * per_sheet : (sheet + 1) * per_sheet])
        write_jpeg(folder / f"{sheet:04d}.jpg", _sheet(part, per_sheet, columns), quality)
        if report is not None:
            report({"stage": "sheets", "done": sheet + 1, "total": n_sheets})
    return {
        "per_sheet": per_sheet,
        "columns": columns,
        "cell_w": size,
        "cell_h": size * bands // 3,
        "n": n,
        "n_sheets": n_sheets,
        "has_pre": bands == 6,
    }


def _sheet(chips: NDArray[np.uint8], per_sheet: int, columns: int) -> NDArray[np.uint8]:
    """Lay chips [M, B, size, size] out as one picture, uint8 [rows * cell_h, columns * cell_w, 3]; empty cells are black."""
    m, bands, size, _ = chips.shape
    rows, cell_h = -(-per_sheet // columns), size * bands // 3
    cells = np.zeros((rows * columns, cell_h, size, 3), dtype=np.uint8)
    stacked = chips.reshape(m, bands // 3, 3, size, size).transpose(0, 1, 3, 4, 2)
    cells[:m] = stacked.reshape(m, cell_h, size, 3)
    lined = cells.reshape(rows, columns, cell_h, size, 3).transpose(0, 2, 1, 3, 4)
    return np.ascontiguousarray(lined.reshape(rows * cell_h, columns * size, 3))


def write_jpeg(path: Path, picture: NDArray[np.uint8], quality: int) -> None:
    """Write an RGB picture, uint8 [H, W, 3], as JPEG."""
    done, data = cv2.imencode(".jpg", picture[..., ::-1], [cv2.IMWRITE_JPEG_QUALITY, quality])
    if not done:
        raise ValueError(f"{path.name} could not be encoded as JPEG.")
    path.write_bytes(data.tobytes())


# Contact sheets


def contact_sheet(top: NDArray[np.uint8], bottom: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Lay chips side by side under a title: the first ones in one row, the others below it, a pre chip above its post chip.

    Args:
        top, bottom: uint8 [M, 3 or 6, size, size], M from 0 on; of 6 bands the first 3 are pre.

    Returns:
        RGB, uint8 [H, W, 3]; white between chips.
    """
    rows = {title: _row(chips) for title, chips in (("highest scores", top), ("lowest scores", bottom)) if len(chips)}
    width = max((row.shape[1] for row in rows.values()), default=1)
    parts = [np.full((1, width, 3), 255, np.uint8)]
    for title, row in rows.items():
        parts += [_titled(title, width), np.pad(row, ((0, 0), (0, width - row.shape[1]), (0, 0)), constant_values=255)]
    return np.concatenate(parts)


def png_of(picture: NDArray[np.uint8]) -> bytes:
    """Encode RGB, uint8 [H, W, 3], as PNG.

    Raises:
        ValueError: if that is not possible.
    """
    done, data = cv2.imencode(".png", picture[..., ::-1])
    if not done:
        raise ValueError(f"A picture of shape {picture.shape} could not be encoded as PNG.")
    return bytes(data.tobytes())


def _titled(title: str, width: int) -> NDArray[np.uint8]:
    """Write a title into a white strip, uint8 [18, width, 3]."""
    strip = np.full((_TITLE_PX, width, 3), 255, np.uint8)
    cv2.putText(strip, title, (1, _TITLE_PX - 5), cv2.FONT_HERSHEY_SIMPLEX, 0.42, _INK, 1, cv2.LINE_AA)
    return strip


def _row(chips: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Lay chips [M, 3 or 6, size, size] out as one row of cells, uint8 [H, W, 3]."""
    m, bands, size, _ = chips.shape
    dates = chips.reshape(m, bands // 3, 3, size, size).transpose(0, 1, 3, 4, 2).reshape(m, bands // 3 * size, size, 3)
    side = min(size, CHIP_PX)
    shown = [
        cv2.resize(np.ascontiguousarray(each), (side, bands // 3 * side), interpolation=cv2.INTER_AREA) for each in dates
    ]
    padded = [np.pad(each, ((0, 0), (0, _GAP), (0, 0)), constant_values=255) for each in shown]
    return np.concatenate(padded, axis=1)[:, :-_GAP].astype(np.uint8)
