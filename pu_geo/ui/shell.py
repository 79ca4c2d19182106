"""The script that Streamlit runs: page configuration, the list of screens, and the frame around the current one.

It does not stand in `app.py`, because Streamlit takes a folder `pages` beside its script for the older kind of multipage
app, and would show a screen without its frame to whoever opens its address first.
"""

from __future__ import annotations

from pathlib import Path

import streamlit as st

from pu_geo.lifecycle.launch import app_script
from pu_geo.ui import frame
from pu_geo.ui.components import job_card

PAGES = (
    ("project", "Project", ":material/folder_open:"),
    ("imagery", "Imagery", ":material/satellite_alt:"),
    ("annotate", "Annotate", ":material/ads_click:"),
    ("train", "Train", ":material/model_training:"),
    ("explore", "Explore", ":material/bubble_chart:"),
    ("damage_map", "Damage map", ":material/map:"),
    ("research", "Research", ":material/science:"),
)
ASSETS = Path(__file__).with_name("assets")
SIDEBAR_PX = 208


def draw() -> None:
    """Draw the current page in its frame."""
    st.set_page_config(page_title="PU-Geo", page_icon=ASSETS / "mark.svg", layout="wide", initial_sidebar_state=SIDEBAR_PX)
    st.logo(str(ASSETS / "logo.svg"), icon_image=str(ASSETS / "mark.svg"))
    st.html(ASSETS / "shell.html")
    folder = app_script().parent / "pages"
    pages = {
        name: st.Page(folder / f"{name}.py", title=title, icon=icon, default=name == "project")
        for name, title, icon in PAGES
    }
    with st.container(
        key="news"
    ):  # in the first run of a session, too: what came into its place later would close open popovers
        if (layout := frame.current()) is not None:
            job_card.announce(layout)
    frame.draw(pages, st.navigation(list(pages.values()), position="hidden"))


draw()
