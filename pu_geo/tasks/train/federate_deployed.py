"""Long-running jobs of a federation between machines: one serves it, one takes part in it."""

from __future__ import annotations

import socket
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pu_geo.errors import FederationError, JobCancelled
from pu_geo.federation import ledger, rounds, wire
from pu_geo.federation.agreement import Agreement
from pu_geo.federation.deployed import require_flower
from pu_geo.federation.member import Member, OwnData, pixel_words, write_model
from pu_geo.federation.protocol import Answer, Ask
from pu_geo.project import federations
from pu_geo.tasks.job import Job

LOCALHOST = "127.0.0.1"
ANYWHERE = "0.0.0.0"  # whoever leads named an address of this machine for others
_WAIT_SECONDS = 0.3


def federate_serve(
    job: Job, federation: str, address: str = LOCALHOST, port: int = 0, names: tuple[str, ...] | list[str] = (),
) -> Mapping[str, Any]:  # fmt: skip
    """Serve a federation until its last round, from the round where it stopped before.

    The first round waits for a member of each class, a later one for the quorum; to send the model nobody is waited for longer
    than the deadline.

    Args:
        federation: id of one whose agreement is in this project.
        address: of this machine, to listen at; only this machine can connect to the usual one.
        port: 0 for that of the last time, or a free one.
        names: under which members know this machine, if not by `address`.

    Returns:
        {"rounds", "delivered", "address", "took_part": {class: rounds}, "warnings": of classes that took part in few rounds}.

    Raises:
        FederationError: if it cannot be served there, a round found no quorum, or a member did not get the model in time.
    """
    folder = job.layout.federation(federation)
    agreement = Agreement.from_json(federations.agreement_bytes(folder))
    require_flower(folder)
    from pu_geo.federation.deployed.leader import serving  # needs Flower
    from pu_geo.federation.deployed.membership import mend_invitation, read_invitation

    if not federations.is_lead(folder):
        federations.write_members(folder, {})
    if words := mend_invitation(folder, f"{names[0] if names else address}:{port or free_port()}"):
        job.report(0.0, words, is_news=True)
    n_rounds = agreement.settings.rounds
    with serving(folder, agreement, address, port, tuple(names)) as transport:
        invitation = read_invitation(folder / federations.INVITATION)
        place = f"serving at {invitation.address}, fingerprint {invitation.fingerprint}"
        job.report(0.0, place)
        done = (rounds.read_state(folder, agreement) or (0, None))[0]
        needed = len(agreement.classes) if not done else agreement.quorum if done < n_rounds else 0
        _wait_for_members(job, transport, needed, agreement, place, done / (n_rounds + 1))

        def report(facts: Mapping[str, Any]) -> None:
            took = f"{len(facts['taking_part'])} of {len(agreement.classes)} members"
            share = facts["round"] / (n_rounds + 1)
            job.epoch(
                {"epoch": facts["round"], "progress": share, "loss": facts["loss"], "class_cosine": facts["class_cosine"]}
            )
            words = f"round {facts['round']} of {n_rounds}, {took}, at {invitation.address}"
            job.report(share, words, is_news=True)

        begins = f"round {done + 1} of {n_rounds} begins" if done < n_rounds else "sending the model"
        job.report(done / (n_rounds + 1), begins, is_news=True)  # from here the time left is counted, not from the wait
        led = rounds.lead(agreement, folder, transport, report=report, is_cancelled=job.is_cancelled)
    said = rounds.of_parts(agreement, led)
    for words in said["warnings"]:
        job.report(n_rounds / (n_rounds + 1), words, is_news=True)
    if without := [row for row in federations.members(folder) if row not in led.delivered]:
        raise _not_delivered(agreement, without, led.refused)
    return {"rounds": n_rounds, "delivered": list(led.delivered), "address": invitation.address, **said}


