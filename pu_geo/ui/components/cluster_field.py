"""The field for a cluster, folded away: most people work on one computer."""

from __future__ import annotations

import streamlit as st

from pu_geo import wording
from pu_geo.services.project import computers
from pu_geo.ui import frame
from pu_geo.ui.components import texts

_MOST_ON_THE_BUTTON = 40  # characters


def draw(key: str, about: str) -> None:
    """Draw the field with what a cluster is trusted with, or how to get what it needs. The button names the cluster that is given.

    Args:
        key: of its value, see `given`.
        about: what is done on the cluster, in words.
    """
    with st.popover(_label(given(key)), icon=":material/lan:"):
        if not computers.has_dask():
            st.caption(texts.NO_DASK)
            return
        st.session_state[key] = given(key)  # in each run: opened later, the popover shows what the newest run set
        st.text_input(texts.CLUSTER, key=key, placeholder=texts.CLUSTER_EXAMPLE, help=texts.CLUSTER_HELP)
        st.session_state[_kept(key)] = st.session_state[key]
        st.caption(about)
        st.markdown(texts.CLUSTER_TRUSTED)
    with frame.show_errors():  # beside the field, before a job is asked for
        computers.arguments(given(key))


def given(key: str) -> str:
    """Return the name of the cluster that a person wrote, also before another page was opened; "" for none."""
    return str(st.session_state.get(key, st.session_state.get(_kept(key))) or "").strip()


def _kept(key: str) -> str:
    return f"{key}-kept"  # a field's own value goes with the page that draws it


def _label(cluster: str) -> str:
    if not cluster or not computers.has_dask():
        return texts.MORE_COMPUTERS
    return f"{texts.MORE_COMPUTERS}: {frame.plain(wording.shortened(cluster, _MOST_ON_THE_BUTTON))}"
