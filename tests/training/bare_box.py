"""Train where nothing can be imported but torch, torchvision, numpy, scipy, scikit-learn, safetensors and what these need, and no room of ours
that a bare machine lacks."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from importlib import machinery, metadata
from types import ModuleType
from typing import Any

BARE = (
    "torch",
    "torchvision",
    "numpy",
    "scipy",
    "scikit-learn",
    "safetensors",
    "setuptools",
)  # torch asks for the last one where it is
ROOMS = ("cli", "jobs", "services", "geo", "ui", "federation", "scale", "datasets")


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
    plain = {name.lower().replace("_", "-") for name in known}
    return {
        module
        for module, names in metadata.packages_distributions().items()
        if not plain & {name.lower().replace("_", "-") for name in names}
        and module not in ("pu_geo", *sys.stdlib_module_names)
        and not module.startswith("_")
    }


class Without:
    """A finder that finds what another one finds, but for some modules."""

    def __init__(self, finder: Any, names: set[str]) -> None:
        self.finder, self.names = finder, names

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> machinery.ModuleSpec | None:
        first, _, rest = name.partition(".")
        if first in self.names or (first == "pu_geo" and rest.partition(".")[0] in ROOMS):
            return None
        found: machinery.ModuleSpec | None = self.finder.find_spec(name, path, target)
        return found

    def __getattr__(self, name: str) -> Any:
        return getattr(self.finder, name)


if __name__ == "__main__":
    gone = blocked()
    assert {"shapely", "umap", "cv2", "rasterio", "streamlit"} <= gone
    sys.meta_path[:] = [Without(finder, gone) for finder in sys.meta_path]  # type: ignore[misc]
    from pu_geo.training.__main__ import main

    code = main()
    assert not gone & set(sys.modules), gone & set(sys.modules)
    assert not {name.split(".")[1] for name in sys.modules if name.startswith("pu_geo.")} & set(ROOMS)
    sys.exit(code)
