"""The files of federations, `federation/<id>/` of every project that takes part: agreement, members, rounds and ledger.

Reads and writes them without torch, so that screens and commands can show them. Logs are JSON lines, only ever appended to.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pu_geo.errors import FederationError, printable
from pu_geo.files import appended, atomic_write, checked, make_folder
from pu_geo.project import contents
from pu_geo.project.layout import Layout, read_json, reading, write_json

REST = "rest"
"""The class of all buildings of a project that nobody called damaged."""
AGREEMENT, MEMBERS, MEMBERSHIPS = "agreement.json", "members.json", "memberships.json"
ROUNDS, LEDGER, STATE, INVITATION = "rounds.jsonl", "ledger.jsonl", "state.safetensors", "invitation.json"
REQUEST = "request-{row}.json"
KEYS, TLS = "keys", "tls"  # folders; files in them have mode 0600
MODEL, DELIVERED, CONFIRMED = "model.pugeo-model.zip", "delivered.json", "confirmed.json"
AWAY_SHARE = 0.1
"""A class that missed more than this share of all rounds, at the end, missed what the others learned last."""
FACTS = "(facts)"
"""Name of the line in the ledger for what a message holds beside tensors."""


@dataclass(frozen=True)
class Admitted:
    """Whom the leader takes for the one member of a row.

    Attributes:
        fingerprint: of the public key, in the form that people compare; "" in a simulation.
        public_key: as text; "" in a simulation.
        node_id: that the transport gave it; None until it is known.
        project: name that people gave the project.
        gsd_m: pixel size of its scenes on the ground, metres.
    """

    class_name: str
    fingerprint: str = ""
    public_key: str = ""
    node_id: int | None = None
    project: str = ""
    gsd_m: float | None = None


@dataclass(frozen=True)
class Membership:
    """A class that this project holds in a federation.

    Attributes:
        types_from: where the damage types of its buildings come from, as in `TrainingRequest`; None where all its damaged
            buildings are of the class, and for "rest".
    """

    class_name: str
    types_from: str | None = None


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
        seconds: how long it took.
        is_counted: whether there was a quorum; else the round is asked for again.
        epsilon: spent so far, at the agreement's delta; None without noise.
    """

    number: int
    at: str
    taking_part: tuple[int, ...]
    late: tuple[int, ...]
    refused: Mapping[int, str]
    loss: float | None
    cosines: tuple[tuple[float, ...], ...]
    seconds: float
    is_counted: bool = True
    epsilon: float | None = None


@dataclass(frozen=True)
class TookPart:
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
        message: "ask", "answer", "model" or "refusal".
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
    shape: tuple[int, ...]
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


def agreement(folder: Path) -> dict[str, Any]:
    """Return what the agreement says, unchecked: `federation.agreement` checked it when it was stored."""
    found: dict[str, Any] = read_json(folder / AGREEMENT)
    return found


def write_agreement(folder: Path, content: bytes) -> None:
    """Store an agreement that was checked."""
    with atomic_write(folder / AGREEMENT) as temporary:
        temporary.write_bytes(content)


def is_lead(folder: Path) -> bool:
    """Return whether this project leads the federation."""
    return (folder / MEMBERS).is_file()


def is_deployed(folder: Path) -> bool:
    """Return whether the federation is one between machines, with an invitation, certificates or keys, and no trial."""
    has_files = (folder / INVITATION).is_file() or (folder / TLS).is_dir()
    return has_files or any(one.fingerprint for one in members(folder).values())


def members(folder: Path) -> dict[int, Admitted]:
    """Return row -> member, as the leader admitted them; none where this project does not lead."""
    if not is_lead(folder):
        return {}
    with reading(folder / MEMBERS):
        return {int(row): Admitted(**facts) for row, facts in dict(read_json(folder / MEMBERS)).items()}


def pixel_words(agreed: Mapping[str, Any], found: Iterable[tuple[str, float | None]]) -> list[str]:
    """Return in words which projects have much finer or coarser pixels than the federation was agreed on with.

    Args:
        agreed: as `agreement` returns it.
        found: name of a project and its pixel size, metres; None where it is not known.
    """
    agreed_m = float(agreed["features"]["gsd_m"])
    return [
        words
        for project, gsd_m in dict.fromkeys(found)
        if gsd_m is not None
        for words in contents.pixel_words(gsd_m, agreed_m, "The federation", f"in {printable(project)}")
    ]


def write_members(folder: Path, found: Mapping[int, Admitted]) -> None:
    """Store whom the leader admitted."""
    write_json(folder / MEMBERS, {str(row): asdict(found[row]) for row in sorted(found)})


def delivered(folder: Path) -> list[int]:
    """Return the rows of the admitted members that have the finished model; none where the leader sent it to nobody yet."""
    if not (folder / DELIVERED).is_file():
        return []
    with reading(folder / DELIVERED):
        known, there = dict(read_json(folder / DELIVERED)), members(folder)
        return sorted(row for row, one in there.items() if known.get(str(row)) == one.fingerprint)


def write_delivered(folder: Path, rows: Iterable[int]) -> None:
    """Store which members have the finished model, by their keys: a member that is admitted in one's place has it not."""
    there = members(folder)
    write_json(folder / DELIVERED, {str(row): there[row].fingerprint for row in sorted(rows) if row in there})


