"""Every estimator: scikit-learn's conventions, what it refuses, and that its scores are those of a run of the app."""

import pickle
import warnings
from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from golden_parts import require_refusals
from method_parts import long_but
from model_parts import SHORT, SIDE_PX, N, trained, with_chips
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.utils.estimator_checks import check_estimator
from small_parts import add_chips, click, facts_of, job_of

from pu_geo.analysis import estimates, pupl
from pu_geo.analysis.ranking_evidence import words_of
from pu_geo.api import Project
from pu_geo.errors import InputError, JobCancelled, PuGeoError, TrainingError
from pu_geo.features.bank import FEATURE_SEED, N_VIEWS, fit_default
from pu_geo.methods import catalog, estimators
from pu_geo.methods.estimators import NCL, PUCL, PUPL, HeroCon, NcPU, PURanker
from pu_geo.runs.train_job import rank
from pu_geo.store import decisions, pseudo_positives, runs, store
from pu_geo.store.layout import Layout

NAMES = [card.estimator for card in catalog.METHODS.values()]
TINY = {"epochs": 2, "max_steps": 4, "rounds": 2, "local_steps": 1, "width": 8, "embedding_dim": 4, "projection_hidden": 4,
        "prediction_hidden": 4, "projection_dim": 4, "batch_size": 10}  # fmt: skip
every_method = pytest.mark.parametrize("name", NAMES)


def cut_short(name: str, values: Mapping[str, Any] = SHORT, **others: Any) -> estimators.MethodEstimator:
    cls = estimators.ALL[name]
    known = cls.card.settings.__dataclass_fields__
    return cls(device="cpu", **{key: int(value) for key, value in values.items() if key in known}, **others)


tiny = partial(cut_short, values=TINY)


def made_up(n: int = 60, n_views: int = 3) -> tuple[NDArray[np.float32], NDArray[np.int64], NDArray[np.bool_]]:
    """Views of features, labels with ten positives, and ten chips that are known to be undamaged."""
    draw = np.random.default_rng(0)
    truth = np.arange(n) < n // 2
    centre = draw.normal(size=(n, 6)) + 2 * truth[:, None]
    views = (centre + 0.3 * draw.normal(size=(n_views, n, 6))).astype(np.float32)
    return views, (np.arange(n) < 10).astype(np.int64), np.arange(n) >= n - 10


def test_there_is_one_for_each_card_and_the_catalog_names_them_without_torch() -> None:
    assert list(estimators.ALL) == NAMES
    assert set(estimators.__all__) == {"PURanker", "PUPL", *NAMES}
    assert len(set(NAMES)) == len(catalog.METHODS)
    with pytest.raises(AttributeError, match=r"no attribute 'XPU'; its estimators are PURanker, .*NcPU"):
        estimators.XPU  # noqa: B018


@every_method
def test_parameters_are_those_of_the_card_and_described(name: str) -> None:
    cls, made = estimators.ALL[name], estimators.ALL[name]()
    settings = list(cls.card.settings.__dataclass_fields__)
    assert list(made.get_params()) == sorted(["preset", "random_state", "device", *settings])
    assert repr(made) == f"{name}()"
    assert all(f"    {parameter}: " in str(cls.__doc__) for parameter in settings)
    again = clone(made.set_params(backbone="features", random_state=3))
    assert again.get_params() == made.get_params()
    with pytest.raises(TypeError, match="unexpected keyword"):
        cls(no_such_setting=1)


@every_method
def test_what_it_gives_after_fit_on_one_thread(name: str) -> None:
    views, y, known = made_up()
    seen: list[Any] = []
    during: set[int] = set()

    def callback(report: Mapping[str, object]) -> None:
        seen.append(report)
        during.add(torch.get_num_threads())

    model = tiny(name).fit(views, y, known_negative=known, callback=callback)
    assert during == {1}
    assert model.history_ == seen
    assert {"stage", "epoch", "epochs", "progress"} <= set(seen[-1])
    scores, z = model.decision_function(views), model.transform(views)
    np.testing.assert_array_equal(z, model.model_.embed(views))  # of all that is scored
    assert model.threshold_ in estimates.written(scores[y == 0])
    assert 2 <= model.start_k_ == (estimates.written(scores[y == 0]) >= model.threshold_).sum() <= 25, "half of 50 at most"
    assert (model.ranking_evidence_ is None) == (name != "PropagatedRanking"), "the others hold no clicks out"
    assert not hasattr(model, "estimated_share_"), "what clicks suggest is no estimate of the damage"
    np.testing.assert_array_equal(model.predict(views), estimates.written(scores) >= model.threshold_)
    assert (model.n_features_in_, model.classes_.tolist()) == (6, [0, 1])
    assert not hasattr(model, "predict_proba"), "scores order chips and are no probabilities"
    with pytest.raises(PuGeoError, match=r"no probabilities\. Use decision_function"):
        _ = model.predict_proba
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.decision_function(views), scores)


