"""A training while it runs: curves, the chips at its top and bottom, alarms with advice; and the device queue of this
machine.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import plotly.graph_objects as go
import streamlit as st

from pu_geo import jobs
from pu_geo.assessment import auditing
from pu_geo.jobs import JobView
from pu_geo.runs import training
from pu_geo.store import run_names
from pu_geo.store.layout import Layout
from pu_geo.ui.components import job_card
from pu_geo.ui.frame import plain
from pu_geo.ui.train import texts

Point = Mapping[str, Any]
_BLUE, _RED, _GREEN, _PURPLE, _ORANGE, _GRAY = "#0B6E99", "#D55E00", "#009E73", "#8F4A86", "#B97A00", "#6B6B6B"
_STYLES = (  # lines differ by more than color
    (_BLUE, "solid"), (_RED, "dot"), (_GREEN, "dash"), (_PURPLE, "dashdot"), (_ORANGE, "longdash"), (_GRAY, "longdashdot"),
)  # fmt: skip
_CALLED = ("share_positive", "share_called")  # shown once an audit says what to hold them against
_HEIGHT_PX = 190
_SECONDS_BETWEEN_READS = 2.0


def body(layout: Layout, job: JobView) -> None:
    """Draw what a training reported; nothing of what was not reported."""
    if not job.curve:
        return
    evaluated = [point for point in job.curve if point.get("look")]
    if job.state != "done" and evaluated:  # of a finished run the page shows the warnings
        _alarms(evaluated[-1])
    points = _stage(job)
    first, more = [], []
    if len(points) > 1:
        first = _there(_loss(points), _shares(points, _shares_shown(layout)), _held_out(points))
        more = _there(_loss_terms(points), _machine(points))
    places = st.tabs([texts.CURVES, texts.CHIPS]) if first and evaluated else [st.container()] * 2
    with places[0]:
        _draw_figures(job, first)
        judged = [point for point in points if point.get("n_held_out")]
        if judged and judged[-1].get("criterion") is None:
            st.caption(texts.TOO_FEW_HELD_OUT.format(n=judged[-1]["n_held_out"]))
        if more and st.toggle(texts.DETAILS, key=f"details-{job.job_id}"):
            _draw_figures(job, more)
    with places[1]:
        _sheet(jobs.folder_of(layout, job.job_id), job.job_id, evaluated)
    if job.state == "done":
        st.caption(_result_words(layout, job))


def _there(*figures: go.Figure | None) -> list[go.Figure]:
    return [figure for figure in figures if figure is not None]


def _shares_shown(layout: Layout) -> list[str]:
    """Return the shares that may be drawn: what a model calls damaged only beside an audit's number."""
    is_known = auditing.how_many(layout).basis in ("all", "audit")
    return [name for name in texts.SHARE_NAMES if is_known or name not in _CALLED]


def draw_device_queue(layout: Layout) -> None:
    """Draw the queue where more than one job, or one of another project, is in it; refreshed while there is one."""
    is_busy = bool(training.queued_jobs(layout))

    @st.fragment(run_every=_SECONDS_BETWEEN_READS if is_busy else None)
    def panel() -> None:
        queue = training.queued_jobs(layout)
        if not queue or (len(queue) == 1 and queue[0].is_here):
            return
        with st.container(border=True):
            st.markdown(texts.QUEUE)
            lines = []
            for place, each in enumerate(queue, 1):
                where = "" if each.is_here else texts.QUEUE_WHERE.format(project=plain(each.project))
                how_far = texts.QUEUE_WAITS if each.job.state == "waiting" else f"{each.job.progress or 0:.0%}"
                lines.append(f"{place}. {job_card.title(each.job)}{where} · {how_far}")
            st.markdown("\n".join(lines))

    panel()


def _stage(job: JobView) -> list[Point]:
    """Return the reports of one stage: the newest one, unless a person chose another."""
    stages = list(dict.fromkeys(str(point.get("stage", "training")) for point in job.curve))
    chosen, key = stages[-1], f"stage-{job.job_id}-{len(stages)}"
    if len(stages) > 1:
        chosen = st.segmented_control(texts.STAGE, stages, default=chosen, key=key, label_visibility="collapsed") or chosen
    return [point for point in job.curve if point.get("stage", "training") == chosen]


def _draw_figures(job: JobView, figures: Sequence[go.Figure]) -> None:
    columns = st.columns(2, gap="small") if len(figures) > 1 else [st.container()]
    for number, figure in enumerate(figures):
        with columns[number % len(columns)]:
            key = f"{figure.layout.title.text}-{job.job_id}"
            st.plotly_chart(figure, key=key, config={"displayModeBar": False}, theme="streamlit")


def _loss(points: Sequence[Point]) -> go.Figure | None:
    if "loss" not in _numbers(points):
        return None
    figure = _figure(texts.LOSS, points)
    _line(figure, points, "loss", "loss", _STYLES[0])
    return figure


