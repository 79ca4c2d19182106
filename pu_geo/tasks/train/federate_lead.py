"""Lead a federation as the Train screen does it: agree, admit this project's own classes, and serve."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from pu_geo import jobs
from pu_geo.errors import JobError
from pu_geo.federation.agreement import REST_CLASS, Agreement, Privacy
from pu_geo.federation.deployed import require_flower
from pu_geo.federation.member import feature_space
from pu_geo.methods import catalog
from pu_geo.project import federations
from pu_geo.project.federations import Membership
from pu_geo.tasks.job import Job
from pu_geo.tasks.train.federate_deployed import ANYWHERE, LOCALHOST, federate_serve, free_port

JOIN = "federate_join"
_QUORUM = 2  # a round of one member would train one class alone


def federate_lead(
    job: Job, federation: str, *, title: str, types: Sequence[str], feature_set: str, rounds: int, deadline_s: float,
    own: Sequence[Mapping[str, Any]] = (), host: str = LOCALHOST, privacy: Mapping[str, Any] | None = None,
) -> Mapping[str, Any]:  # fmt: skip
    """Write the agreement of a new federation, start a job for each class of this project, and serve until the last round.

    Started again it goes on after the last round. Keys of this project are admitted at once: nobody has to compare them.

    Args:
        federation: id of the new one.
        types: damage types; "rest" is added.
        feature_set: of this project.
        own: fields of `Membership` for each class that this project holds.
        host: name or address by which members reach this machine; with 127.0.0.1 only this machine can connect.
        privacy: fields of `Privacy`.

    Returns:
        As `federate_serve`.

    Raises:
        FederationError: if a value is not what an agreement allows, the host is no address, or the project cannot lead or take part.
    """
    folder = job.layout.federation(federation)
    require_flower(folder)
    from pu_geo.federation.deployed import credentials, membership  # needs Flower's dependencies

    credentials.require_host(host)
    held = [Membership(**each) for each in own]
    federations.require_different_buildings(job.layout.folder.name, held)
    if federation not in federations.ids(job.layout):
        settings = catalog.settings_for("fedaws", "quick", {"rounds": str(rounds)})
        space = feature_space(job.layout, feature_set)
        agreement = Agreement(
            federation,
            title,
            (REST_CLASS, *types),
            space,
            settings,
            quorum=_QUORUM,
            deadline_s=deadline_s,
            privacy=Privacy(**(privacy or {})),
        )
        tls = folder / federations.TLS
        credentials.certify(tls, [host])
        authority = (tls / credentials.CA).read_text("ascii")
        membership.write_invitation(folder, membership.Invitation(agreement, f"{host}:{free_port()}", authority))
        federations.write_members(folder, {})
        federations.write_agreement(folder, agreement.to_json())  # the last: with it the federation is there
    if words := membership.mend_invitation(folder, f"{host}:{free_port()}"):
        job.report(0.0, words, is_news=True)
    invitation = membership.read_invitation(folder / federations.INVITATION)
    started = []
    for one in held:
        path = membership.accept(job.layout, invitation, one.class_name, one.types_from)
        request = membership.read_request(path)
        membership.admit(job.layout, federation, request, request.fingerprint)
        started += _start_member(job, federation, one.class_name)
    is_here = host in (LOCALHOST, "localhost")
    address, names = (LOCALHOST, ()) if is_here else (ANYWHERE, (host,))
    try:
        return federate_serve(job, federation, address, names=names)
    except BaseException:
        for member in started:  # they would wait for a leader that is gone; both are started again together
            with suppress(JobError):
                jobs.cancel(job.layout, member)
        raise


def _start_member(job: Job, federation: str, class_name: str) -> list[str]:
    """Start the job of a class of this project, unless one works already or has the model; return the ids of those started."""
    args = {"federation": federation, "class_name": class_name}
    if any((each.is_active or each.state == "done") for each in jobs.all_jobs(job.layout) if each.args == args):
        return []
    return [jobs.start(job.layout, JOIN, args)]
