"""Every method of the catalog, the instant ranker and PUPL as scikit-learn estimators.

`from pu_geo.methods.estimators import NcPU`, or `pu_geo.NcPU`. A class per card of the catalog, built from the card: a new
method has one by itself. An estimator trains by the functions that a run of the app calls, so its scores are those that the
app stores for the same data, settings and seed.

What all estimators take:

* X: features, float [N, D]; views of features, float [V, N, D], of which view 0 is the chip as it was cut; or chips, uint8
  [N, C, H, W]. Chips are turned into frozen features in 17 views, as the app does, where the preset works on features.
* y: bools, or integers 1 (damaged) and 0 (not reviewed), [N].
* known_negative, excluded, queued, accepted: chips that a person called not damaged; that are scored, but not learned from;
  positives that the app's queue put before the analyst; chips of accepted clusters, which are learned from as if they were
  positive. Bool [N] or row numbers each. `Project.to_fit` has all four.

Example:
    >>> model = NcPU(preset="quick", random_state=0).fit(X, y)  # doctest: +SKIP
    >>> is_damaged = model.decision_function(X) >= model.threshold_  # doctest: +SKIP
"""

from __future__ import annotations

import textwrap
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, replace
from inspect import Parameter, Signature
from itertools import pairwise
from typing import Any, ClassVar, Self, TypedDict, Unpack, cast

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, ClusterMixin
from sklearn.utils import Tags, TransformerTags, check_random_state, column_or_1d
from sklearn.utils.validation import check_is_fitted, validate_data

from pu_geo.analysis import collapse, estimates, place, pseudo_labels, pupl, ranker, ranking_evidence
from pu_geo.errors import InputError, NoProbability, ShapeError, TrainingError
from pu_geo.features.bank import FEATURE_SEED, N_VIEWS, fit_default
from pu_geo.features.rcf import RcfBank
from pu_geo.methods import catalog
from pu_geo.methods.fitting import fit_and_score, pu_data, require_labels
from pu_geo.methods.settings import MethodCard, bounds_of
from pu_geo.records import PUSet, View
from pu_geo.training.data import Bools, ChipImages, FeatureViews, require_mask
from pu_geo.training.network import FEATURES, TrainedModel
from pu_geo.training.run import Run, best_device

Floats = NDArray[np.floating]
Callback = Callable[[Mapping[str, object]], object]


class Marks(TypedDict, total=False):
    """What else is known of the chips, bool [N] or row numbers each; see the module."""

    known_negative: ArrayLike | None
    excluded: ArrayLike | None
    queued: ArrayLike | None
    accepted: ArrayLike | None


MADE_UP_LABELS = "Labels that it makes up are not 0 and 1, and are refused."
CHECKS_THAT_CANNOT_PASS: Mapping[str, str] = {
    "check_classifiers_classes": "Wants scores above 0 for class 1; ours are the app's, in [0, 1], to be compared with "
    "threshold_.",
    "check_classifiers_train": "The same; and few y are positive by chance.",
    "check_classifiers_one_label": "Without positives, or with nothing else, there is nothing to learn from: a "
    "TrainingError.",
    "check_classifier_not_supporting_multiclass": "y other than 0 and 1 is refused in our words.",
    "check_fit2d_1feature": "Has 3 positives; methods refuse fewer than 5.",
    **dict.fromkeys(
        ("check_classifier_data_not_an_array", "check_dtype_object", "check_estimators_dtypes", "check_estimators_nan_inf"),
        MADE_UP_LABELS,
    ),
}
CHECKS_THAT_PUPL_CANNOT_PASS: Mapping[str, str] = {
    "check_clustering": "Clusters without y; PUPL is anchored in the positives.",
    **dict.fromkeys(
        (
            "check_dont_overwrite_parameters",
            "check_fit2d_predict1d",
            "check_fit2d_1feature",
            "check_methods_subset_invariance",
        ),
        "Sets n_clusters to 1.",
    ),
    **dict.fromkeys(
        (
            "check_dict_unchanged",
            "check_dtype_object",
            "check_estimators_dtypes",
            "check_estimators_fit_returns_self",
            "check_estimators_nan_inf",
            "check_estimators_overwrite_params",
            "check_f_contiguous_array_estimator",
            "check_fit_score_takes_y",
            "check_methods_sample_order_invariance",
            "check_n_features_in_after_fitting",
            "check_non_transformer_estimators_n_iter",
            "check_positive_only_tag_during_fit",
            "check_readonly_memmap_input",
        ),
        MADE_UP_LABELS,
    ),
}
"""For `check_estimator(..., expected_failed_checks=...)` of scikit-learn: the checks that fail on our classes, and why.
`PUCL`, `NCL`
and `SupervisedBaseline` need views or known negatives, which no check passes, so most checks cannot fit them."""
DATES = ("", "pre", "post")
MOST_SEED = 10**8  # `Run.generator` multiplies seeds
MOST_PASSES = 10**6
MOST_BANDS = 16  # of a chip whose bands come last
_FLOATS = (np.float32, np.float16, np.float64)


def as_labels(values: ArrayLike, n: int) -> Bools:
    """Return labels as bool [n].

    Args:
        values: bools, or integers that are 0 or 1, [n].

    Raises:
        InputError: for anything else, with the value; -1 and floats get a sentence of their own.
    """
    hint = "Give 1 for damaged and 0 for not reviewed, one for each chip."
    if values is None:
        raise InputError("This estimator requires y to be passed, but the target y is None.", hint)
    if getattr(getattr(values, "dtype", None), "kind", "O") in "biu" and hasattr(values, "isna"):  # pandas: Int64, boolean
        missing = np.flatnonzero(cast(Any, values).isna())
        if len(missing):
            raise InputError(f"y has no value in row {missing[0]}; labels are bools, or integers 0 and 1.", hint)
        values = cast(Any, values).to_numpy(dtype=np.int64)
    try:
        found = column_or_1d(values, warn=True)
    except ValueError as error:
        raise InputError(f"y must be a list of {n} labels. {error}", hint) from error
    if found.shape != (n,):
        raise InputError(
            f"y has {len(found)} labels for {n} chips: inconsistent numbers of samples: [{n}, {len(found)}].", hint
        )
    if found.dtype.kind == "f":
        raise InputError(
            f"y is of {found.dtype}, continuous values; labels are bools, or integers 0 and 1.", "Write y == 1."
        )
    if found.dtype.kind not in "biu":
        raise InputError(f"y is of {found.dtype}, an unknown label type; labels are bools, or integers 0 and 1.", hint)
    wrong = found[(found != 0) & (found != 1)]
    if len(wrong):
        hint = "-1 is no label here; write 0 for not reviewed." if (wrong == -1).any() else hint
        raise InputError(f"y holds {int(wrong[0])}; labels are bools, or integers 0 and 1.", hint)
    return np.asarray(found, np.bool_)


