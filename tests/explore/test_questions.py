"""The two questions: what comes first, what is left out, and that a person's confirmation counts."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from clustered_parts import RUN, explored_project, groups, looked
from small_parts import add_run, click
from type_parts import name_types

from pu_geo.answers import labeling
from pu_geo.assessment import auditing
from pu_geo.errors import ProjectError
from pu_geo.explore import coloring, questions
from pu_geo.explore import groups as clusters
from pu_geo.lifecycle.copying import copy_project
from pu_geo.records import LabelOp
from pu_geo.runs import comparing
from pu_geo.store import labels, store
from pu_geo.store.layout import Layout
from pu_geo.ui.components.damage_view import Encoded, labels_once


@pytest.fixture
def explored(tmp_path: Path) -> Layout:
    return looked(explored_project(tmp_path, n_positive=16))


def test_elsewhere_lists_what_looks_alike_and_has_no_answer(explored: Layout) -> None:
    click(explored, "b64", label="not_damaged")
    found = questions.elsewhere(explored, count=9)
    assert found.title.endswith("(16 damaged buildings)")
    assert set(found.ids[:3]) == {"b68", "b72", "b76"}, "the others of their group"
    assert " by look" in found.notes[0]
    assert " by score" in found.notes[0]
    run = questions.elsewhere(explored, ["b1", "nowhere"], run=RUN, count=200)
    assert run.title.endswith("(1 selected building)")
    assert [int(groups()[int(each[1:])]) for each in run.ids[:6]].count(1) >= 4
    assert len(run.ids) == 80 - 17 - 1, "every open one but the one that was asked about"
    assert run.ids.index("b5") < run.ids.index("b77"), "of two that look alike the one with the higher score"
    with pytest.raises(ProjectError, match="None of these buildings has a chip: nowhere"):
        questions.elsewhere(explored, ["nowhere"])


def test_a_wrong_click_comes_first_until_it_is_confirmed(explored: Layout) -> None:
    click(explored, "b1")
    assert (first := questions.wrong(explored)).ids[0] == "b1"
    assert first.notes[0] == "0 of 5 look-alikes damaged, the others not reviewed"
    click(explored, "b1", grade="major")
    assert questions.wrong(explored).ids[0] == "b1", "a grade is no second look"
    click(explored, "b1", grade="major")
    confirmed = questions.wrong(explored)
    assert (confirmed.ids[-1], confirmed.notes[-1][:14]) == ("b1", "answered twice")
    labeling.apply_operations(explored, [LabelOp("z", step="undo")], analyst="ann", screen="map")
    assert questions.wrong(explored).ids[0] == "b1"


def test_answers_not_damaged_are_checked_too(explored: Layout) -> None:
    click(explored, "b68", *(f"b{at}" for at in range(1, 40, 4)), label="not_damaged")
    found = questions.wrong(explored)
    assert found.ids[0] == "b68"
    assert found.notes[0] == "5 of 5 look-alikes damaged"


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
        lambda layout: questions.elsewhere(layout, count=80).ids,
        lambda layout: [one.n_positive for one in clusters.grouping(layout, "look").groups],
        lambda layout: questions.wrong(layout).notes,
        lambda layout: str(coloring.coloring(layout, RUN, "type").values.tolist()),
        lambda layout: sent_labels(layout)[0],
    ],
    ids=["how many", "comparison", "elsewhere", "clusters", "wrong", "types", "labels of the map"],
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


def test_given_again_knows_undo_and_changes_of_mind(explored: Layout) -> None:
    def again() -> set[str]:
        return store.call(explored, labels.given_again)

    assert again() == set()
    click(explored, "b0", "b4")
    assert again() == {"b0", "b4"}
    click(explored, "b4", label="not_damaged")
    assert again() == {"b0"}
    click(explored, "b4")
    assert again() == {"b0", "b4"}, "back to the first answer after another look"
