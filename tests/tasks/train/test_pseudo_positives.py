"""The next run learns from accepted clusters, and counts, estimates and labels go without them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from clustered_parts import chipped
from model_parts import job_of
from small_parts import click, facts_of

from pu_geo.methods import baselines, catalog
from pu_geo.project import decisions, pseudo_positives, runs, store
from pu_geo.project.layout import Layout
from pu_geo.services.annotate import labeling
from pu_geo.tasks.damage_map.damage_map import build_damage_map
from pu_geo.tasks.train import train as train_task
from pu_geo.tasks.train.inputs import read_inputs

IDS = ["b8", "b9", "b10"]


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    return chipped(tmp_path)


def accept(layout: Layout, ids: list[str]) -> None:
    with store.connect(layout) as db:
        facts = {"run_id": "run", "decision": "accept", "building_ids": ids}
        decisions.decide(db, "-".join(ids), pseudo_positives.KIND, "-".join(ids), facts, analyst="ann")


def test_what_a_method_is_told_holds_them_and_the_clicks_do_not(layout: Layout) -> None:
    plain = read_inputs(layout)
    accept(layout, IDS)
    inputs = read_inputs(layout)
    assert inputs.is_accepted is not None
    assert [inputs.pu.building_ids[row] for row in np.flatnonzero(inputs.is_accepted)] == IDS
    np.testing.assert_array_equal(inputs.pu.is_positive, plain.pu.is_positive)
    assert inputs.learned_as_positive.sum() == 9
    click(layout, "b0", "b1", damage_types=["roof"])
    typed = read_inputs(layout)
    assert typed.with_types(layout, "answers", catalog.card("ncl")).learned_as_positive.sum() == 6  # nobody named their type
    several = typed.with_types(layout, "answers", catalog.card("herocon"))
    assert several.learned_as_positive.sum() == 9
    assert several.types is not None
    assert (several.types.labels[typed.is_accepted] == -1).all()


def test_ranker_ranks_by_them_but_estimates_and_counts_by_clicks(layout: Layout) -> None:
    before = facts_of(layout, str(train_task.rank(job_of(layout, "one"))["run_id"]))
    accept(layout, IDS)
    after = facts_of(layout, str(train_task.rank(job_of(layout, "two"))["run_id"]))
    assert (before.n_accepted, after.n_accepted) == (0, 3)
    assert (after.n_positive, after.n_unlabeled, after.start_k) == (
        before.n_positive, before.n_unlabeled, before.start_k,
    )  # fmt: skip
    assert any("3 buildings of accepted clusters" in words for words in after.warnings)
    told = [build_damage_map(layout, run.run_id, None).metadata for run in (before, after)]
    assert [each["n_accepted_from_clusters"] for each in told] == [0, 3]
    assert [each["n_positive_clicks"] for each in told] == [6, 6]
    first, second = (np.asarray(runs.array(layout, run.run_id, "scores")) for run in (before, after))
    rows = [8, 9, 10]
    assert (second[rows] > first[rows]).all()
    assert not set(IDS) & set(labeling.current_labels(layout))


def test_buildings_of_accepted_clusters_are_passed_over_in_words_where_kinds_are_learned(layout: Layout) -> None:
    accept(layout, IDS)
    click(layout, "b0", "b1", damage_types=["roof"])
    inputs = read_inputs(layout)
    (words,) = inputs.with_types(layout, "answers", catalog.card("fedaws")).warnings
    assert words.startswith("3 buildings of accepted clusters were not learned from")
    (words,) = inputs.warnings
    assert words.startswith("Learned from 3 buildings")


def test_the_class_prior_is_that_of_what_is_left_unlabeled(layout: Layout, monkeypatch: pytest.MonkeyPatch) -> None:
    accept(layout, IDS)
    inputs = read_inputs(layout)
    n = int((~inputs.pu.is_positive & ~inputs.pu.is_excluded).sum())
    for share, prior in ((None, None), (0.5, (0.5 * n - 3) / (n - 3)), (0.1, 0)):  # .1: more were accepted than that
        monkeypatch.setattr("pu_geo.analysis.estimates.estimated_share", lambda *_, share=share, **__: share)
        assert inputs.prior() == (prior if prior is None else pytest.approx(prior))
    monkeypatch.setattr("pu_geo.analysis.estimates.estimated_share", lambda *_, **__: 0.4)
    click(layout, "b0", "b1", damage_types=["roof"])
    assert read_inputs(layout).with_types(layout, "answers", catalog.card("ncl")).prior() == 0.4
    used: list[float] = []
    fit = baselines.fit
    monkeypatch.setattr(
        baselines, "fit", lambda data, settings, run: used.append(settings.class_prior) or fit(data, settings, run)
    )
    facts = facts_of(layout, str(train_task.train(job_of(layout, "one"), method="nnpu", preset="quick")["run_id"]))
    assert used == [pytest.approx((0.4 * n - 3) / (n - 3))]
    assert facts.settings["class_prior"] == 0, "what was guessed is not among the settings that people see"


def test_training_is_told_of_them_and_goes_on_with_those_it_began_with(
    layout: Layout, monkeypatch: pytest.MonkeyPatch
) -> None:
    accept(layout, IDS)
    seen = []
    load_fit = catalog.load_fit

    def spying(method: str) -> object:
        fit = load_fit(method)

        def watched(data, settings, run):  # type: ignore[no-untyped-def]
            seen.append(data.is_positive.sum())
            return fit(data, settings, run)

        return watched

    monkeypatch.setattr(catalog, "load_fit", spying)
    done = train_task.train(job_of(layout, "one"), method="linear", preset="quick")
    assert seen == [9]
    facts = facts_of(layout, str(done["run_id"]))
    assert (facts.n_positive, facts.n_accepted) == (6, 3)
    begun = layout.jobs / "begun"
    assert read_inputs(layout, begun).n_accepted == 3
    accept(layout, ["b11"])
    assert read_inputs(layout, begun).n_accepted == 3
    assert read_inputs(layout).n_accepted == 4


def test_a_later_answer_overrules(layout: Layout) -> None:
    accept(layout, IDS)
    click(layout, "b8", label="not_damaged", analyst="bob")
    click(layout, "b9", analyst="bob")
    inputs = read_inputs(layout)
    assert inputs.n_accepted == 1
    assert inputs.pu.is_positive.sum() == 7
    assert inputs.pu.is_not_damaged.sum() == 7
