"""A federation between machines: Flower carries the messages over TLS (extra `federated`).

The leader's process is Flower's SuperLink and ServerApp, a member's process is its SuperNode. Flower starts no process
here and runs no code that came over the wire, so nothing is left behind when one is killed.
"""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path

from pu_geo.errors import FederationError

INSTALL = 'pip install -c constraints-federated.txt "pu-geo[federated]"'


def is_installed() -> bool:
    """Return whether Flower, which carries messages between machines, is installed."""
    return importlib.util.find_spec("flwr") is not None


def require_flower(folder: Path | None = None) -> None:
    """Let Flower ask nobody for anything, and keep its files in the folder of the federation. Called before it is imported.

    Args:
        folder: where Flower itself is used, and not its dependencies alone.

    Raises:
        FederationError: if it is not installed.
    """
    if not is_installed():
        raise FederationError(
            "A federation between machines needs Flower, which is not installed.",
            f"Install it in an environment of its own: {INSTALL}",
            kind="extra",
        )
    if folder is not None:
        os.environ |= {"FLWR_TELEMETRY_ENABLED": "0", "FLWR_DISABLE_UPDATE_CHECK": "1", "FLWR_HOME": str(folder / "flower")}
