"""Damaged files of every format end in success or in one clear refusal: made ones, and odd ones of other projects."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from small_parts import in_tiers

from benchmarks import fuzz
from pu_geo.errors import FootprintError, ImageryError
from pu_geo.geo import child_process
from pu_geo.geo.raster.guard import gdal_env, quiet_open
from pu_geo.geo.raster.mosaic import Mosaic
from pu_geo.geo.raster.placement import project_grid
from pu_geo.geo.readers import in_child
from pu_geo.geo.readers.file_kinds import scene_driver


@pytest.fixture(scope="module")
def goods(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    return fuzz.write_good_files(tmp_path_factory.mktemp("good"))


@pytest.mark.slow
def test_the_undamaged_files_can_all_be_read(goods: list[Path]) -> None:
    assert {path.name: fuzz.outcome(path) for path in goods} == {path.name: "read" for path in goods}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("suffixes", "n"),
    in_tiers(
        [(fuzz.IN_PROCESS, 30), (fuzz.IN_CHILD, 3), (fuzz.IN_PROCESS, 180), (fuzz.IN_CHILD, 15)], "fuzz",
        quick=[(fuzz.IN_PROCESS, 30), (fuzz.IN_CHILD, 3)],
    ),
)  # fmt: skip
def test_damaged_files_are_read_or_refused(goods: list[Path], tmp_path: Path, suffixes: tuple[str, ...], n: int) -> None:
    chosen = [path for path in goods if path.suffix in suffixes]
    ends, wrong = fuzz.fuzz(chosen, tmp_path, lambda number: number < n, np.random.default_rng(5))
    assert wrong == []
    assert sum(ends.values()) == n
    assert sum(times for end, times in ends.items() if end.endswith(": read")) <= 0.8 * n  # damage is noticed


@pytest.mark.slow
@pytest.mark.parametrize("n", in_tiers([30, 100], "fuzz", ci=[30]))
def test_damaged_scenes_are_described_by_the_child_or_refused_in_words(goods: list[Path], tmp_path: Path, n: int) -> None:
    """What is accepted shows what the file holds: its pixels are those that GDAL decodes, or it is refused as it is read."""
    pictures = [path for path in goods if path.suffix in (".tif", ".png", ".jpg")]
    rng, n_accepted, n_refused = np.random.default_rng(11), 0, 0
    for number in range(n):
        folder = tmp_path / str(number)
        folder.mkdir()
        case = fuzz.make_case(pictures[number % len(pictures)], folder, rng)
        try:
            scene = in_child.describe(case, "post", "fuzz")
        except ImageryError as refusal:
            n_refused += bool(refusal.problem and refusal.hint)
            continue
        n_accepted += 1
        if scene.dtype != "uint8" or scene.bands != 3:
            continue
        grid = project_grid([scene])
        try:
            with Mosaic([scene], grid) as mosaic:
                shown, valid = mosaic.read(0, 0, grid.width, grid.height)
                is_as_it_is = not mosaic._layers[0].is_warped
        except ImageryError:
            continue
        if is_as_it_is and (shown.shape[1], shown.shape[2]) == (scene.height, scene.width):
            with gdal_env(), quiet_open(case, scene_driver(case)) as source:
                assert (shown == source.read(list(scene.rgb)))[:, valid].all()
    assert n_accepted + n_refused == n
    assert min(n_accepted, n_refused) > 0


def test_a_child_that_cannot_even_start_ends_in_a_refusal(goods: list[Path], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(child_process, "_SETTINGS", {"PYTHONMALLOC": "no such allocator"})
    with pytest.raises(FootprintError, match=r"a\.fgb .* damaged"):
        in_child.describe_footprints(next(path for path in goods if path.suffix == ".fgb"))
    with pytest.raises(ImageryError, match=r"plain\.tif .* damaged"):
        in_child.describe(next(path for path in goods if path.name == "plain.tif"), "post", "a")
