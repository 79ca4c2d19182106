"""The leader's side: round after round from the state on disk, whatever carries the messages.

In a round the leader sends each member theta and its own row of W, waits until the deadline, checks what came back, and
takes one step of FedAwS with it. Who is late, or refused, keeps the row of the round before and is asked again in the next
one. A round in which too few took part is asked for again; it changes nothing. The last one needs each class that took part
in none before.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Protocol

import torch
from safetensors import SafetensorError
from torch import Tensor

from pu_geo.errors import FederationError, printable
from pu_geo.federation import network_job, privacy_job, wire_job
from pu_geo.federation.agreement import Agreement
from pu_geo.federation.wire_job import Message
from pu_geo.methods.fedaws import Learner, server_round
from pu_geo.records import Facts
from pu_geo.store import federations
from pu_geo.store.federations import STATE, Round
from pu_geo.store.job import Job
from pu_geo.store.store import now
from pu_geo.training.threads import one_thread

_ROUND, _DIGEST, _THETA, _VELOCITY = "round", "agreement", "theta.", "velocity."
_NOISE = "central"
_RESTORE = (
    f"Restore {STATE} of that round from a copy of the project. Rounds with noise are not done again: the same noise twice "
    "hides nothing. Without a copy make a federation with another name; its epsilon adds to what was spent."
)
MAX_CHIPS, _LOSS_SPARE = 10**8, 1.001  # for rounding


Replies = Mapping[int, Message | str]
"""By row of W: a reply, or in words why there is none that counts."""


class Transport(Protocol):
    """Carries messages to the members, and what they reply."""

    def exchange(
        self, messages: Mapping[int, Message], *, deadline_s: float, stop: Callable[[], None], arrived: Callable[[int], None]
    ) -> Replies:
        """Send members their messages, by row of W, and return what came back until the deadline.

        Args:
            stop: raises JobCancelled once the user asked for it.
            arrived: called with the row of each reply as it comes.

        Returns:
            By row of W: a reply of the right kind, or why the member refused or its reply is none, in words. A row whose
            member was not heard of is missing.
        """
        ...


def lead(job: Job, agreement: Agreement, transport: Transport) -> Facts:
    """Run the rounds of a federation from its stored state to the last one, and send the model to the members that have it
    not.

    Source: FedAwS, Algorithm 1, lines 3 to 14. Killed between any two steps and called again, it ends with the same numbers,
    to the bit, if the same members take part.

    Args:
        job: of the leader's project, which has the federation's files.

    Returns:
        {"rounds", "members": how many have the model, "warnings": see `Agreement.warnings`}

    Raises:
        FederationError: if a round found no quorum in `Agreement.tries` tries, a class took part in no round up to the last
            one, the state is of another agreement, the agreement is of another version, rounds with noise would be done
            again, or a member did not get the model in time.
        JobCancelled: if the user cancelled.
    """
    agreement.require_current()
    folder, n_rounds = job.layout.federation(agreement.id), agreement.settings.rounds
    done, learner = read_state(folder, agreement) or (0, network_job.start(agreement))
    _require_newest(agreement, folder, done)
    for number in range(done + 1, n_rounds + 1):
        for _ in range(agreement.tries):
            job.stop_if_cancelled()
            learner, found = _round(job, agreement, transport, number, learner)
            share = number / (n_rounds + 1)
            nearest = max(value for k, row in enumerate(found.cosines) for value in row[k + 1 :])
            job.epoch({"epoch": number, "progress": share, "loss": found.loss, "class_cosine": nearest})
            took = f"{len(found.taking_part)} of {len(agreement.classes)} members"
            job.report(share, f"round {number} of {n_rounds}, {took}", is_news=True)
            if found.is_counted:
                break
        else:
            raise _not_counted(agreement, folder, found)
    warnings = agreement.warnings(folder)
    for words in warnings:
        job.report(n_rounds / (n_rounds + 1), words, is_news=True)
    _send_model(job, agreement, transport, learner)
    return {"rounds": n_rounds, "members": len(federations.members(folder)), "warnings": warnings}


def read_state(folder: Path, agreement: Agreement) -> tuple[int, Learner] | None:
    """Return the last finished round, and theta and W after it; None before the first one ended.

    Raises:
        FederationError: if the file is damaged, or of another agreement.
    """
    path = folder / STATE
    if not path.is_file():
        return None
    try:
        facts, tensors = wire_job.read_tensors(path)
    except (SafetensorError, OSError) as error:
        restart = f"Restore {STATE} from a copy of the project, or remove it to start at round 1 again."
        hint = restart if agreement.privacy.kind == "none" else _RESTORE
        raise FederationError(
            f"The state of the federation {agreement.id} is damaged: {error}.", hint, kind="lost"
        ) from error
    if facts.get(_DIGEST) != agreement.digest or not facts.get(_ROUND, "").isdigit():
        raise FederationError(
            f"The state in {folder.name} is of another agreement than {agreement.digest[:12]}.",
            "Make a federation with a new id for another agreement.",
            kind="agreement",
        )
    theta, velocity = (
        {name.removeprefix(prefix): each for name, each in tensors.items() if name.startswith(prefix)}
        for prefix in (_THETA, _VELOCITY)
    )
    return int(facts[_ROUND]), Learner(theta, tensors[wire_job.CLASS_VECTORS], velocity)


def _require_newest(agreement: Agreement, folder: Path, done: int) -> None:
    """Refuse to do rounds with noise again after their outcome was sent: of two outcomes with the same noise, the difference
    has none.

    The round after the state's may be done again, where it was not sent: the leader was killed before it stored the state.
    """
    if agreement.privacy.kind == "none":
        return
    # An ask holds the outcome of the round before it, the model, of no round, that of all.
    sent = [
        one.round or agreement.settings.rounds + 1
        for one in federations.ledger(folder)
        if one.message in (wire_job.ASK, wire_job.MODEL)
    ]
    last = max([*sent, *(one.number for one in federations.rounds(folder))], default=1) - 1
    if last > done:
        raise FederationError(
            f"The outcome of round {last} of {agreement.id} was sent already, and its state here is of round {done}.",
            _RESTORE,
            kind="lost",
        )


def write_state(folder: Path, agreement: Agreement, done: int, learner: Learner) -> None:
    """Store theta, W and the momentum of theta after a round: one file, whole or not at all."""
    tensors = {_THETA + name: tensor for name, tensor in learner.theta.items()}
    tensors |= {_VELOCITY + name: tensor for name, tensor in learner.velocity.items()}
    tensors[wire_job.CLASS_VECTORS] = learner.class_vectors
    wire_job.write_tensors(folder / STATE, tensors, {_ROUND: str(done), _DIGEST: agreement.digest})


def _round(job: Job, agreement: Agreement, transport: Transport, number: int, learner: Learner) -> tuple[Learner, Round]:
    """Do a round; without a quorum, the learner stays as it is. The log comes first: killed between, it has the round
    twice.
    """
    folder = job.layout.federation(agreement.id)
    asks = {
        row: Message(
            wire_job.ASK,
            {**learner.theta, wire_job.OWN_VECTOR: vector.clone()},
            {"round": number, "agreement": agreement.digest},
        )  # a view would carry the other rows along
        for row, vector in enumerate(learner.class_vectors)
    }
    came = _exchanged(job, agreement, transport, asks)
    refused, answers = dict[int, str](), dict[int, Message]()
    for row in sorted(came):
        answer = came[row]
        if isinstance(answer, str):
            refused[row] = answer
        elif why := refusal(agreement, row, asks[row], answer):
            refused[row] = why
        else:
            answers[row] = answer
    is_counted = len(answers) >= agreement.quorum and not _never(agreement, folder, number, answers)
    # Where noise hides members, their losses would tell of their chips.
    losses = [float(answer.facts["loss"]) for answer in answers.values() if agreement.privacy.kind != "local"]
    after = _step(agreement, folder, number, learner, answers) if is_counted else learner
    found = Round(
        number, now(), list(answers), [row for row in asks if row not in came], refused,
        sum(losses) / len(losses) if losses else None, _cosines(after.class_vectors), is_counted,
    )  # fmt: skip
    federations.append_round(folder, found)
    if is_counted:
        write_state(folder, agreement, number, after)
    return after, found


def _exchanged(
    job: Job,
    agreement: Agreement,
    transport: Transport,
    messages: Mapping[int, Message],
    arrived: Callable[[int], None] = lambda _: None,
) -> Replies:
    """Note what is about to leave, send it, and return what came back."""
    folder = job.layout.federation(agreement.id)
    here = federations.rows_here(folder, len(agreement.classes))
    for row, message in messages.items():
        wire_job.note(folder, message, f"member of {agreement.classes[row]}", is_here=row in here)
    return transport.exchange(messages, deadline_s=agreement.deadline_s, stop=job.stop_if_cancelled, arrived=arrived)


def _never(agreement: Agreement, folder: Path, number: int, answers: Iterable[int]) -> list[str]:
    """Return the classes that took part in no round when the last one ends; none before: their members may still come.

    Their class vectors are as random as at the start, and scores by them would mean nothing.
    """
    if number < agreement.settings.rounds:
        return []
    took_part = {row for one in federations.rounds(folder) if one.number < number for row in one.taking_part}
    return [name for row, name in enumerate(agreement.classes) if row not in took_part.union(answers)]


def _step(agreement: Agreement, folder: Path, number: int, learner: Learner, answers: Mapping[int, Message]) -> Learner:
    """Take the server's step with the answers that counted."""
    updates = {row: answer.update for row, answer in answers.items()}
    if agreement.privacy.kind == "central":
        noise = privacy_job.secret_noise(folder, _NOISE, agreement.digest, number)
        updates = privacy_job.central(agreement, updates, learner.theta, learner.class_vectors, noise)
    with one_thread():
        return server_round(learner, updates, agreement.settings)


