"""The audit of a run's map: begin it, see what it says, and set the threshold by it."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import plotly.graph_objects as go
import streamlit as st

from pu_geo.project.layout import Layout
from pu_geo.services.damage_map import auditing, random_audits
from pu_geo.services.damage_map.auditing import AuditView, Estimate
from pu_geo.services.project import choices
from pu_geo.ui import frame

_COLORS = {"precision": "#0B6E99", "recall": "#D55E00"}


def draw(layout: Layout, run_id: str, threshold: float) -> AuditView | None:
    """Draw all about the audit of a run; return it, None where there is none yet.

    Args:
        threshold: that the page shows now; "use" buttons store another one.
    """
    found = auditing.view(layout, run_id)
    if found is None:
        _invite(layout, run_id)
        return None
    _status(layout, found)
    total, precision, recall = st.columns(3, gap="medium")
    damaged = auditing.how_many(layout)
    total.markdown(f"**Damaged buildings**  \n{estimate_words(replace(damaged.total, words=damaged.words_beside(run_id)))}")
    here = auditing.at(layout, run_id, threshold)
    if here is not None:
        precision.markdown(f"**Precision at {threshold:.3f}**  \n{estimate_words(here.precision, share=True)}")
        recall.markdown(f"**Recall at {threshold:.3f}**  \n{estimate_words(here.recall, share=True)}")
    if any(row.precision.is_enough for row in found.rows):
        curve, wish = st.columns([3, 2], gap="medium")
        with curve:
            st.plotly_chart(_figure(found, threshold), key="audit-curve", config={"displaylogo": False})
        with wish:
            _wish(layout, run_id, found)
            k = st.number_input("Precision of the first", 1, found.n, min(100, found.n), 10, key="top-k", width=160)
            top = auditing.at_top(layout, run_id, int(k))
            if top is not None:
                st.caption(f"Of the {int(k):,} highest scores: {estimate_words(top.precision, share=True)}")
    _notes(found)
    return found


def estimate_words(figure: Estimate, *, share: bool = False) -> str:
    """Write an estimate as "72, between 51 and 107 (13 of 200 random checks found damage)", escaped for Markdown."""
    if figure.value is None or figure.low is None or figure.high is None:
        return frame.plain(figure.words)
    value, low, high = (f"{one:.0%}" if share else f"{one:,.0f}" for one in (figure.value, figure.low, figure.high))
    return f"**{value}**, between {low} and {high}  \n:gray[{frame.plain(figure.words)}]"


def _invite(layout: Layout, run_id: str) -> None:
    st.markdown(
        f"**Nothing here was audited.** Scores only rank buildings; how many are damaged is {auditing.NOT_KNOWN}. To find out, and how "
        "many of the flagged ones really are, answer random checks on Annotate: drawn by score, shown without it, not learned from."
    )
    with frame.show_errors():
        usual = auditing.suggested_size(layout, run_id)
        n = st.number_input(
            "Checks", 1, None, max(usual, 1), 10, width=200,
            help=f"{usual} should tell the number damaged to about ±{auditing.USUAL_HALF_WIDTH:.0%}. "
            f"{auditing.planned_words(layout)} More can be drawn later.",
        )  # fmt: skip
        if st.button("Begin the audit", type="primary", icon=":material/fact_check:"):
            frame.act_and_rerun(lambda: random_audits.begin_audit(layout, run_id, int(n), frame.analyst()))


def _status(layout: Layout, found: AuditView) -> None:
    done, more = st.columns([4, 3], vertical_alignment="bottom", gap="medium")
    left, n_answered, n_drawn = found.done.n_open, found.done.n_answered, found.done.n_drawn
    with done:
        st.progress(n_answered / max(n_drawn, 1), f"{n_answered} of {n_drawn} checks answered")
        if found.done.state != "finished":
            st.caption(frame.plain(found.done.words))
        if left and found.check.is_open:
            frame.link("annotate", f"Answer the other {left} on Annotate")
    with more, st.container(horizontal=True, vertical_alignment="bottom"):
        n = st.number_input("More checks", 10, None, 50, 10, key="more-checks", width=140)
        if st.button("Draw them", help="The same sample goes on, so all answers count."):
            frame.act_and_rerun(lambda: random_audits.extend(layout, found.check.id, int(n)))
        if left and not found.check.is_open and st.button("Open it again"):
            frame.act_and_rerun(lambda: random_audits.extend(layout, found.check.id, 0))


def _wish(layout: Layout, run_id: str, found: AuditView) -> None:
    """Offer the threshold that reaches a wanted precision or recall."""
    what = st.radio("Set the threshold for a wanted", ["precision", "recall"], horizontal=True, key="wish-kind")
    wish = st.slider(f"At least this {what}", 0.05, 1.0, 0.8, 0.05, key="wish-value", format="percent")
    choice = auditing.choose(found, precision=wish) if what == "precision" else auditing.choose(found, recall=wish)
    st.caption(frame.plain(choice.words))
    for value, words in ((choice.assured, "with 95 % confidence"), (choice.estimated, "by the estimate alone")):
        if value is not None:
            limit, origin = min(max(value, 0.0), 1.0), f"audit:{found.check.id}"
            use = frame.does(partial(choices.choose_threshold, layout, run_id, limit, origin))
            st.button(f"Use {value:.3f}, {words}", key=f"use-{words}", on_click=use)


def _figure(found: AuditView, threshold: float) -> go.Figure:
    """Precision and recall by threshold, each with its interval."""
    figure = go.Figure()
    for name, color in _COLORS.items():
        known = [(row.threshold, getattr(row, name)) for row in found.rows if getattr(row, name).is_enough]
        x = [at for at, _ in known]
        band = {"x": x + x[::-1], "y": [one.high for _, one in known] + [one.low for _, one in known][::-1]}
        figure.add_scatter(
            **band, fill="toself", fillcolor=color, opacity=0.15, line_width=0, hoverinfo="skip", showlegend=False
        )
        figure.add_scatter(x=x, y=[one.value for _, one in known], line_color=color, name=name)
    figure.add_vline(threshold, line_dash="dot", line_color="#444")
    figure.update_layout(
        height=240, margin={"l": 0, "r": 0, "t": 8, "b": 0}, xaxis={"title": "threshold", "range": [0, 1]},
        yaxis={"range": [0, 1.02], "tickformat": ".0%"}, legend={"orientation": "h", "y": 1.1},
    )  # fmt: skip
    return figure


def _notes(found: AuditView) -> None:
    if found.agreement is not None and found.agreement.share is not None:
        kappa = f", kappa {found.agreement.kappa:.2f}" if found.agreement.kappa is not None else ""
        st.caption(f"Two readers agree on {found.agreement.share:.0%} of {found.agreement.n} buildings{kappa}.")
    st.caption(
        "Chances of damage (p_damaged) are exported: a curve over the score, fitted to the checks alone."
        if found.calibration
        else f"No chances of damage yet. {frame.plain(found.no_calibration)}"
    )
