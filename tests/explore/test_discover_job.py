"""The job that proposes groups: what it learns from, what it stores, and that a cancelled or killed one leaves nothing."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from model_parts import job_of, with_chips
from small_parts import add_chips, click, in_tiers, small_project, square_table
from type_parts import IDS

from pu_geo.errors import JobCancelled, JobPaused, TrainingError
from pu_geo.explore import discover_job as discover_task
from pu_geo.explore import discovering
from pu_geo.explore.discover_job import discover
from pu_geo.methods.cards import ncl as ncl_card
from pu_geo.methods.ncl import ncl
from pu_geo.store import contents, discoveries, store
from pu_geo.store.layout import Layout
from pu_geo.training.checkpoints import Checkpoints

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


def killed(*_: object) -> None:
    raise KeyboardInterrupt


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
    assert found.groups[88] == -1
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


def test_of_several_types_the_rarest_guides_it(layout: Layout, monkeypatch: pytest.MonkeyPatch) -> None:
    given = names_taught(monkeypatch)
    roofs = [f"n{i}" for i in range(15) if KIND[i] == 0]
    click(layout, *roofs, damage_types=("roof", "mud", "burned"), absent_types=("flooded",))
    click(layout, *(f"n{i}" for i in range(31, 41)), damage_types=("collapsed",), shown="audit", inclusion=0.5)
    done = discover(job_of(layout, "discover"), n_seeds=1, n_groups=4)
    assert discoveries.load(layout, str(done["discovery"])).facts["known"] == {"mud": 10, "burned": 5, "roof": 5}
    assert given[0].class_names == ("not damaged", "mud", "burned", "roof")


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
    first, again = (
        discoveries.load(project, str(discover(job_of(project, name), n_seeds=1, n_groups=4)["discovery"])) for name in "ab"
    )
    assert first.facts["known"] == {"not damaged": 6, "damaged": 6}
    assert list(first.building_ids) == IDS
    np.testing.assert_array_equal(first.groups, again.groups)  # the same seed
    assert first.id != again.id


def test_cancelled_or_killed_while_it_stores_it_leaves_nothing(project: Layout, monkeypatch: pytest.MonkeyPatch) -> None:
    job = job_of(with_chips(project), "discover")
    (job.folder / "cancel").touch()
    with pytest.raises(JobCancelled):
        discover(job)
    monkeypatch.setattr(discoveries, "write_array", killed)
    with pytest.raises(KeyboardInterrupt):
        discover(job_of(project, "again"), n_seeds=1, n_groups=3)
    assert discoveries.all_facts(project) == []
    assert not (project.folder / "discoveries").exists()


def test_refusals_say_why(project: Layout, tmp_path: Path) -> None:
    with_chips(project)
    bare = with_chips(small_project(tmp_path / "bare.pugeo"), is_clicked=False)
    for layout, chosen, words in (
        (project, {"n_seeds": 0}, "0 trainings"),
        (project, {"n_groups": 1}, "n_new"),
        (project, {"preset": "none"}, "no preset"),
        (bare, {}, "at least 5 damaged buildings"),
    ):
        with pytest.raises(TrainingError, match=words):
            discover(job_of(layout, "discover"), **chosen)
        assert discoveries.all_facts(layout) == []


FROM_CHIPS = {"backbone": "small", "pretrain_epochs": 2, "epochs": 3, "batch_size": 16}
STOPS = [("cancel", "pretraining 1 of 2", 1), ("pause", "training 1 of 2", 3), ("pause", "training 2 of 2", 2)]


@pytest.mark.slow
@pytest.mark.parametrize(("ask", "stage", "epoch"), in_tiers(STOPS, "kills", quick=[STOPS[2]]))
def test_interrupted_it_goes_on_and_ends_bit_equal(
    layout: Layout, monkeypatch: pytest.MonkeyPatch, ask: str, stage: str, epoch: int
) -> None:
    monkeypatch.setattr(discover_task, "Checkpoints", lambda folder: Checkpoints(folder, 0.0))
    standard = ncl_card.CARD.presets["standard"]
    monkeypatch.setitem(ncl_card.CARD.presets, "standard", {**standard, **FROM_CHIPS})
    chosen: dict[str, Any] = {"n_seeds": 2, "n_groups": 3, "preset": "standard"}
    straight = discoveries.load(layout, str(discover(job_of(layout, "straight"), **chosen)["discovery"]))
    job = job_of(layout, "cut")
    reported: list[tuple[str, int]] = []
    record = job.epoch

    def epoch_of(values: Any) -> None:
        record(values)
        reported.append((values["stage"], values["epoch"]))
        if reported[-1] == (stage, epoch):
            (job.folder / ask).touch()

    monkeypatch.setattr(job, "epoch", epoch_of)
    with pytest.raises(JobPaused if ask == "pause" else JobCancelled):
        discover(job, **chosen)
    assert len(discoveries.all_facts(layout)) == 1
    (job.folder / ask).unlink()
    click(layout, "n40", "n41", damage_types=("roof",))  # what is clicked in between belongs to the next one
    again = discoveries.load(layout, str(discover(job, **chosen)["discovery"]))
    np.testing.assert_array_equal(again.groups, straight.groups)
    made_anew = ("discovery", "made_at", "seconds", "sha256", "seal")
    assert {**again.facts, **dict.fromkeys(made_anew)} == {**straight.facts, **dict.fromkeys(made_anew)}
    of_seed = [("pretraining", 1), ("pretraining", 2), ("training", 1), ("training", 2), ("training", 3)]
    stages = [(f"{name} {i} of 2", n) for i in (1, 2) for name, n in of_seed]
    assert list(dict.fromkeys(reported)) == stages
    n_twice = len(reported) - len(stages)
    assert n_twice == (0 if ask == "pause" else n_twice) <= 1
    assert not (job.folder / "checkpoints").exists()


def test_one_that_was_killed_after_it_stored_is_not_stored_twice(layout: Layout, monkeypatch: pytest.MonkeyPatch) -> None:
    job = job_of(layout, "cut")
    with monkeypatch.context() as patch:
        patch.setattr(discover_task, "_result", killed)
        with pytest.raises(KeyboardInterrupt):
            discover(job, n_seeds=1, n_groups=3)
    (facts,) = discoveries.all_facts(layout)
    found = discover(job, n_seeds=1, n_groups=3)
    assert found == {**found, "discovery": facts["discovery"], "n_buildings": N - 1, "seconds": facts["seconds"]}
    assert len(discoveries.all_facts(layout)) == 1
    assert not (job.folder / "checkpoints").exists()
