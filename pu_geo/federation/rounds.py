"""The leader's side: round after round from the state on disk, whatever carries the messages.

In a round the leader sends each member theta and its own row of W, waits until the deadline, checks what came back, and takes one
step of FedAwS with it. Who is late, or refused, keeps the row of the round before and is asked again in the next one. A round in
which too few took part is asked for again; it changes nothing. The last one needs each class that took part in none before.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from pu_geo.errors import FederationError, JobCancelled, printable
from pu_geo.federation import ledger, network, privacy, wire
from pu_geo.federation.agreement import Agreement
from pu_geo.federation.protocol import Answer, Ask, Transport
from pu_geo.files import atomic_write
from pu_geo.methods.fedaws import Learner, server_round
from pu_geo.project import federations
from pu_geo.project.federations import STATE, Round, TookPart
from pu_geo.project.store import now
from pu_geo.training.threads import one_thread

_ROUND, _DIGEST, _VELOCITY = "round", "agreement", "velocity."
_NOISE = "central"
_RESTORE = (
    f"Restore {STATE} of that round from a copy of the project. Rounds with noise are not done again: the same noise twice hides "
    "nothing. Without a copy make a federation with another name; its epsilon adds to what was spent."
)
MAX_CHIPS, _LOSS_SPARE = 10**8, 1.001  # for rounding


@dataclass(frozen=True)
class Led:
    """A federation after its last round.

    Attributes:
        learner: theta and W.
        delivered: rows of the members that have the finished model.
        refused: row -> why its member could not take the model, in words.
        took_part: how far each class took part, by row.
    """

    learner: Learner
    delivered: tuple[int, ...]
    refused: Mapping[int, str]
    took_part: tuple[TookPart, ...]


def lead(
    agreement: Agreement, folder: Path, transport: Transport, *,
    report: Callable[[Mapping[str, Any]], None] = lambda _: None, is_cancelled: Callable[[], bool] = lambda: False,
) -> Led:  # fmt: skip
    """Run the rounds of a federation from its stored state to the last one, and send the model to the members.

    Source: FedAwS, Algorithm 1, lines 3 to 14. Killed between any two steps and called again, it ends with the same numbers, to the
    bit, if the same members take part.

    Args:
        folder: of the federation, in the leader's project.
        report: called after each round with {"round", "rounds", "taking_part", "late", "refused", "loss", "class_cosine",
            "seconds", "is_counted", "epsilon"}.

    Raises:
        FederationError: if a round found no quorum in `Agreement.tries` tries, a class took part in no round up to the last one, the
            state is of another agreement, the agreement is of another version, or rounds with noise would be done again.
        JobCancelled: if the user cancelled.
    """
    agreement.require_current()
    done, learner = read_state(folder, agreement) or (0, network.start(agreement))
    _require_newest(agreement, folder, done)
    for number in range(done + 1, agreement.settings.rounds + 1):
        for _ in range(agreement.tries):
            if is_cancelled():
                raise JobCancelled
            learner, found = _round(agreement, folder, transport, number, learner, is_cancelled)
            report(_facts(agreement, found))
            if found.is_counted:
                break
        else:
            raise _not_counted(agreement, folder, found)
    parts = federations.took_part(federations.rounds(folder), len(agreement.classes))
    came = _finish(agreement, folder, transport, learner, parts)
    delivered = tuple(sorted(row for row, words in came.items() if not words))
    return Led(learner, delivered, {row: words for row, words in sorted(came.items()) if words}, parts)


def of_parts(agreement: Agreement, led: Led) -> dict[str, Any]:
    """Return {"took_part": {class: rounds}, "warnings": of classes that took part in few}, as results of jobs have them."""
    counts = {name: part.n_rounds for name, part in zip(agreement.classes, led.took_part, strict=True)}
    words = federations.absence_words(agreement.classes, led.took_part, agreement.settings.rounds)
    return {"took_part": counts, "warnings": words}


def read_state(folder: Path, agreement: Agreement) -> tuple[int, Learner] | None:
    """Return the last finished round, and theta and W after it; None before the first one ended.

    Raises:
        FederationError: if the file is damaged, or of another agreement.
    """
    path = folder / STATE
    if not path.is_file():
        return None
    try:
        with safe_open(path, "pt") as stored:
            facts = stored.metadata() or {}
            tensors = {name: stored.get_tensor(name) for name in stored.keys()}  # noqa: SIM118  # it is no mapping
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
        for prefix in (wire.THETA, _VELOCITY)
    )
    return int(facts[_ROUND]), Learner(theta, tensors[wire.CLASS_VECTORS], velocity)


def _require_newest(agreement: Agreement, folder: Path, done: int) -> None:
    """Refuse to do rounds with noise again after their outcome was sent: of two outcomes with the same noise, the difference has none.

    The round after the state's may be done again, where it was not sent: the leader was killed before it stored the state.
    """
    if agreement.privacy.kind == "none":
        return
    last_round = {
        wire.MODEL: agreement.settings.rounds + 1
    }  # an ask holds the outcome of the round before it, the model that of all
    sent = [
        last_round.get(one.message, one.round) - 1
        for one in federations.ledger(folder)
        if one.message in (wire.ASK, wire.MODEL)
    ]
    known = [one.number - 1 for one in federations.rounds(folder)]
    last = max([*sent, *known], default=0)
    if last > done:
        raise FederationError(
            f"The outcome of round {last} of {agreement.id} was sent already, and its state here is of round {done}.",
            _RESTORE,
            kind="lost",
        )


def write_state(folder: Path, agreement: Agreement, done: int, learner: Learner) -> None:
    """Store theta, W and the momentum of theta after a round: one file, whole or not at all."""
    tensors = {wire.THETA + name: tensor.contiguous() for name, tensor in learner.theta.items()}
    tensors |= {_VELOCITY + name: tensor.contiguous() for name, tensor in learner.velocity.items()}
    tensors[wire.CLASS_VECTORS] = learner.class_vectors.contiguous()
    content = save(tensors, {_ROUND: str(done), _DIGEST: agreement.digest})
    with atomic_write(folder / STATE) as temporary:
        temporary.write_bytes(content)


def _round(
    agreement: Agreement, folder: Path, transport: Transport, number: int, learner: Learner, is_cancelled: Callable[[], bool]
) -> tuple[Learner, Round]:  # fmt: skip
    """Do a round; without a quorum, the learner stays as it is. The log comes first: killed between, it has the round twice."""
    began, digest = time.monotonic(), agreement.digest
    asks = {
        row: Ask(number, learner.theta, vector.clone(), digest)  # a view would carry the other rows along
        for row, vector in enumerate(learner.class_vectors)
    }
    here = federations.rows_here(folder, len(agreement.classes))
    for row, ask in asks.items():
        ledger.note(folder, wire.pack_ask(ask), _name(agreement, row), is_here=row in here)
    came = transport.exchange(asks, deadline_s=agreement.deadline_s, is_cancelled=is_cancelled)
    if is_cancelled():
        raise JobCancelled
    refused = {row: answer for row, answer in came.items() if row in asks and isinstance(answer, str)}
    answers: dict[int, Answer] = {}
    for row in sorted(came):
        answer = came[row]
        if row not in asks or isinstance(answer, str):
            continue
        if why := refusal(agreement, row, asks[row], answer):
            refused[row] = why
        else:
            answers[row] = answer
    is_counted = len(answers) >= agreement.quorum and not _never(agreement, folder, number, answers)
    after = _step(agreement, folder, number, learner, answers) if is_counted else learner
    found = Round(
        number, now(), tuple(answers), tuple(row for row in asks if row not in answers and row not in refused),
        {row: refused[row] for row in sorted(refused)},
        _loss(agreement, answers),
        _cosines(after.class_vectors), round(time.monotonic() - began, 3), is_counted,
        None if agreement.privacy.kind == "none" else privacy.epsilon_after(agreement.privacy, agreement.settings.rounds, number),
    )  # fmt: skip
    federations.append_round(folder, found)
    if is_counted:
        write_state(folder, agreement, number, after)
    return after, found


def _never(agreement: Agreement, folder: Path, number: int, answers: Iterable[int]) -> list[str]:
    """Return the classes that took part in no round when the last one ends; none before: their members may still come.

    Their class vectors are as random as at the start, and scores by them would mean nothing.
    """
    if number < agreement.settings.rounds:
        return []
    took_part = {row for one in federations.rounds(folder) if one.number < number for row in one.taking_part}
    return [name for row, name in enumerate(agreement.classes) if row not in took_part.union(answers)]


def _loss(agreement: Agreement, answers: Mapping[int, Answer]) -> float | None:
    """Return the mean loss; None where nobody took part, or noise hides members, whose losses would tell of their chips."""
    if not answers or agreement.privacy.kind == "local":
        return None
    return sum(answer.loss for answer in answers.values()) / len(answers)


def _step(agreement: Agreement, folder: Path, number: int, learner: Learner, answers: Mapping[int, Answer]) -> Learner:
    """Take the server's step with the answers that counted."""
    updates = {row: answer.update for row, answer in answers.items()}
    if agreement.privacy.kind == "central":
        noise = privacy.secret_noise(folder, _NOISE, agreement.digest, number)
        updates = privacy.central(agreement, updates, learner.theta, learner.class_vectors, noise)
    with one_thread():
        return server_round(learner, updates, agreement.settings)


