"""A federation between projects on this machine, as a job."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from pu_geo.federation.agreement import Plan
from pu_geo.federation.member_job import feature_space
from pu_geo.federation.rounds_job import lead
from pu_geo.federation.simulated_job import SimulatedTransport, set_up
from pu_geo.records import Facts
from pu_geo.store.federations import Held
from pu_geo.store.job import Job
from pu_geo.store.store import open_project


def federate_simulate(
    job: Job, *, federation: str, plan: Facts, parties: Mapping[str, Held]
) -> Facts:  # fmt: skip
    """Train projects on this machine together as if each were at another agency; the job's project leads.

    Started again with the same arguments it goes on after its last round.

    Args:
        federation: id of the federation.
        plan: fields of a `Plan`.
        parties: path of each project that takes part -> the classes that it holds, no two the same, and "rest" among them.

    Returns:
        See `rounds.lead`.

    Raises:
        FederationError: if an argument is wrong, a project cannot take part, or a federation of that id has other rules.
    """
    held = {open_project(Path(path)): classes for path, classes in parties.items()}
    agreement = Plan.from_json(plan).agreement(federation, feature_space(job.layout))
    return lead(job, agreement, SimulatedTransport(set_up(agreement, job.layout, held)))
