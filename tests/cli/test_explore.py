"""Verbs of the Explore screen: words for people, JSON for machines, refusals in two lines."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from clustered_parts import RUN, explored_project, groups
from model_parts import with_chips
from type_parts import KEPT, discovered

from pu_geo import cli
from pu_geo.project import labels, store
from pu_geo.project.labels import LabelOp
from pu_geo.project.layout import Layout


def test_similar_lists_the_group_of_a_building(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    project = str(explored_project(tmp_path).folder)
    assert cli.main(["similar", project, "--building", "b0", "--count", "5", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["like"] == ["b0"]
    assert {groups()[int(one["building_id"][1:])] for one in told["buildings"]} == {0}
    assert len(told["buildings"]) == 5
    assert cli.main(["similar", project, "--building", "b0", "--count", "19"]) == 0
    assert "(positive)" in capsys.readouterr().out
    assert cli.main(["similar", project, "--building", "nowhere"]) == 2
    assert "knows none of these buildings" in capsys.readouterr().err


def test_label_errors_are_searched_once_and_lists_wrong_clicks_first(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    layout = explored_project(tmp_path, n_positive=18)
    with store.connect(layout) as db:
        labels.append(db, [LabelOp("wrong", "b1", "positive")], analyst="ann", screen="map")
    assert cli.main(["label-errors", str(layout.folder), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["run_id"] == RUN
    assert (told["suspects"][0]["why"], told["suspects"][0]["building_ids"]) == ("wrong click", ["b1"])
    jobs_before = list(layout.jobs.glob("*-*"))
    assert cli.main(["suspects", str(layout.folder)]) == 0
    assert capsys.readouterr().out.startswith("wrong click: b1. Clicked as damaged")
    assert list(layout.jobs.glob("*-*")) == jobs_before


def said(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> str:
    assert cli.main(list(arguments)) == code
    captured = capsys.readouterr()
    return captured.err if code else captured.out


def test_discover_proposes_groups_and_types_lists_them(project: Layout, capsys: pytest.CaptureFixture[str]) -> None:
    folder = str(with_chips(project).folder)
    made = json.loads(said(capsys, "discover", folder, "--groups", "3", "--seeds", "2", "--json"))
    assert (made["n_groups"], made["n_buildings"]) == (3, 20)
    assert sum(group["size"] for group in made["groups"]) == 20
    listed = json.loads(said(capsys, "types", folder, "--json"))
    assert listed["discovery"] == made["discovery"]
    assert listed["groups"] == made["groups"]


def test_groups_are_named_merged_and_undone(project: Layout, capsys: pytest.CaptureFixture[str]) -> None:
    folder = str(discovered(project).folder)
    told = said(capsys, "types", folder, "--name", "2=tarps", "--name", "1=mud")
    assert f"{KEPT}, 4 groups:" in told
    assert "Named types: tarps (6 buildings), mud (8 buildings)" in told
    assert "Named types: tarps (6 buildings)\n" in said(capsys, "types", folder, "--name", "1=")
    merged = json.loads(said(capsys, "types", folder, "--merge", "2,3", "--json"))
    assert [group["groups"] for group in merged["groups"]] == [[1], [2, 3], [4]]
    assert merged["types"] == {"tarps": 10}
    assert json.loads(said(capsys, "types", folder, "--undo", "--json"))["types"] == {"tarps": 6}
    assert "dropped" in said(capsys, "types", folder, "--drop", "4")
    assert "dropped" not in said(capsys, "types", folder, "--put-back", "4")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--name", "tarps"], "GROUP=NAME"),
        (["--name", "x=tarps"], "GROUP=NAME"),
        (["--name", "9=tarps"], "no group 9"),
        (["--merge", "a,b"], "names no groups"),
        (["--merge", "2"], "Fewer than two"),
        (["--undo"], "could be taken back"),
        (["--undo", "--drop", "1"], "One thing is done at a time"),
        (["--of", "types-none"], "no discovery 'types-none'"),
    ],
)
def test_refusals_say_why(project: Layout, capsys: pytest.CaptureFixture[str], options: list[str], words: str) -> None:
    assert words in said(capsys, "types", str(discovered(project).folder), *options, code=2)


def test_nothing_to_list_is_told(project: Layout, capsys: pytest.CaptureFixture[str]) -> None:
    assert "none yet" in said(capsys, "types", str(project.folder), code=2)
