"""The PUPL clusters of a run as people have split and merged them, what is in each, and what people decide about them."""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal

import numpy as np

from pu_geo.analysis import inspecting
from pu_geo.assessment import auditing
from pu_geo.errors import ProjectError
from pu_geo.explore.umap_picture import embeddings_of
from pu_geo.records import Facts, Ints, PUSet, Singles
from pu_geo.runs.training import to_learn_from
from pu_geo.store import contents, decisions, labels, pseudo_positives, run_names, runs, store
from pu_geo.store.decisions import Decision
from pu_geo.store.labels import Moment
from pu_geo.store.layout import Layout, read_json
from pu_geo.store.pseudo_positives import ACCEPT, MERGE, REJECT, SPLIT
from pu_geo.wording import day_and_time

Kind = Literal["two", "many"]
State = Literal["", "accepted", "partly", "rejected"]
NAMES_OF_TWO = ("other", "positives")


@dataclass(frozen=True)
class Cluster:
    """One cluster.

    Attributes:
        name: "positives" and "other" of two means, "7" of many, "7a" after a split, "3+7" after a merge.
        n_positive, n_not_damaged: answers in it now.
        n_open: buildings that accepting it would add to the next run: neither answered nor left out.
        spread: quarter, middle and three quarters of the cosine distances to its center, each 0..2.
        damaged, low, high: estimated share of damaged buildings and its 95 % interval; None where nothing can be estimated.
        mean_score: of the run.
        stability: how well it is found again from other seeds, 0..1; None for two means, and after a split or merge.
        state: what people decided.
    """

    name: str
    size: int
    n_positive: int
    n_not_damaged: int
    n_open: int
    spread: tuple[float, float, float]
    damaged: float | None
    low: float | None
    high: float | None
    mean_score: float
    stability: float | None
    state: State


@dataclass(frozen=True)
class Inspected:
    """The clusters of a run, those first in which a larger share was clicked.

    Attributes:
        clustering: names what the clusters were made by, for the acts on them.
        names: of the clusters, by the numbers in `part`.
        part: cluster of each building of the run, int64 [N].
        gaps: cosine distance of each building to the center of each cluster, float32 [N, K]; 2 to one without members.
        ids: its buildings.
        n_kept, n_later: positives that two means knew and so kept in their cluster, and those that came later.
        n_near: of `n_kept`, those that lie nearer to their own of two means than to the other; None for many clusters.
        is_oriented: whether the positives lean to their cluster more than the unlabeled do; None for many clusters.
        potential: sum of squared distances to the centers; None where no job has worked it out.
    """

    kind: Kind
    clustering: str
    clusters: Sequence[Cluster]
    names: Sequence[str]
    part: Ints
    gaps: Singles
    ids: Sequence[str]
    n_near: int | None
    n_kept: int
    n_later: int
    is_oriented: bool | None
    potential: float | None

    def rows_of(self, name: str) -> Ints:
        """Return the rows of a cluster, int64. Raises ProjectError if there is no such cluster any more."""
        if name not in self.names:
            raise ProjectError(
                f"There is no cluster {name!r} any more.", "Look at the clusters anew: someone split or merged it.",
                kind="cluster",
            )  # fmt: skip
        return np.flatnonzero(self.part == list(self.names).index(name))


def is_clustered(layout: Layout, run_id: str) -> bool:
    """Return whether the job has split a run into many clusters."""
    return (layout.run(run_id) / "inspected.json").is_file()


def inspect(layout: Layout, run_id: str, kind: Kind) -> Inspected:
    """Return the clusters of a run: two means as the run stored them, or as the job did since; or many small ones.

    Raises:
        ProjectError: if there is no such run, it has no embeddings, or many are wanted and no job has run.
    """
    with store.connect(layout) as db:
        facts = runs.find(db, run_id)
        newest = labels.moment(db), decisions.last_decision(db)
    note = layout.run(facts.run_id) / "inspected.json"
    if kind == "many" and not note.is_file():
        raise ProjectError(
            f"Run {facts.run_id} was not split into many clusters yet.", "Start the clustering first.", kind="cluster"
        )
    stamp = note.stat().st_mtime_ns if note.is_file() else 0
    return _inspected(layout, facts.run_id, kind, (stamp, *newest))