def as_rows(values: ArrayLike | None, n: int, name: str = "known_negative") -> Bools:
    """Return a choice of chips as bool [n]; none for None.

    Args:
        values: bool [n], or row numbers, each once.

    Raises:
        InputError: for anything else.
    """
    chosen = np.zeros(n, np.bool_)
    found = np.asarray([] if values is None else values)
    if not found.size:
        return chosen
    if found.dtype == np.bool_ and found.shape == (n,):
        return found
    hint = f"Pass bools [{n}], or row numbers such as numpy.flatnonzero({name})."
    if found.dtype.kind not in "iu" or found.ndim != 1:
        raise InputError(
            f"{name} is {found.dtype} {list(found.shape)}; it must be bool [{n}] or a list of row numbers.", hint
        )
    if found.min() < 0 or found.max() >= n or len(np.unique(found)) < len(found):
        raise InputError(
            f"{name} must name rows 0 to {n - 1}, each once; it has {len(found)} numbers from {found.min()} to "
            f"{found.max()}.",
            hint,
        )
    chosen[found] = True
    return chosen


class _Estimator(ClassifierMixin, BaseEstimator):
    """What all rankings share: how X is read, and what follows from scores."""

    threshold_: float
    warnings_: list[str]
    n_features_in_: int
    bank_: RcfBank | None

    def decision_function(self, X: ArrayLike) -> NDArray[np.float32]:
        raise NotImplementedError

    def transform(self, X: ArrayLike) -> NDArray[np.float32]:
        raise NotImplementedError

    def predict(self, X: ArrayLike) -> NDArray[np.int64]:
        """Return 1 where the score, with the 4 decimals of a project's files, is `threshold_` or more, else 0, int64 [N]."""
        return (estimates.written(self.decision_function(X)) >= self.threshold_).astype(np.int64)

    @property
    def predict_proba(self) -> Any:
        """Raise NoProbability: scores order chips, and what they mean as chances only an accuracy assessment can tell."""
        raise NoProbability(
            f"{type(self).__name__} has no predict_proba: its scores order chips and are no probabilities.",
            "Use decision_function(X), and threshold_ to flag. Probabilities, p_damaged, come from an accuracy assessment: "
            "Project.begin_audit, then Project.damage_map.",
        )

    def fit_transform(self, X: ArrayLike, y: ArrayLike, **how: Any) -> NDArray[np.float32]:
        """Fit, and return the embeddings of X, see `transform`."""
        return cast(Any, self).fit(X, y, **how).transform(X)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "threshold_")

    def _forget(self) -> None:
        """Drop what an earlier `fit` learned: one that fails must not leave a mixture of both."""
        for name in [name for name in vars(self) if name.endswith("_") and not name.startswith("__")]:
            delattr(self, name)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        tags.input_tags.three_d_array = True
        tags.transformer_tags = TransformerTags(preserves_dtype=[])
        assert tags.classifier_tags is not None
        tags.classifier_tags.multi_class = False
        tags.classifier_tags.poor_score = True
        return tags

    def _device(self) -> torch.device:
        device = getattr(self, "device", None)
        try:
            found = best_device() if device is None else torch.device(device)
            return torch.empty(0, device=found).device
        except (RuntimeError, AssertionError) as error:  # torch asserts that it was compiled with CUDA
            raise InputError(
                f"device is {device!r}, which cannot be used here: {str(error).splitlines()[0]}",
                "Leave device out, or name 'cpu'.",
            ) from error

    def _read(self, X: ArrayLike, *, reset: bool) -> NDArray[Any]:
        """Return X as features, float [V, N, D], or chips, uint8 [N, C, H, W].

        Args:
            reset: whether it is what is learned from; else it must be of the same kind and size.

        Raises:
            InputError: if it cannot be used.
        """
        found = X if hasattr(X, "ndim") else np.asarray(X) if _depth(X) > 2 else X
        n_dims = getattr(found, "ndim", 2)
        if n_dims == 4:
            chips = np.asarray(found)
            if chips.dtype != np.uint8:
                raise InputError(
                    f"X holds {chips.dtype} chips; chips are uint8 [N, C, H, W], with values from 0 to 255.",
                    "Scale them to 0 to 255 and write X.astype('uint8'); PU-Geo standardises them itself.",
                )
            if chips.shape[3] <= MOST_BANDS < chips.shape[1]:
                raise InputError(
                    f"X has shape {list(chips.shape)}; chips are [N, C, H, W], with their {chips.shape[3]} bands before "
                    "the rows.",
                    "Write np.moveaxis(X, -1, 1).",
                )
            self._remember(int(np.prod(chips.shape[1:])), reset)
            return chips
        if n_dims == 3:
            values = np.asarray(found)
            if values.dtype.kind != "f":
                raise InputError(
                    f"X holds {values.dtype} views; views of features are floats [V, N, D].",
                    "Write X.astype('float32'), or pass chips as uint8 [N, C, H, W].",
                )
            self._remember(values.shape[2], reset)
            self._remember_views(len(values), reset)
        else:
            values = _rows(self, found, _HOW_X, reset=reset, dtype=_FLOATS, ensure_min_samples=2 if reset else 1)[None]
        if values.dtype not in _FLOATS[:2]:
            with np.errstate(over="ignore"):  # infinity is refused below
                values = values.astype(np.float32)
        _require_finite(values, type(self).__name__)
        return values

    def _remember(self, n_features: int, reset: bool) -> None:
        if reset:
            self.n_features_in_ = n_features
        elif n_features != self.n_features_in_:
            raise InputError(
                f"X has {n_features} features, but {type(self).__name__} is expecting {self.n_features_in_} features as "
                "input.",
                "Pass chips or features of the kind that it learned from.",
            )

    def _remember_views(self, n_views: int, reset: bool) -> None:
        """Refuse other numbers of views than those that it learned from: scores are means over them, and so is the
        threshold.
        """
        if reset:
            self.n_views_ = n_views
        elif n_views not in (1, getattr(self, "n_views_", n_views)):
            raise InputError(
                f"X has {n_views} views; this {type(self).__name__} learned from {self.n_views_}.",
                "Pass as many, or view 0 alone, as [V, N, D]: views come first.",
            )

    def _labels(self, y: ArrayLike, found: NDArray[Any]) -> Bools:
        """Return y as bool [N]; where it fits the first axis of views, say that views come first."""
        n = found.shape[1] if found.ndim == 3 else len(found)
        if y is not None and found.ndim == 3 and n != len(found) == np.size(np.asarray(y, dtype=object)):
            raise InputError(
                f"X has shape {list(found.shape)} and y {len(found)} labels; views of features are [V, N, D], views first.",
                "Write X.swapaxes(0, 1).",
            )
        return as_labels(y, n)

    def _answers(self, y: ArrayLike, marks: Marks, found: NDArray[Any]) -> tuple[PUSet, Bools | None]:
        """Return y and marks as a project has them, and which chips are accepted, None without; refuse contradictions."""
        if unknown := [name for name in marks if name not in Marks.__annotations__]:
            raise TypeError(f"{type(self).__name__}.fit() got an unexpected keyword argument {unknown[0]!r}")
        is_positive = self._labels(y, found)
        n = len(is_positive)
        is_not_damaged, is_excluded, is_queued, is_accepted = (
            as_rows(cast(Any, marks.get(name)), n, name) for name in Marks.__annotations__
        )
        both = np.flatnonzero(is_positive & is_not_damaged)
        if len(both):
            raise InputError(
                f"{len(both)} chips are positive in y and in known_negative, too, such as row {both[0]}.",
                "Take them out of one of the two.",
            )
        nothing = np.zeros(n, np.bool_)
        pu = PUSet([""] * n, is_positive, is_not_damaged, nothing, 0, is_queued).without(is_excluded)
        is_accepted = is_accepted & pu.is_open
        return pu, is_accepted if is_accepted.any() else None

    def _judge(
        self, scores: NDArray[np.float32], embeddings: NDArray[np.float32], pu: PUSet, score_type: str,
        evidence: ranking_evidence.RankingEvidence | None, seed: int = 0,
    ) -> None:  # fmt: skip
        """Keep where held-out clicks stand, and add what seems wrong with scores and embeddings to the warnings."""
        used, self.ranking_evidence_ = ~pu.is_excluded, ranking_evidence.facts_of(evidence)
        clusters = pupl.pupl(embeddings[used], pu.is_positive[used], seed=seed)
        found = collapse.signs(
            scores[:0], scores[used & ~pu.is_positive], embeddings, threshold=self.threshold_, score_type=score_type,
            is_oriented=clusters.oriented,
        )  # fmt: skip
        self.warnings_ += [alarm.words for alarm in collapse.alarms(found)]
        if evidence is not None and evidence.is_weak:
            self.warnings_.append(ranking_evidence.words_of(self.ranking_evidence_))

    def _plain(self, X: NDArray[Any]) -> Floats:
        """Return features of the chips as they were cut, float [N, D], by the filters that fit kept."""
        return X[0] if X.ndim == 3 else self._views(X, 1)[0]

    def _views(self, chips: NDArray[np.uint8], n_views: int = N_VIEWS) -> NDArray[np.float16]:
        if self.bank_ is None:
            raise InputError(
                f"X holds chips; this {type(self).__name__} learned from features.", "Pass features of the same kind."
            )
        return self.bank_.transform(chips, n_views, seed=FEATURE_SEED, device=self._device())


