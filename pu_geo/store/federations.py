"""The files of federations, `federation/<id>/` of every project that takes part: agreement, members, rounds and ledger.

Reads and writes them without torch, so that screens and commands can show them. Logs are JSON lines, only ever appended to.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

from pu_geo.errors import FederationError, printable
from pu_geo.files import appended, atomic_write, make_folder
from pu_geo.store import locks
from pu_geo.store.layout import Layout, read_json, reading, write_json

REST = "rest"
"""The class of all buildings of a project that nobody called damaged."""
AGREEMENT, MEMBERS, MEMBERSHIPS = "agreement.json", "members.json", "memberships.json"
ROUNDS, LEDGER, STATE, INVITATION = "rounds.jsonl", "ledger.jsonl", "state.safetensors", "invitation.json"
REQUEST = "request-{row}.json"
KEYS, TLS = "keys", "tls"  # folders; files in them have mode 0600
MODEL, CONFIRMED = "model.pugeo-model.zip", "confirmed.json"
AWAY_SHARE = 0.1
"""A class that missed more than this share of all rounds, at the end, missed what the others learned last."""
FACTS = "(facts)"
"""Name of the line in the ledger for what a message holds beside tensors."""
Held = Mapping[str, str | None]
"""The classes that a project holds -> where the damage types of their buildings come from, as in `TrainingRequest`; None
where all its
damaged buildings are of the class, and for "rest"."""


@dataclass(frozen=True)
class Member:
    """Who holds one class of a federation.

    Attributes:
        project: name that people gave the project.
        gsd_m: pixel size of its scenes on the ground, metres; of several sites that which differs most from the agreed one.
        fingerprint: of the public key, in the form that people compare; "" in a trial.
        public_key: as text; "" in a trial.
        is_own: whether the leader's own project is this member.
        has_model: whether it has the finished model.
    """

    class_name: str
    project: str = ""
    gsd_m: float = 0.0
    fingerprint: str = ""
    public_key: str = ""
    is_own: bool = False
    has_model: bool = False


@dataclass(frozen=True)
class Round:
    """What happened in a round.

    Attributes:
        number: 1 for the first.
        taking_part: rows whose answers counted, rising.
        late: rows that were not heard of before the deadline.
        refused: row -> why its answer did not count, in words.
        loss: mean over those that took part; None where nobody did.
        cosines: of the class vectors after the round, [C, C].
        is_counted: whether there was a quorum; else the round is asked for again.
    """

    number: int
    at: str
    taking_part: Sequence[int]
    late: Sequence[int]
    refused: Mapping[int, str]
    loss: float | None
    cosines: Sequence[Sequence[float]]
    is_counted: bool = True


class TookPart(NamedTuple):
    """How far a class took part.

    Attributes:
        n_rounds: in which its answer counted.
        last: the newest of them; 0 for none.
    """

    n_rounds: int
    last: int


@dataclass(frozen=True)
class Sent:
    """A tensor that a leader or member sent: it left this machine, unless its receiver is here, too.

    Attributes:
        message: "ask", "answer", "model", "received" or "refusal".
        to: receiver, in words.
        round: 0 for the model at the end, and for a refusal.
        name: of the tensor, or `FACTS` for what the message holds beside tensors, which `values` repeats.
        dtype, shape, bytes, sha256: of its values in C order.
        is_here: whether the receiver is on this machine: another class of this project, or anybody in a trial.
    """

    at: str
    message: str
    to: str
    round: int
    name: str
    dtype: str
    shape: Sequence[int]
    bytes: int
    sha256: str
    values: Mapping[str, Any] | None = None
    is_here: bool = False


def ids(layout: Layout) -> list[str]:
    """Return the federations that a project takes part in, by name."""
    return sorted(path.parent.name for path in layout.path("federation").glob(f"*/{AGREEMENT}"))


def secrets(layout: Layout) -> list[Path]:
    """Return the folders with keys, which belong to this project alone and into no copy of it."""
    return [path for name in (KEYS, TLS) for path in sorted(layout.path("federation").glob(f"*/{name}"))]


def agreement_bytes(folder: Path) -> bytes:
    """Return the agreement as it is stored. Raises ProjectError of kind "lost" if it is missing."""
    with reading(folder / AGREEMENT):
        return (folder / AGREEMENT).read_bytes()


def write_agreement(folder: Path, content: bytes) -> None:
    """Store an agreement that was checked. Raises FederationError if the project has another one there."""
    if (folder / AGREEMENT).is_file() and agreement_bytes(folder) != content:
        raise FederationError(
            f"This project takes part in another federation that is called {folder.name}, with another agreement.",
            "Ask whoever leads to give the new one another name.",
            kind="agreement",
        )
    with atomic_write(folder / AGREEMENT) as temporary:
        temporary.write_bytes(content)


def is_lead(folder: Path) -> bool:
    """Return whether this project leads the federation."""
    return (folder / MEMBERS).is_file()


def is_deployed(folder: Path) -> bool:
    """Return whether the federation is one between machines, with an invitation or certificates, and no trial."""
    return (folder / INVITATION).is_file() or (folder / TLS).is_dir()


def members(folder: Path) -> dict[int, Member]:
    """Return row -> member, as the leader admitted them; none where this project does not lead."""
    if not is_lead(folder):
        return {}
    with reading(folder / MEMBERS):
        return {int(row): Member(**facts) for row, facts in dict(read_json(folder / MEMBERS)).items()}


def write_members(folder: Path, found: Mapping[int, Member]) -> None:
    """Store whom the leader admitted."""
    write_json(folder / MEMBERS, {str(row): asdict(found[row]) for row in sorted(found)})


@contextmanager
def changing_members(folder: Path) -> Iterator[dict[int, Member]]:
    """Yield the members of a leader; what the block leaves in the dict is stored, unless it raises. Others wait
    meanwhile.
    """
    with locks.one_at_a_time(folder / "members.lock"):
        found = members(folder)
        yield found
        write_members(folder, found)


def rows_here(folder: Path, n_classes: int) -> set[int]:
    """Return the rows whose leader and member are both on this machine: all of a trial, else those of the leader's own
    project.
    """
    if not is_deployed(folder):
        return set(range(n_classes))
    return {row for row, one in members(folder).items() if one.is_own}


def memberships(folder: Path) -> dict[str, str | None]:
    """Return the classes that this project holds, in the order in which it joined; see `Held`."""
    if not (folder / MEMBERSHIPS).is_file():
        return {}
    with reading(folder / MEMBERSHIPS):
        return dict(read_json(folder / MEMBERSHIPS))


def write_memberships(folder: Path, held: Held) -> None:
    """Store the classes that this project holds."""
    write_json(folder / MEMBERSHIPS, dict(held))


def require_different_buildings(project: str, held: Held) -> None:
    """Refuse two damage classes of a project of which one would be made of all its damaged buildings, those of the other
    among them.

    Raises:
        FederationError: says which classes, and how to say where their buildings come from.
    """
    damage = {name: source for name, source in held.items() if name != REST}
    if None not in damage.values() or len(damage) < 2:
        return
    whole = next(name for name, source in damage.items() if source is None)
    others = " and ".join(repr(name) for name in damage if name != whole)
    raise FederationError(
        f"All damaged buildings of {project} would be of the class {printable(whole)!r}, those of {others} among them: the "
        "same buildings would teach several classes.",
        "Say where its damage types come from, for each class: name --types-from, or choose it on the screen (answers "
        "or grades); or let the project hold one damage type.",
        kind="class",
    )


def append_round(folder: Path, found: Round) -> None:
    """Append a round to the log."""
    append(folder / ROUNDS, [asdict(found)])


def rounds(folder: Path, *, is_counted: bool = True) -> list[Round]:
    """Return the rounds in order; of one that a leader did again after it was killed the last line counts.

    Args:
        is_counted: leave out tries without a quorum.
    """
    known: dict[Any, Round] = {}
    for number, line in enumerate(lines(folder / ROUNDS)):
        one = Round(**{**line, "refused": {int(row): words for row, words in line["refused"].items()}})
        known[one.number if one.is_counted else (one.number, number)] = one
    return [one for one in known.values() if one.is_counted or not is_counted]


def took_part(found: Iterable[Round], n_classes: int) -> list[TookPart]:
    """Return how far each class took part in rounds that counted, by its row of W."""
    numbers: list[list[int]] = [[] for _ in range(n_classes)]
    for one in found:
        for row in one.taking_part:
            numbers[row].append(one.number)
    return [TookPart(len(each), max(each, default=0)) for each in numbers]


def absence_words(classes: Iterable[str], parts: Iterable[TookPart], n_rounds: int) -> list[str]:
    """Return which classes took part in too few of the rounds for their scores to be trusted, then which missed few, in
    words.

    Too few is less than half of them, or none of the last ones, see `AWAY_SHARE`: theta goes on, and their class vectors
    stay behind.

    Args:
        n_rounds: that counted so far.
    """
    loud, missed = [], []
    for name, part in zip(classes, parts, strict=True):
        if 2 * part.n_rounds < n_rounds or n_rounds - part.last > AWAY_SHARE * n_rounds:
            loud.append(f"{name!r} in {part.n_rounds}" + (f", the last time in round {part.last}" if part.last else ""))
        elif part.n_rounds < n_rounds:
            missed.append(f"{name!r} in {part.n_rounds}")
    too_few = (
        f"Classes took part in too few of the {n_rounds} rounds: {'; '.join(loud)}. Their scores, and those of the other "
        "classes for "
        "their buildings, may be wrong: do not use this map without an accuracy assessment, or train again "
        "with their members connected."
    )
    few = f"Not every class took part in all {n_rounds} rounds: {', '.join(missed)}."
    return [words for words, found in ((too_few, loud), (few, missed)) if found]


def rounds_done(folder: Path) -> int:
    """Return the last round that is known here: of the leader's log, or the last one that a member of this project
    answered.
    """
    if is_lead(folder):
        return max((one.number for one in rounds(folder)), default=0)
    return max((one.round for one in ledger(folder)), default=0)


def append_sent(folder: Path, found: Iterable[Sent]) -> None:
    """Append to the ledger what is about to be sent."""
    append(folder / LEDGER, map(asdict, found))


def ledger(folder: Path) -> list[Sent]:
    """Return what was sent, the oldest first."""
    return [Sent(**line) for line in lines(folder / LEDGER)]


def append(path: Path, found: Iterable[Mapping[str, Any]]) -> None:
    """Append whole lines and force them to disk; see `files.appended`.

    Raises:
        OSError: if they did not fit on the disk.
    """
    lines = "".join(json.dumps(one, ensure_ascii=False, allow_nan=False) + "\n" for one in found)
    with appended(make_folder(path.parent) / path.name, lines.encode()):
        pass


def lines(path: Path) -> list[dict[str, Any]]:
    """Return the objects of a log; lines that a crash cut off are left out."""
    found = []
    for line in path.read_bytes().split(b"\n") if path.is_file() else ():
        with suppress(ValueError):
            value = json.loads(line)
            if isinstance(value, dict):
                found.append(value)
    return found
