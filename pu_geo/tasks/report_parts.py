"""Sections of the printed report: audit with its curve, areas, limits, codebook and licenses. Each returns HTML."""

from __future__ import annotations

import html
import unicodedata
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pu_geo.geo.codebook import fields_of
from pu_geo.records import DamageMap
from pu_geo.tasks.report_curve import curve_svg

DASH = "\u2013"
MOST_AREAS, MOST_SUMS, MOST_WARNINGS = 15, 8, 4  # so that the report keeps to three pages
FEW_POSITIVES = 30  # the demo's 30 clicks; PRODUCT speaks of 10 to 30 for a first ranking
_LONGEST_TEXT = 300
_HIDDEN = {"Cc", "Cf", "Cs", "Co"}  # control signs, also those that turn the direction of writing
_JOINERS = "\u200c\u200d"  # are control signs too, but Persian and many scripts of India need them
_CODEBOOK = ("damage_binary", "triage", "assessed", "score", "p_damaged", "rank", "label", "damage_class")
_WHY = {
    "outside_image": "outside the picture",
    "nodata": "no picture there",
    "misaligned": "outline and picture do not match",
    "no_building": "no building there",
    "unclear": "unclear picture",
}
_OUTLINES = {
    "overture": "Overture Maps Foundation (ODbL)",
    "osm": "\u00a9 OpenStreetMap contributors (ODbL)",
    "open_buildings": "Google Open Buildings (CC BY 4.0 or ODbL)",
    "microsoft": "Microsoft building footprints (ODbL)",
    "user": "a file of the producer's; its own license applies",
    "grid": "a regular grid, no outlines",
}
_AREA_COLUMNS = (
    ("Area", "name", "text"), ("Code", "pcode", "text"), ("Buildings", "buildings_total", ""), ("Assessed", "assessed", ""),
    ("Not assessed", "not_assessed", ""), ("Confirmed", "confirmed", ""), ("Flagged", "flagged", ""),
    ("Damaged (95 %)", "est_damaged", "range"), ("% of assessed", "pct", ""), ("Picture", "post_date", "date"),
)  # fmt: skip


def text(value: object, most: int = _LONGEST_TEXT) -> str:
    """Return anything as escaped text on one line, without control signs, cut to `most` characters."""
    kept = (c for c in str(value) if c.isspace() or c in _JOINERS or unicodedata.category(c) not in _HIDDEN)
    shown = " ".join("".join(kept).split())
    return html.escape(shown if len(shown) <= most else f"{shown[: most - 1]}\u2026")


def number(value: object) -> str:
    """Return a count or a figure with one decimal; a dash where nothing is known."""
    if value is None:
        return DASH
    figure = float(str(value))
    return f"{figure:,.0f}" if figure == round(figure) else f"{figure:,.1f}"


def percent(share: float) -> str:
    """Return a share as whole percent; never 0 or 100 where it is not exactly that."""
    if 0 < share < 0.005:
        return "<1 %"
    return ">99 %" if 0.995 <= share < 1 else f"{100 * share:.0f} %"


def shares(estimate: Mapping[str, Any]) -> str:
    """Return an estimated share with its interval, or the words that say why there is none."""
    if any(estimate.get(key) is None for key in ("value", "low", "high")):
        return text(estimate.get("words") or "not enough checks")
    value, low, high = (percent(float(estimate[key])) for key in ("value", "low", "high"))
    return text(f"{value} ({low.removesuffix(' %')}{DASH}{high})")


def section(title: str, body: str) -> str:
    """Return a section that is not broken over two pages."""
    return f"<section><h2>{text(title)}</h2>{body}</section>"


def count(column: Iterable[object]) -> Counter[str]:
    """Count the values of a column that are not null."""
    return Counter(str(value) for value in column if value is not None)


# Audit