def _rows(estimator: BaseEstimator, values: ArrayLike, hint: str, **how: Any) -> NDArray[Any]:
    """Return numbers [N, D], finite or not; see `validate_data` for `how`. Raises InputError for anything else."""
    try:
        shape = list(getattr(values, "shape", None) or np.asarray(values).shape)
        if len(shape) == 2:
            return cast(NDArray[Any], validate_data(estimator, values, ensure_all_finite=False, **how))
    except ValueError as error:
        raise InputError(str(error).strip(), hint) from error
    raise InputError(
        f"X has shape {shape}; it must have a row for each chip.",
        f"Reshape your data: X.reshape(1, -1) is one chip, X.reshape(-1, 1) are chips of one feature. {hint}",
    )


def _require_finite(views: NDArray[Any], name: str) -> None:
    """Raise InputError where a number of features, float [V, N, D], is none or too large."""
    wrong = np.flatnonzero(np.any([~np.isfinite(view).all(axis=1) for view in views], axis=0))
    if len(wrong):
        raise InputError(
            f"X contains NaN or infinity in {len(wrong)} of {views.shape[1]} rows, such as row {wrong[0]}; {name} can "
            "neither learn from these nor score them.",
            "Leave these chips out: X[np.isfinite(X).all(axis=1)] has the others.",
        )


_HOW_X = "Pass finite features [N, D] or views [V, N, D], or chips as uint8 [N, C, H, W]."


def _depth(values: object) -> int:
    """Return how deep lists are nested, by their first entries."""
    return 1 + _depth(values[0] if values else None) if isinstance(values, list | tuple) else getattr(values, "ndim", 0)


