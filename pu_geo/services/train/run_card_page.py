"""The card of a run for people: the same sections as Markdown, and as one printable page that needs nothing else.

Everything that is written was somebody's text once, so all of it is escaped.
"""

from __future__ import annotations

import html
import re
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pu_geo.services.train.run_card_curves import drawings, figures

POLICY = "default-src 'none'; style-src 'unsafe-inline'"
DASH = "–"
_LONGEST = 300
_HIDDEN = {"Cc", "Cf", "Cs", "Co"}  # control signs, also those that turn the direction of writing
_CSS = """
@page { size: A4; margin: 14mm; }
body { margin: 0 auto; max-width: 182mm; padding: 6mm; background: #fff; color: #1a1a1a; overflow-wrap: anywhere;
  font: 10pt/1.4 "Helvetica Neue", Arial, "Liberation Sans", sans-serif; }
h1 { font-size: 18pt; margin: 0; } h2 { font-size: 12pt; margin: 5mm 0 1.5mm; border-bottom: .3mm solid #1a1a1a; }
p, ul { margin: 0 0 1.5mm; } ul { padding-left: 5mm; } h2 { break-after: avoid; } svg, tr, li { break-inside: avoid; }
table { border-collapse: collapse; width: 100%; font-size: 9pt; }
th, td { border-bottom: .15mm solid #ccc; padding: .6mm 2mm .6mm 0; text-align: left; vertical-align: top; font-weight: normal; }
th { width: 34%; color: #444; } thead th { width: auto; font-weight: bold; }
.curves { display: grid; grid-template-columns: repeat(3, 1fr); gap: 3mm; } svg { width: 100%; height: auto; }
svg .name { font: bold 11px sans-serif; } svg .end { font: 9px sans-serif; fill: #555; }
.sums td { font: 7.5pt monospace; } footer { margin-top: 5mm; font-size: 8pt; color: #444; }
@media print { body { padding: 0; } }
"""


@dataclass(frozen=True)
class Section:
    """A part of the card.

    Attributes:
        rows: (name, value) pairs.
        lines: sentences.
        header, table: a table, where there is one.
        look: class of the tables on the page.
    """

    title: str
    rows: Sequence[tuple[str, object]] = ()
    lines: Sequence[str] = ()
    header: Sequence[str] = ()
    table: Sequence[Sequence[object]] = field(default_factory=tuple)
    look: str = ""


def as_markdown(card: Mapping[str, Any], *, level: int = 1) -> str:
    """Write a card as Markdown; names out of files are escaped and show as they are.

    Args:
        level: of its title, from 1; sections are one below.
    """
    parts = [f"{'#' * level} {_title(card, _markdown)}", f"*{_markdown(_lead(card))}*"]
    for section in _sections(card):
        parts.append(f"{'#' * level}# {section.title}")
        if section.rows:
            told = [f"| {_markdown(name)} | {_markdown(value)} |" for name, value in section.rows]
            parts.append("\n".join(["| what | value |", "|---|---|", *told]))
        if section.lines:
            parts.append("\n".join(f"- {_markdown(line)}" for line in section.lines))
        if section.table:
            head = f"| {' | '.join(map(_markdown, section.header))} |\n|{'---|' * len(section.header)}"
            parts.append("\n".join([head, *(f"| {' | '.join(map(_markdown, row))} |" for row in section.table)]))
    return "\n\n".join(parts) + "\n"


def as_html(card: Mapping[str, Any]) -> str:
    """Write a card as one page: no script, no address outside of it, curves as SVG."""
    parts = [f"<h1>{_title(card, _escaped)}</h1><p>{_escaped(_lead(card))}</p>"]
    for section in _sections(card):
        rows = "".join(f"<tr><th>{_escaped(name)}</th><td>{_escaped(value)}</td></tr>" for name, value in section.rows)
        lines = "".join(f"<li>{_escaped(line)}</li>" for line in section.lines)
        parts.append(f"<h2>{_escaped(section.title)}</h2>")
        parts.append(f"<table>{rows}</table>" if rows else "")
        parts.append(f"<ul>{lines}</ul>" if lines else "")
        parts.append(drawings(card["curve"]) if section.title == CURVES else _table(section))
    return (
        '<!DOCTYPE html><html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">'
        f'<meta name="viewport" content="width=device-width"><title>{_title(card, _escaped)}</title><style>{_CSS}</style></head>'
        f"<body>{''.join(parts)}<footer>Written by {_escaped(card['made_with'])}.</footer></body></html>\n"
    )


def _table(section: Section) -> str:
    if not section.table:
        return ""
    head = "".join(f"<th>{_escaped(name)}</th>" for name in section.header)
    body = "".join(f"<tr>{''.join(f'<td>{_escaped(value)}</td>' for value in row)}</tr>" for row in section.table)
    return f"<table class='{section.look}'><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def plain(value: object) -> str:
    """Return anything as text on one line, without control signs, cut to 300 signs."""
    if value is None or value == "":
        return DASH
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:,.4g}" if abs(value) < 1000 else f"{value:,.0f}"
    kept = (sign for sign in str(value) if sign.isspace() or unicodedata.category(sign) not in _HIDDEN)
    shown = " ".join("".join(kept).split())
    return shown if len(shown) <= _LONGEST else f"{shown[: _LONGEST - 1]}…"


def _escaped(value: object) -> str:
    return html.escape(plain(value))


