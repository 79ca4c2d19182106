"""The printable report of a damage map: one HTML file that needs nothing else and prints to one to three A4 pages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

from pu_geo import wording
from pu_geo.analysis import place
from pu_geo.files import write_export
from pu_geo.geo.export.codebook import fields_of, types_of
from pu_geo.geo.export.report_map import MARKED, draw_map, round_length
from pu_geo.methods.catalog import METHODS
from pu_geo.project.choices import of_start, origin_words
from pu_geo.project.layout import RCF
from pu_geo.records import DAMAGE_CLASSES, NOT_GRADED, DamageMap, Grid, Units
from pu_geo.services.damage_map.auditing import NOT_KNOWN, without_headline
from pu_geo.services.documents import DASH, Plot, Section, number, percent, plain, render
from pu_geo.services.imagery.features import words_of
from pu_geo.services.imagery.layers import all_words
from pu_geo.tasks.damage_map.limits import count, learned_from, limits

MOST_AREAS, MOST_SUMS, MOST_TYPES = 15, 8, 8  # so that the report keeps to three pages
_SCORE_TYPES = {"pu_probability": "a network's estimate, not calibrated", "linear": "a linear ranking"}
_NO_CARD = {"ranker": "the instant ranker, a linear ranking of frozen features"}
_NO_PLACE = "No place on the Earth: local coordinates in meters, from the upper left corner"
_CODEBOOK = ("damage_binary", "triage", "assessed", "score", "p_damaged", "rank", "label", "damage_class")
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
_CURVES = (("precision", "#0072B2", "none"), ("recall", "#D55E00", "7 4"))
_ANSWERS = ("damaged", "no_visible_damage", "not_assessable")
_USUAL = "Preliminary, not field-validated."


def write_report(
    out: Path,
    damage_map: DamageMap,
    audit: Mapping[str, Any] | None,
    areas: Sequence[Mapping[str, Any]],
    background: Path | None,
    *,
    grid: Grid,
) -> Path:
    """Write the report as one HTML file without scripts, requests or fonts of its own; whole or not at all.

    Args:
        out: file to write; replaced if it exists.
        damage_map: as `build_damage_map` made it.
        audit: what `services.damage_map.auditing.facts` returned for its run; None without an audit.
        areas: rows as `analysis.area_table.area_rows` makes them; none leaves the section out.
        background: tile pyramid of the scenes after the event; the map is on white without it.
        grid: of the project.

    Returns:
        `out`.

    Raises:
        PuGeoError: kind "disk" if there is no room for the file.
        ValueError: if the pyramid belongs to another grid.
    """
    facts: Mapping[str, Any] = damage_map.metadata
    estimate = facts.get("estimate") or {}
    columns, units, triage = damage_map.columns, damage_map.units, count(damage_map.columns["triage"])
    picture = draw_map(damage_map, grid, background)
    bar_m = round_length(0.1 * max(picture.width, picture.height) * picture.m_per_px)
    title, disclaimer = plain(facts.get("title") or "Damage map", 110), plain(facts.get("disclaimer") or _USUAL)
    version = plain(facts.get("product_version") or "no version", 20)
    page = render(
        "report.html",
        title=title,
        footer=f"{_USUAL} {version} \u00b7 run {plain(facts.get('run_id'), 48)} \u00b7 {plain(title, 70)}",
        sections=[
            _audit(audit, units),
            *_types(damage_map),
            *area_section(areas, units),
            Section("What this map can't say", lines=[plain(one, 230) for one in limits(damage_map, audit)]),
            _method(damage_map),
            _codebook(damage_map),
            _license(damage_map, disclaimer),
        ],
        facts=facts,
        units=units,
        disclaimer=disclaimer,
        estimate=estimate,
        estimate_words=without_headline(str(estimate.get("words") or "")),
        not_known="not known" if audit is not None or estimate.get("audit_state") else NOT_KNOWN,
        n=len(damage_map.building_ids),
        triage=triage,
        n_flagged=sum(triage[value] for value in MARKED if value != "confirmed"),
        before=_pictures(columns, "pre"),
        after=_pictures(columns, "post"),
        gsd_m=_first(columns, "post_gsd_m"),
        scored_at=_first(columns, "run_at"),
        answered_at=max(count(columns.get("labelled_at", ())), default=""),
        picture=picture,
        corners=[_coordinates(*corner) for corner in picture.corners] or (_NO_PLACE, "", "", ""),
        bar=_length(bar_m),
        bar_px=bar_m / picture.m_per_px,
        cell_side=None if picture.cell_m is None else _length(picture.cell_m),
    )
    write_export(out, [page.encode("utf-8")])
    return out


def _first(columns: Mapping[str, Sequence[object]], name: str) -> object:
    """Return the first value of a column that is not null; None without one."""
    return next((value for value in columns.get(name, ()) if value is not None), None)


def _pictures(columns: Mapping[str, Sequence[object]], role: str) -> str:
    names, dates = (list(count(columns.get(f"{role}_{name}", ()))) for name in ("image_id", "date"))
    return f"{' and '.join(dates) or 'date not known'} ({', '.join(names)})" if names else "none"


def _coordinates(lon: float, lat: float) -> str:
    if lon != lon or lat != lat:
        return DASH
    return f"{abs(lat):.5f}\u00b0 {'N' if lat >= 0 else 'S'}, {abs(lon):.5f}\u00b0 {'E' if lon >= 0 else 'W'}"


def _length(meters: float) -> str:
    return f"{meters / 1000:g} km" if meters >= 1000 else f"{meters:g} m"


# Sections


def _audit(audit: Mapping[str, Any] | None, units: Units) -> Section:
    """Return what random checks say of the map, or that there were none."""
    if audit is None:
        words = (
            f"None was made of this run's map. Nobody knows how many of the flagged {units.several} are damaged, nor how much "
            "damage is missed: the scores are a rank, not a probability. An audit answers a few hundred "
            f"{units.several} drawn at random."
        )
        return Section("Audit", text=[words])
    here, reading = audit.get("at_threshold"), audit.get("agreement") or {}
    is_cut = audit.get("n_counted", audit["n_answered"]) < audit["n_drawn"]
    counted = f"; {number(audit['n_counted'])} count" if is_cut else ""
    rows = [("Random checks", f"{number(audit['n_answered'])} answered of {number(audit['n_drawn'])} drawn{counted}")]
    if here:
        above = f"{number(here['flagged'])} {units.several} without an answer; {number(here['n_checks'])} checks were from there up"
        rows += [
            (f"Flagged, at threshold {float(here['threshold']):.4g}", above),
            ("Precision: share of the flagged that are damaged", _share(here["precision"])),
            ("Recall: share of the damaged that are flagged or confirmed", _share(here["recall"])),
        ]
    twice = f"none: each audited {units.one} was read by one person"
    if reading.get("n") and reading.get("share") is not None:
        kappa = "" if reading.get("kappa") is None else f", kappa {float(reading['kappa']):.2f}"
        twice = f"{number(reading['n'])} {units.several} read twice, {percent(float(reading['share']))} alike{kappa}"
    note = "In parentheses: 95 % intervals. What people confirmed is no flag: it is not in precision, and counts as found in recall."
    return Section("Audit", rows=[*rows, ("Second reading", twice)], plots=plots(audit), note=note)


def _share(found: Mapping[str, Any]) -> str:
    """Return an estimated share with its interval, or the words that say why there is none."""
    keys = ("value", "low", "high")
    if None in (found.get(key) for key in keys):
        return str(found.get("words") or "not enough checks")
    value, low, high = (float(found[key]) for key in keys)
    return wording.interval(value, low, high)


def plots(audit: Mapping[str, Any]) -> list[Plot]:
    """Return precision and recall against the threshold, in as many pieces as there are rows in sequence with estimates."""
    rows = sorted(audit.get("curve") or (), key=lambda row: float(row["threshold"]))
    curves = []
    for name, color, dashes in _CURVES:
        points = [(row["threshold"], *(row[name].get(part) for part in ("value", "low", "high"))) for row in rows]
        pieces = [list(piece) for is_known, piece in groupby(points, lambda point: None not in point) if is_known]
        lines = [[(at, value) for at, value, _, _ in piece] * (2 if len(piece) == 1 else 1) for piece in pieces]  # a point
        bands = [
            [(at, low) for at, _, low, _ in piece] + [(at, high) for at, _, _, high in reversed(piece)] for piece in pieces
        ]
        if pieces:
            curves.append((name.capitalize(), color, dashes, lines, bands))
    here, quarters = audit.get("at_threshold"), [i / 4 for i in range(5)]
    words = "Precision (solid) and recall (dashed) at each threshold, 95 % bands; no line where checks are too few."
    ticks = [(at, percent(at)) for at in quarters], [(at, f"{at:g}") for at in quarters]
    mark = (float(here["threshold"]), "threshold of this map") if here else None
    return [Plot("Precision and recall", words, curves, *ticks, "threshold (score)", mark)] if curves else []


def _types(damage_map: DamageMap) -> list[Section]:
    """Return each damage type with its threshold, how many buildings have it, and what the audit says; none without types."""
    types = types_of(damage_map)
    if not types:
        return []
    columns = (
        ("Type", lambda one: plain(one["name"], 44)), ("Answers", lambda one: number(one["n_named"])),
        ("Yes by people", lambda one: number(one["by_people"])), ("Yes by score", lambda one: number(one["by_score"])),
        ("Unknown", lambda one: number(one["unknown"])), ("Threshold", _limit),
        ("Precision", lambda one: _of_audit(one, "precision")), ("Recall", lambda one: _of_audit(one, "recall")),
    )  # fmt: skip
    notes = [str(damage_map.metadata["types_rule"])]
    notes += [f"{plain(one['name'], 44)}: {plain(one['words'])}" for one in types[:MOST_TYPES] if one["threshold"] is None]
    if len(types) > MOST_TYPES:
        notes.append(f"{len(types) - MOST_TYPES:,} more types are in damage_map.run.json.")
    table = [[cell(one) for _, cell in columns] for one in types[:MOST_TYPES]]
    return [Section("Damage types", header=[title for title, _ in columns], table=table, note=" ".join(notes))]


def _limit(one: Mapping[str, Any]) -> str:
    if one["threshold"] is None:
        return "too few answers"
    kind = str(one["threshold_origin"])
    return f"{one['threshold']:.4f}, {'a start' if of_start(kind) else 'by a person'}"


def _of_audit(one: Mapping[str, Any], name: str) -> str:
    """Return precision or recall of a type; no figure without enough checks."""
    if one["audit"] is None:
        return "not audited"
    found = one["audit"][name]
    return _share(found) if found["value"] is not None else "not enough checks"


def _has_interval(row: Mapping[str, Any]) -> bool:
    return None not in (row.get(key) for key in ("est_damaged", "low", "high"))


def area_section(areas: Sequence[Mapping[str, Any]], units: Units) -> list[Section]:
    """Return the areas with most buildings confirmed or flagged; none without areas. No estimate without an interval."""
    if not areas:
        return []
    ordered = sorted(areas, key=lambda row: -((row.get("confirmed") or 0) + (row.get("flagged") or 0)))
    has_codes = any(row.get("pcode") not in (None, "", row.get("name")) for row in areas)
    columns = [column for column in _AREA_COLUMNS if has_codes or column[1] != "pcode"]
    header = [units.several.capitalize() if key == "buildings_total" else title for title, key, _ in columns]
    table = [[_cell(row, key, kind) for _, key, kind in columns] for row in ordered[:MOST_AREAS]]
    n_not_assessed = sum(not row.get("assessed") for row in areas)
    notes = [f"{DASH} means not known, never none. Flagged: by score alone."]
    if len(areas) > MOST_AREAS:
        more = f"{len(areas) - MOST_AREAS:,} more in areas.csv"
        notes.insert(0, f"The {MOST_AREAS} areas with most confirmed or flagged, and {more}.")
    if n_not_assessed:
        notes.append(f"In {n_not_assessed:,} of {len(areas):,} areas no {units.one} was assessed: nothing is known of them.")
    if any(map(_has_interval, areas)):
        notes.append("Estimates of areas assume that the audit's curve holds in each; their intervals may not be added up.")
    return [Section("Areas", header=header, table=table, kinds=[kind for *_, kind in columns], note=" ".join(notes))]


def _cell(row: Mapping[str, Any], key: str, kind: str) -> str:
    """Return what a cell shows: a dash for what is not known, and for an estimate without an interval."""
    value = row.get(key)
    if value in (None, "") or (key in ("est_damaged", "pct") and not _has_interval(row)):
        return DASH
    if kind == "range":
        return f"{number(round(float(value)))} ({number(row['low'])}{DASH}{number(row['high'])})"
    return number(value) if kind == "count" else plain(value, 44)


def _method(damage_map: DamageMap) -> Section:
    facts, columns = damage_map.metadata, damage_map.columns
    metadata: Mapping[str, Any] = facts
    name, kind = str(facts.get("method")), str(_first(columns, "score_type") or "")
    card, answers, learned = METHODS.get(name), count(columns.get("label", ())), learned_from(facts)
    preset, seed, run_id, made_with = (plain(facts.get(key), 60) for key in ("preset", "seed", "run_id", "made_with"))
    where = ", in another project: a model from there gave the scores" if "from_model" in facts else ""
    origin = f" ({origin_words(str(facts['threshold_origin']))}; {facts['audit_id']})" if "threshold_origin" in facts else ""
    is_calibrated = _first(columns, "p_damaged") is not None
    scores = "chances of damage were calibrated on the audit" if is_calibrated else "a rank, not a probability"
    given = ", ".join(f"{number(answers[label])} {label.replace('_', ' ')}" for label in _ANSWERS)
    classes = count(columns.get("damage_class", ()))
    graded = [(name, name) for name in DAMAGE_CLASSES] + [(NOT_GRADED, "damaged, not graded")]
    grades = ", ".join(f"{number(classes[value])} {words}" for value, words in graded if classes[value])
    trained = f"{plain(learned.get('n_positive'))} damaged buildings and those not reviewed, labels up to number {plain(learned.get('at_event'))}"
    neighbors = place.words_of(facts.get("evidence_from_place"))
    rows = [
        ("Method", _NO_CARD.get(name, name) if card is None else f"{card.title}. {card.paper}"),
        *_features(facts),
        *([("Layers", all_words(metadata["layers"]))] if metadata.get("layers") else []),
        ("Settings", f"preset {preset}, seed {seed}, run {run_id}, {made_with}"),
        ("Learned from", f"{trained}{where}; it gives no grades"),
        ("Answers on the map", f"{given}; answers up to number {plain(facts.get('labels_up_to_event'))}"),
        *([("Grades, by people", grades)] if grades else []),
        *([("Evidence from place", neighbors)] if neighbors else []),
        ("Score", f"{_SCORE_TYPES.get(kind, kind)}; {scores}"),
        ("Threshold", f"flagged from {plain(facts.get('threshold'))} on{origin}; a person's answer overrules the score"),
    ]
    return Section("Method", rows=rows)


def _features(facts: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return the row of the features of a map, with the license of their weights; none for rcf, and for own scores."""
    name = facts.get("feature_set", RCF)
    return [] if name in (None, RCF) else [("Features", words_of(name, facts["feature_maker"]))]


