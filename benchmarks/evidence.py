"""Does a run know when its ranking fails, and how many does it flag at first? On draws of events of known damage.

After `python -m benchmarks.ranking prepare DATA CACHE`: `python -m benchmarks.evidence prepare DATA CACHE` makes sets that cannot
be ranked well, `... run CACHE` adds to benchmarks/outcomes/evidence.jsonl what is not there yet, `... write` writes
benchmarks/results/evidence.md.
"""

from __future__ import annotations

import argparse
import itertools
import tempfile
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import rasterio
import torch
from numpy.typing import NDArray
from scipy.ndimage import gaussian_filter

from benchmarks import ranking_sources
from benchmarks.kept import Kept, ahead, row, table
from benchmarks.ranking import KINDS, clicks_of, fitted
from benchmarks.ranking_sets import Source, read_source
from pu_geo.analysis import estimates, metrics
from pu_geo.analysis.pu_criterion import wilson

XBD = ("joplin", "santa_rosa_a", "matthew_wind")
DEVELOPED, REPORTED = (*XBD, "town"), ("harvey_a", "harvey_d", "harvey_flood", "florence_flood")
SHARES, CLICKS, SEEDS = (0.0, 0.2, 0.11, 0.05, 0.02, 0.01), (10, 30), range(20, 25)  # share 0: as the set is
MANY = range(20, 28)
SHIFTS = {"shifted 20 m": (16, 11), "shifted 30 m": (-18, 24), "shifted 40 m": (-26, -30)}  # east and north
FAILING, PERMUTED, BLOCK, BLUR_PX = ("swapped", "hidden", "blurred", *SHIFTS), "permuted", 25, 6.0
LEAST_LEFT = 8  # damaged buildings; an AUC of fewer means little
OLD_FEWEST, OLD_LEAST = 30, 0.005  # of the rule before: it flagged as many at least, of buildings and as a share
RESULT = Path(__file__).parent / "results" / "evidence.md"
HEAD = """# Does a run know when its ranking fails, and how many does it flag at first?

Made by `python -m benchmarks.evidence`: draws of sets, shares of damage and numbers of clicks. The rules were chosen on the
development sets, on these draws and as many others; the reported sets had no part in it. A run of the default warns where the
third of its held-out clicks that stands lowest is on average below 64 % of the list. Draws with 8 damaged buildings or more left;
in brackets 95 % intervals. *swapped*: each building has the post image of another one, mostly of another scene; *hidden*: of an
intact one; *blurred*: without texture; *permuted*: blocks of 25 buildings exchange features.
"""
THRESHOLDS = """
F1 of what a run of the default flags at first: before (a linear ranking's guess, 30 and 0.5 % of the buildings at least) and now
(the guess of its own held-out clicks less its root; where it warns 8 a click at most). Differences are paired by draw.
"""
TRIED = """
Tried on 6 other draws of the development sets. Caught of AUC < .75 where a tenth of AUC > .9 warns: mean place .82, its upper
quartile .82, cube mean .89, lowest half, third, quarter, fifth .87, .91, .92, .92 (the smaller the part, the more do sets warn of
which 60 % are damaged); guessed share .65 to .78; disagreement of the fits .82, added to the lowest third .92; a logistic of
eight such figures, left-out event, .88. First threshold, F1 in all and at 2 % and below (before .453 and .204): the guess itself
.570, .386; less its root .575, .434; less 1.5 roots .566, .439; at most where 60 % of the clicks stand .569, .408; the maximum of
recall squared by share flagged .51, .31 (without the town). At the true number .618, .521: on the town it is 1.4 times the F1 before.
"""


@dataclass(frozen=True)
class Outcome:
    """One draw: how it was ranked, the evidence, and F1 of what is flagged at first, by the rule before and by this one."""

    name: str
    share: float
    clicks: int
    seed: int
    kind: str
    n: int
    n_damaged: int
    auc: float
    place: float
    lowest: float
    is_weak: bool
    k_before: int
    k: int
    f1_before: float
    f1: float


KEPT = Kept("evidence", Outcome, "name share clicks seed kind")


