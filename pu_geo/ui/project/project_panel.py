"""The Project screen: the open project, and the three ways to another one."""

from __future__ import annotations

from functools import cache, partial
from pathlib import Path
from typing import Any

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from pu_geo.jobs import tasks
from pu_geo.lifecycle import projects, removing
from pu_geo.lifecycle.projects import Recent
from pu_geo.scenes import preparation
from pu_geo.store import chosen, removals, run_names
from pu_geo.store.layout import Layout
from pu_geo.ui import frame
from pu_geo.ui.components import file_picker, job_card
from pu_geo.ui.project import texts
from pu_geo.wording import day_and_time, size

ASSETS = Path(frame.__file__).with_name("assets")
_MOST_CARDS, _RECENT_PX = 5, 460
_NAME, _PATH = "new_name", "new_path"


def open_project(layout: Layout, action: DeltaGenerator) -> None:
    """Draw how far the open project is, and the way to its next step, which is the screen's main action."""
    summary, last_export = projects.summary(layout), projects.last_export(layout)
    with st.container(border=True):
        st.markdown(f"#### {frame.plain(summary.name)}", help=frame.plain(str(summary.folder)))
        shown = chosen.chosen_run(layout)
        figures = (
            (texts.SCENES, texts.SCENES_VALUE.format(n_pre=summary.n_pre, n_post=summary.n_post)),
            (summary.units.several.capitalize(), f"{summary.n_buildings:,}"),
            (texts.DAMAGED, f"{summary.n_positive:,}"),
            (texts.RUN, run_names.name(layout, shown.run_id) if shown else texts.NONE_YET),
            (texts.LAST_EXPORT, last_export.rsplit("/", 1)[-1] if last_export else texts.NONE_YET),
        )
        with st.container(horizontal=True, gap="medium"):
            for label, value in figures:
                st.metric(label, frame.plain(value), width="content")
        is_filling = job_card.watch(
            layout, "scenes", only=lambda job: tasks.of(job.task).screen == "project", body=job_card.notes
        )
    if not is_filling:
        with action:
            frame.link(summary.next_step, texts.NEXT_LINK.format(step=texts.NEXT[summary.next_step]))


def choices(layout: Layout | None) -> None:
    """Draw the ways to a project: a recent one, a new one, the sample event; those two are closed while one is open."""
    if layout is not None:
        _recent(layout)
    with st.container(border=True) if layout is None else st.expander(f"{texts.NEW} · {texts.SAMPLE}"):
        left, right = st.columns([3, 2], gap="medium")
        with left:
            _new()
        with right:
            _sample()
    if layout is None:
        _recent(layout)


@cache
def _enter() -> Any:
    """Return the part of the page that lets Enter press a button; it draws nothing."""
    return st.components.v2.component("pu_geo.enter", js=(ASSETS / "enter.js").read_text(encoding="utf-8"))


def _new() -> None:
    """Draw the fields of a new project. The name is handed over after each pause, and the button is never disabled: one
    click, or Enter, does it.
    """
    st.markdown(f"**{texts.NEW}**")
    _enter()(key="enter")
    with st.container(key="enter-create"):
        name = st.text_input(texts.NAME, placeholder=texts.NAME_EXAMPLE, key=_NAME, live=True)
        suggested = projects.suggested_folder(name) or texts.FOLDER_LATER
        help = texts.FOLDER_HELP.format(home=projects.home())
        st.text_input(texts.FOLDER, placeholder=str(suggested), key=_PATH, help=help)
        st.button(texts.CREATE, key="create", type="primary", on_click=frame.goes("imagery", _create))


def _create() -> None:
    state = st.session_state
    frame.use(projects.create_named(str(state.get(_NAME) or ""), str(state.get(_PATH) or "")))
    state.update({_NAME: "", _PATH: ""})


def _sample() -> None:
    st.markdown(f"**{texts.SAMPLE}**")
    st.caption(texts.SAMPLE_ABOUT)
    frame.press(
        texts.OPEN_SAMPLE, lambda: frame.use(projects.open_sample()[0]), key="open-sample", icon=":material/tornado:"
    )


