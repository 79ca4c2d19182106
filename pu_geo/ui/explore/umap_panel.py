"""How the dots are arranged: PCA or UMAP, which is computed on demand, how it is set, and what made the picture."""

from __future__ import annotations

from dataclasses import Field, fields, replace
from typing import Any

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from pu_geo.explore import umap_picture
from pu_geo.explore.umap_picture import UmapSettings
from pu_geo.store.layout import Layout
from pu_geo.ui import frame
from pu_geo.ui.components import chosen, job_card
from pu_geo.ui.explore import texts


def draw_switch(layout: Layout, run_id: str) -> None:
    """Draw the switch between PCA and UMAP, and the settings of the UMAP."""
    job = umap_picture.umap_job(layout, run_id)
    is_there = umap_picture.picture(layout, run_id) is not None or (job is not None and job.is_active)

    def switch(wanted: umap_picture.Kind | None) -> None:
        if wanted:
            umap_picture.choose_projection(layout, run_id, wanted)

    shown = umap_picture.wanted_projection(layout) if is_there else "PCA"
    st.segmented_control(
        texts.PROJECTION, ("PCA", "UMAP"), label_visibility="collapsed", **chosen.shows("explore-projection", shown, switch)
    )
    with st.popover(texts.UMAP_SETTINGS, icon=":material/tune:", help=texts.UMAP_SETTINGS_HELP):
        _settings(layout, run_id)


def draw_notes(layout: Layout, run_id: str) -> None:
    """Draw what made the UMAP that is shown, and how many buildings are not in it."""
    made = umap_picture.picture(layout, run_id)
    if made is None or umap_picture.wanted_projection(layout) != "UMAP":
        return
    st.caption(frame.plain(made.words), width="content")
    if made.labels:
        st.caption(f":orange[:material/warning: {umap_picture.SUPERVISED}]", width="content")
    if n_new := umap_picture.n_unplaced(layout, run_id):
        st.caption(texts.NOT_SHOWN.format(n=n_new), width="content")


def draw_job(layout: Layout, run_id: str, state: DeltaGenerator) -> None:
    """Draw how far the UMAP of a run is, and why it failed: here, and in a line that points here.

    Args:
        state: a place that has its room whether a line stands there or not; here is below the view, which must not move.
    """
    job = umap_picture.umap_job(layout, run_id)
    if job is not None and job.state != "done":
        state.caption(texts.UMAP_GOES_ON if job.is_active else texts.UMAP_ENDED)
        job_card.watch(layout, "umap", only=lambda each: each.args.get("run_id") == run_id)


def _settings(layout: Layout, run_id: str) -> None:
    """Draw a field for each setting, as people left them; a change is stored, and counts for the next UMAP."""
    found = umap_picture.umap_settings(layout, run_id)
    for item in fields(UmapSettings):
        _setting(layout, run_id, found, item)
    if found.supervised:
        st.caption(f":orange[{umap_picture.SUPERVISED}]")
    job, made = umap_picture.umap_job(layout, run_id), umap_picture.picture(layout, run_id)

    def compute() -> None:
        umap_picture.start_umap(layout, run_id, umap_picture.umap_settings(layout, run_id))  # as a change just now left them
        umap_picture.choose_projection(layout, run_id, "UMAP")

    frame.press(
        texts.COMPUTE_AGAIN if made else texts.COMPUTE,
        compute,
        key="umap-start",
        icon=":material/scatter_plot:",
        disabled=job is not None and job.is_active,
    )


def _setting(layout: Layout, run_id: str, found: UmapSettings, item: Field[Any]) -> None:
    name, meta = item.name, item.metadata
    value, label = getattr(found, name), texts.SETTING_NAMES[name]

    def change(wanted: Any) -> None:
        now = umap_picture.umap_settings(layout, run_id)  # one message of the browser may change two fields
        umap_picture.choose_umap_settings(layout, replace(now, **{name: wanted}))

    look = {"help": meta["help"], **chosen.shows(f"umap-{name}", value, change)}
    if meta["choices"]:
        st.selectbox(label, meta["choices"], **look)
    elif isinstance(value, bool):
        st.toggle(label, **look)
    else:
        st.number_input(label, meta["min"], meta["max"], step=0.05 if isinstance(value, float) else 1, **look)
