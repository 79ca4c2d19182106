"""What a run starts from: types and grades that people gave, accepted clusters, chips that show something, as they stood."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from model_parts import array_of, job_of, with_chips
from small_parts import click, facts_of

from pu_geo.answers import labeling
from pu_geo.maps.damage_map_job import build_damage_map
from pu_geo.methods import baselines, catalog
from pu_geo.methods.catalog import settings_for
from pu_geo.runs import train_job as train_task
from pu_geo.runs.inputs_job import read_inputs
from pu_geo.runs.monitor_job import curve_of
from pu_geo.store import decisions, events, grades, pseudo_positives, store
from pu_geo.store.grades import USUAL
from pu_geo.store.job import Job
from pu_geo.store.layout import Layout, write_json
from pu_geo.training.data import PUData
from pu_geo.training.run import Run

SHORT = {"epochs": "2", "max_steps": "4"}
IDS = ["b8", "b9", "b10"]


@pytest.fixture
def typed(chipped: Layout) -> Layout:
    """Six damaged buildings, five with types, one of them with two; six undamaged; eight not reviewed."""
    click(chipped, "b0", "b1", damage_types=["roof"], grade="minor")
    click(chipped, "b2", damage_types=["roof", "flooded"], grade="major")
    click(chipped, "b3", damage_types=["flooded"], absent_types=["roof"], grade="major")
    click(chipped, "b4", damage_types=["tent"])
    return chipped


def data_of(typed: Layout, method: str, types_from: str) -> PUData:
    inputs = read_inputs(typed).with_types(typed, types_from, catalog.card(method))
    return inputs.data(typed, settings_for(method, "quick"))


def test_answers_become_labels_of_several_types(typed: Layout) -> None:
    data = data_of(typed, "herocon", "answers")
    assert data.type_labels is not None
    assert (data.type_names, data.is_ordinal) == (("roof", "flooded"), False)
    assert data.type_labels[:6].tolist() == [[1, -1], [1, -1], [1, 1], [0, 1], [-1, -1], [-1, -1]]
    assert (data.type_labels[6:14] == -1).all()
    assert (data.type_labels[14:] == 0).all()


def test_grades_become_a_scale(typed: Layout) -> None:
    data = data_of(typed, "herocon", "grades")
    assert data.type_labels is not None
    assert (data.type_names, data.is_ordinal) == (("at least Minor", "at least Major"), True)
    assert data.type_labels[:6].tolist() == [[1, 0], [1, 0], [1, 1], [1, 1], [1, -1], [1, -1]]


def test_a_method_of_one_kind_each_gets_the_rarest(typed: Layout) -> None:
    data = data_of(typed, "ncl", "answers")
    named = [data.class_names[number] for number in data.classes[:6]]
    assert named == ["roof", "roof", "flooded", "flooded", "damaged", "damaged"]
    inputs = read_inputs(typed).with_types(typed, "answers", catalog.card("ncl"))
    several = read_inputs(typed).with_types(typed, "answers", catalog.card("herocon"))
    assert any("were not learned: tent (1)" in words for words in several.warnings)
    assert any(words.startswith("1 building has several damage types") for words in inputs.warnings)
    assert not any("several" in words for words in several.warnings)


def test_without_types_a_method_gets_what_it_always_got(typed: Layout) -> None:
    data = read_inputs(typed).data(typed, settings_for("herocon", "quick"))
    assert (data.type_labels, data.type_names, data.class_names) == (None, (), ("not damaged", "damaged"))


@pytest.mark.slow
def test_a_run_notes_which_grades_its_types_are(typed: Layout) -> None:
    how = {"method": "herocon", "preset": "quick", "overrides": SHORT, "types_from": "grades"}
    facts = facts_of(typed, str(train_task.train(job_of(typed, "graded"), **how)["run_id"]))  # type: ignore[arg-type]
    assert (facts.types, facts.type_grades) == (("at least Minor", "at least Major"), ("minor", "major"))


def test_a_training_that_goes_on_keeps_the_scale_it_began_with(typed: Layout, tmp_path: Path) -> None:
    begun = tmp_path / "job" / "checkpoints"
    begun.parent.mkdir()
    first = read_inputs(typed, begun).with_types(typed, "grades", catalog.card("herocon"))
    with store.connect(typed) as db:
        grades.put(db, USUAL[:1])
    click(typed, "b5", damage_types=["roof"], grade="destroyed")
    again = read_inputs(typed, begun).with_types(typed, "grades", catalog.card("herocon"))
    assert first.types is not None
    assert again.types is not None
    assert again.types.names == first.types.names
    np.testing.assert_array_equal(again.types.labels, first.types.labels)


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
    inputs = read_inputs(chipped)
    (words,) = inputs.warnings
    assert words.startswith("Learned from 3 buildings")
    one_each, several = (inputs.with_types(chipped, "answers", catalog.card(method)) for method in ("ncl", "herocon"))
    (words,) = one_each.warnings
    assert words.startswith("3 buildings of accepted clusters were not learned from"), "nobody named their type"
    assert (one_each.learned_as_positive.sum(), several.learned_as_positive.sum()) == (6, 9)
    assert several.types is not None
    assert (several.types.labels[inputs.is_accepted] == -1).all()


def test_ranker_ranks_by_them_but_estimates_and_counts_by_clicks(chipped: Layout) -> None:
    before = facts_of(chipped, str(train_task.rank(job_of(chipped, "one"))["run_id"]))
    accept(chipped, IDS)
    after = facts_of(chipped, str(train_task.rank(job_of(chipped, "two"))["run_id"]))
    assert (before.n_accepted, after.n_accepted) == (0, 3)
    assert [(one.n_positive, one.n_unlabeled, one.start_k) for one in (before, after)] == [(6, 14, before.start_k)] * 2
    assert any("3 buildings of accepted clusters" in words for words in after.warnings)
    told = build_damage_map(chipped, after.run_id, None).metadata
    assert (told["n_accepted_from_clusters"], told["n_positive_clicks"]) == (3, 6)
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


def test_other_chips_make_a_training_begin_anew(clicked: Layout, tmp_path: Path) -> None:
    begun = tmp_path / "begun"
    assert read_inputs(clicked, begun).pu.at_event == 6
    events.append(tmp_path, "epoch", {"stage": "training", "epoch": 7, "loss": 9.0})
    (begun / "training-newest.pt").touch()
    click(clicked, "b15")
    assert read_inputs(clicked, begun).pu.at_event == 6
    write_json(begun / "began_with.json", {"chip_set": "older", "at_event": 2})
    assert read_inputs(clicked, begun).pu.at_event == 7
    assert not (begun / "training-newest.pt").exists()
    events.append(tmp_path, "epoch", {"stage": "training", "epoch": 1, "loss": 1.0})
    assert [row["epoch"] for row in curve_of(Job(clicked, tmp_path))] == [1]  # the epochs before were of other chips
    assert [row["epoch"] for row in events.curve(events.read(tmp_path))] == [1]


def test_nothing_is_learned_from_hidden_chips_and_the_run_says_how_many(project: Layout) -> None:
    """A black pre chip taught the model that black is undamaged: 29 of the destroyed were missed for 1."""
    layout = with_chips(project, is_clicked=False)
    path = layout.chip_facts("set")
    facts = json.loads(path.read_text())
    none = [0.0] * 20
    shares = {"outside": none, "nodata": none, "cloud": none}
    hidden = {**shares, "nodata": [1.0 if i in (3, 16, 17) else 0.0 for i in range(20)]}
    write_json(path, {**facts, "bands": "pre+post", "post_outline": shares, "pre_outline": hidden, "nodata_share": none})
    click(layout, *(f"b{i}" for i in range(12)))
    inputs = read_inputs(layout)
    assert np.flatnonzero(inputs.pu.is_excluded).tolist() == [3, 16, 17]
    assert inputs.pu.is_positive.sum() == 11
    np.testing.assert_array_equal(inputs.plain, np.load(layout.features("set"))[0].astype(np.float32))
    scaled = inputs.prepared().values[~np.isin(np.arange(20), (3, 16, 17))]
    np.testing.assert_allclose(scaled.mean(0), 0, atol=1e-5)  # mean and spread are those of the visible alone
    made = train_task.rank(job_of(layout, "rank"))
    found = facts_of(layout, str(made["run_id"]))
    assert (found.n_hidden, found.n_positive, found.n_unlabeled) == (3, 11, 6)
    assert "3 buildings were not learned from" in " ".join(found.warnings)