@every_method
def test_the_callback_can_stop_and_too_few_labels_are_refused(name: str) -> None:
    card, (views, y, known) = estimators.ALL[name].card, made_up()

    def stop(report: Mapping[str, object]) -> None:
        raise JobCancelled

    model = tiny(name)
    with pytest.raises(JobCancelled):
        model.fit(views, y, known_negative=known, callback=stop)
    with pytest.raises(Exception, match="not fitted"):
        model.predict(views)
    few = y * (np.cumsum(y) < card.min_positives)
    with pytest.raises(TrainingError, match=f"needs at least {card.min_positives} positives; here are"):
        model.fit(views, few, known_negative=known)
    with pytest.raises(TrainingError, match="all 60 are positive" if not card.min_not_damaged else "undamaged; here are 0"):
        model.fit(views, np.ones(60, int))


@pytest.mark.parametrize("make", [lambda: tiny("NcPU"), PURanker], ids=["NcPU", "PURanker"])
def test_a_fit_that_fails_leaves_nothing_of_the_one_before(make: Any) -> None:
    views, y, _ = made_up()
    model = make().fit(pd.DataFrame(views[0]).rename(columns=str), y)
    assert hasattr(model, "feature_names_in_")
    with pytest.raises(TrainingError):
        model.fit(views[:, :, :4], np.zeros(len(y), int))
    assert {name for name in vars(model) if name.endswith("_")} <= {"n_features_in_", "n_views_", "bank_"}
    with pytest.raises(Exception, match="not fitted"):
        model.predict(views)
    assert model.fit(views, y).n_features_in_ == views.shape[2]
    assert not hasattr(model, "feature_names_in_")


def test_what_does_not_fit_what_was_learned_from_is_refused() -> None:
    views, y, _ = made_up()
    model = tiny("NcPU").fit(views, y)
    require_refusals(
        (InputError, "X has 5 features, but NcPU is expecting 6", lambda: model.predict(views[:, :, :5])),
        (InputError, "expecting 6 features", lambda: model.predict(np.zeros((4, 3, 16, 16), np.uint8))),
        (InputError, "60 views; this NcPU learned from 3", lambda: model.decision_function(views.swapaxes(0, 1))),
        (InputError, "'small', which learns from chips", lambda: NcPU(backbone="small").fit(views, y)),
        (InputError, "views first", lambda: PURanker().fit(views.swapaxes(0, 1), y)),
        (InputError, "6 bands before the rows", lambda: tiny("NcPU").fit(np.zeros((60, 32, 32, 6), np.uint8), y)),
        (InputError, r"compares 2 views of each chip; X has 1\.", lambda: PUCL().fit(views[0], y)),
        (InputError, r"compares 2 views of each chip; X has 1\.", lambda: NCL().fit(views[0], y)),
    )


def test_devices_and_seeds_that_cannot_be_are_refused_and_a_random_state_draws_one() -> None:
    views, y, _ = made_up()
    for error, changes in (
        (InputError, {"device": "gpu7"}), (InputError, {"random_state": "a"}),
        (TrainingError, {"random_state": -1}), (TrainingError, {"random_state": 10**8}),
    ):  # fmt: skip
        ((name, value),) = changes.items()
        with pytest.raises(error, match=f"{name} is '?{value}"):
            tiny("NcPU").set_params(**changes).fit(views, y)
    first, again, other = (
        tiny("NcPU").set_params(random_state=np.random.RandomState(seed)).fit(views, y).decision_function(views)
        for seed in (1, 1, 2)
    )  # fmt: skip
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, other)


