"""Do answers pay? Ten clicks, then 30 answers of the queue: how all others are ranked before and after, and what was found.

`python -m benchmarks.queue_simulation CACHE` plays the loop of the Annotate screen on sets that `benchmarks.ranking prepare` made,
`neighborhoods` of `sample_data/make_neighborhoods.py` among them: the live ranking and the queue's own rules, an analyst who is
never wrong, ranked anew and the queue renewed after every fifth answer. It adds to outcomes/queue.jsonl what is not there yet
and prints the table of docs/methods.md.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from unittest.mock import patch

import numpy as np
from numpy.typing import NDArray

from benchmarks.kept import Kept, ahead, row, table
from benchmarks.ranking_sets import Source, read_source
from pu_geo.analysis import metrics, queue, ranker
from pu_geo.analysis.two_readings import Marks, votes_of
from pu_geo.answers import ranking
from pu_geo.answers.queueing import LENGTH, MOST_OF_SILENT_SCENES
from pu_geo.answers.ranking_of_many import ManyBuildings, places_of
from pu_geo.store.labels import Moment

N_CLICKS, N_ANSWERS, EVERY, N_DRAWS = 10, 30, 5, 30
FALL = 0.02
HIGHEST, SPREAD = "highest scores", "spread"
CHOSEN = (("joplin", None), ("joplin", 0.2), ("santa_rosa_a", None), ("matthew_wind", None), ("neighborhoods", None))
REPORTED = (("harvey_flood", None), ("florence_flood", None), ("harvey_a", 0.05))
Rows = NDArray[np.int64]


def thinned(event: Source, share: float, seed: int) -> Source:
    """Keep so many of the damaged chips, others for each seed, that they are `share` of all."""
    undamaged = np.flatnonzero(~event.is_damaged)
    n_damaged = round(share / (1 - share) * len(undamaged))
    chosen = np.random.default_rng(seed).choice(np.flatnonzero(event.is_damaged), n_damaged, replace=False)
    rows = np.sort(np.concatenate([undamaged, chosen]))
    return Source(event.is_damaged[rows], event.views[:, rows], event.scene[rows], event.xy_m[rows])


@dataclass(frozen=True)
class Answered:
    """One draw.

    Attributes:
        arm: `SPREAD` is the product's queue; `HIGHEST` the one before it, where each damaged building counts alike.
        found: damaged ones among the answers.
        before, after: AP of what nobody answered, by the clicks alone and with the answers.
        common, by_chance: AP of what neither the queue nor as many random answers took, by each of the two.
        chance_gain: what the random answers brought there over the clicks alone.
    """

    set: str
    seed: int
    arm: str
    found: int
    before: float
    after: float
    common: float
    by_chance: float
    chance_gain: float


KEPT = Kept("queue", Answered, "set seed arm")


class Loop:
    """An event that is labeled: the product's ranking and queue on arrays, without a project around them."""

    def __init__(self, event: Source, arm: str) -> None:
        self.event, self.n, self.counts_votes = event, len(event.scene), arm == SPREAD
        self.many = ManyBuildings(
            event.views, np.ones(self.n, np.bool_), ranking.MOST_AT_ONCE, ranking.MOST_UNLABELED, ranking._read
        )
        self.features = ranker.prepare(event.views[0].astype(np.float32)).values

    def scores(self, clicked: Rows, asked: Sequence[int] = (), checks: Sequence[int] = ()) -> NDArray[np.float32]:
        """Rank all by clicks and answers to the queue; random checks teach nothing, as in the product."""
        rows = np.array(sorted({*asked} - {*checks}), np.int64)
        is_damaged = self.event.is_damaged[rows]
        queued, known = rows[is_damaged], rows[~is_damaged]
        rest = np.setdiff1d(np.arange(self.n), [*clicked, *asked])
        unlabeled = np.sort(rest[np.argsort(places_of(self.n)[rest], kind="stable")[: ranking.MOST_UNLABELED]])
        votes = votes_of(self.event.xy_m[[*clicked, *queued]], len(clicked)) if self.counts_votes else None
        return self.many._ranked(
            Moment(0, ""), Marks(clicked, queued, unlabeled, known, known[:0], votes=votes), known[:0]
        ).scores

    def play(self, clicked: Rows, seed: int) -> dict[int, str]:
        """Answer the queue; return row -> kind, in the order of the answers."""
        answers, items, scores = dict[int, str](), list[queue.Item](), self.scores(clicked)
        state = queue.QueueState(np.isin(np.arange(self.n), clicked), np.zeros(self.n, np.bool_))
        given = self.features, self.event.xy_m
        while len(answers) < N_ANSWERS:
            if not (waiting := [item for item in items if item.row not in answers]):
                taught = np.isin(np.arange(self.n), [*clicked, *(row for row, kind in answers.items() if kind != "audit")])
                silent = queue.of_silent_scenes(
                    self.event.scene.astype(np.str_), scores, ~(state.is_answered | state.is_shown),
                    taught & self.event.is_damaged, taught & ~self.event.is_damaged,
                )  # fmt: skip
                items = [queue.Item(row, "explore", "") for row, _ in islice(silent, MOST_OF_SILENT_SCENES)]
                state.is_shown[[item.row for item in items]] = True
                found = queue.next_queue(scores, *given, state, n=LENGTH - len(items), seed=seed)
                items, state = items + found.items, found.state
                waiting = items
            answers[waiting[0].row] = waiting[0].kind
            state.is_answered[waiting[0].row] = True
            if len(answers) % EVERY == 0:  # as `queueing.current`: the first that is open stays, and so do checks
                scores = self.scores(clicked, [*answers], [row for row, kind in answers.items() if kind == "audit"])
                open_ = [at for at, item in enumerate(items) if item.kind == "exploit" and item.row not in answers][1:]
                state.is_shown[[items[at].row for at in open_]] = False
                best = queue.spread(scores, *given, state, ~(state.is_answered | state.is_shown), len(open_))
                for at, row in zip(open_, best.tolist(), strict=False):
                    items[at] = queue.Item(row, "exploit", "")
                state.is_shown[[item.row for item in items]] = True
        return answers


