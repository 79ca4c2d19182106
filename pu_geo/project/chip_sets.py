"""What is known of a chip set beside its pixels, `chips/<id>.json`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from pu_geo.project.layout import Layout


def chip_facts(layout: Layout, chip_set: str) -> Mapping[str, Any]:
    """Return a chip set's facts: {"chip_set", "bands", "size_px", "building_ids", "nodata_share", "sheets", ...}."""
    path = layout.chip_facts(chip_set)
    return {"chip_set": chip_set, **_parsed(path, path.stat().st_mtime_ns)}


@lru_cache(maxsize=2)
def _parsed(path: Path, changed_ns: int) -> Mapping[str, Any]:
    """Read a JSON file once, until it changes: that of 150,000 buildings takes a quarter of a second and more."""
    facts: Mapping[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return facts
