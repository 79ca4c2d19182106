"""A contact sheet: the chips that a model puts at the top and at the bottom, in one small picture."""

from __future__ import annotations

from importlib.util import find_spec

import numpy as np
from numpy.typing import NDArray

CHIP_PX = 64  # side of a chip in the picture; larger ones are made smaller
_GAP, _TITLE_PX = 2, 18
_INK = (60, 60, 60)


def can_draw() -> bool:
    """Return whether OpenCV is here; a machine that only trains may lack it."""
    return find_spec("cv2") is not None


def contact_sheet(top: NDArray[np.uint8], bottom: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Lay chips side by side under a title: the first ones in one row, the others below it, a pre chip above its post chip.

    Args:
        top, bottom: uint8 [M, 3 or 6, size, size], M from 0 on; of 6 bands the first 3 are pre.

    Returns:
        RGB, uint8 [H, W, 3]; white between chips.
    """
    import cv2

    rows = {title: _row(chips) for title, chips in (("highest scores", top), ("lowest scores", bottom)) if len(chips)}
    width = max((row.shape[1] for row in rows.values()), default=1)
    parts = [np.full((1, width, 3), 255, np.uint8)]
    for title, row in rows.items():
        strip = np.full((_TITLE_PX, width, 3), 255, np.uint8)
        cv2.putText(strip, title, (1, _TITLE_PX - 5), cv2.FONT_HERSHEY_SIMPLEX, 0.42, _INK, 1, cv2.LINE_AA)
        parts += [strip, np.pad(row, ((0, 0), (0, width - row.shape[1]), (0, 0)), constant_values=255)]
    return np.concatenate(parts)


def png_of(picture: NDArray[np.uint8]) -> bytes:
    """Encode RGB, uint8 [H, W, 3], as PNG. Raises ValueError if that is not possible."""
    import cv2

    done, data = cv2.imencode(".png", picture[..., ::-1])
    if not done:
        raise ValueError(f"A picture of shape {picture.shape} could not be encoded as PNG.")
    return bytes(data.tobytes())


def _row(chips: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Lay chips [M, 3 or 6, size, size] out as one row of cells, uint8 [H, W, 3]."""
    import cv2

    m, bands, size, _ = chips.shape
    dates = chips.reshape(m, bands // 3, 3, size, size).transpose(0, 1, 3, 4, 2).reshape(m, bands // 3 * size, size, 3)
    side = min(size, CHIP_PX)
    shown = [
        cv2.resize(np.ascontiguousarray(each), (side, bands // 3 * side), interpolation=cv2.INTER_AREA) for each in dates
    ]
    padded = [np.pad(each, ((0, 0), (0, _GAP), (0, 0)), constant_values=255) for each in shown]
    return np.concatenate(padded, axis=1)[:, :-_GAP].astype(np.uint8)
