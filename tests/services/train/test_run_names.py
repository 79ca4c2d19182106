"""What runs are called in lists."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from mapped_parts import RUN, mapped_project

from pu_geo.project import runs, store
from pu_geo.services.train.run_names import run_name


def test_a_run_is_called_by_method_time_and_id_and_whether_it_came_from_elsewhere(tmp_path: Path) -> None:
    layout, _ = mapped_project(tmp_path)
    with store.connect(layout) as db:
        run = runs.find(db, RUN)
    assert run_name(run) == "Instant ranker · 2026-01-01 00:00 · ranker-1"
    came = replace(run, method="ncpu", from_model={"file": "x"})
    assert run_name(came) == "NcPU from elsewhere · 2026-01-01 00:00 · ranker-1"