def test_what_is_predicted_is_what_a_map_flags() -> None:
    """Scores count as files have them, with 4 decimals; `analysis` may not import `project`, so both have that line."""
    scores = np.random.default_rng(0).random(10_000, np.float32)
    np.testing.assert_array_equal(estimates.written(scores), runs.written(scores))
    model = PURanker().fit(*made_up()[:2])
    model.decision_function = lambda X: np.array([0.49994, 0.49996, 0.5], np.float32)
    model.threshold_ = 0.5
    assert model.predict(None).tolist() == [0, 1, 1]


REFUSED: list[tuple[str, Any, str]] = [
    ("y", np.array([0.0, 1.0] * 30), "continuous values; labels are bools, or integers 0 and 1. Write y == 1."),
    ("y", np.array([-1, 1] * 30), "y holds -1; .* -1 is no label here; write 0 for not reviewed."),
    ("y", np.array(["a", "b"] * 30), "labels are bools, or integers 0 and 1"), ("y", None, "y is None"),
    ("y", [1, 0], "y has 2 labels for 60 chips"),
    ("y", pd.Series([pd.NA, *[1, 0] * 29, 1], dtype="Int64"), "y has no value in row 0"),
    ("X", np.full((60, 6), np.nan, np.float32), "NaN or infinity in 60 of 60 rows, such as row 0"),
    ("X", np.full((60, 6), 1e300), "NaN or infinity"), ("X", [1.0] * 60, "a row for each chip. Reshape your data"),
    ("z", np.full((60, 6), np.nan), "PUPL can neither learn from"), ("z", np.zeros(60), "Reshape your data"),
    ("X", np.zeros((60, 3, 16, 16), np.float32), r"float32 chips; chips are uint8 \[N, C, H, W\]"),
    ("X", np.zeros((3, 60, 6), np.int64), "int64 views"), ("X", np.zeros(60, np.float32), r"X has shape \[60\]"),
    ("known_negative", [0], "positive in y and in known_negative, too"),
    *(("known_negative", wrong, "known_negative") for wrong in ([60], [-1], [3, 3], ["a"], [[1]], [True] * 5)),
    ("positions", np.zeros((59, 2)), "59 rows for 60 chips"),
    ("positions", ["a"] * 60, r"numbers \[60, 2\], metres"),
    ("positions", np.full((60, 2), np.nan), "60 of 60 positions are not finite"),
    ("positions", np.random.default_rng(0).random((60, 2)) / 100, "must be in metres"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "value", "words"), REFUSED)
def test_what_cannot_be_is_refused(name: str, value: Any, words: str) -> None:
    takers = {"y": [tiny("NcPU"), PURanker(), PUPL()], "z": [PUPL()], "positions": [tiny("PropagatedRanking")]}
    for estimator in takers.get(name, [tiny("NcPU"), PURanker()]):
        given = {"X": made_up()[0][0], "y": made_up()[1], "X" if name == "z" else name: value}
        with pytest.raises(InputError, match=words) as refused:
            estimator.fit(given.pop("X"), given.pop("y"), **given)
        assert isinstance(refused.value, ValueError)
        assert isinstance(refused.value, PuGeoError)


def test_labels_and_known_negatives_have_many_forms() -> None:
    views, y, known = made_up()

    def scores(labels: Any, known_negative: Any = None) -> NDArray[np.float32]:
        return PURanker().fit(views, labels, known_negative=known_negative).decision_function(views)

    for same in (y == 1, y.tolist(), y.astype(np.uint8), pd.Series(y, dtype="Int64"), pd.Series(y, dtype="boolean")):
        np.testing.assert_array_equal(scores(same), scores(y))
    assert not np.array_equal(scores(y), scores(y, known))
    np.testing.assert_array_equal(scores(y, np.flatnonzero(known)), scores(y, known))


def test_kinds_of_damage_are_learned_by_methods_that_can() -> None:
    views, y, known = made_up()
    kinds = ["roof" if i % 2 else "wall" for i in range(60)]
    typed = tiny("HeroCon").fit(views, y, known_negative=known, types=kinds)
    assert isinstance(typed, HeroCon)
    assert set(typed.model_.findings["kinds"]) >= {"roof", "wall"}
    for name in ("types", "positions"):
        with pytest.raises(TypeError, match=name):
            tiny("NcPU").fit(views, y, **{name: kinds})
    with pytest.raises(InputError, match=r"types is \[2\]"):
        tiny("HeroCon").fit(views, y, types=["roof", "wall"])
    missing = np.array([np.nan, pd.NA, pd.NaT, None, "", *["flood"] * 55], dtype=object)
    assert set(estimators._types(missing, np.ones(60, bool)).values()) == {"damaged", "flood"}


