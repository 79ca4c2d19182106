"""A training while it runs: curves, the chips at its top and bottom, alarms with advice; and the device queue of this machine."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import plotly.graph_objects as go
import streamlit as st

from pu_geo import jobs
from pu_geo.jobs import JobView
from pu_geo.project.layout import Layout
from pu_geo.services.train import training
from pu_geo.ui.components import job_card
from pu_geo.ui.frame import plain

Point = Mapping[str, Any]
_BLUE, _RED, _GREEN, _PURPLE, _ORANGE, _GRAY = "#0B6E99", "#D55E00", "#009E73", "#8F4A86", "#B97A00", "#6B6B6B"
_STYLES = (  # lines differ by more than color
    (_BLUE, "solid"), (_RED, "dot"), (_GREEN, "dash"), (_PURPLE, "dashdot"), (_ORANGE, "longdash"), (_GRAY, "longdashdot"),
)  # fmt: skip
_SHARES = {
    "threshold": "threshold", "share_positive": "called, in batches", "share_called": "called, all",
    "share_pairs": "pairs taken for one kind", "class_cosine": "nearest two classes (cosine)",
}  # fmt: skip
_HEIGHT_PX = 190
_SECONDS_BETWEEN_READS = 2.0


def body(layout: Layout, job: JobView) -> None:
    """Draw the live part of a training's card; nothing of what was not reported."""
    if not job.curve:
        return
    evaluated = [point for point in job.curve if point.get("look")]
    if job.state != "done" and evaluated:  # of a finished run the page shows the warnings
        _alarms(evaluated[-1])
    points = _stage(job)
    panels = [panel for panel in (_losses, _shares, _held_out, _machine) if len(points) > 1 and panel(points) is not None]
    places = st.tabs(["Curves", "Top and bottom chips"]) if panels and evaluated else [st.container()] * 2
    with places[0]:
        _draw_figures(job, points, panels)
    with places[1]:
        _sheet(jobs.folder_of(layout, job.job_id), job.job_id, evaluated)
    if job.state == "done":
        st.caption(_result_words(job))


def draw_device_queue(layout: Layout) -> None:
    """Draw the queue where more than one job, or one of another project, is in it; refreshed while there is one."""
    is_busy = bool(training.queued_jobs(layout))

    @st.fragment(run_every=_SECONDS_BETWEEN_READS if is_busy else None)
    def panel() -> None:
        queue = training.queued_jobs(layout)
        if not queue or (len(queue) == 1 and queue[0].is_here):
            return
        with st.container(border=True):
            st.markdown("**Queue of this machine** · one job at a time, first in, first out")
            lines = []
            for place, each in enumerate(queue, 1):
                where = "" if each.is_here else f" in project *{plain(each.project)}*"
                how_far = "waits" if each.job.state == "waiting" else f"{each.job.progress or 0:.0%}"
                lines.append(f"{place}. {job_card.title(each.job)}{where} · {how_far}")
            st.markdown("\n".join(lines))

    panel()


def _stage(job: JobView) -> list[Point]:
    """Return the reports of one stage: the newest one, unless a person chose another."""
    stages = list(dict.fromkeys(str(point.get("stage", "training")) for point in job.curve))
    chosen, key = stages[-1], f"stage-{job.job_id}-{len(stages)}"
    if len(stages) > 1:
        chosen = st.segmented_control("Stage", stages, default=chosen, key=key, label_visibility="collapsed") or chosen
    return [point for point in job.curve if point.get("stage", "training") == chosen]


def _draw_figures(job: JobView, points: Sequence[Point], panels: Sequence[Callable[[Sequence[Point]], Any]]) -> None:
    columns = st.columns(2, gap="small") if len(panels) > 1 else [st.container()]
    for number, panel in enumerate(panels):
        with columns[number % len(columns)]:
            st.plotly_chart(panel(points), key=f"{panel.__name__}-{job.job_id}", config={"displayModeBar": False})
    judged = [point for point in points if point.get("n_held_out")]
    if judged and judged[-1].get("criterion") is None:
        st.caption(f"{judged[-1]['n_held_out']} held-out clicks: not enough to judge by, it takes 10.")


