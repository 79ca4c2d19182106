"""What the map is told of the imagery is short."""

from __future__ import annotations

import pytest
from small_parts import small_grid

from pu_geo.services.imagery.image_quality import ImageQuality
from pu_geo.ui.components.project_view import encode_image_quality


def test_reasons_and_other_candidates_are_written_as_places() -> None:
    reasons = {"a": "cloud", "b": "nodata", "c": "cloud", "not on the map": "cloud"}
    seen = ImageQuality(reasons, {**reasons, "d": "misaligned"}, "7")
    encoded = encode_image_quality(seen, {"a": 3, "b": 4, "c": 40, "d": 0}, small_grid())
    assert encoded["reasons"] == {"cloud": "3 11", "nodata": "4"}
    assert encoded["candidates"] == {"misaligned": "0"}  # a reason is the likeliest one anyway
    assert encoded["shifts"] == {"v": "7", "m_per_px": [pytest.approx(0.5), pytest.approx(-0.5)]}
    assert encode_image_quality(ImageQuality({}, {}, None), {"a": 0}, small_grid())["shifts"] is None
