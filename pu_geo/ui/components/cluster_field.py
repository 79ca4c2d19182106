"""The field for a cluster, folded away: most people work on one computer."""

from __future__ import annotations

import streamlit as st

from pu_geo.scale import computers
from pu_geo.ui import frame
from pu_geo.ui.components import texts


def draw(key: str, about: str) -> None:
    """Draw the field with what a cluster is trusted with, or how to get what it needs.

    Args:
        key: of its value, see `given`.
        about: what is done on the cluster, in words.
    """
    with st.popover(texts.MORE_COMPUTERS, icon=":material/lan:"):
        if not computers.has_dask():
            st.caption(texts.NO_DASK)
            return
        st.text_input(texts.CLUSTER, key=key, placeholder=texts.CLUSTER_EXAMPLE, help=texts.CLUSTER_HELP)
        st.caption(about)
        st.markdown(texts.CLUSTER_TRUSTED)
    with frame.show_errors():  # beside the field, before a job is asked for
        computers.arguments(given(key))


def given(key: str) -> str:
    """Return the name of the cluster that a person wrote; "" for none."""
    return str(st.session_state.get(key) or "").strip()