def prepare(data: Path, cache: Path) -> None:
    """Make the failing sets of three events: post images moved, of other buildings, of intact ones alone, without texture."""
    for name in XBD:
        table, rng = dict(np.load(cache / f"{name}.npz")), np.random.default_rng(5)
        chips, order = table["chips"], np.argsort(table["scene"], kind="stable")
        other = np.empty_like(order)
        other[order] = np.roll(order, len(order) // 2)  # half of a set away: mostly in another scene
        posts = {
            "swapped": chips[other, 3:],
            "hidden": chips[rng.choice(np.flatnonzero(~table["is_damaged"]), len(chips)), 3:],
            "blurred": gaussian_filter(chips[:, 3:].astype(np.float32), (0, 0, BLUR_PX, BLUR_PX)),
        }
        for kind in FAILING:
            if (cache / f"{name}-{kind}.npz").exists():
                continue
            joined = None if kind in SHIFTS else np.concatenate([chips[:, :3], posts[kind]], axis=1)
            found = _shifted(data, name, SHIFTS[kind]) if joined is None else table | {"chips": joined}
            ranking_sources.keep(cache, f"{name}-{kind}", found)


def _shifted(data: Path, name: str, metres: tuple[float, float]) -> ranking_sources.Table:
    """Cut an event whose post images lie elsewhere than they say."""
    with tempfile.TemporaryDirectory() as folder:
        moved = []
        for scene in ranking_sources.scenes_of(data, name):
            moved.append(Path(folder) / scene.name)
            moved[-1].mkdir()
            for file in ("pre.tif", "buildings.geojson"):
                (moved[-1] / file).write_bytes((scene / file).read_bytes())
            with rasterio.open(scene / "post.tif") as source:
                unit = 1.0 if source.crs.is_projected else 1 / 111_320
                at = rasterio.Affine.translation(*(unit * each for each in metres)) @ source.transform
                with rasterio.open(moved[-1] / "post.tif", "w", **source.profile | {"transform": at}) as target:
                    target.write(source.read())
        return ranking_sources.cut_all(moved, name)


def draw(
    source: Source, name: str, share: float, clicks: int, seed: int
) -> tuple[NDArray[np.int64], NDArray[np.bool_]] | None:
    """Draw an event: row numbers, and which are clicked; None where too few are damaged or intact."""
    rng, rows = np.random.default_rng([seed, zlib.crc32(f"{name} {share}".encode())]), np.arange(len(source.is_damaged))
    if source.place is not None:  # a place gives damaged or undamaged chips
        place = np.unique(source.place, return_inverse=True)[1]
        rows = np.flatnonzero((rng.random(place.max() + 1) < 0.75)[place] != source.is_damaged)
    damaged, intact = (rng.permutation(rows[source.is_damaged[rows] == which]) for which in (True, False))
    clicked, left = damaged[:clicks], damaged[clicks:]
    if share:
        intact = intact[: int(len(left) * (1 - share) / share)]
        left = left[: max(1, round(len(intact) * share / (1 - share)))]
    chosen = np.sort(np.concatenate([clicked, left, intact]))
    return (chosen, np.isin(chosen, clicked)) if len(left) and len(intact) >= BLOCK else None


def _permuted(source: Source, rows: NDArray[np.int64], seed: int) -> NDArray[np.float16]:
    """Give blocks of neighboring buildings the features of other blocks."""
    order = np.lexsort((source.xy_m[rows, 1], source.xy_m[rows, 0] // 100, source.scene[rows]))
    blocks = np.array_split(order, max(4, len(order) // BLOCK))
    views = np.empty((source.views.shape[0], len(rows), source.views.shape[2]), np.float16)
    mixed = np.concatenate([blocks[i] for i in np.random.default_rng(seed).permutation(len(blocks))])
    views[:, order] = source.views[:, rows[mixed]]
    return views


def outcomes(source: Source, name: str, share: float, clicks: int, seed: int, kind: str) -> Iterator[Outcome]:
    """Rank a draw by the default, and judge evidence and first threshold."""
    drawn = draw(source, name, share, clicks, seed)
    clicked = drawn and (clicks_of(kind, source, *drawn, seed) if kind in KINDS else drawn[1])
    if drawn is None or clicked is None:
        return
    rows = drawn[0]
    views = _permuted(source, rows, seed) if kind == PERMUTED else np.ascontiguousarray(source.views[:, rows])
    found = fitted("propagation", views, clicked, source.xy_m[rows], seed)
    linear = estimates.evidence_to_start_from(np.asarray(views[0], np.float32), clicked)
    assert found.evidence
    assert linear
    truth, scores = source.is_damaged[rows][~clicked], found.scores[~clicked]
    n, by_score = len(truth), truth[np.argsort(-scores, kind="stable")]
    before = min(max(n * max(linear.share, OLD_LEAST), OLD_FEWEST), n * estimates.MOST_SHARE, estimates.MOST_ROOTS * n**0.5)
    ks = max(int(before + 0.5), 1), found.start_k
    f1 = [round(float(2 * by_score[:k].sum() / (k + truth.sum())), 4) for k in ks]
    auc, *figures = (round(each, 4) for each in (metrics.auc(scores, truth), found.evidence.place, found.evidence.lowest))
    judged = auc, *figures, found.evidence.is_weak
    yield Outcome(name, share, clicks, seed, kind, n, int(truth.sum()), *judged, *ks, *f1)


def run(cache: Path) -> None:
    """Do what is not kept yet."""
    failing = [f"{name}-{kind}" for name in XBD for kind in FAILING]
    for names, shares, kind, seeds in (
        (DEVELOPED, SHARES, KINDS[0], MANY), (XBD, (0.0, 0.2, 0.05), PERMUTED, SEEDS[:3]),
        (failing, (0.0, 0.2, 0.05), KINDS[0], SEEDS[:3]), (REPORTED, (0.0, 0.2, 0.05, 0.01), KINDS[0], SEEDS),
        (DEVELOPED, (0.0, 0.2, 0.05, 0.02), KINDS[2], SEEDS[:3]),
    ):  # fmt: skip
        for name in names:
            source = read_source(cache, name)
            for cell in itertools.product((name,), shares, CLICKS, seeds, (kind,)):
                KEPT.once(cell, lambda source=source, cell=cell: outcomes(source, *cell))  # type: ignore[misc]


def _warned(found: Sequence[Outcome]) -> str:
    """Write how many draws warn, and their share with its interval."""
    n, (low, high) = sum(each.is_weak for each in found), wilson(sum(each.is_weak for each in found), len(found))
    return f"{n} of {len(found)}: {n / len(found):.2f} ({low:.2f} to {high:.2f})" if found else ""


def _evidence(known: Sequence[Outcome]) -> Iterator[str]:
    """Write a row for each kind of draw."""
    ours = [each for each in known if each.name.split("-")[0] in DEVELOPED]
    groups = {f"development, all, {n} clicks": [each for each in ours if each.clicks == n] for n in CLICKS}
    groups |= {
        "development, all": ours,
        "as they are, or thinned": [e for e in ours if e.name in DEVELOPED and e.kind != PERMUTED],
    }
    groups |= {f"post {kind}": [each for each in ours if each.name.endswith(f"-{kind}")] for kind in FAILING}
    groups |= {"features permuted by block": [each for each in ours if each.kind == PERMUTED]}
    groups |= {f"reported: {name}": [each for each in known if each.name == name] for name in REPORTED}
    for title, own in groups.items():
        bounds = ((0, 0.75), (0.75, 0.9), (0.9, 1.1))
        yield row(title, *(_warned([each for each in own if low <= each.auc < high]) for low, high in bounds))


def _thresholds(found: Sequence[Outcome]) -> Iterator[str]:
    """Write a row for each share of damage, and for those together that the criterion is about."""
    groups = {"as it is" if share == 0 else f"{100 * share:g} %": (share,) for share in SHARES}
    for title, shares in (groups | {"2 % and below": (0.02, 0.01), "all": SHARES}).items():
        if own := [each for each in found if each.share in shares]:
            mean = np.mean([(each.n_damaged, each.k_before, each.k, each.f1_before, each.f1) for each in own], axis=0)
            numbers = [*(f"{each:,.0f}" for each in mean[:3]), *(f"{each:.3f}" for each in mean[3:])]
            yield row(title, len(own), *numbers, ahead([each.f1 - each.f1_before for each in own]))


def write() -> None:
    """Write the page."""
    found = KEPT.read()
    known = [each for each in found if each.n_damaged >= LEAST_LEFT and each.kind != KINDS[2]]
    parts = [HEAD, table("draws | warned, AUC < .75 | .75 to .9 | .9 and above", _evidence(known)), THRESHOLDS]
    for title, names, kind in (
        ("development sets", DEVELOPED, KINDS[0]), ("reported sets", REPORTED, KINDS[0]), ("development sets", DEVELOPED, KINDS[2]),
    ):  # fmt: skip
        own = [each for each in found if each.name in names and each.kind == kind]
        head = f"{title}, {kind} | draws | damaged left | k before | k | F1 before | F1 | difference"
        parts.append(table(head, _thresholds(own)))
    RESULT.write_text("\n".join([*parts, TRIED]), encoding="utf-8")


if __name__ == "__main__":
    torch.set_num_threads(1)
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("verb", choices=("prepare", "run", "write"))
    parser.add_argument("folders", type=Path, nargs="*", help="DATA and CACHE, or CACHE")
    given = parser.parse_args()
    {"prepare": prepare, "run": run, "write": write}[given.verb](*given.folders)
