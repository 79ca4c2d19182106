"""Verbs of the Explore screen: words for people, JSON for machines, refusals in two lines."""

from pathlib import Path

import numpy as np
import pytest
from cli_parts import CommandLine
from clustered_parts import RUN, explored_project, groups
from model_parts import with_chips
from small_parts import click
from type_parts import KEPT, discovered

from pu_geo.analysis import projection
from pu_geo.store.layout import Layout


def test_similar_lists_the_group_of_a_building(tmp_path: Path, run: CommandLine) -> None:
    project = str(explored_project(tmp_path).folder)
    told = run.json("similar", project, "--building", "b0", "--count", "5")
    assert told["like"] == ["b0"]
    assert {groups()[int(one["building_id"][1:])] for one in told["buildings"]} == {0}
    assert len(told["buildings"]) == 5
    assert "(positive)" in run.text("similar", project, "--building", "b0", "--count", "19")
    assert "knows none of these buildings" in run.refused("similar", project, "--building", "nowhere")


def test_label_errors_are_searched_once_and_lists_wrong_clicks_first(tmp_path: Path, run: CommandLine) -> None:
    layout = explored_project(tmp_path, n_positive=18)
    click(layout, "b1")
    told = run.json("label-errors", str(layout.folder))
    assert told["run_id"] == RUN
    assert (told["suspects"][0]["why"], told["suspects"][0]["building_ids"]) == ("wrong click", ["b1"])
    jobs_before = list(layout.jobs.glob("*-*"))
    assert run.text("label-errors", str(layout.folder)).startswith("wrong click: b1. Labeled damaged")
    assert list(layout.jobs.glob("*-*")) == jobs_before


def test_umap_is_drawn_as_it_was_set(tmp_path: Path, run: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(projection, "umap_2d", lambda rows, **_: np.zeros((len(rows), 2), np.float32))
    layout = explored_project(tmp_path)
    umap = ("umap", layout.folder, "--n-neighbors", "5", "--metric", "cosine", "--supervised")
    done = run.json(*umap)
    assert done["n"] == 80
    assert np.load(layout.run(RUN) / "umap.npy").shape == (80, 2)
    words = run.text(*umap)
    assert "UMAP: 5 neighbors, least distance 0.1, cosine, supervised by labels (8 damaged, 0 not damaged)" in words
    assert "0.99 or less" in run.refused("umap", layout.folder, "--min-dist", "1.5")


def test_discover_proposes_groups_and_types_lists_them(project: Layout, run: CommandLine) -> None:
    folder = str(with_chips(project).folder)
    made = run.json("discover", folder, "--groups", "3", "--seeds", "2")
    assert (made["n_groups"], made["n_buildings"]) == (3, 20)
    assert sum(group["size"] for group in made["groups"]) == 20
    listed = run.json("types", folder)
    assert listed["discovery"] == made["discovery"]
    assert listed["groups"] == made["groups"]


def test_groups_are_named_merged_and_undone(project: Layout, run: CommandLine) -> None:
    folder = str(discovered(project).folder)
    told = run.text("types", folder, "--name", "2=tarps", "--name", "1=mud")
    assert f"{KEPT}, 4 groups:" in told
    assert "Named types: tarps (6 buildings), mud (8 buildings)" in told
    assert "Named types: tarps (6 buildings)\n" in run.text("types", folder, "--name", "1=")
    merged = run.json("types", folder, "--merge", "2,3")
    assert [group["groups"] for group in merged["groups"]] == [[1], [2, 3], [4]]
    assert merged["types"] == {"tarps": 10}
    assert run.json("types", folder, "--undo")["types"] == {"tarps": 6}
    assert "dropped" in run.text("types", folder, "--drop", "4")
    assert "dropped" not in run.text("types", folder, "--put-back", "4")


def test_refusals_say_why(project: Layout, run: CommandLine) -> None:
    assert "none yet" in run.refused("types", project.folder)
    folder = discovered(project).folder
    for options, words in (
        (["--name", "tarps"], "GROUP=NAME"), (["--name", "9=tarps"], "no group 9"), (["--merge", "a,b"], "names no groups"),
        (["--merge", "2"], "Fewer than two"), (["--undo"], "could be taken back"),
        (["--undo", "--drop", "1"], "One thing is done at a time"), (["--of", "types-none"], "no discovery 'types-none'"),
    ):  # fmt: skip
        assert words in run.refused("types", folder, *options)
