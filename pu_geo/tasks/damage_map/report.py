"""The printable report of a damage map: one HTML file that needs nothing else and prints to one to three A4 pages."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

from pu_geo.atomic_write import write_export
from pu_geo.geo.export.codebook import fields_of
from pu_geo.geo.export.report_map import MARKED, draw_map, round_length
from pu_geo.methods.catalog import METHODS
from pu_geo.project.choices import origin_words
from pu_geo.records import DamageMap, Grid, Units
from pu_geo.services.documents import DASH, number, percent, render
from pu_geo.tasks.damage_map.limits import count, learned_from, limits

MOST_AREAS, MOST_SUMS = 15, 8  # so that the report keeps to three pages
_SCORE_TYPES = {"pu_probability": "a network's estimate, not calibrated", "rank": "a rank", "linear": "a linear ranking"}
_NO_CARD = {
    "ranker": "the instant ranker, a linear ranking of frozen features",
    "ensemble": "the mean rank of several runs, which damage_map.run.json names",
}
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
_QUARTERS = (0.0, 0.25, 0.5, 0.75, 1.0)


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
    columns, units = damage_map.columns, damage_map.units
    picture = draw_map(damage_map, grid, background)
    bar_m = round_length(0.1 * max(picture.width, picture.height) * picture.m_per_px)
    triage, fields = count(columns["triage"]), fields_of(damage_map)
    name, kind = str(facts.get("method")), _first(columns, "score_type")
    card = METHODS.get(name)
    is_chosen = "threshold_origin" in facts
    page = render(
        "report.html",
        facts=facts,
        units=units,
        audit=audit,
        areas=_most_damaged_first(areas),
        n=len(damage_map.building_ids),
        title=facts.get("title") or "Damage map",
        estimate=facts.get("estimate") or {},
        triage=triage,
        disclaimer=facts.get("disclaimer") or "Preliminary, not field-validated.",
        before=_pictures(columns, "pre"),
        after=_pictures(columns, "post"),
        gsd_m=_first(columns, "post_gsd_m"),
        scored_at=_first(columns, "run_at"),
        answered_at=max(count(columns.get("labelled_at", ())), default=""),
        n_flagged=sum(triage[value] for value in MARKED if value != "confirmed"),
        picture=picture,
        bar=_length(bar_m),
        bar_px=bar_m / picture.m_per_px,
        corners=[_coordinates(*corner) for corner in picture.corners] or (_NO_PLACE, "", "", ""),
        cell_side=None if picture.cell_m is None else _length(picture.cell_m),
        curves=list(_curves(audit or {})),
        x_ticks=[(at, at) for at in _QUARTERS],
        y_ticks=[(at, percent(at)) for at in _QUARTERS],
        columns=list(_columns(areas, units)),
        cell=_cell,
        most_areas=MOST_AREAS,
        limits=limits(damage_map, audit),
        learned=learned_from(facts),
        answers=count(columns.get("label", ())),
        method=_NO_CARD.get(name, name) if card is None else f"{card.title}. {card.paper}",
        score=_SCORE_TYPES.get(str(kind), kind),
        is_calibrated=_first(columns, "p_damaged") is not None,
        origin=f"{origin_words(str(facts['threshold_origin']))}; {facts['audit_id']}" if is_chosen else None,
        codebook=[field for name in _CODEBOOK for field in fields if field.name == name],
        n_fields=len(fields),
        outlines="; ".join(_OUTLINES.get(one, one) for one in count(columns.get("source_footprint", ()))) or "not recorded",
        sums=list((facts.get("sha256") or {}).items()),
        most_sums=MOST_SUMS,
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


# Areas


def _has_interval(row: Mapping[str, Any]) -> bool:
    return None not in (row.get(key) for key in ("est_damaged", "low", "high"))


def _most_damaged_first(areas: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    ordered = sorted(areas, key=lambda row: -((row.get("confirmed") or 0) + (row.get("flagged") or 0)))
    return [{"assessed": 0, **row, "has_interval": _has_interval(row)} for row in ordered]


def _columns(areas: Sequence[Mapping[str, Any]], units: Units) -> Iterator[tuple[str, str, str]]:
    """Return (title, key, kind) of the columns; without codes where these only repeat names."""
    has_codes = any(row.get("pcode") not in (None, "", row.get("name")) for row in areas)
    for title, key, kind in _AREA_COLUMNS:
        if has_codes or key != "pcode":
            yield units.several.capitalize() if key == "buildings_total" else title, key, kind


def _cell(row: Mapping[str, Any], key: str, kind: str) -> str:
    """Return what a cell shows: a dash for what is not known, and for an estimate without an interval."""
    value = row.get(key)
    if value in (None, "") or (key in ("est_damaged", "pct") and not _has_interval(row)):
        return DASH
    if kind == "range":
        return f"{number(round(float(value)))} ({number(row['low'])}{DASH}{number(row['high'])})"
    return number(value) if kind == "count" else str(value)


def _curves(audit: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Return precision and recall against the threshold, in as many pieces as there are rows in sequence with estimates."""
    rows = sorted(audit.get("curve") or (), key=lambda row: float(row["threshold"]))
    for name, color, dashes in _CURVES:
        points = [(row["threshold"], *(row[name].get(part) for part in ("value", "low", "high"))) for row in rows]
        known = [list(piece) for is_known, piece in groupby(points, lambda point: None not in point) if is_known]
        pieces = [
            {
                "line": [(at, value) for at, value, _, _ in piece]
                * (2 if len(piece) == 1 else 1),  # with round ends, a point
                "band": [(at, low) for at, _, low, _ in piece] + [(at, high) for at, _, _, high in reversed(piece)],
            }
            for piece in known
        ]
        if pieces:
            yield {"name": name.capitalize(), "color": color, "dashes": dashes, "pieces": pieces}
