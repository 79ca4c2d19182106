"""What the Train screen asks for about federations: what can be led or joined, who waits to be admitted, rounds, and the ledger."""

from __future__ import annotations

import csv
import importlib.util
import io
import json
import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

import numpy as np

from pu_geo import jobs, wording
from pu_geo.errors import FederationError, PuGeoError
from pu_geo.jobs import JobView, tasks
from pu_geo.project import contents, damage_types, federations, model_files, store
from pu_geo.project.federations import Membership, Sent
from pu_geo.project.layout import SHARED, Layout
from pu_geo.services.imagery import features
from pu_geo.services.project import projects
from pu_geo.services.train import models, training

LEAD, SERVE, JOIN, SIMULATE = "federate_lead", "federate_serve", "federate_join", "federate_simulate"
EXTRA = "flwr"
REST = federations.REST

State = Literal["open", "waits", "admitted", "here", "late", "refused"]
Stage = Literal["waits", "runs", "stopped", "done"]


@dataclass(frozen=True)
class Member:
    """Who holds one class of a federation.

    Attributes:
        class_name: "rest", or a damage type.
        project: as its agency calls it; "" where that is not known here.
        fingerprint: of its node key, as people compare it; "" where it is not known here.
        state: "open" nobody asked, "waits" to be admitted, "admitted", in the newest round "here", "late" or "refused".
        words: why it was refused, else "".
        is_own: whether this project holds the class.
    """

    class_name: str
    project: str = ""
    fingerprint: str = ""
    state: State = "open"
    words: str = ""
    is_own: bool = False


@dataclass(frozen=True)
class Federation:
    """A federation that this project takes part in, as its files say now.

    Attributes:
        classes: "rest", then the damage types.
        stage: "waits" before the first round, "runs", "stopped" where no job of this project works for it, "done".
        round: the newest that counted, 0 before the first; n_rounds: all that were agreed on.
        server_fingerprint: of the leader's certificate, "" where it is not known yet.
        members: one a class.
        cosines: of the class vectors after the newest round, [C][C]; empty before. A member has them once it has the model.
        angles: (round, smallest angle between two class vectors in degrees), rising.
        warnings: members of other pixels, and classes that took part in few of the rounds so far, a sentence or two each.
        troubles: "round 3: flooded was late", newest first.
        privacy: in words.
        is_trial: whether all members are projects on this machine, and nothing is sent.
    """

    id: str
    title: str
    is_lead: bool
    classes: tuple[str, ...]
    stage: Stage
    round: int
    n_rounds: int
    deadline_s: float
    members: tuple[Member, ...]
    cosines: tuple[tuple[float, ...], ...]
    angles: tuple[tuple[int, float], ...]
    warnings: tuple[str, ...]
    troubles: tuple[str, ...]
    privacy: str
    is_trial: bool = False
    address: str = ""
    server_fingerprint: str = ""

    @property
    def is_over(self) -> bool:
        return self.stage == "done"

    @property
    def is_active(self) -> bool:
        return self.stage in ("waits", "runs")

    @property
    def own(self) -> tuple[str, ...]:
        """Classes that this project holds."""
        return tuple(one.class_name for one in self.members if one.is_own)


def is_installed() -> bool:
    """Return whether Flower, which carries messages between machines, is installed: the extra `federated`."""
    return importlib.util.find_spec(EXTRA) is not None


def ids(layout: Layout) -> list[str]:
    """Return the ids of the federations that a project takes part in, by name."""
    return federations.ids(layout)


def all_of(layout: Layout) -> list[Federation]:
    """Return the federations that a project takes part in, the newest first."""
    made = {each: (layout.federation(each) / federations.AGREEMENT).stat().st_mtime for each in federations.ids(layout)}
    return [read(layout, each) for each in sorted(made, key=lambda name: (-made[name], name))]


def labels_of(layout: Layout, found: Sequence[Federation]) -> dict[str, str]:
    """Return id -> title; those of one title with the time at which each was made or joined here, and their id."""
    n_of, labels = Counter(one.title for one in found), {one.id: one.title for one in found}
    for one in found:
        if n_of[one.title] > 1:
            made_at = (layout.federation(one.id) / federations.AGREEMENT).stat().st_mtime
            when = wording.day_and_time(datetime.fromtimestamp(made_at, UTC).isoformat())
            labels[one.id] = f"{one.title} · {when} · {one.id}"
    return labels