def audit_section(audit: Mapping[str, Any] | None) -> str:
    """Return what random checks say of the map, or that there were none."""
    if audit is None:
        return section(
            "Audit",
            "<p>None was made. Nobody knows how many of the flagged buildings are damaged, nor how much damage is missed: "
            "the scores are <b>a rank, not a probability</b>. An audit answers a few hundred buildings drawn at random.</p>",
        )
    here, agreement = audit.get("at_threshold"), audit.get("agreement")
    counted = (
        f"; {number(audit['n_counted'])} count" if audit.get("n_counted", audit["n_answered"]) < audit["n_drawn"] else ""
    )
    rows = [("Random checks", f"{number(audit['n_answered'])} answered of {number(audit['n_drawn'])} drawn{counted}")]
    if here:
        above = f"{number(here['flagged'])} buildings, {number(here['n_checks'])} checks among them"
        rows += [
            (f"At threshold {float(here['threshold']):.4g} and above", above),
            ("Precision: share of these that are damaged", shares(here["precision"])),
            ("Recall: share of the damaged that are among these", shares(here["recall"])),
        ]
    rows.append(("Second reading", _agreement(agreement)))
    table = "".join(f'<tr><th scope="row">{text(name)}</th><td>{told}</td></tr>' for name, told in rows)
    note = "In parentheses: 95 % intervals. The audit judges the map as it was before its own answers were entered."
    return section("Audit", f"<table class='facts'>{table}</table>{curve_svg(audit)}<p class='note'>{note}</p>")


def _agreement(agreement: Mapping[str, Any] | None) -> str:
    if not agreement or not agreement.get("n") or agreement.get("share") is None:
        return "none: each audited building was read by one person"
    kappa = "" if agreement.get("kappa") is None else f", kappa {float(agreement['kappa']):.2f}"
    return f"{number(agreement['n'])} buildings read twice, {percent(float(agreement['share']))} alike{kappa}"


# Areas


def area_section(areas: Sequence[Mapping[str, Any]]) -> str:
    """Return the areas with most buildings confirmed or flagged; "" without areas. No estimate without an interval."""
    if not areas:
        return ""
    ordered = sorted(areas, key=lambda row: -((row.get("confirmed") or 0) + (row.get("flagged") or 0)))
    has_codes = any(row.get("pcode") not in (None, "", row.get("name")) for row in areas)
    columns = [column for column in _AREA_COLUMNS if has_codes or column[1] != "pcode"]
    head = "".join(f"<th scope='col' class='{look}'>{title}</th>" for title, _, look in columns)
    cells = ["".join(_area_cell(row, key, look) for _, key, look in columns) for row in ordered[:MOST_AREAS]]
    body = "".join(f"<tr>{row}</tr>" for row in cells)
    unseen = sum(not row.get("assessed") for row in areas)
    notes = [f"{DASH} means not known, never none. Flagged: by score alone."]
    if len(areas) > MOST_AREAS:
        notes.insert(
            0,
            f"The {MOST_AREAS} areas with most confirmed or flagged, and {len(areas) - MOST_AREAS:,} more in areas.csv.",
        )
    if unseen:
        notes.append(f"In {unseen:,} of {len(areas):,} areas no building was assessed: nothing is known of them.")
    if any(_has_interval(row) for row in areas):
        notes.append("Estimates of areas assume that the audit's curve holds in each; their intervals may not be added up.")
    table = f"<table class='areas'><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
    return section("Areas", f"{table}<p class='note'>{' '.join(notes)}</p>")


def _has_interval(row: Mapping[str, Any]) -> bool:
    return all(row.get(key) is not None for key in ("est_damaged", "low", "high"))


def _area_cell(row: Mapping[str, Any], key: str, look: str) -> str:
    value = row.get(key)
    if value in (None, "") or (key in ("est_damaged", "pct") and not _has_interval(row)):
        shown = DASH
    elif look in ("text", "date"):
        shown = text(value, 44)
    elif look == "range":
        shown = f"{number(round(float(value)))} ({number(row['low'])}{DASH}{number(row['high'])})"
    else:
        shown = number(value)
    return f"<td class='{look}' dir='auto'>{shown}</td>"


# Limits, codebook, licenses


def limits_section(damage_map: DamageMap, audit: Mapping[str, Any] | None) -> str:
    """Return what a reader must not take from the map, as far as its own figures tell."""
    told = [*_limits_of_coverage(damage_map), *_limits_of_answers(damage_map, audit)]
    warnings: Sequence[str] = damage_map.metadata.get("run_warnings") or ()  # type: ignore[assignment]
    told += [f"The method warns: {warning}" for warning in warnings[:MOST_WARNINGS]]
    if len(warnings) > MOST_WARNINGS:
        told.append(f"{len(warnings) - MOST_WARNINGS:,} more warnings of the method are in damage_map.run.json.")
    items = "".join(f"<li>{text(sentence, 230)}</li>" for sentence in told)
    return section("Limits", f"<ul>{items}</ul>")


