"""What a version of the damage map says before it is written, what the versions there are say, and how two of them differ."""

from __future__ import annotations

import re
import zipfile
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from pu_geo import wording
from pu_geo.errors import OutOfReach, PuGeoError
from pu_geo.project import contents, freshness, grades, labels, store, versions
from pu_geo.project.choices import Threshold
from pu_geo.project.grades import Grade
from pu_geo.project.layout import Layout
from pu_geo.records import DAMAGE_CLASSES, NOT_GRADED, NOT_IN_RUN, LabelEvent, RunFacts
from pu_geo.services.damage_map import auditing, damage_types, mapping
from pu_geo.services.damage_map.mapping import classes_now as classes_now
from pu_geo.services.imagery import image_quality
from pu_geo.services.project import choices, population
from pu_geo.services.project.population import CLASSES as CLASSES
from pu_geo.services.project.population import Class as Class
from pu_geo.services.train import run_names

Change = Literal[
    "newly_confirmed", "no_longer_confirmed", "newly_flagged", "no_longer_flagged", "newly_assessed", "no_longer_assessed",
    "graded_anew", "added", "removed",
]  # fmt: skip
CHANGES: tuple[Change, ...] = (
    "newly_confirmed", "no_longer_confirmed", "newly_flagged", "no_longer_flagged", "newly_assessed", "no_longer_assessed",
    "graded_anew", "added", "removed",
)  # fmt: skip
"""How a building's class changes from one version to the next; each changed building has one of them."""
_OF_TRIAGE: Mapping[str, Class] = {
    "confirmed": "confirmed", "flagged": "flagged", "high_precision": "flagged", "high_recall": "not_flagged",
    "below": "not_flagged", "not_assessed": "not_assessed",
}  # fmt: skip
_FILE = re.compile(r"[\w][\w.-]{0,99}")
_VERSION = re.compile(r"v[1-9]\d{0,5}")
REPORT = "report.html"
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
NO_PRE = "There is no picture from before the event: what was damaged or under construction before may be flagged."
NO_AUDIT = "Without an audit the scores are a rank, not a probability"


# What classes buildings have


def classes_of(layout: Layout, version: str) -> dict[str, Class]:
    """Return building id -> class, as a version has it. Raises ProjectError if it holds nothing to compare with."""
    state = versions.read_state(layout, version)
    return {building: _OF_TRIAGE[how] for building, how in zip(state["building_id"], state["triage"], strict=True)}


def grades_now(layout: Layout) -> dict[str, str]:
    """Return building id -> `damage_class` of each building that people marked damaged, as the next version would have it."""
    with store.connect(layout) as db:
        events, scale = labels.current(db), grades.known(db)
    return {building: damage_class(event, scale) for building, event in events.items() if event.label == "positive"}


def grades_of(layout: Layout, version: str) -> dict[str, str]:
    """Return the same of a version. Raises as `classes_of`."""
    state = versions.read_state(layout, version)
    rows = zip(state["building_id"], state["triage"], state["damage_class"], strict=True)
    return {building: grade for building, how, grade in rows if how == "confirmed"}


def damage_class(event: LabelEvent, scale: Sequence[Grade]) -> str:
    """Return the class that an export gives a person's answer, "damaged_not_graded" where it has no grade; a model gives none.

    Before there were grades, a damage type of that name was one; the worst counts.
    """
    if event.label == "positive":
        named = {kind.lower() for kind in event.damage_types}
        return grades.class_of(scale, event.grade) or next((name for name in DAMAGE_CLASSES if name in named), NOT_GRADED)
    return "no_visible_damage" if event.label == "not_damaged" else "not_assessed"


