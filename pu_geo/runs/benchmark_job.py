"""Reproduce rows of tables: train methods on positives and unlabeled of a data set, test them on chips set aside."""

from __future__ import annotations

import datetime as dt
import hashlib
import json
import os
import platform
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.metrics import accuracy_score, f1_score

from pu_geo.analysis import estimates, metrics, ranker
from pu_geo.datasets.classified import UNKNOWN_CLASS, ClassifiedChips, PUSplit
from pu_geo.errors import DatasetError, TrainingError
from pu_geo.features import rcf
from pu_geo.features.rcf import RcfBank
from pu_geo.methods import catalog
from pu_geo.records import Bools, Chips, Singles
from pu_geo.runs.tables_job import Setting, Table, split
from pu_geo.training import augment
from pu_geo.training.data import ChipImages, FeatureViews, PUData
from pu_geo.training.run import Run, best_device

RANKER = "ranker"
ALL_METHODS = (RANKER, *catalog.METHODS)
ORACLE = "supervised"
N_FILTERS = 128
Overrides = Mapping[str, str | float]
_VIEWS = {"natural": augment.NATURAL, "aerial": augment.AERIAL}


@dataclass(frozen=True)
class Outcome:
    """One method on one setting with one seed; figures are of the test chips.

    Attributes:
        n_test_positive: positives among the `n_test`.
        auc, ap, oa, f1: in [0, 1]; the last two at the method's own threshold, 0.5.
        seconds: of processor time in training and scoring; the first method of a draw also makes its features.
        made_with: names all that the figures depend on: data, what counts as positive, split, settings of the method.
    """

    setting: str
    method: str
    preset: str
    seed: int
    n_positive: int
    n_unlabeled: int
    n_test: int
    n_test_positive: int
    auc: float
    ap: float
    oa: float
    f1: float
    seconds: float
    made_with: str = ""


def run_table(
    table: Table, path: Path, *, methods: Sequence[str] = (), preset: str = "quick", seeds: int = 5, only: str = "",
    overrides: Overrides | None = None, kept: Path | None = None,
    echo: Callable[[str], None] = lambda line: None,
) -> list[Outcome]:  # fmt: skip
    """Do all methods on all settings of a table.

    Args:
        table: one of `tables.TABLES`, or one of a project of one's own.
        path: the data set's files.
        methods: short names and "ranker"; all that have the preset if empty.
        seeds: how many draws of positives and unlabeled, 0 .. seeds - 1.
        only: a part of the names of the settings to be done.
        overrides: settings of methods that differ from the preset, where a method has them.
        kept: file of finished outcomes, one JSON line each: they are not done again, and new ones are added to it.

    Returns:
        The outcomes, those kept before included. The supervised method has none where no chips are set aside for testing.

    Raises:
        DatasetError: if the files cannot be used.
        TrainingError: for an unknown method, preset or setting.
    """
    chosen = [each for each in table.settings if only.lower() in each.name.lower()]
    for method in methods:
        if method != RANKER:
            catalog.settings_for(method, preset)
    every = methods or [name for name in ALL_METHODS if name == RANKER or preset in catalog.card(name).presets]
    _require_known(overrides or {}, every)
    data = table.read(path)
    digest = _digest_of(data)
    made_with = {(each.name, m): _made_with(digest, each, m, preset, overrides or {}) for each in chosen for m in every}
    asked = {(name, m, _preset(m, preset), seed, key) for (name, m), key in made_with.items() for seed in range(seeds)}
    done = [each for each in read_kept(kept) if _key(each) in asked]
    known = {_key(each) for each in done}
    for setting in chosen:
        for seed in range(seeds):
            wanted = [
                m for m in every if (setting.name, m, _preset(m, preset), seed, made_with[setting.name, m]) not in known
            ]
            for made in _one_draw(data, setting, wanted, preset, seed, overrides or {}):
                outcome = replace(made, made_with=made_with[setting.name, made.method])
                done.append(outcome)
                echo(f"{setting.name}, seed {seed}, {outcome.method}: AUC {outcome.auc:.3f}, OA {outcome.oa:.3f}")
                if kept is not None:
                    with kept.open("a", encoding="utf-8") as file:
                        file.write(json.dumps(asdict(outcome)) + "\n")
    return done


def _key(outcome: Outcome) -> tuple[str, str, str, int, str]:
    return outcome.setting, outcome.method, outcome.preset, outcome.seed, outcome.made_with


def _require_known(overrides: Overrides, methods: Sequence[str]) -> None:
    """Raise for a setting that no method has: it would stand in the command of a table that knows nothing of it."""
    known = set[str]().union(*map(_settings_names, methods))
    for name in overrides:
        if name not in known:
            raise TrainingError(f"None of these methods has a setting {name!r}; they have {', '.join(sorted(known))}.",
                                "Correct the name, or leave it out.", kind="settings")  # fmt: skip


