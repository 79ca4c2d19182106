"""Verbs of the Explore screen: words for people, JSON for machines, refusals in two lines."""

from pathlib import Path

import numpy as np
import pytest
from cli_parts import CommandLine
from clustered_parts import RUN, explored_project, looked
from model_parts import with_chips
from small_parts import click
from type_parts import KEPT, discovered

from pu_geo.analysis import projection
from pu_geo.explore import looks
from pu_geo.store.layout import Layout


def test_both_questions_are_answered_in_words_and_json(tmp_path: Path, run: CommandLine) -> None:
    layout = looked(explored_project(tmp_path, n_positive=16))
    click(layout, "b1")
    told = run.json("similar", layout.folder, "--building", "b0", "b4", "--count", "5", "--run", RUN)
    assert (told["question"], len(told["buildings"])) == ("Where else does it look like this? (2 selected buildings)", 5)
    assert "1st by look" in run.text("similar", layout.folder, "--count", "70")
    assert "None of these buildings has a chip" in run.refused("similar", layout.folder, "--building", "nowhere")
    assert run.json("label-errors", layout.folder)["buildings"][0]["building_id"] == "b1"
    assert run.text("label-errors", layout.folder).startswith("What did I get wrong?\nb1: ")


def test_the_look_is_drawn_and_says_what_may_be_read(
    tmp_path: Path, run: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(projection, "umap_2d", lambda rows, **_: np.zeros((len(rows), 2), np.float32))
    layout = explored_project(tmp_path)
    words = run.text("look", layout.folder)
    assert words.startswith("80 buildings. Buildings marked damaged lie ")
    assert words.rstrip().endswith(looks.NO_LABEL)
    assert looks.OF_TRAINING in run.text("look", layout.folder, "--run", RUN)
    assert np.load(layout.run(RUN) / "umap.npy").shape == np.load(layout.look_plane("set", "rcf")).shape == (80, 2)


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
