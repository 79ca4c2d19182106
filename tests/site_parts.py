"""Places that lie far apart, drawn very small: towns of the sample event's kind, each in a UTM zone of its own."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from unittest.mock import patch

from small_parts import REPOSITORY, job_of

from pu_geo.scenes.chip_job import prepare
from pu_geo.store import store
from pu_geo.store.layout import Layout

PLACES = {"east": ("EPSG:32616", (300_000.0, 3_900_000.0)), "west": ("EPSG:32615", (372_000.0, 4_100_000.0))}


def draw_place(folder: Path, name: str, *, size_px: tuple[int, int] = (320, 256), n_buildings: int = 40) -> Path:
    """Write the scenes and footprints of a place into a folder of its name, and return it."""
    crs, origin = PLACES[name]
    sys.path.insert(0, str(REPOSITORY / "sample_data"))
    try:
        import make_sample
    finally:
        sys.path.pop(0)
    with patch.multiple(make_sample, CRS=crs, ORIGIN=origin):
        make_sample.make_sample(folder / name, seed=list(PLACES).index(name), size_px=size_px, n_buildings=n_buildings)
    return folder / name


def prepared_places(folder: Path, places: Sequence[Path], **options: Any) -> Layout:
    """Make a project of the scenes of some places, with chips and features."""
    layout = store.create(folder, "Event")
    files = {role: [str(place / f"{role}.tif") for place in places] for role in ("pre", "post")}
    footprints = [str(place / "footprints.geojson") for place in places]
    prepare(job_of(layout, "prepare"), **files, footprints=footprints, **options)
    return layout
