"""Pseudo labels of embeddings, read in three ways, and which way held-out clicks speak for.

`two_means` follows what splits a scene most, `clusters` the share of clicks in many small groups, `clicks` the line between
clicked rows and all others. Which is right differs from event to event, and clicks that a reading was not given can tell.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from pu_geo.analysis import bakeoff
from pu_geo.analysis.logistic import fit_logistic
from pu_geo.analysis.pupl import cluster_chances, pupl, small_clusters

TWO_MEANS, CLUSTERS, CLICKS = READINGS = ("two_means", "clusters", "clicks")
FEWEST_CLICKS = 4  # with fewer nothing is held out
CLICKS_L2 = 0.01  # penalty of clicks against the rest: they are few, pseudo labels are as many as rows
LEVEL = 0.98  # of intervals: of clicks at random 2 to 5 % pass for better than chance, since the best of three is judged
CHANCE = (1 + bakeoff.FLOOR) * math.log(1 + bakeoff.FLOOR) - bakeoff.FLOOR * math.log(bakeoff.FLOOR) - 1
"""Mean of `bakeoff.log_places` where places are even in 0..1."""

Floats = NDArray[np.floating]
Bools = NDArray[np.bool_]


@dataclass(frozen=True)
class Readings:
    """Embeddings that pseudo labels are made of.

    Attributes:
        embeddings: float [N, E], of unit length.
        seed: of clusterings and of the folds.
        l2: penalty of the classifier that pseudo labels teach, see `logistic.fit_logistic`.
        n_seedings: of the two means.
        check: called as the work goes on; what it raises ends it.
    """

    embeddings: Floats
    seed: int
    l2: float = 1e-3
    n_seedings: int = 8
    check: Callable[[], None] = lambda: None

    def labels(self, reading: str, is_positive: Bools) -> NDArray[np.float32]:
        """Return what a classifier is taught by one of `READINGS`, float32 [N] in 0..1.

        Args:
            is_positive: bool [N], the clicks that the reading is given; at least one, and not all.

        Raises:
            TrainingError: as `pupl.pupl`.
        """
        if reading == CLICKS:
            return is_positive.astype(np.float32)
        if reading == CLUSTERS:
            return cluster_chances(self._clusters, is_positive)
        found = pupl(self.embeddings, is_positive, seed=self.seed, n_seedings=self.n_seedings, check=self.check)
        return found.labels.astype(np.float32)

    def classifier(
        self, reading: str, is_positive: Bools, labels: Floats | None = None, *, tolerance: float = 1e-6
    ) -> tuple[Floats, float]:
        """Fit the linear classifier that a reading teaches; slope [E] and offset.

        Clicks weigh as much as all others together where these are what is taught; of pseudo labels each row weighs the
        same.

        Args:
            labels: by `labels`, if they are at hand.
        """
        labels = self.labels(reading, is_positive) if labels is None else labels
        how = (max(self.l2, CLICKS_L2), None) if reading == CLICKS else (self.l2, np.full(len(labels), 1 / len(labels)))
        slope, offset, _ = fit_logistic(
            self.embeddings, labels, *how, tolerance=tolerance, max_iterations=200, check=self.check
        )
        return slope, offset

    def log_places(self, is_positive: Bools, is_judging: Bools | None = None) -> dict[str, NDArray[np.float64]]:
        """Compute for each reading the log place of each click by fits that it was held out from, float64 [P].

        Source: ours; places and folds are those of `bakeoff`. A click that is held out is one of the unlabeled to the
        reading: not pinned, not counted, taught as they are. Its place is among the other unlabeled, none of which is a
        click.

        Args:
            is_positive: bool [N], at least 2, and not all.
            is_judging: bool [N], those of the positives that are held out, P, at least 2; the others are always given. None:
                all.
        """
        at = np.flatnonzero(is_positive if is_judging is None else is_judging)
        n_folds = min(bakeoff.N_FOLDS, len(at))
        found = {reading: np.empty((bakeoff.N_REPEATS, len(at))) for reading in READINGS}
        for repeat in range(bakeoff.N_REPEATS):
            fold = bakeoff.folds(len(at), n_folds, np.random.default_rng([self.seed, repeat]))
            for part in range(n_folds):
                given = is_positive.copy()
                given[at[fold == part]] = False
                for reading, own in found.items():
                    slope, offset = self.classifier(reading, given, tolerance=1e-4)
                    margins = self.embeddings @ slope + offset
                    own[repeat, fold == part] = bakeoff.places(margins[at[fold == part]], margins[~is_positive])
        return {reading: bakeoff.log_places(own) for reading, own in found.items()}

    @cached_property
    def _clusters(self) -> NDArray[np.int64]:
        """Small clusters; they do not depend on clicks, so that folds share them."""
        nobody = np.arange(len(self.embeddings)) == 0
        return small_clusters(self.embeddings, nobody, seed=self.seed, check=self.check)


@dataclass(frozen=True)
class Choice:
    """Which reading held-out clicks speak for.

    Attributes:
        reading: one of `READINGS`.
        doubt: what an analyst should know of the choice; "" where it is clear.
        log_places: mean log place of held-out clicks by reading; `CHANCE` is chance, lower is better.
    """

    reading: str
    doubt: str
    log_places: Mapping[str, float]


def choose(log_places: Mapping[str, NDArray[np.float64]]) -> Choice:
    """Choose the reading that puts held-out clicks first: lowest mean log place.

    It is in doubt where that mean is not clearly below chance, or clearly below that of no other reading: where the
    bootstrap interval over clicks, of paired differences for the latter, does not exclude 0.

    Args:
        log_places: of `Readings.log_places`, float64 [P] each.
    """
    means = {reading: float(each.mean()) for reading, each in log_places.items()}
    chosen = min(means, key=means.__getitem__)
    found, others = log_places[chosen], [each for reading, each in log_places.items() if reading != chosen]
    if not is_clear(found - CHANCE):
        doubt = "Held-out clicks do not show that these scores follow the damage."
    elif not any(is_clear(found - each) for each in others):
        doubt = "Held-out clicks do not show which of three kinds of pseudo label follows the damage best."
    else:
        return Choice(chosen, "", means)
    return Choice(chosen, f"{doubt} Compare the map with the ranker's, or mark more damaged buildings.", means)


def is_clear(differences: NDArray[np.float64]) -> bool:
    """Return whether the bootstrap interval of the mean of log places minus others, float64 [P], is below 0."""
    return bakeoff.bootstrap(differences, LEVEL).high < 0
