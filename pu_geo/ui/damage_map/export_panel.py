"""Versions of the damage map: write the next one, see those that are there."""

from __future__ import annotations

import streamlit as st

from pu_geo.project.layout import Layout
from pu_geo.services.damage_map import mapping
from pu_geo.ui import frame
from pu_geo.ui.components import chosen, job_card


def draw(layout: Layout, run_id: str, threshold: float) -> None:
    """Draw what an export holds, its button, its progress, and the versions so far."""
    wanted, there = st.columns(2, gap="large")
    with wanted:
        has_place = mapping.has_place(layout)
        offered = list(mapping.FORMATS if has_place else mapping.LOCAL_FORMATS)
        formats = st.multiselect(
            "Formats", offered, format_func=mapping.FORMATS.__getitem__, key="formats",
            on_change=chosen.kept(layout, "formats", "formats", offered),
        )  # fmt: skip
        profiles = st.multiselect(
            "Classes of other services", list(mapping.PROFILES), format_func=mapping.PROFILES.__getitem__, key="profiles",
            on_change=chosen.kept(layout, "profiles", "profiles", mapping.PROFILES),
            help="Filled from what people said, never from a score: a model gives no grades.",
        )  # fmt: skip
        local = False
        if not has_place:
            st.caption("The pictures of this project came without a georeference: its map cannot be laid over any other.")
            local = st.checkbox("Local coordinates: export in meters from the picture's corner", key="local_coordinates")
        is_ready = bool(formats) and (has_place or local)
        if st.button("Export the next version", type="primary", icon=":material/download:", disabled=not is_ready):
            frame.act_and_rerun(lambda: mapping.start_publish(layout, run_id, threshold, formats, profiles, local=local))
        job_card.watch(layout, mapping.EXPORT_TASKS, body=_result)
    with there:
        st.caption(f"Versions lie in `{layout.exports}`.")
        for facts in mapping.published(layout)[:10]:
            changed = facts["n_changes"]
            st.markdown(
                f"**{facts['version']}** · {facts['made_at'][:16].replace('T', ' ')} · {facts['flagged']:,} flagged or "
                f"confirmed of {facts['n']:,}" + ("" if changed is None else f" · {changed:,} changes, see changes.csv")
            )
            st.caption(frame.plain(mapping.which_words(facts)))


def _result(job: job_card.JobView) -> None:
    if job.state == "done":
        facts = job.result
        st.caption(
            f"{facts['n']:,} {facts.get('units', 'buildings')}, {facts['flagged']:,} damaged (flagged or confirmed), "
            f"{facts['not_assessed']:,} not assessed  \n`{facts['out']}`"
        )
