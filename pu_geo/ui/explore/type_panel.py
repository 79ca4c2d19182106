"""Damage types: search for groups, see one on picture, map and wall, and name, merge or drop them."""

from __future__ import annotations

from functools import partial
from typing import Any

import streamlit as st

from pu_geo import jobs
from pu_geo.explore import discovering
from pu_geo.explore.actions import Discover
from pu_geo.explore.discovering import Group, Proposal
from pu_geo.jobs.actions import limits
from pu_geo.store.layout import Layout
from pu_geo.ui import frame
from pu_geo.ui.components import job_card
from pu_geo.ui.explore import selection_panel, texts
from pu_geo.wording import plural


def draw(layout: Layout, run_id: str, key: str) -> None:
    """Draw the job, and the groups of a discovery with what can be done with them.

    Args:
        run_id: of the run whose mean score each group shows; "" shows none.
        key: of the view, where a group is selected.
    """
    st.caption(texts.TYPES_NOTE)
    _draw_start(layout)
    is_active = job_card.watch_unless_done(layout, "types")
    known = discovering.titles(layout)
    if not known:
        if not is_active:
            st.info(texts.NO_TYPES, icon=":material/category:")
        return
    ids = list(known)
    chosen = (
        ids[0]
        if len(ids) == 1
        else st.selectbox(texts.DISCOVERY, ids, help=texts.DISCOVERY_HELP, format_func=known.__getitem__)
    )
    with frame.show_errors():
        _draw_proposal(layout, discovering.proposal(layout, chosen, run_id or None), key)


def _draw_start(layout: Layout) -> None:
    problem = discovering.why_not(layout)
    if problem:
        st.info(problem)
        frame.link("annotate", texts.MARK_BUILDINGS)
        return
    number, seeds = st.columns(2, vertical_alignment="bottom")
    number.number_input(
        texts.GROUPS, value=None, key="types-groups", placeholder=texts.GROUPS_CHOSEN, help=texts.GROUPS_HELP,
        **limits(Discover, "n_groups"),
    )  # fmt: skip
    seeds.number_input(
        texts.TRAININGS,
        value=discovering.N_SEEDS,
        key="types-seeds",
        help=texts.TRAININGS_HELP,
        **limits(Discover, "n_seeds"),
    )
    frame.press(texts.SEARCH_TYPES, lambda: jobs.start(
            layout, Discover(st.session_state["types-groups"], n_seeds=int(st.session_state["types-seeds"]))
        ), icon=":material/category:", key="types-start")  # fmt: skip


def _draw_proposal(layout: Layout, found: Proposal, key: str) -> None:
    known = ", ".join(f"{n} {frame.plain(name)}" for name, n in found.facts["known"].items())
    st.markdown(texts.GROUPS_FROM.format(n=len(found.shown), known=known))
    frame.caption(discovering.number_words(found))
    frame.caption(discovering.reading_words(found))
    if found.n_new_answers:
        st.caption(texts.NEW_ANSWERS.format(n=found.n_new_answers))
    _draw_acts(layout, found)
    for group in found.shown:
        _draw_group(layout, found, group, key)
    for group in found.dropped:
        words, back = st.columns([5, 2], vertical_alignment="center")
        n = plural(len(group.building_ids), "building")
        words.caption(texts.DROPPED.format(title=group.title, n=n))
        put_back = partial(discovering.put_back, layout, found.id, group.numbers[0], analyst=frame.analyst())
        frame.press(texts.RESTORE, put_back, key=f"back-{found.id}-{group.title}", icon=":material/undo:", place=back)


def _draw_acts(layout: Layout, found: Proposal) -> None:
    """Draw what is done with several groups, and the way back."""
    by_title = {group.title: group for group in found.shown}
    chosen = st.multiselect(
        texts.MERGE_GROUPS, list(by_title), key=f"merge-{found.id}", placeholder=texts.MERGE_EXAMPLE,
        format_func=lambda title: f"{title} {by_title[title].name}".strip(),
    )  # fmt: skip
    numbers, (merge, undo) = [by_title[title].numbers[0] for title in chosen], st.columns(2)
    frame.button(
        texts.MERGE, lambda: discovering.merge_groups(layout, found.id, numbers, analyst=frame.analyst()),
        key=f"merge-now-{found.id}", place=merge, icon=":material/merge:", disabled=len(chosen) < 2,
    )  # fmt: skip
    last = discovering.last_act(layout, found.id)  # what the page shows now, and no later one
    frame.press(
        texts.UNDO,
        lambda: discovering.undo(layout, found.id, decision=last, analyst=frame.analyst()),
        icon=":material/undo:",
        key=f"types-undo-{found.id}-{last}",
        help=texts.UNDO_TYPES_HELP,
        disabled=last is None,
        place=undo,
        once=True,
    )


def _draw_group(layout: Layout, found: Proposal, group: Group, view: str) -> None:
    act: dict[str, Any] = {
        "layout": layout,
        "discovery_id": found.id,
        "number": group.numbers[0],
        "analyst": frame.analyst(),
    }
    key = f"{found.id}-{group.title}"
    with st.container(border=True):
        badge = f" · :green-badge[{frame.plain(group.name)}]" if group.name else ""
        st.markdown(f"**Group {group.title}**{badge} · {plural(len(group.building_ids), 'building')}")
        st.caption(_facts_words(group))
        with st.container(horizontal=True, gap="small"):
            frame.press(
                texts.SHOW,
                partial(selection_panel.select, view, group.building_ids),
                key=f"show-{key}",
                help=texts.SHOW_HELP,
            )
            _draw_name(group, key, act)
            if len(group.numbers) > 1:
                frame.press(
                    texts.SPLIT, lambda: discovering.split_group(**act), icon=":material/call_split:", key=f"split-{key}"
                )
            frame.press(
                texts.DROP, lambda: discovering.drop_group(**act), icon=":material/close:", key=f"drop-{key}",
                help=texts.DROP_HELP,
            )  # fmt: skip


def _draw_name(group: Group, key: str, act: dict[str, Any]) -> None:
    button = st.popover(
        texts.RENAME if group.name else texts.NAME, icon=":material/label:", key=f"naming-{key}-{group.name}"
    )
    with button, st.form(f"name-form-{key}", border=False):  # a new key, and so a closed one, once the name is saved
        st.text_input(texts.NAME_FIELD, group.name, max_chars=60, key=f"name-{key}", placeholder=texts.NAME_EXAMPLE)
        st.caption(texts.NAME_NOTE)
        st.form_submit_button(
            texts.SAVE_NAME, on_click=frame.does(lambda: discovering.name_group(**act, name=st.session_state[f"name-{key}"]))
        )


def _facts_words(group: Group) -> str:
    facts = [texts.DAMAGED_BUILDINGS.format(n=group.n_positive)]
    if group.n_not_damaged:
        facts.append(texts.NOT_DAMAGED_BUILDINGS.format(n=group.n_not_damaged))
    facts += [f"{frame.plain(name)} {n}" for name, n in group.types.items()]
    if group.score is not None:
        facts.append(texts.MEAN_SCORE.format(score=group.score))
    return " · ".join([*facts, frame.plain(group.stability_words)])
