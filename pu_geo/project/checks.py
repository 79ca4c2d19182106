"""Random checks on disk: one folder entry each, `checks/<id>.json` for facts and `checks/<id>.npz` for the drawing order.

The order never changes; facts that do (how far the sample goes, who looks at what, whether it has ended) are rewritten whole,
under the lock of the project's queues.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pu_geo.errors import ProjectError
from pu_geo.project.layout import Layout, checked_id, replacing, write_json


def _folder(layout: Layout) -> Path:
    return layout.folder / "checks"


def all_checks(layout: Layout) -> list[dict[str, Any]]:
    """Return the facts of all checks, oldest first."""
    found = [json.loads(path.read_text(encoding="utf-8")) for path in _folder(layout).glob("*.json")]
    return sorted(found, key=lambda facts: (str(facts["begun_at"]), str(facts["id"])))


def load(layout: Layout, check_id: str) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Return facts and arrays of a check.

    Raises:
        ProjectError: if there is none of that id.
    """
    path = _folder(layout) / f"{checked_id(check_id)}.json"
    if not path.is_file():
        raise ProjectError(f"There is no check {check_id!r} in this project.", "Begin one on the Damage map page.")
    with np.load(path.with_suffix(".npz"), allow_pickle=False) as arrays:
        return json.loads(path.read_text(encoding="utf-8")), {name: arrays[name] for name in arrays.files}


def add(layout: Layout, facts: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> None:
    """Write a new check; `facts` has its "id" and "begun_at". It is there once its facts are."""
    path = _folder(layout) / f"{checked_id(str(facts['id']))}.npz"
    with replacing(path) as temporary, temporary.open("wb") as stream:
        np.savez(stream, allow_pickle=False, **arrays)
    save_facts(layout, facts)


def save_facts(layout: Layout, facts: Mapping[str, Any]) -> None:
    """Write facts anew; whoever reads them sees the old ones or the new ones."""
    write_json(_folder(layout) / f"{checked_id(str(facts['id']))}.json", dict(facts))
