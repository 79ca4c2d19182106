"""A button that makes a file when it is clicked, under an address that stays while its page is open; 300 at most over all tabs.

Streamlit's own gives the file another address in each run of a page, and drops the one before when the run ends. A click that comes
before the browser has the new one gets no file, and pages run by themselves whenever a job ends.
"""

from __future__ import annotations

import secrets
import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import streamlit as st

from pu_geo.ui.routes import PREFIX, Download

_MOST = 300  # buttons of all open pages; those that were not drawn for longest go first


_DOWNLOADS: OrderedDict[str, Download] = OrderedDict()  # by the names that stand in their addresses
_LOCK = threading.Lock()


def button(label: str, make: Callable[[], bytes | str], file_name: str, media_type: str, *, key: str, **look: Any) -> None:
    """Draw a button that downloads what `make` returns at the time of the click.

    Args:
        look: what else `st.link_button` takes.
    """
    if look.get("disabled"):  # a link that is none is read out as one, and pale text in it has too little contrast
        st.button(label, key=f"{key}:off", icon=":material/download:", **look)
        return
    name = st.session_state.setdefault(f"{key}:address", secrets.token_hex(16))
    with _LOCK:
        _DOWNLOADS[name] = Download(make, file_name, media_type)
        _DOWNLOADS.move_to_end(name)
        while len(_DOWNLOADS) > _MOST:
            _DOWNLOADS.popitem(last=False)
    st.link_button(label, f"{PREFIX}/downloads/{name}", key=key, icon=":material/download:", **look)


def find(name: str) -> Download | None:
    """Return what a button downloads; None for a name that no button has."""
    with _LOCK:
        return _DOWNLOADS.get(name)
