"""Sections of the printed report: audit with its curve, areas, limits, codebook and licenses. Each returns HTML."""

from __future__ import annotations

import html
import unicodedata
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pu_geo.geo.export.codebook import NOT_GRADED, fields_of
from pu_geo.records import DamageMap, Units

DASH = "\u2013"
BUILDINGS = Units(1)
MOST_AREAS, MOST_SUMS, MOST_WARNINGS, MOST_SCENES = 15, 8, 4, 4  # so that the report keeps to three pages
MOST_FLAGGED = 0.9
FEW_POSITIVES = 30  # the demo's 30 clicks; PRODUCT speaks of 10 to 30 for a first ranking
_LONGEST_TEXT = 300
_HIDDEN = {"Cc", "Cf", "Cs", "Co"}  # control signs, also those that change the direction of writing
_JOINERS = "\u200c\u200d"  # are control signs too, but Persian and many scripts of India need them
_CODEBOOK = ("damage_binary", "triage", "assessed", "score", "p_damaged", "rank", "label", "damage_class")
_WHY = {
    "outside_image": "outside the picture",
    "nodata": "no picture there",
    "no_pre_image": "no picture from before the event",
    "scene_without_answers": "a scene that differs from those with answers, and has none",
    "misaligned": "outline and picture do not match",
    "no_building": "no building there",
    "unclear": "unclear picture",
    "not_in_run": "added after the run, which does not score them",
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
    ("Area", "name", "text"), ("Code", "pcode", "text"), ("Buildings", "buildings_total", "count"),
    ("Assessed", "assessed", "count"), ("Not assessed", "not_assessed", "count"), ("Confirmed", "confirmed", "count"),
    ("Flagged", "flagged", "count"), ("Damaged (95 %)", "est_damaged", "range"), ("% of assessed", "pct", "count"),
    ("Picture", "post_date", "date"),
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
    """Return a section; it may be broken over two pages, between rows or paragraphs."""
    return f"<section><h2>{text(title)}</h2>{body}</section>"


def count(column: Iterable[object]) -> Counter[str]:
    """Count the values of a column that are not null."""
    return Counter(str(value) for value in column if value is not None)


# Audit


def audit_section(audit: Mapping[str, Any] | None, units: Units = BUILDINGS) -> str:
    """Return what random checks say of the map, or that there were none."""
    if audit is None:
        return section(
            "Audit",
            f"<p>None was made of this run's map. Nobody knows how many of the flagged {units.several} are damaged, nor how much damage is missed: "
            f"the scores are <b>a rank, not a probability</b>. An audit answers a few hundred {units.several} drawn at random.</p>",
        )
    here, agreement = audit.get("at_threshold"), audit.get("agreement")
    is_cut = audit.get("n_counted", audit["n_answered"]) < audit["n_drawn"]
    counted = f"; {number(audit['n_counted'])} count" if is_cut else ""
    rows = [("Random checks", f"{number(audit['n_answered'])} answered of {number(audit['n_drawn'])} drawn{counted}")]
    if here:
        above = f"{number(here['flagged'])} {units.several}, {number(here['n_checks'])} checks among them"
        rows += [
            (f"At threshold {float(here['threshold']):.4g} and above", above),
            ("Precision: share of these that are damaged", shares(here["precision"])),
            ("Recall: share of the damaged that are among these", shares(here["recall"])),
        ]
    rows.append(("Second reading", _agreement(agreement, units)))
    table = "".join(f'<tr><th scope="row">{text(name)}</th><td>{value}</td></tr>' for name, value in rows)
    note = "In parentheses: 95 % intervals. The audit judges the map as it was before its own answers were entered."
    return section("Audit", f"<table class='facts'>{table}</table>{curve_svg(audit)}<p class='note'>{note}</p>")


def _agreement(agreement: Mapping[str, Any] | None, units: Units) -> str:
    if not agreement or not agreement.get("n") or agreement.get("share") is None:
        return f"none: each audited {units.one} was read by one person"
    kappa = "" if agreement.get("kappa") is None else f", kappa {float(agreement['kappa']):.2f}"
    return f"{number(agreement['n'])} {units.several} read twice, {percent(float(agreement['share']))} alike{kappa}"


# Areas


def area_section(areas: Sequence[Mapping[str, Any]], units: Units = BUILDINGS) -> str:
    """Return the areas with most buildings confirmed or flagged; "" without areas. No estimate without an interval."""
    if not areas:
        return ""
    ordered = sorted(areas, key=lambda row: -((row.get("confirmed") or 0) + (row.get("flagged") or 0)))
    has_codes = any(row.get("pcode") not in (None, "", row.get("name")) for row in areas)
    columns = [column for column in _AREA_COLUMNS if has_codes or column[1] != "pcode"]
    titles = [units.several.capitalize() if key == "buildings_total" else title for title, key, _ in columns]
    head = "".join(f"<th scope='col' class='{kind}'>{title}</th>" for title, (*_, kind) in zip(titles, columns, strict=True))
    cells = ["".join(_area_cell(row, key, kind) for _, key, kind in columns) for row in ordered[:MOST_AREAS]]
    body = "".join(f"<tr>{row}</tr>" for row in cells)
    n_not_assessed = sum(not row.get("assessed") for row in areas)
    notes = [f"{DASH} means not known, never none. Flagged: by score alone."]
    if len(areas) > MOST_AREAS:
        notes.insert(
            0, f"The {MOST_AREAS} areas with most confirmed or flagged, and {len(areas) - MOST_AREAS:,} more in areas.csv."
        )
    if n_not_assessed:
        notes.append(f"In {n_not_assessed:,} of {len(areas):,} areas no {units.one} was assessed: nothing is known of them.")
    if any(_has_interval(row) for row in areas):
        notes.append("Estimates of areas assume that the audit's curve holds in each; their intervals may not be added up.")
    table = f"<table class='areas'><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
    return section("Areas", f"{table}<p class='note'>{' '.join(notes)}</p>")


def _has_interval(row: Mapping[str, Any]) -> bool:
    return all(row.get(key) is not None for key in ("est_damaged", "low", "high"))


def _area_cell(row: Mapping[str, Any], key: str, kind: str) -> str:
    value = row.get(key)
    if value in (None, "") or (key in ("est_damaged", "pct") and not _has_interval(row)):
        shown = DASH
    elif kind in ("text", "date"):
        shown = f"<div>{text(value, 44)}</div>"
    elif kind == "range":
        shown = f"{number(round(float(value)))} ({number(row['low'])}{DASH}{number(row['high'])})"
    else:
        shown = number(value)
    return f"<td class='{kind}' dir='auto'>{shown}</td>"


# Limits, codebook, licenses


def limits_section(damage_map: DamageMap, audit: Mapping[str, Any] | None) -> str:
    """Return what a reader must not take from the map, as far as its own figures tell."""
    items = "".join(f"<li>{text(sentence, 230)}</li>" for sentence in limits(damage_map, audit))
    return section("What this map can't say", f"<ul>{items}</ul>")


def limits(damage_map: DamageMap, audit: Mapping[str, Any] | None) -> list[str]:
    """Return what a reader must not take from the map, one sentence each, from its own figures."""
    found = [
        *_limits_of_coverage(damage_map), *_limits_of_scenes(damage_map), *_limits_of_outlines(damage_map),
        *_limits_of_answers(damage_map, audit),
    ]  # fmt: skip
    warnings: Sequence[str] = damage_map.metadata.get("run_warnings") or ()  # type: ignore[assignment]
    found += [f"The method warns: {warning}" for warning in warnings[:MOST_WARNINGS]]
    if len(warnings) > MOST_WARNINGS:
        found.append(f"{len(warnings) - MOST_WARNINGS:,} more warnings of the method are in damage_map.run.json.")
    return found


def _limits_of_scenes(damage_map: DamageMap) -> list[str]:
    """Return in which scenes the result is doubtful, worst first, and which bands the ranking goes without."""
    scenes: Sequence[Mapping[str, Any]] = damage_map.metadata.get("scenes") or ()  # type: ignore[assignment]
    doubtful = sorted((row for row in scenes if row["doubt"]), key=lambda row: -row["n"])
    found = [str(row["doubt"]) for row in doubtful[:MOST_SCENES]]
    if len(doubtful) > MOST_SCENES:
        found.append(
            f"The result is as doubtful in {len(doubtful) - MOST_SCENES:,} more scenes; damage_map.run.json names them."
        )
    if why := damage_map.metadata.get("bands_why"):
        found.append(str(why))
    return found


def _limits_of_coverage(damage_map: DamageMap) -> list[str]:
    columns, n = damage_map.columns, max(len(damage_map.building_ids), 1)
    n_not_assessed = sum(value == "not_assessed" for value in columns["damage_binary"])
    found = [
        "Preliminary, not field-validated. Pictures from above show roofs: damage to walls and inside stays unseen.",
        f"A {damage_map.units.one} that is not flagged is not proven to be intact.",
    ]
    if n_not_assessed:
        reasons = count(columns.get("not_assessed_reason", ())).most_common()
        why = ", ".join(f"{_WHY.get(name, name)} {k:,}" for name, k in reasons)
        found.append(
            f"{n_not_assessed:,} of {n:,} {damage_map.units.several} ({percent(n_not_assessed / n)}) were not assessed: {why or 'no reason given'}."
        )
    if not count(columns.get("pre_image_id", ())) and not damage_map.metadata.get("bands_why"):
        found.append(
            "There is no picture from before the event: what was damaged or under construction before may be flagged."
        )
    if not count(columns.get("post_date", ())):
        found.append("The date of the pictures after the event is not known.")
    return found


def _limits_of_outlines(damage_map: DamageMap) -> list[str]:
    """Return what of the outlines a reader could mistake: cells, duplicates, an area that chose nothing."""
    found, metadata, n, units = [], damage_map.metadata, len(damage_map.building_ids), damage_map.units
    if units.n_cells:
        which = "Mapped are" if not units.n_buildings else f"{units.n_cells:,} of {n:,} rows are"
        cells = Units(0, units.n_cells, units.sizes_m).full
        found.append(
            f"{which} {cells} of a regular grid, not buildings: a cell may hold several houses, a part of one, or none."
        )
    changed = metadata.get("sources_changed")
    if isinstance(changed, Sequence) and changed:
        names = ", ".join(map(str, changed[:5]))
        found.append(
            f"Another file lies now where {names} was: the map shows the picture that was there when chips were cut."
        )
    missing = metadata.get("sources_missing")
    if isinstance(missing, Sequence) and missing:
        found.append(f"The files of {', '.join(map(str, missing[:5]))} are gone: nobody can look at them again.")
    doubles = metadata.get("n_duplicates")
    if isinstance(doubles, int) and doubles:
        found.append(f"{doubles:,} outlines are the same building as another one, which every number here counts twice.")
    area = metadata.get("aoi")
    if isinstance(area, Mapping) and "selected_buildings" in area:
        found += _limits_of_area(area, n, units)
    return found


def _limits_of_area(area: Mapping[str, object], n: int, units: Units) -> list[str]:
    name, outside = (
        f"The area of interest ({area['source']})",
        f"{area['n_outside']:,} of {n:,} {units.several} lie outside it",
    )
    if area["set_after_run"]:
        return [f"{name} was set after the run and did not choose what was mapped: {outside}."]
    if not area["selected_buildings"]:
        return [f"{name} did not stand yet, or not any more, when some of the outlines were added: {outside}."]
    return [] if area["stands"] else [f"{name} chose what was mapped; it has been replaced or taken away since."]


def learned_from(metadata: Mapping[str, object]) -> Mapping[str, object]:
    """Return {"n_positive", "at_event"} of what the scores were learned from: in this project, or where their model was made."""
    there = metadata.get("from_model")
    if isinstance(there, Mapping):
        return there
    return {"n_positive": metadata.get("n_positive_clicks"), "at_event": metadata.get("trained_on_labels_up_to_event")}


def _limits_of_answers(damage_map: DamageMap, audit: Mapping[str, Any] | None) -> list[str]:
    columns, found = damage_map.columns, []
    positives = learned_from(damage_map.metadata).get("n_positive")
    if isinstance(positives, int) and positives < FEW_POSITIVES:
        found.append(
            f"The method learned from {positives} positives only; kinds of damage that are not among them may be missed."
        )
    made = count(columns.get("label_source", ()))
    if made["simulated"]:
        found.append(f"{made['simulated']:,} answers are simulated from known labels: this is a trial, not an assessment.")
    if disputed := count(columns.get("review_status", ()))["disputed"]:
        found.append(f"On {disputed:,} {damage_map.units.several} people disagree; the last answer stands.")
    if ungraded := count(columns.get("damage_class", ()))[NOT_GRADED]:
        found.append(
            f"{ungraded:,} {damage_map.units.several} that people marked damaged have no grade: they may be anything up to "
            "destroyed."
        )
    binary = count(columns["damage_binary"])
    n_assessed = binary["damaged"] + binary["not_flagged"]
    if binary["damaged"] > MOST_FLAGGED * n_assessed:
        found.append(
            f"{binary['damaged']:,} of {n_assessed:,} assessed {damage_map.units.several} are flagged or confirmed: the threshold "
            "hardly tells damaged from undamaged ones. Choose it by an audit."
        )
    if audit is None or audit["total"].get("value") is None:
        estimate: Mapping[str, object] = damage_map.metadata.get("estimate") or {}  # type: ignore[assignment]
        unknown = ", and no number of damaged buildings is estimated" if estimate.get("estimate") is None else ""
        found.append(f"Without an audit the scores are a rank, not a probability{unknown}.")
    if audit is not None and audit["state"] != "finished":
        found.append(str(audit["words"]))
    return found


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


_PLOT_X, _PLOT_Y, _PLOT_W, _PLOT_H = 46.0, 10.0, 560.0, 190.0
_CURVES = (("precision", "Precision", "#0072B2", ""), ("recall", "Recall", "#D55E00", "7 4"))


def curve_svg(audit: Mapping[str, Any]) -> str:
    """Return precision and recall against the threshold, with bands; "" where nothing could be estimated."""
    rows = sorted(audit.get("curve") or (), key=lambda row: float(row["threshold"]))
    drawn = "".join(_curve(rows, *curve) for curve in _CURVES)
    if not drawn:
        return ""
    here = audit.get("at_threshold")
    mark = ""
    if here:
        x = float(_place(float(here["threshold"]), 0).split(",")[0])
        line = f"<path d='M{x:.1f} {_PLOT_Y}v{_PLOT_H}' stroke='#222' stroke-dasharray='2 3'>"
        mark = f"{line}<title>threshold of this map</title></path>"
    words = "Precision (solid) and recall (dashed) at each threshold, 95 % bands; no line where checks are too few."
    return (
        f"<figure><svg class='curve' viewBox='0 0 700 240' role='img' aria-label='{words}'>{_axes()}{drawn}{mark}</svg>"
        f"<figcaption>{words}</figcaption></figure>"
    )


def _place(threshold: float, share: float) -> str:
    x, y = (min(max(value, 0.0), 1.0) for value in (threshold, share))
    return f"{_PLOT_X + _PLOT_W * x:.1f},{_PLOT_Y + _PLOT_H * (1 - y):.1f}"


def _curve(rows: Sequence[Mapping[str, Any]], key: str, name: str, color: str, dashes: str) -> str:
    """Return one curve in as many pieces as there are rows in sequence that could be estimated."""
    pieces: list[list[tuple[float, float, float, float]]] = [[]]
    for row in rows:
        figures = [row[key].get(part) for part in ("value", "low", "high")]
        if None in figures:
            pieces.append([])
        else:
            pieces[-1].append((float(row["threshold"]), *(float(value) for value in figures)))  # type: ignore[arg-type]
    out, last = [], None
    for piece in filter(None, pieces):
        band = [_place(at, low) for at, _, low, _ in piece] + [_place(at, high) for at, _, _, high in reversed(piece)]
        line = [_place(at, value) for at, value, _, _ in piece]
        line = line if len(line) > 1 else line * 2  # with round ends, a point
        out.append(f"<polygon points='{' '.join(band)}' fill='{color}' fill-opacity='.16'/>")
        stroke = f"stroke='{color}' stroke-width='2.2' stroke-linecap='round' stroke-dasharray='{dashes or 'none'}'"
        out.append(f"<polyline points='{' '.join(line)}' fill='none' {stroke}/>")
        last = piece[-1]
    if last is None:
        return ""
    x, y = _place(last[0], last[1]).split(",")
    return (
        "".join(out) + f"<text x='{float(x) + 7:.1f}' y='{float(y) + 4:.1f}' fill='{color}' font-weight='bold'>{name}</text>"
    )


def _axes() -> str:
    parts = []
    for i in range(5):
        x, y = _PLOT_X + _PLOT_W * i / 4, _PLOT_Y + _PLOT_H * (1 - i / 4)
        parts.append(f"<path d='M{_PLOT_X} {y:.1f}h{_PLOT_W}' stroke='#ccc'/>")
        parts.append(f"<text x='{_PLOT_X - 6}' y='{y + 4:.1f}' text-anchor='end'>{25 * i} %</text>")
        parts.append(f"<text x='{x:.1f}' y='{_PLOT_Y + _PLOT_H + 16}' text-anchor='middle'>{i / 4:g}</text>")
    middle = _PLOT_X + _PLOT_W / 2
    return "".join(parts) + f"<text x='{middle}' y='{_PLOT_Y + _PLOT_H + 34}' text-anchor='middle'>threshold (score)</text>"