def _losses(points: Sequence[Point]) -> go.Figure | None:
    names = [name for name in _numbers(points) if name.startswith("loss") or name in ("risk", "entropy")]
    names = [name for name in names if name != "risk" or "loss_rep" in names]  # else it is the loss
    if "loss" not in names:
        return None
    figure = _figure("Loss and its parts" if len(names) > 1 else "Loss", points)
    for style, name in zip(_STYLES, names, strict=False):
        _line(figure, points, name, name.removeprefix("loss_").replace("_", " "), style)
    return figure


def _shares(points: Sequence[Point]) -> go.Figure | None:
    """Draw the threshold and the shares of buildings, all from 0 to 1."""
    there = [name for name in _SHARES if name in _numbers(points)]
    if not there:
        return None
    figure = _figure("Threshold and what the model calls damaged" if "threshold" in there else "Shares", points)
    for style, name in zip(_STYLES, there, strict=False):
        _line(figure, points, name, _SHARES[name], style)
    return figure.update_layout(yaxis=_SHARE_AXIS)


def _held_out(points: Sequence[Point]) -> go.Figure | None:
    """Draw the PU criterion with its interval, and the recall on held-out clicks."""
    judged = [point for point in points if point.get("criterion") is not None]
    if not judged:
        return None
    figure = _figure("Held-out clicks", points)
    epochs = [point["epoch"] for point in judged]
    for name, fill in (("criterion_low", None), ("criterion_high", "tonexty")):
        figure.add_scatter(
            x=epochs, y=[point[name] for point in judged], mode="lines", line={"width": 0}, fill=fill,
            fillcolor="rgba(11,110,153,0.15)", hoverinfo="skip", showlegend=False,
        )  # fmt: skip
    _line(figure, judged, "criterion", "PU criterion", (_BLUE, "solid"), mode="lines+markers")
    _line(figure, judged, "recall", "found (right)", (_RED, "dot"), mode="lines+markers", yaxis="y2")
    figure.add_hline(
        1, line={"color": _GRAY, "width": 1, "dash": "dash"}, annotation_text="calling all", annotation_font_size=10
    )
    return figure.update_layout(yaxis={"rangemode": "tozero"}, yaxis2={**_SHARE_AXIS, **_RIGHT})


def _machine(points: Sequence[Point]) -> go.Figure | None:
    if not {"chips_per_s", "memory_mb"} <= set(_numbers(points)):
        return None
    figure = _figure("Speed and memory", points)
    _line(figure, points, "chips_per_s", "chips a second", (_BLUE, "solid"))
    _line(figure, points, "memory_mb", "memory, MB (right)", (_RED, "dot"), yaxis="y2")
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
        height=_HEIGHT_PX, margin={"l": 0, "r": 0, "t": 46, "b": 0}, hovermode="x unified",
        title={"text": title, "font": {"size": 13}, "x": 0, "y": 0.98, "yanchor": "top"},
        xaxis={"range": [0, epochs], "title": None}, legend={"orientation": "h", "x": 0, "y": 1.0, "yanchor": "bottom", "font": {"size": 10}},
    )  # fmt: skip


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
        st.warning("\n".join([f"After epoch {newest['epoch']}:", *lines]), icon=":material/warning:")


def _sheet(folder: Path, job_id: str, evaluated: Sequence[Point]) -> None:
    """Show the chips at the top and at the bottom, those of the newest evaluation unless a person went back."""
    if not evaluated:
        return
    chosen = evaluated[-1]
    if len(evaluated) > 1:
        number = st.select_slider(
            "After epoch", range(len(evaluated)), len(evaluated) - 1, key=f"look-{job_id}-{len(evaluated)}",
            format_func=lambda number: str(evaluated[number]['epoch']),
        )  # fmt: skip
        chosen = evaluated[number]
    picture = folder / "looks" / Path(str(chosen["look"])).name
    if picture.is_file():
        st.image(str(picture), width="stretch")
    st.caption(
        f"Unlabeled buildings after epoch {chosen['epoch']} of {chosen.get('epochs', '?')}: highest scores above, lowest below; "
        "of each the pre scene over the post scene where there is one."
    )


def _result_words(job: JobView) -> str:
    result = job.result
    words = [f"Run {result.get('run_id')}", f"{result.get('n_positive')} positives", f"{result.get('seconds')} s"]
    if job.args.get("hold_out"):
        words.insert(2, f"{job.args['hold_out']} held-out clicks")
    return " · ".join(words)