def _send_model(job: Job, agreement: Agreement, transport: Transport, learner: Learner) -> None:
    """Send the finished model, all class vectors included, to the members that have it not: they need them to score all
    classes.

    Raises:
        FederationError: if a member has no model after the deadline; says why.
    """
    folder = job.layout.federation(agreement.id)
    parts = federations.took_part(federations.rounds(folder), len(agreement.classes))
    tensors = {**learner.theta, wire_job.CLASS_VECTORS: learner.class_vectors, wire_job.TOOK_PART: torch.tensor(parts)}
    without = {row for row, one in federations.members(folder).items() if not one.has_model}

    def arrived(row: int) -> None:
        with federations.changing_members(folder) as members:
            members[row] = replace(members[row], has_model=True)

    message = Message(wire_job.MODEL, tensors, {"agreement": agreement.digest})
    came = _exchanged(job, agreement, transport, dict.fromkeys(sorted(without), message), arrived)
    why = {
        row: f"could not take it ({words.rstrip('.')})" if isinstance(words := came.get(row), str) else "was away"
        for row, one in federations.members(folder).items()
        if not one.has_model
    }
    if why:
        listed = "; ".join(f"{agreement.classes[row]} {words}" for row, words in why.items())
        raise FederationError(
            f"All {agreement.settings.rounds} rounds are done, but these members have no model: {listed}.",
            "Ask them to connect, and those that could not take it to do first what their own job says; then start this "
            "again: it sends the model to them alone.",
            kind="delivery",
        )


