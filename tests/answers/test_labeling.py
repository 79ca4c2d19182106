"""What the Annotate screen relies on: operations in order, replays, undo, the instant ranking, and who an answer is stored under."""

import getpass
import re
import shutil
import threading
from collections import OrderedDict
from datetime import datetime
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy.stats import spearmanr
from small_parts import add_chips, answer, click, op_of, small_project, square_table

from pu_geo.answers import labeling, queueing, ranking
from pu_geo.answers.labeling import choose_analyst, default_analyst
from pu_geo.errors import LabelError, ProjectError
from pu_geo.methods.catalog import load_fit, settings_for
from pu_geo.records import LabelOp
from pu_geo.store import contents, labels, store
from pu_geo.store.grades import USUAL
from pu_geo.store.layout import Layout
from pu_geo.training.data import FeatureViews, PUData
from pu_geo.training.run import Run


def op(number: int, building: str, label: str = "positive") -> LabelOp:
    return LabelOp(f"s-{number}", building, label)


@pytest.fixture
def with_features(project: Layout) -> Layout:
    """Chips' features in which b0 to b4 differ from the rest."""
    views = np.random.default_rng(0).normal(size=(2, 20, 8)).astype(np.float16)
    views[:, :5] += 4
    add_chips(project, [f"b{i}" for i in range(20)], size_px=64, features=views)
    return project


def test_a_line_of_a_stream_may_carry_all_that_an_operation_has(project: Layout) -> None:
    types = {"damage_types": ["roof", "flooded"], "absent_types": ["burned"]}
    more = {"comment": "x", "shown": "audit", "inclusion": 0.5, "act": None, "analyst": "bob", "screen": "field"}
    line = {"op": "s-1", "building_id": "b1", "label": "positive", **types, **more}
    hidden = {"op": "s-2", "building_id": "b2", "label": "not_assessable", "reason": "cloud", "act": 7}
    wrong = {**line, "op": "s-3", "absent_types": ["roof"]}
    ops = [labeling.parse_line("", one) for one in (line, hidden, wrong)]
    acks = labeling.apply_operations(project, ops, analyst="ann", screen="cli")
    assert [ack.error is None for ack in acks] == [True, True, False]
    assert "in damage_types and in absent_types" in str(acks[2].error)
    found = store.call(project, labels.current)
    for building, event in found.items():
        sent = line if building == "b1" else hidden
        wanted = {name: value for name, value in {**sent, "analyst": "ann"}.items() if name != "act"}
        stored = {name: getattr(event, name) for name in wanted}
        assert {name: list(value) if isinstance(value, tuple) else value for name, value in stored.items()} == wanted
    for no_line in ([], {"op": 1, "building_id": "b1", "label": "positive"}, {"op": "s-4", "label": "positive"}):
        with pytest.raises(LabelError, match="is not an object with the texts"):
            labeling.parse_line("x", no_line)


def test_each_click_gives_a_new_ranking_with_lookalikes_on_top_that_a_browser_gets_by_its_id(with_features: Layout) -> None:
    click(with_features, "b0", "b1")
    first = ranking.rank_now(with_features)
    body = ranking.scores_for_browser(with_features, first.score_id)
    assert set(np.argsort(-np.frombuffer(body or b"", dtype="<f4"))[:5]) == {0, 1, 2, 3, 4}
    assert "was not checked" in ranking.evidence_words(with_features)
    click(with_features, "b2", "b3", "b4")
    second = ranking.rank_now(with_features)
    assert second.score_id != first.score_id
    assert ranking.evidence_words(with_features).startswith("5 clicks held out stand")
    for score_id in ("nothing", "live-", "live-x", "../../etc"):
        assert ranking.scores_for_browser(with_features, score_id) is None


def test_few_live_scores_are_above_a_half_where_damage_is_rare(tmp_path: Path) -> None:
    """The middle building would stand at .5 without a cut, and the queue, which multiplies by scores, hardly follow them."""
    layout, draw, n = small_project(tmp_path / "town.pugeo", 600), np.random.default_rng(0), 600
    features = draw.normal(size=(3, n, 16)).astype(np.float16)
    features[:, :30, :4] += np.float16(3)
    add_chips(layout, [f"b{i}" for i in range(n)], features=np.abs(features))
    click(layout, *(f"b{i}" for i in range(10)))
    scores = ranking.scores_now(layout)
    assert (scores[10:] > 0.5).mean() < 0.15
    assert (scores[10:30] > 0.5).mean() > 0.7
    assert len(np.unique(scores[:30])) == 30