def change_of(before: Class | None, after: Class | None) -> Change | None:
    """Return how a building's class changed; None where it did not. None stands for a building that is not in that version.

    >>> change_of("not_flagged", "flagged"), change_of("flagged", "confirmed"), change_of(None, "flagged")
    ('newly_flagged', 'newly_confirmed', 'added')
    """
    if before == after:
        return None
    if before is None or after is None:
        return "added" if before is None else "removed"
    by_after: Mapping[Class, Change] = {
        "confirmed": "newly_confirmed", "not_assessed": "no_longer_assessed", "flagged": "newly_flagged",
        "not_flagged": "no_longer_flagged",
    }  # fmt: skip
    if before == "confirmed" and after != "not_assessed":
        return "no_longer_confirmed"
    if before == "not_assessed" and after == "not_flagged":
        return "newly_assessed"
    return by_after[after]


@dataclass(frozen=True)
class Changed:
    """One building whose class or grade differs between two versions.

    Attributes:
        before, after: its class; None where it is not in that version.
        grades: its `damage_class` before and after, where it was graded anew.
    """

    building_id: str
    change: Change
    before: Class | None
    after: Class | None
    grades: tuple[str, str] | None = None


def changed(
    before: Mapping[str, Class], after: Mapping[str, Class], grades_before: Mapping[str, str] | None, grades_after: Mapping[str, str] | None
) -> list[Changed]:  # fmt: skip
    """Return each building whose class or grade differs, in the order of `CHANGES`. Grades that a version does not hold are not compared."""
    found = []
    for building in {**before, **after}:
        was, now = before.get(building), after.get(building)
        if (change := change_of(was, now)) is not None:
            found.append(Changed(building, change, was, now))
        elif now == "confirmed" and grades_before is not None and grades_after is not None:
            pair = grades_before[building], grades_after[building]
            if pair[0] != pair[1]:
                found.append(Changed(building, "graded_anew", was, now, pair))
    return sorted(found, key=lambda one: CHANGES.index(one.change))


def difference(layout: Layout, before: str, after: str) -> list[Changed]:
    """Return what differs from one version, such as "v1", to another. Raises as `classes_of`."""
    grades_of_both = (grades_of(layout, version) for version in (before, after))
    return changed(classes_of(layout, before), classes_of(layout, after), *grades_of_both)


# What is confirmed before a version is written


@dataclass(frozen=True)
class Summary:
    """The next version before it is written.

    Attributes:
        number: it will have.
        threshold, basis: the threshold, and who or what set it.
        audit: what the accuracy assessment says of the map at this threshold; "" where there is none.
        n: buildings of each class.
        units: the words for what is counted.
        before: name of the version before; None for the first one, or where it cannot be compared.
        changes: how many buildings change in which way since then.
        gaps: what the map cannot say, one sentence each.
        types: of each damage type that the run scores its name and how many buildings have it.
    """

    number: int
    run: RunFacts
    run_name: str
    threshold: Threshold
    basis: str
    audit: str
    n: Mapping[Class, int]
    units: str
    before: str | None
    changes: Mapping[Change, int]
    gaps: tuple[str, ...]
    types: tuple[tuple[str, int], ...] = ()


def summary(layout: Layout, run_id: str, threshold: float) -> Summary:
    """Return what people confirm before the next version is written."""
    run, now = choices.run(layout, run_id), classes_now(layout, run_id, threshold)
    limit = mapping.limit_of(layout, run.run_id, threshold)
    numbers = versions.numbers(layout)
    before, counts = (f"v{numbers[-1]}" if numbers else None), Counter[Change]()
    if before is not None:
        try:
            counts = Counter(
                one.change for one in changed(classes_of(layout, before), now, grades_of(layout, before), grades_now(layout))
            )
        except PuGeoError:
            before = None
    n = Counter(now.values())
    found = mapping.at_threshold(layout, run.run_id, limit.value)
    types = damage_types.on_map(layout, run.run_id, limit.value)
    return Summary(
        versions.next_number(layout), run, run_names.name(layout, run.run_id), limit, mapping.basis_words(limit.origin), audit_words(layout, run.run_id, limit.value),
        {kind: n[kind] for kind in CLASSES}, found.units, before, {kind: counts[kind] for kind in CHANGES if counts[kind]},
        tuple(gaps(layout, run, limit.value, n)), tuple((one.name, one.n_by_people + one.n_by_score) for one in types.types),
    )  # fmt: skip