# The same as the app

HIDDEN = 13
IS_HIDDEN = np.arange(N) == HIDDEN


@pytest.fixture
def project_of_the_app(project: Layout) -> Layout:
    """Twenty chips with the app's filters and 17 views, one of them hidden; six positives and six undamaged."""
    rng = np.random.default_rng(0)
    chips = rng.integers(60, 120, (N, 6, SIDE_PX, SIDE_PX)).astype(np.uint8)
    chips[:8, -3:, 3:9, 3:9] = 220
    chips[HIDDEN] = 0
    bank = fit_default(chips, np.delete(np.arange(N), HIDDEN))
    views = bank.transform(chips, N_VIEWS, seed=FEATURE_SEED, device=torch.device("cpu"))
    ids = [f"b{i}" for i in range(N)]
    add_chips(
        project, ids, bands="pre+post", size_px=SIDE_PX, chips=chips, features=views, nodata_share=IS_HIDDEN.astype(float).tolist()
    )  # fmt: skip
    np.savez(project.filters("set"), allow_pickle=False, **bank.state())
    click(project, *ids[:6])
    click(project, *ids[-6:], label="not_damaged")
    return project


def as_the_app(layout: Layout, model: Any, run_id: str, X: NDArray[Any]) -> None:
    project = Project.open(layout.folder)
    how = {"positions": project.positions()} if hasattr(model, "card") and model.card.uses_place else {}
    model.fit(X, project.labels(), **how, **project.to_fit())
    np.testing.assert_array_equal(
        getattr(model, "scores_", model.decision_function(X)), runs.array(layout, run_id, "scores")
    )
    np.testing.assert_array_equal(model.decision_function(X), runs.scores_alone(layout, run_id))
    np.testing.assert_array_equal(model.transform(X), runs.array(layout, run_id, "embeddings"))
    facts = facts_of(layout, run_id)
    assert round(model.place_["threshold"] if how else model.threshold_, 4) == facts.threshold
    assert (facts.start_k, facts.settings.get("class_prior", 0)) == (model.start_k_, 0)
    assert facts.evidence == model.ranking_evidence_
    of_evidence = [words_of(facts.evidence)] if facts.evidence and facts.evidence["is_weak"] else []
    given = ("1 buildings were not learned from", "Learned from 1 buildings of accepted clusters")  # which `to_fit` says
    known = [words for words in facts.warnings if not words.startswith(given)]
    assert sorted(model.warnings_) == sorted(known + of_evidence)


@pytest.mark.parametrize("method", catalog.METHODS)
def test_scores_are_those_of_a_run_of_the_app(method: str, project: Layout) -> None:
    layout = with_chips(project, nodata_share=IS_HIDDEN.astype(float).tolist())
    click(layout, "b6", "b7", shown="exploit")
    click(layout, "b12", label="not_assessable", reason="cloud")
    click(layout, f"b{HIDDEN}")
    with store.connect(layout) as db:
        accepted = {"run_id": "run", "decision": "accept", "building_ids": ["b8"]}
        decisions.decide(db, "1", pseudo_positives.KIND, "1", accepted, analyst="ann")
    run_id = trained(layout, method)
    model = cut_short(catalog.card(method).estimator)
    as_the_app(layout, model, run_id, np.load(layout.features("set")))
    assert dict(facts_of(layout, run_id).settings) == {
        name: getattr(model.settings_, name) for name in facts_of(layout, run_id).settings
    }


@pytest.mark.parametrize(
    ("name", "settings"), [("NcPU", {}), ("PropagatedRanking", {}), ("CrossEntropy", {"backbone": "small"})]
)
def test_chips_give_the_scores_of_a_run_of_the_app(name: str, settings: Any, project_of_the_app: Layout) -> None:
    layout = project_of_the_app
    run_id = trained(layout, estimators.ALL[name].card.name, **settings)
    as_the_app(layout, cut_short(name, **settings), run_id, np.load(layout.chips("set")))


