"""Long-running jobs of a federation between machines: one leads it, one takes part in it."""

from __future__ import annotations

import time
from contextlib import suppress
from typing import Any

from pu_geo import jobs
from pu_geo.errors import FederationError, JobError
from pu_geo.federation import rounds_job, wire_job
from pu_geo.federation.agreement import Agreement, Plan
from pu_geo.federation.deployed import require_flower
from pu_geo.federation.member_job import OwnData, Part, feature_space
from pu_geo.federation.wire_job import Message
from pu_geo.records import Facts
from pu_geo.store import contents, federations, store
from pu_geo.store.federations import Held
from pu_geo.store.job import Job

JOIN = "federate_join"
_WAIT_SECONDS = 0.3


def federate_lead(job: Job, *, federation: str, plan: Facts, own: Held) -> Facts:
    """Serve a federation until its last round, from the round where it stopped before; the first time write its agreement.

    A job is started for each class of this project, whose key is admitted at once: nobody has to compare it. The first round
    waits for a member of each class, a later one for the quorum; to send the model nobody is waited for longer than the
    deadline.

    Args:
        federation: its id.
        plan: fields of a `Plan`; of one that is there already its host alone counts.
        own: the classes that this project holds; nothing for those that it joined before.

    Returns:
        See `rounds.lead`.

    Raises:
        FederationError: if a value is not what an agreement allows, the host is no address, the project cannot lead or take
            part, it cannot be served there, a round found no quorum, or a member did not get the model in time.
    """
    folder, planned = job.layout.federation(federation), Plan.from_json(plan)
    require_flower(folder)
    from pu_geo.federation.deployed import credentials, membership  # needs Flower's dependencies
    from pu_geo.federation.deployed.leader_job import serving

    credentials.require_host(planned.host)
    own = own or federations.memberships(folder)
    federations.require_different_buildings(job.layout.folder.name, own)
    if federation not in federations.ids(job.layout):
        agreement = planned.agreement(federation, feature_space(job.layout))
        federations.write_members(folder, {})
        federations.write_agreement(folder, agreement.to_json())  # the last: with it the federation is there
    agreement = Agreement.of(folder)
    agreement.require_current()
    started: list[str] = []
    try:
        with serving(folder, agreement, planned.host) as (transport, invitation):
            for path in membership.accept(job.layout, invitation, own):
                request = membership.read_request(path)
                membership.admit(job.layout, federation, request, request.member.fingerprint)
                args = {"federation": federation, "class_name": request.member.class_name}
                if not any(
                    (each.is_active or each.state == "done") for each in jobs.all_jobs(job.layout) if each.args == args
                ):
                    started.append(jobs.start(job.layout, JOIN, args))  # of whose class none works already, or has the model
            place = f"serving at {invitation.address}, fingerprint {invitation.fingerprint}"
            job.report(0.0, place)
            done, n_rounds = (rounds_job.read_state(folder, agreement) or (0, None))[0], agreement.settings.rounds
            needed = len(agreement.classes) if not done else agreement.quorum if done < n_rounds else 0
            _wait_for_members(job, transport, needed, agreement, place, done / (n_rounds + 1))
            begins = f"round {done + 1} of {n_rounds} begins" if done < n_rounds else "sending the model"
            job.report(done / (n_rounds + 1), begins, is_news=True)  # from here the time left is counted, not from the wait
            return rounds_job.lead(job, agreement, transport)
    except BaseException:
        for member in started:  # they would wait for a leader that is gone; both are started again together
            with suppress(JobError):
                jobs.cancel(job.layout, member)
        raise


def _wait_for_members(job: Job, transport: Any, needed: int, agreement: Agreement, place: str, share: float) -> None:
    """Wait until so many members are connected.

    Raises:
        JobCancelled: if it was asked to stop meanwhile.
    """
    before: object = None
    while len(there := sorted(transport.online())) < needed:
        job.stop_if_cancelled()
        now = there, transport.strangers()
        if now != before:
            names = ", ".join(agreement.classes[row] for row in there) or "none"
            asked = f"; keys that are not admitted: {', '.join(now[1])}" if now[1] else ""
            words = f"waiting for members: {len(there)} of {needed} connected ({names}){asked}; {place}"
            job.report(share, words, is_news=True)
            before = now
        transport.admit()
        transport.link.keep_alive()
        time.sleep(_WAIT_SECONDS)


def federate_join(job: Job, federation: str, class_name: str) -> Facts:
    """Take part in a federation for one class until its model is there; wait wherever the leader is away.

    Args:
        federation: id of one that this project has joined, see `membership.accept`.

    Returns:
        {"class_name", "rounds" (that it answered), "warnings" (of other pixels)}.

    Raises:
        FederationError: if the project has no features of the agreed kind, or the leader is not that of the invitation.
    """
    folder = job.layout.federation(federation)
    require_flower(folder)
    from pu_geo.federation.deployed import membership  # needs Flower
    from pu_geo.federation.deployed.node_job import take_part

    invitation = membership.read_invitation(folder / federations.INVITATION)
    agreement, held = invitation.agreement, federations.memberships(folder)
    if class_name not in held:
        raise FederationError(
            f"This project has not joined {federation} for the class {class_name!r}.", "Join it first.", kind="class"
        )
    job.report(0.0, "reading features and labels")
    own = OwnData.read(job.layout, agreement)
    warnings = agreement.site_pixel_words(job.layout.folder.name, store.call(job.layout, contents.grid))
    for words in warnings:
        job.report(0.0, words, is_news=True)
    part = _Reported(job, own, class_name, held[class_name])
    take_part(
        invitation, membership.key_path(folder, part.row), part, report=part.say, is_cancelled=job.is_cancelled
    )  # fmt: skip
    return {"class_name": class_name, "rounds": part.n_answered, "warnings": warnings}


class _Reported(Part):
    """A member whose job shows what it does."""

    def __init__(self, job: Job, own: OwnData, class_name: str, types_from: str | None) -> None:
        super().__init__(own, class_name, types_from)
        self.job = job
        self.n_answered, self.share = 0, 0.0
        self._said = ""

    def reply(self, message: Message) -> Message:
        found = super().reply(message)
        if message.kind == wire_job.ASK:
            self.n_answered += 1
            self.share = message.round / (self.own.agreement.settings.rounds + 1)
            self.job.epoch(
                {"epoch": message.round, "progress": self.share}
            )  # from the first one on the time left is counted
        return found

    def say(self, words: str) -> None:
        """Report what the connection does; the same words once."""
        if words != self._said:
            self._said = words
            self.job.report(self.share, words, is_news=True)