def _markdown(value: object) -> str:
    """Escape Markdown; a joiner that nobody sees breaks up what viewers make links and icons of afterwards."""
    signs = re.sub(r"([\\`*_{}\[\]#!|~$<>&@])", r"\\\1", plain(value))
    return re.sub(r"(?<=:)(?=[^\s\d])|(?<=\\@)(?=\S)|(?<=www)(?=\.)", "\u2060", signs, flags=re.IGNORECASE)


def _title(card: Mapping[str, Any], write: Callable[[object], str]) -> str:
    return f"{write(card['run']['title'])} {DASH} {write(card['data']['project'])}"


def _lead(card: Mapping[str, Any]) -> str:
    run = card["run"]
    return f"Card of run {run['run_id']}, made {str(run['created_at'])[:16].replace('T', ' ')} UTC. Not field-validated."


CURVES = "Curves"


def _sections(card: Mapping[str, Any]) -> list[Section]:
    found = [
        Section("What it is", rows=_run_rows(card["run"], card["versions"])),
        Section("Judgement without negatives", lines=[card["judgement"]["words"], *_audit_lines(card)]),
        Section("Warnings", lines=card["warnings"] or ["None."]),
        Section("Limits", lines=card["limits"]),
        _data_section(card["data"]),
        Section("Labels", rows=_label_rows(card["labels"])),
        _curves_section(card["curve"]),
        _settings_section(card["run"]),
    ]
    sums = sorted(card["sha256"].items())
    return [*found, Section("Files of the run", header=("file", "sha256"), table=sums, look="sums")] if sums else found


def _run_rows(run: Mapping[str, Any], versions: Mapping[str, Any]) -> list[tuple[str, object]]:
    from_model = run["from_model"]
    rows: list[tuple[str, object]] = [
        ("Method", run["title"]),
        ("Source", run["paper"]),
        ("Preset, seed", f"{run['preset']}, {run['seed']}"),
        ("Took", f"{float(run['seconds']):,.1f} s on {run['device']}"),
        ("Versions", ", ".join(f"{name} {version}" for name, version in sorted(versions.items()))),
        ("Threshold to start from", run["threshold"]),
    ]
    if from_model:
        named = ", ".join(f"{name} {plain(value)}" for name, value in from_model.items())
        rows.append(("Model from elsewhere", named))
    return rows


def _label_rows(told: Mapping[str, Any]) -> list[tuple[str, object]]:
    by = "1 person" if told["n_people"] == 1 else f"{told['n_people']} people"
    learned = "learned from" if told["were_learned"] else "there, not learned from"
    return [
        ("Up to event", f"{told['at_event']}, by {by}"),
        (f"Positives ({learned})", f"{told['n_positive']:,}"),
        ("Positives held out to judge", f"{told['n_held_out']:,}"),
        ("Unlabeled", f"{told['n_unlabeled']:,}"),
        ("Called not damaged", f"{told['n_not_damaged']:,}"),
        ("Left out (not assessable, or answered in an audit alone)", f"{told['n_left_out']:,}"),
    ]


def _data_section(data: Mapping[str, Any]) -> Section:
    hidden = ", ".join(f"{n:,} {why.replace('_', ' ')}" for why, n in sorted(data["not_assessed"].items())) or "none"
    chips = DASH if data["bands"] is None else f"{data['bands']}, {data['size_px']} px"
    return Section(
        "Data",
        rows=[
            ("Project", data["project"]), ("Buildings", f"{data['n_buildings']:,}"), ("Hidden by the imagery", hidden),
            ("Chips", chips), ("Chip set", data["chip_set"]),
        ],
        header=("scene", "file", "date", "pixel (m)", "size (px)", "sha256"),
        table=[
            (f"{one['role']} {one['scene_id']}", one["file"], one["date"], one["gsd_m"], f"{one['width']} x {one['height']}",
             str(one["sha256"])[:16])
            for one in data["scenes"]
        ],
    )  # fmt: skip


def _settings_section(run: Mapping[str, Any]) -> Section:
    changed = run["changed"]
    rows = [(name, value, changed.get(name, "as the preset")) for name, value in run["settings"].items()]
    lines = () if rows else ("None: it has no settings.",)
    ordered = sorted(rows, key=lambda row: row[0] not in changed)
    return Section("Settings", lines=lines, header=("setting", "value", "preset"), table=ordered)


def _curves_section(curve: Sequence[Mapping[str, Any]]) -> Section:
    found = figures(curve)
    if not found:
        return Section(CURVES, lines=["None were kept."])
    rows = [
        (
            f"{name.replace('_', ' ')} ({stage})",
            points[0][1],
            min(y for _, y in points),
            max(y for _, y in points),
            points[-1][1],
        )
        for (stage, name), points in found.items()
    ]
    return Section(CURVES, header=("figure", "first", "lowest", "highest", "last"), table=rows)


def _audit_lines(card: Mapping[str, Any]) -> list[str]:
    audit, total = card["audit"], f"Number damaged in the project: {card['how_many']['words']}"
    if audit is None:
        return ["There was no audit of its map.", total]
    words = [
        f"Audit: {audit['n_answered']} of {audit['n_drawn']} random checks answered, {audit['n_damaged']} damaged. {audit['words']}"
    ]
    here = audit["at_threshold"] or {}
    figures_ = {name.capitalize(): here[name] for name in ("precision", "recall") if here.get(name)}
    return [*words, total, *(f"{name}: {_estimate(told)}" for name, told in figures_.items())]


def _estimate(told: Mapping[str, Any]) -> str:
    values = [told.get(name) for name in ("value", "low", "high")]
    if None in values:
        return str(told.get("words") or "not enough checks")
    value, low, high = (f"{float(str(one)):.0%}" for one in values)
    return f"{value} (95 % interval {low} to {high})"