class MethodEstimator(_Estimator):
    """A method of the catalog; the classes below are made of it, one a card.

    Attributes after `fit`:
        threshold_: score from which on `predict` says damaged: that of the `start_k_`-th highest unlabeled chip; not
        calibrated. start_k_: how many of the unlabeled that flags: a starting point, not an estimate, see
        `estimates.start_k`. warnings_: what to know before trusting the scores, one sentence each.
        ranking_evidence_: where clicks stand that the method held out, see `analysis.ranking_evidence`; None where it held
        out none.
        history_: what was reported of each epoch, one dict each.
        model_, settings_: the trained network, and the settings as they were asked for.
        bank_: filters of the features of chips; None where it learned from features.
        classes_: [0, 1]. n_features_in_: D, or C * H * W of chips. n_views_: V, where X was views.
    """

    card: ClassVar[MethodCard]
    preset: str
    random_state: Any
    device: Any

    def fit(self, X: ArrayLike, y: ArrayLike, *, callback: Callback | None = None, **marks: Unpack[Marks]) -> Self:
        """Train.

        Args:
            X: what is learned from, see the module.
            y: bools, or integers 1 (damaged) and 0 (not reviewed), [N].
            known_negative, excluded, queued, accepted: see the module; methods that cannot use `known_negative` take them
                for not reviewed.
            callback: called after each epoch with its report, a dict with "stage", "epoch", "epochs", "loss", "progress"
                (0..1),
                ... To stop a training, raise an exception in it, such as `pu_geo.errors.JobCancelled`, or press Ctrl-C: fit
                ends with that exception, and the estimator is not fitted, whatever it learned before.

        Raises:
            InputError(ValueError): if X, y or known_negative cannot be used.
            TrainingError: if there are too few positives, a setting is wrong, or the training diverged.
        """
        return self._fit(X, y, marks, None, callback)

    def decision_function(self, X: ArrayLike) -> NDArray[np.float32]:
        """Return scores, float32 [N] in [0, 1]; higher is more likely damaged. Compare them with `threshold_`."""
        found, gone = self._given(X)  # first: it says so where nothing was fitted
        return self.model_.score(found, gone)

    def transform(self, X: ArrayLike) -> NDArray[np.float32]:
        """Return embeddings, of all views that are scored, float32 [N, E] of unit length."""
        found, gone = self._given(X)
        return self.model_.embed(found, gone)

    @property
    def _takes_chips(self) -> bool:
        return self.settings_.backbone != FEATURES

    def _given(self, X: Any, is_missing: ArrayLike | None = None) -> tuple[NDArray[Any], Bools | None]:
        """Return X as the model takes it, of chips in so many views where it takes features; and its missing views."""
        check_is_fitted(self)
        found = self._read(X, reset=False)
        if self._takes_chips and found.ndim != 4:
            raise InputError(f"X holds features; this {type(self).__name__} learned from chips.", "Pass chips.")
        return self._views(found) if found.ndim == 4 and not self._takes_chips else found, None

    def _chosen(self) -> Any:
        """Return the settings: the preset's, and those that are given."""
        given = {item.name: getattr(self, item.name) for item in fields(self.card.settings)}
        return catalog.settings_for(
            self.card.name, self.preset, {name: value for name, value in given.items() if value is not None}
        )

    def _seed(self) -> int:
        """Return the seed: an int is taken as it is, as in the app; None and a RandomState draw one."""
        given = self.random_state
        if isinstance(given, int | np.integer):
            if not 0 <= given < MOST_SEED:
                raise TrainingError(
                    f"random_state is {given}; it must be at least 0 and below {MOST_SEED:,}.",
                    "Correct random_state.",
                    kind="settings",
                )
            return int(given)
        try:
            return int(check_random_state(given).randint(MOST_SEED))
        except ValueError as error:
            raise InputError(f"random_state is {given!r}.", "Give a whole number, a RandomState, or None.") from error

    def _fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        marks: Marks,
        types: ArrayLike | None,
        callback: Callback | None,
        positions: ArrayLike | None = None,
        more: Callable[[int], Mapping[str, Any]] = lambda _: {},
    ) -> Self:
        """Train; `more` makes further fields of `PUData` of the number of chips."""
        self._forget()
        card, found = self.card, self._read(X, reset=True)
        settings = self._chosen()
        pu, is_accepted = self._answers(y, marks, found)
        if types is not None and not card.several_types:
            is_accepted = None  # nobody named their type
        is_positive, is_unlabeled, n = pu.is_positive, ~pu.is_positive & ~pu.is_excluded, len(pu.is_positive)
        name, n_not_damaged = type(self).__name__, int(pu.is_not_damaged.sum())
        hint = "Give more labels: 1 in y for damaged, known_negative for not damaged; 0 in y means not reviewed."
        require_labels(card, int(is_positive.sum()), n_not_damaged, where="here are", hint=hint, noun="positives")
        if not is_unlabeled.any():
            raise TrainingError(
                f"{name} needs chips that are not reviewed beside the positives; all {int(is_positive.sum())} are positive.",
                "Add chips with 0 in y.",
                kind="unlabeled",
            )
        xy_m = _positions(positions, n)
        bank, inputs, plain = self._inputs(found, settings, pu.is_excluded)
        prepared = ranker.prepare(plain, ~pu.is_excluded)
        evidence = estimates.evidence_to_start_from(prepared, is_positive, is_excluded=pu.is_excluded)
        start_k = estimates.start_k(int(is_unlabeled.sum()), int(is_positive.sum()), evidence)
        history: list[Mapping[str, object]] = []
        run = Run(self._device(), self._seed(), report=_reporter(history, callback))
        learned = is_positive if is_accepted is None else is_positive | is_accepted
        data = pu_data(
            inputs, learned, is_excluded=pu.is_excluded, is_not_damaged=pu.is_not_damaged, types=_types(types, learned),
            is_accepted=is_accepted, is_queued=pu.is_queued,
        )  # fmt: skip
        fitted = fit_and_score(
            card,
            replace(data, xy_m=xy_m, why_no_place="no positions were given", **more(n)),
            settings,
            run,
            prior=lambda: estimates.prior_of(prepared, is_positive, is_excluded=pu.is_excluded, is_accepted=is_accepted),
            start_k=start_k,
            is_unlabeled=is_unlabeled,
        )
        self.model_: TrainedModel = fitted.model
        self.settings_, self.bank_, self.threshold_, self.start_k_ = fitted.settings, bank, fitted.threshold, fitted.start_k
        self.history_, self.classes_ = history, np.array([0, 1])
        self.warnings_ = [*run.warnings, *self._cut_short(history)]
        self._judge(fitted.scores, fitted.embeddings, pu, card.score_type, fitted.evidence, seed=run.seed)
        if card.uses_place:
            self.place_, self.scores_ = {**cast(Any, fitted.place), "threshold": fitted.threshold}, fitted.scores
            self.threshold_ = fitted.threshold_alone
        return self

    def _cut_short(self, history: Sequence[Mapping[str, Any]]) -> list[str]:
        """Return a warning where `max_steps` left fewer epochs than were asked for by name."""
        wanted, most = getattr(self, "epochs", None), getattr(self.settings_, "max_steps", None)
        done = max((int(report["epochs"]) for report in history if report["stage"] == "training"), default=0)
        if wanted is None or most is None or not 0 < done < wanted:
            return []
        return [f"{done} of {wanted} epochs were done: more take over {most} steps. Set max_steps higher."]

    def _inputs(
        self, found: NDArray[Any], settings: Any, is_excluded: Bools
    ) -> tuple[RcfBank | None, FeatureViews | ChipImages, Floats]:
        """Return the filters, what the method learns from, and features of the chips as they were cut."""
        card, is_chips = self.card, found.ndim == 4
        if settings.backbone != FEATURES and not is_chips:
            raise InputError(
                f"backbone is {settings.backbone!r}, which learns from chips; X holds features.",
                "Pass chips as uint8 [N, C, H, W], or preset='quick', which learns from features.",
            )
        if not is_chips and len(found) < card.min_views:
            raise InputError(
                f"{card.title} compares {card.min_views} views of each chip; X has {len(found)}.",
                "Pass views of features [V, N, D], view 0 of the plain chips and the others of augmented ones, or chips as "
                "uint8 [N, C, H, W], of which views are made.",
            )
        if not is_chips:
            return None, FeatureViews(found), np.asarray(found[0], np.float32)
        self.bank_ = bank = fit_default(found, np.flatnonzero(~is_excluded))
        if settings.backbone != FEATURES:
            return bank, ChipImages(found, settings.augmentation), np.asarray(self._plain(found), np.float32)
        views = self._views(found)
        return bank, FeatureViews(views), np.asarray(views[0], np.float32)


