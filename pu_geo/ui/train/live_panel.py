"""A training while it runs: curves, the chips at its top and bottom, alarms with advice."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import plotly.graph_objects as go
import streamlit as st

from pu_geo import jobs
from pu_geo.assessment import auditing
from pu_geo.jobs import JobView
from pu_geo.store import run_names
from pu_geo.store.layout import Layout
from pu_geo.ui.components import figures
from pu_geo.ui.frame import plain
from pu_geo.ui.train import texts

Point = Mapping[str, Any]
_CALLED = ("share_positive", "share_called")  # shown once an audit says what to hold them against


def body(layout: Layout, job: JobView) -> None:
    """Draw what a training reported; nothing of what was not reported."""
    if not job.curve:
        return
    evaluated = [point for point in job.curve if point.get("look")]
    if job.state != "done" and evaluated:  # of a finished run the page shows the warnings
        _alarms(evaluated[-1])
    points = _stage(job)
    first = [*figures.lines(texts.LOSS, points, {"loss": "loss"}), *_shares(layout, points), *_held_out(points)]
    more = [
        *figures.lines(texts.LOSS_PARTS, points, _loss_terms(points)),
        *figures.lines(
            texts.SPEED, points, {"chips_per_s": texts.CHIPS_A_SECOND, "memory_mb": texts.MEMORY}, right=("memory_mb",),
            yaxis_rangemode="tozero", yaxis2={"rangemode": "tozero", "tickmode": "auto", "nticks": 4},
        ),
    ]  # fmt: skip
    places = st.tabs([texts.CURVES, texts.CHIPS]) if first and evaluated else [st.container()] * 2
    with places[0]:
        figures.draw(first, job.job_id)
        judged = [point for point in points if point.get("n_held_out")]
        if judged and judged[-1].get("criterion") is None:
            st.caption(texts.TOO_FEW_HELD_OUT.format(n=judged[-1]["n_held_out"]))
        if more and st.toggle(texts.DETAILS, key=f"details-{job.job_id}"):
            figures.draw(more, job.job_id)
    with places[1]:
        _sheet(jobs.folder_of(layout, job.job_id), job.job_id, evaluated)
    if job.state == "done":
        st.caption(_result_words(layout, job))


def _stage(job: JobView) -> list[Point]:
    """Return the reports of one stage: the newest one, unless a person chose another."""
    stages = list(dict.fromkeys(str(point.get("stage", "training")) for point in job.curve))
    chosen, key = stages[-1], f"stage-{job.job_id}-{len(stages)}"
    if len(stages) > 1:
        chosen = st.segmented_control(texts.STAGE, stages, default=chosen, key=key, label_visibility="collapsed") or chosen
    return [point for point in job.curve if point.get("stage", "training") == chosen]


def _loss_terms(points: Sequence[Point]) -> dict[str, str]:
    """Return the terms of a loss with their labels; a risk that is all of it is none."""
    names = dict.fromkeys(name for point in points for name in point)
    return {
        name: name.removeprefix("loss_").replace("_", " ")
        for name in names
        if name.startswith("loss_") or name == "entropy" or (name == "risk" and "loss_rep" in names)
    }


def _shares(layout: Layout, points: Sequence[Point]) -> list[go.Figure]:
    """Return the figure of threshold and shares; what a model calls damaged only beside an audit's number."""
    is_known = auditing.how_many(layout).basis in ("all", "audit")
    names = {name: words for name, words in texts.SHARE_NAMES.items() if is_known or name not in _CALLED}
    return figures.lines(texts.SHARES, points, names, yaxis=figures.SHARES, showlegend=True)


def _held_out(points: Sequence[Point]) -> list[go.Figure]:
    """Return the figure of the PU criterion with its interval, and the recall on held-out clicks."""
    judged = [point for point in points if point.get("criterion") is not None]
    found = figures.lines(
        texts.HELD_OUT_CLICKS, judged, {"criterion": texts.CRITERION, "recall": texts.RECALL}, right=("recall",),
        yaxis_rangemode="tozero", yaxis2=figures.SHARES,
    )  # fmt: skip
    for figure in found:
        x, low, high = ([point[name] for point in judged] for name in ("epoch", "criterion_low", "criterion_high"))
        figures.add_interval(figure, x, low, high)
        figure.add_hline(
            1, line={"color": "#6B6B6B", "width": 1, "dash": "dash"}, annotation_text=texts.CALLING_ALL,
            annotation_font_size=10,
        )  # fmt: skip
    return found


def _alarms(newest: Point) -> None:
    lines = []
    for alarm in newest.get("alarms", ()):
        what, meaning, advice = (plain(str(alarm.get(name, ""))) for name in ("seen", "meaning", "advice"))
        lines.append(f"- **{what}**: {meaning}. {advice}")
    if lines:
        st.warning("\n".join([texts.AFTER.format(epoch=newest["epoch"]), *lines]), icon=":material/warning:")


def _sheet(folder: Path, job_id: str, evaluated: Sequence[Point]) -> None:
    """Show the chips at the top and at the bottom, those of the newest evaluation unless a person went back."""
    if not evaluated:
        return
    chosen = evaluated[-1]
    if len(evaluated) > 1:
        number = st.select_slider(
            texts.AFTER_EPOCH, range(len(evaluated)), len(evaluated) - 1, key=f"look-{job_id}-{len(evaluated)}",
            format_func=lambda number: str(evaluated[number]['epoch']),
        )  # fmt: skip
        chosen = evaluated[number]
    picture = folder / "looks" / Path(str(chosen["look"])).name
    if picture.is_file():
        st.image(str(picture), width="stretch", alt=texts.SHEET_ALT)
    st.caption(texts.SHEET.format(epoch=chosen["epoch"], epochs=chosen.get("epochs", "?")))


def _result_words(layout: Layout, job: JobView) -> str:
    result = job.result
    name = plain(run_names.name(layout, str(result.get("run_id"))))
    seconds = float(result.get("seconds") or job.took_s or 0.0)
    return texts.result(name, result.get("n_positive"), int(job.args.get("hold_out") or 0), seconds)
