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

_MODULES = ("losses",)
_PLACES = {"Project": "pu_geo.api", "PuGeoError": "pu_geo.errors"}


def _estimators() -> tuple[str, ...]:
    """Return the names of the estimators, from the cards of the catalog; this loads no torch."""
    return tuple(importlib.import_module("pu_geo.methods.catalog").ESTIMATORS)


def __getattr__(name: str) -> Any:
    if name == "__all__":
        return ["__version__", *_MODULES, *_PLACES, *_estimators()]
    if name in _MODULES:
        with importlib.import_module(
            f"{__name__}.errors"
        ).interrupts_held():  # torch, half imported, cannot be imported again
            return importlib.import_module(f"{__name__}.{name}")
    place = _PLACES.get(name)
    if place is None and name[:1].isupper() and name in _estimators():  # modules of ours are not asked for there
        place = "pu_geo.methods.estimators"
    if place is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    with importlib.import_module(f"{__name__}.errors").interrupts_held():
        found = globals()[name] = getattr(importlib.import_module(place), name)
    return found


def __dir__() -> list[str]:
    return sorted(__getattr__("__all__"))
