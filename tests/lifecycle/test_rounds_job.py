"""A new post image: the same buildings, answers that wait for somebody to look again, and what changed."""

import csv
from pathlib import Path
from typing import Any

import pytest
import rasterio
from cli_parts import CommandLine
from layer_parts import speckle, town_layer
from small_parts import click, facts_of, job_of

from pu_geo.answers import queueing
from pu_geo.errors import PuGeoError
from pu_geo.lifecycle.rounds_job import next_round
from pu_geo.maps.publish_job import publish
from pu_geo.runs.train_job import rank
from pu_geo.scenes.layers_job import add_layer
from pu_geo.store import aoi, contents, labels, rounds, store
from pu_geo.store import chosen as choices
from pu_geo.store.layout import Layout, find_project

pytestmark = pytest.mark.slow


@pytest.fixture
def event(town: Path, tmp_path: Path) -> Path:
    """A folder with a second post image of the town."""
    with rasterio.open(town / "post.tif") as source, rasterio.open(tmp_path / "later.tif", "w", **source.profile) as target:
        target.write(source.read() // 2 + 40)
    return tmp_path


def begun(previous: Layout, event: Path) -> tuple[Layout, dict[str, Any]]:
    """Begin the next round of a project; return it, and what the task returned."""
    second = store.create(event / "two.pugeo", "Town")
    return second, next_round(job_of(second), previous=str(previous.folder), post=[str(event / "later.tif")])


def rows(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8-sig") as stream:
        return list(csv.DictReader(stream))


def test_the_next_round_carries_answers_to_be_confirmed(ranked_town: Layout, event: Path) -> None:
    with store.connect(ranked_town) as db:
        aoi.put(db, contents.footprints(db).wkb[0], "one house")
    second, made = begun(ranked_town, event)
    assert (made["round"], made["carried"]) == (2, 6)
    with store.connect(ranked_town) as db, store.connect(second) as other:
        old, new = contents.footprints(db), contents.footprints(other)
        areas = aoi.current(db), aoi.current(other)
        assert labels.current(other) == {}  # nothing counts before somebody has looked
    assert list(new.building_ids) == list(old.building_ids)
    assert list(new.wkb) == list(old.wkb)
    assert [(area.wkb, area.source) for area in areas if area] == [(old.wkb[0], "one house")] * 2
    queue = queueing.current(second, "bob")
    told = [(item.building_id, item.why) for item in queue.items[:6]]
    assert {building for building, _ in told} == set(old.building_ids[:6])
    assert [why.split()[0] for _, why in told] == ["damaged"] * 4 + ["not"] * 2
    assert not {item.building_id for item in queue.items[6:]} & set(old.building_ids[:6])
    after = queueing.advance(second, "bob", done=queue.id)
    assert not any("round 1" in item.why for item in after.items)  # shown once


def test_a_version_of_the_second_round_has_the_history_and_what_changed(ranked_town: Layout, event: Path) -> None:
    second, _ = begun(ranked_town, event)
    ids = store.call(second, contents.building_ids)
    click(second, ids[0], label="not_damaged", analyst="bob")
    click(second, ids[1], ids[9], analyst="bob")
    rank(job_of(second))
    publish(job_of(second), run_id="latest", formats=["csv"], threshold=1.0)
    folder = second.exports / "v1"
    assert {row["round"] for row in rows(folder / "damage_map.csv")} == {"2"}
    history = rows(folder / "history.csv")
    assert len(history) == 2 * len(ids)
    of_first = [(row["round"], row["label"], row["labeller"]) for row in history if row["building_id"] == ids[0]]
    assert of_first == [("1", "damaged", "ann"), ("2", "no_visible_damage", "bob")]
    told = rows(folder / "round_changes.csv")
    changed = {row["building_id"]: (row["before"], row["after"], row["is_confirmed"]) for row in told}
    assert changed[ids[0]] == ("damaged", "not_flagged", "True")
    assert ids[1] not in changed


def test_layers_come_along_unless_they_show_what_is_past(chipped_town: Layout, town: Path, event: Path) -> None:
    own = chipped_town.folder / "sources" / "height.tif"
    own.parent.mkdir(exist_ok=True)
    for name, path, when in (
        ("sar-post", event / "sar.tif", "post"),
        ("height", own, "none"),
        ("lost", event / "lost.tif", "pre"),
    ):
        town_layer(town, path, speckle(256, 320))
        add_layer(job_of(chipped_town), name=name, paths=[str(path)], when=when)
    (event / "lost.tif").unlink()
    second, made = begun(chipped_town, event)
    before, (after,) = store.call(chipped_town, contents.layers), store.call(second, contents.layers)
    assert made["layers"] == [after.name] == ["height"]
    assert after.scaling == next(layer.scaling for layer in before if layer.name == "height")
    assert Path(after.scenes[0].path) == second.folder / "sources" / "height.tif", "a file of the project goes with it"
    assert (second.layer_tiles("height") / "pyramid.json").is_file()
    with store.connect(second) as db:
        facts = contents.chip_facts(second, contents.chosen_chip_set(db))
    assert [view["name"] for view in facts["views"]] == ["pre", "post", "height"]
    lost, past = made["notes"]
    assert "layer lost was left out" in lost
    assert "lost.tif" in lost
    assert "stayed in the round before: sar-post." in past


def damaged_before(layout: Layout) -> set[str]:
    """Buildings that were damaged in the round before, as the next one is compared with it."""
    return {one.building_id for one in rounds.last_of_each(rounds.read(layout)).values() if one.damage_binary == "damaged"}


def damaged_now(layout: Layout) -> set[str]:
    """Buildings that the live map shows as damaged."""
    with store.connect(layout) as db:
        return {row[0] for row in db.execute("SELECT building_id FROM damage_map WHERE damage_binary = 'damaged'")}


def test_the_next_round_compares_with_what_was_published(ranked_town: Layout, event: Path) -> None:
    publish(job_of(ranked_town), run_id=facts_of(ranked_town).run_id, formats=["csv"], threshold=1.0)
    shown = rows(ranked_town.exports / "v1" / "damage_map.csv")
    published = {row["building_id"] for row in shown if row["damage_binary"] == "damaged"}
    rank(job_of(ranked_town))  # a newer run, and then a map of it that nobody published
    choices.choose_run(ranked_town, "latest")
    choices.choose_threshold(ranked_town, "latest", 0.0)
    assert len(damaged_now(ranked_town)) > len(published) + 20
    later = store.call(ranked_town, contents.building_ids)[20]
    click(ranked_town, later, grade="major")
    second, made = begun(ranked_town, event)
    assert damaged_before(second) == published
    assert made["compared_with"] == rounds.read(second).compared_with == "v1"
    assert made["carried"] == 7, "what people answered since is there to be confirmed, too"
    past = rounds.last_of_each(rounds.read(second))
    assert {one.score is not None for one in past.values()} == {True}
    assert (past[later].label, past[later].grade) == ("positive", "Major"), "to be confirmed with its grade"


def test_a_round_that_published_nothing_is_compared_with_the_chosen_map(
    ranked_town: Layout, event: Path, run: CommandLine, home: Path
) -> None:
    rank(job_of(ranked_town))
    chosen = choices.run(ranked_town, "latest").run_id
    choices.choose_run(ranked_town, chosen)
    choices.choose_threshold(ranked_town, chosen, 0.0)
    arguments = ["next-round", ranked_town.folder, "--new", event / "three.pugeo", "--post", event / "later.tif"]
    assert "Round 2" in run.text(*arguments)
    assert "exists already" in run.refused(*arguments)
    third = find_project(str(event / "three.pugeo"))
    assert rounds.read(third).compared_with == f"run {chosen}"
    assert damaged_before(third) == damaged_now(ranked_town)
    with pytest.raises(PuGeoError, match="is not empty"):
        next_round(job_of(third), previous=str(ranked_town.folder), post=[str(event / "later.tif")])


def test_nothing_is_known_of_what_no_map_and_nobody_spoke_of(chipped_town: Layout, event: Path) -> None:
    second, _ = begun(chipped_town, event)
    past = rounds.last_of_each(rounds.read(second)).values()
    assert {one.damage_binary for one in past} == {"not_assessed"}, "never quietly not flagged"
