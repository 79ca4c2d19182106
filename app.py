"""PU-Geo in the browser. `python app.py` serves it on this machine; inside Streamlit the same file draws the frame."""

from __future__ import annotations

import os
from pathlib import Path

import streamlit as st
from streamlit import runtime

from pu_geo.ui import frame
from pu_geo.ui.routes import routes

PAGES = (
    ("project", "Project", ":material/folder_open:"),
    ("imagery", "Imagery", ":material/satellite_alt:"),
    ("annotate", "Annotate", ":material/ads_click:"),
    ("train", "Train", ":material/model_training:"),
    ("explore", "Explore", ":material/bubble_chart:"),
    ("damage_map", "Damage map", ":material/map:"),
)
LOOPBACK = "127.0.0.1"


def draw() -> None:
    """Draw the frame around the current page."""
    st.set_page_config(page_title="PU-Geo", page_icon="🏚️", layout="wide")
    folder = Path(__file__).parent / "pages"
    pages = {
        name: st.Page(folder / f"{name}.py", title=title, icon=icon, default=name == "project")
        for name, title, icon in PAGES
    }
    frame.draw(pages, st.navigation(list(pages.values()), position="sidebar"))


def serve() -> None:
    """Serve on the loopback address only, without telemetry and without tracebacks on pages."""
    port = int(os.environ.get("PU_GEO_PORT", "8501"))
    app = st.App(__file__, routes=routes(frame.resolve, frame.scores))
    app.run(
        config={
            "server.address": LOOPBACK,
            "server.port": port,
            "server.allowedHosts": [LOOPBACK, "localhost"],
            "server.enableXsrfProtection": True,
            "server.enableCORS": True,
            "server.headless": os.environ.get("PU_GEO_BROWSER", "yes") != "yes",
            "server.fileWatcherType": "none",
            "server.showEmailPrompt": False,
            "browser.gatherUsageStats": False,
            "browser.serverAddress": LOOPBACK,
            "client.showErrorDetails": "none",
            "client.showErrorLinks": False,
            "client.toolbarMode": "minimal",
            "theme.primaryColor": "#0B6E99",
            "theme.paddingTop": "1.5rem",
            "theme.metricValueFontSize": "1.4rem",
        }
    )


if runtime.exists():
    draw()
elif __name__ == "__main__":
    serve()
