"""The damage types of a run's map: what people answered of each, its threshold, which buildings have it, and its audit.

A building may have several types. What a person answered of a type wins over its score. Scores count on buildings alone that
are confirmed or flagged as damaged: a type is no reason to call a building damaged.
"""

from __future__ import annotations

import re
import sqlite3
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from pu_geo import wording
from pu_geo.analysis.audit import design as audit
from pu_geo.analysis.audit.design import Estimate
from pu_geo.analysis.estimates import first_threshold
from pu_geo.assessment import auditing, random_audits
from pu_geo.errors import PuGeoError
from pu_geo.records import Bools, Facts, Floats, LabelEvent, RunFacts, rows_of
from pu_geo.store import choices as log
from pu_geo.store import chosen as choices
from pu_geo.store import grades, labels, runs, store
from pu_geo.store.choices import Threshold
from pu_geo.store.grades import Grade
from pu_geo.store.layout import Layout
from pu_geo.store.population import Population

State = Literal["yes", "no", "unknown"]
Codes = NDArray[np.int8]
YES, NO, SILENT = 1, 0, -1  # codes of answers; nobody said anything of the type
FEWEST_NAMED = 10
"""Answers that name a type below which nothing is judged by its scores; 10 to 30 make a first ranking."""
FEDERATED = "federated"
"""Preset of runs by a federation's model: other agencies taught it types that nobody here may ever have named."""
RULE = (
    "A building has a damage type where a person named it, or where its score reaches the type's threshold and the "
    "building is confirmed or flagged as damaged. Every other assessed building has a no, which is no proof that the type "
    "is absent. The type is unknown where nothing was assessed, and where too few answers name it to judge by scores, "
    "unless a federation has taught it to the model."
)
ORDINAL_RULE = "The types are a scale: a building that reaches one reaches those below it."
FEDERATED_RULE = (
    "In a map by a federation's model, a yes by score says that the type's own score is at or above the type's threshold, "
    "and no more: a building can be yes for several types, and other buildings may be than those that a project trained "
    "the type's class with."
)
_LONGEST = 40  # characters of a column
_DAMAGED = ("confirmed", "flagged")
_SCALE = "at least "  # how the types of a scale begin


@dataclass(frozen=True, eq=False)
class TypeOnMap:
    """One damage type of a run's map. Arrays are of all footprints, in their order.

    Attributes:
        name: as people call it.
        column: of exports; `score_column` has its score.
        threshold: types with at least this score are yes; None where too few answers name the type and nobody chose one.
        scores: float64 [N] as files have them, uncalibrated; NaN where the building is not assessed or not in the run.
        answers: int8 [N], what people answered: `YES`, `NO` or `SILENT`.
        states: "yes", "no" or "unknown" [N].
        is_by_score: bool [N], the yes that no person gave.
        is_undecided: bool [N], confirmed or flagged and without an answer of the type: what its threshold decides.
        n_named, n_ruled_out: answers outside audits that give a damaged building the type, and that rule it out.
        n_typed: those that name or rule out some type.
    """

    name: str
    column: str
    threshold: Threshold | None
    scores: Floats
    answers: Codes
    states: Sequence[State]
    is_by_score: Bools
    is_undecided: Bools
    n_named: int
    n_ruled_out: int
    n_typed: int

    @property
    def score_column(self) -> str:
        return f"{self.column}_score"

    @property
    def n_by_people(self) -> int:
        return self.states.count("yes") - self.n_by_score

    @property
    def n_by_score(self) -> int:
        return int(self.is_by_score.sum())

    @property
    def n_above(self) -> int:
        """How many its own threshold gives the type; on a scale those that reach a worse one have it, too."""
        if self.threshold is None:
            return 0
        return int((self.scores[self.is_undecided] >= self.threshold.value).sum())

    @property
    def n_undecided(self) -> int:
        return int(self.is_undecided.sum())

    @property
    def is_enough(self) -> bool:
        """Whether so many buildings were given the type that its scores are worth a look."""
        return self.n_named >= FEWEST_NAMED

    @property
    def words(self) -> str:
        """What its threshold rests on, in a sentence."""
        known = wording.plural(self.n_named, "damaged building outside checks is", "damaged buildings outside checks are")
        if self.threshold is None:
            worse = f", and the {self.n_by_score:,} that reach a worse one by score" if self.n_by_score else ""
            return f"{known} known to have it, not enough to judge: it takes {FEWEST_NAMED}. Shown are those known{worse}."
        limit, basis = f"Threshold {self.threshold.value:.4f}", choices.basis_words(self.threshold.origin)
        few = (
            ""
            if self.is_enough
            else f" {known} known to have it, fewer than the {FEWEST_NAMED} that it takes to judge by scores."
        )
        if not log.of_start(self.threshold.origin):
            return f"{limit}: {basis}.{few}"
        share = f"the share of the damaged that are known to have it, {self.n_named:,} of {self.n_typed:,}"
        if not self.is_enough:
            share = "as many of the damaged as a federation's model finds more like this type than like any other"
        return f"{limit}: {share}; {log.STARTING}.{few}"


