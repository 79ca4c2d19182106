"""The review queue: what comes first, what was reviewed stays away, and a review can be taken back."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import shapely
from clustered_parts import RUN, explored_project
from model_parts import job_of
from small_parts import add_run, click, table_of
from type_parts import name_types

from pu_geo.answers import labeling
from pu_geo.assessment import auditing
from pu_geo.errors import JobCancelled, ProjectError
from pu_geo.explore import clusters, coloring, neighbors, outliers
from pu_geo.explore.outliers import Suspect
from pu_geo.explore.outliers_job import find_outliers
from pu_geo.lifecycle.copying import copy_project
from pu_geo.records import LabelOp
from pu_geo.runs import comparing
from pu_geo.store import contents, decisions, labels, store
from pu_geo.store.layout import Layout, write_array, write_json
from pu_geo.ui.components.damage_view import Encoded, labels_once


@pytest.fixture
def explored(tmp_path: Path) -> Layout:
    return explored_project(tmp_path, n_positive=18)


def test_a_wrong_click_comes_first_and_does_not_come_back(explored: Layout) -> None:
    click(explored, "b1", analyst="bob")
    (found,) = outliers.queue(explored, RUN)  # the right clicks are not doubted
    assert (found.why, found.building_ids) == ("wrong click", ("b1",))
    assert found.doubt > 0.5
    for answer, label in ((None, "positive"), ("cleared", None), ("not_damaged", "not_damaged")):
        outliers.review(explored, found, answer, analyst="ann")
        assert labeling.current_labels(explored).get("b1") == label
        assert outliers.queue(explored, RUN) == []
        if answer is None:
            assert outliers.queue(explored, RUN, again=True) == [found]
        outliers.undo(explored, analyst="ann")
        assert labeling.current_labels(explored)["b1"] == "positive"
        assert outliers.queue(explored, RUN) == [found]


def test_a_review_as_damaged_keeps_the_grade_and_undo_gives_back_the_whole_answer(explored: Layout) -> None:
    click(explored, "b1", analyst="bob", grade="major", damage_types=("roof",), comment="gable gone")
    outliers.review(explored, Suspect("duplicate", ("b1", "b2"), "", 0.5), "positive", analyst="ann")
    found = labeling.graded(explored)
    assert (found["b1"], found["b2"]) == ("Major", "")
    assert outliers.undo(explored, analyst="ann") == ["b1", "b2"]
    outliers.review(explored, Suspect("isolated", ("b1",), "", 1), "not_damaged", analyst="ann")
    assert outliers.undo(explored, analyst="ann") == ["b1"]
    now = store.call(explored, labels.current)["b1"]
    assert (now.label, now.damage_types, now.comment, now.analyst) == ("positive", ("roof",), "gable gone", "bob")
    assert outliers.undo(explored, analyst="ann") == ()


@pytest.mark.parametrize("n_positive", [5, 6, 12])  # of five it cannot be told
def test_right_clicks_are_not_called_wrong(tmp_path: Path, n_positive: int) -> None:
    assert outliers.queue(explored_project(tmp_path, n_positive=n_positive), RUN) == []


def test_undo_takes_back_nothing_of_others(explored: Layout) -> None:
    suspect = Suspect("isolated", ("b1",), "", 1)
    outliers.review(explored, suspect, "not_damaged", analyst="ann")
    assert outliers.undo(explored, analyst="cat") == ()
    click(explored, "b1", label="not_assessable", analyst="bob")
    with pytest.raises(ProjectError, match="'b1' was answered again since, by bob"):
        outliers.undo(explored, analyst="ann")
    assert labeling.current_labels(explored)["b1"] == "not_assessable"
    with store.connect(explored) as db:
        assert suspect.key in decisions.standing(db, outliers.KIND)


def test_a_review_whose_label_was_undone_elsewhere_comes_back(explored: Layout) -> None:
    click(explored, "b1", analyst="bob")
    first = outliers.queue(explored, RUN)[0]
    outliers.review(explored, first, "not_damaged", analyst="ann")
    labeling.apply_operations(explored, [LabelOp("z", step="undo")], analyst="ann", screen="map")
    assert outliers.queue(explored, RUN)[0] == first
    assert outliers.undo(explored, analyst="ann") == ()
    labeling.apply_operations(explored, [LabelOp("y", step="redo")], analyst="ann", screen="map")
    assert first.key not in {each.key for each in outliers.queue(explored, RUN)}


def test_the_job_finds_lonely_chips_and_buildings_that_are_there_twice(explored: Layout) -> None:
    rows = np.array(np.load(explored.run(RUN) / "embeddings.npy"))
    rows[7], rows[20] = np.eye(rows.shape[1])[-1], rows[24]
    write_array(explored.run(RUN) / "embeddings.npy", rows)
    chips = np.array(np.load(explored.chips("set")))
    chips[20] = np.clip(chips[24].astype(int) + 1, 0, 255)
    write_array(explored.chips("set"), chips)
    stopped = job_of(explored, "stopped")
    (stopped.folder / "cancel").touch()
    with pytest.raises(JobCancelled):
        find_outliers(stopped, run_id=RUN)
    assert not outliers.is_searched(explored, RUN)
    done = find_outliers(job_of(explored, "outliers"), run_id="latest")
    assert done == {"run_id": RUN, "n_isolated": 1, "n_duplicates": 1}
    assert outliers.is_searched(explored, RUN)
    twice, lonely = outliers.queue(explored, RUN)[-2:]
    assert (twice.why, twice.building_ids) == ("duplicate", ("b20", "b24"))
    assert "gray levels" in twice.words
    assert (lonely.why, lonely.building_ids) == ("isolated", ("b7",))


def test_overlapping_outlines_are_one_building(explored: Layout) -> None:
    with store.connect(explored) as db:
        contents.add_footprints(db, table_of([shapely.box(500_001, 4_000_000, 500_009, 4_000_008)], ["twin"]))
    path = explored.run(RUN) / "building_ids.json"
    path.write_text(path.read_text().replace('"b79"', '"twin"'))
    find_outliers(job_of(explored, "outliers"), run_id=RUN)
    (twice,) = [each for each in outliers.queue(explored, RUN) if each.why == "duplicate"]
    assert set(twice.building_ids) == {"b0", "twin"}
    assert twice.doubt == pytest.approx(7 / 8, abs=1e-3)


def test_buildings_without_a_picture_are_neither_lonely_nor_twice(explored: Layout) -> None:
    blank, unclear, seen = ["b1", "b5", "b9"], ["b13", "b17"], ["b20", "b24"]
    rows, chips = np.array(np.load(explored.run(RUN) / "embeddings.npy")), np.array(np.load(explored.chips("set")))
    for group in (blank, unclear, seen):
        at = [int(building[1:]) for building in group]
        rows[at], chips[at] = rows[at[0]], chips[at[0]]
    rows[7] = np.eye(rows.shape[1])[-1]
    write_array(explored.run(RUN) / "embeddings.npy", rows)
    write_array(explored.chips("set"), chips)
    facts = json.loads(explored.chip_facts("set").read_text())
    facts["nodata_share"] = [float(building in {*blank, "b7"}) for building in facts["building_ids"]]
    write_json(explored.chip_facts("set"), facts)
    for building in unclear:
        click(explored, building, label="not_assessable", analyst="bob")
    done = find_outliers(job_of(explored, "outliers"), run_id=RUN)
    assert (done["n_isolated"], done["n_duplicates"]) == (0, 1)
    assert outliers.queue(explored, RUN)[-1].building_ids == ("b20", "b24")


# A copy that takes the place of the project while the server runs


def sent_labels(layout: Layout) -> Encoded:
    places = {f"b{i}": i for i in range(80)}
    return labels_once(
        "token", "v", labeling.moment(layout, labeling.newest_event(layout)), labeling.current_labels(layout), dict, places
    )


@pytest.mark.parametrize(
    "ask",
    [
        lambda layout: auditing.how_many(layout).words,
        lambda layout: comparing.compare(layout, RUN, "other-1").clicks.is_unlabeled.tolist(),
        lambda layout: {one.building_id: one.label for one in neighbors.like(layout, RUN, ["b0"], count=79)},
        lambda layout: [one.n_positive for one in clusters.inspect(layout, RUN, "two").clusters],
        lambda layout: [one.building_ids for one in outliers.queue(layout, RUN)],
        lambda layout: str(coloring.coloring(layout, RUN, "type").values.tolist()),
        lambda layout: sent_labels(layout)[0],
    ],
    ids=["how many", "comparison", "neighbors", "clusters", "outliers", "types", "labels of the map"],
)
def test_answers_of_the_former_are_not_shown_of_the_copy(
    ask: Callable[[Layout], object], explored: Layout, tmp_path: Path
) -> None:
    here = explored
    add_run(here, "other-1", like=RUN, scores=np.linspace(0, 1, 80))
    name_types(here, Burnt=["b1", "b2"])
    copy_project(here, str(tmp_path / "copy.pugeo"))
    copy = Layout(tmp_path / "copy.pugeo")
    click(here, "b1", "b2", "b3")
    click(copy, "b1", "b2", "b3", label="not_damaged")
    former = ask(here)
    wanted = ask(copy)
    here.folder.rename(tmp_path / "former.pugeo")
    copy.folder.rename(here.folder)
    assert former != wanted
    assert ask(here) == wanted
