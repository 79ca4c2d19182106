"""Train where nothing can be imported but torch, torchvision, numpy, scipy, scikit-learn, safetensors and what these need, and no room
of ours that a bare machine lacks."""

import re
import sys
from importlib import machinery, metadata
from typing import Any

BARE = ("torch", "torchvision", "numpy", "scipy", "scikit-learn", "safetensors", "setuptools")  # torch asks for the last one
ROOMS = ("cli", "jobs", "answers", "explore", "maps", "lifecycle", "geo", "ui", "federation", "scale", "datasets")


def blocked() -> set[str]:
    """Top-level modules of all distributions that are installed here, but the bare ones and what these require."""
    open_, known = list(BARE), set()
    while open_:
        name = open_.pop().lower().replace("_", "-")
        if name not in known:
            known.add(name)
            try:
                needs = metadata.requires(name) or []
            except metadata.PackageNotFoundError:
                continue
            open_ += [re.match(r"[\w.-]+", need)[0] for need in needs if "extra ==" not in need]  # type: ignore[index]
    return {
        module
        for module, names in metadata.packages_distributions().items()
        if not known & {name.lower().replace("_", "-") for name in names}
        and module not in ("pu_geo", *sys.stdlib_module_names)
        and not module.startswith("_")
    }


if __name__ == "__main__":
    gone, find = blocked(), machinery.PathFinder.find_spec
    assert {"shapely", "umap", "cv2", "rasterio", "streamlit"} <= gone

    def find_others(name: str, *where: Any) -> machinery.ModuleSpec | None:
        first, _, rest = name.partition(".")
        return None if first in gone or (first == "pu_geo" and rest.partition(".")[0] in ROOMS) else find(name, *where)

    machinery.PathFinder.find_spec = find_others  # type: ignore[method-assign, assignment]
    from pu_geo.runs.__main__ import main

    code = main()
    assert not gone & set(sys.modules), gone & set(sys.modules)
    assert not {name.split(".")[1] for name in sys.modules if name.startswith("pu_geo.")} & set(ROOMS)
    sys.exit(code)
