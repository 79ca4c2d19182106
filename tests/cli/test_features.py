"""`pu-geo features`: makes sets, lists them, chooses and removes one; and trainings that name one."""

from pathlib import Path

import pytest
from cli_parts import CommandLine
from feature_parts import D, tiny_maker, weights_file
from model_parts import with_chips
from small_parts import facts_of

from pu_geo.store import feature_sets
from pu_geo.store.layout import Layout

__all__ = ["tiny_maker"]
pytestmark = pytest.mark.usefixtures("tiny_maker", "home")
NETWORK = ("--views", 2)


@pytest.fixture
def chipped(project: Layout) -> Layout:
    return with_chips(project)


def test_a_set_is_made_used_listed_and_removed(run: CommandLine, chipped: Layout, tmp_path: Path) -> None:
    folder, weights = chipped.folder, weights_file(tmp_path)
    words = run.text("add-features", folder, *NETWORK, "--backbone", weights, "--licence", "CC BY 4.0")
    name = words.split()[1].rstrip(":")
    assert f"Features {name}: {D} numbers for each of 20 chips in 2 views, made in" in words
    assert f"`pu-geo features {folder} --use {name}` uses them from now on; now rcf is used." in words
    made = run.json("add-features", folder, *NETWORK, "--backbone", weights, "--use")
    assert (made["name"], made["was_there"], made["in_use"]) == (name, True, name)
    listed = run.json("features", folder)
    assert (listed["in_use"], [one["name"] for one in listed["sets"]]) == (name, ["rcf", name])
    assert listed["sets"][1]["maker"]["licence"] == "CC BY 4.0"
    rcf, network = run.text("features", folder).splitlines()[:2]
    assert rcf.startswith("  rcf: random convolutions")
    assert network.startswith(
        f"* {name}: pre, post and their difference; averaged over the chip; weights tiny.safetensors, "
    )
    assert "license of the weights: CC BY 4.0" in network
    assert run.json("rank", folder)["run_id"]
    run.json("train", folder, "--features", "rcf")
    assert facts_of(chipped).feature_set == "rcf"
    assert "* rcf" in run.text("features", folder, "--use", "rcf")
    assert run.json("features", folder, "--use", name)["in_use"] == name
    run.text("remove", folder, "features", name, "--yes")
    assert run.json("features", folder)["in_use"] == "rcf"
    assert not list((folder / "chips").glob("*backbone*"))
    run.text("repair", "undo-removal", folder)
    assert run.json("features", folder)["in_use"] == name


def test_mistakes_are_refused_in_words(run: CommandLine, chipped: Layout) -> None:
    folder = chipped.folder
    assert "no features 'backbone-00000000'; they have: rcf" in run.refused("features", folder, "--use", "backbone-00000000")
    for more, words in (
        (("vgg",), "No maker of features is called 'vgg'"),
        ((), "No weights were named"),
        (("rcf", "--pool", "cls"), "'rcf' have no weights and no settings"),
        (("--backbone", "x", "--views", 0), "--views cannot be used"),
        (("--backbone", "x", "--pool", "max"), "--pool cannot be used"),
    ):
        assert words in run.refused("add-features", folder, *more), more
    assert "have no features 'x'" in run.refused("train", folder, "--features", "x")
    assert "have no features 'x'" in run.refused("rank", folder, "--features", "x")
    assert [one.name for one in feature_sets.all_sets(chipped, "set")] == ["rcf"]
