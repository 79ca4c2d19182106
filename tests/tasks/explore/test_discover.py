"""The job that proposes groups: what it learns from, what it stores, and that a cancelled or killed one leaves nothing."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from model_parts import job_of, with_chips
from small_parts import add_chips, click, square_table
from type_parts import IDS

from pu_geo.errors import JobCancelled, TrainingError
from pu_geo.jobs.worker import TASKS
from pu_geo.methods.ncl import ncl
from pu_geo.project import contents, discoveries, store
from pu_geo.project.layout import Layout
from pu_geo.services.explore import discovering
from pu_geo.tasks.explore.discover import discover

N = 90
KIND = np.arange(N) % 3


@pytest.fixture
def layout(project: Layout) -> Layout:
    """Ninety buildings of three kinds; clicks say "roof" or "mud" of some of kinds 0 and 1, and nothing of kind 2."""
    draw = np.random.default_rng(0)
    centers = 3 * draw.normal(size=(3, 16))
    views = (centers[KIND] + draw.normal(size=(5, N, 16))).astype(np.float16)
    ids = [f"n{i}" for i in range(N)]
    chips = draw.integers(0, 255, (N, 6, 16, 16)).astype(np.uint8)
    add_chips(project, ids, "many", bands="pre+post", chips=chips, features=views)
    with store.connect(project) as db:
        contents.add_footprints(db, square_table(N, prefix="n"))
    for kind, damage_type in enumerate(("roof", "mud")):
        click(project, *(ids[i] for i in range(30) if KIND[i] == kind), damage_types=(damage_type,))
    click(project, "n89", damage_types=("rare",))
    click(project, "n88", label="not_assessable")
    return project


def names_taught(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Keep what each training is given."""
    given, fit = [], ncl.fit

    def kept(data: Any, settings: Any, run: Any) -> Any:
        given.append(data)
        return fit(data, settings, run)

    monkeypatch.setattr(ncl, "fit", kept)
    return given


def test_finds_the_kind_that_nobody_named(layout: Layout, monkeypatch: pytest.MonkeyPatch) -> None:
    given = names_taught(monkeypatch)
    told = discover(job_of(layout, "discover"), n_seeds=2, n_groups=3)
    found = discoveries.load(layout, str(told["discovery"]))
    assert (told["n_groups"], told["n_buildings"]) == (3, N - 1)
    assert found.facts["known"] == {"mud": 10, "roof": 10}  # "rare" was given once, so it teaches nothing
    assert found.facts["seeds"] == [0, 1]
    assert (found.groups[88], found.membership[88]) == (-1, 0)
    groups = np.delete(np.asarray(found.groups), 88)
    hidden = groups[np.delete(KIND, 88) == 2]
    own = np.bincount(hidden).argmax()
    assert (hidden == own).mean() > 0.9
    assert (groups == own).sum() < 1.2 * len(hidden)
    proposed = discovering.proposal(layout)
    assert sum(len(group.building_ids) for group in proposed.groups) == N - 1
    central = [building for group in proposed.groups for building in group.central]
    said = {f"n{i}" for i in range(30) if KIND[i] < 2}
    assert len(set(central)) == len(central)
    assert not set(central) & {*said, "n88"}
    assert proposed.groups[0].stability is not None
    agreement = found.facts["agreement"]
    assert agreement.keys() == {"memberships", "embeddings"}
    assert agreement[found.facts["reading"]] == max(agreement.values()) == found.facts["adjusted_rand"]
    assert found.facts["at_event"] == 22
    # Each training does without half of the clicks, and both together see all; "rare" counts as unlabeled.
    seen = [set(np.flatnonzero(data.classes >= 1).tolist()) for data in given]
    assert [len(each) for each in seen] == [10, 10]
    assert seen[0] | seen[1] == {i for i in range(30) if KIND[i] < 2}
    assert not seen[0] & seen[1]


def test_the_suggested_number_is_more_than_there_are_known_kinds(layout: Layout) -> None:
    told = discover(job_of(layout, "discover"), n_seeds=1)
    found = discovering.proposal(layout, str(told["discovery"]))
    assert list(found.curve) == list(range(3, 13))
    assert told["n_groups"] == found.facts["suggested"] == max(found.curve, key=lambda k: found.curve[k]) == 3
    assert found.facts["asked_for"] is None
    assert told["adjusted_rand"] is None
    assert "nothing tells" in found.groups[0].stability_words


def test_without_damage_types_damaged_and_not_damaged_guide_it(project: Layout) -> None:
    with_chips(project)
    told = discover(job_of(project, "discover"), n_seeds=1, n_groups=4)
    found = discoveries.load(project, str(told["discovery"]))
    assert found.facts["known"] == {"not damaged": 6, "damaged": 6}
    assert list(found.building_ids) == IDS


def test_the_same_seed_gives_the_same_groups(project: Layout) -> None:
    with_chips(project)
    first, again = (
        discoveries.load(project, str(discover(job_of(project, name), n_seeds=2, n_groups=3)["discovery"])) for name in "ab"
    )
    np.testing.assert_array_equal(first.groups, again.groups)
    assert first.id != again.id


def test_a_cancelled_one_stores_nothing(project: Layout) -> None:
    job = job_of(with_chips(project), "discover")
    (job.folder / "cancel").touch()
    with pytest.raises(JobCancelled):
        discover(job)
    assert discoveries.all_facts(project) == []


def test_one_that_is_killed_while_it_stores_leaves_nothing(project: Layout, monkeypatch: pytest.MonkeyPatch) -> None:
    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    with_chips(project)
    monkeypatch.setattr(discoveries, "write_array", killed)
    with pytest.raises(KeyboardInterrupt):
        discover(job_of(project, "discover"), n_seeds=1, n_groups=3)
    assert discoveries.all_facts(project) == []
    assert not (project.folder / "discoveries").exists()


@pytest.mark.parametrize(
    ("chosen", "words"),
    [
        ({"n_seeds": 0}, "0 trainings"),
        ({"n_groups": 1}, "n_new"),
        ({"preset": "none"}, "no preset"),
        ({}, "at least 5 positives"),
    ],
)
def test_refusals_say_why(project: Layout, chosen: dict[str, Any], words: str) -> None:
    with_chips(project, is_clicked=bool(chosen))
    with pytest.raises(TrainingError, match=words):
        discover(job_of(project, "discover"), **chosen)
    assert discoveries.all_facts(project) == []


def test_the_worker_knows_the_task() -> None:
    assert TASKS[discovering.DISCOVER_TASKS[0]] == f"{discover.__module__}:{discover.__name__}"