def test_the_ranker_is_that_of_the_app_and_scores_other_chips(project_of_the_app: Layout) -> None:
    layout = project_of_the_app
    run_id = str(rank(job_of(layout, "rank"))["run_id"])
    for X in (np.load(layout.features("set")), np.load(layout.chips("set"))):
        as_the_app(layout, PURanker(), run_id, X)
    click(layout, "b12", label="not_assessable", reason="cloud")
    as_the_app(layout, PURanker(), str(rank(job_of(layout, "again"))["run_id"]), np.load(layout.features("set")))
    views, y, _ = made_up()
    model = PURanker().fit(views, y)
    np.testing.assert_allclose(model.decision_function(views[0, :7]), model.decision_function(views)[:7], atol=1e-6)


# PUPL


def test_pupl_is_the_function_of_analysis_and_doubts_clusters_that_follow_something_else() -> None:
    z, y = made_up()[0][0], made_up()[1]
    two = PUPL(n_clusters=2)
    labels = two.fit_predict(z, y)
    found = pupl.pupl(z, y == 1, seed=0)
    np.testing.assert_array_equal(labels, found.labels)
    assert (two.is_oriented_, two.inertia_) == (found.oriented, found.potential)
    many = PUPL(n_clusters=5, random_state=3).fit(z, y)
    np.testing.assert_array_equal(many.labels_, pupl.over_cluster(z, y == 1, k=5, seed=3).labels)
    assert many.positive_share_[many.ranking_[0]] == many.positive_share_.max()
    for name, value in (("n_clusters", 1), ("n_clusters", 2.5), ("n_clusters", 61), ("n_init", 0), ("max_iter", 0)):
        with pytest.raises(InputError, match=f"{name} is {value}; it must be a whole number"):
            PUPL(**{name: value}).fit(z, y)
    # Two big groups, and the positives in a small corner of each: many small clusters follow them.
    rng = np.random.default_rng(0)
    z = rng.normal(size=(600, 8)) * 0.3 + np.where(np.arange(600)[:, None] % 2, 3.0, -3.0) * np.eye(8)[0]
    corner = np.arange(600) < 60
    z[corner] += 4 * np.eye(8)[1]
    with pytest.warns(UserWarning, match="Two clusters do not follow the positives|do not lean to their cluster"):
        assert len(PUPL().fit(z, (corner & (rng.random(600) < 0.5)).astype(int)).warnings_) == 1
    groups = rng.normal(size=(600, 8)) * 0.3 + 4 * np.eye(8)[(np.arange(600) < 200).astype(int)]
    assert PUPL().fit(groups, (np.arange(600) < 40).astype(int)).warnings_ == []


# The checks of scikit-learn

IN_CHECKS = {"HeroCon": {"unsupervised_weight": 0.0}}
MORE_THAN_X_AND_Y = {"PUCL", "NCL", "SupervisedBaseline"}  # they need views or known negatives, which no check passes
OTHERS = [name for name in NAMES if name != "NcPU"]
ONE_METHOD = pytest.param("NcPU", marks=pytest.mark.ci)


def for_checks(name: str, cls: Any) -> Any:
    if name in ("PURanker", "PUPL"):
        return cls()
    values = {**TINY, "epochs": 1, "max_steps": 1, "rounds": 1, **IN_CHECKS.get(name, {})}
    return cls(**{key: value for key, value in values.items() if key in cls.card.settings.__dataclass_fields__})


def listed(name: str) -> dict[str, str]:
    return dict(estimators.CHECKS_THAT_PUPL_CANNOT_PASS if name == "PUPL" else estimators.CHECKS_THAT_CANNOT_PASS)


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["PURanker", "PUPL", ONE_METHOD, *long_but([], [each for each in OTHERS if each not in MORE_THAN_X_AND_Y])]
)
def test_the_checks_that_are_listed_fail_and_no_others(name: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        done = check_estimator(
            for_checks(name, getattr(estimators, name)), expected_failed_checks=listed(name), on_skip=None
        )
    by_status = {status: {each["check_name"] for each in done if each["status"] == status} for status in ("xfail", "passed")}
    assert by_status["xfail"] == set(listed(name))
    assert by_status["passed"].isdisjoint(listed(name))
    assert len(by_status["passed"]) > 25
