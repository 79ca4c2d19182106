"""The imagery at each building, encoded for the map; the shifts themselves come over a route of `pu_geo.ui.routes`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pu_geo.records import Grid
from pu_geo.services.imagery.image_quality import ImageQuality
from pu_geo.ui.components.damage_view import Details, encode_details


def encode_image_quality(quality: ImageQuality, positions: Mapping[str, int], grid: Grid) -> dict[str, Any]:
    """Write it as shortly as labels.

    Returns:
        {"reasons": {reason: positions as differences in base 36}; "candidates": the same for buildings without a reason;
        "shifts": {"v": names them, "m_per_px": [metres to the east per column, to the north per row]}, None if not aligned}
    """
    others = {building: why for building, why in quality.candidates.items() if building not in quality.reasons}
    a, _, _, _, e, _ = grid.transform
    metres = [a * grid.x_unit_m, e * grid.y_unit_m]
    return {
        "reasons": _by_reason(quality.reasons, positions),
        "candidates": _by_reason(others, positions),
        "shifts": None if quality.shifts is None else {"v": quality.shifts, "m_per_px": metres},
    }


def _by_reason(why: Mapping[str, str], positions: Mapping[str, int]) -> dict[str, str]:
    details: dict[str, Details] = {building: {"reason": reason} for building, reason in why.items()}  # type: ignore[typeddict-item]
    return encode_details(details, positions)["reason"]
