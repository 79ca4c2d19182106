"""What a run is called in a list."""

from __future__ import annotations

from pu_geo.records import RunFacts
from pu_geo.services.train.training import method_title


def run_name(run: RunFacts) -> str:
    """Return what a run is called in a list: method, whether its model came from elsewhere, time, id."""
    came = " from elsewhere" if run.from_model else ""
    return f"{method_title(run.method)}{came} · {run.created_at[:16].replace('T', ' ')} · {run.run_id}"