class TypedEstimator(MethodEstimator):
    """A method of the catalog that learns from the kind of damage of each positive, too."""

    def fit(
        self, X: ArrayLike, y: ArrayLike, *, types: ArrayLike | None = None, callback: Callback | None = None,
        **marks: Unpack[Marks],
    ) -> Self:  # fmt: skip
        """Train; see `MethodEstimator.fit`.

        Args:
            types: kind of damage of each chip, texts or integers [N]; only those of the positives are read, and "damaged"
                stands where one is empty. One kind for all if None.
        """
        return self._fit(X, y, marks, types, callback)


class LayeredEstimator(TypedEstimator):
    """A method of the catalog that takes named views of each chip, some of which may be missing, and several types of
    damage.

    X may also be a dict: name of a view -> its features, float [N, D] or [V, N, D], or its bands of the chips, uint8 [N, B,
    H, W], of equal N; see `fit` for their dates.

    Attributes after `fit`:
        views_: the named views, in order; () without.
        types_: names of the damage types that `type_scores` judges.
    """

    views_: tuple[View, ...] = ()

    def fit(
        self, X: Any, y: ArrayLike, *, types: ArrayLike | None = None,
        Y: ArrayLike | None = None, type_names: Sequence[str] = (), is_ordinal: bool = False,
        dates: Mapping[str, str] | None = None, is_missing: ArrayLike | None = None, callback: Callback | None = None,
        **marks: Unpack[Marks],
    ) -> Self:  # fmt: skip
        """Train; see `MethodEstimator.fit`.

        Args:
            X: an array, or a dict of views.
            types: one kind of damage of each chip, as in other methods; not together with Y.
            Y: several types of each chip, integers [N, c]: 1 it has the type, 0 it has not, -1 nobody answered. Read of the
                positives.
            type_names: c names; "type 1", ... if empty.
            is_ordinal: whether the columns of Y are a scale: who has one has all before it.
            dates: name of a view of a dict X -> "pre", "post" or "" for none, which is also that of a view that is not
                named.
            is_missing: views that a chip lacks, bool [V, N], in the order of the views. What X holds there is not read, but
                must be finite.
        """
        array, found = self._joined(X, dates)
        if found and np.ndim(array) == 4 and self._chosen().backbone == FEATURES:
            raise InputError(
                f"X holds chips in named views, and preset {self.preset!r} learns from features.",
                "Pass features of each view, or choose preset='standard', which learns from chips.",
            )
        if Y is not None and types is not None:
            raise InputError("Y and types are both given.", "Give Y for several types of a chip, types for one.")

        def more(n: int) -> dict[str, Any]:
            gone = None if is_missing is None else _mask(is_missing, (len(found), n))
            parts: dict[str, Any] = {"views": found, "is_missing": gone}
            if Y is not None:
                labels, names = _type_labels(Y, n, type_names)
                parts |= {"type_labels": np.where(as_labels(y, n)[:, None], labels, -1).astype(np.int8), "type_names": names}
                parts["is_ordinal"] = is_ordinal
            return parts

        self._fit(array, y, marks, types, callback, more=more)
        self.views_, self.types_ = found, tuple(str(name) for name in self.model_.findings["kinds"])
        return self

    def decision_function(self, X: Any, is_missing: ArrayLike | None = None) -> NDArray[np.float32]:
        """Return scores, float32 [N] in [0, 1]: X and is_missing as in `fit`."""
        found, gone = self._given(X, is_missing)  # first: it says so where nothing was fitted
        return self.model_.score(found, gone)

    def type_scores(self, X: Any, is_missing: ArrayLike | None = None) -> NDArray[np.float32]:
        """Return a score of each type of `types_`, float32 [N, c] in [0, 1]: X and is_missing as in `fit`."""
        found, gone = self._given(X, is_missing)  # first: it says so where nothing was fitted
        return self.model_.type_scores(found, gone)

    def transform(self, X: Any, is_missing: ArrayLike | None = None) -> NDArray[np.float32]:
        """Return embeddings, of all views that are scored, float32 [N, E] of unit length: X and is_missing as in `fit`."""
        found, gone = self._given(X, is_missing)
        return self.model_.embed(found, gone)

    def _given(self, X: Any, is_missing: ArrayLike | None = None) -> tuple[NDArray[Any], Bools | None]:
        check_is_fitted(self)
        if _is_of_views(X) and set(X) != {view.name for view in self.views_}:
            names = ", ".join(view.name for view in self.views_) or "no named views"
            raise InputError(f"X has the views {', '.join(X)}; it learned from {names}.", "Pass the same views.")
        ordered = {view.name: X[view.name] for view in self.views_} if _is_of_views(X) else X
        found, _ = super()._given(self._joined(ordered, {})[0])
        n = found.shape[1] if found.ndim == 3 else len(found)
        return found, None if is_missing is None else _mask(is_missing, (len(self.views_), n))

    def _joined(self, X: Any, dates: Mapping[str, str] | None) -> tuple[Any, tuple[View, ...]]:
        """Return X as one array, and its views."""
        arrays = {str(name): np.asarray(each) for name, each in X.items()} if _is_of_views(X) else {}
        known = dates or {}
        if odd := [name for name in known if name not in arrays or known[name] not in DATES]:
            raise InputError(f"dates has {odd[0]!r}: {known[odd[0]]!r}.", 'Give "pre", "post" or "" for names of the views.')
        if not arrays:
            return X, ()
        axis = 1 if all(each.ndim == 4 for each in arrays.values()) else -1
        try:
            array = np.concatenate(list(arrays.values()), axis=axis)
        except ValueError as error:
            shapes = ", ".join(f"{name} {list(each.shape)}" for name, each in arrays.items())
            raise InputError(
                f"The views do not fit together: {shapes}.", "Give arrays that differ in bands or columns alone."
            ) from error
        ends = pairwise(np.cumsum([0, *(each.shape[axis] for each in arrays.values())]).tolist())
        spans = zip(arrays, ends, strict=True)
        return array, tuple(View(name, cast(Any, known.get(name, "")), *span) for name, span in spans)


