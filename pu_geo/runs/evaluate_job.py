"""Measure a run against truth that came with the footprints. For trials; an analyst in the field has no such truth."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from sklearn.metrics import accuracy_score, f1_score

from pu_geo.analysis import metrics
from pu_geo.errors import PuGeoError
from pu_geo.records import Facts
from pu_geo.store import chosen, contents, labels, runs, store
from pu_geo.store.layout import Layout


def evaluate(layout: Layout, run_id: str, *, field: str, positive: Sequence[str], exclude: Sequence[str] = ()) -> Facts:
    """Compare scores with an attribute of the footprints, on the buildings that were unlabeled when the run started.

    Args:
        run_id: id of a run, or "latest".
        field: attribute with the truth.
        positive: values of it that mean damaged.
        exclude: values that are left out (not known).

    Returns:
        {"run_id", "method", "n", "n_not_assessed" of them on the map although they have a score, "n_positive", "auc", "ap",
        "precision_at_k" (k = n_positive), "threshold", "oa", "f1"}

    Raises:
        PuGeoError: if the field is not there, or one of the two classes is empty.
    """
    with store.connect(layout) as db:
        facts = runs.find(db, run_id)
        table = contents.footprints(db)
        pu = labels.pu_set(db, at=facts.at_event, ids=runs.building_ids_of(layout, facts.run_id))
    truth = table.values(field)
    values = [truth.get(building) for building in pu.building_ids]
    if all(value is None for value in values):
        raise PuGeoError(
            f"No footprint has the attribute {field!r}; they have: {', '.join(sorted(table.attributes[0]))}.",
            "Name the attribute that holds the truth with --field.",
        )
    known = np.array([value is not None and str(value) not in exclude for value in values])
    kept = known & ~pu.is_positive
    is_damaged = np.array([str(value) in positive for value in values])[kept]
    if is_damaged.all() or not is_damaged.any():
        raise PuGeoError(
            f"Of {len(is_damaged)} buildings not reviewed {int(is_damaged.sum())} are damaged; both kinds are needed.",
            "Check the values given with --positive.",
        )
    scores = np.asarray(runs.array(layout, facts.run_id, "scores"), dtype=np.float64)[kept]
    hidden = chosen.reasons_of(layout, facts) or {}
    n_hidden = sum(building in hidden for building, is_kept in zip(pu.building_ids, kept, strict=True) if is_kept)
    called = scores >= facts.threshold
    figures = {
        "auc": metrics.auc(scores, is_damaged),
        "ap": metrics.average_precision(scores, is_damaged),
        "precision_at_k": metrics.precision_at_k(scores, is_damaged, int(is_damaged.sum())),
        "threshold": facts.threshold,
        "oa": accuracy_score(is_damaged, called),
        "f1": f1_score(is_damaged, called),
    }
    return {
        "run_id": facts.run_id,
        "method": facts.method,
        "n": len(scores),
        "n_not_assessed": n_hidden,
        "n_positive": int(is_damaged.sum()),
        **{name: round(float(value), 4) for name, value in figures.items()},
    }
