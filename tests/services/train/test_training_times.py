"""Expected times as the Train page and the command line ask for them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from pu_geo.errors import TrainingError
from pu_geo.methods import catalog
from pu_geo.methods.expected_time import REFERENCE
from pu_geo.methods.training_size import TrainingSize
from pu_geo.project import contents, labels, store
from pu_geo.project.labels import LabelOp
from pu_geo.project.layout import Layout, write_array
from pu_geo.services.train import training_times

MINE = replace(REFERENCE, machine="here")


@pytest.fixture(autouse=True)
def own_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PU_GEO_HOME", str(tmp_path / "home"))


def test_the_amount_is_read_off_the_project(project: Layout) -> None:
    assert training_times.amount_of(project) is None
    write_array(project.chips("set"), np.zeros((20, 3, 48, 48), np.uint8))
    write_array(project.features("set"), np.zeros((5, 20, 8), np.float16))
    with store.connect(project) as db:
        contents.add_chip_set(db, "set", "post", 48, 20)
        said = ["positive"] * 4 + ["not_damaged"] * 3 + ["not_assessable"] * 2
        labels.append(db, [LabelOp(f"{i}", f"b{i}", word) for i, word in enumerate(said)], analyst="ann", screen="map")
    assert training_times.amount_of(project) == TrainingSize(20, 4, 3, 2, size_px=48, n_bands=3, n_views=5)


def test_words_say_what_for_and_on_what() -> None:
    found = training_times.expected_time("ncpu", "quick", TrainingSize(383), MINE)
    assert found.words == f"{found.short} for your 383 chips on this machine."
    assert not found.is_long
    assert training_times.expected_time("ncpu", "quick", TrainingSize(383), REFERENCE).words.endswith("on two CPU cores.")


def test_a_long_training_is_warned_of_and_sent_to_a_gpu_where_it_is_meant_for_one() -> None:
    found = training_times.expected_time("ncpu", "paper", TrainingSize(20_000), MINE)
    assert found.is_long
    assert "days" in found.short
    assert found.words.endswith("on this machine; meant for a GPU.")
    for long in (training_times.expected_time("ncpu", "paper", TrainingSize(20_000), replace(MINE, is_gpu=True)),
                 training_times.expected_time("ncpu", "quick", TrainingSize(20_000), MINE, {"epochs": "5000", "max_steps": "1e7"})):  # fmt: skip
        assert long.is_long
        assert "GPU" not in long.words


def test_a_changed_setting_changes_the_time_and_a_wrong_one_is_refused() -> None:
    times = [
        training_times.expected_time("ncpu", "quick", TrainingSize(383), MINE, {"epochs": text}).seconds
        for text in ("10", "100")
    ]
    assert times[0] < times[1]
    with pytest.raises(TrainingError):
        training_times.expected_time("ncpu", "quick", TrainingSize(383), MINE, {"epochs": "many"})


def test_usual_times_are_there_for_every_preset() -> None:
    for card in catalog.METHODS.values():
        found = training_times.usual_times(card, REFERENCE)
        assert list(found) == list(card.presets)
        assert all(tuple(times) == training_times.USUAL_SIZES for times in found.values())
        assert len(training_times.usual_words(card, REFERENCE).splitlines()) == len(card.presets)


def test_a_spoiled_file_of_speeds_counts_as_none() -> None:
    training_times.speed_file().parent.mkdir(parents=True)
    training_times.speed_file().write_text("{not json", encoding="utf-8")
    assert training_times.speed() is REFERENCE
    training_times.speed_file().write_bytes(b"\xff\xfe")
    assert training_times.speed() is REFERENCE
