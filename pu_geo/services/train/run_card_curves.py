"""The curves of a training as small drawings (SVG), one a figure that was reported."""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from typing import Any

WIDTH, HEIGHT = 220.0, 110.0
MOST_FIGURES, MOST_POINTS = 9, 300
_LEFT, _RIGHT, _TOP, _BOTTOM = 44.0, 6.0, 22.0, 18.0
_NO_FIGURES = (
    "stage", "epoch", "epochs", "progress", "seconds", "look", "alarms", "n_held_out", "criterion_low", "criterion_high",
)  # fmt: skip
_TITLES = {
    "loss": "loss", "criterion": "PU criterion, held-out clicks", "recall": "held-out clicks found",
    "share_called": "share called damaged", "share_positive": "share called damaged, in batches", "threshold": "threshold",
    "spread": "spread of the embeddings", "propagated": "weight of propagated scores",
    "chips_per_s": "chips a second", "memory_mb": "memory, MB",
}  # fmt: skip
_OTHERS_AT = 6.5  # before what says more of the machine than of the model
_COLORS = {"pretraining": "#0072B2", "training": "#D55E00"}


def figures(curve: Sequence[Mapping[str, Any]]) -> dict[tuple[str, str], list[tuple[float, float]]]:
    """Sort reports of epochs into curves.

    Args:
        curve: {"stage", "epoch", name -> number, ...}, one an epoch.

    Returns:
        (stage, name) -> points (epoch, value) in the order of the epochs, where at least two numbers were reported; the
        first `MOST_FIGURES` of them.
    """
    found: dict[tuple[str, str], list[tuple[float, float]]] = {}
    for report in curve:
        epoch = report.get("epoch")
        if not _is_number(epoch):
            continue
        for name, value in report.items():
            if name not in _NO_FIGURES and _is_number(value):
                found.setdefault((str(report.get("stage", "training")), name), []).append((float(str(epoch)), float(value)))
    whole = {key: sorted(points) for key, points in found.items() if len(points) > 1}
    first = {name: place for place, name in enumerate(_TITLES)}
    ordered = sorted(
        whole, key=lambda key: (key[0] != "training", first.get(key[1], _OTHERS_AT))
    )  # the training proper first
    return {key: whole[key] for key in ordered[:MOST_FIGURES]}


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def drawings(curve: Sequence[Mapping[str, Any]]) -> str:
    """Draw all curves side by side, as HTML with SVG inside; "" where there are none."""
    drawn = [_drawing(stage, name, points) for (stage, name), points in figures(curve).items()]
    return f"<div class='curves'>{''.join(drawn)}</div>" if drawn else ""


def _drawing(stage: str, name: str, points: Sequence[tuple[float, float]]) -> str:
    step = -(-len(points) // MOST_POINTS)
    shown = [*points[::step], points[-1]]
    first, last = points[0][0], points[-1][0]
    low, high = min(value for _, value in points), max(value for _, value in points)
    places = " ".join(f"{_across(x, first, last):.1f},{_down(y, low, high):.1f}" for x, y in shown)
    words = html.escape(f"{_TITLES.get(name, name.replace('_', ' '))}{'' if stage == 'training' else f' ({stage})'}"[:40])
    base = HEIGHT - _BOTTOM
    return (
        f"<svg viewBox='0 0 {WIDTH:g} {HEIGHT:g}' role='img' aria-label='{words}'>"
        f"<text x='{_LEFT:g}' y='12' class='name'>{words}</text>"
        f"<path d='M{_LEFT:g} {_TOP:g}H{WIDTH - _RIGHT:g}M{_LEFT:g} {base:g}H{WIDTH - _RIGHT:g}' stroke='#ccc'/>"
        f"<polyline points='{places}' fill='none' stroke='{_COLORS.get(stage, '#444')}' stroke-width='1.8'/>"
        f"<text x='{_LEFT - 4:g}' y='{_TOP + 3:g}' text-anchor='end' class='end'>{_short(high)}</text>"
        f"<text x='{_LEFT - 4:g}' y='{base + 3:g}' text-anchor='end' class='end'>{_short(low)}</text>"
        f"<text x='{WIDTH - _RIGHT:g}' y='{HEIGHT - 5:g}' text-anchor='end' class='end'>"
        f"epoch {first:g} to {last:g}, last {_short(points[-1][1])}</text></svg>"
    )


def _short(value: float) -> str:
    return f"{value:,.0f}" if 100 <= abs(value) < 1e7 else f"{value:.3g}"


def _across(epoch: float, first: float, last: float) -> float:
    return _LEFT + (WIDTH - _LEFT - _RIGHT) * (epoch - first) / max(last - first, 1e-12)


def _down(value: float, low: float, high: float) -> float:
    share = (value - low) / (high - low) if high > low else 0.5
    return _TOP + (HEIGHT - _TOP - _BOTTOM) * (1 - share)