def read(layout: Layout, federation_id: str) -> Federation:
    """Return one of them as it stands. Raises ProjectError of kind "lost" if a file of it is damaged or missing."""
    folder = layout.federation(federation_id)
    known, rounds = federations.agreement(folder), federations.rounds(folder)
    classes = tuple(map(str, known["classes"]))
    newest = rounds[-1] if rounds else None
    cosines = newest.cosines if newest else _cosines_of_model(folder / federations.MODEL)
    tried = federations.rounds(folder, is_counted=False)
    number = newest.number if newest else 0
    return Federation(
        federation_id,
        str(known["title"]),
        federations.is_lead(folder),
        classes,
        _stage(layout, federation_id, number),
        number,
        int(known["settings"]["rounds"]),
        float(known["deadline_s"]),
        _members(folder, classes, tried[-1] if tried else None),
        cosines,
        tuple((one.number, angle) for one in rounds if (angle := _angle(one.cosines)) is not None),
        tuple(federations.warnings(folder, known, rounds)),
        _troubles(classes, tried),
        privacy_words(known["privacy"], len(federations.memberships(folder))),
        not federations.is_deployed(folder),
    )


def _cosines_of_model(path: Path) -> tuple[tuple[float, ...], ...]:
    """Return the cosines of the class vectors in a finished model: all that a member knows of them. Nothing where there is no model."""
    with suppress(PuGeoError):
        vectors = next((one for name, one in model_files.read(path).tensors.items() if name.endswith("class_vectors")), None)
        if vectors is not None:
            unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
            return tuple(map(tuple, (unit @ unit.T).tolist()))
    return ()


def _stage(layout: Layout, federation_id: str, number: int) -> Stage:
    if (layout.federation(federation_id) / federations.MODEL).is_file():
        return "done"
    found = jobs_of(layout, federation_id)
    if any(job.task in (LEAD, SERVE) and job.state == "done" for job in found):
        return "done"
    active = [job for job in found if job.is_active]
    if not active:
        return "stopped"
    return "runs" if number or any((job.progress or 0) > 0 for job in active) else "waits"


def jobs_of(layout: Layout, federation_id: str) -> list[JobView]:
    """Return the newest job of a project for each part that it has in a federation: leading it, and each of its classes."""
    found: dict[tuple[str, object], JobView] = {}
    for job in jobs.all_jobs(layout):
        if tasks.of(job.task).panel == "federation" and federation_of(job) == federation_id:
            found.setdefault((job.task, job.args.get("class_name")), job)
    return list(found.values())


def federation_of(job: JobView) -> str:
    """Return the id of the federation that a job works for."""
    return str(job.args.get("federation") or job.args.get("name") or "")


def starting(layout: Layout) -> list[JobView]:
    """Return the jobs of federations that have no agreement yet: they start, or failed to."""
    known = federations.ids(layout)
    return [job for job in jobs.all_jobs(layout) if job.task in (LEAD, SIMULATE) and federation_of(job) not in known]


def _angle(cosines: Sequence[Sequence[float]]) -> float | None:
    """Return the smallest angle between two class vectors, degrees 0..180; None where there are none."""
    nearest = [value for i, row in enumerate(cosines) for value in row[:i]]
    return math.degrees(math.acos(min(max(max(nearest), -1.0), 1.0))) if nearest else None


def _troubles(classes: Sequence[str], tried: Sequence[federations.Round]) -> tuple[str, ...]:
    """Return in words who was late or refused, and which rounds had no quorum; the newest first."""
    found = []
    for one in reversed(tried):
        found += [f"round {one.number}: {classes[row]} refused: {words}" for row, words in sorted(one.refused.items())]
        if one.late:
            found.append(f"round {one.number}: {wording.listed([classes[row] for row in one.late])} did not answer in time")
        if not one.is_counted:
            found.append(f"round {one.number}: members that it needs did not take part; it is asked for again")
    return tuple(found)