@dataclass(frozen=True)
class TypesOnMap:
    """The damage types of a run's map, of the buildings `ids`; none where the run scores none.

    Attributes:
        is_federated: whether a federation's model gave the scores.
    """

    ids: Sequence[str]
    types: tuple[TypeOnMap, ...] = ()
    is_ordinal: bool = False
    is_federated: bool = False

    def with_type(self, one: TypeOnMap) -> tuple[list[str], list[str]]:
        """Return the buildings that people gave a type, and those that have it by score alone."""
        rows = [
            (building, bool(by_score))
            for building, state, by_score in zip(self.ids, one.states, one.is_by_score, strict=True)
            if state == "yes"
        ]
        return [each for each, by_score in rows if not by_score], [each for each, by_score in rows if by_score]

    @property
    def rule(self) -> str:
        """When a building has a type, in sentences."""
        return " ".join((RULE, *[ORDINAL_RULE] * self.is_ordinal, *[FEDERATED_RULE] * self.is_federated))


def columns_of(names: Sequence[str]) -> list[str]:
    """Return a column name for each damage type: "type_", then lowercase ASCII letters, digits and "_"; all differ.

    Both the column and its "_score" are free. A name that holds no such letter is counted.

    >>> columns_of(["Roof gone", "roof-gone", "dégât", "洪水"])
    ['type_roof_gone', 'type_roof_gone_2', 'type_degat', 'type_4']
    """
    taken, found = set[str](), list[str]()
    for number, name in enumerate(names, 1):
        ascii_only = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode().lower()
        plain = re.sub(r"[^a-z0-9]+", "_", ascii_only).strip("_")[:_LONGEST].strip("_") or str(number)
        column, k = f"type_{plain}", 1
        while {column, f"{column}_score"} & taken:
            column, k = f"type_{plain}_{k + 1}", k + 1
        taken |= {column, f"{column}_score"}
        found.append(column)
    return found


# Which buildings have a type


def on_map(layout: Layout, run: RunFacts, buildings: Population, threshold: float) -> TypesOnMap:
    """Return the damage types of a run's map, with the labels of this moment.

    Args:
        buildings: what each building is on the map.
        threshold: buildings with at least this score are flagged as damaged.
    """
    stored = runs.type_scores(layout, run)
    if stored is None:
        return TypesOnMap(())
    names, of_run = stored
    ids = list(buildings.ids)
    with store.connect(layout) as db:
        chosen, taught_labels = log.type_thresholds(db, run.run_id), labels.taught(db, labels.last_event(db))
    at = rows_of(ids, runs.building_ids_of(layout, run.run_id))
    kind = np.array(buildings.classes(threshold), np.str_)
    scores = np.concatenate([runs.written(of_run), np.full((1, len(names)), np.nan)])[at]
    answers, taught = answers_of(layout, run, ids), answers_of(layout, run, ids, is_taught=True)
    given = [None if (event := taught_labels.get(building)) is None else event.label for building in ids]
    before = replace(buildings, answers=given).classes(threshold)
    is_federated = run.preset == FEDERATED
    n_typed = int((taught != SILENT).any(axis=1).sum())
    limits = _limits(
        names, scores, np.isin(before, _DAMAGED), taught, chosen, n_typed=n_typed, is_taught_elsewhere=is_federated
    )
    is_hidden = (kind == "not_assessed")[:, None]
    scores[is_hidden[:, 0]] = np.nan
    is_open = np.isin(kind, _DAMAGED)[:, None] & (answers == SILENT)
    is_by_score = is_open & _above(scores, limits, is_ordinal=run.is_ordinal)
    is_unknown = is_hidden | (is_open & (np.isnan(scores) | np.array([one is None for one in limits])))
    states = np.where(is_by_score | (answers == YES), "yes", np.where(is_unknown, "unknown", "no"))
    n_named, n_ruled_out = ((taught == code).sum(axis=0).tolist() for code in (YES, NO))
    types = tuple(
        TypeOnMap(
            name, column, limits[k], scores[:, k], answers[:, k], states[:, k].tolist(), is_by_score[:, k],
            is_open[:, k] & ~np.isnan(scores[:, k]), n_named[k], n_ruled_out[k], n_typed,
        )
        for k, (name, column) in enumerate(zip(names, columns_of(names), strict=True))
    )  # fmt: skip
    return TypesOnMap(ids, types, run.is_ordinal, is_federated)


