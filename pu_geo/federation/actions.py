"""Tasks of federations: leading one, taking part in one, and a trial between projects on this machine."""

from __future__ import annotations

from pu_geo.jobs.tasks import Task, declare

declare(
    *(
        Task(f"pu_geo.federation.{work}", title, screen="research", panel="federation", needs_torch=True)
        for work, title in (
            ("federate_deployed_job:federate_lead", "Leading the federation"),
            ("federate_deployed_job:federate_join", "Taking part in the federation as"),
            ("federate_job:federate_simulate", "Federation between projects on this machine"),
        )
    )
)
