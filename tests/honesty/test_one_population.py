"""What was removed is in no count: estimates, thresholds, ranks, audits and maps speak of the buildings that are there."""

import json
from collections.abc import Callable

import numpy as np
import pytest
from mapped_parts import RUN, TRUTH, N, answer_audit, say_all
from small_parts import job_of

from pu_geo.answers import random_checks
from pu_geo.assessment import auditing, random_audits
from pu_geo.errors import PuGeoError
from pu_geo.lifecycle import removing
from pu_geo.lifecycle.remove_job import remove_footprints
from pu_geo.maps import damage_map, thresholds
from pu_geo.maps.damage_map_job import build_damage_map
from pu_geo.store import aoi, chosen, contents, population, runs, store
from pu_geo.store.chosen import Threshold
from pu_geo.store.layout import Layout

Check = random_checks.Check
ROWS = np.arange(N)


def undrawn(check: Check) -> list[int]:
    return check.sample.rows[check.sample.n_drawn :][:130].tolist()


def found(check: Check) -> list[int]:
    """Return what a search beside the audit called damaged."""
    return [row for row in undrawn(check) if TRUTH[row]]


def half(check: Check) -> list[int]:
    return ROWS[ROWS % 2 == 0].tolist()


def checked(check: Check) -> list[int]:
    return check.sample.rows[: check.sample.n_drawn // 3].tolist()


CASES: dict[str, tuple[Callable[[Check], list[int]], bool, str]] = {
    "buildings that no check drew, by a list": (undrawn, True, "finished"),
    "what the search found damaged, by a list": (found, True, "void"),
    "every other building, by an area": (half, False, "finished"),
    "every other building, by a list": (half, True, "finished"),
    "a third of what was checked, by an area": (checked, False, "finished"),
    "a third of what was checked, by a list": (checked, True, "void"),
}


@pytest.mark.parametrize("name", CASES)
def test_what_was_removed_is_in_no_count(mapped: Layout, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    which, by_list, state = CASES[name]
    check = answer_audit(mapped, 150)
    random_audits.end(mapped, check.id)
    if which is found:
        say_all(mapped, found(check))
    before = auditing.how_many(mapped)
    limit = Threshold(chosen.threshold(mapped, RUN).value, f"audit:{check.id}")
    gone = [f"b{row}" for row in which(check)]
    monkeypatch.setattr(aoi, "outside", lambda db: gone)
    remove_footprints(job_of(mapped), name=json.dumps(gone) if by_list else "outside-aoi", analyst="ann")
    stays = np.array([f"b{row}" not in gone for row in ROWS])
    n, run = int(stays.sum()), chosen.run(mapped, RUN)
    n_assessable = int(stays[2:].sum())

    told = auditing.how_many(mapped)
    assert told.audit_state == state
    assert random_audits.unfinished_audit(mapped) is None
    if state == "void":
        assert told.total.value is None
        assert "no random choice" in told.words
        facts = build_damage_map(mapped, RUN, limit.value, threshold_origin=limit.origin).metadata
        assert "which estimates nothing any more" in thresholds.which_words(facts)
    else:
        assert told.n == n_assessable
        assert told.total.low <= TRUTH[2:][stays[2:]].sum() <= told.total.high
        assert f"they speak for the {n_assessable:,} that are left" in told.words

    open_now = population.of_run(mapped, run)
    assert sorted(open_now.ranks()) == list(range(1, n + 1))
    names, rows = store.call(mapped, contents.live_map)
    ranks = [row[names.index("rank")] for row in rows if row[names.index("rank")] is not None]
    published = build_damage_map(mapped, RUN, None)
    assert sorted(ranks) == sorted(one for one in published.columns["rank"] if one is not None)
    assert len(rows) == len(published.building_ids) == n >= max(ranks)
    assert sum(row["n"] for row in published.metadata["scenes"]) in (0, n)

    k = min(10, int(open_now.is_open.sum()))
    here = damage_map.of_run(mapped, RUN, thresholds.top(damage_map.of_run(mapped, RUN), k))
    assert (here.n["flagged"], len(here.classes)) == (k, n)
    n_left = int(open_now.is_open.sum())
    with pytest.raises(PuGeoError, match=f"{n_left:,} buildings have no answer yet"):
        random_audits.begin_audit(mapped, RUN, n_left + 1, "ann")
    again = random_audits.begin_audit(mapped, RUN, n_left, "ann")
    assert not {f"b{row}" for row in again.sample.rows}.intersection(gone)
    random_audits.end(mapped, again.id)

    removing.undo(mapped, "ann")
    assert auditing.how_many(mapped).total == before.total
    assert len(runs.building_ids_of(mapped, RUN)) == len(damage_map.of_run(mapped, RUN, 0.5).classes) == N