def _is_of_views(X: object) -> bool:
    return isinstance(X, Mapping) and not hasattr(X, "shape")  # SciPy's sparse dok_array is a dict


def _mask(values: ArrayLike, shape: tuple[int, int]) -> Bools:
    """Return missing views as bool [V, N]. Raises InputError for anything else."""
    found = np.asarray(values)
    try:
        require_mask(found, shape)
    except ShapeError as error:
        hint = "Pass X as a dict of views, and one row of bools for each."
        raise InputError(str(error), hint) from error
    return found


def _type_labels(Y: ArrayLike, n: int, names: Sequence[str]) -> tuple[NDArray[np.int8], tuple[str, ...]]:
    """Return several types of each chip, int8 [n, c], and their names. Raises InputError for anything else."""
    found = np.asarray(Y)
    hint = (
        f"Give integers [{n}, c]: 1 has the type, 0 has not, -1 nobody answered; and a name for each column, or none at all."
    )
    if found.dtype.kind not in "biu" or found.ndim != 2 or len(found) != n or not found.shape[1]:
        raise InputError(f"Y is {found.dtype} {list(found.shape)} for {n} chips.", hint)
    if not np.isin(found, (-1, 0, 1)).all():
        raise InputError(f"Y holds {int(found[~np.isin(found, (-1, 0, 1))][0])}.", hint)
    named = tuple(map(str, names)) or tuple(f"type {number}" for number in range(1, found.shape[1] + 1))
    if len(set(named)) != found.shape[1] or len(named) != found.shape[1]:
        raise InputError(f"type_names are {', '.join(named)}; Y has {found.shape[1]} columns.", hint)
    return found.astype(np.int8), named


class PlacedEstimator(MethodEstimator):
    """A method of the catalog that can let the scores of neighboring buildings count, see `analysis.place`.

    Chips elsewhere have other neighbors, so `decision_function` and `threshold_` are without this evidence; see `scores_`.
    """

    def fit(
        self, X: ArrayLike, y: ArrayLike, *, positions: ArrayLike | None = None, callback: Callback | None = None,
        **marks: Unpack[Marks],
    ) -> Self:  # fmt: skip
        """Train; see `MethodEstimator.fit`.

        Args:
            positions: places of the chips, float [N, 2], metres in a plane such as UTM; used where `neighbors` is "on".
                Neighbors do not count without.
        """
        return self._fit(X, y, marks, None, callback, positions)


_AFTER_PLACED = """
        scores_: of the chips that it learned from, float32 [N], as a project stores them: with evidence from place where
            `place_["used"]`, otherwise those of `decision_function`.
        place_: whether neighbors count: {"used", "weight", "b", "m", "why_not", "threshold" to compare `scores_` with}."""


