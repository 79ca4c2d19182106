"""Project: open, create, or try the sample event."""

from __future__ import annotations

import streamlit as st

from pu_geo.services.imagery import preparation
from pu_geo.services.project import projects
from pu_geo.ui import frame
from pu_geo.ui.components import job_card

frame.title_bar("Project", "Open a project, start one, or try the sample event. Everything stays on this machine.")

sample, recent, new = st.columns(3, gap="medium")

with sample.container(border=True):
    st.markdown("**Try the sample event**")
    st.caption("A made-up town after a tornado: 1,600 buildings, about 5 % damaged. Ready in one or two minutes.")
    if st.button("Open the sample event", type="primary", icon=":material/tornado:"):
        frame.act_and_rerun(lambda: frame.use(projects.open_sample()[0]))

with recent.container(border=True):
    st.markdown("**Open a project**")
    known = [str(layout.folder) for layout in projects.recent()]
    chosen = st.selectbox("Recent projects", known, index=0 if known else None, placeholder="none yet", key="recent_project")
    path = st.text_input("or the path of a .pugeo folder", key="open_path")
    if st.button("Open", disabled=not (path or chosen)):
        frame.act_and_rerun(lambda: frame.use(projects.open_project(path.strip().strip("\"'") or str(chosen))))

with new.container(border=True):
    st.markdown("**Start a project**")
    name = st.text_input("Name", placeholder="Joplin tornado 2011", key="new_name")
    folder = st.text_input(
        "Folder", placeholder="joplin-2011", help=f"A bare name goes into {projects.home()}.", key="new_path"
    )
    if st.button("Create", disabled=not (name and folder)):
        frame.act_and_rerun(lambda: frame.use(projects.create(folder, name)))

layout = frame.current()
if layout is not None:
    is_preparing = job_card.watch(layout, ("prepare", "next_round"))
    summary, last_export = projects.summary(layout), projects.last_export(layout)
    st.markdown(f"#### {frame.plain(summary.name)}")
    st.caption(str(summary.folder))
    figures = (
        ("Scenes", f"{summary.n_pre} pre, {summary.n_post} post"),
        (summary.units.several.capitalize(), f"{summary.n_buildings:,}"),
        ("Positives", f"{summary.n_positive:,}"),
        ("Last run", summary.last_run.method if summary.last_run else "none"),
        ("Last export", last_export.rsplit("/", 1)[-1] if last_export else "none"),
    )
    for column, (label, value) in zip(st.columns(len(figures)), figures, strict=True):
        column.metric(label, value)
    steps = {"imagery": "Add imagery", "annotate": "Annotate", "train": "Train", "damage_map": "See the damage map"}
    if not is_preparing:
        frame.link(summary.next_step, f"Next: {steps[summary.next_step]}")
    if summary.n_buildings and not is_preparing:
        with st.expander("A newer post image of the same event"):
            st.caption(
                "Begins the next round in a project of its own: the same buildings and pre image. What people said comes first "
                "in its queue, to be looked at again on the new image; versions say what changed."
            )
            post = st.text_area("Post-event scenes, one path a line", key="round_post", height=68)
            beside = st.text_input("Folder of the new project", projects.next_folder(layout), key="round_path")
            if st.button("Begin the next round", disabled=not (post.strip() and beside)):
                frame.act_and_rerun(lambda: frame.use(projects.begin_round(layout, beside, preparation.paths_in(post))))