def _recent(layout: Layout | None) -> None:
    """Draw the projects opened lately, each opened by one click, and the way to any other."""
    st.markdown(f"**{texts.RECENT}**")
    found = projects.recent_cards()
    if not found:
        st.caption(texts.NO_RECENT)
    with st.container(height="content" if len(found) <= _MOST_CARDS else _RECENT_PX, border=False):
        for card in found:
            _card(card, is_open=layout is not None and card.layout == layout)
    with st.container(horizontal=True, vertical_alignment="bottom"):
        file_picker.browse_button(
            "open-project",
            texts.PICK_PROJECT,
            "projects",
            lambda paths: frame.open_project(paths[0]),
            label=texts.OPEN_BROWSE,
        )
        with st.popover(texts.OPEN_OTHER, icon=":material/edit:"):
            with st.container(key="enter-open-typed"):
                st.text_input(texts.PROJECT_PATH, key="open_path", placeholder=texts.PROJECT_PATH_EXAMPLE)
            frame.press(texts.OPEN_PATH, _open_typed, key="open-typed")


def _card(card: Recent, *, is_open: bool) -> None:
    with st.container(border=True, horizontal=True, vertical_alignment="center", horizontal_alignment="distribute"):
        with st.container(gap=None, width="content"):
            st.markdown(f"**{frame.plain(card.name)}**", help=frame.plain(str(card.layout.folder)))
            words = texts.CARD_STATES.get(card.state) or texts.how_far(card.units, card.n_damaged)
            st.caption(" · ".join(filter(None, (day_and_time(card.used_at), words))))
        frame.press(
            texts.IS_OPEN if is_open else texts.OPEN,
            partial(frame.open_project, str(card.layout.folder)),
            key=f"open-{projects.token_of(card.layout)}",
            disabled=is_open,
        )


def _open_typed() -> None:
    frame.open_project(preparation.first_path(st.session_state.get("open_path")))


def next_round(layout: Layout) -> None:
    """Draw how a newer post image of the same event becomes the next round; nothing before there are buildings."""
    if not projects.summary(layout).n_buildings:
        return
    scenes = frame.own("round-post")
    with st.expander(texts.ROUND):
        st.caption(texts.ROUND_ABOUT)
        with st.container(horizontal=True, vertical_alignment="bottom"):
            post = st.text_area(texts.ROUND_POST, key=scenes, height=68)
            file_picker.browse_button(
                "round-scenes", texts.ROUND_POST, "scenes", file_picker.into_lines(scenes), several=True
            )
        beside = st.text_input(texts.ROUND_FOLDER, projects.next_folder(layout), key=frame.own("round-path"))
        frame.button(
            texts.ROUND_START,
            lambda: frame.use(projects.begin_round(layout, beside, preparation.paths_in(post))),
            key="begin-round",
        )


def removed(layout: Layout) -> None:
    """Draw what was removed, the newest with a way back, and how its space is reclaimed; nothing where nothing was
    removed.
    """
    found, n_bytes = removing.reclaimable(layout)
    if not found:
        return
    with st.expander(texts.REMOVED.format(n=len(found), size=size(n_bytes))):
        for one in found:
            row = removing.removed_row(layout, one)
            with st.container(horizontal=True, vertical_alignment="center", horizontal_alignment="distribute"):
                names = {"title": frame.plain(row["title"]), "analyst": frame.plain(row["analyst"])}
                st.markdown(texts.REMOVED_ROW.format(**{**row, **names}), width="content")
                if one is found[0]:
                    st.button(
                        texts.UNDO_REMOVAL, key=f"undo-removal-{one.number}", icon=":material/undo:",
                        on_click=frame.does(partial(removing.undo, layout, frame.analyst()), once=True),
                    )  # fmt: skip
        with st.popover(texts.RECLAIM, icon=":material/delete_forever:"):
            st.markdown(frame.plain(removing.reclaim_words(len(found), n_bytes)))
            numbers = [one.number for one in found]
            st.button(  # a callback has the numbers that were drawn: what was removed since stays
                texts.RECLAIM_NOW.format(size=size(n_bytes)), key="reclaim", type="primary",
                on_click=frame.does(partial(removals.reclaim, layout, numbers, analyst=frame.analyst())),
            )  # fmt: skip