def _loss_terms(points: Sequence[Point]) -> go.Figure | None:
    names = [name for name in _numbers(points) if name.startswith("loss_") or name in ("risk", "entropy")]
    names = [name for name in names if name != "risk" or "loss_rep" in names]  # else it is the loss
    if not names:
        return None
    figure = _figure(texts.LOSS_PARTS, points)
    for style, name in zip(_STYLES, names, strict=False):
        _line(figure, points, name, name.removeprefix("loss_").replace("_", " "), style)
    return figure


def _shares(points: Sequence[Point], names: Sequence[str]) -> go.Figure | None:
    """Draw the threshold and shares, all from 0 to 1."""
    there = [name for name in names if name in _numbers(points)]
    if not there:
        return None
    has_called = any(name in _CALLED for name in there)
    if "threshold" in there:
        figure = _figure(texts.THRESHOLD_CALLED if has_called else texts.THRESHOLD, points)
    else:
        figure = _figure(texts.SHARES, points)
    for style, name in zip(_STYLES, there, strict=False):
        _line(figure, points, name, texts.SHARE_NAMES[name], style)
    return figure.update_layout(yaxis=_SHARE_AXIS, showlegend=True)


def _held_out(points: Sequence[Point]) -> go.Figure | None:
    """Draw the PU criterion with its interval, and the recall on held-out clicks."""
    judged = [point for point in points if point.get("criterion") is not None]
    if not judged:
        return None
    figure = _figure(texts.HELD_OUT_CLICKS, points)
    epochs = [point["epoch"] for point in judged]
    for name, fill in (("criterion_low", None), ("criterion_high", "tonexty")):
        figure.add_scatter(
            x=epochs, y=[point[name] for point in judged], mode="lines", line={"width": 0}, fill=fill,
            fillcolor="rgba(11,110,153,0.15)", hoverinfo="skip", showlegend=False,
        )  # fmt: skip
    _line(figure, judged, "criterion", texts.CRITERION, (_BLUE, "solid"), mode="lines+markers")
    _line(figure, judged, "recall", texts.RECALL, (_RED, "dot"), mode="lines+markers", yaxis="y2")
    figure.add_hline(
        1, line={"color": _GRAY, "width": 1, "dash": "dash"}, annotation_text=texts.CALLING_ALL, annotation_font_size=10
    )
    return figure.update_layout(yaxis={"rangemode": "tozero"}, yaxis2={**_SHARE_AXIS, **_RIGHT})


def _machine(points: Sequence[Point]) -> go.Figure | None:
    if not {"chips_per_s", "memory_mb"} <= set(_numbers(points)):
        return None
    figure = _figure(texts.SPEED, points)
    _line(figure, points, "chips_per_s", texts.CHIPS_A_SECOND, (_BLUE, "solid"))
    _line(figure, points, "memory_mb", texts.MEMORY, (_RED, "dot"), yaxis="y2")
    return figure.update_layout(
        yaxis={"rangemode": "tozero"}, yaxis2={"rangemode": "tozero", "tickmode": "auto", "nticks": 4, **_RIGHT}
    )


_SHARE_AXIS = {"range": [0, 1.02], "dtick": 0.25, "tickmode": "linear", "tickformat": ".0%"}
_RIGHT = {"overlaying": "y", "side": "right", "showgrid": False, "zeroline": False}


def _numbers(points: Sequence[Point]) -> list[str]:
    """Return the names of what was reported more than once, in order."""
    names = dict.fromkeys(name for point in points for name in point)
    return [name for name in names if sum(point.get(name) is not None for point in points) > 1]


def _figure(title: str, points: Sequence[Point]) -> go.Figure:
    epochs = max(int(point.get("epochs", point["epoch"])) for point in points)
    return go.Figure().update_layout(
        height=_HEIGHT_PX,
        margin={"l": 0, "r": 0, "t": 46, "b": 0},
        hovermode="x unified",
        title={"text": title, "font": {"size": 13}, "x": 0, "y": 0.98, "yanchor": "top"},
        xaxis={"range": [0, epochs], "title": None},
        legend={"orientation": "h", "x": 0, "y": 1.0, "yanchor": "bottom", "font": {"size": 10}},
    )


def _line(
    figure: go.Figure,
    points: Sequence[Point],
    name: str,
    label: str,
    style: tuple[str, str],
    *,
    mode: str = "lines",
    yaxis: str = "y",
) -> None:
    there = [point for point in points if point.get(name) is not None]
    color, dash = style
    figure.add_scatter(
        x=[point["epoch"] for point in there], y=[point[name] for point in there], name=label, mode=mode, yaxis=yaxis,
        line={"color": color, "dash": dash, "width": 2}, marker={"size": 5},
    )  # fmt: skip


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