def _finish(
    agreement: Agreement, folder: Path, transport: Transport, learner: Learner, parts: Sequence[TookPart]
) -> Mapping[int, str]:
    """Send the finished model, all class vectors included: a member needs them to score all classes."""
    model: dict[str, Tensor] = {**learner.theta, wire.CLASS_VECTORS: learner.class_vectors}
    facts = {"agreement": agreement.digest, "rounds": agreement.settings.rounds, **wire.facts_of_parts(parts)}
    here = federations.rows_here(folder, len(agreement.classes))
    for row in range(len(agreement.classes)):
        ledger.note(folder, wire.pack_model(model, facts), _name(agreement, row), is_here=row in here)
    return transport.finish(model, facts, deadline_s=agreement.deadline_s)


def _name(agreement: Agreement, row: int) -> str:
    return f"member of {agreement.classes[row]}"


def _cosines(class_vectors: Tensor) -> tuple[tuple[float, ...], ...]:
    unit = torch.nn.functional.normalize(class_vectors, dim=1)
    return tuple(tuple(round(value, 6) for value in row) for row in (unit @ unit.T).tolist())


def _facts(agreement: Agreement, found: Round) -> dict[str, Any]:
    others = [value for k, row in enumerate(found.cosines) for value in row[k + 1 :]]
    return {
        "round": found.number, "rounds": agreement.settings.rounds, "taking_part": found.taking_part, "late": found.late,
        "refused": dict(found.refused), "loss": found.loss, "class_cosine": max(others), "seconds": found.seconds,
        "is_counted": found.is_counted, "epsilon": found.epsilon,
    }  # fmt: skip


