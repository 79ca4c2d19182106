"""Chips on a cluster: those of one process, also where scenes are resampled, moved by an alignment, or lack a part."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import rasterio
from small_parts import job_of

from pu_geo.geo.raster.mosaic import Mosaic
from pu_geo.project import alignment, contents, store
from pu_geo.project.layout import SHARDS, Layout
from pu_geo.scale import alignment as alignment_on_cluster
from pu_geo.scale import chips as on_cluster
from pu_geo.tasks.imagery.align import align
from pu_geo.tasks.imagery.chip import chip, prepare

FILES = ("npy", "json", "features.npy", "filters.npz")


def contents_of(layout: Layout) -> dict[str, bytes]:
    chip_set = store.call(layout, contents.chosen_chip_set)
    folder = layout.chips(chip_set).parent
    found = {ending: (folder / f"{chip_set}.{ending}").read_bytes() for ending in FILES}
    sheets = {path.name: path.read_bytes() for path in sorted(layout.sheets(chip_set).iterdir())}
    return {**found, **sheets}


def shifts_of(layout: Layout) -> dict[str, bytes]:
    """Return what an alignment found; its file also notes when."""
    with np.load(alignment.path_of(layout)) as stored:
        return {name: stored[name].tobytes() for name in stored.files if name != "made_at"}


def test_chips_and_their_features_are_those_of_one_process(
    chipped_town: Layout, in_this_process: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(on_cluster, "ROWS", 7)
    monkeypatch.setattr(on_cluster, "STRIP_PX", 64)
    before = contents_of(chipped_town)
    chip(job_of(chipped_town, "chip"), cluster="local:2")
    assert contents_of(chipped_town) == before
    assert len([name for name in in_this_process if name.startswith("cut_part")]) > 3
    assert not (chipped_town.jobs / "chip" / SHARDS).exists()


def test_features_of_fewer_views_are_the_first_ones_of_all(chipped_town: Layout) -> None:
    """View 0 is the chip as it was cut: rankings are the same."""
    chip_set = store.call(chipped_town, contents.chosen_chip_set)
    every = np.load(chipped_town.features(chip_set))
    chip(job_of(chipped_town, "chip"), views=2)
    found = np.load(chipped_town.features(chip_set))
    np.testing.assert_array_equal(found, every[:2])
    assert len(every) == 17


@pytest.mark.slow
def test_chips_of_a_resampled_scene_are_those_of_one_process(
    town: Path, tmp_path: Path, in_this_process: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its pixels are turned and of another size, so that every window of it goes through a warp."""
    with rasterio.open(town / "pre.tif") as source:
        profile, pixels = source.profile, source.read()
        turn = rasterio.Affine.translation(-3.3, 2.7) @ rasterio.Affine.rotation(3) @ rasterio.Affine.scale(1.07)
        profile["transform"] = source.transform @ turn
        with rasterio.open(tmp_path / "turned.tif", "w", **profile) as target:
            target.write(pixels)
    layout = store.create(tmp_path / "turned.pugeo", "Town")
    scenes = {"pre": [str(tmp_path / "turned.tif")], "post": [str(town / "post.tif")]}
    prepare(job_of(layout, "prepare"), footprints=[str(town / "footprints.geojson")], **scenes)
    before = contents_of(layout)
    monkeypatch.setattr(on_cluster, "ROWS", 5)
    monkeypatch.setattr(on_cluster, "STRIP_PX", 50)
    chip(job_of(layout, "chip"), cluster="local:2")
    after = contents_of(layout)
    assert np.load(layout.chips(store.call(layout, contents.chosen_chip_set))).shape[1] == 6
    assert after == before
    assert in_this_process


def test_shifts_are_those_of_one_process(
    chipped_town: Layout, in_this_process: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(alignment_on_cluster, "STRIP_PX", 40)
    monkeypatch.setattr(Mosaic, "preferred_block_rows", 32)
    alone = align(job_of(chipped_town, "align"))
    before, boxes, true_read = shifts_of(chipped_town), set[Any](), Mosaic.read

    def read(self: Mosaic, col: int, row: int, width: int, height: int) -> Any:
        if self.within is not None:
            left, top, right, bottom = self.within
            assert left <= col < col + width <= right
            assert top <= row < row + height <= bottom
        boxes.add(self.within)
        return true_read(self, col, row, width, height)

    monkeypatch.setattr(Mosaic, "read", read)
    assert align(job_of(chipped_town, "align"), cluster="local:2") == alone
    assert shifts_of(chipped_town) == before
    boxes.discard(None)  # of the job itself, which finds the shift of the scenes
    assert len(boxes) > 3, "each worker opens the scenes of its own strip alone"
    assert len([name for name in in_this_process if name.startswith("match_part")]) > 3
    assert not (chipped_town.jobs / "align" / SHARDS).exists()
