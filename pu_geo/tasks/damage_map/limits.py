"""What a reader must not take from a damage map, in sentences from its own figures."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from pu_geo.geo.export.codebook import types_of
from pu_geo.records import NOT_GRADED, DamageMap, Units
from pu_geo.services.damage_map import damage_types
from pu_geo.services.damage_map.exporting import (
    FEW_POSITIVES,
    MOST_FLAGGED,
    NO_PRE,
    few_positives_words,
    no_audit_words,
    not_assessed_words,
    strict_words,
)

OWN_SCORES = "own_scores"  # method of a map whose scores no run of the project made
MOST_WARNINGS, MOST_SCENES = 4, 4  # so that the report keeps to three pages


def count(column: Iterable[object]) -> Counter[str]:
    """Count the values of a column that are not null."""
    return Counter(str(value) for value in column if value is not None)


def learned_from(metadata: Mapping[str, object]) -> Mapping[str, object]:
    """Return {"n_positive", "at_event"} of what the scores were learned from: in this project, or where their model was made."""
    there = metadata.get("from_model")
    if isinstance(there, Mapping):
        return there
    return {"n_positive": metadata.get("n_positive_clicks"), "at_event": metadata.get("trained_on_labels_up_to_event")}


def limits(damage_map: DamageMap, audit: Mapping[str, Any] | None) -> list[str]:
    """Return what a reader must not take from the map, one sentence each."""
    metadata: Mapping[str, Any] = damage_map.metadata
    found = [*_of_coverage(damage_map), *_of_scenes(metadata), *_of_outlines(damage_map), *_of_answers(damage_map, audit)]
    warnings = metadata.get("run_warnings") or ()
    found += damage_types.gaps(types_of(damage_map))
    found += [f"The method warns: {warning}" for warning in warnings[:MOST_WARNINGS]]
    if len(warnings) > MOST_WARNINGS:
        found.append(f"{len(warnings) - MOST_WARNINGS:,} more warnings of the method are in damage_map.run.json.")
    return found


def _of_coverage(damage_map: DamageMap) -> Iterator[str]:
    columns, units, n = damage_map.columns, damage_map.units, max(len(damage_map.building_ids), 1)
    if damage_map.metadata.get("method") == OWN_SCORES:
        yield "The scores were made outside PU-Geo: no run says what they were learned from, and they are not calibrated."
    yield "Preliminary, not field-validated. Pictures from above show roofs: damage to walls and inside stays unseen."
    yield f"A {units.one} that is not flagged is not proven to be intact."
    if unknown := count(columns["damage_binary"])["not_assessed"]:
        yield not_assessed_words(unknown, n, count(columns.get("not_assessed_reason", ())), units.several)
    if not count(columns.get("pre_image_id", ())) and not damage_map.metadata.get("bands_why"):
        yield NO_PRE
    if not count(columns.get("post_date", ())):
        yield "The date of the pictures after the event is not known."


def _of_scenes(metadata: Mapping[str, Any]) -> Iterator[str]:
    """Return in which scenes the result is doubtful, worst first, and which bands the ranking goes without."""
    doubtful = sorted((row for row in metadata.get("scenes") or () if row["doubt"]), key=lambda row: -row["n"])
    yield from (str(row["doubt"]) for row in doubtful[:MOST_SCENES])
    if len(doubtful) > MOST_SCENES:
        yield f"The result is as doubtful in {len(doubtful) - MOST_SCENES:,} more scenes; damage_map.run.json names them."
    for name in ("bands_why", "out_of_date"):
        if why := metadata.get(name):
            yield str(why)
    yield from map(str, metadata.get("in_doubt") or ())
    for layer in metadata.get("layers") or ():
        n_ranked = layer["n_missing"] - layer["n_without_any"]
        if layer["is_used"] and n_ranked:
            yield f"{n_ranked:,} buildings have no {layer['name']}: their scores rest on the other layers alone."


def _of_outlines(damage_map: DamageMap) -> Iterator[str]:
    """Return what of the outlines a reader could mistake: cells, duplicates, an area that chose nothing."""
    metadata: Mapping[str, Any] = damage_map.metadata
    n, units = len(damage_map.building_ids), damage_map.units
    if units.n_cells:
        which = "Mapped are" if not units.n_buildings else f"{units.n_cells:,} of {n:,} rows are"
        cells = Units(0, units.n_cells, units.sizes_m).full
        yield f"{which} {cells} of a regular grid, not buildings: a cell may hold several houses, a part of one, or none."
    if changed := ", ".join(metadata.get("sources_changed", ())[:5]):
        yield f"Another file lies now where {changed} was: the map shows the picture that was there when chips were cut."
    if missing := ", ".join(metadata.get("sources_missing", ())[:5]):
        yield f"The files of {missing} were not where they had been when this map was made: nobody could compare it with them."
    if doubles := metadata.get("n_duplicates"):
        yield f"{doubles:,} outlines are the same building as another one, which every number here counts twice."
    area = metadata.get("aoi") or {}
    if "selected_buildings" in area:
        name = f"The area of interest ({area['source']})"
        outside = f"{area['n_outside']:,} of {n:,} {units.several} lie outside it"
        if area["set_after_run"]:
            yield f"{name} was set after the run and did not choose what was mapped: {outside}."
        elif not area["selected_buildings"]:
            yield f"{name} did not stand yet, or not any more, when some of the outlines were added: {outside}."
        elif not area["stands"]:
            yield f"{name} chose what was mapped; it has been replaced or taken away since."


def _of_answers(damage_map: DamageMap, audit: Mapping[str, Any] | None) -> Iterator[str]:
    columns, several = damage_map.columns, damage_map.units.several
    positives = learned_from(damage_map.metadata).get("n_positive")
    if isinstance(positives, int) and positives < FEW_POSITIVES:
        yield few_positives_words(positives)
    if simulated := count(columns.get("label_source", ()))["simulated"]:
        yield f"{simulated:,} answers are simulated from known labels: this is a trial, not an assessment."
    if disputed := count(columns.get("review_status", ()))["disputed"]:
        yield f"On {disputed:,} {several} people disagree; the last answer stands."
    if ungraded := count(columns.get("damage_class", ()))[NOT_GRADED]:
        yield f"{ungraded:,} {several} that people marked damaged have no grade: they may be anything up to destroyed."
    binary = count(columns["damage_binary"])
    n_assessed = binary["damaged"] + binary["not_flagged"]
    is_estimated = audit is not None and audit["total"].get("value") is not None
    may_be = float(audit["total"].get("high") or 0) if audit is not None and is_estimated else 0.0
    if binary["damaged"] > MOST_FLAGGED * n_assessed >= may_be:
        yield (
            f"{binary['damaged']:,} of {n_assessed:,} assessed {several} are flagged or confirmed: the threshold hardly tells "
            "damaged from undamaged ones. Choose it by an audit."
        )
    rows = zip(columns.get("label", ()), columns.get("score", ()), columns.get("threshold", ()), strict=False)
    confirmed = [(score, limit) for label, score, limit in rows if label == "damaged" and score is not None]
    yield from strict_words(sum(float(score) < float(limit) for score, limit in confirmed), len(confirmed))  # type: ignore[arg-type]
    if not is_estimated:
        estimate: Mapping[str, object] = damage_map.metadata.get("estimate") or {}  # type: ignore[assignment]
        yield no_audit_words(is_estimated=estimate.get("estimate") is not None)
    if audit is not None and audit["state"] != "finished":
        yield str(audit["words"])
