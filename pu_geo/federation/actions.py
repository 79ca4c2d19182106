"""Tasks of federations: leading one, taking part in one, and a trial between projects on this machine."""

from __future__ import annotations

from pu_geo.jobs.tasks import TASKS, Task

TASKS.update(
    {
        name: Task(f"pu_geo.federation.{work}:{name}", title, screen="train", panel="federation", needs_torch=True)
        for name, work, title in (
            ("federate_lead", "federate_deployed_job", "Leading the federation"),
            ("federate_join", "federate_deployed_job", "Taking part in the federation as"),
            ("federate_simulate", "federate_job", "Federation between projects on this machine"),
        )
    }
)
