"""The demo's choice of map, with its jobs left out; the jobs have tests of their own."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import pytest

from pu_geo.cli import demo
from pu_geo.services.train import training


def test_the_map_it_exports_is_that_of_the_recommended_method(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked: list[tuple[str, dict[str, Any]]] = []

    def run_job(layout: object, task: str, args: dict[str, Any], options: object) -> dict[str, Any]:
        asked.append((task, args))
        return {"run_id": f"run-{args.get('method', task)}", "n": 3}

    def evaluate(layout: object, run_id: str, **_: object) -> dict[str, Any]:
        return {"run_id": run_id, "method": run_id.removeprefix("run-"), "auc": 0.9, "ap": 0.8}

    monkeypatch.setattr(demo, "run_job", run_job)
    monkeypatch.setattr(demo, "evaluate", evaluate)
    monkeypatch.setattr(demo.labeling, "simulate", lambda *_, **__: None)
    demo.run_demo(argparse.Namespace(out=str(tmp_path), json=True))
    *trained, (task, exported) = asked
    assert (task, exported["run_id"]) == ("export", f"run-{training.DEFAULT_METHOD}")
    assert {args.get("method") for _, args in trained} >= {training.DEFAULT_METHOD, "ncpu", "pucl"}
    assert len(json.loads(capsys.readouterr().out)["runs"]) == 4
