"""The damage map of a run at a threshold, as buildings, answers and checks are now: each of its numbers is worked out here,
once.

Screens, commands, exports and the report ask it. Whatever it takes is read when it is asked for first, so a screen reads no
more than it shows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from pu_geo import wording
from pu_geo.analysis import assessability, ranking_evidence, scenes
from pu_geo.analysis.audit.design import AtThreshold
from pu_geo.analysis.scenes import SceneRow
from pu_geo.assessment import auditing
from pu_geo.assessment.auditing import AuditView
from pu_geo.maps import damage_types
from pu_geo.maps.damage_types import TypeAudit, TypesOnMap
from pu_geo.records import LABEL_NAMES, NOT_GRADED, NOT_IN_RUN, Facts, LabelEvent, RunFacts, Units, rows_of
from pu_geo.scenes import image_quality, layers, scene_pair
from pu_geo.store import analysts, chosen, contents, freshness, grades, import_log, labels, population, store
from pu_geo.store.chosen import Threshold
from pu_geo.store.grades import Grade
from pu_geo.store.layout import Layout
from pu_geo.store.population import Class, Population

Columns = dict[str, list[Any]]
FEW_POSITIVES = 30  # the demo's 30 clicks; PRODUCT speaks of 10 to 30 for a first ranking
MOST_FLAGGED = 0.9
MOST_SHOWN = 4  # scenes in doubt, warnings of a method
WHY = {
    "cloud": "cloud",
    "outside_image": "outside the picture",
    "nodata": "no picture there",
    "no_pre_image": "no picture from before the event",
    "no_layer": "in none of the layers that the run learned from",
    "scene_without_answers": "a scene that differs from those with answers, and has none",
    "misaligned": "outline and picture do not match",
    "no_building": "no building there",
    "unclear": "unclear picture",
    NOT_IN_RUN: "added after the run, which does not score them",
}
"""Why a building is not assessed, for people."""
SITE_COLUMNS = {
    "name": "Site", "buildings": "Buildings", "confirmed": "Confirmed", "flagged": "Flagged, to look at",
    "not_flagged": "Not flagged", "not_assessed": "Not assessed", "answers": "Answers", "pixel_m": "Pixel, m",
    "crs": "Coordinate system",
}  # fmt: skip
"""What a map counts in each site of an event, and what its grid is: key -> words for people."""
OF_TRIAGE: Mapping[str, Class] = {
    "confirmed": "confirmed", "flagged": "flagged", "high_precision": "flagged", "high_recall": "not_flagged",
    "below": "not_flagged", "not_assessed": "not_assessed",
}  # fmt: skip
"""Class of a building by the column `triage` of exports."""
_OF_PEOPLE = (
    "damage_class",
    "label",
    "label_source",
    "labeller",
    "labelled_at",
    "damage_types",
    "absent_types",
    "n_labels",
    "agreement",
    "review_status",
)


@dataclass(frozen=True, eq=False)
class DamageMap:
    """The map of a run, or of scores that no run made.

    Attributes:
        chip_set: whose buildings have the scores.
        limit: buildings without an answer are flagged from this score on.
        population: all footprints that are there, with scores and answers.
        run: None of own scores: these have no audit and no damage types.
    """

    layout: Layout
    chip_set: str
    limit: Threshold
    population: Population
    run: RunFacts | None = None

    @cached_property
    def chips(self) -> Facts:
        """Return the facts of its chip set."""
        return contents.chip_facts(self.layout, self.chip_set)

    @cached_property
    def units(self) -> Units:
        """Return what its buildings are: buildings, or cells of a grid."""
        return store.call(self.layout, contents.units)

    @cached_property
    def classes(self) -> list[Class]:
        """Return the class of each building, [N]."""
        return self.population.classes(self.limit.value)

    @cached_property
    def n(self) -> Counter[Class]:
        """Return how many buildings are of each class."""
        return Counter(self.classes)

    @property
    def n_open(self) -> int:
        """Return how many buildings some threshold flags: those that are assessed and have no answer."""
        return int(self.population.is_open.sum())

    @property
    def n_later(self) -> int:
        """Return how many footprints came after the run, which does not score them, and have no answer."""
        return int(((self.population.why == NOT_IN_RUN) & self.population.given("")).sum())

    @cached_property
    def audit(self) -> AuditView | None:
        """Return what the run's newest audit says; None without one."""
        return None if self.run is None else auditing.view(self.layout, self.run.run_id)

    @cached_property
    def at(self) -> AtThreshold | None:
        """Return precision and recall at its threshold; None without an audit."""
        return None if self.run is None else auditing.at(self.layout, self.run.run_id, self.limit.value)

    @property
    def audit_words(self) -> str:
        """Return in a sentence what the audit says of it at its threshold; "" where there is none."""
        if self.audit is None or self.at is None:
            return ""
        checks = wording.plural(self.audit.done.n_counted, "check") + " count"
        shares = (("precision of the flagged", self.at.precision), ("recall", self.at.recall))
        words = [f"{name} {wording.interval_of({**vars(share), 'words': 'not enough checks'})}" for name, share in shares]
        state = "" if self.audit.done.state == "finished" else f" {self.audit.done.words}"
        return f"{', '.join([checks, *words])}.{state}"

    @cached_property
    def types(self) -> TypesOnMap:
        """Return its damage types; none where the run scores none."""
        if self.run is None:
            return TypesOnMap(())
        return damage_types.on_map(self.layout, self.run, self.population, self.limit.value)

    @cached_property
    def type_audits(self) -> dict[str, TypeAudit]:
        """Return what the run's newest audit says of each damage type; nothing without one."""
        return {} if self.run is None else damage_types.audits(self.layout, self.run, self.limit.value, self.types)

    @cached_property
    def type_facts(self) -> list[dict[str, Any]]:
        """Return its damage types in plain values, see `damage_types.facts`."""
        return damage_types.facts(self.types, self.type_audits)

    @cached_property
    def scenes(self) -> list[SceneRow]:
        """Return what it says in each post-event scene, see `analysis.scenes`; nothing where the facts of its chips are
        gone.
        """
        if not self.layout.chip_facts(self.chip_set).is_file():
            return []
        found = self.population
        at = rows_of(self.chips["building_ids"], found.ids)
        why, scores = np.append(found.why, population.REMOVED)[at], np.append(found.scores, np.nan)[at]
        return scenes.scene_rows(self.chips, scores, self.limit.value, why, [[*found.answers, None][k] for k in at])

    @property
    def doubts(self) -> list[str]:
        """Return in which scenes it is doubtful and what to do, one sentence a scene."""
        return [row.doubt for row in self.scenes if row.doubt]

    # Sites

    @cached_property
    def sites(self) -> list[dict[str, Any]]:
        """Return what it counts in each site of an event, by the keys of `SITE_COLUMNS`; nothing where there is one site."""
        names = self.population.sites.named
        n = Counter(zip(names, self.classes, strict=True))
        answered = Counter(zip(names, map(bool, self.population.answers), strict=True))
        return [
            {"name": site.name, "buildings": names.count(site.name)}
            | {kind: n[site.name, kind] for kind in population.CLASSES}
            | {"answers": answered[site.name, True], "pixel_m": site.gsd_m, "crs": site.crs}
            for site in store.call(self.layout, contents.grid).sites
        ]

    # Columns of exports

    @cached_property
    def events(self) -> Mapping[str, LabelEvent]:
        """Return building id -> the answer that stands."""
        return store.call(self.layout, labels.current)

    @cached_property
    def results(self) -> Columns:
        """Return what is known of each building; a person's answer wins over the picture and the score."""
        found, classes = self.population, self.classes
        whys, n = found.why.tolist(), len(classes)
        for row, label in enumerate(found.answers):
            if label is not None:
                whys[row] = (self.events[found.ids[row]].reason or "unclear") if label == "not_assessable" else ""
        is_known = [not why and score == score for why, score in zip(whys, found.scores, strict=True)]
        scores, ranks = (
            [value if known else None for value, known in zip(values.tolist(), is_known, strict=True)]
            for values in (found.scores, found.ranks())
        )
        return {
            "assessed": [not why for why in whys],
            "not_assessed_reason": [why or None for why in whys],
            "damage_binary": ["damaged" if kind in ("confirmed", "flagged") else kind for kind in classes],
            "score": scores,
            "score_type": [None if self.run is None else self.run.score_type] * n,
            "rank": ranks,
            "threshold": [self.limit.value] * n,
            "triage": ["below" if kind == "not_flagged" else kind for kind in classes],
        }

    @cached_property
    def people(self) -> Columns:
        """Return the answers of people for each building."""
        ids = self.population.ids
        with store.connect(self.layout) as db:
            answers, scale = analysts.own_answers(db), grades.known(db)
        given: dict[str, list[str]] = {}
        for (building, _), event in answers.items():
            given.setdefault(building, []).append(event.label)
        columns: Columns = {name: [None] * len(ids) for name in _OF_PEOPLE}
        columns |= {name: [[] for _ in ids] for name in ("damage_types", "absent_types")}
        columns["n_labels"] = [len(given.get(building, ())) for building in ids]
        for row, building in enumerate(ids):
            if (last := self.events.get(building)) is None:
                continue
            own = given.get(building, [])
            agree = round(own.count(last.label) / len(own), 4) if own else None
            found = {
                "damage_class": damage_class(last, scale),
                "label": LABEL_NAMES[last.label],
                "damage_types": list(last.damage_types),
                "absent_types": list(last.absent_types),
                "label_source": last.kind,
                "labeller": last.analyst,
                "labelled_at": last.at,
                "agreement": agree,
                "review_status": "single" if len(own) < 2 else "agreed" if agree == 1 else "disputed",
            }
            for name, value in found.items():
                columns[name][row] = value
        return columns

    # What it cannot say

    @cached_property
    def cannot_say(self) -> list[str]:
        """Return what a reader must not take from it, one sentence each."""
        warnings = () if self.run is None else self.run.warnings
        found = [*self._of_coverage(), *self._of_scenes(), *self._of_answers(), *damage_types.gaps(self.type_facts)]
        return found + _cut([f"The method warns: {words}" for words in warnings], "warnings of the method")

    def _of_coverage(self) -> Iterator[str]:
        if self.run is None:
            yield (
                "The scores were made outside PU-Geo: no run says what they were learned from, and they are not calibrated."
            )
        yield "Preliminary, not field-validated. Pictures from above show roofs: damage to walls and inside stays unseen."
        yield f"A {self.units.one} that is not flagged is not proven to be intact."
        if n := self.n["not_assessed"]:
            reasons, total = count(self.results["not_assessed_reason"]), len(self.classes)
            why = ", ".join(f"{WHY.get(name, name)} {k:,}" for name, k in reasons.most_common())
            yield f"{n:,} of {total:,} {self.units.several} ({wording.percent(n / total)}) were not assessed: {why}."

    def _of_scenes(self) -> Iterator[str]:
        """Return in which scenes the result is doubtful, worst first, and what its pictures and layers lack."""
        chips, layout = self.chips, self.layout
        used = [one for one in chips["scenes"].values() if one["role"] == "post" or assessability.needs_pre(chips)]
        if why := chips.get("bands_why"):
            yield str(why)
        elif all(one["role"] != "pre" for one in used):
            yield "There is no picture from before the event: what was damaged or under construction before may be flagged."
        if not any(one["date"] for one in used if one["role"] == "post"):
            yield "The date of the pictures after the event is not known."
        doubtful = sorted((row for row in self.scenes if row.doubt), key=lambda row: -row.n)
        yield from _cut([row.doubt for row in doubtful], "scenes in which the result is as doubtful")
        yield from filter(None, (freshness.of_chips(layout, self.chip_set).words, *self.in_doubt))
        run_id = None if self.run is None else self.run.run_id
        misaligned = sum(why == "misaligned" for why in image_quality.image_quality(layout, run_id).candidates.values())
        if misaligned:
            yield f"At {wording.plural(misaligned, 'building')} pre and post could not be aligned."
        for layer in self.layers:
            if layer["is_used"] and (n_ranked := layer["n_missing"] - layer["n_without_any"]):
                yield f"{n_ranked:,} buildings have no {layer['name']}: their scores rest on the other layers alone."

    @cached_property
    def in_doubt(self) -> list[str]:
        """Return what of its pictures and outlines nobody is sure of, one sentence each."""
        return [*scene_pair.doubts_of(self.layout), *store.call(self.layout, import_log.doubts)]

    @cached_property
    def layers(self) -> Sequence[Facts]:
        """Return the layers of its chips, see `layers.in_chips`."""
        return layers.in_chips(self.chips, () if self.run is None else layers.learned_views(self.run))

    def _of_answers(self) -> Iterator[str]:
        people, several = self.people, self.units.several
        n = None if self.run is None else (self.run.from_model or {"n_positive": self.run.n_positive}).get("n_positive")
        if isinstance(n, int) and n < FEW_POSITIVES:
            words = wording.plural(n, "damaged building")
            yield f"The method learned from {words} only; kinds of damage that are not among them may be missed."
        if self.run is not None and not (self.run.evidence and not self.run.evidence["is_weak"]):
            yield ranking_evidence.words_of(self.run.evidence)
        if simulated := people["label_source"].count("simulated"):
            yield f"{simulated:,} answers are simulated from known labels: this is a trial, not an assessment."
        if disputed := people["review_status"].count("disputed"):
            yield f"On {disputed:,} {several} people disagree; the last answer stands."
        if ungraded := people["damage_class"].count(NOT_GRADED):
            yield f"{ungraded:,} {several} that people marked damaged have no grade: they may be anything up to destroyed."
        total = None if self.audit is None else self.audit.total
        n_damaged, n_assessed = self.n["confirmed"] + self.n["flagged"], len(self.classes) - self.n["not_assessed"]
        if n_damaged > MOST_FLAGGED * n_assessed >= ((total and total.high) or 0.0):
            yield (
                f"{n_damaged:,} of {n_assessed:,} assessed {several} are flagged or confirmed: the threshold hardly tells "
                "damaged from undamaged ones. Choose it by an accuracy assessment."
            )
        scores = self.population.scores[self.population.given("positive") & np.isfinite(self.population.scores)]
        n_below = int((scores < self.limit.value).sum())
        if n_below and n_below * 2 >= len(scores):
            yield (
                f"{n_below:,} of {len(scores):,} confirmed buildings score below the threshold: it flags the clearest damage"
                " only."
            )
        if total is None or total.value is None:
            is_estimated = auditing.how_many(self.layout).total.value is not None
            more = "" if is_estimated else ", and no number of damaged buildings is estimated"
            yield f"Without an accuracy assessment the scores are a rank, not a probability{more}."
        if self.audit is not None and self.audit.done.state != "finished":
            yield self.audit.done.words


