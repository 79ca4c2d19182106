"""Be the worker of a job where no third-party module can be imported but torch, torchvision, numpy and what these need."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from importlib import machinery, metadata
from types import ModuleType
from typing import Any

BARE = ("torch", "torchvision", "numpy", "setuptools")  # torch asks for the last one where it is


def blocked() -> set[str]:
    """Top-level modules of all distributions that are installed here, but the bare ones and what these require."""
    open_, known = list(BARE), set()
    while open_:
        name = open_.pop()
        if name in known:
            continue
        known.add(name)
        try:
            needs = metadata.requires(name) or []
        except metadata.PackageNotFoundError:
            continue
        open_ += [re.match(r"[\w.-]+", need)[0] for need in needs if "extra ==" not in need]  # type: ignore[index]
    by_module = metadata.packages_distributions()
    plain = {name.lower().replace("_", "-") for name in known}
    return {
        module
        for module, names in by_module.items()
        if not plain & {name.lower().replace("_", "-") for name in names}
        and module not in ("pu_geo", *sys.stdlib_module_names)
    }


class Without:
    """A finder that finds what another one finds, but for some modules: to these it says what it says of any stranger."""

    def __init__(self, finder: Any, names: set[str]) -> None:
        self.finder, self.names = finder, names

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> machinery.ModuleSpec | None:
        found: machinery.ModuleSpec | None = None
        if name.partition(".")[0] not in self.names:
            found = self.finder.find_spec(name, path, target)
        return found


if __name__ == "__main__":
    names = {name for name in blocked() if not name.startswith("_")}
    assert {"scipy", "safetensors", "shapely", "sklearn", "cv2", "rasterio", "streamlit"} <= names
    sys.meta_path[:] = [Without(finder, names) for finder in sys.meta_path]  # type: ignore[misc]
    from pu_geo.jobs import worker

    code = worker.main(sys.argv[1:])
    assert not names & set(sys.modules), names & set(sys.modules)
    sys.exit(code)
