"""The history of a building: its answers, its score in each run, and the chips most like it."""

from __future__ import annotations

import threading

import numpy as np
import pytest
from mapped_parts import RUN, N
from small_parts import click

from pu_geo.project import labels, rounds, runs, store
from pu_geo.project.layout import Layout, write_array
from pu_geo.project.rounds import PastAnswer, Round
from pu_geo.services.annotate import ranking
from pu_geo.services.annotate.building_history import building_history
from pu_geo.services.train import run_names


@pytest.fixture
def layout(mapped: Layout) -> Layout:
    features = np.random.default_rng(0).normal(size=(1, N, 8))
    features[0, 7] = features[0, 5] + 0.01  # b7 looks like b5
    write_array(mapped.features("set"), features.astype(np.float16))
    return mapped


def test_it_has_answers_in_their_order_each_runs_score_the_chips_alike_and_the_imagery(layout: Layout) -> None:
    for building, label, analyst, details in (
        ("b5", "positive", "ann", {"grade": "minor", "damage_types": ["roof", "flooded"], "absent_types": ["burned"]}),
        ("b6", "positive", "ann", {}),
        ("b5", "not_damaged", "bob", {}),
    ):
        click(layout, building, label=label, analyst=analyst, **details)
    with store.connect(layout) as db:
        labels.undo(db, "u1", analyst="bob", screen="map")
    past = [PastAnswer(1, b, "damaged", "positive", "ann", "2026-01-01T00:00:00Z", 0.9, None, "Major") for b in ("b5", "b6")]
    rounds.write(layout, Round(2, "/elsewhere", past))
    found = building_history(layout, 5)
    assert (found["building_id"], found["attributes"]["name"]) == ("b5", "House 5")
    assert [(one["analyst"], one["label"], one["kind"]) for one in found["events"]] == [
        ("ann", "positive", "set"), ("bob", "not_damaged", "set"), ("bob", "positive", "undo"),
    ]  # fmt: skip
    for event in (found["events"][0], found["events"][2]):
        graded = [event[name] for name in ("grade", "damage_types", "absent_types")]
        assert graded == ["Minor", ["roof", "flooded"], ["burned"]]
    assert [(one["round"], one["label"], one["grade"]) for one in found["before"]] == [(1, "positive", "Major")]
    scores = np.asarray(runs.array(layout, RUN, "scores"))
    (one,) = found["runs"]
    assert one["name"] == run_names.names(layout)[RUN]
    assert one["score"] == pytest.approx(scores[5], abs=1e-4)
    assert one["rank"] == (scores > scores[5]).sum() + 1
    assert found["alike"][0] == 7
    assert 5 not in found["alike"]
    assert found["imagery"] == {"reason": "", "candidate": "", "post_hidden_share": 0.0}
    hidden = building_history(layout, 0)
    assert hidden["imagery"] == {"reason": "nodata", "candidate": "nodata", "post_hidden_share": 0.9}
    assert (hidden["events"], hidden["before"]) == ([], [])
    assert building_history(layout, -1) is building_history(layout, N) is None


def test_a_card_does_not_wait_for_the_features_of_very_many_buildings(
    layout: Layout, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ranking, "MOST_WAITED_FOR", N - 1)
    monkeypatch.setattr(ranking, "_warming", {})
    may_end, prepare = threading.Event(), ranking._prepare_plain
    monkeypatch.setattr(ranking, "_prepare_plain", lambda *known: may_end.wait(30) and prepare(*known))
    try:
        found = building_history(layout, 5)
        assert found["alike"] is None
        assert len(found["runs"]) == 1
        assert building_history(layout, 5)["alike"] is None  # the same preparation goes on
        assert len(ranking._warming) == 1
    finally:
        may_end.set()
    for thread in list(ranking._warming.values()):
        thread.join(30)
    assert building_history(layout, 5)["alike"][0] == 7