def privacy_words(privacy: Mapping[str, Any], n_held: int = 0) -> str:
    """Return in plain words what noise hides, and what it does not.

    Args:
        privacy: fields of `Privacy`.
        n_held: classes that this project holds.
    """
    from pu_geo.federation.agreement import Privacy

    about_class = "The class vectors that all get at the end tell something about what each damage type is like."
    if privacy["kind"] == "none":
        return (
            "No noise: there is no formal privacy. Images, footprints and labels stay on each machine, but whoever sees the weights that a "
            f"member sends can learn something of its buildings. {about_class}"
        )
    who = {
        "local": "Each agency adds noise before it sends: nobody else gets its plain weights",
        "central": "The leader adds noise to what it averages: the other agencies get no plain weights, the leader does",
    }[privacy["kind"]]
    rules, n = Privacy(**privacy), max(n_held, 2)
    agency = (
        f"the {n} classes of this project together"
        if n_held > 1
        else "an agency that holds two, such as a damage type and rest"
    )
    return (
        f"{who}. Over all rounds epsilon is {rules.epsilon:g} at delta {rules.delta:g} for what one member, one class of an agency, "
        f"contributes, and up to {rules.epsilon_of_agency(n):.3g} for {agency}; smaller hides more. {about_class}"
    )


def _members(folder: Path, classes: Sequence[str], newest: federations.Round | None) -> tuple[Member, ...]:
    admitted, own = federations.members(folder), {one.class_name for one in federations.memberships(folder)}
    return tuple(_member(row, name, admitted.get(row), name in own, newest) for row, name in enumerate(classes))


def _member(
    row: int, name: str, admitted: federations.Admitted | None, is_own: bool, newest: federations.Round | None
) -> Member:  # fmt: skip
    state: State = "open" if admitted is None else "admitted"
    if newest is not None:
        heard: dict[bool, State] = {
            row in newest.taking_part: "here",
            row in newest.refused: "refused",
            row in newest.late: "late",
        }
        state = heard.get(True, state)
    words = newest.refused.get(row, "") if newest is not None else ""
    project, fingerprint = (admitted.project, admitted.fingerprint) if admitted else ("", "")
    return Member(name, project, fingerprint, state, words, is_own)


# What left this machine


@dataclass(frozen=True)
class LedgerTotal:
    """What left this machine for one federation so far, and what stayed on it: between projects or classes that are here."""

    n_tensors: int
    n_bytes: int
    n_here: int
    bytes_here: int


def ledger(layout: Layout, federation_id: str) -> list[Sent]:
    """Return each tensor that was sent, the oldest first; those for members on this machine are marked."""
    return federations.ledger(layout.federation(federation_id))


def ledger_total(found: Sequence[Sent]) -> LedgerTotal:
    """Sum up what left this machine, and what stayed on it; what a message holds beside tensors counts as one."""
    left, here = ([one for one in found if one.is_here is is_here] for is_here in (False, True))
    return LedgerTotal(len(left), sum(one.bytes for one in left), len(here), sum(one.bytes for one in here))


def ledger_table(found: Sequence[Sent]) -> list[dict[str, object]]:
    """Return lines of the ledger as rows of plain values."""
    return [
        {
            "time": one.at, "round": str(one.round or ""), "message": one.message, "to": one.to, "left": not one.is_here, "name": one.name, "dtype": one.dtype,
            "shape": " x ".join(map(str, one.shape)), "bytes": one.bytes, "sha256": one.sha256,
        }
        for one in found
    ]  # fmt: skip


