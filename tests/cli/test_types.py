"""The verbs `discover` and `types`, as they are typed."""

from __future__ import annotations

import json

import pytest
from model_parts import with_chips
from type_parts import KEPT, discovered

from pu_geo import cli
from pu_geo.project.layout import Layout


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
        (["--of", "types-none"], "no discovery 'types-none'"),
    ],
)
def test_refusals_say_why(project: Layout, capsys: pytest.CaptureFixture[str], options: list[str], words: str) -> None:
    assert words in said(capsys, "types", str(discovered(project).folder), *options, code=2)


def test_nothing_to_list_is_told(project: Layout, capsys: pytest.CaptureFixture[str]) -> None:
    assert "none yet" in said(capsys, "types", str(project.folder), code=2)