@lru_cache(maxsize=3)
def _inspected(layout: Layout, run_id: str, kind: Kind, stamp: tuple[int, Moment, int]) -> Inspected:
    """Work out all clusters; another `stamp` makes a new entry."""
    ids = runs.building_ids_of(layout, run_id)
    with store.connect(layout) as db:
        facts, pu = runs.find(db, run_id), labels.pu_set(db, ids=ids)
        acts, taken = pseudo_positives.acts(db, run_id), pseudo_positives.accepted_ids(db)
        path = layout.run(run_id) / "inspected.json"
        note: dict[str, Any] = read_json(path) if path.is_file() else {}
        is_kept = labels.pu_set(db, at=note.get("at_event", facts.at_event), ids=ids).is_positive
    if not note:  # no job has run: the run's own two means
        is_kept = is_kept & ~runs.held_out(layout, run_id)
    clustering = f"{kind}-{note.get('made_by', 'run')}"
    names, part = _base(layout, run_id, kind, bool(note))
    own = note.get(kind, {})
    again = dict(zip(names, own.get("stability", ()), strict=False))
    names, part = _replayed(names, part, acts, clustering, ids)
    gaps = _gaps(layout, run_id, part.tobytes(), len(names))
    lies = part.copy()
    if kind == "two":  # PUPL keeps the positives in their cluster wherever they lie, which says nothing of the others in it
        lies[is_kept] = gaps[is_kept].argmin(axis=1)
    chance = _chance(layout, pu, lies, len(names))
    found = _clusters(layout, run_id, pu, names, part, gaps, again, (taken, _rejected(acts)), ids, chance)
    oriented = _orientation(layout, run_id, part, names, pu) if kind == "two" else None
    near = None if oriented is None else int((lies[is_kept] == 1).sum())
    return Inspected(
        kind, clustering, found, names, part, gaps, ids, near, int(is_kept.sum()), int((pu.is_positive & ~is_kept).sum()),
        oriented, own.get("potential"),
    )  # fmt: skip


def _base(layout: Layout, run_id: str, kind: Kind, has_job: bool) -> tuple[list[str], Ints]:
    """Return the clusters before anyone split or merged: their names, and the number of each building's, int64 [N]."""
    stored = {("two", True): "inspected_two", ("many", True): "inspected_many"}.get((kind, has_job), "clusters")
    part = np.asarray(runs.array(layout, run_id, stored), np.int64)
    if kind == "two":
        return list(NAMES_OF_TWO), part
    return [str(i + 1) for i in range(int(part.max(initial=0)) + 1)], part


def _replayed(
    names: list[str], part: Ints, acts: Sequence[Decision], clustering: str, ids: Sequence[str]
) -> tuple[list[str], Ints]:
    """Split and merge as people did, in their order; acts on clusters that an undo took away do nothing."""
    names, part = list(names), part.copy()
    row = {building: i for i, building in enumerate(ids)}
    for act in acts:
        facts = act.facts
        if facts.get("clustering") != clustering or not set(facts.get("of", ("",))) <= set(names):
            continue
        at = [names.index(name) for name in facts["of"]]
        if facts["decision"] == SPLIT:
            moved = np.array([row[building] for building in facts["building_ids"] if building in row], np.int64)
            names[at[0]] = facts["into"][0]
            names.append(facts["into"][1])
            part[moved[part[moved] == at[0]]] = len(names) - 1
        elif facts["decision"] == MERGE:
            part[part == at[1]] = at[0]
            names[at[0]] = facts["into"][0]
            names[at[1]] = ""
    return names, part


def _rejected(acts: Sequence[Decision]) -> set[str]:
    found: set[str] = set()
    for act in acts:
        if act.facts["decision"] == REJECT:
            found.update(act.facts["members"])
        elif act.facts["decision"] == ACCEPT:
            found.difference_update(act.facts["members"])
    return found


@lru_cache(maxsize=3)
def _gaps(layout: Layout, run_id: str, part_bytes: bytes, n_parts: int) -> Singles:
    """Return the distances to the centers of clusters; they stay the same where only answers or decisions are new."""
    rows, part = embeddings_of(layout, run_id), np.frombuffer(part_bytes, np.int64)
    gaps = inspecting.cosine_gaps(rows, inspecting.directions(rows, part, n_parts))
    gaps[:, np.bincount(part, minlength=n_parts) == 0] = 2
    return gaps


def _orientation(layout: Layout, run_id: str, part: Ints, names: Sequence[str], pu: PUSet) -> bool | None:
    """Check as PUPL does whether positives lean to their cluster more than the unlabeled; None after a split or merge."""
    if list(names) != list(NAMES_OF_TWO) or not pu.is_positive.any() or pu.is_positive.all():
        return None
    rows = embeddings_of(layout, run_id)
    other, own = inspecting.directions(rows, part, 2)
    lean = rows @ (own - other)
    return bool(lean[pu.is_positive].mean() > lean[~pu.is_positive].mean() and (part == 0).any())