def _limits(
    names: Sequence[str], scores: Floats, is_damaged: Bools, taught: Codes, chosen: Mapping[str, Threshold], *,
    n_typed: int, is_taught_elsewhere: bool,
) -> list[Threshold | None]:  # fmt: skip
    """Return the threshold of each type: the one that people chose, else one to start from.

    To start from, a type is given to as large a part of the damaged buildings without an answer of it as people gave it to
    among those whose answers name or rule out types. Scores only rank: the highest ones have it, whatever their value.
    Source: ours; the rule of `estimates.first_threshold`.

    Args:
        is_damaged, taught: the buildings confirmed or flagged, and what is answered of them, as if no audit had answers:
            these judge the map and set nothing in it.
        n_typed: buildings whose answers name or rule out some type.
        is_taught_elsewhere: where answers here do not suffice, as many get a type as have their highest score in it.
    """
    found: list[Threshold | None] = []
    for k, name in enumerate(names):
        n_named = int((taught[:, k] == YES).sum())
        is_few = n_named < FEWEST_NAMED
        if name in chosen or (is_few and not is_taught_elsewhere):
            found.append(chosen.get(name))
            continue
        own = scores[is_damaged & (taught[:, k] == SILENT) & ~np.isnan(scores[:, k])]
        if is_few:
            wanted = int((np.nan_to_num(own, nan=-1).argmax(1) == k).sum())
        else:
            wanted = max(round(n_named / n_typed * len(own)), 1)
        found.append(Threshold(first_threshold(own[:, k], wanted) if wanted else 1.0, f"{log.START}:{wanted}"))
    return found


def _above(scores: Floats, limits: Sequence[Threshold | None], *, is_ordinal: bool) -> Bools:
    """Return which buildings reach each type's threshold, bool [N, c]; on a scale also those that reach a worse type."""
    with np.errstate(invalid="ignore"):
        found = np.column_stack([scores[:, k] >= (2 if one is None else one.value) for k, one in enumerate(limits)])
    return np.flip(np.logical_or.accumulate(np.flip(found, 1), axis=1), 1) if is_ordinal else found


def answers_of(
    layout: Layout, run: RunFacts, ids: Sequence[str], *, is_taught: bool = False, of_checks: bool = False
) -> Codes:
    """Return what people answered of each type of a run, int8 [n, c]: `YES`, `NO`, or `SILENT` where nobody said.

    Of damaged buildings alone. By the types that the answer names and rules out; else, where the run was taught by
    them, by the answer's grade.

    Args:
        is_taught: only what methods may learn from, so no audit's answers.
        of_checks: what answers of audits say, where a building has one, whatever was answered since.
    """
    with store.connect(layout) as db:
        events: Mapping[str, LabelEvent | None] = (
            labels.taught(db, labels.last_event(db)) if is_taught else _with_checks(db, always=of_checks)
        )
        scale = grades.scale(db)
    found = np.full((len(ids), len(run.types)), SILENT, np.int8)
    for row, building in enumerate(ids):
        event = events.get(building)
        if event is not None and event.label == "positive":
            found[row] = _answer(event, run, scale)
    return found


def _with_checks(db: sqlite3.Connection, *, always: bool) -> dict[str, LabelEvent]:
    """Return the answer of each building; that of an audit, too, where a later "damaged" says no word of types or grade.

    Args:
        always: the audit's answer wherever there is one.
    """
    found = labels.current(db)
    for building, check in labels.audit_answers(db).items():
        event = found.get(building)
        if event is None:  # its footprint is gone
            continue
        says_less = event.label == check.label == "positive" and not (
            event.damage_types or event.absent_types or event.grade
        )
        if always or says_less:
            found[building] = check
    return found


