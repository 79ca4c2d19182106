"""Feature sets, and layers, compared on the analyst's own clicks: the last result, the job that makes a new one, and the
choice.
"""

from __future__ import annotations

import streamlit as st

from pu_geo import jobs
from pu_geo.methods import catalog
from pu_geo.runs import feature_comparison as comparison
from pu_geo.runs.actions import CompareFeatures
from pu_geo.scenes import features
from pu_geo.store.layout import Layout
from pu_geo.ui import frame
from pu_geo.ui.components import job_card
from pu_geo.ui.train import texts


def draw(layout: Layout) -> None:
    """Draw the panel and its job; layers can be compared where the chips have some."""
    of = "features"
    if features.layers_here(layout):
        of = st.radio(texts.COMPARED, list(texts.COMPARED_OF), format_func=texts.COMPARED_OF.__getitem__, horizontal=True)
    st.caption(texts.COMPARE_NOTE)
    is_busy = job_card.is_busy(layout, "features")
    which, button = st.columns([4, 1], vertical_alignment="bottom", gap="medium")
    methods = which.multiselect(
        texts.COMPARED_METHODS,
        [*comparison.METHODS, *comparison.SLOW],
        list(comparison.METHODS),
        format_func=catalog.title,
        key="compare-features-methods",
        help=texts.COMPARED_METHODS_HELP,
    )
    frame.button(
        texts.COMPARE_BUTTON, lambda: jobs.start(layout, CompareFeatures(methods, layers=of == "layers")),
        key="compare-features-start", place=button,
        icon=":material/balance:", disabled=is_busy or not methods,
    )  # fmt: skip
    job_card.watch_unless_done(layout, "features")
    with frame.show_errors():
        _draw_last(layout, of)


def _draw_last(layout: Layout, of: str) -> None:
    found = comparison.last(layout, of)
    if found is None:
        st.caption(texts.NOT_COMPARED)
        return
    st.dataframe(comparison.table(found), hide_index=True, key="compare-features-table")
    st.markdown("\n".join(f"- **{frame.plain(words)}**" for words in comparison.verdict_words(found)))
    if name := comparison.proposed(layout, found):
        st.button(
            texts.USE_FEATURES.format(name=frame.plain(name)), key="compare-features-use", icon=":material/check:",
            on_click=frame.does(lambda: features.choose(layout, name)),
        )  # fmt: skip
    st.caption(frame.plain(f"{comparison.how_made(found)} {comparison.what_changed(layout, found)}"))
