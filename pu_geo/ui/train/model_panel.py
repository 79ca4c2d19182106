"""Trained models: download one of this project, or score all buildings by one from elsewhere."""

from __future__ import annotations

from functools import partial

import streamlit as st

from pu_geo import jobs
from pu_geo.federation import federating
from pu_geo.lifecycle import projects
from pu_geo.runs import models
from pu_geo.runs.actions import ApplyModel
from pu_geo.scenes import features, preparation
from pu_geo.store import run_names
from pu_geo.store.contents import MAX_MB
from pu_geo.store.layout import RCF, Layout
from pu_geo.training.model_files import SUFFIX
from pu_geo.ui import frame
from pu_geo.ui.components import job_card
from pu_geo.ui.routes import PREFIX
from pu_geo.ui.train import texts


def draw(layout: Layout) -> None:
    """Draw both, and the job that scores."""
    ours, theirs = st.columns(2, gap="large")
    with ours:
        st.markdown(f"**{texts.EXPORT_MODEL}**")
        export_button(layout)
    with theirs:
        st.markdown(f"**{texts.IMPORT_MODEL}**")
        _use(layout)


def export_button(layout: Layout) -> None:
    """Draw the choice of a run and the button that downloads its model; words where no run has one."""
    found = models.runs_with_model(layout)
    if not found:
        st.caption(texts.NO_MODEL)
        return
    names = run_names.names(layout)
    run = st.selectbox(texts.RUN, found, format_func=lambda run: names[run.run_id], key="export-model-run")
    address = f"{PREFIX}/{projects.token_of(layout)}/models/{run.run_id}"
    st.link_button(texts.EXPORT_MODEL, address, key="export-model", icon=":material/download:")
    has_patches = features.holds_patches(run.feature_maker)
    st.caption(f"{texts.MODEL_NOTE} {texts.MODEL_PATCHES}" if has_patches else texts.MODEL_NOTE)
    if run.feature_set != RCF:
        st.caption(f"{texts.MODEL_NETWORK}. {frame.plain(features.words_of(run.feature_set, run.feature_maker))}.")


def _use(layout: Layout) -> None:
    by_path, upload = st.tabs([texts.BY_PATH, texts.UPLOAD])
    path = by_path.text_input(texts.MODEL_FILE, key="model-path", placeholder=f"/data/joplin{SUFFIX}")
    with upload:
        given = st.file_uploader(texts.MODEL_FILE, type=["zip"], max_upload_size=MAX_MB, key="model-upload")

    def apply() -> None:
        kept = [path] if given is None else preparation.keep_uploads(layout, [(given.name, given.getbuffer())])
        jobs.start(layout, ApplyModel(kept[0]))

    frame.button(texts.SCORE_ALL, apply, key="apply-model", disabled=not (path.strip() or given))
    job_card.watch(
        layout, "model", only=lambda job: not federating.is_scoring(layout, job), body=partial(job_card.run_caption, layout)
    )  # fmt: skip
    st.caption(texts.IMPORT_NOTE)