class PURanker(_Estimator):
    """The instant ranker: a logistic regression of the positives against all others, both sides weighing the same.

    The penalty follows the damaged share that the clicks suggest. It draws nothing at random, and answers in a moment. Of
    views the first one counts. Its scores order chips; they are no probabilities.

    Args:
        device: on which features of chips are made; the fastest one if None.

    Attributes after `fit`:
        threshold_, start_k_, warnings_, ranking_evidence_, bank_, classes_, n_features_in_: as of `MethodEstimator`.
        coef_, intercept_: slope, float [D], and offset for standardised features.
    """

    def __init__(self, *, device: Any = None) -> None:
        self.device = device

    def fit(self, X: ArrayLike, y: ArrayLike, **marks: Unpack[Marks]) -> Self:
        """Fit; see `MethodEstimator.fit`. Chips called not damaged weigh as much as 30 that are not reviewed, and those of
        the queue as much as others.

        Raises:
            InputError(ValueError): if X, y or known_negative cannot be used.
            TrainingError: without a positive, or without a chip that is none.
        """
        self._forget()
        found = self._read(X, reset=True)
        pu, is_accepted = self._answers(y, marks, found)
        n, is_unlabeled = int(pu.is_positive.sum()), ~pu.is_positive & ~pu.is_excluded
        if not n or not is_unlabeled.any():
            raise TrainingError(
                f"PURanker needs chips with 1 in y and chips with 0; {n} of {n + int(is_unlabeled.sum())} are 1.",
                "Give 1 for damaged and 0 for not reviewed.",
                kind="positives",
            )
        self.bank_ = fit_default(found, np.flatnonzero(~pu.is_excluded)) if found.ndim == 4 else None
        prepared = ranker.prepare(np.asarray(self._plain(found), np.float32), ~pu.is_excluded)
        ranking, _ = estimates.fit_with_estimate(
            prepared, pu.is_positive, is_excluded=pu.is_excluded, is_not_damaged=pu.is_not_damaged,
            is_accepted=is_accepted,
        )  # fmt: skip
        evidence = estimates.evidence_to_start_from(prepared, pu.is_positive, is_excluded=pu.is_excluded)
        self.start_k_ = estimates.start_k(int(is_unlabeled.sum()), n, evidence)
        scores = ranking.scores(prepared.values)
        self._mean, self._scale, self._axes = prepared.mean, prepared.scale, ranker.widest_axes(prepared.values)
        self.coef_, self.intercept_, self.classes_ = ranking.slope, ranking.offset, np.array([0, 1])
        self.threshold_ = estimates.first_threshold(scores[is_unlabeled], self.start_k_)
        self.warnings_ = []
        self._judge(scores, ranker.embeddings_along(self._axes, prepared.values), pu, "linear", evidence)
        return self

    def decision_function(self, X: ArrayLike) -> NDArray[np.float32]:
        """Return scores, float32 [N] in [0, 1]; higher is more likely damaged. Compare them with `threshold_`."""
        values = self._standardised(X)  # first: it says so where nothing was fitted
        return ranker.Ranking(self.coef_, self.intercept_).scores(values)

    def transform(self, X: ArrayLike) -> NDArray[np.float32]:
        """Return the features along their 64 widest axes, float32 [N, 64] of unit length."""
        values = self._standardised(X)
        return ranker.embeddings_along(self._axes, values)

    def _standardised(self, X: ArrayLike) -> NDArray[np.float32]:
        check_is_fitted(self)
        values = np.array(self._plain(self._read(X, reset=False)), np.float32)
        values -= cast(NDArray[np.float32], self._mean)
        values /= cast(NDArray[np.float32], self._scale)
        return values


class PUPL(ClusterMixin, BaseEstimator):
    """PUPL: pseudo-labels from clusters of embeddings, one of which starts at the mean of the positives.

    Source: PUCL, Algorithm 1(B); more than two clusters are k-means, ranked by their share of positives, see
    `analysis.pupl`.

    Args:
        n_clusters: 2 gives pseudo-labels, where 1 means damaged; more sort the chips into kinds for a person to judge.
        random_state: seed, from 0 on; None and a RandomState draw one.
        n_init: seedings that compete; 8 for two clusters and 3 for more, if None.
        max_iter: passes over the embeddings at most.

    Attributes after `fit`:
        labels_: cluster of each row, int64 [N].
        cluster_centers_: float64 [K, E] of unit length.
        is_oriented_: False where two clusters do not follow the positives: do not trust the labels then.
        positive_share_: share of positives in each cluster, float64 [K]. ranking_: clusters, most promising first, int64
        [K]. inertia_, n_iter_: sum of squared distances, and passes that it took.
        warnings_: where two clusters follow something else than the positives; `fit` warns of it, too.
    """

    def __init__(
        self, n_clusters: int = 2, *, random_state: Any = 0, n_init: int | None = None, max_iter: int = 100
    ) -> None:
        self.n_clusters, self.random_state, self.n_init, self.max_iter = n_clusters, random_state, n_init, max_iter

    def fit(self, z: ArrayLike, y: ArrayLike) -> Self:
        """Cluster embeddings, float [N, E]; y: bools, or integers 1 (damaged) and 0 (not reviewed), [N].

        Raises:
            InputError(ValueError): if z or y cannot be used.
            TrainingError: without a positive, or without a row that is none.
        """
        hint = "Pass finite embeddings [N, E], such as transform gives."
        values = _rows(self, z, hint, dtype=[np.float64, np.float32], ensure_min_samples=2)
        _require_finite(values[None], "PUPL")
        is_positive = as_labels(y, len(values))
        seed = self.random_state
        seed = int(seed) if isinstance(seed, int | np.integer) else int(check_random_state(seed).randint(MOST_SEED))
        for name, value, low, high in (
            ("n_clusters", self.n_clusters, 2, len(values)),
            ("random_state", seed, 0, MOST_SEED),
            ("n_init", 1 if self.n_init is None else self.n_init, 1, MOST_PASSES),
            ("max_iter", self.max_iter, 1, MOST_PASSES),
        ):
            if not isinstance(value, int | np.integer) or not low <= value <= high:
                up_to = f"n_samples={high}" if name == "n_clusters" else f"{high:,}"
                raise InputError(
                    f"{name} is {value!r}; it must be a whole number from {low} to {up_to}.", f"Correct {name}."
                )
        how: dict[str, Any] = {"seed": seed, "max_iterations": self.max_iter}
        how |= {} if self.n_init is None else {"n_seedings": self.n_init}
        if self.n_clusters == 2:
            found = pupl.pupl(values, is_positive, **how)
        else:
            found = pupl.over_cluster(values, is_positive, k=self.n_clusters, **how)
        self.labels_, self.cluster_centers_, self.inertia_ = found.labels, found.centroids, found.potential
        self.is_oriented_, self.positive_share_, self.ranking_ = found.oriented, found.positive_share, found.ranking
        self.n_iter_, self.warnings_ = found.iterations, self._doubts(values, is_positive, seed)
        for words in self.warnings_:
            warnings.warn(words, stacklevel=2)
        return self

    def _doubts(self, values: NDArray[np.floating], is_positive: Bools, seed: int) -> list[str]:
        """Return what speaks against two clusters: held-out positives that many small ones put clearly earlier."""
        if self.n_clusters != 2:
            return []
        if not self.is_oriented_:
            return ["The positives do not lean to their cluster: do not trust the two clusters."]
        if is_positive.sum() < pseudo_labels.FEWEST_CLICKS:
            return []
        by_reading = pseudo_labels.Readings(values, seed).log_places(is_positive)
        two, many = by_reading[pseudo_labels.TWO_MEANS], by_reading[pseudo_labels.CLUSTERS]
        if not pseudo_labels.is_clear(many - two):
            return []
        return [
            f"Two clusters do not follow the positives; {pupl.usual_k(len(values))} small ones do. Set n_clusters to that "
            "and look at `ranking_`, clusters with the largest share of positives first."
        ]

    def fit_predict(self, z: ArrayLike, y: ArrayLike) -> NDArray[np.int64]:
        """Cluster embeddings, see `fit`, and return the cluster of each row, int64 [N]."""
        return self.fit(z, y).labels_

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        return tags


