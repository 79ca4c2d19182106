"""A table of one's own project: its truth becomes classes, what says nothing is left out, and nobody is told the answers."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from cli_parts import CommandLine
from small_parts import add_chips, square_table

from pu_geo.errors import DatasetError, ProjectError
from pu_geo.project import contents, store
from pu_geo.project.layout import Layout
from pu_geo.tasks.train import benchmark
from pu_geo.tasks.train.tables import project_table

N = 120
DAMAGED = np.arange(N) % 3 == 0
GRADES = [
    "unclear" if i % 20 == 19 else ("destroyed" if i % 2 else "major") if damaged else "none"
    for i, damaged in enumerate(DAMAGED)
]


@pytest.fixture
def told(tmp_path: Path) -> Layout:
    """A project of 120 buildings, a third of them damaged and brighter afterwards, with the truth as an attribute."""
    layout = store.create(tmp_path / "storm.pugeo", "storm")
    draw = np.random.default_rng(0)
    chips = draw.integers(0, 60, (N, 6, 16, 16)).astype(np.uint8)
    chips[DAMAGED, 3:] += 60
    table = replace(square_table(N), attributes=tuple({"grade": grade} for grade in GRADES))
    with store.connect(layout) as db:
        contents.add_footprints(db, table)
    add_chips(layout, table.building_ids, bands="pre+post", chips=chips)
    return layout


def test_the_truth_becomes_classes(told: Layout) -> None:
    table = project_table("storm", field="grade", positive=["destroyed", "major"], exclude=["unclear"], clicks=[5])
    data = table.read(told.folder)
    assert data.class_names == ("destroyed", "major", "none")
    assert [data.class_names[c] if c >= 0 else "unclear" for c in data.classes] == GRADES
    assert data.chips.shape == (N, 6, 16, 16)
    assert not data.is_test.any()


def test_methods_are_tested_on_the_unlabeled_and_none_is_told_the_answers(told: Layout) -> None:
    table = project_table("storm", field="grade", positive=["destroyed", "major"], exclude=["unclear"], clicks=[10, 20])
    done = benchmark.run_table(table, told.folder, methods=["ranker", "linear", "supervised"], seeds=1)
    assert [(each.setting, each.method) for each in done] == [
        (f"storm, {n} clicks", method) for n in (10, 20) for method in ("ranker", "linear")
    ]
    n_known = N - GRADES.count("unclear")
    n_damaged = sum(grade in ("destroyed", "major") for grade in GRADES)
    assert [(each.n_unlabeled, each.n_test, each.n_test_positive) for each in done[::2]] == [
        (n_known - n, n_known - n, n_damaged - n) for n in (10, 20)
    ]
    assert all(each.auc > 0.95 for each in done)


def test_command_names_all_that_the_figures_depend_on(told: Layout, run: CommandLine) -> None:
    words = ("benchmark", "project", "--data", told.folder, "--field", "grade", "--positive", "destroyed")
    more = ("--positive", "major", "--exclude", "unclear", "--clicks", "5", "--methods", "linear", "--seeds", "1")
    text = run.text(*words, *more)
    assert "--field grade --clicks 5 --positive destroyed --positive major --exclude unclear" in text
    assert "| storm, 5 clicks | linear | quick | 1 |" in text
    assert "--clicks is 'many'" in run.refused(*words, "--clicks", "many")


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"field": "roof", "exclude": []}, "No footprint says anything in 'roof'; there are grade"),
        ({"exclude": ["un-clear"]}, "No footprint says 'un-clear' in 'grade'; they say destroyed, major, none, unclear"),
        ({"positive": []}, "Nothing says which buildings are damaged"),
        ({"positive": ["burnt"]}, "no class 'burnt'; there are destroyed, major, none"),
        ({"clicks": [0]}, "no numbers of clicks"),
        ({"clicks": [100]}, "100 positives shall be labeled"),
    ],
)
def test_what_cannot_be_is_refused(told: Layout, wrong: dict[str, object], words: str) -> None:
    asked = {"field": "grade", "positive": ["destroyed", "major"], "exclude": ["unclear"], "clicks": [5], **wrong}
    with pytest.raises(DatasetError, match=words):
        benchmark.run_table(project_table("storm", **asked), told.folder, methods=["linear"], seeds=1)  # type: ignore[arg-type]


def test_a_project_without_chips_is_refused(project: Layout, tmp_path: Path) -> None:
    table = project_table("x", field="grade", positive=["destroyed"])
    with pytest.raises(DatasetError, match="no chips yet"):
        table.read(project.folder)
    with pytest.raises(ProjectError):
        table.read(tmp_path / "nowhere.pugeo")
