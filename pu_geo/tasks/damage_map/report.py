"""The printable report of a damage map: one HTML file that needs nothing else and prints to one to three A4 pages."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pu_geo.atomic_write import write_export
from pu_geo.geo.export.report_map import MARKED, LegendRow, MapPicture, draw_map, round_length
from pu_geo.methods.catalog import METHODS
from pu_geo.project.choices import origin_words
from pu_geo.records import DamageMap, Grid, Units
from pu_geo.tasks.damage_map import report_parts as parts
from pu_geo.tasks.damage_map.report_parts import DASH, number, percent, section, text

POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'"
_MAP_WIDTH_MM, _MAP_HEIGHT_MM = 182.0, 150.0  # header and legend still fit on the first page
_SCORE_TYPES = {"pu_probability": "a network's estimate, not calibrated", "rank": "a rank", "linear": "a linear ranking"}
_NO_CARD = {
    "ranker": "the instant ranker, a linear ranking of frozen features",
    "ensemble": "the mean rank of several runs, which damage_map.run.json names",
}
_NO_PLACE = "No place on the Earth: local coordinates in meters, from the upper left corner"
# How many pages it prints to must not hang on the fonts of a machine: `font-size-adjust` makes every font as wide as Arial
# (its digits are .556 of its size), lines have a height of their own, and columns of tables a width.
_CSS = """
@page { size: A4; margin: 12mm 14mm 13mm;
  @bottom-right { content: counter(page) " / " counter(pages); font: 8pt sans-serif; } }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 182mm; background: #fff; color: #1a1a1a;
  font: 9pt/1.35 "Helvetica Neue", Arial, "Liberation Sans", sans-serif; overflow-wrap: break-word;
  font-size-adjust: ch-width .556; -webkit-print-color-adjust: exact; print-color-adjust: exact; }