def _cosines(class_vectors: Tensor) -> tuple[tuple[float, ...], ...]:
    unit = torch.nn.functional.normalize(class_vectors, dim=1)
    return tuple(tuple(round(value, 6) for value in row) for row in (unit @ unit.T).tolist())


def _not_counted(agreement: Agreement, folder: Path, found: Round) -> FederationError:
    """Return the error of a round that never counted, with the reasons of those that were refused."""
    missing = [f"{agreement.classes[row]} was not heard of" for row in found.late]
    missing += [f"{agreement.classes[row]} was refused ({why.rstrip('.')})" for row, why in found.refused.items()]
    hint = (
        "'Start again' on the job's card, or the same command, goes on with this round. Their waiting time is the "
        "agreement's deadline."
    )
    if len(found.taking_part) >= agreement.quorum:
        never = _never(agreement, folder, found.number, found.taking_part)
        return FederationError(
            f"Nobody trained the class {' nor '.join(map(repr, never))} in any round, so its scores would mean nothing: "
            f"{'; '.join(missing)}.",
            f"Ask the members of these classes to connect; then {hint}",
            kind="quorum",
        )
    return FederationError(
        f"Round {found.number} had {len(found.taking_part)} of the {agreement.quorum} members that it needs, in "
        f"{agreement.tries} tries: {'; '.join(missing)}.",
        f"Ask these members to connect; then {hint}",
        kind="quorum",
    )


# What the leader checks of an answer before it counts


def refusal(agreement: Agreement, row: int, ask: Message, answer: Message) -> str:
    """Return why an answer does not count, in one sentence, which screens show; "" where it does.

    Args:
        row: of the member that sent it, as the transport knows it by its key.
        ask: what it was sent.
    """
    facts, name = answer.facts, agreement.classes[row]
    n_chips, loss = int(facts["n_chips"]), float(facts["loss"])
    if facts["agreement"] != agreement.digest:
        return (
            f"It joined another agreement: its digest is {printable(facts['agreement'], 12)}, ours {agreement.digest[:12]}."
        )
    if facts["class_name"] != name:
        return f"It claims the class {printable(facts['class_name'])!r}; its key is admitted for {name!r}."
    if answer.round != ask.round:
        return f"It answers round {answer.round}; this is round {ask.round}."
    if not 0 <= n_chips <= MAX_CHIPS:
        return f"It counts {n_chips} chips; 0 to {MAX_CHIPS:,} are possible."
    if n_chips == 0:
        return f"It has no building of the class {name!r} to learn from."
    if not math.isfinite(loss):
        return "Its loss is no finite number: its training diverged."
    most = _LOSS_SPARE * (1 + agreement.settings.enough) ** 2  # see `positive_hinge_loss`
    if not 0 <= loss <= most:
        return f"Its loss is {loss:.3g}; 0 to {most:.3g} are possible."
    return wire_job.mismatch(ask.tensors, answer.tensors) or _too_long(agreement, ask.tensors, answer.tensors)


def _too_long(agreement: Agreement, sent: Mapping[str, Tensor], came: Mapping[str, Tensor]) -> str:
    """Compare the change of theta, and that of the class vector, with the bound of the agreement."""
    own = [wire_job.OWN_VECTOR]
    for what, names in (("theta", sorted(sent.keys() - own)), ("its class vector", own)):
        squares = [float((came[name].double() - sent[name].double()).square().sum()) for name in names]
        norm, most = math.sqrt(sum(squares)), privacy_job.longest(agreement, sum(sent[name].numel() for name in names))
        if norm > most:
            return f"Its change of {what} has a norm of {norm:.3g}; the agreement allows {most:.3g}."
    return ""