def _codebook(damage_map: DamageMap) -> Section:
    """Return the most important fields of the exported files."""
    fields = {field.name: field for field in fields_of(damage_map)}
    found = [fields[name] for name in _CODEBOOK if name in fields]
    more = f"All {len(fields)} fields stand in damage_map.codebook.csv."
    return Section("Codebook", table=[(field.name, field.meaning, field.allowed) for field in found], note=more)


def _license(damage_map: DamageMap, disclaimer: str) -> Section:
    """Return disclaimer, licenses and the checksums of what the map was made from."""
    facts: Mapping[str, Any] = damage_map.metadata
    license_ = facts.get("license") or facts.get("licence") or "none stated; ask the producer before you pass this map on."
    sources = count(damage_map.columns.get("source_footprint", ()))
    outlines = "; ".join(_OUTLINES.get(name, name) for name in sources) or "not recorded"
    sums = [f"{plain(name, 40)} {plain(value or 'not recorded', 64)}" for name, value in (facts.get("sha256") or {}).items()]
    words = (
        f"{disclaimer} It helps to choose where to look first; it does not replace looking. No decision on a single building or "
        "household should rest on it alone.",
        f"License of this map: {plain(license_, 160)} Outlines: {plain(outlines)}. Pictures: the terms of their providers apply.",
    )
    more = f"; and {len(sums) - MOST_SUMS} more in damage_map.run.json" if len(sums) > MOST_SUMS else ""
    note = f"sha256 of the pictures: {'; '.join(sums[:MOST_SUMS]) or 'not recorded'}{more}"
    return Section("License and disclaimer", words, note=note)