h1 { font-size: 17pt; line-height: 1.15; margin: 0 0 1mm; }
h2 { font-size: 11pt; margin: 4mm 0 1.2mm; border-bottom: .3mm solid #1a1a1a; break-after: avoid; }
p, ul { margin: 0 0 1.5mm; } ul { padding-left: 4.5mm; } figure { margin: 0; }
figure, .numbers, .headline, section p, section li, table table tr { break-inside: avoid; }
.sheet { table-layout: fixed; width: 100%; border-collapse: collapse; } .sheet > * > tr > td { padding: 0; }
.lead { margin-bottom: 2mm; color: #444; }
.numbers { display: flex; gap: 2mm; margin: 2mm 0; }
.numbers div { flex: 1; border: .3mm solid #999; border-radius: 1mm; padding: 1.2mm 2mm; }
.numbers b { display: block; font-size: 14pt; line-height: 1.2; }
.headline { border-left: 1.5mm solid #D55E00; padding: .5mm 0 .5mm 3mm; margin: 2mm 0; }
.headline b { font-size: 12pt; }
.map { margin: 2mm auto 0; } .map img { display: block; width: 100%; height: auto; border: .2mm solid #666; }
.corners { display: flex; justify-content: space-between; gap: 3mm; font-size: 7pt; color: #444; }
.bar { display: block; width: 100%; overflow: visible; }
.legend { display: flex; flex-wrap: wrap; gap: .6mm 4mm; font-size: 8pt; margin-top: 1mm; }
.legend span { display: inline-flex; align-items: center; gap: 1.2mm; } .legend svg { width: 4mm; height: 3mm; flex: none; }
table { border-collapse: collapse; width: 100%; font-size: 8pt; } thead { display: table-header-group; }
.facts th, .facts td, .areas th, .areas td, .codebook th, .codebook td {
  border-bottom: .15mm solid #ccc; padding: .35mm 1.5mm; text-align: left; vertical-align: top; font-weight: normal; }
.facts th { width: 38%; color: #444; } .areas th { font-weight: bold; vertical-align: bottom; }
.areas { font-size: 7.5pt; table-layout: fixed; } .areas th { font-size: 6.8pt; }
.areas th, .areas td { text-align: right; padding: .35mm 1mm; }
.areas .text { text-align: left; } .areas .date { width: 16mm; white-space: nowrap; }
.areas .range { width: 24mm; } .areas .count { width: 14mm; }
.areas div { display: -webkit-box; -webkit-box-orient: vertical; -webkit-line-clamp: 2; overflow: hidden; }
.codebook { font-size: 7.5pt; } .codebook td:last-child { width: 33%; } .codebook th { width: 14%; }
.curve { display: block; width: 150mm; height: 51.4mm; max-width: 100%; margin: 2mm auto 0; font: 11px sans-serif; }
figcaption, .note { font-size: 7.5pt; color: #444; } .sums { font: 6.5pt/1.4 monospace; color: #444; }
footer { font-size: 7pt; color: #444; border-top: .2mm solid #999; padding-top: .8mm; background: #fff; }
.room { height: 7mm; }
@media screen { body { padding: 8mm; max-width: 198mm; } .room { height: 0; } footer { margin-top: 4mm; } }
@media print {
  footer { position: fixed; bottom: 0; left: 0; right: 0; height: 5mm; overflow: hidden; white-space: nowrap; }
}
"""


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
    picture = draw_map(damage_map, grid, background)
    title = text(damage_map.metadata.get("title") or "Damage map", 110)
    units = damage_map.units
    sections = (
        _header(damage_map, title), _headline(damage_map), _numbers(damage_map), _map_figure(picture, units),
        parts.audit_section(audit, units), parts.area_section(areas, units), parts.limits_section(damage_map, audit),
        _method(damage_map), parts.codebook_section(damage_map), parts.license_section(damage_map),
    )  # fmt: skip
    write_export(out, [_page(title, "".join(sections), _footer(damage_map)).encode("utf-8")])
    return out


def _page(title: str, body: str, footer: str) -> str:
    """Return the page. A table's foot keeps room on every printed page for the footer, which is fixed there."""
    return (
        '<!DOCTYPE html><html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">'
        f'<meta name="viewport" content="width=device-width"><title>{title}</title><style>{_CSS}</style></head><body>'
        f'<table class="sheet"><tbody><tr><td>{body}</td></tr></tbody><tfoot><tr><td class="room"></td></tr></tfoot></table>'
        f"<footer>{footer}</footer></body></html>\n"
    )


def _footer(damage_map: DamageMap) -> str:
    facts = damage_map.metadata
    version = text(facts.get("product_version") or "no version", 20)
    named = " \u00b7 ".join((version, f"run {text(facts.get('run_id'), 48)}", text(facts.get("title") or "Damage map", 70)))
    return f"<b>Preliminary, not field-validated.</b> {named}"


def _header(damage_map: DamageMap, title: str) -> str:
    facts, columns = damage_map.metadata, damage_map.columns
    version = f"Version {text(facts['product_version'], 20)}. " if facts.get("product_version") else ""
    event = f"Event: {text(facts['event'], 100)}. " if facts.get("event") else ""
    before, after = _images(columns, "pre"), _images(columns, "post")
    before = "not used" if facts.get("bands_why") else before
    gsd = next((value for value in columns.get("post_gsd_m", ()) if value is not None), None)
    size = f", {float(str(gsd)):.2g} m per pixel" if gsd is not None else ""
    answered = max((str(value) for value in columns.get("labelled_at", ()) if value), default="")
    last = f" Last answer of a person: {text(answered[:10])}." if answered else ""
    return (
        f"<h1>{title}</h1><p class='lead'>{version}{event}Pictures before the event: {before}. After: {after}{size}. "
        f"Scores of {text(str(next(iter(columns.get('run_at', ())), '') or 'unknown date')[:10])}.{last} "
        f"<b>{text(facts.get('disclaimer') or 'Preliminary, not field-validated.')}</b></p>"
    )


def _images(columns: Mapping[str, Sequence[object]], role: str) -> str:
    names = list(parts.count(columns.get(f"{role}_image_id", ())))
    if not names:
        return "none"
    dates = " and ".join(parts.count(columns.get(f"{role}_date", ()))) or "date not known"
    return text(f"{dates} ({', '.join(names)})", 110)


def _headline(damage_map: DamageMap) -> str:
    """Return how many buildings are damaged: with an interval, or that it is not known."""
    estimate: Mapping[str, Any] = damage_map.metadata.get("estimate") or {}  # type: ignore[assignment]
    words, units = text(estimate.get("words") or "", 800), damage_map.units
    if all(estimate.get(key) is not None for key in ("estimate", "low", "high")):
        value, low, high, n = (number(estimate.get(key)) for key in ("estimate", "low", "high", "N"))
        return (
            f"<div class='headline'><b>About {value} damaged {units.several}, "
            f"between {low} and {high}</b> (95 % interval, of {n} {units.full}).<br>{words}</div>"
        )
    return (
        f"<div class='headline'><b>How many {units.several} are damaged is not known.</b> The flags come from scores, which are "
        f"<strong>a rank, not a probability</strong>. {words}</div>"
    )


def _numbers(damage_map: DamageMap) -> str:
    triage, n = parts.count(damage_map.columns["triage"]), len(damage_map.building_ids)
    flagged = sum(triage[value] for value in MARKED if value != "confirmed")
    unknown = triage["not_assessed"]
    cells = (
        (triage["confirmed"], "confirmed damaged by a person"),
        (flagged, "flagged by score, not looked at"),
        (n - unknown - flagged - triage["confirmed"], f"not flagged: no proof of an intact {damage_map.units.one}"),
        (unknown, f"not assessed ({percent(unknown / max(n, 1))}): nothing is known"),
    )
    return "<div class='numbers'>" + "".join(f"<div><b>{number(k)}</b>{words}</div>" for k, words in cells) + "</div>"


# Map


def _map_figure(picture: MapPicture, units: Units) -> str:
    width_mm = min(_MAP_WIDTH_MM, _MAP_HEIGHT_MM * picture.width / picture.height)
    places = [_coordinates(*corner) for corner in picture.corners]
    upper_left, upper_right, lower_left, lower_right = places or (_NO_PLACE, "", "", "")
    encoded = base64.b64encode(picture.data).decode("ascii")
    what = units.full.capitalize()
    if picture.cell_m is not None:
        what = f"{units.several.capitalize()} confirmed or flagged per square of {_length(picture.cell_m)}"
    ground = "" if picture.has_scene else " No picture of the scene was at hand."
    legend = "".join(f"<span>{_swatch(row)}{text(row.words)}</span>" for row in picture.legend)
    return (
        f"<figure class='map' style='width:{width_mm:.1f}mm'>"
        f"<div class='corners'><span>{upper_left}</span><span>{upper_right}</span></div>"
        f"<img alt='Map: {what}.' width='{picture.width}' height='{picture.height}' "
        f"src='data:{picture.media_type};base64,{encoded}'>"
        f"<div class='corners'><span>{lower_left}</span><span>{lower_right}</span></div>{_bar(picture)}</figure>"
        f"<div class='legend'><b>{what}:</b>{legend}<span>{ground}</span></div>"
    )


def _coordinates(lon: float, lat: float) -> str:
    if lon != lon or lat != lat:
        return DASH
    return f"{abs(lat):.5f}\u00b0 {'N' if lat >= 0 else 'S'}, {abs(lon):.5f}\u00b0 {'E' if lon >= 0 else 'W'}"


def _length(meters: float) -> str:
    return f"{meters / 1000:g} km" if meters >= 1000 else f"{meters:g} m"


def _bar(picture: MapPicture) -> str:
    """Return scale bar and north arrow (none without a place) in pixels of the map, so that they keep its scale at every size."""
    meters = round_length(0.1 * max(picture.width, picture.height) * picture.m_per_px)
    length = meters / picture.m_per_px
    half = length / 2
    x = length + 190
    arrow = (
        f"<path transform='rotate({picture.north_deg:.1f} {x:.1f} 22)' d='M{x:.1f} 2l13 40l-13 -10l-13 10z' fill='#1a1a1a'/>"
        f"<text x='{x + 22:.1f}' y='31' font-size='25'>N</text>"
    )
    return (
        f"<svg class='bar' viewBox='0 0 {picture.width} 48' role='img' aria-label='Scale bar and north arrow'>"
        f"<g stroke='#1a1a1a' stroke-width='2'><rect x='1' y='12' width='{half:.1f}' height='14' fill='#1a1a1a'/>"
        f"<rect x='{half + 1:.1f}' y='12' width='{half:.1f}' height='14' fill='#fff'/></g>"
        f"<text x='{length + 12:.1f}' y='28' font-size='25'>{_length(meters)}</text>{arrow if picture.corners else ''}</svg>"
    )


def _swatch(row: LegendRow) -> str:
    """Return a small drawing of one kind of mark."""
    inside = {"outline": "#aaa", "hatch": "#fff"}.get(row.kind, row.color)
    edge, width = {"outline": (row.color, 6), "heavy": ("#282828", 9)}.get(row.kind, ("#282828", 3))
    lines = "<path d='M0 20L20 0M0 40L40 0M14 40L54 0' stroke='#6e6e6e' stroke-width='4'/>" if row.kind == "hatch" else ""
    box = "<rect x='3' y='3' width='34' height='24'"
    return (
        f"<svg viewBox='0 0 40 30' aria-hidden='true'>{box} fill='{inside}'/>{lines}"
        f"{box} fill='none' stroke='{edge}' stroke-width='{width}'/></svg>"
    )


# Method


def _method(damage_map: DamageMap) -> str:
    facts, columns = damage_map.metadata, damage_map.columns
    name = str(facts.get("method"))
    card = METHODS.get(name)
    title = _NO_CARD.get(name, name)
    answers = parts.count(columns.get("label", ()))
    preset, seed, run_id, made_with = (text(facts.get(key), 60) for key in ("preset", "seed", "run_id", "made_with"))
    learned = parts.learned_from(facts)
    positives, trained, newest = (
        text(value, 20) for value in (learned.get("n_positive"), learned.get("at_event"), facts.get("labels_up_to_event"))
    )
    where = ", in another project: a model from there gave the scores" if "from_model" in facts else ""
    origin = f" ({origin_words(str(facts['threshold_origin']))}; {facts['audit_id']})" if "threshold_origin" in facts else ""
    kind = str(next((value for value in columns.get("score_type", ()) if value is not None), ""))
    calibrated = any(value is not None for value in columns.get("p_damaged", ()))
    scores = "chances of damage were calibrated on the audit" if calibrated else "a rank, not a probability"
    rows = (
        ("Method", text(title if card is None else f"{card.title}. {card.paper}")),
        ("Settings", f"preset {preset}, seed {seed}, run {run_id}, {made_with}"),
        ("Learned from", f"{positives} positives and the unlabeled, answers up to number {trained}{where}; it gives no grades"),
        (
            "Answers on the map",
            f"{number(answers['damaged'])} damaged, {number(answers['no_visible_damage'])} no visible damage, "
            f"{number(answers['not_assessable'])} not assessable; answers up to number {newest}",
        ),
        ("Score", text(f"{_SCORE_TYPES.get(kind, kind)}; {scores}")),
        ("Threshold", text(f"flagged from {facts.get('threshold')} on{origin}; a person's answer overrules the score")),
    )  # fmt: skip
    body = "".join(f'<tr><th scope="row">{name}</th><td>{value}</td></tr>' for name, value in rows)
    return section("Method", f"<table class='facts'>{body}</table>")
