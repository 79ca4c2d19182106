"""PU-Geo in the browser: `python app.py [PORT]` serves it on this machine. What is drawn stands in `pu_geo/ui/shell.py`."""

from __future__ import annotations

import gc
import sys
from pathlib import Path

import streamlit as st
from starlette.middleware import Middleware

import pu_geo.ui
from pu_geo.ui import frame
from pu_geo.ui.guard import LARGEST, Guard, UploadLimit
from pu_geo.ui.routes import routes
from pu_geo.ui.serving import Serving

LOOPBACK = "127.0.0.1"
HOSTS = [LOOPBACK, "localhost"]
CONFIG = {
    "logger.hideWelcomeMessage": True,  # also keeps Streamlit from advertising its add-ons over our pages
    "server.address": LOOPBACK,
    "server.allowedHosts": HOSTS,
    "server.headless": True,  # the browser gets the address with the secret from us
    "server.enableXsrfProtection": True,
    "server.enableCORS": True,
    "server.fileWatcherType": "none",
    "server.maxUploadSize": LARGEST // 1024**2,  # MB
    "server.showEmailPrompt": False,
    # Fast reruns start a thread beside the one that still draws: one of two quick clicks was lost, or a page stopped to
    # refresh.
    "runner.fastReruns": False,
    "runner.postScriptGC": False,  # collecting after each rerun took longer than the rerun
    "browser.gatherUsageStats": False,
    "browser.serverAddress": LOOPBACK,
    "client.allowedOrigins": [],  # whose pages may steer the app from outside; by default Streamlit's own sites
    "client.showErrorDetails": "none",
    "client.showErrorLinks": False,
    "client.toolbarMode": "minimal",
    # No base theme is set, so that it follows the system. Text and captions keep 4.5 : 1 on both backgrounds in either.
    "theme.metricValueFontSize": "1.4rem",
    "theme.light.primaryColor": "#0B5A7D",
    "theme.light.textColor": "#10151C",
    "theme.light.backgroundColor": "#FFFFFF",
    "theme.light.secondaryBackgroundColor": "#F3F5F7",
    "theme.light.sidebar.backgroundColor": "#F3F5F7",
    "theme.light.sidebar.secondaryBackgroundColor": "#FFFFFF",
    "theme.dark.primaryColor": "#4AA3CF",
    "theme.dark.textColor": "#F2F5F7",
    "theme.dark.backgroundColor": "#12171D",
    "theme.dark.secondaryBackgroundColor": "#1D242C",
    "theme.dark.sidebar.backgroundColor": "#1A2027",
    "theme.dark.sidebar.secondaryBackgroundColor": "#12171D",
}

serving = Serving()
app = st.App(
    Path(pu_geo.ui.__file__).with_name("shell.py"),
    routes=routes(),
    middleware=[Middleware(Guard, secret=serving.secret, key=serving.key), Middleware(UploadLimit)],
    lifespan=serving.lifespan,
)

# Of a million buildings, Python's garbage collector took a third of a page's first draw: by default it goes through all
# objects again and again while they are made.
COLLECT_AFTER = (100_000, 20, 10)

if __name__ == "__main__":
    gc.set_threshold(*COLLECT_AFTER)
    port = int(sys.argv[1]) if len(sys.argv) > 1 else 8501
    frame.keep_backups()
    serving.check(port)
    app.run(config={**CONFIG, "server.port": port})
