"""Damaged files of every format end in success or in one clear refusal: made ones, and odd ones of other projects."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from small_parts import mostly_long

from benchmarks import fuzz
from pu_geo.errors import FootprintError, ImageryError
from pu_geo.geo import child_process
from pu_geo.geo.readers import in_child

QUICK = (fuzz.IN_PROCESS, 30), (fuzz.IN_CHILD, 3)


@pytest.fixture(scope="module")
def goods(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    return fuzz.write_good_files(tmp_path_factory.mktemp("good"))


@pytest.mark.slow
def test_the_undamaged_files_can_all_be_read(goods: list[Path]) -> None:
    assert {path.name: fuzz.outcome(path) for path in goods} == {path.name: "read" for path in goods}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("suffixes", "n"),
    mostly_long([(fuzz.IN_PROCESS, 30), (fuzz.IN_CHILD, 3), (fuzz.IN_PROCESS, 180), (fuzz.IN_CHILD, 15)], *QUICK),
)
def test_damaged_files_are_read_or_refused(goods: list[Path], tmp_path: Path, suffixes: tuple[str, ...], n: int) -> None:
    chosen = [path for path in goods if path.suffix in suffixes]
    ends, wrong = fuzz.fuzz(chosen, tmp_path, lambda number: number < n, np.random.default_rng(5))
    assert wrong == []
    assert sum(ends.values()) == n
    assert sum(times for end, times in ends.items() if end.endswith(": read")) <= 0.8 * n  # damage is noticed


def test_an_exception_of_another_kind_is_found(goods: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def explode(*_: object) -> None:
        raise OverflowError("not a refusal")

    monkeypatch.setattr(fuzz, "describe_footprints", explode)
    chosen = [path for path in goods if path.suffix == ".geojson"]
    _, wrong = fuzz.fuzz(chosen, tmp_path, lambda number: number < 2, np.random.default_rng(5))
    assert len(wrong) == 2
    assert "OverflowError" in wrong[0]


def test_a_child_that_cannot_even_start_ends_in_a_refusal(goods: list[Path], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(child_process, "_SETTINGS", {"PYTHONMALLOC": "no such allocator"})
    with pytest.raises(FootprintError, match=r"a\.fgb .* damaged"):
        in_child.describe_footprints(next(path for path in goods if path.suffix == ".fgb"))
    with pytest.raises(ImageryError, match=r"plain\.tif .* damaged"):
        in_child.describe(next(path for path in goods if path.name == "plain.tif"), "post", "a")
