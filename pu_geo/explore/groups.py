"""Clusters that a person can name: small groups of a source, PUPL's two of a run, and what people decide about them.

How much of one is damaged is never read from its name: the same measures mean damage in one event and mud in another.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any, Literal

import numpy as np

from pu_geo.assessment import auditing
from pu_geo.errors import ProjectError
from pu_geo.explore import looks
from pu_geo.records import Bools, Ints
from pu_geo.runs.training import to_learn_from
from pu_geo.store import chosen, contents, decisions, labels, pseudo_positives, runs, store
from pu_geo.store.decisions import Decision
from pu_geo.store.layout import Layout, read_json
from pu_geo.store.pseudo_positives import ACCEPT, REJECT
from pu_geo.wording import day_and_time, plural

State = Literal["", "accepted", "partly", "rejected"]
COMMON_FROM = 0.3  # estimated share of damaged buildings from which small groups would cut the damage to pieces
FLAGGED_FROM = 0.5  # the same of flagged ones: where 1 % is damaged, a starting threshold may flag a third
OF_PUPL = ("of the others (PUPL)", "of the damaged (PUPL)")


@dataclass(frozen=True)
class Group:
    """One cluster.

    Attributes:
        words: its number, the largest first, and what stands out in it: "3 · became rougher, brownish"; or which of PUPL's
            two it is.
        follows: what it follows that is no damage, "scene north (93 %)"; "" where nothing.
        n_positive, n_not_damaged: answers in it now.
        n_open: buildings that accepting it would add to the next training: neither answered nor left out.
        state: what people decided.
    """

    words: str
    follows: str
    building_ids: Sequence[str]
    n_positive: int
    n_not_damaged: int
    n_open: int
    state: State


@dataclass(frozen=True)
class Grouping:
    """The clusters of a source, those first in which a larger share was called damaged; PUPL's two come last.

    Attributes:
        why: how their number came about, one sentence.
        n_positive: damaged buildings in all of them.
    """

    source: str
    why: str
    groups: Sequence[Group]
    n_positive: int


def v(layout: Layout, source: str) -> str:
    """Return a text that changes with the clusters of a source; "" before the job has found them."""
    path = looks.groups_file(layout, source)
    return f"{_kind(layout)}-{path.stat().st_mtime_ns}" if path.is_file() else ""


def stored(layout: Layout, source: str) -> tuple[Ints, Sequence[str]]:
    """Return the cluster of each building of a source, int64 [N], and what stands out in each cluster.

    Raises:
        ProjectError: if the job that finds them has not ended yet.
    """
    part, words, _ = _stored(layout, source, v(layout, source))
    return part, words


@lru_cache(maxsize=2)
def _stored(layout: Layout, source: str, v: str) -> tuple[Ints, Sequence[str], Sequence[str]]:
    if not v:
        raise ProjectError("There are no clusters yet.", "Wait until the picture is drawn.", kind="cluster")
    found = read_json(looks.groups_file(layout, source))[v.partition("-")[0]]
    return np.asarray(found["part"], np.int64), found["words"], found["follows"]


def grouping(layout: Layout, source: str, run_id: str = "") -> Grouping:
    """Return the clusters of a source as they are now.

    Args:
        run_id: of the run whose two clusters by PUPL come with them; none if "".

    Raises:
        ProjectError: if the job that finds them has not ended yet.
    """
    with store.connect(layout) as db:
        stamps = labels.moment(db), decisions.last_decision(db), contents.geometry_v(db)
    return _grouping(layout, source, run_id, v(layout, source), stamps)


@lru_cache(maxsize=4)
def _grouping(layout: Layout, source: str, run_id: str, v: str, stamps: tuple[Any, ...]) -> Grouping:
    """Work out all clusters; other `stamps` make a new entry."""
    part, words, follows = _stored(layout, source, v)
    described = _described(
        layout, looks.ids_of(layout, source), part, [f"{k} · {each}" for k, each in enumerate(words, 1)], follows
    )
    described.sort(key=lambda one: (-one.n_positive / len(one.building_ids), -one.n_positive))
    n = len(described)
    if v.startswith("large"):
        why = f"{n} large ones by k-means: damage is common here, and small ones would cut it to pieces."
    else:
        why = f"{n} by the graph of look-alikes, which finds their number by itself: small ones can follow rare damage."
    if run_id and (runs_ids := runs.building_ids_of(layout, run_id)):
        two = np.asarray(runs.array(layout, run_id, "clusters"), np.int64)
        described += _described(layout, runs_ids, two, OF_PUPL, ("", ""))[::-1]
    return Grouping(source, why, described, sum(one.n_positive for one in described[:n]))


def _described(layout: Layout, ids: Sequence[str], part: Ints, words: Sequence[str], follows: Sequence[str]) -> list[Group]:
    """Describe each part of some buildings that has members."""
    with store.connect(layout) as db:
        pu, taken, acts = labels.pu_set(db, ids=ids), pseudo_positives.accepted_ids(db), pseudo_positives.acts(db)
    is_in = partial(_is_in, ids)
    is_open = is_in(_open(layout))
    is_taken, is_rejected = is_in(taken) & is_open, is_in(_rejected(acts))
    found = []
    for number, (name, follow) in enumerate(zip(words, follows, strict=True)):
        rows = np.flatnonzero(part == number)
        n_open, n_taken = int(is_open[rows].sum()), int(is_taken[rows].sum())
        state: State = "rejected" if is_rejected[rows].all() else ""
        if n_taken:
            state = "accepted" if n_taken == n_open else "partly"
        counts = int(pu.is_positive[rows].sum()), int(pu.is_not_damaged[rows].sum()), n_open
        if len(rows):
            found.append(Group(name, follow, [ids[row] for row in rows.tolist()], *counts, state))
    return found


def _open(layout: Layout) -> set[str]:
    """Return the buildings that a training would take as unlabeled: neither answered, nor left out, nor hidden."""
    _, pu = to_learn_from(layout)
    return {pu.building_ids[row] for row in np.flatnonzero(pu.is_open).tolist()}


def _is_in(ids: Sequence[str], some: set[str]) -> Bools:
    return np.fromiter(map(some.__contains__, ids), np.bool_, len(ids))


def _rejected(acts: Sequence[Decision]) -> set[str]:
    found: set[str] = set()
    for act in acts:
        members = act.facts["building_ids" if act.facts["decision"] == REJECT else "members"]
        (found.update if act.facts["decision"] == REJECT else found.difference_update)(members)
    return found


def _kind(layout: Layout) -> Literal["small", "large"]:
    """Return which clusters suit the project: few large ones where damage is common, by the accuracy assessment, else by
    what the run that is shown flags.
    """
    total, run = auditing.how_many(layout).total, chosen.chosen_run(layout)
    is_common = False
    if total.value is not None:
        is_common = total.value >= COMMON_FROM * store.call(layout, contents.count_footprints)
    elif run is not None:
        scores = np.asarray(runs.array(layout, run.run_id, "scores"))
        is_common = bool((scores >= chosen.threshold(layout, run.run_id).value).mean() >= FLAGGED_FROM)
    return "large" if is_common else "small"


def accept(layout: Layout, source: str, group: Group, *, analyst: str) -> int:
    """Accept the open buildings of a cluster as positives of the next training; return how many.

    Raises:
        ProjectError: if everything in it has an answer, or is hidden.
    """
    is_open = _open(layout)
    ids = [building for building in group.building_ids if building in is_open]
    if not ids:
        raise ProjectError(
            "Every building of this cluster has an answer, or is hidden.", "There is nothing to accept.", kind="cluster"
        )
    _decide(layout, source, ACCEPT, group, ids, analyst)
    return len(ids)


def reject(layout: Layout, source: str, group: Group, *, analyst: str) -> int:
    """Store that a cluster is not damage: what was accepted of its buildings counts no more; return how many these are.

    They are not called undamaged: nobody reviewed each.
    """
    before = store.call(layout, pseudo_positives.accepted_ids)
    _decide(layout, source, REJECT, group, group.building_ids, analyst)
    return len(before.intersection(group.building_ids))


def _decide(layout: Layout, source: str, decision: str, group: Group, ids: Sequence[str], analyst: str) -> None:
    op = secrets.token_hex(16)
    members = list(group.building_ids)
    facts = {"source": source, "decision": decision, "of": group.words, "building_ids": list(ids), "members": members}
    store.call(layout, decisions.decide, op, pseudo_positives.KIND, f"{decision} {op[:16]}", facts, analyst=analyst)


def undo(layout: Layout, decision: int, *, analyst: str) -> str:
    """Undo a decision on clusters, and no other; return it in words.

    Raises:
        ProjectError: if there is no such decision, or somebody took it back already.
    """
    with store.connect(layout) as db, store.transaction(db):
        act = next((act for act in pseudo_positives.acts(db) if act.decision == decision), None)
        if act is None:
            raise ProjectError("That decision stands no more.", "Look at the clusters as they are now.", kind="decision")
        decisions.decide(db, secrets.token_hex(16), pseudo_positives.KIND, act.name, None, analyst=analyst)
    return _words_of(act)


def newest(layout: Layout) -> tuple[int, str] | None:
    """Return the newest decision on clusters that stands: its number, and in words what it is and whose."""
    acts = store.call(layout, pseudo_positives.acts)
    return (acts[-1].decision, f"{_words_of(acts[-1])} ({acts[-1].analyst}, {day_and_time(acts[-1].at)})") if acts else None


def _words_of(act: Decision) -> str:
    n = len(act.facts["building_ids"])
    did = f"added {plural(n, 'pseudo-positive')}" if act.facts["decision"] == ACCEPT else "rejected"
    return f"“{act.facts['of']}” {did}"


def next_training(layout: Layout) -> str:
    """Return what the next training learns from: "30 damaged + 41 pseudo-positives"; "" before there are chips."""
    if store.call(layout, contents.latest_chip_set) is None:
        return ""
    facts, pu = to_learn_from(layout)
    with store.connect(layout) as db:
        marked = labels.pu_set(db, ids=facts["building_ids"]).is_positive
        n_accepted = int(pseudo_positives.is_accepted(db, pu).sum())
    n, n_hidden = int(pu.is_positive.sum()), int((marked & ~pu.is_positive).sum())
    hidden = f" ({n_hidden:,} more hidden in the imagery)" if n_hidden else ""
    return f"{n:,} damaged{hidden} + {plural(n_accepted, 'pseudo-positive')}"