def of_run(layout: Layout, run_id: str, limit: float | Threshold | None = None) -> DamageMap:
    """Return the map of a run.

    Args:
        run_id: of a finished run, "chosen" or "latest".
        limit: its threshold; the one that was chosen for the run if None.
    """
    run = chosen.run(layout, run_id)
    if not isinstance(limit, Threshold):
        limit = chosen.threshold(layout, run.run_id, limit)
    return DamageMap(layout, run.chip_set, limit, population.of_run(layout, run), run)


def damage_class(event: LabelEvent, scale: Sequence[Grade]) -> str:
    """Return the class that an export gives a person's answer, "damaged_not_graded" where it has no grade; a model gives
    none.
    """
    if event.label == "positive":
        return grades.class_of(scale, event.grade) or NOT_GRADED
    return "no_visible_damage" if event.label == "not_damaged" else "not_assessed"


def count(column: Iterable[object]) -> Counter[str]:
    """Count the values of a column that are not null."""
    return Counter(str(value) for value in column if value is not None)


def _cut(words: Sequence[str], what: str) -> list[str]:
    """Return the first sentences, and how many more there are."""
    more = [f"{len(words) - MOST_SHOWN:,} more {what} are in damage_map.run.json."] if len(words) > MOST_SHOWN else []
    return [*words[:MOST_SHOWN], *more]
