"""Times from counted work and a machine's speed, worked out by hand, and how they are said."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from pu_geo.methods import catalog
from pu_geo.methods.expected_time import LIKE, REFERENCE, expected_seconds, in_words, speed_from_json
from pu_geo.methods.training_size import TrainingSize

BARE = replace(
    REFERENCE, machine="here", start=2.0, steps=dict.fromkeys(REFERENCE.steps, (0.0, 0.0)),
    trained=dict.fromkeys(REFERENCE.trained, 0.0), seen=dict.fromkeys(REFERENCE.seen, 0.0),
)  # fmt: skip


def test_time_on_features_is_steps_and_chips_and_start() -> None:
    # 256 chips, 2 steps of 128 an epoch, 10 epochs: 20 steps of .5 s, 2,560 chips of .01 s, 17 views and a plain one after.
    known = replace(BARE, steps={**BARE.steps, "ncpu": (0.5, 0.01)}, seen={**BARE.seen, "features": 0.001})
    settings = catalog.settings_for("ncpu", "quick", {"epochs": 10})
    found = expected_seconds("ncpu", settings, TrainingSize(256), known)
    assert found == pytest.approx(2 + 20 * 0.5 + 2560 * 0.01 + 256 * 18 * 0.001)


def test_time_on_chips_is_views_there_and_back_and_grows_with_their_area() -> None:
    # NcPU: 2 epochs of 256 chips, two views there and back and one there; 4 epochs of pretraining, two views there and back;
    # after it each chip is looked at twice. Chips of 128 px have 4 times the area of those that were measured.
    name = "resnet18 bf16"
    known = replace(BARE, trained={**BARE.trained, name: 0.02}, seen={**BARE.seen, name: 0.005})
    settings = catalog.settings_for("ncpu", "standard", {"epochs": 2, "pretrain_epochs": 4})
    views = 256 * (2 * 2 + 4 * 2) * 0.02 + 256 * (2 + 2) * 0.005
    assert expected_seconds("ncpu", settings, TrainingSize(256), known) == pytest.approx(2 + views)
    assert expected_seconds("ncpu", settings, TrainingSize(256, size_px=128), known) == pytest.approx(2 + 4 * views)


def test_every_preset_has_a_time_that_grows_with_the_chips() -> None:
    for name, card in catalog.METHODS.items():
        for preset in card.presets:
            settings = catalog.settings_for(name, preset)
            few, many = (expected_seconds(name, settings, TrainingSize(n, 30, 30), REFERENCE) for n in (500, 50_000))
            assert REFERENCE.start < few < many


def test_every_method_without_figures_of_its_own_is_like_one_that_has_them() -> None:
    assert {LIKE.get(name, name) for name in catalog.METHODS} == set(REFERENCE.steps)


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (5.2, "about 5 s"), (0.3, "about 1 s"), (38, "about 40 s"), (57, "about 55 s"), (95, "about 100 s"), (149, "about 150 s"), (151, "about 2 min"), (600, "about 10 min"),
        (5399, "about 90 min"), (5.2 * 3600, "about 5 hours"), (26 * 86400 + 5000, "about 26 days"), (1e8, "about 1,200 days"),
    ],
)  # fmt: skip
def test_times_are_said_as_estimates(seconds: float, words: str) -> None:
    assert in_words(seconds) == words


def test_a_measurement_comes_back_from_its_file_on_the_same_machine_alone() -> None:
    text = json.dumps(replace(BARE, start=3.25).to_json())
    found = speed_from_json(json.loads(text), "here")
    assert found.start == pytest.approx(3.25)
    assert not found.is_shipped
    assert found.steps == BARE.steps
    assert speed_from_json(json.loads(text), "there") is REFERENCE
    assert REFERENCE.is_shipped


@pytest.mark.parametrize("change", [{"version": 99}, {"start": "soon"}, {"start": -1}, {"start": float("nan")}, {"seen": {}},
                                    {"steps": {name: [1] for name in REFERENCE.steps}}, {"trained": None}])  # fmt: skip
def test_a_spoiled_measurement_is_not_used(change: dict[str, object]) -> None:
    assert speed_from_json({**BARE.to_json(), **change}, "here") is REFERENCE
    for other in (None, [], "text", 3):
        assert speed_from_json(other, "here") is REFERENCE
