"""Start the browser app from the command line: find `app.py`, in a clone or in an installed wheel, and run it."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import pu_geo
from pu_geo.errors import PuGeoError
from pu_geo.project.layout import find_project

OPEN_VARIABLE = "PU_GEO_OPEN"
BROWSER_VARIABLE = "PU_GEO_BROWSER"
SAMPLE = "sample"


def app_script() -> Path:
    """Return the path of `app.py`. Raises PuGeoError if it is not part of this installation."""
    package = Path(pu_geo.__file__).parent
    for path in (package / "_app" / "app.py", package.parent / "app.py"):
        if path.is_file():
            return path
    raise PuGeoError("The app's screens are not part of this installation.", "Install PU-Geo again from its wheel.")


def launch_app(project: str | None, *, port: int, sample: bool, browser: bool) -> int:
    """Serve the app on this machine until it is stopped; return its exit code.

    Args:
        project: folder to open first, or None.
        sample: open the sample event first.
        browser: open a browser window, where there is one.

    Raises:
        PuGeoError: if the project or the app is not there, or the port is no port.
    """
    if not 1 <= port <= 65535:
        raise PuGeoError(f"Port {port} does not exist; ports are 1 to 65535.", "Leave --port out to use 8501.")
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError as error:
            raise PuGeoError(
                f"Port {port} is taken: {error.strerror}.", f"Is PU-Geo running already? Else add --port {port + 1}."
            ) from error
    first = SAMPLE if sample else str(find_project(project).folder) if project else ""
    environment = {**os.environ, OPEN_VARIABLE: first, BROWSER_VARIABLE: "yes" if browser else "no"}
    try:
        return subprocess.call([sys.executable, str(app_script()), str(port)], env=environment)
    except KeyboardInterrupt:
        return 0
