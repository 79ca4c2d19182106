"""The next run learns from accepted clusters, and counts, estimates and labels go without them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from model_parts import array_of, job_of
from small_parts import click, facts_of

from pu_geo.methods import baselines, catalog
from pu_geo.project import decisions, pseudo_positives, store
from pu_geo.project.layout import Layout
from pu_geo.services.annotate import labeling
from pu_geo.tasks.damage_map.damage_map import build_damage_map
from pu_geo.tasks.train import train as train_task
from pu_geo.tasks.train.inputs import read_inputs
from pu_geo.training.data import PUData
from pu_geo.training.run import Run

IDS = ["b8", "b9", "b10"]


def accept(layout: Layout, ids: list[str]) -> None:
    with store.connect(layout) as db:
        facts = {"run_id": "run", "decision": "accept", "building_ids": ids}
        decisions.decide(db, "-".join(ids), pseudo_positives.KIND, "-".join(ids), facts, analyst="ann")


def test_what_a_method_is_told_holds_them_and_the_clicks_do_not(chipped: Layout) -> None:
    plain = read_inputs(chipped)
    accept(chipped, IDS)
    inputs = read_inputs(chipped)
    assert inputs.is_accepted is not None
    assert [inputs.pu.building_ids[row] for row in np.flatnonzero(inputs.is_accepted)] == IDS
    np.testing.assert_array_equal(inputs.pu.is_positive, plain.pu.is_positive)
    assert inputs.learned_as_positive.sum() == 9
    click(chipped, "b0", "b1", damage_types=["roof"])
    typed = read_inputs(chipped)
    assert (
        typed.with_types(chipped, "answers", catalog.card("ncl")).learned_as_positive.sum() == 6
    )  # nobody named their type
    (words,) = typed.warnings
    assert words.startswith("Learned from 3 buildings")
    (words,) = typed.with_types(chipped, "answers", catalog.card("fedaws")).warnings
    assert words.startswith("3 buildings of accepted clusters were not learned from")
    several = typed.with_types(chipped, "answers", catalog.card("herocon"))
    assert several.learned_as_positive.sum() == 9
    assert several.types is not None
    assert (several.types.labels[typed.is_accepted] == -1).all()


def test_ranker_ranks_by_them_but_estimates_and_counts_by_clicks(chipped: Layout) -> None:
    before = facts_of(chipped, str(train_task.rank(job_of(chipped, "one"))["run_id"]))
    accept(chipped, IDS)
    after = facts_of(chipped, str(train_task.rank(job_of(chipped, "two"))["run_id"]))
    assert (before.n_accepted, after.n_accepted) == (0, 3)
    assert (after.n_positive, after.n_unlabeled, after.start_k) == (
        before.n_positive, before.n_unlabeled, before.start_k,
    )  # fmt: skip
    assert any("3 buildings of accepted clusters" in words for words in after.warnings)
    told = [build_damage_map(chipped, run.run_id, None).metadata for run in (before, after)]
    assert [each["n_accepted_from_clusters"] for each in told] == [0, 3]
    assert [each["n_positive_clicks"] for each in told] == [6, 6]
    first, second = (array_of(chipped, run.run_id) for run in (before, after))
    rows = [8, 9, 10]
    assert (second[rows] > first[rows]).all()
    assert not set(IDS) & set(labeling.current_labels(chipped))


def test_the_class_prior_is_that_of_what_is_left_unlabeled(chipped: Layout, monkeypatch: pytest.MonkeyPatch) -> None:
    accept(chipped, IDS)
    inputs = read_inputs(chipped)
    n = int((~inputs.pu.is_positive & ~inputs.pu.is_excluded).sum())
    for share, prior in ((None, None), (0.5, (0.5 * n - 3) / (n - 3)), (0.1, 0)):  # .1: more were accepted than that
        monkeypatch.setattr("pu_geo.analysis.estimates.estimated_share", lambda *_, share=share, **__: share)
        assert inputs.prior() == (prior if prior is None else pytest.approx(prior))
    monkeypatch.setattr("pu_geo.analysis.estimates.estimated_share", lambda *_, **__: 0.4)
    click(chipped, "b0", "b1", damage_types=["roof"])
    assert read_inputs(chipped).with_types(chipped, "answers", catalog.card("ncl")).prior() == 0.4


def test_training_is_told_of_them_and_goes_on_with_those_it_began_with(
    chipped: Layout, monkeypatch: pytest.MonkeyPatch
) -> None:
    accept(chipped, IDS)
    used: list[tuple[int, float]] = []
    fit = baselines.fit

    def seen(data: PUData, settings: Any, run: Run) -> Any:
        used.append((data.is_positive.sum(), settings.class_prior))
        return fit(data, settings, run)

    monkeypatch.setattr(baselines, "fit", seen)
    monkeypatch.setattr("pu_geo.analysis.estimates.estimated_share", lambda *_, **__: 0.4)
    n = int((~read_inputs(chipped).pu.is_positive & ~read_inputs(chipped).pu.is_excluded).sum())
    done = train_task.train(job_of(chipped, "one"), method="nnpu", preset="quick", overrides={"epochs": 2})
    assert used == [(9, pytest.approx((0.4 * n - 3) / (n - 3)))]
    facts = facts_of(chipped, str(done["run_id"]))
    assert (facts.n_positive, facts.n_accepted) == (6, 3)
    assert facts.settings["class_prior"] == 0, "what was guessed is not among the settings that people see"
    begun = chipped.jobs / "begun"
    assert read_inputs(chipped, begun).n_accepted == 3
    accept(chipped, ["b11"])
    assert read_inputs(chipped, begun).n_accepted == 3
    assert read_inputs(chipped).n_accepted == 4


def test_a_later_answer_overrules(chipped: Layout) -> None:
    accept(chipped, IDS)
    click(chipped, "b8", label="not_damaged", analyst="bob")
    click(chipped, "b9", analyst="bob")
    inputs = read_inputs(chipped)
    assert inputs.n_accepted == 1
    assert inputs.pu.is_positive.sum() == 7
    assert inputs.pu.is_not_damaged.sum() == 7
