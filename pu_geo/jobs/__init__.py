"""Background jobs: a folder each, and a worker process that outlives tab and server.

`start` starts them, `control` stops, pauses and dismisses them, `status` works out how they stand.
"""

from pu_geo.jobs.control import cancel, dismiss, end_overdue, kill_orphans, pause
from pu_geo.jobs.start import (
    LOCK_FD_VARIABLE,
    create_held,
    exclusive_jobs,
    launch,
    none_starting,
    resume,
    retry,
    start,
    take_lock,
    wait,
)
from pu_geo.jobs.status import JobView, all_jobs, event_lines, folder_of, is_alive, view, worker_log

__all__ = [
    "LOCK_FD_VARIABLE", "JobView", "all_jobs", "cancel",
    "create_held", "dismiss", "end_overdue", "event_lines", "exclusive_jobs", "folder_of", "is_alive", "kill_orphans",
    "launch", "none_starting", "pause", "resume", "retry", "start", "take_lock", "view", "wait", "worker_log",
]  # fmt: skip
