"""What people decide about clusters: accept, reject, split, merge, and take the last of it back; and what the next run gets."""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from pu_geo.analysis import assessability, estimates, inspecting, ranker
from pu_geo.errors import ProjectError
from pu_geo.project import contents, decisions, labels, pseudo_positives, runs, store
from pu_geo.project.layout import Layout
from pu_geo.services.annotate import ranking
from pu_geo.services.explore.clusters import Inspected
from pu_geo.services.imagery.preparation import chip_facts

TOP = 100
_LONGEST = 24
WORDS = {
    pseudo_positives.ACCEPT: "accepted",
    pseudo_positives.REJECT: "rejected",
    pseudo_positives.SPLIT: "split",
    pseudo_positives.MERGE: "merged",
}


@dataclass(frozen=True)
class NextRun:
    """What the next run learns from.

    Attributes:
        n_positive, n_not_damaged: answers of people.
        n_accepted: buildings of accepted clusters, learned from as positives.
        n_overruled: buildings of accepted clusters that do not count, as people answered them.
    """

    n_positive: int
    n_not_damaged: int
    n_accepted: int
    n_overruled: int

    @property
    def words(self) -> str:
        """For example "next run: 30 positives + 41 accepted"."""
        return f"next run: {self.n_positive:,} positive{'' if self.n_positive == 1 else 's'} + {self.n_accepted:,} accepted"


@dataclass(frozen=True)
class Effect:
    """What the accepted clusters change in the instant ranker's order: of its `n` highest open buildings `n_kept` stay."""

    n: int
    n_kept: int


@dataclass(frozen=True)
class Past:
    """A decision on clusters that stands: its number, and in words what it is, whose, and of which run."""

    decision: int
    words: str


def accept(layout: Layout, run_id: str, inspected: Inspected, name: str, *, analyst: str) -> int:
    """Let the unlabeled buildings of a cluster count as positives in the next run; return how many.

    Raises:
        ProjectError: if there is no such cluster, or nothing unlabeled is in it.
    """
    members, is_open = _members(layout, inspected, name)
    ids = [building for building, one in zip(members, is_open, strict=True) if one]
    if not ids:
        raise ProjectError(
            f"Every building of cluster {name} has an answer already.", "There is nothing to accept.", kind="cluster"
        )
    _decide(layout, run_id, inspected, pseudo_positives.ACCEPT, [name], ids, {"members": members}, analyst)
    return len(ids)


def reject(layout: Layout, run_id: str, inspected: Inspected, name: str, *, analyst: str) -> int:
    """Say that a cluster is not damage: what was accepted of its buildings counts no more; return how many these are.

    They are not called undamaged: nobody looked at each.

    Raises:
        ProjectError: if there is no such cluster.
    """
    members, _ = _members(layout, inspected, name)
    with store.connect(layout) as db:
        before = pseudo_positives.accepted_ids(db)
    _decide(layout, run_id, inspected, pseudo_positives.REJECT, [name], members, {"members": members}, analyst)
    return len(before.intersection(members))


def split(layout: Layout, run_id: str, inspected: Inspected, name: str, *, analyst: str) -> tuple[str, str]:
    """Split a cluster by two means within it; return the names of the two.

    Raises:
        ProjectError: if there is no such cluster, or its embeddings coincide.
    """
    rows = inspected.rows_of(name)
    embeddings = np.asarray(runs.array(layout, run_id, "embeddings"), np.float32)[rows]
    side = inspecting.split_in_two(embeddings) if len(rows) > 1 else np.zeros(len(rows), np.int64)
    if len(np.unique(side)) < 2:
        raise ProjectError(f"Cluster {name} cannot be split: its chips look the same.", "Leave it whole.", kind="cluster")
    into = _free(inspected, f"{name}a"), _free(inspected, f"{name}b")
    moved = [inspected.ids[row] for row in rows[side == 1]]
    _decide(layout, run_id, inspected, pseudo_positives.SPLIT, [name], moved, {"into": list(into)}, analyst)
    return into


def merge(layout: Layout, run_id: str, inspected: Inspected, first: str, second: str, *, analyst: str) -> str:
    """Make one cluster of two; return its name.

    Raises:
        ProjectError: if one of them is not there, or they are the same.
    """
    for name in (first, second):
        inspected.rows_of(name)
    if first == second:
        raise ProjectError(f"Cluster {first} cannot be merged with itself.", "Choose another one.", kind="cluster")
    into = _free(inspected, f"{first}+{second}")
    _decide(layout, run_id, inspected, pseudo_positives.MERGE, [first, second], [], {"into": [into]}, analyst)
    return into


def undo(layout: Layout, decision: int, *, analyst: str) -> str:
    """Take back a decision on clusters, and no other; return it in words.

    Raises:
        ProjectError: if there is no such decision, or somebody took it back already.
    """
    with store.connect(layout) as db, store.transaction(db):
        act = next((act for act in pseudo_positives.acts(db) if act.decision == decision), None)
        if act is None:
            raise ProjectError("That decision stands no more.", "Look at the clusters as they are now.", kind="decision")
        decisions.decide(db, secrets.token_hex(16), pseudo_positives.KIND, act.name, None, analyst=analyst)
    return words_of(act.facts)


