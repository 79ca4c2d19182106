"""Two runs side by side: figures, curves, where they disagree most, and which one the live map shows; runs averaged."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import streamlit as st

from pu_geo.project.layout import Layout
from pu_geo.records import RunFacts
from pu_geo.services.explore import exploring
from pu_geo.services.train import compared_words, comparing, disagreeing, training
from pu_geo.services.train.comparing import Comparison, Side
from pu_geo.services.train.disagreeing import Apart
from pu_geo.services.train.training import run_name
from pu_geo.ui import frame
from pu_geo.ui.components import job_card
from pu_geo.ui.train import compare_figures

_CHIP_PX = 72
_NONE = "—"


def draw(layout: Layout, found: Sequence[RunFacts]) -> None:
    """Draw the comparison of two runs, once it is opened, and the job that averages runs.

    Args:
        found: all runs of the project, newest first; nothing is drawn for fewer than two.
    """
    if len(found) < 2:
        return
    if st.toggle("Compare runs", key="compare-runs"):
        _opened(layout, found)
    job_card.watch(layout, training.ENSEMBLE_TASKS, body=_result)


@st.fragment
def _opened(layout: Layout, found: Sequence[RunFacts]) -> None:
    """Draw it in a part of its own: another choice does not draw the rest of the page anew."""
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
            _agreement(compared)
            _pins(layout, chosen, pinned)
        _curves(layout, compared)
        _apart(layout, compared)


_ROWS: tuple[tuple[str, Callable[[Side], str]], ...] = (
    ("Method", lambda side: training.method_title(side.facts.method)),
    ("Preset, seed", lambda side: f"{side.facts.preset}, {side.facts.seed}"),
    ("Learned from", lambda side: _learned_from(side.facts)),
    ("Seconds, device", lambda side: f"{side.facts.seconds:,.1f}, {side.facts.device}"),
    ("Threshold", lambda side: f"{side.facts.threshold:.3f}"),
    ("PU criterion", compared_words.criterion_words),
    ("Audit: precision", lambda side: _audited(side, "precision")),
    ("Audit: recall", lambda side: _audited(side, "recall")),
)


def _table(found: Comparison) -> None:
    lines = ["| | A | B |", "|---|---|---|"]
    for title, told in _ROWS if found.check else _ROWS[:-2]:
        lines.append(f"| {title} | " + " | ".join(frame.plain(told(side)) for side in found.sides) + " |")
    st.markdown("\n".join(lines))
    st.caption(f"{frame.plain(found.clicks.words)} {_THRESHOLD_WORDS} {_AUDIT_WORDS[found.check is not None]}")


_THRESHOLD_WORDS = (
    "Each run is judged at its own threshold: the same order of buildings with another threshold has another criterion."
)
_AUDIT_WORDS = {
    True: "The same audit judges both, each at its own threshold.",
    False: "Neither run was audited; an audit on the Damage map page would judge both.",
}


def _learned_from(run: RunFacts) -> str:
    if run.from_model:
        return "a model from elsewhere"
    return f"{run.n_positive} positives, answers up to {run.at_event}"


def _audited(side: Side, name: str) -> str:
    return _NONE if side.audited is None else compared_words.share_words(getattr(side.audited, name))


def _agreement(found: Comparison) -> None:
    lines = [f"- {frame.plain(one)}" for one in compared_words.agreement_words(found)]
    st.markdown("**How far they agree**\n\n" + "\n".join(lines))


def _pins(layout: Layout, chosen: Sequence[str], pinned: str | None) -> None:
    st.markdown("**Which one the live map shows**")
    for name, column, run_id in zip("AB", st.columns(2), chosen, strict=True):
        is_shown = run_id == pinned
        label = f"{name} is shown" if is_shown else f"Show {name}"
        if column.button(label, key=f"pin-{name}", disabled=is_shown, icon=":material/push_pin:", help="Here and in QGIS."):
            training.pin(layout, run_id)
            st.rerun()


def _curves(layout: Layout, found: Comparison) -> None:
    figure = compare_figures.curves([comparing.curve(layout, side.facts.run_id) for side in found.sides])
    if figure is None:
        st.caption("Neither run has a training curve: the instant ranker and averages are made in one step.")
    else:
        st.plotly_chart(figure, key="compare-curves", config={"displaylogo": False})


def _apart(layout: Layout, found: Comparison) -> None:
    st.markdown("**Where they disagree most**")
    chips, where = st.columns([3, 2], gap="medium")
    higher, lower = disagreeing.most_apart(layout, found)
    with chips:
        _chips(layout, found.sides[0].facts, "A high, B low", higher)
        _chips(layout, found.sides[0].facts, "B high, A low", lower)
        st.caption("Below each chip its place in A and in B; 1 is the highest score. + marks a positive.")
    with where:
        figure = compare_figures.map_of(disagreeing.map_points(layout, found))
        st.plotly_chart(figure, key="compare-map", config={"displaylogo": False, "scrollZoom": True})


def _chips(layout: Layout, run: RunFacts, title: str, rows: Sequence[Apart]) -> None:
    st.caption(f"{title}{'' if rows else ': nowhere'}")
    if rows:
        pictures = exploring.chip_pictures(layout, run.run_id, [row.building_id for row in rows])
        captions = [f"{row.places[0]:,} | {row.places[1]:,}{' +' if row.label == 'positive' else ''}" for row in rows]
        st.image(pictures, width=_CHIP_PX, caption=captions)


def _average(layout: Layout, found: Sequence[RunFacts]) -> None:
    st.markdown("**Average of several runs**")
    by_id = {run.run_id: run for run in found}
    which, go = st.columns([4, 1], vertical_alignment="bottom", gap="medium")
    wanted = which.multiselect(
        "Runs", list(by_id), list(by_id)[:2], format_func=lambda run_id: run_name(by_id[run_id]), key="average-runs",
        help="Each building gets the mean of its ranks. Runs of methods that err in different ways help each other most.",
    )  # fmt: skip
    if go.button("Average their ranks", key="average", disabled=len(wanted) < 2):
        with frame.show_errors():
            training.start_average(layout, wanted)
            st.rerun()


def _result(job: job_card.JobView) -> None:
    if job.state == "done":
        st.caption(f"Run {job.result['run_id']} · {job.result['seconds']} s")
