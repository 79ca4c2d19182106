"""Clicks through 1,000 kills of the app's server: how many that were acknowledged are lost. `python -m benchmarks.server_kills [N]`.

A job that writes to the project and an outside reader run beside. A killed process loses nothing that it handed to the
operating system, so this says nothing about power cuts; `click / bare fsync` shows that each click is put on the disk.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path

from tests.browser.server_kills import ForkedServer, Report, kill_and_click

N_KILLS = 1_000


def bench_server_kills(folder: Path) -> dict[str, float]:
    """Kill the server `N_KILLS` times while three analysts click.

    Returns:
        "lost": acknowledged clicks that are not stored, and those stored twice or with another label; "clicks": all of them.
        The ratio must be 0. Beside them: kills, clicks that a kill left unanswered, those of them that were stored already
        (seen at every second kill), and the outside reader's reads.
    """
    return _figures(kill_and_click(folder, N_KILLS, kind=ForkedServer))


def _figures(report: Report) -> dict[str, float]:
    if report.integrity != "ok":
        raise AssertionError(f"PRAGMA integrity_check says: {report.integrity}")
    names = ("acknowledged", "kills", "open_at_a_kill", "stored_unacknowledged", "resent", "jobs", "reads", "reads_refused")
    lost = len({*report.lost, *report.missing, *report.twice}) + len(report.wrong)
    return {"lost": lost, "clicks": report.clicks, **{name: getattr(report, name) for name in (*names, "seconds")}}


def _say(number: int, report: Report) -> None:
    if number % 10 == 0:
        print(f"{number} kills, {len(report.lost)} lost", file=sys.stderr, flush=True)


def main(n_kills: str = str(N_KILLS)) -> None:
    """Print the whole report; it takes one to three seconds a kill."""
    with tempfile.TemporaryDirectory() as folder:
        report = kill_and_click(Path(folder), int(n_kills), kind=ForkedServer, after_kill=_say)
    print(json.dumps({**asdict(report), **_figures(report), "load": os.getloadavg()}))


if __name__ == "__main__":
    main(*sys.argv[1:2])
