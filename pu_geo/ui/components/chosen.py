"""Widgets of what is stored in the project: they show what was chosen on any screen and in any session, and store a change."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

import streamlit as st

from pu_geo.project.layout import Layout
from pu_geo.records import RunFacts
from pu_geo.services.project import choices
from pu_geo.services.train import run_names
from pu_geo.ui import frame
from pu_geo.ui.components import texts


def run_box(layout: Layout, found: Sequence[RunFacts], key: str) -> RunFacts:
    """Draw the choice of the run that all screens, the live map and exports show, among one or more, newest first; return it."""
    shown, names = choices.chosen_run(layout) or found[0], run_names.names(layout)
    st.session_state[key] = shown.run_id
    st.selectbox(
        texts.RUN, [run.run_id for run in found], key=key, format_func=lambda run_id: names.get(run_id, run_id),
        on_change=frame.does(lambda: choices.choose_run(layout, st.session_state[key])),
        help=texts.RUN_HELP.format(run_id=shown.run_id),
    )  # fmt: skip
    why = choices.why_chosen(layout) or "newest"
    newer = "" if shown.run_id == found[0].run_id else texts.NEWER.format(name=frame.plain(names[found[0].run_id]))
    st.caption(f"{texts.WHY.format(why=choices.WHY_WORDS[why].capitalize())}{newer}")
    if why == "person":
        st.button(
            texts.AUTOMATIC, key=f"{key}-auto", on_click=frame.does(lambda: choices.choose_automatically(layout)),
            help=texts.AUTOMATIC_HELP,
        )  # fmt: skip
    return shown


def kept(
    layout: Layout, name: choices.Name, key: str, offered: Collection[object] | None = None
) -> Callable[[], None]:  # fmt: skip
    """Set the widget `key`, which is drawn next, to what is stored; return its `on_change`, which stores what it holds then.

    Args:
        offered: what can be chosen; what is stored and not among it is left out, or the first one stands for it.
    """
    value = choices.setting(layout, name)
    if offered is not None and isinstance(value, list):
        value = [one for one in value if one in offered]
    elif offered is not None and value not in offered:
        value = next(iter(offered))
    st.session_state[key] = value
    return frame.does(lambda: choices.choose_setting(layout, name, st.session_state[key]))
