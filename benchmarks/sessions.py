"""Fifty analysts at one server, a click a second each: from click to acknowledgement. `python -m benchmarks.sessions [N] [BUILDINGS]`."""

from __future__ import annotations

import json
import os
import sys
import tempfile
from pathlib import Path

import numpy as np

from tests.browser.sessions import click_together

N_SESSIONS, N_BUILDINGS = 50, 2_000
TARGET_S = 0.5


def bench_sessions(folder: Path, n_sessions: int = N_SESSIONS, n_buildings: int = N_BUILDINGS) -> dict[str, float]:
    """Time clicks of `n_sessions` analysts who share a project, against half a second.

    Returns:
        "p95_s" and "target_s", whose ratio must stay below 1; "p50_s"; the clicks that were lost, which must be 0; and those that were
        still not acknowledged a minute after the last one, counted with the time that they waited; how many runs of the page
        renewed ranking and queue, and "run_p50_s", from asking for one to its data.
        Clients and server share this machine.
    """
    report = click_together(folder, n_sessions, n_buildings=n_buildings)
    if report.troubles:
        raise AssertionError(f"pages complained: {report.troubles[:3]}")
    p50, p95 = np.quantile(report.seconds, [0.5, 0.95])
    runs = {"runs": len(report.run_seconds), "run_p50_s": float(np.median(report.run_seconds))}
    lost = len(report.lost) + len(report.twice)
    times = {"p95_s": float(p95), "target_s": TARGET_S, "p50_s": float(p50)}
    return {**times, "lost": lost, "unanswered": report.unanswered, "clicks": len(report.seconds), **runs}


def main(n_sessions: str = str(N_SESSIONS), n_buildings: str = str(N_BUILDINGS)) -> None:
    """Print the figures with the load of the machine, which they hang on."""
    with tempfile.TemporaryDirectory() as folder:
        figures = bench_sessions(Path(folder), int(n_sessions), int(n_buildings))
    rounded = {name: round(value, 4) for name, value in figures.items()}
    print(json.dumps({"sessions": int(n_sessions), "buildings": int(n_buildings), **rounded, "load": os.getloadavg()}))


if __name__ == "__main__":
    main(*sys.argv[1:3])
