"""Remove one thing of a project: a button, and a dialog that lists what goes, what is out of date then and what stays."""

from __future__ import annotations

from collections.abc import Sequence

import streamlit as st

from pu_geo.errors import ProjectError, PuGeoError
from pu_geo.lifecycle import removing
from pu_geo.store.layout import Layout
from pu_geo.store.removals import Kind
from pu_geo.ui import frame
from pu_geo.ui.components import texts

_OPEN, _TIMES = "removal-open", "removal-times"  # what the open dialog is about; how many were opened
_SHOWN = "removal-shown"  # the list that was drawn last


def menu_key(name: str) -> str:
    """Return the key of a popover that holds such a button: it closes as the dialog opens, which it would cover."""
    return f"{name}-{st.session_state.get(_TIMES, 0)}"


def button(
    layout: Layout,
    kind: Kind,
    name: str,
    *,
    key: str,
    label: str = texts.REMOVE,
    paths: Sequence[str] = (),
    disabled: bool = False,
) -> None:
    """Draw a button that opens the dialog.

    Args:
        name: as `removing.plan` takes it.
        key: of this button on its page.
        paths: files to take the place of a scene or a layer; none to remove it.
    """
    subject = (frame.visit(), key, layout.folder, name, *paths)  # it stays closed on a screen that was left meanwhile
    st.button(
        label, key=key, icon=":material/delete:" if not paths else ":material/swap_horiz:", disabled=disabled,
        on_click=lambda: st.session_state.update({_OPEN: subject, _TIMES: st.session_state.get(_TIMES, 0) + 1}),
    )  # fmt: skip
    if st.session_state.get(_OPEN) == subject:
        title = texts.REPLACE_TITLE if paths else texts.REMOVE_TITLE
        st.dialog(title, width="medium", on_dismiss=_close)(_draw)(layout, kind, name, paths)


def _close() -> None:
    st.session_state.pop(_OPEN, None)
    st.session_state.pop(_SHOWN, None)


def _draw(layout: Layout, kind: Kind, name: str, paths: Sequence[str]) -> None:
    try:
        found = removing.plan(layout, kind, name, paths)
    except PuGeoError as error:
        st.error(f"**{frame.plain(error.problem)}**\n\n{frame.plain(error.hint)}", icon=":material/error:")
        return
    confirmed = st.session_state.get(_SHOWN)
    st.session_state[_SHOWN] = found.lines

    def do() -> None:
        if found.lines != confirmed:
            raise ProjectError(texts.REMOVAL_CHANGED, texts.REMOVAL_READ_AGAIN)
        removing.start(layout, found, frame.analyst())
        _close()

    st.markdown("\n".join(f"- {frame.plain(line)}" for line in found.lines))
    with st.container(horizontal=True):
        frame.button(texts.REPLACE if paths else texts.REMOVE, do, key="removal-do", type="primary", icon=":material/check:")
        frame.button(texts.KEEP, _close, key="removal-keep")
