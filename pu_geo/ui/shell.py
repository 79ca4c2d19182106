"""The script that Streamlit runs: page configuration, the list of screens, and the frame around the current one.

It does not stand in `app.py`, because Streamlit takes a folder `pages` beside its script for the older kind of multipage
app, and would show a screen without its frame to whoever opens its address first.
"""

from __future__ import annotations

import streamlit as st

from pu_geo.services.project.launch import app_script
from pu_geo.ui import frame

PAGES = (
    ("project", "Project", ":material/folder_open:"),
    ("imagery", "Imagery", ":material/satellite_alt:"),
    ("annotate", "Annotate", ":material/ads_click:"),
    ("train", "Train", ":material/model_training:"),
    ("explore", "Explore", ":material/bubble_chart:"),
    ("damage_map", "Damage map", ":material/map:"),
)


def draw() -> None:
    """Draw the current page in its frame."""
    st.set_page_config(page_title="PU-Geo", page_icon="🏚️", layout="wide")
    folder = app_script().parent / "pages"
    pages = {
        name: st.Page(folder / f"{name}.py", title=title, icon=icon, default=name == "project")
        for name, title, icon in PAGES
    }
    frame.draw(pages, st.navigation(list(pages.values()), position="sidebar"))


draw()