def audit_words(layout: Layout, run_id: str, threshold: float) -> str:
    """Return in a sentence what a run's audit says of its map at a threshold; "" where there is none."""
    found, here = auditing.view(layout, run_id), auditing.at(layout, run_id, threshold)
    if found is None or here is None:
        return ""
    words = [wording.plural(found.done.n_counted, "random check") + " count"]
    for name, share in (("precision of the flagged", here.precision), ("recall", here.recall)):
        if share.value is not None and share.low is not None and share.high is not None:
            words.append(f"{name} {wording.interval(share.value, share.low, share.high)}")
        else:
            words.append(f"{name}: not enough checks")
    state = "" if found.done.state == "finished" else f" {found.done.words}"
    return f"{', '.join(words)}.{state}"


def gaps(layout: Layout, run: RunFacts, threshold: float, n: Mapping[Class, int]) -> list[str]:
    """Return what a map of a run cannot say, one sentence each."""
    found, total = list[str](), max(sum(n.values()), 1)
    audit = auditing.view(layout, run.run_id)
    if audit is None:
        found.append(no_audit_words(is_estimated=auditing.how_many(layout).total.value is not None))
    elif audit.done.state != "finished":
        found.append(audit.done.words)
    if old := freshness.of_chips(layout, run.chip_set).words:
        found.append(old)
    doubts = mapping.doubts(layout, run.run_id, threshold)
    found += doubts[:MOST_SHOWN]
    if len(doubts) > MOST_SHOWN:
        found.append(f"The result is as doubtful in {wording.plural(len(doubts) - MOST_SHOWN, 'more scene')}.")
    if n["not_assessed"]:
        found.append(not_assessed_words(n["not_assessed"], total, _why_not(layout, run)))
    with store.connect(layout) as db:
        has_pre = any(scene.role == "pre" for scene in contents.scenes(db))
    if not has_pre:
        found.append(NO_PRE)
    misaligned = sum(why == "misaligned" for why in image_quality.image_quality(layout, run.run_id).candidates.values())
    if misaligned:
        found.append(f"At {wording.plural(misaligned, 'building')} pre and post could not be aligned.")
    if not run.from_model and 0 < run.n_positive < FEW_POSITIVES:
        found.append(few_positives_words(run.n_positive))
    found += strict_words(*_confirmed_below(layout, run.run_id, threshold))
    n_assessed = total - n["not_assessed"]
    if n["confirmed"] + n["flagged"] > MOST_FLAGGED * n_assessed:
        found.append(
            f"{n['confirmed'] + n['flagged']:,} of {n_assessed:,} assessed buildings are flagged or confirmed: the threshold hardly separates them."
        )
    types = damage_types.on_map(layout, run.run_id, threshold)
    found += damage_types.gaps(damage_types.facts(layout, run.run_id, threshold, types))
    return found + list(run.warnings[:MOST_SHOWN])


def no_audit_words(*, is_estimated: bool) -> str:
    """Return that a map is not audited, in a sentence; other checks may estimate how many are damaged."""
    return f"{NO_AUDIT}{'' if is_estimated else ', and no number of damaged buildings is estimated'}."


def _confirmed_below(layout: Layout, run_id: str, threshold: float) -> tuple[int, int]:
    """Return how many confirmed buildings that a run scores are below a threshold, and how many there are."""
    found = population.of_run(layout, choices.run(layout, run_id))
    scores = found.scores[found.given("positive") & np.isfinite(found.scores)]
    return int((scores < round(threshold, 4)).sum()), len(scores)


def _why_not(layout: Layout, run: RunFacts) -> Counter[str]:
    """Count why buildings are not assessed."""
    found, events = population.of_run(layout, run), store.call(layout, labels.current)
    said = found.given("not_assessable")
    counts = Counter(found.why[(found.why != "") & found.given("")].tolist())
    return counts + Counter(events[found.ids[row]].reason or "unclear" for row in np.flatnonzero(said).tolist())