def _not_counted(agreement: Agreement, folder: Path, found: Round) -> FederationError:
    """Return the error of a round that never counted, with the reasons of those that were refused."""
    missing = [f"{agreement.classes[row]} was not heard of" for row in found.late]
    missing += [f"{agreement.classes[row]} was refused ({why.rstrip('.')})" for row, why in found.refused.items()]
    hint = "'Start again' on the job's card, or the same command, goes on with this round. Their waiting time is the agreement's deadline."
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


def refusal(agreement: Agreement, row: int, ask: Ask, answer: Answer) -> str:
    """Return why an answer does not count, in one sentence, which screens show; "" where it does.

    Args:
        row: of the member that sent it, as the transport knows it by its key.
        ask: what it was sent.
    """
    update = answer.update
    if answer.agreement != agreement.digest:
        return f"It joined another agreement: its digest is {printable(answer.agreement, 12)}, ours {agreement.digest[:12]}."
    if answer.class_name != agreement.classes[row]:
        return f"It claims the class {printable(answer.class_name)!r}; its key is admitted for {agreement.classes[row]!r}."
    if answer.round != ask.round:
        return f"It answers round {printable(answer.round)}; this is round {ask.round}."
    if type(update.n_chips) is not int or not 0 <= update.n_chips <= MAX_CHIPS:
        return f"It counts {printable(update.n_chips)} chips; 0 to {MAX_CHIPS:,} are possible."
    if update.n_chips == 0:
        return f"It has no building of the class {agreement.classes[row]!r} to learn from."
    if not math.isfinite(answer.loss):
        return "Its loss is no finite number: its training diverged."
    most = _LOSS_SPARE * (1 + agreement.settings.enough) ** 2  # see `positive_hinge_loss`
    if not 0 <= answer.loss <= most:
        return f"Its loss is {answer.loss:.3g}; 0 to {most:.3g} are possible."
    if update.theta.keys() != ask.theta.keys():
        odd = sorted(update.theta.keys() ^ ask.theta.keys())[0]
        return f"It {'lacks the' if odd in ask.theta else 'holds an unknown'} tensor {printable(odd)!r}."
    sent = {**ask.theta, "own_vector": ask.own_vector}
    came = {**update.theta, "own_vector": update.own_vector}
    return next(filter(None, (_odd(name, sent[name], came[name]) for name in sent)), "") or _too_long(agreement, sent, came)


def _odd(name: str, sent: Tensor, came: Tensor) -> str:
    if came.dtype != sent.dtype:
        return f"{printable(name)} is of type {_dtype(came)}; it must be {_dtype(sent)}."
    if came.shape != sent.shape:
        return f"{printable(name)} has the shape {tuple(came.shape)}; it must be {tuple(sent.shape)}."
    if n_bad := int((~came.isfinite()).sum()):
        return f"{n_bad:,} of {came.numel():,} values of {printable(name)} are no finite numbers."
    return ""


def _too_long(agreement: Agreement, sent: Mapping[str, Tensor], came: Mapping[str, Tensor]) -> str:
    """Compare the change of theta, and that of the class vector, with the bound of the agreement."""
    for what, names in (("theta", [name for name in sent if name != "own_vector"]), ("its class vector", ["own_vector"])):
        squares = [float((came[name].double() - sent[name].double()).square().sum()) for name in names]
        norm, most = math.sqrt(sum(squares)), privacy.longest(agreement, sum(sent[name].numel() for name in names))
        if norm > most:
            return f"Its change of {what} has a norm of {norm:.3g}; the agreement allows {most:.3g}."
    return ""


def _dtype(tensor: Tensor) -> str:
    return str(tensor.dtype).removeprefix("torch.")