def history(layout: Layout, run_id: str | None = None) -> list[Past]:
    """Return the decisions on clusters that stand, of one run or of all, newest first."""
    with store.connect(layout) as db:
        acts = pseudo_positives.acts(db, run_id)
    return [
        Past(act.decision, f"{words_of(act.facts)} ({act.analyst}, {act.at[:16]}, run {act.facts['run_id']})")
        for act in reversed(acts)
    ]


def words_of(facts: Mapping[str, Any]) -> str:
    """Say a decision in words."""
    names = " and ".join(facts["of"])
    told = f" into {' and '.join(facts['into'])}" if facts.get("into") else ""
    n = f", {len(facts['building_ids']):,} buildings" if facts["decision"] == pseudo_positives.ACCEPT else ""
    return f"cluster {names} {WORDS[facts['decision']]}{told}{n}"


def next_run(layout: Layout) -> NextRun:
    """Return what the next run of the newest chips learns from; zeros before there are chips."""
    with store.connect(layout) as db:
        chip_set = contents.latest_chip_set(db)
        if chip_set is None:
            return NextRun(0, 0, 0, 0)
        facts = chip_facts(layout, chip_set)
        pu = labels.pu_set(db, ids=facts["building_ids"]).without(assessability.reasons(facts) != "")
        taken, n = pseudo_positives.accepted_ids(db), int(pseudo_positives.is_accepted(db, pu).sum())
    n_there = len(taken.intersection(pu.building_ids))
    return NextRun(int(pu.is_positive.sum()), int(pu.is_not_damaged.sum()), n, n_there - n)


def effect(layout: Layout) -> Effect | None:
    """Rank with and without the accepted clusters, and compare the highest scores among what nobody answered.

    Returns:
        None where nothing is accepted, or nothing can be ranked.
    """
    with store.connect(layout) as db:
        chip_set = contents.latest_chip_set(db)
        stamp = labels.last_event(db), decisions.last_decision(db)
    return None if chip_set is None else _effect(layout, chip_set, stamp)


@lru_cache(maxsize=4)
def _effect(layout: Layout, chip_set: str, stamp: tuple[int, int]) -> Effect | None:
    """Work it out by the labels and decisions up to those of `stamp`, so that a page drawn anew fits nothing."""
    event, decision = stamp
    facts = chip_facts(layout, chip_set)
    with store.connect(layout) as db:
        pu = labels.pu_set(db, at=event, ids=facts["building_ids"]).without(assessability.reasons(facts) != "")
        is_accepted = pseudo_positives.is_accepted(db, pu, at=decision)
    if not is_accepted.any() or not pu.is_positive.any() or (pu.is_positive | is_accepted).all():
        return None
    prepared = ranker.PreparedFeatures(ranking.plain_features(layout, chip_set))
    known = {"is_excluded": pu.is_excluded, "is_not_damaged": pu.is_not_damaged}
    with_them, _ = estimates.rank_with_estimate(prepared, pu.is_positive, **known, is_accepted=is_accepted)
    without, _ = estimates.rank_with_estimate(prepared, pu.is_positive, **known)
    is_open = ~(pu.is_positive | pu.is_not_damaged | pu.is_excluded)
    rows = np.flatnonzero(is_open)
    n = min(TOP, len(rows))
    tops = [set(rows[np.argsort(-scores[rows], kind="stable")[:n]].tolist()) for scores in (without, with_them)]
    return Effect(n, len(tops[0] & tops[1]))


def _members(layout: Layout, inspected: Inspected, name: str) -> tuple[list[str], list[bool]]:
    """Return the buildings of a cluster, and which of them nobody has answered."""
    ids = [inspected.ids[row] for row in inspected.rows_of(name)]
    with store.connect(layout) as db:
        pu = labels.pu_set(db, ids=ids)
    return ids, (~(pu.is_positive | pu.is_not_damaged | pu.is_excluded)).tolist()


def _free(inspected: Inspected, name: str) -> str:
    """Return a name that no cluster has, a short one where this would be long."""
    if len(name) > _LONGEST:
        name = "m"
    numbered = (f"{name}{number or ''}" for number in range(1 if name == "m" else 0, len(inspected.names) + 2))
    return next(one for one in numbered if one not in inspected.names)


def _decide(
    layout: Layout, run_id: str, inspected: Inspected, decision: str, of: Sequence[str], ids: Sequence[str],
    more: Mapping[str, object], analyst: str,
) -> None:  # fmt: skip
    how = "two means" if inspected.kind == "two" else f"{len(inspected.clusters)} clusters"
    op = secrets.token_hex(16)
    facts = {
        "run_id": run_id, "clustering": inspected.clustering, "decision": decision, "of": list(of), "building_ids": list(ids),
        "how": how, **more,
    }  # fmt: skip
    with store.connect(layout) as db:
        decisions.decide(
            db, op, pseudo_positives.KIND, f"{decision} {'+'.join(of)}"[:50] + f" {op[:8]}", facts, analyst=analyst
        )