def _chance(layout: Layout, pu: PUSet, lies: Ints, n_parts: int) -> inspecting.Chance | None:
    """Estimate the damaged share of each cluster from the number damaged in all, and from where the clicks lie, [N].

    None without random checks: clicks alone do not tell how much is damaged in all.
    """
    n_positive = np.bincount(lies[pu.is_positive], minlength=n_parts)
    total = auditing.how_many(layout).total
    if total.value is None or total.low is None or total.high is None or not n_positive.sum():
        return None
    n_not_damaged = np.bincount(lies[pu.is_not_damaged], minlength=n_parts)
    sizes, most = np.bincount(lies, minlength=n_parts), len(lies) - int(n_not_damaged.sum())
    low, middle, high = (
        inspecting.damaged_share(n_positive, sizes, n_damaged=min(n, most), n_not_damaged=n_not_damaged)
        for n in (total.low, total.value, total.high)
    )
    return inspecting.Chance(middle.share, low.low, high.high)


def _clusters(
    layout: Layout, run_id: str, pu: PUSet, names: Sequence[str], part: Ints, gaps: Singles,
    again: Mapping[str, float], decided: tuple[set[str], set[str]], ids: Sequence[str], chance: inspecting.Chance | None,
) -> list[Cluster]:  # fmt: skip
    """Describe each cluster that has members."""
    scores = np.asarray(runs.array(layout, run_id, "scores"), np.float32)
    is_taken, is_rejected = (np.fromiter((building in each for building in ids), np.bool_, len(ids)) for each in decided)
    masks = part >= 0, pu.is_positive, pu.is_not_damaged, pu.is_open, is_taken & pu.is_open, is_rejected
    sizes, positive, negative, n_open, taken, rejected = (np.bincount(part[mask], minlength=len(names)) for mask in masks)
    found = []
    for at in np.lexsort((-positive, -positive / np.maximum(sizes, 1))):
        if not sizes[at]:
            continue
        rows = np.flatnonzero(part == at)
        state: State = "rejected" if rejected[at] == sizes[at] else ""
        if taken[at]:
            state = "accepted" if taken[at] == n_open[at] else "partly"
        quarter, middle, three = np.quantile(gaps[rows, at], (0.25, 0.5, 0.75)).tolist()
        share, low, high = (float(each[at]) for each in (chance.share, chance.low, chance.high)) if chance else [None] * 3
        found.append(
            Cluster(
                names[at],
                int(sizes[at]),
                int(positive[at]),
                int(negative[at]),
                int(n_open[at]),
                (quarter, middle, three),
                share,
                low,
                high,
                float(scores[rows].mean()),
                again.get(names[at]),
                state,
            )
        )
    return found


def examples(layout: Layout, run_id: str, inspected: Inspected, name: str, n: int) -> inspecting.Examples:
    """Return rows that stand for a cluster, n of each kind."""
    inspected.rows_of(name)
    scores = np.asarray(runs.array(layout, run_id, "scores"), np.float32)
    return inspecting.examples(inspected.gaps, inspected.part, list(inspected.names).index(name), scores, n)


MOST_OTHERS = 8000


