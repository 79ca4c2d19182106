"""A made-up project with a finished run, and somebody who answers its audits by the truth."""

from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from small_parts import add_chips, add_run, answer, click, op_of, small_project

from pu_geo.answers import random_checks
from pu_geo.answers.random_checks import Check
from pu_geo.assessment import random_audits
from pu_geo.store import checks
from pu_geo.store.contents import chip_facts
from pu_geo.store.layout import Layout

N = 400
RUN = "ranker-1"
TRUTH: NDArray[np.bool_] = np.random.default_rng(1).random(N) < 0.1
"""Which buildings are damaged; of a smaller project the first ones."""


def mapped_project(folder: Path, n: int = N, sites: Sequence[int] = ()) -> Layout:
    """400 buildings, a tenth damaged and mostly scored high; b0 and b1 have no data."""
    layout = small_project(folder / "event.pugeo", n, sites=sites)
    draw = np.random.default_rng(1)
    truth = draw.random(n) < 0.1
    scores = (1 / (1 + np.exp(-(draw.normal(size=n) + 3.0 * truth - 2)))).astype(np.float32)
    ids = [f"b{i}" for i in range(n)]
    add_chips(layout, ids, nodata_share=[0.9, 0.9] + [0.0] * (n - 2))
    facts = {"n_positive": 5, "n_unlabeled": n - 5}
    add_run(layout, RUN, scores=scores, created_at="2026-01-01T00:00:00.000Z", **facts)
    return layout


def say(layout: Layout, building: str, label: str, *, analyst: str = "ann", check: Check | None = None) -> None:
    """Store one answer, of a check if one is named."""
    if check is None:
        return click(layout, building, label=label, analyst=analyst)
    chance = random_checks.inclusion_of(check, chip_facts(layout, check.chip_set)["building_ids"].index(building))
    hand_out(layout, check, [building], analyst)
    return click(layout, building, label=label, analyst=analyst, shown="audit", inclusion=chance)


def hand_out(layout: Layout, check: Check, buildings: Iterable[str], analyst: str = "ann") -> None:
    """Note in a check that its queue showed some buildings, as `check_queue` does."""
    facts, _ = checks.load(layout, check.id)
    checks.save_facts(layout, checks.handed_out(facts, buildings, analyst))


def say_all(layout: Layout, rows: Iterable[int]) -> None:
    """Store the truth of some rows as ordinary clicks."""
    answer(layout, *(op_of(f"b{row}", "positive" if TRUTH[row] else "not_damaged") for row in rows))


def answer_audit(layout: Layout, n: int, *, truth: NDArray[np.bool_] = TRUTH, run_id: str = RUN) -> Check:
    """Begin an audit, of 30 checks at least and always the same ones, and answer n of it by the truth."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(random_audits, "_seed", lambda: 1)
        check = random_audits.begin_audit(layout, run_id, max(n, 30), "ann")
    say_checks(layout, check, n, truth=truth)
    return check


def say_checks(layout: Layout, check: Check, n: int, *, truth: NDArray[np.bool_] = TRUTH) -> None:
    """Answer the first n checks of the random order by the truth."""
    rows = check.sample.rows[:n].tolist()
    hand_out(layout, check, [f"b{row}" for row in rows])
    chances = check.sample.inclusion()[check.sample.stratum[:n]].tolist()
    labels = ["positive" if truth[row] else "not_damaged" for row in rows]
    given = zip(rows, labels, chances, strict=True)
    answer(layout, *(op_of(f"b{row}", label, shown="audit", inclusion=chance) for row, label, chance in given))
