"""The drawing of precision and recall against the threshold, as SVG."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

_PLOT_X, _PLOT_Y, _PLOT_W, _PLOT_H = 46.0, 10.0, 560.0, 190.0
_CURVES = (("precision", "Precision", "#0072B2", ""), ("recall", "Recall", "#D55E00", "7 4"))


def curve_svg(audit: Mapping[str, Any]) -> str:
    """Return precision and recall against the threshold, with bands; "" where nothing could be estimated."""
    rows = sorted(audit.get("curve") or (), key=lambda row: float(row["threshold"]))
    drawn = "".join(_curve(rows, *curve) for curve in _CURVES)
    if not drawn:
        return ""
    here = audit.get("at_threshold")
    mark = "" if not here else _threshold_mark(float(here["threshold"]))
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
        told = [row[key].get(part) for part in ("value", "low", "high")]
        if None in told:
            pieces.append([])
        else:
            pieces[-1].append((float(row["threshold"]), *(float(value) for value in told)))  # type: ignore[arg-type]
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


def _threshold_mark(threshold: float) -> str:
    x = float(_place(threshold, 0).split(",")[0])
    words = "<title>threshold of this map</title>"
    return f"<path d='M{x:.1f} {_PLOT_Y}v{_PLOT_H}' stroke='#222' stroke-dasharray='2 3'>{words}</path>"
