"""HeroCon's views: made-up ones whose information is known, with missing and useless ones, and with L_u on and off.

`python -m benchmarks.herocon_views` adds to benchmarks/outcomes/herocon_views.jsonl what is not there yet, in about five minutes on
one core; `python -m benchmarks.tables` writes the table. A seed draws buildings, clicks and weights anew, and each of its
ways learns from the same ones, so that differences are paired.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import stats

from pu_geo.analysis import metrics
from pu_geo.methods import catalog
from pu_geo.records import View
from pu_geo.training.data import UNKNOWN, FeatureViews, PUData
from pu_geo.training.run import Run

KEPT = Path(__file__).resolve().parent / "outcomes" / "herocon_views.jsonl"
N, SHARE, N_CLICKS, N_NOT_DAMAGED, N_SEEDS, BATCH = 1000, 0.3, 30, 10, 5, 128
WIDTH, N_AUGMENTED, JITTER = 24, 5, 0.4
MISSING = 0.3
STRENGTH = 3.0  # distance of the two classes in a view, in standard deviations of its noise
INFORMATIVE = (View("post", "post", 0, 24), View("sar-post", "post", 24, 48), View("proxy", "", 48, 72))
WITH_PRE = (View("pre", "pre", 0, 24), View("post", "post", 24, 48), View("sar-post", "post", 48, 72))
USELESS = View("useless", "", 72, 96)
GROUND = 1.5  # spread of what a building looks like on both dates, which hides what changed
BEST = "the best that can be known"


@dataclass(frozen=True)
class Found:
    """AUC of one way on the buildings of one seed that were not clicked."""

    task: str
    way: str
    seed: int
    auc: float


@dataclass(frozen=True)
class Town:
    """Made-up buildings.

    Attributes:
        views: of the columns; the useless one is the last.
        features: float32 [V, N, 96], of which the last 24 columns hold noise alone.
        is_damaged: bool [N].
        mean, covariance: what damage adds on average, float64 [96], and the covariance of both classes, without jitter.
        known: see `PUData.known_class`.
    """

    views: tuple[View, ...]
    features: NDArray[np.float32]
    is_damaged: NDArray[np.bool_]
    mean: NDArray[np.float64]
    covariance: NDArray[np.float64]
    known: NDArray[np.int64]


def town(views: Sequence[View], seed: int, *, has_ground: bool) -> Town:
    """Draw buildings of three views that tell damage, and of one that tells nothing.

    Args:
        has_ground: the first view shows the ground alone, which the second one shows, too, below the damage; radar shows damage.
    """
    rng = np.random.default_rng(seed)
    is_damaged = np.arange(N) < SHARE * N
    n_columns = 4 * WIDTH
    mean, load = np.zeros(n_columns), np.zeros((n_columns, 6))
    directions = [np.linalg.qr(rng.normal(size=(WIDTH, WIDTH)))[0] for _ in views]
    for number, (view, axes) in enumerate(zip(views, directions, strict=True)):
        if not has_ground or number > 0:
            mean[view.start : view.stop] = STRENGTH * axes[:, 0]
    if has_ground:  # both dates show it along the same axes, of which the damage shares one
        before, after = views[0], views[1]
        axes = directions[1]
        load[before.start : before.stop] = load[after.start : after.stop] = GROUND * axes[:, :6]
    centers = rng.normal(size=(N, n_columns)) + rng.normal(size=(N, 6)) @ load.T + is_damaged[:, None] * mean
    features = (centers + JITTER * rng.normal(size=(N_AUGMENTED, N, n_columns))).astype(np.float32)
    features[0] = centers
    known = np.full(N, UNKNOWN)
    known[rng.choice(np.flatnonzero(is_damaged), N_CLICKS, replace=False)] = 1
    known[rng.choice(np.flatnonzero(~is_damaged), N_NOT_DAMAGED, replace=False)] = 0
    covariance = np.eye(n_columns) + load @ load.T
    return Town((*views, USELESS), features, is_damaged, mean, covariance, known)


def drawn_missing(seed: int) -> NDArray[np.bool_]:
    """Draw which of three views a building lacks, bool [3, N]: 30 % of each; one that would have none keeps one."""
    rng = np.random.default_rng(1000 + seed)
    gone = rng.random((3, N)) < MISSING
    none = np.flatnonzero(gone.all(axis=0))
    gone[rng.integers(3, size=len(none)), none] = False
    return gone


def best_auc(made: Town, n_views: int, gone: NDArray[np.bool_] | None) -> float:
    """Return the AUC of the log odds by the true means and covariances of the columns that a building has."""
    n_columns = made.views[n_views - 1].stop
    raw = np.zeros(N)
    patterns = np.zeros((n_views, N), np.bool_) if gone is None else gone
    for pattern in np.unique(patterns, axis=1).T:
        rows = (patterns == pattern[:, None]).all(axis=0)
        columns = np.concatenate(
            [np.arange(v.start, v.stop) for v, is_gone in zip(made.views, pattern, strict=False) if not is_gone]
        )
        assert columns.max() < n_columns
        slope = np.linalg.solve(made.covariance[np.ix_(columns, columns)], made.mean[columns])
        raw[rows] = made.features[0][np.ix_(rows, columns)] @ slope - 0.5 * slope @ made.mean[columns]
    return metrics.auc(raw[made.known == UNKNOWN], made.is_damaged[made.known == UNKNOWN])


def learned_auc(
    made: Town, n_views: int, seed: int, gone: NDArray[np.bool_] | None = None, *, is_masked: bool = True, **settings: object
) -> float:
    """Train HeroCon, preset quick, on the first views, and return its AUC. Columns of missing views hold the mean of the others."""
    features = made.features[:, :, : made.views[n_views - 1].stop].copy()
    if gone is not None:
        for view, is_gone in zip(made.views, gone, strict=False):
            columns = slice(view.start, view.stop)
            features[:, is_gone, columns] = features[:, ~is_gone, columns].mean(axis=1, keepdims=True)
    data = PUData(
        FeatureViews(features), made.known == 1, np.zeros(N, np.bool_), made.known, views=made.views[:n_views],
        is_missing=gone if is_masked else None,
    )  # fmt: skip
    chosen = catalog.settings_for("herocon", "quick", {"batch_size": BATCH, **settings})  # type: ignore[arg-type]
    model = catalog.load_fit("herocon")(data, chosen, Run(torch.device("cpu"), seed))
    scores = model.score(features, data.is_missing)
    is_open = made.known == UNKNOWN
    return metrics.auc(scores[is_open], made.is_damaged[is_open])


def ways(seed: int) -> Iterator[Found]:
    """Compare everything on the buildings of one seed."""
    made, gone = town(INFORMATIVE, seed, has_ground=False), drawn_missing(seed)
    for way, auc in (
        ("all present", learned_auc(made, 3, seed)),
        ("30 % missing", learned_auc(made, 3, seed, gone)),
        ("30 % missing, taken for the mean", learned_auc(made, 3, seed, gone, is_masked=False)),
        ("with a useless view", learned_auc(made, 4, seed)),
        ("all present, L_u = 0", learned_auc(made, 3, seed, unsupervised_weight=0)),
        (f"all present, {BEST}", best_auc(made, 3, None)),
        (f"30 % missing, {BEST}", best_auc(made, 3, gone)),
    ):
        yield Found("three views that tell damage", way, seed, round(auc, 5))
    made = town(WITH_PRE, seed, has_ground=True)
    for way, auc in (
        ("L_u = 0", learned_auc(made, 3, seed, unsupervised_weight=0)),
        ("defaults", learned_auc(made, 3, seed)),
        ("across dates, alpha .5", learned_auc(made, 3, seed, across_dates=True, unsupervised_weight=0.5)),
        (BEST, best_auc(made, 3, None)),
    ):
        yield Found("pre, post and radar", way, seed, round(auc, 5))


COMPARED = (
    ("three views that tell damage", "30 % missing", "all present", -0.02),
    ("three views that tell damage", "30 % missing, taken for the mean", "all present", None),
    ("three views that tell damage", f"30 % missing, {BEST}", f"all present, {BEST}", None),
    ("three views that tell damage", "with a useless view", "all present", -0.01),
    ("three views that tell damage", "all present", "all present, L_u = 0", -0.01),
    ("pre, post and radar", "defaults", "L_u = 0", -0.01),
    ("pre, post and radar", "across dates, alpha .5", "L_u = 0", None),
)
"""Task, way, what it is compared with, and the least difference of the mean that is asked of it."""


def paired(found: Sequence[Found], task: str, way: str, other: str) -> tuple[list[float], list[float]]:
    """Return the AUC of two ways, a number a seed each, of the seeds that have both."""
    auc = {(each.task, each.way, each.seed): each.auc for each in found}
    seeds = sorted(each.seed for each in found if (each.task, each.way) == (task, way) and (task, other, each.seed) in auc)
    return [auc[task, way, seed] for seed in seeds], [auc[task, other, seed] for seed in seeds]


def interval(differences: Sequence[float]) -> tuple[float, float, float]:
    """Return the mean of paired differences and its 95 % interval (Student's t)."""
    mean, n = float(np.mean(differences)), len(differences)
    half = float(stats.t.ppf(0.975, n - 1) * np.std(differences, ddof=1) / np.sqrt(n)) if n > 1 else float("nan")
    return mean, mean - half, mean + half


def read_kept(kept: Path = KEPT) -> list[Found]:
    """Read the outcomes that were kept, oldest first."""
    return [Found(**json.loads(line)) for line in kept.read_text().splitlines()] if kept.exists() else []


def section() -> str:
    """Return the section of docs/tables.md, "" where there are no outcomes."""
    found = read_kept()
    if not found:
        return ""
    words = _WORDS.replace(f"{N_SEEDS} seeds", f"{len({each.seed for each in found})} seeds")
    lines = ["## HeroCon's views, made up", "", words, "", _HEAD, "|---|---|---|---|---|---|---|"]
    for task, way, other, least in COMPARED:
        first, second = paired(found, task, way, other)
        mean, low, high = interval([a - b for a, b in zip(first, second, strict=True)])
        asked = "" if least is None else f"{least:+.2f} or more"
        lines.append(
            f"| {task} | {way} | {other} | {np.mean(first):.3f} | {np.mean(second):.3f} | {mean:+.4f} ({low:+.4f} to {high:+.4f}) | {asked} |"
        )
    return "\n".join([*lines, ""])


_HEAD = "| buildings | way | against | AUC | AUC of that | difference, 95 % | asked for |\n".rstrip()
_WORDS = f"""{N:,} made-up buildings, {SHARE:.0%} of them damaged; {N_CLICKS} damaged and {N_NOT_DAMAGED} undamaged ones are clicked, AUC is over all others. A view is {WIDTH} columns in
{N_AUGMENTED} augmentations. "Three views that tell damage": post, radar of that date and a layer of no date, in each of which the two classes are
{STRENGTH} standard deviations away from each other. "Pre, post and radar": pre and post share the ground, which hides the damage of post until
pre is taken away from it. "{BEST.capitalize()}" knows means and covariances. HeroCon, preset `quick`, {N_SEEDS} seeds, differences are
paired; settings were chosen on other seeds: how weights decay on seed 0, the rest on 101 to 104. Missing: {MISSING:.0%} of each view; "taken for the mean" does not mask them. Scaled down: cached features, 200 steps of {BATCH} buildings
in place of 256.

All views have one classifier in common. When each had its own, missing views lost .027 on these seeds (AUC .963 of .990): decay of a
view's map and of its classifier weighs the sum of the views' lengths, a penalty that keeps few of them. On other seeds, 101 to 104, one of three views was
drawn to almost nothing in three of eight trainings, so that buildings with that one alone had no score; the same networks with each view's evidence
weighed by the truth had AUC .985 in place of .966. The remedy was chosen on those four seeds: with missing views AUC was .964 before, .974 with each
view also judged by itself, .974 with further views dropped at random, .969 with one classifier and decay over the root of the number of views, as
before, .981 with one classifier and the whole decay. What is still lost against the best that can be known is in learning: 30 clicks become 21 a view, in 24
columns. Not masking missing views, the mean in their place, costs about as much here, since these views are all alike in strength. The made-up data were changed
once, to save time, after two seeds of 1,500 buildings, 2.4 standard deviations and steps of 256, which had lost .034 and .017 with a classifier a view.

`python -m benchmarks.herocon_views`"""


def main() -> None:
    """Do what is not kept yet."""
    done = {each.seed for each in read_kept()}
    for seed in range(1, 1 + N_SEEDS):  # settings were chosen on seed 0
        if seed in done:
            continue
        rows = [json.dumps(asdict(each)) + "\n" for each in ways(seed)]
        with KEPT.open("a", encoding="utf-8") as file:
            file.writelines(rows)


if __name__ == "__main__":
    main()
