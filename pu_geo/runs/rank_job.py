"""One of the processes of a training on several devices. Started by torchrun for `runs.torchrun_job`, never by a person."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from pu_geo.errors import JobCancelled, JobPaused, PuGeoError
from pu_geo.methods.catalog import TrainingRequest
from pu_geo.runs.torchrun_job import ENDED, facts_of, note_end
from pu_geo.runs.train_job import train_as
from pu_geo.store import locks
from pu_geo.store.job import Job
from pu_geo.store.store import open_project
from pu_geo.training import distributed

_SECONDS_BETWEEN_CHECKS = 0.25


def main(arguments: Sequence[str]) -> int:
    """Train as one rank; return 0, or 1 so that torchrun ends the others. A fault of ours keeps its traceback in the log."""
    project, folder, request = facts_of(arguments)
    _end_with(os.getppid(), folder)
    with distributed.joined() as ranks:
        write = partial(print, flush=True)
        job = Job(open_project(project), folder, write if ranks.is_first else None)
        try:
            train_as(job, TrainingRequest(**request), ranks)
        except JobPaused as stopped:  # all ranks stop at once, and rank 0 still writes
            note_end(folder, ranks.number, stopped)
        except (PuGeoError, JobCancelled) as stopped:
            note_end(folder, ranks.number, stopped)
            write(ENDED)
            return 1
        except Exception as error:
            note_end(folder, ranks.number, error)
            raise
    return 0


def _end_with(starter: int, folder: Path) -> None:
    """End this process once torchrun is gone, or nobody holds the job's lock: one that waits for others can do nothing
    itself.
    """

    def watch() -> None:
        while os.getppid() == starter and locks.is_held(folder / locks.JOB_LOCK):
            time.sleep(_SECONDS_BETWEEN_CHECKS)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
