"""UMAP on the Explore page: compute it, set how, place new buildings in it, and read what made the picture."""

from __future__ import annotations

from dataclasses import fields

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from pu_geo.project.layout import Layout
from pu_geo.services.explore import exploring
from pu_geo.services.explore.exploring import UmapSettings
from pu_geo.ui import frame
from pu_geo.ui.components import job_card


def draw(layout: Layout, run_id: str, column: DeltaGenerator) -> None:
    """Draw what made a run's UMAP and its job, and in a column the buttons and how it is set."""
    made, job = exploring.picture(layout, run_id), exploring.umap_job(layout, run_id)
    n_new = exploring.n_unplaced(layout, run_id) if made else 0
    is_busy = job is not None and job.is_active
    with column.container(horizontal=True, vertical_alignment="bottom"):
        st.button(
            "Compute UMAP again" if made else "Compute UMAP", key="umap-start", icon=":material/scatter_plot:", disabled=is_busy,
            help="With the settings beside this button." if made else "Until then you see PCA, the two widest directions.",
            on_click=frame.does(lambda: exploring.start_umap(layout, run_id, _chosen(run_id))),
        )  # fmt: skip
        with st.popover("Settings", icon=":material/tune:"):
            _settings(run_id, made.settings if made else UmapSettings())
        if n_new and not is_busy:
            st.button(
                f"Place {n_new:,} new buildings", key="umap-place", help="Buildings whose chips came after this run.",
                on_click=frame.does(lambda: exploring.start_umap(layout, run_id)),
            )  # fmt: skip
    if made:
        st.caption(made.words)
        if made.labels:
            st.warning(exploring.SUPERVISED)
        if made.note and not n_new:
            st.caption(frame.plain(made.note))
    if job is not None and job.state != "done":
        job_card.watch(layout, ("embed",))


def _settings(run_id: str, shown: UmapSettings) -> None:
    """Draw a field for each setting, with the values of the picture that is there."""
    for item in fields(UmapSettings):
        value, meta, key = getattr(shown, item.name), item.metadata, _key(run_id, item.name)
        if meta["choices"]:
            st.selectbox(item.name, meta["choices"], meta["choices"].index(value), help=meta["help"], key=key)
        elif isinstance(value, bool):
            st.toggle(item.name, value, help=meta["help"], key=key)
        else:
            step = 0.05 if isinstance(value, float) else 1
            st.number_input(item.name, meta["min"], meta["max"], value, step, help=meta["help"], key=key)
    if st.session_state[_key(run_id, "supervised")]:
        st.caption(f":orange[{exploring.SUPERVISED}]")


def _chosen(run_id: str) -> UmapSettings:
    return UmapSettings(**{item.name: st.session_state[_key(run_id, item.name)] for item in fields(UmapSettings)})


def _key(run_id: str, name: str) -> str:
    return f"umap-{name}-{run_id}"