def test_it_is_the_reading_of_the_default(with_features: Layout) -> None:
    """What the default trains on the same few clicks puts the buildings in the same order, in features that are prepared before."""
    views = np.load(with_features.features("set")).astype(np.float16)
    click(with_features, "b0", "b1", "b2", "b3", "b5")
    ranking.warm_up(with_features)
    ranking.warm_up(with_features)
    found = ranking.scores_now(with_features)
    is_positive = np.isin(np.arange(20), [0, 1, 2, 3, 5])
    data = PUData(FeatureViews(views), is_positive, np.zeros(20, np.bool_))
    model = load_fit("propagation")(data, settings_for("propagation", "quick"), Run(torch.device("cpu")))
    assert spearmanr(found, model.score(views)).statistic > 0.95


def test_answers_of_the_queue_move_the_ranking_and_are_kept_from_judging(with_features: Layout) -> None:
    click(with_features, "b0", "b1", "b2", "b3")
    before = ranking.scores_now(with_features)
    answer = op_of("b19", shown="exploit")
    labeling.apply_operations(with_features, [answer], analyst="ann", screen="queue")
    after = ranking.scores_now(with_features)
    assert after[19] > before[19]
    pu = store.call(with_features, labels.pu_set)
    assert np.flatnonzero(pu.is_queued).tolist() == [19]
    labeling.apply_operations(with_features, [op_of("b5", "not_damaged")], analyst="ann", screen="map")
    assert ranking.scores_now(with_features)[5] < after[5]


def test_buildings_without_a_chip_have_no_score(with_features: Layout) -> None:
    with store.connect(with_features) as db:
        contents.add_footprints(db, square_table(22))
    click(with_features, "b0")
    found = ranking.rank_now(with_features)
    scores = np.frombuffer(ranking.scores_for_browser(with_features, found.score_id) or b"", dtype="<f4")
    assert np.isnan(scores).tolist() == [False] * 20 + [True] * 2


def test_details_of_answers_are_read_once_and_follow_each_new_event(
    project: Layout, monkeypatch: pytest.MonkeyPatch
) -> None:
    def by() -> dict[str, object]:
        return {building: one["by"] for building, one in labeling.label_details(project).items()}

    click(project, "b1", grade="minor")
    assert by() == {"b1": "ann"}
    with monkeypatch.context() as patch:
        patch.setattr(labels, "event_of", lambda *_: pytest.fail("read again though nothing was stored"))
        assert by() == {"b1": "ann"}
    click(project, "b1", "b2", analyst="bob")
    assert by() == {"b1": "bob", "b2": "bob"}
    answer(project, LabelOp("u-1", step="undo"), analyst="bob")
    assert by() == {"b1": "bob"}


def test_types_and_grades_of_clicks_are_offered(project: Layout) -> None:
    click(project, "b1", grade="minor", damage_types=["tarp", "roof"], absent_types=["mud"])
    assert labeling.damage_types(project) == [*labeling.USUAL_TYPES, "mud", "tarp"]
    labeling.choose_grades(project, USUAL[:2])
    assert [(one["id"], one["name"], one["offered"]) for one in labeling.grades_for_browser(project)] == [
        ("destroyed", "Destroyed", True), ("major", "Major", True), ("minor", "Minor", False),
    ]  # fmt: skip


def test_a_page_does_not_wait_for_the_first_ranking(with_features: Layout, monkeypatch: pytest.MonkeyPatch) -> None:
    may_end, prepare = threading.Event(), ranking._prepare
    monkeypatch.setattr(ranking, "_prepare", lambda *known: may_end.wait(30) and prepare(*known))
    assert not ranking.is_ranking(with_features, 0)  # there is nothing to rank by
    click(with_features, "b0", "b1")
    try:
        assert ranking.is_ranking(with_features, 0)
        assert ranking.is_ranking(with_features, 0)  # the same one goes on
        assert queueing.stored(with_features, "ann") is None
    finally:
        may_end.set()
    assert not ranking.is_ranking(with_features, 30)
    queue = queueing.current(with_features, "ann")
    assert queueing.stored(with_features, "ann") == queue
    assert not ranking.is_ranking(with_features, 0)


def test_features_that_cannot_be_ranked_do_not_keep_a_page_waiting(
    with_features: Layout, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ranking, "_warming", {})  # as a server that has just started
    monkeypatch.setattr(ranking, "_kept", OrderedDict())
    monkeypatch.setattr(ranking, "MOST_WAITED_FOR", 19)
    features = np.load(with_features.features("set"))
    features[0, 3, 0] = np.nan
    np.save(with_features.features("set"), features)
    click(with_features, "b0", "b1")
    ranking.warm_up(with_features)
    for thread in list(ranking._warming.values()):
        thread.join(30)
    assert not ranking.is_ranking(with_features, 0)
    with pytest.raises(ProjectError, match="not all finite"):
        ranking.rank_now(with_features)