def not_assessed_words(n: int, total: int, reasons: Counter[str], several: str = "buildings") -> str:
    """Return how many are not assessed, and why, in a sentence."""
    why = ", ".join(f"{WHY.get(name, name)} {k:,}" for name, k in reasons.most_common()) or "no reason given"
    return f"{n:,} of {total:,} {several} ({wording.percent(n / total)}) were not assessed: {why}."


def strict_words(n_below: int, n_confirmed: int) -> list[str]:
    """Return that a threshold is above most confirmed buildings, in a sentence; nothing where it is not."""
    if not n_confirmed or n_below * 2 < n_confirmed:
        return []
    return [
        f"{n_below:,} of {n_confirmed:,} confirmed buildings score below the threshold: it flags the clearest damage only."
    ]


def few_positives_words(n: int) -> str:
    """Return that a method learned from few damaged buildings, in a sentence."""
    return f"The method learned from {wording.plural(n, 'damaged building')} only; kinds of damage that are not among them may be missed."


# The versions there are


@dataclass(frozen=True)
class Version:
    """A version of the damage map, for a list.

    Attributes:
        run: its run's name.
        basis: who or what set the threshold.
        flagged: by score alone.
    """

    name: str
    made_at: str
    run: str
    run_id: str
    threshold: float
    basis: str
    is_audited: bool
    confirmed: int
    flagged: int
    not_assessed: int
    n: int
    units: str
    estimate: str
    n_changes: int | None
    folder: Path
    files: tuple[str, ...]


def all_versions(layout: Layout) -> list[Version]:
    """Return the versions of the damage map, the newest first."""
    names = run_names.names(layout)
    return [_version(layout, facts, names) for facts in mapping.published(layout)]


def _version(layout: Layout, facts: Mapping[str, Any], names: Mapping[str, str]) -> Version:
    folder = layout.path("exports", str(facts["version"]))
    run_id, estimate = str(facts["run_id"]), facts["estimate"] or {}
    words = ""
    if estimate.get("estimate") is not None and None not in (estimate.get("low"), estimate.get("high")):
        words = f"about {estimate['estimate']:,} damaged, between {estimate['low']:,} and {estimate['high']:,}"
    return Version(
        str(facts["version"]), str(facts["made_at"]), names.get(run_id, run_id), run_id, float(facts["threshold"]),
        mapping.basis_words(str(facts["threshold_origin"])), facts["audit_id"] != "not audited",
        int(facts["confirmed"]), int(facts["flagged"]) - int(facts["confirmed"]), int(facts["not_assessed"]),
        int(facts["n"]), str(facts["units"]), words, facts["n_changes"], folder,
        tuple(sorted(path.name for path in folder.iterdir() if path.is_file() and _FILE.fullmatch(path.name))),
    )  # fmt: skip


def version_file(layout: Layout, version: str, name: str) -> Path | None:
    """Return the path of a file of a version; None for what is not one, whatever its name says."""
    if not _VERSION.fullmatch(version) or not _FILE.fullmatch(name):
        return None
    with suppress(OutOfReach):
        path = layout.path("exports", version, name)
        return path if path.is_file() else None
    return None


def write_zip(layout: Layout, version: str, out: Path) -> bool:
    """Write all files of a version into one zip file; return whether there is such a version."""
    folder = layout.exports / version
    if not _VERSION.fullmatch(version) or not folder.is_dir():
        return False
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED, compresslevel=3) as zipped:
        for path in sorted(folder.iterdir()):
            if version_file(layout, version, path.name) is not None:
                zipped.write(path, f"{layout.folder.stem}_{version}/{path.name}")
    return True


def difference_rows(found: Sequence[Changed]) -> list[tuple[Change, int]]:
    """Return how many buildings changed in which way, in the order of `CHANGES`."""
    counts = Counter(one.change for one in found)
    return [(kind, counts[kind]) for kind in CHANGES if counts[kind]]
