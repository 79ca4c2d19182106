"""Proposed groups as people see them, and what comes of discovering, merging and dropping them, exports included."""

import json
from pathlib import Path

import pytest
from model_parts import job_of
from small_parts import click
from type_parts import IDS, KEPT, discovered

from pu_geo import jobs
from pu_geo.answers import labeling
from pu_geo.errors import ProjectError
from pu_geo.explore import discovering
from pu_geo.explore.actions import Discover
from pu_geo.explore.discovering import Group
from pu_geo.maps.export_job import export
from pu_geo.runs.train_job import rank
from pu_geo.store.layout import Layout


@pytest.fixture
def layout(project: Layout) -> Layout:
    return discovered(project)


def shown(layout: Layout) -> dict[str, Group]:
    return {group.title: group for group in discovering.proposal(layout).shown}


def names(layout: Layout) -> dict[str, str]:
    return {title: group.name for title, group in shown(layout).items()}


def named(layout: Layout) -> dict[str, list[str]]:
    return {name: list(each["building_ids"]) for name, each in discovering.types(layout).items()}


def test_groups_tell_what_people_said_of_their_buildings(layout: Layout) -> None:
    click(layout, "b0", damage_types=("debris", "roof"))
    click(layout, "b1", damage_types=("roof",))
    found = discovering.proposal(layout)
    first = found.groups[0]
    assert [len(group.building_ids) for group in found.groups] == [8, 6, 4, 1]
    assert (first.n_positive, first.n_not_damaged, dict(first.types)) == (6, 0, {"roof": 2, "debris": 1})
    assert (found.groups[2].n_not_damaged, found.n_new_answers) == (4, 2)
    assert (first.central[0], first.score, found.curve) == ("b7", None, {2: 0.1, 3: 0.3, 4: 0.295})
    words = [group.stability_words.partition(" ")[0].strip(":") for group in found.groups]
    assert words == ["stable", "fairly", "weak", "unstable"]
    assert "4 groups were asked for" in (told := discovering.number_words(found))
    assert "suggest 3, yet 4 would separate them as clearly" in told
    assert "66%" in told
    run_id = str(rank(job_of(layout, "rank"))["run_id"])
    scores = [group.score for group in discovering.proposal(layout, run_id=run_id).groups]
    assert scores[0] == max(scores)  # type: ignore[type-var]  # the positives' group
    alone = discovering.proposal(discovered(layout, n_seeds=1, name="types-2")).groups[0]
    assert (alone.stability, "nothing tells" in alone.stability_words) == (None, True)


def test_a_named_group_is_offered_on_annotate_and_exported_apart_from_answers(layout: Layout, tmp_path: Path) -> None:
    rank(job_of(layout, "rank"))
    discovering.name_group(layout, KEPT, 1, " tarps ", analyst="ann")
    assert named(layout) == {"tarps": IDS[8:14]}
    assert labeling.damage_types(layout)[-1] == "tarps"
    click(layout, "b9", label="not_assessable", reason="cloud")
    click(layout, "b10", label="not_damaged")
    click(layout, "b8", damage_types=("roof",))
    export(job_of(layout, "export"), run_id="latest", format="geojson-full", out=str(tmp_path / "map.geojson"))
    features = json.loads((tmp_path / "map.geojson").read_text())["features"]
    rows = {row["properties"]["building_id"]: row["properties"] for row in features}
    guesses = {building: row["discovered_type"] for building, row in rows.items() if row["discovered_type"]}
    assert guesses == dict.fromkeys(["b8", "b11", "b12", "b13"], "tarps")  # b9 could not be assessed, b10 is undamaged
    assert (rows["b8"]["damage_types"], rows["b10"]["damage_class"]) == (["roof"], "no_visible_damage")
    usual = {None, "no_visible_damage", "not_assessed", "damaged_not_graded"}
    assert all("tarps" not in row["damage_types"] and row["damage_class"] in usual for row in rows.values())
    assert "machine's guess" in (tmp_path / "map.codebook.csv").read_text(encoding="utf-8-sig")


