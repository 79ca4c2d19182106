"""What an import costs, in a process of its own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from benchmarks.timing import best_of

N_ROUNDS = 7
MOST_S = 0.3
TIMED = "import time; began = time.perf_counter(); import pu_geo; print(time.perf_counter() - began)"


def bench_import(_: Path) -> dict[str, float]:
    """Import the package, the best of five, against what it may take."""
    times = [float(subprocess.check_output([sys.executable, "-c", TIMED], text=True)) for _ in range(5)]
    return {"ours_s": min(times), "allowed_s": MOST_S}


def bench_import_losses(_: Path) -> dict[str, float]:
    """Import the losses, against torch alone; by turns, so that a busy moment of the machine does not hit one side only."""
    times = [(best_of(1, lambda: _import("pu_geo.losses")), best_of(1, lambda: _import("torch"))) for _ in range(N_ROUNDS)]
    ours, torch_alone = (min(column) for column in zip(*times, strict=True))
    return {"ours_s": ours, "torch_s": torch_alone}


def _import(name: str) -> None:
    subprocess.run([sys.executable, "-c", f"import {name}"], check=True)
