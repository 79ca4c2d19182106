"""Finished runs: two side by side, with figures (orange is A, blue is B), runs averaged, and the card of one."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import plotly.graph_objects as go
import streamlit as st
from plotly.subplots import make_subplots

from pu_geo.project.layout import Layout
from pu_geo.records import RunFacts
from pu_geo.services.explore import exploring
from pu_geo.services.project import choices
from pu_geo.services.train import comparing, run_card, training
from pu_geo.services.train.comparing import Comparison, Disagreement, MapPoints, Side
from pu_geo.services.train.training import run_name
from pu_geo.ui import frame
from pu_geo.ui.components import job_card

_CHIP_PX = 72
_NONE = "—"
COLORS = {"A": "#D55E00", "B": "#0072B2"}
_SCALE = [[0, COLORS["B"]], [0.5, "#E6E6E6"], [1, COLORS["A"]]]
_MANY = 5000
_MARGIN = {"l": 0, "r": 0, "t": 24, "b": 0}
_FILES: dict[str, tuple[str, str, Callable[[dict[str, object]], str]]] = {
    "HTML": ("html", "text/html", run_card.as_html),
    "Markdown": ("md", "text/markdown", run_card.as_markdown),
    "JSON": ("json", "application/json", lambda card: json.dumps(card, ensure_ascii=False, indent=1)),
}


def draw_comparison(layout: Layout, found: Sequence[RunFacts]) -> None:
    """Draw the comparison of two runs, once it is opened, and the job that averages runs; nothing for fewer than two runs."""
    if len(found) < 2:
        return
    if st.toggle("Compare runs", key="compare-runs"):
        _opened(layout, found)
    job_card.watch(layout, training.ENSEMBLE_TASKS, body=job_card.run_caption)


@st.fragment  # another choice does not draw the rest of the page anew
def _opened(layout: Layout, found: Sequence[RunFacts]) -> None:
    with st.container(border=True):
        _choose_and_compare(layout, found)
        _average(layout, found)


def _choose_and_compare(layout: Layout, found: Sequence[RunFacts]) -> None:
    pinned, by_id = training.pinned_run(layout), {run.run_id: run for run in found}
    newest, *older = by_id
    chosen = []
    for name, usual, column in zip(
        "AB", (newest, pinned if pinned in older else older[0]), st.columns(2, gap="medium"), strict=True
    ):
        key = f"compare-{name}"
        if st.session_state.get(key) not in by_id:  # at first, and in another project
            st.session_state[key] = usual
        chosen.append(
            column.selectbox(f"Run {name}", list(by_id), format_func=lambda run_id: run_name(by_id[run_id]), key=key)
        )
    with frame.show_errors():
        compared = comparing.compare(layout, *chosen)
        figures, words = st.columns([3, 2], gap="medium")
        with figures:
            _table(compared)
        with words:
            lines = [f"- {frame.plain(one)}" for one in comparing.agreement_words(compared)]
            st.markdown("**How far they agree**\n\n" + "\n".join(lines))
            _pins(layout, chosen, pinned)
        figure = curves([comparing.curve(layout, side.facts.run_id) for side in compared.sides])
        if figure is None:
            st.caption("Neither run has a training curve: the instant ranker and averages are made in one step.")
        else:
            st.plotly_chart(figure, key="compare-curves", config={"displaylogo": False})
        _draw_disagreement(layout, compared)


_ROWS: tuple[tuple[str, Callable[[Side], str]], ...] = (
    ("Method", lambda side: training.method_title(side.facts.method)),
    ("Preset, seed", lambda side: f"{side.facts.preset}, {side.facts.seed}"),
    ("Learned from", lambda side: "a model from elsewhere" if side.facts.from_model else
     f"{side.facts.n_positive} positives, answers up to {side.facts.at_event}"),
    ("Seconds, device", lambda side: f"{side.facts.seconds:,.1f}, {side.facts.device}"),
    ("Threshold", lambda side: f"{side.facts.threshold:.3f}"),
    ("Evidence from place", lambda side: training.place_words(side.facts) or _NONE),
    ("PU criterion", comparing.criterion_words),
    ("Audit: precision", lambda side: _audited(side, "precision")),
    ("Audit: recall", lambda side: _audited(side, "recall")),
)  # fmt: skip


def _table(found: Comparison) -> None:
    lines = ["| | A | B |", "|---|---|---|"]
    for title, words_of in _ROWS if found.check else _ROWS[:-2]:
        lines.append(f"| {title} | " + " | ".join(frame.plain(words_of(side)) for side in found.sides) + " |")
    st.markdown("\n".join(lines))
    st.caption(f"{frame.plain(found.clicks.words)} {_THRESHOLD_WORDS} {_AUDIT_WORDS[found.check is not None]}")


_THRESHOLD_WORDS = (
    "Each run is judged at its own threshold: the same order of buildings with another threshold has another criterion."
)
_AUDIT_WORDS = {
    True: "The same audit judges both, each at its own threshold.",
    False: "Neither run was audited; an audit on the Damage map page would judge both.",
}


def _audited(side: Side, name: str) -> str:
    return _NONE if side.audited is None else comparing.share_words(getattr(side.audited, name))


def _pins(layout: Layout, chosen: Sequence[str], pinned: str | None) -> None:
    st.markdown("**Which one the live map shows**")
    for name, column, run_id in zip("AB", st.columns(2), chosen, strict=True):
        is_shown = run_id == pinned
        label = f"{name} is shown" if is_shown else f"Show {name}"
        if column.button(label, key=f"pin-{name}", disabled=is_shown, icon=":material/push_pin:", help="Here and in QGIS."):
            frame.act_and_rerun(partial(choices.choose_run, layout, run_id))


def _draw_disagreement(layout: Layout, found: Comparison) -> None:
    st.markdown("**Where they disagree most**")
    chips, where = st.columns([3, 2], gap="medium")
    higher, lower = comparing.most_disagreeing(layout, found)
    with chips:
        _chips(layout, found.sides[0].facts, "A high, B low", higher)
        _chips(layout, found.sides[0].facts, "B high, A low", lower)
        st.caption("Below each chip its place in A and in B; 1 is the highest score. + marks a positive.")
    with where:
        figure = map_of(comparing.map_points(layout, found))
        st.plotly_chart(figure, key="compare-map", config={"displaylogo": False, "scrollZoom": True})


def _chips(layout: Layout, run: RunFacts, title: str, rows: Sequence[Disagreement]) -> None:
    st.caption(f"{title}{'' if rows else ': nowhere'}")
    if rows:
        pictures = exploring.chip_pictures(layout, run.run_id, [row.building_id for row in rows])
        captions = [f"{row.places[0]:,} | {row.places[1]:,}{' +' if row.label == 'positive' else ''}" for row in rows]
        st.image(pictures, width=_CHIP_PX, caption=captions)


def _average(layout: Layout, found: Sequence[RunFacts]) -> None:
    st.markdown("**Average of several runs**")
    by_id = {run.run_id: run for run in found}
    which, button = st.columns([4, 1], vertical_alignment="bottom", gap="medium")
    wanted = which.multiselect(
        "Runs", list(by_id), list(by_id)[:2], format_func=lambda run_id: run_name(by_id[run_id]), key="average-runs",
        help="Each building gets the mean of its ranks. Runs of methods that err in different ways help each other most.",
    )  # fmt: skip
    if button.button("Average their ranks", key="average", disabled=len(wanted) < 2):
        frame.act_and_rerun(lambda: training.start_average(layout, wanted))


# Figures


def curves(reports: Sequence[Sequence[Mapping[str, Any]]]) -> go.Figure | None:
    """Draw the losses of two runs, and the shares that they call damaged where they report it; None where there are none.

    Losses of different methods have no common scale, so each is drawn in units of its first value.

    Args:
        reports: of A and of B, an epoch each: {"epoch", "epochs", "loss", "share_positive"?, "stage"?}.
    """
    found = {
        name: [one for one in each if one.get("stage") in (None, "training") and one.get("loss") is not None]
        for name, each in zip("AB", reports, strict=True)
    }
    shares = {name: [one for one in each if one.get("share_positive") is not None] for name, each in found.items()}
    if not any(len(each) > 1 for each in found.values()):
        return None
    titles = ["loss, first epoch = 1", *(["called damaged by the model"] if any(map(len, shares.values())) else [])]
    figure = make_subplots(rows=1, cols=len(titles), subplot_titles=titles, horizontal_spacing=0.12)
    for name, each in found.items():
        if each:
            first = abs(float(each[0]["loss"])) or 1.0
            _line(figure, name, each, [float(one["loss"]) / first for one in each], 1)
    for name, each in shares.items():
        if each:
            _line(figure, name, each, [float(one["share_positive"]) for one in each], 2, legend=not found[name])
    if len(titles) == 2:
        figure.update_yaxes(range=[0, 1], tickformat=".0%", col=2)
    figure.update_xaxes(range=[0, 1], tickformat=".0%", title="share of the training")
    figure.update_layout(height=250, margin=_MARGIN, legend={"orientation": "h", "y": -0.35})
    figure.update_annotations(font_size=13)
    return figure


def _line(
    figure: go.Figure, name: str, each: Sequence[Mapping[str, Any]], values: Sequence[float], column: int, *,
    legend: bool = True,
) -> None:  # fmt: skip
    done = [float(one["epoch"]) / max(float(one.get("epochs") or each[-1]["epoch"]), 1.0) for one in each]
    line = {"color": COLORS[name], "dash": "solid" if name == "A" else "dot"}
    text = [f"epoch {one['epoch']}" for one in each]
    figure.add_trace(
        go.Scatter(x=done, y=values, name=name, line=line, text=text, mode="lines", showlegend=legend and column == 1),
        row=1,
        col=column,
    )


def map_of(points: MapPoints) -> go.Figure:
    """Draw buildings as dots in grid pixels, y down, colored by how much higher A ranks them than B."""
    most = points.most
    bar = {"title": "", "thickness": 10, "tickvals": [-most, 0, most], "ticktext": ["B higher", "same", "A higher"]}
    figure = go.Figure(
        go.Scattergl(
            x=points.x, y=points.y, mode="markers", hovertemplate="%{marker.color:+.2f} of all places<extra></extra>",
            marker={"size": 3 if len(points.x) > _MANY else 6, "color": points.difference, "colorscale": _SCALE,
                    "cmin": -most, "cmax": most, "colorbar": bar},
        )
    )  # fmt: skip
    figure.update_layout(
        height=330, margin=_MARGIN, dragmode="pan", xaxis={"visible": False},
        yaxis={"visible": False, "autorange": "reversed", "scaleanchor": "x"},
    )  # fmt: skip
    return figure


# The card of a run


def draw_card(layout: Layout, found: Sequence[RunFacts]) -> None:
    """Draw the choice of a run, its card, and three buttons that download it; nothing before there are runs."""
    if not found:
        return
    with st.expander("Card of a run: data, labels, settings, judgement, limits", icon=":material/badge:"):
        if not st.toggle("Show the card", key="run-card-open"):
            st.caption(
                "One page to hand on with a map: what it was learned from, how it is judged, and what it cannot tell."
            )
            return
        ids, shown = [run.run_id for run in found], choices.chosen_run(layout)
        usual = ids.index(shown.run_id) if shown and shown.run_id in ids else 0
        run = st.selectbox("Run", list(found), usual, format_func=run_name, key="run-card-run")
        with frame.show_errors():
            card = run_card.card(layout, run.run_id)
            row = st.container(horizontal=True)
            for name, (suffix, kind, write) in _FILES.items():
                row.download_button(
                    f"Download {name}", write(card), f"{run.run_id}-card.{suffix}", kind, key=f"run-card-{suffix}",
                    icon=":material/download:", on_click="ignore",
                )  # fmt: skip
            with st.container(border=True, height=520):
                st.markdown(run_card.as_markdown(card, level=4))