def ledger_csv(found: Sequence[Sent]) -> str:
    """Return the ledger as CSV."""
    text = io.StringIO()
    rows = ledger_table(found)
    writer = csv.DictWriter(text, list(rows[0]) if rows else ["time"], lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def ledger_lines(found: Sequence[Sent]) -> str:
    """Return the ledger as JSON lines, with the values of what messages hold beside tensors."""
    return "".join(json.dumps(asdict(one), ensure_ascii=False) + "\n" for one in found)


# What can be led and joined


@dataclass(frozen=True)
class NotReady:
    """Why a project cannot take part in a federation, in words; `needs_features`: shared features would do."""

    words: str
    needs_features: bool = False


def why_not(layout: Layout) -> NotReady | None:
    """Return why a project cannot take part, None where it can: it needs chips with features by shared filters."""
    known = features.overview(layout)
    if not known.sets:
        return NotReady("There are no chips yet: cut them on the Imagery page.")
    if feature_set(layout) is None:
        return NotReady(
            "Members compare buildings by the same features, and the filters of the usual ones are patches of this project's imagery. "
            "Shared features are by filters that hold no imagery; this project has none yet.",
            needs_features=True,
        )
    return None


def feature_set(layout: Layout) -> str | None:
    """Return the set that a federation would use: the one in use if it holds no imagery, else the newest shared one, else None."""
    known = features.overview(layout)
    shared = [one.name for one in known.sets if one.maker.get("kind") == SHARED]
    return known.in_use if known.in_use in shared else shared[-1] if shared else None


@dataclass(frozen=True)
class OwnClass:
    """Damaged buildings of this project that can be a class.

    Attributes:
        name: of the damage type; "" for all damaged buildings, whatever type the federation calls them.
        types_from: where the type comes from, see `federations.Membership`; None for all damaged buildings.
        n: how many.
    """

    name: str
    types_from: str | None
    n: int


def own_classes(layout: Layout) -> list[OwnClass]:
    """Return what this project could hold: all its damaged buildings first, then each type that some of them count as.

    A class has the buildings that its member would take: see `federation.member.OwnData.rows_of`.
    """
    _, pu = training.to_learn_from(layout)
    with store.connect(layout) as db:
        kinds = damage_types.kinds_of(db, pu)
    found = [OwnClass("", None, int(pu.is_positive.sum()))]
    for source, counts in kinds.items():
        found += [OwnClass(name, source, n) for name, n in sorted(counts.items(), key=lambda item: (-item[1], item[0]))]
    return found


@dataclass(frozen=True)
class Plan:
    """What whoever leads chooses; see `federation.agreement.Agreement` for the bounds.

    Attributes:
        types: damage types, without "rest".
        host: by which the others reach this machine.
        privacy: "none", "local" or "central"; epsilon and clip count where it is not "none".
    """

    title: str = ""
    types: tuple[str, ...] = ()
    rounds: int = 30
    deadline_s: float = 120.0
    host: str = "127.0.0.1"
    privacy: str = "none"
    epsilon: float = 8.0
    clip: float = 1.0


def is_local(address: str) -> bool:
    """Return whether nobody but projects on this computer can reach an address, with or without a port."""
    host = address.rpartition(":")[0] if ":" in address else address
    return host == "localhost" or host.startswith("127.")


@dataclass(frozen=True)
class Invitation:
    """What an invitation file says; `fingerprint` covers the agreement and the leader's certificate."""

    id: str
    title: str
    classes: tuple[str, ...]
    n_rounds: int
    address: str
    fingerprint: str
    privacy: str
    gsd_m: float

    @property
    def types(self) -> tuple[str, ...]:
        return self.classes[1:]


def invitation(path: str | Path) -> Invitation:
    """Read an invitation file. Raises FederationError if it is none, or of another version."""
    from pu_geo.federation.deployed import membership  # needs the extra

    found = membership.read_invitation(Path(path).expanduser())
    known = found.agreement
    return Invitation(
        known.id,
        known.title,
        known.classes,
        known.settings.rounds,
        found.address,
        found.fingerprint,
        privacy_words(asdict(known.privacy)),
        known.features.gsd_m,
    )


def pixel_words(layout: Layout, found: Invitation) -> list[str]:
    """Return in words that this project's pixels are much finer or coarser than those of whoever leads."""
    return contents.pixel_words(store.call(layout, contents.grid).gsd_m, found.gsd_m, "The federation")


@dataclass(frozen=True)
class Request:
    """A file in which somebody asks to be the member of a class."""

    path: Path
    class_name: str
    project: str
    fingerprint: str
    gsd_m: float


def request_pixel_words(layout: Layout, federation_id: str, asked: Request) -> list[str]:
    """Return in words that whoever asks has much finer or coarser pixels than the federation was agreed on with."""
    agreed = federations.agreement(layout.federation(federation_id))
    return federations.pixel_words(agreed, [(asked.project, asked.gsd_m)])


def request(path: str | Path) -> Request:
    """Read a member's request. Raises FederationError if it is none, or was changed on its way."""
    from pu_geo.federation.deployed import membership  # needs the extra

    file = Path(path).expanduser()
    found = membership.read_request(file)
    return Request(file, found.class_name, found.project, found.fingerprint, found.gsd_m)


def own_requests(layout: Layout, federation_id: str) -> list[Request]:
    """Return the requests that this project made, by the place of their class; none without the extra."""
    found = sorted(layout.federation(federation_id).glob("request-*.json"), key=lambda path: (len(path.name), path.name))
    return [request(path) for path in found] if is_installed() else []


def is_holder(member: Member, asked: Request) -> bool:
    """Return whether a request is of the key that holds the class already."""
    return bool(member.fingerprint) and member.fingerprint == asked.fingerprint


def invitation_file(layout: Layout, federation_id: str) -> Path | None:
    """Return the invitation that a project has; None before the leader's job wrote it, and without the extra."""
    path = layout.federation(federation_id) / federations.INVITATION
    return path if path.is_file() and is_installed() else None


def admit(layout: Layout, federation_id: str, asked: Request) -> None:
    """Bind a class to the key of whoever asked for it; the person compared the fingerprint. Raises FederationError if it is taken."""
    from pu_geo.federation.deployed import membership  # needs the extra

    membership.admit(layout, federation_id, membership.read_request(asked.path), asked.fingerprint)


# Starts


def start_lead(layout: Layout, plan: Plan, own: Sequence[Membership]) -> str:
    """Start the job that leads a new federation, and takes part in it for classes of this project; return the federation's id.

    Raises:
        FederationError: if it has no name or no damage type, one twice, or this project has no building of a class.
    """
    features_here = _require_ready(layout)
    if not plan.title or not plan.types:
        raise FederationError("A federation needs a name and a damage type.", "Write both.", kind="plan")
    if REST in plan.types:
        raise FederationError(
            f"{REST!r} is the class of all buildings that nobody called damaged.",
            "Give the damage type another name.",
            kind="plan",
        )
    _require_labels(layout, own)
    args = {
        "federation": _new_id(plan.title, layout), "title": plan.title, "types": list(plan.types), "feature_set": features_here,
        "rounds": plan.rounds, "deadline_s": plan.deadline_s, "own": [asdict(one) for one in own], "host": plan.host,
        "privacy": {"kind": plan.privacy, "epsilon": plan.epsilon, "clip": plan.clip},
    }  # fmt: skip
    jobs.start(layout, LEAD, args)
    return str(args["federation"])


def start_join(layout: Layout, path: str, own: Sequence[Membership], fingerprint: str) -> str:
    """Join a federation for classes of this project, and start a job for each; return the federation's id. Nothing is sent before a
    leader has admitted the keys.

    Args:
        fingerprint: of the invitation that people compared; the file may be another one by now.

    Raises:
        FederationError: if the file is no invitation, or has another fingerprint, no class was named, or this project has no building of one.
    """
    from pu_geo.federation.deployed import membership  # needs the extra

    _require_ready(layout)
    if not own:
        raise FederationError("No class was named.", "Choose the damage type of this project, or “rest”.", kind="class")
    found = membership.read_invitation(Path(path).expanduser())
    membership.require_fingerprint(found, fingerprint)
    for one in own:
        found.agreement.row(one.class_name)
    _require_labels(layout, own)
    for one in own:
        membership.accept(layout, found, one.class_name, one.types_from)
    membership.confirm(layout.federation(found.agreement.id), found)
    for one in own:
        jobs.start(layout, JOIN, {"federation": found.agreement.id, "class_name": one.class_name})
    return found.agreement.id


def _require_ready(layout: Layout) -> str:
    """Return the feature set that a federation would use. Raises FederationError if the project cannot take part."""
    reason = why_not(layout)
    if reason is not None:
        raise FederationError(reason.words, "Make shared features, on Imagery or here.", kind="features")
    return str(feature_set(layout))


def _require_labels(layout: Layout, own: Sequence[Membership]) -> None:
    """Raise FederationError if the project has no building of a class that it would hold, or the same ones for two."""
    federations.require_different_buildings(layout.folder.name, own)
    counts = {(one.name, one.types_from): one.n for one in own_classes(layout)}
    for one in own:
        n = counts.get(("" if one.types_from is None else one.class_name, one.types_from), 0)
        if one.class_name != REST and not n:
            raise FederationError(
                f"This project has no damaged building of the class {one.class_name!r} to learn from.",
                "Mark some on the Annotate page, or choose another class.",
                kind="few_labels",
            )


def _new_id(title: str, *layouts: Layout) -> str:
    """Return an id made of a title that no federation of these projects has."""
    words = re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-")[:40] or "federation"
    taken = {name for each in layouts for name in (*federations.ids(each), *map(federation_of, starting(each)))}
    return next(name for name in (words, *(f"{words}-{n}" for n in range(2, len(taken) + 3))) if name not in taken)


@dataclass(frozen=True)
class Party:
    """Another project on this machine, for a trial: its folder, and what it could hold."""

    layout: Layout
    name: str
    classes: tuple[OwnClass, ...]

    def name_of(self) -> str:
        """Return its name with that of its folder, which differ between projects of one name."""
        return f"{self.name} · {self.layout.folder.name}"


def parties(layout: Layout) -> list[Party]:
    """Return the other known projects on this machine that can take part in a trial."""
    found = []
    for other in projects.recent():
        if other.folder == layout.folder:
            continue
        with suppress(PuGeoError):
            if why_not(other) is None:
                found.append(Party(other, projects.card(other).name, tuple(own_classes(other))))
    return found


def start_simulation(layout: Layout, plan: Plan, held: Mapping[Path, Sequence[Membership]]) -> str:
    """Start the job that trains projects on this machine together, this one leads; return the federation's id.

    Args:
        held: folder of a project -> the classes that it holds.

    Raises:
        FederationError: if fewer than two projects hold a class, two the same, or a project has no building of its own.
    """
    features_here = _require_ready(layout)
    named = [one.class_name for memberships in held.values() for one in memberships]
    if sum(map(bool, held.values())) < 2 or len(set(named)) < len(named):
        raise FederationError(
            f"These classes are held: {', '.join(named) or 'none'}.", "Let two projects or more hold one or more each, no two the same.",
            kind="class",
        )  # fmt: skip
    for folder, memberships in held.items():
        _require_labels(Layout(folder), memberships)
    args = {
        "name": _new_id(plan.title, layout, *map(Layout, held)), "title": plan.title, "feature_set": features_here,
        "settings": {"rounds": str(plan.rounds)},
        "privacy": {"kind": plan.privacy, "epsilon": plan.epsilon, "clip": plan.clip},
        "parties": [_party(folder, memberships) for folder, memberships in held.items() if memberships],
    }  # fmt: skip
    jobs.start(layout, SIMULATE, args)
    return str(args["name"])


def _party(folder: Path, memberships: Sequence[Membership]) -> dict[str, object]:
    source = next((one.types_from for one in memberships if one.types_from), None)
    return {"project": str(folder), "classes": [one.class_name for one in memberships], "types_from": source}


# The finished model


def has_model(layout: Layout, federation_id: str) -> bool:
    """Return whether the finished model is here; a leader that holds no class gets none."""
    return _model(layout, federation_id).is_file()


def start_scoring(layout: Layout, federation_id: str) -> str:
    """Start the job that scores all buildings by the finished model; return its id. Raises ModelError if its file is damaged."""
    return models.start_apply(layout, str(_model(layout, federation_id)))


def scoring(layout: Layout, federation_id: str) -> JobView | None:
    """Return the newest job that scores, or scored, this project's buildings by the finished model."""
    path = str(_model(layout, federation_id).resolve())
    return next((job for job in jobs.all_jobs(layout) if job.task == "apply_model" and job.args.get("path") == path), None)


def is_scoring(layout: Layout, job: JobView) -> bool:
    """Return whether a job scores by the model of a federation, and is shown with it."""
    return any(job.args.get("path") == str(_model(layout, each).resolve()) for each in federations.ids(layout))


def _model(layout: Layout, federation_id: str) -> Path:
    return layout.federation(federation_id) / federations.MODEL
