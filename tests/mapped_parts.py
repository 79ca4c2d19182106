"""A made-up project with a finished run, and somebody who answers its audits by the truth."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from small_parts import add_chips, add_run, small_project

from pu_geo.project import checks, labels, store
from pu_geo.project.labels import LabelOp
from pu_geo.project.layout import Layout
from pu_geo.services.damage_map import random_audits

N = 400
RUN = "ranker-1"
_NUMBERS = itertools.count()


def mapped_project(folder: Path, n: int = N) -> tuple[Layout, NDArray[np.bool_]]:
    """400 buildings, a tenth damaged and mostly scored high; b0 and b1 have no data. Returns the truth, too."""
    layout = small_project(folder / "event.pugeo", n)
    draw = np.random.default_rng(1)
    truth = draw.random(n) < 0.1
    scores = (1 / (1 + np.exp(-(draw.normal(size=n) + 3.0 * truth - 2)))).astype(np.float32)
    ids = [f"b{i}" for i in range(n)]
    add_chips(layout, ids, nodata_share=[0.9, 0.9] + [0.0] * (n - 2))
    facts = {"n_positive": 5, "n_unlabeled": n - 5, "estimated_share": 0.1}
    add_run(layout, RUN, scores=scores, created_at="2026-01-01T00:00:00.000Z", **facts)
    return layout, truth


def say(
    layout: Layout, building: str, label: str, *, analyst: str = "ann", check: random_audits.Check | None = None
) -> None:
    """Store one answer, of a check if one is named."""
    chance = random_audits.inclusion_of_building(layout, check, building) if check else None
    if check:
        hand_out(layout, check, [building], analyst)
    op = LabelOp(f"said-{next(_NUMBERS)}", building, label, shown="audit" if check else "", inclusion=chance)  # type: ignore[arg-type]
    with store.connect(layout) as db:
        (ack,) = labels.append(db, [op], analyst=analyst, screen="queue")
    assert ack.error is None


def hand_out(layout: Layout, check: random_audits.Check, buildings: Iterable[str], analyst: str = "ann") -> None:
    """Note in a check that its queue showed some buildings, as `check_queue` does."""
    facts, _ = checks.load(layout, check.id)
    checks.save_facts(layout, checks.handed_out(facts, buildings, analyst))


def say_all(layout: Layout, rows: Iterable[int], truth: NDArray[np.bool_]) -> None:
    """Store the truth of some rows as ordinary clicks, in one transaction."""
    ops = [LabelOp(f"said-{next(_NUMBERS)}", f"b{row}", "positive" if truth[row] else "not_damaged") for row in rows]
    with store.connect(layout) as db:
        labels.append(db, ops, analyst="ann", screen="map")


def answer_audit(layout: Layout, truth: NDArray[np.bool_], n: int, *, run_id: str = RUN) -> random_audits.Check:
    """Begin an audit and answer all of it by the truth."""
    check = random_audits.begin_audit(layout, run_id, n, "ann")
    say_checks(layout, truth, check, n)
    return check


def say_checks(layout: Layout, truth: NDArray[np.bool_], check: random_audits.Check, n: int) -> None:
    """Answer the first n checks of the random order by the truth, in one transaction."""
    hand_out(layout, check, [f"b{row}" for row in check.sample.rows[:n].tolist()])
    chance = check.sample.inclusion()[check.sample.stratum[:n]].tolist()
    ops = [
        LabelOp(
            f"said-{next(_NUMBERS)}", f"b{row}", "positive" if truth[row] else "not_damaged", shown="audit", inclusion=one
        )
        for row, one in zip(check.sample.rows[:n].tolist(), chance, strict=True)
    ]
    with store.connect(layout) as db:
        acks = labels.append(db, ops, analyst="ann", screen="queue")
    assert not any(ack.error for ack in acks)