def test_simulated_clicks_are_drawn_by_a_seed_and_refused_when_there_are_too_few(project: Layout) -> None:
    simulate = partial(labeling.simulate, project, field="damage", values=["destroyed"], seed=0, analyst="ann")
    with pytest.raises(LabelError, match="5 of them are not reviewed yet"):
        simulate(count=6)
    with pytest.raises(LabelError, match="No footprint has the attribute 'fate'; they have: damage, name"):
        simulate(count=1, field="fate")
    with pytest.raises(LabelError, match="Nothing says which values"):
        simulate(count=1, values=[])
    assert simulate(count=2) == {"stored": 2, "positives": 2}
    first = set(labeling.current_labels(project))
    assert first < {"b0", "b4", "b8", "b12", "b16"}, "every fourth is destroyed"
    assert simulate(count=3, grade="Major") == {"stored": 3, "positives": 5}
    assert sorted(labeling.graded(project).values()) == ["", "", "Major", "Major", "Major"]
    other = partial(labeling.simulate, project, field="damage", values=["no-damage"], analyst="ann", label="not_damaged")
    assert other(count=15, seed=0) == {"stored": 15, "positives": 5}


def test_a_team_has_its_analysts_their_last_answers_and_where_they_differ(project: Layout) -> None:
    assert labeling.team(project).agreement is None
    click(project, "b0", "b1", "b2")
    click(project, "b0", label="not_damaged", analyst="bob")
    click(project, "b1", analyst="bob")
    found = labeling.team(project)
    assert [(row["analyst"], row["labels"]) for row in found.rows] == [("ann", 3), ("bob", 2)]
    assert all(datetime.fromisoformat(str(row["last"])).tzinfo is not None for row in found.rows)
    assert found.conflicts == {"b0": "ann: damaged, bob: not damaged"}
    assert (found.n_shared, found.agreement) == (2, 0.5)


def test_marking_many_damaged_keeps_types_and_grades_that_stand_but_for_those_of_an_audit(project: Layout) -> None:
    label_all = partial(labeling.label_all, project, ["b0", "b1", "b2"], analyst="bob", screen="explore")
    first = {"damage_types": ["roof"], "absent_types": ["burned"], "grade": "major"}
    assert labeling.label_all(project, ["b0"], "positive", analyst="ann", screen="map", **first) == 1
    audit = LabelOp("drawn", "b1", "positive", damage_types=["walls"], shown="audit", inclusion=0.5)
    labeling.apply_operations(project, [audit], analyst="ann", screen="queue")

    def standing() -> list[tuple[object, ...]]:
        found = labeling.label_details(project)
        return [tuple(found[b][name] for name in ("damage_types", "absent_types", "grade")) for b in ("b0", "b1", "b2")]

    assert label_all("positive") == 3
    assert standing() == [(["roof"], ["burned"], "major"), ([], [], ""), ([], [], "")]
    assert labeling.graded(project) == {"b0": "Major", "b1": "", "b2": ""}
    label_all("positive", damage_types=["flooded"])
    assert standing() == [(["flooded"], ["burned"], "major"), (["flooded"], [], ""), (["flooded"], [], "")]
    label_all("positive", grade="")  # asked for
    assert standing() == [(["flooded"], ["burned"], ""), *[(["flooded"], [], "")] * 2]
    label_all("positive", grade="minor")
    label_all("not_damaged")
    label_all("positive")
    assert standing() == [([], [], "")] * 3
    with pytest.raises(ProjectError, match="1 of 4 buildings were not labeled"):
        labeling.label_all(project, ["b0", "b1", "b2", "nobody"], "positive", analyst="bob", screen="explore")


@pytest.fixture(autouse=True)
def nobody_named(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PU_GEO_ANALYST", raising=False)


@pytest.mark.parametrize("content", [None, b"\n", b"\xff\xfe", b"a\nb", b"x" * 201])
def test_a_pseudonym_is_made_up_once_and_stays_and_a_file_that_holds_none_is_written_anew(
    home: Path, content: bytes | None
) -> None:
    if content:
        home.mkdir(parents=True, exist_ok=True)
        (home / "analyst.txt").write_bytes(content)
    name = default_analyst()
    assert re.fullmatch(r"analyst-[a-z2-9]{4}", name)
    assert getpass.getuser() not in name
    assert default_analyst() == name
    assert (home / "analyst.txt").read_text() == f"{name}\n"


def test_a_name_that_a_person_chose_counts_until_they_choose_none(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    choose_analyst(" Zoë ")
    assert default_analyst() == "Zoë"
    monkeypatch.setenv("PU_GEO_ANALYST", "ann")
    assert default_analyst() == "ann"
    monkeypatch.delenv("PU_GEO_ANALYST")
    assert not choose_analyst("bob"), "another browser of this server"
    assert default_analyst() == "Zoë"
    assert choose_analyst("Zoe", again=True)
    assert default_analyst() == "Zoe"
    choose_analyst("", again=True)
    assert default_analyst().startswith("analyst-")


def test_where_nothing_can_be_kept_the_name_is_still_none_of_the_machine(home: Path) -> None:
    shutil.rmtree(home)
    home.write_text("a file, not a folder")
    assert default_analyst() == "analyst"
