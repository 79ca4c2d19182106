"""Widgets of what is stored in the project: they show what was chosen on any screen and in any session, and store a
change.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from functools import partial
from typing import Any

import streamlit as st

from pu_geo.records import RunFacts
from pu_geo.store import chosen, run_names
from pu_geo.store.layout import Layout
from pu_geo.ui import frame
from pu_geo.ui.components import texts

_SHOWN = (  # by widget: how often its value was changed elsewhere, the value it shows, and whether that was set by itself
    "shown-values"
)


def shows(key: str, value: object, store: Callable[[Any], object]) -> dict[str, Any]:
    """Set the widget that is drawn next to a stored value; return its `key` and its `on_change`, which stores what it holds
    then.

    With each act a browser sends what all widgets hold, also one that it has not drawn anew yet. So a value that was changed
    elsewhere, by another widget, a job or another analyst, is shown by a new widget: what the browser still holds of the old
    one is no choice.

    Args:
        key: of the widget; a number is added to it with each change elsewhere.
        store: takes the new value.
    """
    shown = st.session_state.setdefault(_SHOWN, {})
    n, before, is_own = shown.get(key, (0, value, True))
    n += not is_own and value != before
    shown[key] = n, value, False
    drawn = f"{key}-{n}" if n else key
    st.session_state[drawn] = value  # in each run: a popover that opens later shows what the newest run set

    def change() -> None:
        is_old = shown[key][0] != n  # Streamlit calls also what belongs to a widget that is gone
        if not is_old and (wanted := st.session_state[drawn]) != shown[key][1]:
            shown[key] = n, value, True
            store(wanted)

    return {"key": drawn, "on_change": frame.does(change)}


def run_box(layout: Layout, found: Sequence[RunFacts], key: str) -> RunFacts:
    """Draw the choice of the run that all screens, the live map and exports show, among one or more, newest first; return
    it.
    """
    shown, names = chosen.chosen_run(layout) or found[0], run_names.names(layout)
    st.selectbox(
        texts.RUN, [run.run_id for run in found], format_func=lambda run_id: names.get(run_id, run_id),
        help=texts.RUN_HELP.format(run_id=shown.run_id), **shows(key, shown.run_id, partial(chosen.choose_run, layout)),
    )  # fmt: skip
    why = chosen.why_chosen(layout) or "newest"
    newer = "" if shown.run_id == found[0].run_id else texts.NEWER.format(name=frame.plain(names[found[0].run_id]))
    st.caption(f"{texts.WHY.format(why=chosen.WHY_WORDS[why].capitalize())}{newer}")
    if why == "person":
        frame.press(
            texts.AUTOMATIC, lambda: chosen.choose_automatically(layout), key=f"{key}-auto", help=texts.AUTOMATIC_HELP
        )
    return shown


def kept(
    layout: Layout, name: chosen.Name, key: str, offered: Collection[object] | None = None
) -> dict[str, Any]:  # fmt: skip
    """Return `key` and `on_change` of the widget that is drawn next, which shows a choice kept in the project; see `shows`.

    Args:
        offered: what can be chosen; what is stored and not among it is left out, or the first one stands for it.
    """
    value = chosen.setting(layout, name)
    if offered is not None and isinstance(value, list):
        value = [one for one in value if one in offered]
    elif offered is not None and value not in offered:
        value = next(iter(offered))
    return shows(key, value, partial(chosen.choose_setting, layout, name))


def for_session(key: str, usual: object = None, offered: Collection[object] | None = None) -> dict[str, Any]:
    """Return `key` and `on_change` of the widget that is drawn next, which shows what was chosen in this session, also after
    other screens were open. It needs no project that may be changed.

    Args:
        offered: what can be chosen; `usual` stands for what is not among it.
    """
    kept = st.session_state.setdefault("kept-choices", {})
    value = kept.get(key, usual)
    value = usual if offered is not None and value not in offered else value
    return shows(key, value, partial(kept.__setitem__, key))
