"""HeroCon learns Joplin's grades as a scale, against the default method run once a grade.

`python -m benchmarks.herocon_joplin DATA` adds to benchmarks/outcomes/herocon_joplin.jsonl what is not there yet;
`python -m benchmarks.tables` writes the table. DATA is a folder that holds joplin_xbd. A draw answers some buildings, each of
its ways learns from the same answers, and all are judged by the buildings that nobody answered, so that differences are paired.
"""

from __future__ import annotations

import argparse
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.special import logit

from benchmarks import ranking_sources
from benchmarks.kept import Kept, ahead, row, table
from pu_geo.analysis import metrics
from pu_geo.analysis.logistic import cross_fitted
from pu_geo.analysis.neighbor_graph import label_propagation
from pu_geo.analysis.two_readings import Space, chips_of, roots_of
from pu_geo.features.bank import FEATURE_SEED, N_VIEWS, fit_default
from pu_geo.methods import catalog
from pu_geo.methods.cards.propagation import PropagationSettings
from pu_geo.methods.fitting import Fitted, fit_and_score, pu_data
from pu_geo.records import PUSet
from pu_geo.store import damage_types, grades
from pu_geo.training.data import FeatureViews, PUData
from pu_geo.training.run import Run

GRADES = ("no-damage", "minor-damage", "major-damage", "destroyed")  # of xBD; place on the scale is the number less 1
TYPES = tuple(f"at least {one.name}" for one in reversed(grades.USUAL))
"""The product's columns, the mildest first."""
ALL, CHOSEN_ON, HELD_BACK = "both scenes", "scene 0", "scene 1"
ANSWERS = {"10 of each grade": 10, "80 at random": 80}
"""How a draw answers: of each grade, half of its buildings at most; or of all buildings."""
PARTS = (HELD_BACK, ALL)  # settings were chosen on the other scene, with draws from 100 on
N_DRAWS = 8
L2 = 0.5  # of the regression on the truth, as in benchmarks.ranking
_CPU = torch.device("cpu")
Floats = NDArray[np.floating]


@dataclass(frozen=True)
class Found:
    """Average precision of one way on the buildings of one draw that nobody answered: of each of `TYPES`, the mildest first."""

    part: str
    answers: str
    seed: int
    way: str
    n: int
    n_has: Sequence[int]
    ap: Sequence[float]

    @property
    def macro(self) -> float:
        """Mean over the grades."""
        return float(np.mean(self.ap))


KEPT = Kept("herocon_joplin", Found, "part answers seed")


@dataclass(frozen=True)
class Town:
    """Buildings whose grade is known.

    Attributes:
        views: features as the app caches them, float16 [V, N, D].
        grade: number in `GRADES`, int64 [N].
        xy_m: places, metres, float64 [N, 2].
    """

    views: NDArray[np.float16]
    grade: NDArray[np.int64]
    xy_m: NDArray[np.float64]

    def __len__(self) -> int:
        return len(self.grade)

    @property
    def truth(self) -> NDArray[np.bool_]:
        """Which of `TYPES` each has, bool [N, c]."""
        return self.grade[:, None] > np.arange(len(TYPES))

    def take(self, rows: NDArray[np.bool_]) -> Town:
        """Return some of the buildings, bool [N]."""
        return Town(np.ascontiguousarray(self.views[:, rows]), self.grade[rows], self.xy_m[rows])


def parts(data: Path) -> dict[str, Town]:
    """Cut the Joplin scenes of a folder of data as the app does, and make its features: of both scenes together, and each."""
    table = ranking_sources.joplin(data)
    chips = table["chips"].astype(np.uint8)
    views = fit_default(chips).transform(chips, N_VIEWS, seed=FEATURE_SEED, device=_CPU)
    grade = np.array([GRADES.index(str(one)) for one in table["damage"]], np.int64)
    whole, scene = Town(views, grade, table["xy_m"].astype(np.float64)), table["scene"]
    return {ALL: whole, CHOSEN_ON: whole.take(scene == 0), HELD_BACK: whole.take(scene == 1)}


