"""Feature sets, and layers, compared on the analyst's own clicks: the last result, the job that makes a new one, and the choice."""

from __future__ import annotations

import streamlit as st

from pu_geo.project.layout import Layout
from pu_geo.services.imagery import features
from pu_geo.services.train import feature_comparison as comparison
from pu_geo.services.train import layer_comparison, training
from pu_geo.ui import frame
from pu_geo.ui.components import job_card
from pu_geo.ui.train import texts


def draw(layout: Layout) -> None:
    """Draw the panels, folded until they are opened, and their jobs; that of layers where the chips have some."""
    if st.toggle(texts.COMPARE_FEATURES, key="compare-features"):
        with st.container(border=True):
            _opened(layout)
    if features.layers_here(layout) and st.toggle(texts.COMPARE_LAYERS, key="compare-layers"):
        with st.container(border=True):
            _layers_opened(layout)


def _layers_opened(layout: Layout) -> None:
    st.caption(texts.COMPARE_LAYERS_NOTE)
    is_busy = job_card.is_busy(layout, layer_comparison.TASKS)
    which, button = st.columns([4, 1], vertical_alignment="bottom", gap="medium")
    methods = which.multiselect(
        texts.COMPARED_METHODS, [*comparison.METHODS, *comparison.SLOW], list(layer_comparison.METHODS),
        format_func=training.method_title, key="compare-layers-methods", help=texts.COMPARED_METHODS_HELP,
    )  # fmt: skip
    frame.button(
        texts.COMPARE_BUTTON, lambda: layer_comparison.start(layout, methods), key="compare-layers-start", place=button,
        icon=":material/balance:", disabled=is_busy or not methods,
    )  # fmt: skip
    job_card.watch_unless_done(layout, layer_comparison.TASKS)
    with frame.show_errors():
        found = layer_comparison.last(layout)
        if found is None:
            st.caption(texts.NOT_COMPARED)
            return
        st.dataframe(layer_comparison.table(found), hide_index=True, key="compare-layers-table")
        st.markdown("\n".join(f"- **{frame.plain(words)}**" for words in layer_comparison.verdict_words(found)))
        frame.caption(f"{layer_comparison.how_made(found)} {layer_comparison.what_changed(layout, found)}")


def _opened(layout: Layout) -> None:
    st.caption(texts.COMPARE_FEATURES_NOTE)
    is_busy = job_card.is_busy(layout, comparison.COMPARE_TASKS)
    which, button = st.columns([4, 1], vertical_alignment="bottom", gap="medium")
    methods = which.multiselect(
        texts.COMPARED_METHODS, [*comparison.METHODS, *comparison.SLOW], list(comparison.METHODS), format_func=training.method_title,
        key="compare-features-methods", help=texts.COMPARED_METHODS_HELP,
    )  # fmt: skip
    frame.button(
        texts.COMPARE_BUTTON, lambda: comparison.start(layout, methods), key="compare-features-start", place=button,
        icon=":material/balance:", disabled=is_busy or not methods,
    )  # fmt: skip
    job_card.watch_unless_done(layout, comparison.COMPARE_TASKS)
    with frame.show_errors():
        _draw_last(layout)


def _draw_last(layout: Layout) -> None:
    found = comparison.last(layout)
    if found is None:
        st.caption(texts.NOT_COMPARED)
        return
    st.dataframe(comparison.table(found), hide_index=True, key="compare-features-table")
    st.markdown(f"**{frame.plain(comparison.verdict_words(found))}** {frame.plain(comparison.in_use_words(layout))}")
    name = comparison.proposed(layout, found)
    if name:
        frame.press(
            texts.USE_FEATURES.format(name=frame.plain(name)),
            lambda: features.choose(layout, name),
            key="compare-features-use",
            icon=":material/check:",
        )
    st.caption(f"{comparison.how_made(found)} {comparison.what_changed(layout, found)}")