def on_map(layout: Layout, found: Inspected, name: str) -> tuple[Singles, Singles]:
    """Return where a cluster lies, and others as background, of very many only some: pixels of the project grid, y down,
    float32 [n, 2].
    """
    rows = found.rows_of(name)
    others = np.setdiff1d(np.arange(len(found.ids)), rows)
    others = others[:: max(1, -(-len(others) // MOST_OTHERS))]
    xy = store.call(layout, contents.centers_px, found.ids)
    return xy[rows], xy[others]


_LONGEST = 24
WORDS = {ACCEPT: "accepted", REJECT: "rejected", SPLIT: "split", MERGE: "merged"}


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
        """For example "next run: 30 damaged + 41 accepted"."""
        return f"next run: {self.n_positive:,} damaged + {self.n_accepted:,} accepted"


def accept(layout: Layout, run_id: str, inspected: Inspected, name: str, *, analyst: str) -> int:
    """Accept the unlabeled buildings of a cluster as positives of the next run; return how many.

    Raises:
        ProjectError: if there is no such cluster, or nothing unlabeled is in it.
    """
    members = _members(inspected, name)
    pu = store.call(layout, labels.pu_set, ids=members)
    ids = [building for building, is_open in zip(members, pu.is_open.tolist(), strict=True) if is_open]
    if not ids:
        raise ProjectError(
            f"Every building of cluster {name} has an answer already.", "There is nothing to accept.", kind="cluster"
        )
    _decide(layout, run_id, inspected, ACCEPT, [name], ids, {"members": members}, analyst)
    return len(ids)


def reject(layout: Layout, run_id: str, inspected: Inspected, name: str, *, analyst: str) -> int:
    """Store that a cluster is not damage: what was accepted of its buildings counts no more; return how many these are.

    They are not called undamaged: nobody reviewed each.

    Raises:
        ProjectError: if there is no such cluster.
    """
    members = _members(inspected, name)
    before = store.call(layout, pseudo_positives.accepted_ids)
    _decide(layout, run_id, inspected, REJECT, [name], members, {"members": members}, analyst)
    return len(before.intersection(members))


def split(layout: Layout, run_id: str, inspected: Inspected, name: str, *, analyst: str) -> tuple[str, str]:
    """Split a cluster by two means within it; return the names of the two.

    Raises:
        ProjectError: if there is no such cluster, or its embeddings coincide.
    """
    rows = inspected.rows_of(name)
    side = inspecting.split_in_two(embeddings_of(layout, run_id)[rows]) if len(rows) > 1 else np.zeros(len(rows), np.int64)
    if len(np.unique(side)) < 2:
        raise ProjectError(f"Cluster {name} cannot be split: its chips look the same.", "Leave it whole.", kind="cluster")
    into = _free(inspected, f"{name}a"), _free(inspected, f"{name}b")
    moved = [inspected.ids[row] for row in rows[side == 1]]
    _decide(layout, run_id, inspected, SPLIT, [name], moved, {"into": list(into)}, analyst)
    return into


def merge(layout: Layout, run_id: str, inspected: Inspected, first: str, second: str, *, analyst: str) -> str:
    """Make one cluster of two; return its name. Raises ProjectError if one of them is not there, or they are the same."""
    for name in (first, second):
        inspected.rows_of(name)
    if first == second:
        raise ProjectError(f"Cluster {first} cannot be merged with itself.", "Choose another one.", kind="cluster")
    into = _free(inspected, f"{first}+{second}")
    _decide(layout, run_id, inspected, MERGE, [first, second], [], {"into": [into]}, analyst)
    return into


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
    return words_of(act.facts)


def newest(layout: Layout) -> tuple[int, str] | None:
    """Return the newest decision on clusters that stands, of any run: its number, and in words what it is, whose, and of
    which run.
    """
    acts = store.call(layout, pseudo_positives.acts)
    if not acts:
        return None
    act, names = acts[-1], run_names.names(layout)
    run = names.get(act.facts["run_id"], act.facts["run_id"])
    return act.decision, f"{words_of(act.facts)} ({act.analyst}, {day_and_time(act.at)}, {run})"


def words_of(facts: Facts) -> str:
    """Return a decision in words."""
    names = " and ".join(facts["of"])
    into = f" into {' and '.join(facts['into'])}" if facts.get("into") else ""
    n = f", {len(facts['building_ids']):,} buildings" if facts["decision"] == ACCEPT else ""
    return f"cluster {names} {WORDS[facts['decision']]}{into}{n}"


def next_run(layout: Layout) -> NextRun:
    """Return what the next run of the newest chips learns from; zeros before there are chips."""
    if store.call(layout, contents.latest_chip_set) is None:
        return NextRun(0, 0, 0, 0)
    _, pu = to_learn_from(layout)
    with store.connect(layout) as db:
        taken, n = pseudo_positives.accepted_ids(db), int(pseudo_positives.is_accepted(db, pu).sum())
    n_there = len(taken.intersection(pu.building_ids))
    return NextRun(int(pu.is_positive.sum()), int(pu.is_not_damaged.sum()), n, n_there - n)


def _members(inspected: Inspected, name: str) -> list[str]:
    return [inspected.ids[row] for row in inspected.rows_of(name)]


def _free(inspected: Inspected, name: str) -> str:
    """Return a name that no cluster has, a short one where this would be long."""
    if len(name) > _LONGEST:
        name = "m"
    numbered = (f"{name}{number or ''}" for number in range(1 if name == "m" else 0, len(inspected.names) + 2))
    return next(one for one in numbered if one not in inspected.names)


def _decide(
    layout: Layout, run_id: str, inspected: Inspected, decision: str, of: Sequence[str], ids: Sequence[str],
    more: Facts, analyst: str,
) -> None:  # fmt: skip
    how = "two means" if inspected.kind == "two" else f"{len(inspected.clusters)} clusters"
    op = secrets.token_hex(16)
    facts = {
        "run_id": run_id,
        "clustering": inspected.clustering,
        "decision": decision,
        "of": list(of),
        "building_ids": list(ids),
        "how": how,
        **more,
    }
    with store.connect(layout) as db:
        name = f"{decision} {'+'.join(of)}"[:50] + f" {op[:8]}"
        decisions.decide(db, op, pseudo_positives.KIND, name, facts, analyst=analyst)