def _digest_of(data: ClassifiedChips) -> str:
    """Name the data, by some of the chips."""
    digest = hashlib.sha256(f"{data.chips.shape} {data.class_names}".encode())
    digest.update(data.classes.tobytes() + data.is_test.tobytes())
    digest.update(b"" if data.place is None else data.place.tobytes())
    digest.update(np.ascontiguousarray(data.chips[:: max(1, len(data.chips) // 100)]).tobytes())
    return digest.hexdigest()


def _made_with(digest: str, setting: Setting, method: str, preset: str, overrides: Overrides) -> str:
    """Name what an outcome depends on beside method, preset and seed."""
    asked = {name: value for name, value in asdict(setting).items() if name != "published"}
    settings = {} if method == RANKER else asdict(_settings_of(method, preset, overrides))
    more: list[object] = []
    if settings.get("backbone") == "features":
        more.append({"test_views": rcf.RcfSettings().n_views})
    if setting.is_case_control and settings.get("class_prior") == 0:
        more.append("true class prior")
    text = json.dumps([digest, asked, settings, *more], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def _settings_of(method: str, preset: str, overrides: Overrides) -> Any:
    """Return a method's settings, with those of the overrides that it has."""
    known = _settings_names(method)
    return catalog.settings_for(method, preset, {name: value for name, value in overrides.items() if name in known})


def _settings_names(method: str) -> set[str]:
    """Return the names of a method's settings; the ranker has none."""
    return set() if method == RANKER else {item.name for item in fields(catalog.card(method).settings)}


def read_kept(kept: Path | None) -> list[Outcome]:
    """Read finished outcomes; a last line that a kill cut off is taken out of the file."""
    if kept is None or not kept.exists():
        return []
    text = kept.read_text(encoding="utf-8", errors="replace")
    lines = [line for line in text.splitlines() if line.strip()]
    rows = []
    for number, line in enumerate(lines, 1):
        try:
            rows.append(Outcome(**json.loads(line)))
        except (ValueError, TypeError) as cause:
            if number < len(lines) or text.endswith("\n") or not line.startswith("{"):
                raise DatasetError(f"Line {number} of {kept.name} is no outcome.", "Keep outcomes in another file.",
                                   kind="corrupt") from cause  # fmt: skip
            kept.write_text("".join(f"{each}\n" for each in lines[:-1]), encoding="utf-8")
    return rows


def _preset(method: str, preset: str) -> str:
    return "instant" if method == RANKER else preset


def _one_draw(
    data: ClassifiedChips, setting: Setting, methods: Sequence[str], preset: str, seed: int,
    overrides: Overrides,
) -> Iterator[Outcome]:  # fmt: skip
    """Compute outcomes of methods on one draw, on the same features."""
    if not methods:
        return
    drawn = split(data, setting, seed)
    if np.isin(drawn.test, drawn.unlabeled).any():
        methods = [m for m in methods if m != ORACLE]  # it would learn the answers that it is asked for
    scene = _Draw(data, drawn, setting, seed)
    for method in methods:
        began = time.process_time()
        scores, called = scene.ranked() if method == RANKER else scene.trained(method, preset, overrides)
        truth = scene.truth[drawn.test]
        yield Outcome(
            setting.name,
            method,
            _preset(method, preset),
            seed,
            len(drawn.positive),
            len(drawn.unlabeled),
            len(truth),
            int(truth.sum()),
            metrics.auc(scores, truth),
            metrics.average_precision(scores, truth),
            float(accuracy_score(truth, called)),
            float(f1_score(truth, called, zero_division=np.nan)),
            round(time.process_time() - began, 2),
        )


class _Draw:
    """Chips of one draw: those learned from, positives first, and those tested on."""

    def __init__(self, data: ClassifiedChips, drawn: PUSplit, setting: Setting, seed: int) -> None:
        self.data, self.drawn, self.setting, self.seed = data, drawn, setting, seed
        self.truth = data.is_one_of(setting.positive)
        self.rows = np.concatenate([drawn.positive, drawn.unlabeled])
        self.is_labeled = np.arange(len(self.rows)) < len(drawn.positive)
        self.device = best_device()

    @cached_property
    def features(self) -> tuple[NDArray[np.float16], NDArray[np.float16]]:
        """Frozen features of 17 views of the chips learned from, and of the test chips; made once."""
        learned = np.ascontiguousarray(self.data.chips[self.rows])
        bank = rcf.RcfBank.fit(learned, torch.Generator().manual_seed(self.seed), rcf.RcfSettings(n_filters=N_FILTERS))
        return self._views(learned, bank), self._views(self.data.chips[self.drawn.test], bank)

    def _views(self, chips: Chips, bank: RcfBank) -> NDArray[np.float16]:
        kind = _VIEWS[self.setting.augmentation]
        return bank.transform(chips, rcf.RcfSettings().n_views, seed=self.seed, device=self.device, augmentation=kind)

    def ranked(self) -> tuple[Singles, Bools]:
        """Return scores of the test chips by the instant ranker, and the ones called positive: as many as are estimated."""
        views, test = self.features
        n = len(self.rows)
        mask = np.concatenate([self.is_labeled, np.zeros(test.shape[1], np.bool_)])
        prepared = ranker.prepare(np.concatenate([views[0], test[0]]))
        scores, share = estimates.rank_with_estimate(prepared, mask, is_excluded=np.arange(len(mask)) >= n)
        below = np.sort(scores[:n][~self.is_labeled])
        limit = 0.5 if share is None else below[min(len(below) - 1, int((1 - share) * len(below)))]
        return scores[n:], scores[n:] >= limit

    def trained(self, method: str, preset: str, overrides: Overrides) -> tuple[Singles, Bools]:
        """Return scores of the test chips by a method of the catalog, and the ones it calls positive."""
        settings = _settings_of(method, preset, overrides)
        unlabeled = self.drawn.unlabeled
        is_known = self.setting.is_case_control and not (self.data.classes[unlabeled] == UNKNOWN_CLASS).any()
        if is_known and getattr(settings, "class_prior", None) == 0:  # papers give it to methods
            settings = replace(settings, class_prior=float(self.truth[unlabeled].mean()))
        inputs: FeatureViews | ChipImages
        if settings.backbone == "features":
            views, test = self.features
            inputs = FeatureViews(views)
        else:
            chips = self.data.chips
            inputs = ChipImages(np.ascontiguousarray(chips[self.rows]), self.setting.augmentation)
            test = np.ascontiguousarray(chips[self.drawn.test])
        model = catalog.load_fit(method)(self._pu_data(inputs, method), settings, Run(self.device, self.seed))
        scores = model.score(test)
        return scores, scores >= 0.5

    def _pu_data(self, inputs: FeatureViews | ChipImages, method: str) -> PUData:
        """Return positives and unlabeled; the supervised baseline alone knows the class of every chip."""
        none_excluded = np.zeros(len(self.rows), np.bool_)
        if method != ORACLE:
            return PUData(inputs, self.is_labeled, none_excluded)
        truth = self.truth[self.rows]
        if (self.data.classes[self.rows] < 0).any():
            raise TrainingError("The supervised row needs the class of every chip; this data set does not tell them all.",
                                "Leave this method out.", kind="few_labels")  # fmt: skip
        return PUData(inputs, truth, none_excluded, truth.astype(np.int64))


def as_markdown(table: Table, outcomes: Sequence[Outcome], command: str, published: bool = True) -> str:
    """Write outcomes of a command as a table: mean ± standard deviation over seeds; with papers' figures, if `published`."""
    lines = [f"### {table.title}", "", f"`{command}`", "", f"{dt.date.today().isoformat()}; {hardware()}.", ""]
    lines += ["| setting | method | preset | seeds | AUC | AP | OA | F1 | CPU s | published |", "|" + "---|" * 10]
    for setting in table.settings:
        own = [each for each in outcomes if each.setting == setting.name]
        for method, preset in dict.fromkeys((each.method, each.preset) for each in own):
            same = [each for each in own if (each.method, each.preset) == (method, preset)]
            cells = [_spread([getattr(each, figure) for each in same]) for figure in ("auc", "ap", "oa", "f1")]
            seconds = f"{np.mean([each.seconds for each in same]):.0f}"
            beside = setting.published.get(method, "") if published else ""
            lines.append(
                f"| {setting.name} | {method} | {preset} | {len(same)} | {' | '.join(cells)} | {seconds} | {beside} |"
            )
    sizes = dict.fromkeys((each.setting, each.n_positive, each.n_unlabeled, each.n_test, each.n_test_positive)
                          for each in outcomes)  # fmt: skip
    lines += ["", *(f"{s}: n_P = {p:,}, n_U = {u:,}, tested on {t:,} ({g:,} positive)." for s, p, u, t, g in sizes)]
    given = {each.name for each in table.settings if each.is_case_control}
    if any(each.setting in given and "class_prior" in _settings_names(each.method) for each in outcomes):
        lines.append("uPU and nnPU are given the true class prior where it is known, unless the command sets another.")
    return "\n".join(lines) + "\n"


def _spread(values: Sequence[float]) -> str:
    mean = f"{np.mean(values):.3f}"
    return f"{mean} ± {np.std(values, ddof=1):.3f}" if len(values) > 1 else mean


def hardware() -> str:
    """Name what this runs on, in words."""
    device = best_device()
    name = torch.cuda.get_device_name() if device.type == "cuda" else f"{platform.machine()}, {os.cpu_count()} cores"
    return f"{name}, torch {torch.__version__}"