def _answer(event: LabelEvent, run: RunFacts, scale: Sequence[Grade]) -> list[int]:
    usual = _by_grade(event.grade, run, scale) if run.types_from == "grades" else [SILENT] * len(run.types)
    return [
        YES if name in event.damage_types else NO if name in event.absent_types else code
        for name, code in zip(run.types, usual, strict=True)
    ]


def _by_grade(grade: str, run: RunFacts, scale: Sequence[Grade]) -> list[int]:
    """Return whether a grade reaches each of a run's types, `SILENT` where that is not known; the scale has the worst first.

    Whatever is damaged reaches the mildest, also without a grade. Types are known by their grades' ids, and by the names
    that these had where the run does not have the ids.
    """
    place = {one.id: k for k, one in enumerate(scale)}
    named = [grades.find(scale, name.removeprefix(_SCALE)) for name in run.types]
    ids = run.type_grades or [None if one is None else one.id for one in named]
    least = [None if one is None else place.get(one) for one in ids]
    own = place.get(grade)
    if own is None:
        return [YES if at == len(scale) - 1 else SILENT for at in least]
    return [SILENT if at is None else int(own <= at) for at in least]


# What people choose


def choose_threshold(layout: Layout, run_id: str, name: str, value: float, origin: str = choices.PERSON) -> Threshold:
    """Store the threshold of a damage type of a run. Raises PuGeoError for a type that the run has not, or a value that is
    no score.
    """
    run = choices.run(layout, run_id)
    require(run, name)
    return store.call(layout, log.set_type_threshold, run.run_id, name, value, origin)


def forget_threshold(layout: Layout, run_id: str, name: str) -> None:
    """Store that no person's threshold of a type counts any more: it starts from the answers again."""
    choose_threshold(layout, run_id, name, 0.0, log.OWN)


def require(run: RunFacts, name: str) -> None:
    """Refuse a damage type that a run does not score, in words."""
    if name not in run.types:
        known = f"it has: {', '.join(run.types)}" if run.types else "it has none"
        raise PuGeoError(
            f"Run {run.run_id} has no damage type {name!r}; {known}.",
            "Name one of them." if run.types else "Train HeroCon with damage types, or choose another run.",
        )


# The audit of a type


@dataclass(frozen=True)
class TypeAudit:
    """What the random checks of a run's audit say of one type of its map.

    Attributes:
        n_checks: checks that count, with a yes or a no on the type; `n_yes` of them have it.
        n_silent: checks that found damage and say nothing of the type. They do not count; intervals hold both answers for
            each.
    """

    precision: Estimate
    recall: Estimate
    n_checks: int
    n_yes: int
    n_silent: int
    words: str


def audits(layout: Layout, run: RunFacts, threshold: float, found: TypesOnMap) -> dict[str, TypeAudit]:
    """Estimate precision and recall of each type on the map by the newest audit of the run; nothing without one.

    A building has a type by score where its damage reaches `threshold` and its type the type's. Precision is of those that
    nobody answered; in recall what people gave the type counts as found, and buildings that they answered before without a
    word on the type are left out. An answer "not damaged" is a no. Horvitz-Thompson with the strata of the audit, see
    `analysis.audit.design`.

    Source: ours. That checks without a word are missing at random is not supposed: bounds are the widest of those with all
    of them no and all of them yes (Manski 1989).
    """
    check, stored = random_audits.newest_audit(layout, run.run_id), runs.type_scores(layout, run)
    if check is None or stored is None:
        return {}
    done = random_audits.answered(layout, check)
    run_ids = runs.building_ids_of(layout, run.run_id)
    at = rows_of(run_ids, found.ids)
    is_flagged = runs.written(runs.array(layout, run.run_id, "scores")) >= round(threshold, 4)
    limits = [one.threshold for one in found.types]
    is_above = _above(runs.written(stored[1]), limits, is_ordinal=found.is_ordinal) & is_flagged[:, None]
    of_checks = answers_of(layout, run, run_ids, of_checks=True)
    drawn = done.sample.rows[: done.sample.n_drawn]
    result = {}
    for k, one in enumerate(found.types):
        given = np.concatenate([one.answers, np.array([SILENT], np.int8)])[at]
        given[drawn] = of_checks[drawn, k]
        result[one.name] = _audit_of(one, done, given, is_above[:, k])
    return result


