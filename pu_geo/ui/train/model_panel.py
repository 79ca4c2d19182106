"""Trained models: download one of this project, or score all buildings by one from elsewhere."""

from __future__ import annotations

from functools import partial

import streamlit as st

from pu_geo.project.layout import RCF, Layout
from pu_geo.project.model_files import SUFFIX
from pu_geo.services.imagery import features, preparation
from pu_geo.services.train import models
from pu_geo.services.train.training import run_name
from pu_geo.ui import frame
from pu_geo.ui.components import job_card

_MAX_MB = 50


def draw(layout: Layout) -> None:
    """Draw both, folded, and the job that scores."""
    with st.expander("Models: hand one on, or use one from elsewhere", icon=":material/deployed_code:"):
        ours, theirs = st.columns(2, gap="large")
        with ours:
            st.markdown("**Export model**")
            export_button(layout)
        with theirs:
            st.markdown("**Use a model from elsewhere**")
            _use(layout)
    job_card.watch(layout, models.APPLY_TASKS, body=job_card.run_caption)


def export_button(layout: Layout) -> None:
    """Draw the choice of a run and the button that downloads its model; words where no run has one."""
    found = models.runs_with_model(layout)
    if not found:
        st.caption("No run has a model yet. Train a method; the instant ranker has none, it is fitted anew to each project.")
        return
    run = st.selectbox("Run", found, format_func=run_name, key="export-model-run")
    st.download_button(
        "Export model", partial(models.model_file, layout, run.run_id), f"{run.run_id}{SUFFIX}", "application/zip",
        key="export-model", icon=":material/download:", on_click="ignore",
    )  # fmt: skip
    st.caption(
        "One file: weights, settings, and what it learned from. No picture, outline or answer is in it; models on cached features "
        "hold 256 patches of 5 x 5 pixels of your chips, as filters, and all name the kinds of damage that they know."
    )
    if run.feature_set != RCF:
        words = "The network that makes its features is in the file; the license of its weights applies to that"
        st.caption(f"{words}. {frame.plain(features.words_of(run.feature_set, run.feature_maker))}.")


def _use(layout: Layout) -> None:
    by_path, upload = st.tabs(["By path", "Upload"])
    path = by_path.text_input("Model file", key="model-path", placeholder=f"/data/joplin{SUFFIX}")
    with upload:
        given = st.file_uploader("Model file", type=["zip"], max_upload_size=_MAX_MB, key="model-upload")
    if st.button("Score all buildings by it", disabled=not (path.strip() or given), key="apply-model"):
        with frame.show_errors():
            kept = [path] if given is None else preparation.keep_uploads(layout, [(given.name, given.getbuffer())])
            frame.act_and_rerun(lambda: models.start_apply(layout, kept[0]))
    st.caption("Makes a run. It needs chips of the model's bands and size, and learns nothing from your answers.")