def drawn(town: Town, answers: str, seed: int) -> NDArray[np.bool_]:
    """Draw which buildings are answered, bool [N]."""
    rng, wanted, found = np.random.default_rng([seed, len(town)]), ANSWERS[answers], np.zeros(len(town), np.bool_)
    if answers.endswith("at random"):
        found[rng.choice(len(town), wanted, replace=False)] = True
        return found
    for one in range(len(GRADES)):
        own = np.flatnonzero(town.grade == one)
        found[rng.choice(own, min(wanted, len(own) // 2), replace=False)] = True
    return found


@dataclass(frozen=True)
class Draw:
    """Buildings, which of them are answered, bool [N], and the seed of what learns from them."""

    town: Town
    is_answered: NDArray[np.bool_]
    seed: int

    def data(self, is_positive: NDArray[np.bool_], is_not_damaged: NDArray[np.bool_]) -> PUData:
        """Return what a method learns from."""
        return replace(
            pu_data(FeatureViews(self.town.views), is_positive, is_not_damaged=is_not_damaged), xy_m=self.town.xy_m
        )

    def graded(self) -> PUData:
        """Return the answers as the app makes types of grades."""
        truth = self.town.truth
        is_positive, nothing = self.is_answered & truth[:, 0], np.zeros(len(self.town), np.bool_)
        not_damaged = self.is_answered & ~truth[:, 0]
        ids = [str(number) for number in range(len(self.town))]
        place = {int(row): int(self.town.grade[row]) - 1 for row in np.flatnonzero(is_positive)}
        labels = damage_types.at_least(PUSet(ids, is_positive, not_damaged, nothing, 0), place, len(TYPES))
        is_kept = (labels == damage_types.HAS).sum(axis=0) >= damage_types.FEWEST
        assert is_kept.all()
        return replace(self.data(is_positive, not_damaged), type_labels=labels, type_names=TYPES, is_ordinal=True)


def fitted(method: str, data: PUData, seed: int, **settings: str | float | bool) -> Fitted:
    """Train a method of the catalog, preset quick, and score all buildings, as a training of the app does."""
    chosen = catalog.settings_for(method, "quick", settings)
    return fit_and_score(
        catalog.card(method), data, chosen, Run(_CPU, seed), prior=lambda: None, start_k=1, is_unlabeled=data.is_unlabeled
    )


def hero_con(draw: Draw, **settings: str | float | bool) -> Floats:
    """Score each of `TYPES` by one training of all, float32 [N, c]."""
    found = fitted("herocon", draw.graded(), draw.seed, **settings).type_scores
    assert found is not None
    return found


def one_versus_rest(draw: Draw, method: str = "propagation", **settings: str | float | bool) -> Floats:
    """Score each of `TYPES` by a training of its own: who has it against who has it not, float32 [N, c]."""
    columns = []
    for has in draw.town.truth.T:
        data = draw.data(draw.is_answered & has, draw.is_answered & ~has)
        columns.append(fitted(method, data, draw.seed, **settings).scores)
    return np.stack(columns, axis=1)


def supervised(draw: Draw) -> Floats:
    """Score each building by regressions on the truth of four fifths of all others, float32 [N, c]: what the features can do."""
    views = draw.town.views.astype(np.float32)
    roots = roots_of(views).mean(axis=0)
    white = Space.of(views[0], roots, catalog.settings_for("propagation", "quick", {}).whitening).white(roots)  # type: ignore[attr-defined]
    fold = np.random.default_rng([draw.seed, 7]).permutation(len(draw.town)) % 5
    return np.stack([cross_fitted(white, has, fold, L2) for has in draw.town.truth.T], axis=1)


def log_odds(scores: Floats) -> Floats:
    """Bring the log odds of scores [N, c] to mean 0 and deviation 1 a column, float64."""
    raw = logit(np.clip(scores.astype(np.float64), 1e-7, 1 - 1e-7))
    found: Floats = (raw - raw.mean(axis=0)) / raw.std(axis=0)
    return found


def propagated(draw: Draw, scores: Floats) -> Floats:
    """Let scores [N, c] travel between look-alikes as the default's do, on its graph and with its settings, float64 [N, c]."""
    used = catalog.settings_for("propagation", "quick", {})
    assert isinstance(used, PropagationSettings)
    views = draw.town.views.astype(np.float32)
    roots = roots_of(views).mean(axis=0)
    chips, _ = chips_of(
        Space.of(views[0], roots, used.whitening), views[0], roots, dim=used.embedding_dim, n_neighbors=used.n_neighbors,
        n_anchors=used.n_anchors, seed=draw.seed,
    )  # fmt: skip
    values = label_propagation(log_odds(scores)[chips.at], chips.links, used.propagation)
    return chips.ties @ values


def judged(draw: Draw, scores: Floats) -> tuple[float, ...]:
    """Return the average precision of each of `TYPES` on the buildings that nobody answered."""
    is_open = ~draw.is_answered
    columns = zip(scores[is_open].T, draw.town.truth[is_open].T, strict=True)
    return tuple(round(float(metrics.average_precision(own, has)), 5) for own, has in columns)


HERO, DEFAULT = "HeroCon", "default, once a grade"
TRAINED: Mapping[str, Callable[[Draw], Floats]] = {
    HERO: hero_con,
    "HeroCon, weight_decay .1": lambda draw: hero_con(draw, weight_decay=0.1),
    DEFAULT: one_versus_rest,
    "default without place, once a grade": lambda draw: one_versus_rest(draw, neighbors="off"),
    "supervised by the answers, once a grade": lambda draw: one_versus_rest(draw, "supervised"),
    "trained on the truth": supervised,
}
MADE_OF: Mapping[str, Callable[[Draw, Mapping[str, Floats]], Floats]] = {
    "HeroCon's scores, propagated": lambda draw, found: propagated(draw, found[HERO]),
    "mean of HeroCon and default": lambda _, found: log_odds(found[HERO]) + log_odds(found[DEFAULT]),
}
"""What is trained, and what is made of the scores of these."""
WAYS = (*TRAINED, *MADE_OF)


def outcomes(town: Town, part: str, answers: str, seed: int) -> list[Found]:
    """Train and judge everything on one draw."""
    draw = Draw(town, drawn(town, answers, seed), seed)
    scores: dict[str, Floats] = {way: train(draw) for way, train in TRAINED.items()}
    scores |= {way: make(draw, scores) for way, make in MADE_OF.items()}
    is_open = ~draw.is_answered
    n_has = tuple(int(n) for n in town.truth[is_open].sum(axis=0))
    return [Found(part, answers, seed, way, int(is_open.sum()), n_has, judged(draw, own)) for way, own in scores.items()]


def tables() -> list[str]:
    """Return the table of docs/tables.md."""
    found = KEPT.read()
    hero = {(each.part, each.answers, each.seed): each.macro for each in found if each.way == HERO}

    def rows() -> Iterator[str]:
        for part, answers, way in itertools.product(PARTS, ANSWERS, WAYS):
            own = [each for each in found if (each.part, each.answers, each.way) == (part, answers, way)]
            if own:
                above = "" if way == HERO else ahead([hero[part, answers, each.seed] - each.macro for each in own])
                means = (*np.mean([each.ap for each in own], axis=0), np.mean([each.macro for each in own]))
                name = f"{part}, {answers}, {len(own)} draws"
                yield row(name, way, own[0].n, *(f"{value:.3f}" for value in means), above)

    head = "buildings, answers | way | ranked | AP at least minor | at least major | destroyed | macro AP | HeroCon's above it, 95 %"
    return [table(head, rows())]


def main() -> None:
    """Do what is not kept yet."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path, help="folder that holds joplin_xbd")
    towns = parts(parser.parse_args().data)
    torch.set_num_threads(1)
    for seed, part, answers in itertools.product(range(N_DRAWS), PARTS, ANSWERS):
        KEPT.once((part, answers, seed), partial(outcomes, towns[part], part, answers, seed))


if __name__ == "__main__":
    main()