def test_what_is_no_name_no_merged_group_and_no_pair_is_refused(layout: Layout) -> None:
    for name in ("destroyed", "Major", "no_visible_damage", "x" * 61):
        with pytest.raises(ProjectError, match=r"is a grade|cannot be a name"):
            discovering.name_group(layout, KEPT, 1, name, analyst="ann")
    assert named(layout) == {}
    discovering.merge_groups(layout, KEPT, [0, 1], analyst="ann")
    for number, words in ((2, "Group 3 is not merged"), (98, "no group 99")):
        with pytest.raises(ProjectError, match=words):
            discovering.split_group(layout, KEPT, number, analyst="ann")
    for numbers, words in (([1], "Fewer"), ([2, 2], "Fewer"), ([0, 4], "no group 5"), ([], "Fewer")):
        with pytest.raises(ProjectError, match=words):
            discovering.merge_groups(layout, KEPT, numbers, analyst="ann")
    assert set(names(layout)) == {"1+2", "3", "4"}


def test_renaming_moves_and_a_shared_name_joins(layout: Layout) -> None:
    steps = [
        (1, "tarps", {"tarps": IDS[8:14]}),
        (1, "blue tarps", {"blue tarps": IDS[8:14]}),
        (2, "blue tarps", {"blue tarps": IDS[8:18]}),
        (1, " ", {"blue tarps": IDS[14:18]}),
        (2, "blue tarps", {"blue tarps": IDS[14:18]}),
    ]
    for number, name, expected in steps:
        discovering.name_group(layout, KEPT, number, name, analyst="ann")
        assert named(layout) == expected
    discovering.drop_group(layout, KEPT, 2, analyst="ann")
    assert [group.title for group in discovering.proposal(layout).dropped] == ["3"]
    assert named(layout) == {}, "a dropped group is kept aside without its name"


def test_every_act_is_undone(layout: Layout) -> None:
    states = [(names(layout), named(layout))]
    acts = (
        lambda: discovering.name_group(layout, KEPT, 1, "tarps", analyst="ann"),
        lambda: discovering.merge_groups(layout, KEPT, [2, 1], analyst="ann"),
        lambda: discovering.name_group(layout, KEPT, 2, "mud", analyst="ann"),
        lambda: discovering.drop_group(layout, KEPT, 0, analyst="ann"),
        lambda: discovering.put_back(layout, KEPT, 0, analyst="ann"),
        lambda: discovering.split_group(layout, KEPT, 1, analyst="ann"),
        lambda: discovering.drop_group(layout, KEPT, 2, analyst="ann"),
        lambda: discovering.name_group(layout, KEPT, 1, "", analyst="ann"),
    )
    for act in acts:
        act()
        states.append((names(layout), named(layout)))
    assert [len(state[0]) for state in states] == [4, 4, 3, 3, 2, 3, 4, 3, 3]
    assert states[2] == ({"1": "", "2+3": "tarps", "4": ""}, {"tarps": IDS[8:18]})
    assert states[3][1] == {"mud": IDS[8:18]}
    assert states[6][0] == {"1": "", "2": "mud", "3": "mud", "4": ""}
    assert states[7][1] == {"mud": IDS[8:14]}
    assert states[8][1] == {}
    with pytest.raises(ProjectError, match="was decided since"):
        discovering.undo(layout, KEPT, decision=1, analyst="ann")  # it is not the act that was seen
    for before in states[-2::-1]:
        assert discovering.undo(layout, KEPT, analyst="bob")
        assert (names(layout), named(layout)) == before
    assert not discovering.undo(layout, KEPT, analyst="bob")


def test_a_name_moves_over_from_an_older_discovery_and_back(layout: Layout) -> None:
    discovering.name_group(layout, KEPT, 0, "tarps", analyst="ann")
    discovered(layout, name="types-2")
    discovering.name_group(layout, "latest", 3, "tarps", analyst="bob")
    assert named(layout) == {"tarps": ["b18"]}
    assert discovering.proposal(layout, KEPT).groups[0].name == ""
    discovering.merge_groups(layout, KEPT, [1, 2], analyst="ann")
    assert discovering.undo(layout, "types-2", analyst="bob")
    assert named(layout) == {"tarps": IDS[:8]}
    assert all(discovering.undo(layout, KEPT, analyst="ann") for _ in range(2))
    assert named(layout) == {}


def test_nothing_is_looked_for_without_chips_or_positives(project: Layout) -> None:
    assert "no chips" in str(discovering.why_not(project))
    with pytest.raises(ProjectError, match="no chips"):
        jobs.start(project, Discover())
