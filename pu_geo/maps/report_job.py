"""The printable report of a damage map: one HTML file that needs nothing else.

Its first page can be read alone, by people who know nothing of PU-Geo; what experts need, and checksums, come last.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from pathlib import Path

import numpy as np

from pu_geo import wording
from pu_geo.analysis import place
from pu_geo.assessment.auditing import NOT_KNOWN, without_headline
from pu_geo.files import write_export
from pu_geo.geo.export.codebook import types_of
from pu_geo.geo.export.report_map import MARKED, MapPicture, draw_map, hot_spots, middles, outlines, round_length
from pu_geo.maps.damage_map import SITE_COLUMNS, count
from pu_geo.methods.catalog import METHODS
from pu_geo.records import DAMAGE_CLASSES, NOT_GRADED, DamageMap, Facts, Grid, Units
from pu_geo.scenes.features import words_of
from pu_geo.scenes.layers import all_words
from pu_geo.store.choices import of_start, origin_words
from pu_geo.store.documents import DASH, Picture, Section, plain, render
from pu_geo.store.layout import RCF

MOST_AREAS, MOST_SUMS, MOST_TYPES = 15, 8, 8  # so that the report keeps to three pages
_SCORE_TYPES = {"pu_probability": "a network's estimate, not calibrated", "linear": "a linear ranking"}
_NO_CARD = {"ranker": "the instant ranker, a linear ranking of frozen features"}
_NO_PLACE = "No place on the Earth: local coordinates in meters, from the upper left corner"
_OUTLINES = {
    "overture": "Overture Maps Foundation (ODbL)",
    "osm": "\u00a9 OpenStreetMap contributors (ODbL)",
    "open_buildings": "Google Open Buildings (CC BY 4.0 or ODbL)",
    "microsoft": "Microsoft building footprints (ODbL)",
    "user": "a file of the producer's; its own license applies",
    "grid": "a regular grid, no outlines",
}
_CURVES = (("precision", "#0072B2", "none"), ("recall", "#D55E00", "7 4"))
_ANSWERS = ("damaged", "no_visible_damage", "not_assessable")
_OF_SITES = "In the order of their numbers. The estimate on page one is of all sites together."
_USUAL = "Preliminary, not field-validated."


def write_report(out: Path, damage_map: DamageMap, areas: Sequence[Facts], background: Path | None, *, grid: Grid) -> Path:
    """Write the report as one HTML file without scripts, requests or fonts of its own; whole or not at all.

    Args:
        out: file to write; replaced if it exists.
        damage_map: as `build_damage_map` made it, of a run.
        areas: rows as `analysis.area_table.area_rows` makes them, of areas with names; none leaves the section out.
        background: tile pyramid of the scenes after the event; the maps are on white without it.
        grid: of the project. Each site has a map of its own, or each hot spot of a large one, with a locator.

    Returns:
        `out`.

    Raises:
        PuGeoError: kind "disk" if there is no room for the file.
        ValueError: if the pyramid belongs to another grid.
    """
    facts: Facts = damage_map.metadata
    columns, units, triage = damage_map.columns, damage_map.units, count(damage_map.columns["triage"])
    estimate, sites = facts["estimate"], facts.get("sites", ())
    title, shapes = plain(facts["title"], 110), outlines(damage_map, grid)
    spots = hot_spots(damage_map, shapes, grid)
    whole = [draw_map(damage_map, shapes, grid, background, k) for k in range(len(grid.parts))]
    details = whole if sites else [draw_map(damage_map, shapes, grid, background, 0, spot) for spot in spots]
    names = [f"{k}. {site['name']}" for k, site in enumerate(sites, 1)] or [f"Hot spot {k}" for k, _ in enumerate(spots, 1)]
    page = render(
        "report.html",
        title=title,
        footer=f"{_USUAL} {facts['product_version']} \u00b7 run {plain(facts['run_id'], 48)} \u00b7 {plain(title, 70)}",
        sections=[
            Section("What this map can't say", [plain(one, 230) for one in facts["cannot_say"]]),
            *[Section("Sites", [_OF_SITES], [list(one.values()) for one in sites], [*SITE_COLUMNS.values()])] * bool(sites),
            _audit(facts["audit"], units),
            *_types(damage_map),
            *area_section(areas, units),
            _method(damage_map),
            *_last(damage_map),
        ],
        facts=facts,
        units=units,
        estimate=estimate,
        estimate_words=without_headline(estimate["words"]),
        not_known="not known" if facts["audit"] or estimate["audit_state"] else NOT_KNOWN,
        n=len(damage_map.building_ids),
        triage=triage,
        n_flagged=sum(triage[value] for value in MARKED if value != "confirmed"),
        before=_pictures(columns, "pre"),
        after=_pictures(columns, "post"),
        gsd_m=None if sites else _first(columns, "post_gsd_m"),
        scored_at=_first(columns, "run_at"),
        answered_at=max(count(columns["labelled_at"]), default=""),
        where=_place(damage_map, whole[0], range(len(damage_map.building_ids))),
        places=middles(grid).tolist() if sites else [],
        maps=[] if sites else whole,
        details=[(name, one, _place(damage_map, one, one.rows)) for name, one in zip(names, details, strict=True)],
        spots=spots,
        grid=grid,
        no_place=_NO_PLACE,
        coordinates=_coordinates,
        length=_length,
        round_length=round_length,
    )
    write_export(out, [page.encode("utf-8")])
    return out


def _first(columns: Mapping[str, Sequence[object]], name: str) -> object:
    """Return the first value of a column that is not null; None without one."""
    return next((value for value in columns.get(name, ()) if value is not None), None)


def _pictures(columns: Mapping[str, Sequence[object]], role: str) -> str:
    names, dates = (list(count(columns.get(f"{role}_{name}", ()))) for name in ("image_id", "date"))
    return f"{wording.plural(len(names), 'scene')}, {wording.listed(sorted(dates)) or 'date not known'}" if names else "none"


def _place(damage_map: DamageMap, one: MapPicture, rows: Iterable[int]) -> str:
    """Return where the middle of a map lies, and in which areas most of its buildings."""
    named = damage_map.columns.get("adm2_name")
    areas = wording.listed([*count(named[row] for row in rows)], 3) if named else ""
    middle = f"around {_coordinates(*np.mean(one.corners, axis=0).tolist())}" if one.corners else ""
    return f"{middle}; {areas}".strip("; ")


def _coordinates(lon: float, lat: float) -> str:
    if lon != lon or lat != lat:
        return DASH
    return f"{abs(lat):.5f}\u00b0 {'N' if lat >= 0 else 'S'}, {abs(lon):.5f}\u00b0 {'E' if lon >= 0 else 'W'}"


def _length(meters: float) -> str:
    return f"{meters / 1000:g} km" if meters >= 1000 else f"{meters:g} m"


# Sections


def _audit(audit: Facts | None, units: Units) -> Section:
    """Return what random checks say of the map, or that there were none."""
    if audit is None:
        words = (
            f"None was made of this run's map. Nobody knows how many of the flagged {units.several} are damaged, nor how "
            "much damage is missed: the scores are a rank, not a probability. An accuracy assessment answers "
            f"{units.several} drawn at random."
        )
        return Section("Accuracy assessment", [words])
    here, reading = audit["at_threshold"], audit.get("agreement") or {}
    twice = f"none: each {units.one} was read by one person"
    if reading.get("share") is not None:
        kappa = "" if reading.get("kappa") is None else f", kappa {float(reading['kappa']):.2f}"
        twice = f"{reading['n']:,} {units.several} read twice, {wording.percent(float(reading['share']))} alike{kappa}"
    rows = [
        ("Checks", f"{audit['n_answered']:,} answered of {audit['n_drawn']:,} drawn; {audit['n_counted']:,} count"),
        (
            f"Flagged, at threshold {here['threshold']:.4g}",
            f"{here['flagged']:,} {units.several} without an answer; {here['n_checks']:,} checks were from there up",
        ),
        ("Precision: share of the flagged that are damaged", wording.interval_of(here["precision"])),
        ("Recall: share of the damaged that are flagged or confirmed", wording.interval_of(here["recall"])),
        ("Second reading", twice),
    ]
    note = (
        "In parentheses: 95 % intervals. What people confirmed is no flag: it is not in precision, and counts as found in "
        "recall."
    )
    return Section(
        "Accuracy assessment", [note, *(one["words"] for one in audit.get("sites", ()))], rows, picture=picture(audit)
    )


def picture(audit: Facts) -> Picture | None:
    """Return precision and recall against the threshold, in as many pieces as there are rows in sequence with estimates."""
    rows = sorted(audit["curve"], key=lambda row: float(row["threshold"]))
    curves = []
    for name, color, dashes in _CURVES:
        known = groupby(((row["threshold"], row[name]) for row in rows), lambda at: at[1]["value"] is not None)
        pieces = [list(piece) for is_known, piece in known if is_known]
        lines = [[(at, one["value"]) for at, one in piece] * (2 if len(piece) == 1 else 1) for piece in pieces]  # a point
        bands = [
            [(at, one["low"]) for at, one in piece] + [(at, one["high"]) for at, one in reversed(piece)] for piece in pieces
        ]
        if pieces:
            curves.append((name.capitalize(), color, dashes, lines, bands))
    words = "Precision (solid) and recall (dashed) at each threshold, 95 % bands; no line where checks are too few."
    mark = (float(audit["at_threshold"]["threshold"]), "threshold of this map")
    return Picture(words, "threshold (score)", curves, mark) if curves else None


def _types(damage_map: DamageMap) -> list[Section]:
    """Return each damage type with its threshold, how many buildings have it, and what the audit says; none without
    types.
    """
    types = types_of(damage_map)
    if not types:
        return []
    table, notes = [], [str(damage_map.metadata["types_rule"])]
    for one in types[:MOST_TYPES]:
        name, audit, limit = plain(one["name"], 44), one["audit"], "too few answers"
        judged = [
            "no accuracy assessment"
            if audit is None
            else wording.interval_of({**audit[share], "words": "not enough checks"})
            for share in ("precision", "recall")
        ]
        if one["threshold"] is None:
            notes.append(f"{name}: {plain(one['words'])}")
        else:
            limit = f"{one['threshold']:.4f}, {'a start' if of_start(one['threshold_origin']) else 'by a person'}"
        table.append([name, *(one[key] for key in ("n_named", "by_people", "by_score", "unknown")), limit, *judged])
    if len(types) > MOST_TYPES:
        notes.append(f"{len(types) - MOST_TYPES:,} more types are in damage_map.run.json.")
    header = ("Type", "Answers", "Yes by people", "Yes by score", "Unknown", "Threshold", "Precision", "Recall")
    return [Section("Damage types", notes, table, header)]


def area_section(areas: Sequence[Facts], units: Units) -> list[Section]:
    """Return the areas with most buildings confirmed or flagged; none without areas."""
    if not areas:
        return []
    ordered = sorted(areas, key=lambda row: -((row["confirmed"] or 0) + (row["flagged"] or 0)))[:MOST_AREAS]
    n_not_assessed = sum(not row["assessed"] for row in areas)
    notes = [f"{DASH} means not known, never none. Flagged: by score alone."]
    if len(areas) > MOST_AREAS:
        notes.insert(
            0, f"The {MOST_AREAS} areas with most confirmed or flagged, and {len(areas) - MOST_AREAS:,} more in areas.csv."
        )
    if n_not_assessed:
        notes.append(f"In {n_not_assessed:,} of {len(areas):,} areas no {units.one} was assessed: nothing is known of them.")
    if any(row["est_damaged"] is not None for row in areas):
        notes.append(
            "Estimates of areas assume that the curve of the whole map holds in each; their intervals may not be added up."
        )
    header = (
        "Area", "Code", units.several.capitalize(), "Assessed", "Not assessed", "Confirmed", "Flagged", "Damaged (95 %)",
        "% of assessed", "Picture",
    )  # fmt: skip
    return [Section("Areas", notes, [_area(row) for row in ordered], header)]


def _area(row: Facts) -> list[object]:
    damaged, counts = row["est_damaged"], ("buildings_total", "assessed", "not_assessed", "confirmed", "flagged")
    estimate = None if damaged is None else f"{damaged:,.0f} ({row['low']:,}{DASH}{row['high']:,})"
    names = [plain(row[key], 44) for key in ("name", "pcode")]
    return [*names, *(row[key] for key in counts), estimate, row["pct"], row["post_date"]]


def _method(damage_map: DamageMap) -> Section:
    """Return how the map was made, from what, and what its numbers mean."""
    facts: Facts = damage_map.metadata
    columns, learned = (
        damage_map.columns,
        facts.get("from_model")
        or {"n_positive": facts["n_positive_clicks"], "at_event": facts["trained_on_labels_up_to_event"]},
    )
    name, kind = str(facts["method"]), str(_first(columns, "score_type") or "")
    card, answers, classes = METHODS.get(name), count(columns["label"]), count(columns.get("damage_class", ()))
    where = ", in another project: a model from there gave the scores" if "from_model" in facts else ""
    is_calibrated = _first(columns, "p_damaged") is not None
    graded = [(name, name) for name in DAMAGE_CLASSES] + [(NOT_GRADED, "damaged, not graded")]
    features, maker = facts.get("feature_set") or RCF, facts.get("feature_maker") or {}
    rows = {
        "Method": _NO_CARD.get(name, name) if card is None else f"{card.title}. {card.paper}",
        "Features": "" if features == RCF and "averaged" not in maker else words_of(features, maker),
        "Layers": all_words(facts.get("layers", ())),
        "Scenes after the event": ", ".join(count(columns.get("post_image_id", ()))),
        "Scenes before the event": ", ".join(count(columns.get("pre_image_id", ()))),
        "Settings": f"preset {plain(facts.get('preset'), 60)}, seed {plain(facts.get('seed'))}, run "
        f"{plain(facts['run_id'], 60)}, {facts['made_with']}",
        "Learned from": f"{plain(learned.get('n_positive'))} damaged buildings and those not reviewed, labels up to number "
        f"{plain(learned.get('at_event'))}{where}; it gives no grades",
        "Answers on the map": ", ".join(f"{answers[label]:,} {label.replace('_', ' ')}" for label in _ANSWERS)
        + f"; answers up to number {plain(facts.get('labels_up_to_event'))}",
        "Grades, by people": ", ".join(f"{classes[value]:,} {words}" for value, words in graded if classes[value]),
        "Evidence from place": place.words_of(facts.get("evidence_from_place")),
        "Score": f"{_SCORE_TYPES.get(kind, kind)}; "
        + ("chances of damage were calibrated on the accuracy assessment" if is_calibrated else "a rank, not a probability"),
        "Threshold": f"flagged from {plain(facts['threshold'])} on ({origin_words(str(facts['threshold_origin']))}; "
        f"{facts['audit_id']}); "
        "a person's answer overrules the score",
    }
    return Section("Method", table=[row for row in rows.items() if row[1]])


def _last(damage_map: DamageMap) -> list[Section]:
    """Return disclaimer and licenses, then the files, and the checksums of what the map was made from."""
    facts: Facts = damage_map.metadata
    sources = count(damage_map.columns["source_footprint"])
    outlines = "; ".join(_OUTLINES.get(name, name) for name in sources) or "not recorded"
    sums = [f"{plain(name, 40)} {plain(value or 'not recorded', 64)}" for name, value in facts["sha256"].items()]
    more = f"; and {len(sums) - MOST_SUMS} more in damage_map.run.json" if len(sums) > MOST_SUMS else ""
    words = (
        f"{facts['disclaimer']} It helps to choose where to look first; it does not replace looking. No decision on a "
        "single building or "
        "household should rest on it alone.",
        "License of this map: none stated; ask the producer before you pass this map on. "
        f"Outlines: {plain(outlines)}. Pictures: the terms of their providers apply.",
    )
    files = (
        "damage_map.codebook.csv says what every field of the exported files means, and which of them the short "
        "damage_map.geojson has; damage_map.run.json has all figures of this report.",
        f"sha256 of the pictures: {'; '.join(sums[:MOST_SUMS]) or 'not recorded'}{more}",
    )
    return [Section("License and disclaimer", words), Section("Files and checksums", files)]
