"""SIGTERM and a closed terminal: a job in a terminal is cancelled as by Ctrl+C, one in the background counts as interrupted."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from small_parts import unheld_job

from pu_geo import jobs
from pu_geo.store.layout import Layout

pytestmark = [pytest.mark.slow, pytest.mark.skipif(os.name == "nt", reason="signals of POSIX")]
NAP = """
import sys, time
import numpy as np
from pu_geo.store.layout import new_array
def nap(job):
    with new_array(job.layout.chips("set"), np.uint8, (10, 10)):
        print("ready", flush=True)
        time.sleep(100)
"""
IN_TERMINAL = """
import sys
from pu_geo.cli import run
from pu_geo.cli.main import app, main
from pu_geo.jobs import tasks
from pu_geo.store.layout import Layout
tasks.TASKS["nap"] = tasks.Task("nap_task:nap", "Nap")
@app.command("nap")
def nap(project: str) -> None:
    run.run_job(Layout(__import__("pathlib").Path(project)), "nap", {}, False)
sys.exit(main(["nap", sys.argv[1]]))
"""
IN_BACKGROUND = """
import sys
from pu_geo.jobs import tasks, worker
tasks.TASKS["nap"] = tasks.Task("nap_task:nap", "Nap")
sys.exit(worker.main(sys.argv[1:]))
"""


def stopped(code: str, argument: Path, number: int, folder: Path) -> int:
    """Send a process a signal once it writes a file; return how it ended."""
    (folder / "nap_task.py").write_text(NAP)
    found = {**os.environ, "PYTHONPATH": f"{folder}:{os.environ.get('PYTHONPATH', '')}"}
    process = subprocess.Popen(
        [sys.executable, "-c", code, str(argument)], stdout=subprocess.PIPE, env=found,
        preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_DFL),  # tests under nohup would not notice it
    )  # fmt: skip
    assert process.stdout
    assert process.stdout.readline() == b"ready\n"
    try:
        process.send_signal(number)
        process.communicate(timeout=60)
    finally:
        process.kill()
        process.communicate()
    return process.returncode


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, pytest.param(signal.SIGHUP, marks=pytest.mark.ci)])
def test_a_job_in_a_terminal_is_cancelled_and_leaves_nothing(number: int, project: Layout, tmp_path: Path) -> None:
    assert stopped(IN_TERMINAL, project.folder, number, tmp_path) == 1
    (seen,) = jobs.all_jobs(project)
    assert seen.state == "cancelled"
    assert not list(project.folder.rglob("*.part"))


def test_a_worker_that_ends_with_the_machine_counts_as_interrupted(project: Layout, tmp_path: Path) -> None:
    folder = unheld_job(project, "nap", {})
    assert stopped(IN_BACKGROUND, folder, signal.SIGTERM, tmp_path) == 143
    seen = jobs.view(folder)
    assert (seen.state, seen.ended_at) == ("interrupted", "")
    assert "terminated" in (folder / "events.jsonl").read_text()
    assert not list(project.folder.rglob("*.part"))