def _limits_of_coverage(damage_map: DamageMap) -> list[str]:
    columns, n = damage_map.columns, max(len(damage_map.building_ids), 1)
    unseen = sum(value == "not_assessed" for value in columns["damage_binary"])
    told = [
        "Preliminary, not field-validated. Pictures from above show roofs: damage to walls and inside stays unseen.",
        "A building that is not flagged is not proven to be intact.",
    ]
    if unseen:
        why = ", ".join(
            f"{_WHY.get(why, why)} {k:,}" for why, k in count(columns.get("not_assessed_reason", ())).most_common()
        )
        told.append(f"{unseen:,} of {n:,} buildings ({percent(unseen / n)}) were not assessed: {why or 'no reason given'}.")
    if not count(columns.get("pre_image_id", ())):
        told.append(
            "There is no picture from before the event: what was damaged or under construction before may be flagged."
        )
    if not count(columns.get("post_date", ())):
        told.append("The date of the pictures after the event is not known.")
    return told


def learned_from(metadata: Mapping[str, object]) -> Mapping[str, object]:
    """Return {"n_positive", "at_event"} of what the scores were learned from: in this project, or where their model was made."""
    there = metadata.get("from_model")
    if isinstance(there, Mapping):
        return there
    return {"n_positive": metadata.get("n_positive_clicks"), "at_event": metadata.get("trained_on_labels_up_to_event")}


def _limits_of_answers(damage_map: DamageMap, audit: Mapping[str, Any] | None) -> list[str]:
    columns, told = damage_map.columns, []
    positives = learned_from(damage_map.metadata).get("n_positive")
    if isinstance(positives, int) and positives < FEW_POSITIVES:
        told.append(
            f"The method learned from {positives} positives only; kinds of damage that are not among them may be missed."
        )
    made = count(columns.get("label_source", ()))
    if made["simulated"]:
        told.append(f"{made['simulated']:,} answers are simulated from known labels: this is a trial, not an assessment.")
    if disputed := count(columns.get("review_status", ()))["disputed"]:
        told.append(f"On {disputed:,} buildings people disagree; the last answer stands.")
    if audit is None:
        estimate: Mapping[str, object] = damage_map.metadata.get("estimate") or {}  # type: ignore[assignment]
        unknown = ", and no number of damaged buildings is estimated" if estimate.get("estimate") is None else ""
        told.append(f"Without an audit the scores are a rank, not a probability{unknown}.")
    elif audit["state"] != "finished":
        told.append(str(audit["words"]))
    return told


def codebook_section(damage_map: DamageMap) -> str:
    """Return the most important fields of the exported files."""
    fields = {field.name: field for field in fields_of(damage_map)}
    rows = "".join(
        f"<tr><th scope='row'><code>{name}</code></th><td>{text(fields[name].meaning)}</td>"
        f"<td>{text(fields[name].allowed)}</td></tr>"
        for name in _CODEBOOK
        if name in fields
    )
    more = f"<p class='note'>All {len(fields)} fields stand in damage_map.codebook.csv.</p>"
    return section("Codebook", f"<table class='codebook'>{rows}</table>{more}")


def license_section(damage_map: DamageMap) -> str:
    """Return disclaimer, licenses and the checksums of what the map was made from."""
    metadata = damage_map.metadata
    license_ = metadata.get("license") or metadata.get("licence")
    stated = text(license_, 160) if license_ else "none stated; ask the producer before you pass this map on."
    sources = count(damage_map.columns.get("source_footprint", ()))
    outlines = "; ".join(_OUTLINES.get(name, name) for name in sources) or "not recorded"
    sums: Mapping[str, object] = metadata.get("sha256") or {}  # type: ignore[assignment]
    listed = "<br>".join(
        f"{text(name, 40)} {text(value or 'not recorded', 64)}" for name, value in list(sums.items())[:MOST_SUMS]
    )
    more = f"<br>and {len(sums) - MOST_SUMS} more in damage_map.run.json" if len(sums) > MOST_SUMS else ""
    return section(
        "License and disclaimer",
        f"<p><b>{text(metadata.get('disclaimer') or 'Preliminary, not field-validated.')}</b> "
        "It helps to choose where to look first; it does not replace looking. "
        "No decision on a single building or household should rest on it alone.</p>"
        f"<p>License of this map: {stated} Outlines: {text(outlines)}. Pictures: the terms of their providers apply.</p>"
        f"<p class='sums'>sha256 of the pictures<br>{listed or 'not recorded'}{more}</p>",
    )
