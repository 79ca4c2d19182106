"""What the Annotate screen relies on: operations in order, replays, undo, and the instant ranking."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from small_parts import add_chips

from pu_geo.errors import LabelError
from pu_geo.project import contents, labels, store
from pu_geo.project.layout import Layout
from pu_geo.services.annotate import labeling


def wish(number: int, building: str, label: str = "positive") -> dict[str, object]:
    return {"op": f"s-{number}", "building_id": building, "label": label}


@pytest.fixture
def with_features(project: Layout) -> Layout:
    """Chips' features in which b0 to b4 differ from the rest."""
    views = np.random.default_rng(0).normal(size=(2, 20, 8)).astype(np.float16)
    views[:, :5] += 4
    add_chips(project, [f"b{i}" for i in range(20)], size_px=64, features=views)
    return project


def test_operations_are_stored_in_order_with_undo_between_them(project: Layout) -> None:
    operations = [wish(1, "b1"), wish(2, "b2"), {"op": "s-3", "undo": True}, wish(4, "b3"), {"op": "s-5", "undo": True}]
    operations += [{"op": "s-6", "redo": True}]
    acks = labeling.apply_operations(project, operations, analyst="ann", screen="map")
    assert [ack.op for ack in acks] == [f"s-{n}" for n in range(1, 7)]
    assert labeling.current_labels(project) == {"b1": "positive", "b3": "positive"}
    again = labeling.apply_operations(project, operations, analyst="ann", screen="map")
    assert [ack.event for ack in again] == [ack.event for ack in acks]
    assert labeling.current_labels(project) == {"b1": "positive", "b3": "positive"}


def test_what_a_click_says_beside_its_label_is_stored(project: Layout) -> None:
    said = {"reason": "cloud", "damage_types": ["roof"], "comment": "x", "shown": "audit", "inclusion": 0.5, "act": None}
    operations = [{**wish(1, "b1", "not_assessable"), **said}, {**wish(2, "b2"), "reason": None, "comment": None}]
    operations += [
        {**wish(3, "b3"), "damage_types": "roof"},
        {**wish(4, "b3"), "inclusion": {}},
        {"op": "s-5", "undo": True},
    ]
    operations += [{**wish(6, "b3"), "analyst": "somebody else", "at": "2001-01-01T00:00:00Z"}]
    acks = labeling.apply_operations(project, operations, analyst="ann", screen="map")
    assert [ack.error is None for ack in acks] == [True, True, False, False, True, True]
    with store.connect(project) as db:
        found = labels.current(db)
    event = found["b1"]
    assert (event.reason, event.damage_types, event.comment, event.shown, event.inclusion) == (
        "cloud", ("roof",), "x", "audit", 0.5,
    )  # fmt: skip
    assert found.keys() == {"b1", "b3"}
    assert found["b3"].analyst == "ann"  # a browser speaks for nobody else
    assert found["b3"].at > "2002"


def test_undo_with_nothing_to_undo_is_acknowledged(project: Layout) -> None:
    ack = labeling.apply_operations(project, [{"op": "u", "undo": True}], analyst="ann", screen="map")[0]
    assert ack.error is None


def test_browser_nonsense_is_answered_not_stored(project: Layout) -> None:
    bad = [{"op": "", "building_id": "b1", "label": "positive"}, {"op": "x", "building_id": None, "label": 3}]
    acks = labeling.apply_operations(project, bad, analyst="ann", screen="map")
    assert all(ack.error for ack in acks)
    assert labeling.current_labels(project) == {}


def test_ranking_needs_chips_and_a_positive(project: Layout) -> None:
    assert labeling.rank_now(project) is None
    labeling.apply_operations(project, [wish(1, "b1")], analyst="ann", screen="map")
    assert labeling.rank_now(project) is None


def test_each_click_gives_a_new_ranking_with_lookalikes_on_top(with_features: Layout) -> None:
    labeling.apply_operations(with_features, [wish(1, "b0"), wish(2, "b1")], analyst="ann", screen="map")
    first = labeling.rank_now(with_features)
    assert first is not None
    scores = np.frombuffer(labeling.scores_for_browser(with_features, first.score_id) or b"", dtype="<f4")
    assert set(np.argsort(-scores)[:5]) == {0, 1, 2, 3, 4}
    labeling.apply_operations(with_features, [wish(3, "b2")], analyst="ann", screen="map")
    second = labeling.rank_now(with_features)
    assert second is not None
    assert second.score_id != first.score_id


def test_buildings_without_a_chip_have_no_score(with_features: Layout) -> None:
    from small_parts import square_table

    with store.connect(with_features) as db:
        contents.add_footprints(db, square_table(22))
    labeling.apply_operations(with_features, [wish(1, "b0")], analyst="ann", screen="map")
    ranking = labeling.rank_now(with_features)
    assert ranking is not None
    scores = np.frombuffer(labeling.scores_for_browser(with_features, ranking.score_id) or b"", dtype="<f4")
    assert np.isnan(scores).tolist() == [False] * 20 + [True] * 2


def test_scores_of_an_unknown_id_are_not_served(with_features: Layout, tmp_path: Path) -> None:
    for score_id in ("nothing", "live-", "live-x", "../../etc"):
        assert labeling.scores_for_browser(with_features, score_id) is None


def test_simulated_clicks_are_refused_when_there_are_too_few(project: Layout) -> None:
    with pytest.raises(LabelError, match="there are 5 unlabeled"):
        labeling.simulate(project, field="damage", values=["destroyed"], count=6, seed=0, analyst="ann")
