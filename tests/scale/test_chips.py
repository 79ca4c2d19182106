"""Chips, shifts, and scores of a model on a cluster: those of one process."""

import pytest
from small_parts import job_of

from pu_geo.scale import chips as on_cluster
from pu_geo.scenes.chip_job import chip
from pu_geo.store import contents, store
from pu_geo.store.layout import SHARDS, Layout

FILES = ("npy", "json", "features.npy", "filters.npz")


def contents_of(layout: Layout) -> dict[str, bytes]:
    chip_set = store.call(layout, contents.chosen_chip_set)
    folder = layout.chips(chip_set).parent
    found = {ending: (folder / f"{chip_set}.{ending}").read_bytes() for ending in FILES}
    return found


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