def _not_delivered(agreement: Agreement, rows: Sequence[int], refused: Mapping[int, str]) -> FederationError:
    """Return the error of members that have no model, and why each has none."""
    reasons = {row: f"could not take it ({refused[row].rstrip('.')})" if row in refused else "was away" for row in rows}
    listed = "; ".join(f"{agreement.classes[row]} {why}" for row, why in reasons.items())
    return FederationError(
        f"All {agreement.settings.rounds} rounds are done, but these members have no model: {listed}.",
        "Ask them to connect, and those that could not take it to do first what their own job says; then start this again: it sends "
        "the model to them alone.",
        kind="delivery",
    )


def free_port() -> int:
    """Return a port that nothing listens on, at any address of this machine; the server keeps the port of the invitation."""
    with socket.socket() as listener:
        listener.bind((ANYWHERE, 0))
        return int(listener.getsockname()[1])


def _wait_for_members(job: Job, transport: Any, needed: int, agreement: Agreement, place: str, share: float) -> None:
    """Wait until so many members are connected.

    Raises:
        JobCancelled: if it was asked to stop meanwhile.
    """
    before: object = None
    while len(there := transport.online()) < needed:
        if job.is_cancelled():
            raise JobCancelled
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


def federate_join(job: Job, federation: str, class_name: str) -> Mapping[str, Any]:
    """Take part in a federation for one class until its model is there; wait wherever the leader is away.

    Args:
        federation: id of one that this project has joined, see `membership.accept`.

    Returns:
        {"class_name", "rounds" (that it answered), "model" (path of the model file), "warnings" (of other pixels)}.

    Raises:
        FederationError: if the project has no features of the agreed kind, or the leader is not that of the invitation.
    """
    folder = job.layout.federation(federation)
    require_flower(folder)
    from pu_geo.federation.deployed import membership  # needs Flower
    from pu_geo.federation.deployed.node import take_part

    invitation = membership.read_invitation(folder / federations.INVITATION)
    agreement, held = invitation.agreement, federations.memberships(folder)
    own_membership = next((one for one in held if one.class_name == class_name), None)
    if own_membership is None:
        raise FederationError(
            f"This project has not joined {federation} for the class {class_name!r}.", "Join it first.", kind="class"
        )
    federations.require_different_buildings(job.layout.folder.name, held)
    job.report(0.0, "reading features and labels")
    own = OwnData.read(job.layout, agreement)
    for words in (warnings := pixel_words(job.layout, agreement)):
        job.report(0.0, words, is_news=True)
    part = _Part(job, own, Member(own, own_membership), held)
    take_part(
        invitation, membership.key_path(folder, part.member.row), part, report=part.say, is_cancelled=job.is_cancelled
    )  # fmt: skip
    return {"class_name": class_name, "rounds": part.n_answered, "model": str(part.model), "warnings": warnings}


class _Part:
    """What the member of a job does."""

    def __init__(self, job: Job, own: OwnData, member: Member, held: list[federations.Membership]) -> None:
        self.job, self.own, self.member, self.held = job, own, member, held
        self.n_answered, self.share = 0, 0.0
        self.model: Path | None = None
        self._said = ""

    def answer(self, ask: Ask) -> Answer:
        found = self.member.answer(ask)
        self.n_answered += 1
        self.share = ask.round / (self.own.agreement.settings.rounds + 1)
        self.job.epoch({"epoch": ask.round, "progress": self.share})  # from the first one on the time left is counted
        return found

    def receive(self, model: Mapping[str, Any], facts: Mapping[str, Any]) -> None:
        if facts.get("agreement") != self.own.agreement.digest:
            raise FederationError("The finished model is of another agreement.", "Ask whoever leads.", kind="agreement")
        self.model = write_model(self.own, model, facts, self.held)

    def note_refusal(self, words: str) -> None:
        ledger.note(self.own.folder, wire.pack_refusal(words), ledger.LEADER, is_here=self.member.is_here)

    def say(self, words: str) -> None:
        """Report what the connection does; the same words once."""
        if words != self._said:
            self._said = words
            n_rounds = self.own.agreement.settings.rounds
            known = words.replace(":", f" of {n_rounds}:", 1) if words.startswith("round") else words
            self.job.report(self.share, known, is_news=True)