def _audit_of(one: TypeOnMap, done: random_audits.Answered, given: Codes, is_above: Bools) -> TypeAudit:
    """Judge one type; `given` are the answers on it and `is_above` what the map has, of the rows of the audit."""
    drawn, is_damaged = done.sample.rows[: done.sample.n_drawn], done.answers == audit.DAMAGED
    is_silent = is_damaged & (given == SILENT)
    answers = np.where(is_damaged & (given == NO), audit.UNDAMAGED, done.answers)
    counted = answers[drawn][~is_silent[drawn]]
    n_checks, n_yes = int(np.isin(counted, (audit.DAMAGED, audit.UNDAMAGED)).sum()), int((counted == audit.DAMAGED).sum())
    n_silent = len(drawn) - len(counted)
    if one.threshold is None:
        nothing = Estimate(None, None, None, f"not enough: {one.words}")
        return TypeAudit(nothing, nothing, n_checks, n_yes, n_silent, one.words)
    is_asked = is_silent & np.isin(np.arange(len(answers)), drawn)
    answers = np.where(is_silent, audit.NOT_ASSESSABLE, answers)
    readings = [answers, *(np.where(is_asked, code, answers) for code in (audit.UNDAMAGED, audit.DAMAGED) if n_silent)]
    judged = [
        audit.at_thresholds(done.sample, each, is_above.astype(np.float64), [0.5], confidence=auditing.CONFIDENCE)[0]
        for each in readings
    ]
    precision, recall = (_widest([getattr(each, share) for each in judged], one.name) for share in ("precision", "recall"))
    words = f"{wording.plural(n_checks, 'check')} {'says' if n_checks == 1 else 'say'} yes or no: {n_yes:,} yes."
    if n_silent:
        words += (
            f" {wording.plural(n_silent, 'check')} found damage and {'says' if n_silent == 1 else 'say'} nothing of it: "
            "not counted; the interval holds either answer."
        )
    return TypeAudit(precision, recall, n_checks, n_yes, n_silent, words)


def _widest(estimates: Sequence[Estimate], name: str) -> Estimate:
    """Return the first estimate with an interval that holds those of all; its words speak of the type."""
    first = estimates[0]
    words = first.words.replace("found damage", f"found {name}").replace(
        "damaged buildings are", f"buildings with {name} are"
    )
    if first.value is None:
        return Estimate(None, None, None, words)
    bounds = [(one.low, one.high) for one in estimates if one.low is not None and one.high is not None]
    return Estimate(first.value, min(low for low, _ in bounds), max(high for _, high in bounds), words)


# For exports


def facts(found: TypesOnMap, judged: Mapping[str, TypeAudit]) -> list[dict[str, Any]]:
    """Return the types of a map in plain values, for exports and the report.

    Returns:
        a list of {"name", "column", "threshold", "threshold_origin": None without one, "n_named", "n_ruled_out",
        "by_people", "by_score", "unknown", "words", "audit": `TypeAudit` in plain values, None without an audit}
    """
    return [
        {
            "name": one.name, "column": one.column,
            "threshold": None if one.threshold is None else one.threshold.value,
            "threshold_origin": None if one.threshold is None else one.threshold.origin,
            "n_named": one.n_named, "n_ruled_out": one.n_ruled_out, "by_people": one.n_by_people, "by_score": one.n_by_score,
            "unknown": one.states.count("unknown"), "words": one.words,
            "audit": asdict(judged[one.name]) if one.name in judged else None,
        }
        for one in found.types
    ]  # fmt: skip


def gaps(types: Sequence[Facts]) -> list[str]:
    """Return which types a map cannot judge, in a sentence or two; `types` as `facts` returns them."""
    found = []
    if few := [str(one["name"]) for one in types if one["threshold"] is None]:
        lifted = any(one["threshold"] is None and one["by_score"] for one in types)
        also = ", and what reaches a worse one by score" if lifted else ""
        found.append(f"Too few damaged buildings are known to have {', '.join(few)}: on the map are only these{also}.")
    if alone := [str(one["name"]) for one in types if one["threshold"] is not None and not _is_judged(one)]:
        found.append(
            f"How many of the buildings with {', '.join(alone)} by score have it is not known: no accuracy assessment "
            "estimates it, the scores only rank."
        )
    return found


def _is_judged(one: Facts) -> bool:
    return one["audit"] is not None and one["audit"]["precision"]["value"] is not None


def columns(found: TypesOnMap) -> dict[str, list[object]]:
    """Return the columns of exports: of each type its score, 0..1 with 4 decimals or None, and yes, no or unknown."""
    result = dict[str, list[object]]()
    for one in found.types:
        result[one.score_column] = [None if score != score else score for score in one.scores.tolist()]
        result[one.column] = list(one.states)
    return result
