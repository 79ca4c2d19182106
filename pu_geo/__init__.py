"""PU-Geo: map damaged buildings from pre- and post-event imagery with positive-unlabeled learning.

`import pu_geo as pg` costs little: what a name stands for is loaded when it is first used.

- `pg.Project`: the steps of the app and the command line, as methods.
- `pg.PURanker`, `pg.NcPU`, ...: every method as an estimator with scikit-learn's conventions; `pg.PUPL` clusters.
- `pg.losses`: the formulas, as functions and as `nn.Module`s.
- `pg.PuGeoError`: what a user can mend; it has `problem` and `hint`.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pu_geo import losses as losses
    from pu_geo.api import Project as Project
    from pu_geo.errors import PuGeoError as PuGeoError

__version__ = "0.1.0"

_ESTIMATORS = "pu_geo.methods.estimators"
_PLACES = {
    "Project": "pu_geo.api",
    "PuGeoError": "pu_geo.errors",
    "losses": "",  # a module
    **dict.fromkeys(("PURanker", "NcPU", "PUCL", "NCL", "HeroCon", "FedAwS", "LabelPropagation", "PUPL"), _ESTIMATORS),
}
"""Where each public name comes from."""

__all__ = ["__version__", *_PLACES]


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if not _PLACES[name]:
        return importlib.import_module(f"{__name__}.{name}")
    found = getattr(importlib.import_module(_PLACES[name]), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted(__all__)
