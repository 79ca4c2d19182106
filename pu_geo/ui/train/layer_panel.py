"""What each layer adds, on the analyst's own clicks: the last result, and the job that makes a new one."""

from __future__ import annotations

import streamlit as st

from pu_geo import jobs
from pu_geo.runs import layer_comparison as comparison
from pu_geo.runs.actions import CompareLayers
from pu_geo.store.layout import Layout
from pu_geo.ui import frame
from pu_geo.ui.components import job_card
from pu_geo.ui.train import texts


def draw(layout: Layout) -> None:
    """Draw the panel and its job."""
    st.caption(texts.LAYERS_NOTE)
    frame.button(
        texts.COMPARE_LAYERS, lambda: jobs.start(layout, CompareLayers()), key="compare-layers-start",
        icon=":material/balance:", disabled=job_card.is_busy(layout, "layers"),
    )  # fmt: skip
    job_card.watch_unless_done(layout, "layers")
    with frame.show_errors():
        found = comparison.last(layout)
        if found is None:
            st.caption(texts.NOT_COMPARED)
            return
        st.dataframe(comparison.table(found), hide_index=True)
        st.markdown("\n".join(f"- **{frame.plain(words)}**" for words in comparison.verdict_words(found)))
        st.caption(frame.plain(f"{comparison.how_made(found)} {comparison.what_changed(layout, found)}"))