def _reporter(history: list[Mapping[str, object]], callback: Callback | None) -> Callable[[Mapping[str, object]], None]:
    def report(values: Mapping[str, object]) -> None:
        known = estimates.without_guesses(values)
        history.append(known)
        if callback is not None:
            callback(dict(known))

    return report


def _positions(positions: ArrayLike | None, n: int) -> NDArray[np.float64] | None:
    """Return places as float64 [n, 2]; None for None. Raises InputError for anything else, and for degrees."""
    if positions is None:
        return None
    hint = "Give (x, y) of each chip in metres, such as project.positions()."
    try:
        found = place.checked_places(np.asarray(positions, np.float64))
    except InputError:
        raise
    except (ShapeError, ValueError, TypeError) as error:
        raise InputError(f"positions must be numbers [{n}, 2], metres. {error}", hint) from error
    if len(found) != n:
        raise InputError(f"positions has {len(found)} rows for {n} chips.", hint)
    return found


def _types(types: ArrayLike | None, is_positive: Bools) -> dict[int, str]:
    """Return the kind of damage of each positive, by row; nothing for None."""
    if types is None:
        return {}
    found = np.asarray(types, dtype=object)
    if found.shape != is_positive.shape:
        raise InputError(
            f"types is {list(found.shape)}; it must be [{len(is_positive)}], a kind of damage for each chip.",
            "Leave it empty for chips that are not positive.",
        )
    texts = {int(row): str(found[row]).strip() for row in np.flatnonzero(is_positive)}
    return {row: "damaged" if text in _EMPTY else text for row, text in texts.items()}


_EMPTY = ("", "None", "nan", "NaN", "NaT", "<NA>")  # how Python, numpy and pandas write a value that is missing


def _signature(card: MethodCard) -> Signature:
    """Return the parameters of a card's class: preset, seed, device, and every setting."""
    plain, named = Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY
    first = [
        Parameter("self", plain),
        Parameter("preset", plain, default=next(iter(card.presets)), annotation="str"),
        Parameter("random_state", named, default=0, annotation="int | numpy.random.RandomState | None"),
        Parameter("device", named, default=None, annotation="str | torch.device | None"),
    ]
    settings = [
        Parameter(item.name, named, default=None, annotation=f"{type(item.default).__name__} | None")
        for item in fields(card.settings)
    ]
    return Signature([*first, *settings])


def _words(card: MethodCard) -> str:
    """Return the docstring of a card's class."""
    parts = [f"{card.title}. {card.summary}", f"Source: {card.paper}.", f"Needs: {card.needs}", f"Cannot: {card.cannot}"]
    parameters = [
        ("preset", f"where settings start from: {', '.join(card.presets)}. A setting that is None has the preset's value."),
        ("random_state", "seed, from 0 on; the app's is 0. None and a RandomState draw one."),
        ("device", "such as 'cpu' or 'cuda'; the fastest one if None."),
    ]
    for item in fields(card.settings):
        choices = item.metadata.get("choices") or ()
        bounds = f"one of {', '.join(choices)}" if choices else bounds_of(item.metadata.get("min"), item.metadata.get("max"))
        values = {name: preset.get(item.name, item.default) for name, preset in card.presets.items()}
        shown = ", ".join(f"{value!r} ({name})" for name, value in values.items())
        parameters.append((item.name, f"{item.metadata['help']} {bounds.capitalize()}{'; ' if bounds else ''}{shown}."))
    after = (MethodEstimator.__doc__ or "").partition("\n\n")[2]
    after = after.rstrip() + (_AFTER_PLACED if card.uses_place else "")
    lines = [textwrap.fill(part, 120, break_on_hyphens=False, subsequent_indent="    ") for part in parts]
    lines += [
        "Args:\n"
        + "\n".join(
            textwrap.fill(
                f"{name}: {text}", 120, initial_indent="    ", break_on_hyphens=False, subsequent_indent="        "
            )
            for name, text in parameters
        )
    ]
    return "\n\n".join([*lines, textwrap.dedent(after).rstrip()]) + "\n"


def _made(card: MethodCard) -> type[MethodEstimator]:
    """Make the class of a card; scikit-learn reads its parameters off the signature."""
    signature = _signature(card)

    def __init__(self: MethodEstimator, *args: Any, **values: Any) -> None:
        bound = signature.bind(self, *args, **values)
        bound.apply_defaults()
        for name, value in list(bound.arguments.items())[1:]:
            setattr(self, name, value)

    __init__.__signature__ = signature  # type: ignore[attr-defined]
    typed = LayeredEstimator if card.takes_layers else TypedEstimator
    base = typed if card.uses_types else PlacedEstimator if card.uses_place else MethodEstimator
    body = {"__init__": __init__, "card": card, "__doc__": _words(card), "__module__": __name__}
    return type(card.estimator, (base,), body)


def __getattr__(name: str) -> Any:  # so that type checkers know that names may come from the catalog
    raise AttributeError(
        f"module {__name__!r} has no attribute {name!r}; its estimators are {', '.join(catalog.ESTIMATORS)}."
    )


ALL: Mapping[str, type[MethodEstimator]] = {card.estimator: _made(card) for card in catalog.METHODS.values()}
"""The class of each card by its name."""
globals().update(ALL)
__all__: Sequence[str] = list(catalog.ESTIMATORS)
