"""Clicks through 1,000 kills of the app's server: how many that were acknowledged are lost. `python -m benchmarks.server_kills [N]`.

A job that writes to the project and an outside reader run beside. A killed process loses nothing that it handed to the
operating system, so this says nothing about power cuts; `click / bare fsync` shows that each click is put on the disk.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import textwrap
import time
from dataclasses import asdict
from pathlib import Path

from tests.browser.real_app import REPOSITORY, AppServer
from tests.browser.server_kills import Report, kill_and_click
from tests.small_parts import with_key

N_KILLS = 1_000

# The app as `python app.py PORT` runs it, forked off a process that has loaded its modules: a thousand starts in minutes.
STARTER = """
    import os, runpy, signal, sys
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    script = sys.argv[1]
    runpy.run_path(script, run_name="loaded")
    for line in sys.stdin:
        pid = os.fork()
        if pid == 0:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            os.setsid()
            os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
            os.dup2(2, 1)
            sys.argv[1:] = [line.strip()]
            runpy.run_path(script, run_name="__main__")
            os._exit(0)
        print(pid, flush=True)
"""


class ForkedServer(AppServer):
    """The same app on the same port, started within a tenth of the time."""

    def __enter__(self) -> ForkedServer:
        self._home.mkdir(parents=True, exist_ok=True)
        with self.log.open("ab") as log:
            self._starter = subprocess.Popen(
                [sys.executable, "-c", textwrap.dedent(STARTER), str(REPOSITORY / "app.py")], cwd=self._home,
                env=self._environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True,
            )  # fmt: skip
        self.start()
        return self

    def __exit__(self, *given: object) -> None:
        self.end(signal.SIGTERM)
        self._starter.communicate(timeout=20)

    def start(self) -> None:
        assert self._starter.stdin is not None
        assert self._starter.stdout is not None
        self._starter.stdin.write(f"{self._port}\n")
        self._starter.stdin.flush()
        self._pid = int(self._starter.stdout.readline())
        self.wait_for_answer(lambda: _is_there(self._pid))

    def end(self, how: signal.Signals = signal.SIGKILL) -> None:
        if _is_there(self._pid):
            os.kill(self._pid, how)
        give_up = time.monotonic() + 10
        while _is_there(self._pid):
            time.sleep(0.002)
            if time.monotonic() > give_up:
                os.kill(self._pid, signal.SIGKILL)


def _is_there(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def _figures(report: Report) -> dict[str, float]:
    """Return "lost": acknowledged clicks that are not stored, and those stored twice or with another label, which must be 0; "clicks": all.

    Beside them: kills, clicks that a kill left unanswered, those of them that were stored already (looked up at every second kill), and the
    outside reader's reads.
    """
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
        os.environ["PU_GEO_HOME"] = str(with_key(Path(folder) / "own"))  # one key: the server trusts the project made here
        report = kill_and_click(Path(folder), int(n_kills), kind=ForkedServer, after_kill=_say)
    print(json.dumps({**asdict(report), **_figures(report), "load": os.getloadavg()}))


if __name__ == "__main__":
    main(*sys.argv[1:2])
