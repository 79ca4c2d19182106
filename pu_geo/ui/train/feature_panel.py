"""The comparison of feature sets on the analyst's own clicks: its last result, the job that makes a new one, and the choice."""

from __future__ import annotations

import streamlit as st

from pu_geo.project.layout import Layout
from pu_geo.services.imagery import features
from pu_geo.services.train import feature_comparison as comparison
from pu_geo.services.train import training
from pu_geo.ui import frame
from pu_geo.ui.components import job_card


def draw(layout: Layout) -> None:
    """Draw the panel, folded until it is opened, and the job."""
    if st.toggle("Compare features on your own clicks", key="compare-features"):
        with st.container(border=True):
            _opened(layout)


def _opened(layout: Layout) -> None:
    st.caption(
        "Each feature set is fitted without some of your clicks; where these then come in the list of unlabeled buildings tells "
        "which features find damage that they were not shown. Answers to the queue do not count: a ranking proposed them."
    )
    is_busy = job_card.watch_unless_done(layout, comparison.COMPARE_TASKS)
    which, button = st.columns([4, 1], vertical_alignment="bottom", gap="medium")
    methods = which.multiselect(
        "Methods", [*comparison.METHODS, *comparison.SLOW], list(comparison.METHODS), format_func=training.method_title,
        key="compare-features-methods", help="NcPU and PUCL train fifteen times for each feature set, which takes minutes.",
    )  # fmt: skip
    button.button(
        "Compare", key="compare-features-start", icon=":material/balance:", disabled=is_busy or not methods,
        on_click=frame.does(lambda: comparison.start(layout, methods)),
    )  # fmt: skip
    with frame.show_errors():
        _draw_last(layout)


def _draw_last(layout: Layout) -> None:
    found = comparison.last(layout)
    if found is None:
        st.caption("Nothing was compared yet.")
        return
    st.dataframe(comparison.table(found), hide_index=True, key="compare-features-table")
    st.markdown(f"**{frame.plain(comparison.verdict_words(found))}** {frame.plain(comparison.in_use_words(layout))}")
    name = comparison.proposed(layout, found)
    if name and st.button(f"Use {frame.plain(name)}", key="compare-features-use", icon=":material/check:"):
        frame.act_and_rerun(lambda: features.choose(layout, name))
    st.caption(f"{comparison.how_made(found)} {comparison.what_changed(layout, found)}")
