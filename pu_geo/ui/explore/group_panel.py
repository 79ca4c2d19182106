"""Clusters: choose one to see it on picture, map and chips, and accept or reject it by a key."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import streamlit as st

from pu_geo.explore import groups
from pu_geo.explore.groups import Group, Grouping
from pu_geo.store.layout import Layout
from pu_geo.ui import frame
from pu_geo.ui.explore import selection_panel, texts
from pu_geo.wording import plural

_MOST_SHOWN = 40


def draw(layout: Layout, source: str, run_id: str, key: str) -> None:
    """Draw the clusters of a source, and what can be done with the chosen one.

    Args:
        run_id: of the run whose clusters by PUPL come with them; none if "".
        key: of the view.
    """
    _undo(layout)
    if not groups.v(layout, source):
        st.caption(texts.NO_CLUSTERS)
        return
    with frame.show_errors():
        found = groups.grouping(layout, source, run_id)
        shown = [one for at, one in enumerate(found.groups) if at < _MOST_SHOWN or one.words in groups.OF_PUPL]
        chosen = next((each for each in found.groups if each.building_ids == selection_panel.shown_group(key)), None)
        _steps(key, shown, chosen)
        if chosen is not None:
            _acts(layout, source, chosen)
        st.caption(found.why)

        def choose() -> None:
            if (at := st.session_state[f"{key}:groups"]) is not None:
                _choose(key, shown[at])

        st.session_state[f"{key}:groups"] = shown.index(chosen) if chosen in shown else None
        st.radio(
            texts.CLUSTERS, range(len(shown)), key=f"{key}:groups", label_visibility="collapsed", on_change=choose,
            format_func=lambda at: _title(shown[at]), captions=[_facts(each, found) for each in shown],
        )  # fmt: skip
        if n_more := len(found.groups) - len(shown):
            st.caption(texts.MORE_CLUSTERS.format(n=n_more))


def _choose(key: str, group: Group) -> None:
    selection_panel.select(key, group.building_ids)
    st.session_state[f"{key}:group"], st.session_state[f"{key}:asked"] = group.building_ids, None


def _title(group: Group) -> str:
    return f"**{frame.plain(group.words)}**" + (f" :violet-badge[{texts.MARKS[group.state]}]" if group.state else "")


def _facts(group: Group, found: Grouping) -> str:
    words = [plural(len(group.building_ids), "building"), texts.CLICKS_IN.format(n=group.n_positive, all=found.n_positive)]
    words += [texts.NOT_DAMAGED_IN.format(n=group.n_not_damaged)] if group.n_not_damaged else []
    return ", ".join(words) + (f" · {texts.FOLLOWS.format(what=frame.plain(group.follows))}" if group.follows else "")


def _undo(layout: Layout) -> None:
    """Draw what the next training learns from, what was decided last, and the button that takes it back."""
    st.markdown(texts.NEXT_TRAINING.format(words=groups.next_training(layout)))
    if (last := groups.newest(layout)) is not None:
        number, words = last
        with st.container(horizontal=True, vertical_alignment="center", gap="small"):
            st.caption(frame.plain(words), width="stretch")
            frame.press(
                texts.UNDO, lambda: groups.undo(layout, number, analyst=frame.analyst()), once=True,
                key=f"group-undo-{number}", icon=":material/undo:",
            )  # fmt: skip


def _steps(key: str, shown: Sequence[Group], chosen: Group | None) -> None:
    at = shown.index(chosen) if chosen in shown else None
    with st.container(horizontal=True, gap="small"):
        for words, shortcut, to in (
            (texts.BEFORE, "Shift+J", None if at is None else at - 1), (texts.NEXT, "J", 0 if at is None else at + 1),
        ):  # fmt: skip
            is_there = to is not None and 0 <= to < len(shown)
            st.button(
                words, key=f"group-{shortcut}", shortcut=shortcut, disabled=not is_there,
                on_click=partial(_choose, key, shown[to]) if is_there and to is not None else None,
            )  # fmt: skip


def _acts(layout: Layout, source: str, group: Group) -> None:
    which = frame.digest(group.building_ids)
    with st.container(horizontal=True, gap="small"):
        for words, act, shortcut, is_off in (
            (texts.ACCEPT, groups.accept, "Y", group.n_open == 0 or group.state == "accepted"),
            (texts.REJECT, groups.reject, "X", group.state == "rejected"),
        ):
            frame.press(
                words, partial(act, layout, source, group, analyst=frame.analyst()), once=True, disabled=is_off,
                key=f"group-{shortcut}-{which}", shortcut=shortcut,
            )  # fmt: skip
    if group.n_open and group.state != "accepted":
        st.caption(texts.ACCEPT_ADDS.format(n=plural(group.n_open, "pseudo-positive")))
