"""Widgets of what is stored in the project: they show what was chosen on any screen and in any session, and store a change."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

import streamlit as st

from pu_geo.project.layout import Layout
from pu_geo.records import RunFacts
from pu_geo.services.project import choices
from pu_geo.ui import frame


def run_box(layout: Layout, found: Sequence[RunFacts], key: str) -> RunFacts:
    """Draw the choice of the run that all screens, the live map and exports show, among one or more, newest first; return it."""
    shown = choices.chosen_run(layout) or found[0]
    st.session_state[key] = shown.run_id
    st.selectbox(
        "Run", [run.run_id for run in found], key=key,
        on_change=frame.does(lambda: choices.choose_run(layout, st.session_state[key])),
        help="The run that all screens, the live map (QGIS) and exports show. Your choice stays until somebody chooses another.",
    )  # fmt: skip
    why = choices.why_chosen(layout) or "newest"
    newer = "" if shown.run_id == found[0].run_id else f" The newest is {frame.plain(found[0].run_id)}."
    st.caption(f"This run is {choices.WHY_WORDS[why]}.{newer}")
    if why == "person":
        st.button(
            "Choose automatically", key=f"{key}-auto", on_click=frame.does(lambda: choices.choose_automatically(layout)),
            help="The run published last, else the one audited last, else the newest of the recommended method.",
        )  # fmt: skip
    return shown


def threshold_slider(layout: Layout, run: RunFacts) -> float:
    """Draw the threshold of a run's map; return it, 0..1 with 4 decimals."""
    limit, key = choices.threshold(layout, run.run_id), f"threshold-{run.run_id}"
    st.session_state[key] = limit.value
    st.slider(
        "Threshold", 0.0, 1.0, step=0.001, key=key, format="%.3f",
        on_change=frame.does(lambda: choices.choose_threshold(layout, run.run_id, st.session_state[key])),
        help=f"Scores from here on are flagged. This one: {limit.words}.",
    )  # fmt: skip
    return limit.value


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