def played(ready: Loop | None, event: Source, name: str, seed: int, arm: str) -> list[Answered]:
    """Play one draw of clicks, and rank by as many random answers, too."""
    loop = ready or Loop(event, arm)
    is_damaged, everything, draw = loop.event.is_damaged, np.arange(loop.n), np.random.default_rng([seed, 77])
    clicked = np.sort(draw.choice(np.flatnonzero(is_damaged), N_CLICKS, replace=False))
    others = draw.choice(np.setdiff1d(everything, clicked), N_ANSWERS, replace=False)
    with patch.object(queue, "PART_LIKELY", queue.PART_LIKELY if arm == SPREAD else 0.0):
        answers = loop.play(clicked, seed)
    is_open = ~np.isin(everything, [*clicked, *answers])
    both = is_open & ~np.isin(everything, others)
    after = loop.scores(clicked, [*answers], [row for row, kind in answers.items() if kind == "audit"])
    own = np.sort(np.concatenate([clicked, others[is_damaged[others]]]))
    by_chance = loop.scores(own, [*own, *others])
    before = loop.scores(clicked)
    scored = ((before, is_open), (after, is_open), (after, both), (by_chance, both), (before, both))
    ap = [round(metrics.average_precision(scores[mask], is_damaged[mask]), 4) for scores, mask in scored]
    return [Answered(name, seed, arm, int(is_damaged[[*answers]].sum()), *ap[:4], round(ap[3] - ap[4], 4))]


def title(name: str, share: float | None) -> str:
    return name if share is None else f"{name} at {100 * share:g} %"


def summary(outcomes: Sequence[Answered], names: Sequence[str], words: str) -> str:
    """Write a row of the table for each queue, of all draws of some sets."""
    rows = ""
    for arm in (HIGHEST, SPREAD):
        some = [each for each in outcomes if each.set in names and each.arm == arm]
        gains, chance = np.array([[each.after - each.before, each.chance_gain] for each in some]).T
        rows += row(
            words, arm, f"{np.mean([each.before for each in some]):.3f}", ahead(gains.tolist()),
            f"{np.mean(gains < -FALL):.0%} ({np.mean(chance < -FALL):.0%})",
            ahead([each.common - each.by_chance for each in some]), f"{np.mean([each.found for each in some]):.1f}",
        )  # fmt: skip
    return rows


def main() -> None:
    cache, sets = Path(sys.argv[1]), [*CHOSEN, *REPORTED]
    for name, share in sets:
        if not (cache / f"{name}.npz").exists():
            continue
        source = read_source(cache, name)
        loops = {arm: Loop(source, arm) for arm in (HIGHEST, SPREAD)} if share is None else {}
        for seed in range(N_DRAWS):
            part = source if share is None else thinned(source, share, seed)
            for arm in (HIGHEST, SPREAD):
                key = title(name, share), seed, arm
                KEPT.once(key, partial(played, loops.get(arm), part, *key))
    found = KEPT.read()
    there = [title(*each) for each in sets if any(one.set == title(*each) for one in found)]
    chosen = [name for name in there if name in [title(*each) for each in CHOSEN]]
    rows = [summary(found, chosen, "all that it was chosen on"), *(summary(found, [name], name) for name in there)]
    print(table("set | queue | AP before | gain | falls (random) | to random answers | found", rows))


if __name__ == "__main__":
    main()