def rows_here(folder: Path, n_classes: int) -> set[int]:
    """Return the rows whose leader and member are both on this machine: all of a trial, else those of the leader's own project.

    A row that another key was admitted for is not here any more, though this project once joined for it.
    """
    if not is_deployed(folder):
        return set(range(n_classes))
    return {row for row, one in members(folder).items() if _own_key(folder, row) == one.public_key}


def _own_key(folder: Path, row: int) -> str | None:
    """Return the public key with which this project asked for a row; None where it did not, or the file is damaged."""
    with suppress(OSError, ValueError, KeyError, TypeError):
        return str(json.loads(checked(folder / REQUEST.format(row=row)).read_bytes())["public_key"])
    return None


def memberships(folder: Path) -> list[Membership]:
    """Return the classes that this project holds, in the order in which it joined."""
    if not (folder / MEMBERSHIPS).is_file():
        return []
    with reading(folder / MEMBERSHIPS):
        return [Membership(**facts) for facts in read_json(folder / MEMBERSHIPS)]


def require_different_buildings(project: str, held: Iterable[Membership]) -> None:
    """Refuse two damage classes of a project of which one would be made of all its damaged buildings, those of the other among them.

    Raises:
        FederationError: says which classes, and how to say where their buildings come from.
    """
    damage = [one for one in held if one.class_name != REST]
    whole = next((one.class_name for one in damage if one.types_from is None), None)
    if whole is None or len(damage) < 2:
        return
    others = " and ".join(repr(one.class_name) for one in damage if one.class_name != whole)
    raise FederationError(
        f"All damaged buildings of {project} would be of the class {printable(whole)!r}, those of {others} among them: the same "
        "buildings would teach several classes.",
        "Say where its damage types come from, for each class: name --types-from, or choose it on the screen (answers, grades, or an "
        "attribute); or let the project hold one damage type.",
        kind="class",
    )


def write_memberships(folder: Path, found: Iterable[Membership]) -> None:
    """Store the classes that this project holds."""
    write_json(folder / MEMBERSHIPS, [asdict(one) for one in found])


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
        facts = {**line, "refused": {int(row): words for row, words in line["refused"].items()}}
        for name in ("taking_part", "late"):
            facts[name] = tuple(facts[name])
        facts["cosines"] = tuple(map(tuple, facts["cosines"]))
        one = Round(**facts)
        known[one.number if one.is_counted else (one.number, number)] = one
    found = [one for one in known.values() if one.is_counted or not is_counted]
    return sorted(found, key=lambda one: (one.number, one.at))


def took_part(found: Iterable[Round], n_classes: int) -> tuple[TookPart, ...]:
    """Return how far each class took part in rounds that counted, by its row of W."""
    numbers: list[list[int]] = [[] for _ in range(n_classes)]
    for one in found:
        for row in one.taking_part:
            numbers[row].append(one.number)
    return tuple(TookPart(len(each), max(each, default=0)) for each in numbers)


def absence_words(classes: Iterable[str], parts: Iterable[TookPart], n_rounds: int) -> list[str]:
    """Return which classes took part in too few of the rounds for their scores to be trusted, then which missed few, in words.

    Too few is less than half of them, or none of the last ones, see `AWAY_SHARE`: theta goes on, and their class vectors stay behind.

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
        f"Classes took part in too few of the {n_rounds} rounds: {'; '.join(loud)}. Their scores, and those of the other classes for "
        "their buildings, may be wrong: do not use this map without an audit, or train again with their members connected."
    )
    few = f"Not every class took part in all {n_rounds} rounds: {', '.join(missed)}."
    return [words for words, found in ((too_few, loud), (few, missed)) if found]


def warnings(folder: Path, agreed: Mapping[str, Any], rounds: Sequence[Round]) -> list[str]:
    """Return what whoever leads must know: members of other pixels, and classes that took part in few of the rounds so far."""
    projects = [(one.project, one.gsd_m) for one in members(folder).values()]
    classes = agreed["classes"]
    absent = absence_words(classes, took_part(rounds, len(classes)), rounds[-1].number) if rounds else []
    return [*pixel_words(agreed, projects), *absent]


def rounds_done(folder: Path) -> int:
    """Return the last round that is known here: of the leader's log, or the last one that a member of this project answered."""
    if is_lead(folder):
        return max((one.number for one in rounds(folder)), default=0)
    return max((one.round for one in ledger(folder) if one.message == "answer"), default=0)


def append_sent(folder: Path, found: Iterable[Sent]) -> None:
    """Append to the ledger what is about to be sent."""
    append(
        folder / LEDGER,
        [{name: value for name, value in asdict(one).items() if value is not None and value is not False} for one in found],
    )


def ledger(folder: Path) -> list[Sent]:
    """Return what was sent, the oldest first."""
    return [Sent(**{**line, "shape": tuple(line["shape"])}) for line in lines(folder / LEDGER)]


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
        try:
            value = json.loads(line)
        except ValueError:
            continue
        if isinstance(value, dict):
            found.append(value)
    return found
