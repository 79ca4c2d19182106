"""What the Train screen asks for about federations: what can be led or joined, who waits to be admitted, rounds, and the
ledger.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pu_geo import jobs, wording
from pu_geo.errors import FederationError, PuGeoError
from pu_geo.federation.agreement import Agreement
from pu_geo.federation.agreement import Plan as Plan  # screens and commands make one
from pu_geo.federation.agreement import Privacy as Privacy
from pu_geo.federation.deployed import is_installed as is_installed
from pu_geo.federation.deployed import require_flower
from pu_geo.jobs import JobView, tasks
from pu_geo.lifecycle import projects
from pu_geo.runs import training
from pu_geo.runs.actions import ApplyModel
from pu_geo.scenes import features
from pu_geo.store import contents, damage_types, feature_sets, federations, store
from pu_geo.store.federations import Held, Member, Sent
from pu_geo.store.layout import Layout

if TYPE_CHECKING:
    from pu_geo.federation.deployed.membership import Invitation, Request  # need the extra

LEAD, JOIN, SIMULATE = "federate_lead", "federate_join", "federate_simulate"
REST = federations.REST

State = Literal["open", "admitted", "here", "late", "refused"]
Stage = Literal["waits", "runs", "stopped", "done"]


@dataclass(frozen=True)
class Federation:
    """A federation that this project takes part in, as its files say now.

    Attributes:
        own: the classes that this project holds.
        stage: "waits" before the first round, "runs", "stopped" where no job of this project works for it, "done".
        round: the newest that is known here, 0 before the first.
        members: one a class; without a project where nobody was admitted, or that is not known here.
        states: of each: "open" nobody was admitted, "admitted", in the newest round "here", "late" or "refused".
        cosines: of the class vectors after the newest round, [C][C]; empty before, and where another project leads.
        warnings: see `Agreement.warnings`.
        troubles: "round 3: flooded was late", newest first.
        is_trial: whether all members are projects on this machine, and nothing is sent.
        model: path of the finished one; None before, and where a leader holds no class.
    """

    agreement: Agreement
    is_lead: bool
    own: tuple[str, ...]
    stage: Stage
    round: int
    members: tuple[Member, ...]
    states: tuple[State, ...]
    cosines: Sequence[Sequence[float]]
    warnings: tuple[str, ...]
    troubles: tuple[str, ...]
    is_trial: bool
    model: Path | None

    @property
    def id(self) -> str:
        return self.agreement.id

    @property
    def is_over(self) -> bool:
        return self.stage == "done"

    @property
    def is_active(self) -> bool:
        return self.stage in ("waits", "runs")


def all_of(layout: Layout) -> list[Federation]:
    """Return the federations that a project takes part in, the newest first."""
    made = {each: (layout.federation(each) / federations.AGREEMENT).stat().st_mtime for each in federations.ids(layout)}
    return [read(layout, each) for each in sorted(made, key=lambda name: (-made[name], name))]


def read(layout: Layout, federation_id: str) -> Federation:
    """Return one of them as it stands. Raises ProjectError of kind "lost" if a file of it is damaged or missing."""
    folder = layout.federation(federation_id)
    agreement, rounds = Agreement.of(folder), federations.rounds(folder)
    admitted, classes = federations.members(folder), agreement.classes
    tried = federations.rounds(folder, is_counted=False)
    number, model = federations.rounds_done(folder), folder / federations.MODEL
    return Federation(
        agreement,
        federations.is_lead(folder),
        tuple(name for name in classes if name in federations.memberships(folder)),
        _stage(layout, federation_id, number),
        number,
        tuple(admitted.get(row, Member(name)) for row, name in enumerate(classes)),
        tuple(_state(row, row in admitted, tried[-1] if tried else None) for row in range(len(classes))),
        rounds[-1].cosines if rounds else (),
        tuple(agreement.warnings(folder)),
        _troubles(classes, tried),
        not federations.is_deployed(folder),
        model if model.is_file() else None,
    )


def _stage(layout: Layout, federation_id: str, number: int) -> Stage:
    if (layout.federation(federation_id) / federations.MODEL).is_file():
        return "done"
    found = jobs_of(layout, federation_id)
    if any(job.task == LEAD and job.state == "done" for job in found):
        return "done"
    active = [job for job in found if job.is_active]
    if not active:
        return "stopped"
    return "runs" if number or any((job.progress or 0) > 0 for job in active) else "waits"


def jobs_of(layout: Layout, federation_id: str) -> list[JobView]:
    """Return the newest job of a project for each part that it has in a federation: leading it, and each of its classes."""
    found: dict[tuple[str, object], JobView] = {}
    for job in jobs.all_jobs(layout):
        if tasks.of(job.task).panel == "federation" and job.args["federation"] == federation_id:
            found.setdefault((job.task, job.args.get("class_name")), job)
    return list(found.values())


def starting(layout: Layout) -> list[JobView]:
    """Return the jobs of federations that have no agreement yet: they start, or failed to."""
    known = federations.ids(layout)
    return [job for job in jobs.all_jobs(layout) if job.task in (LEAD, SIMULATE) and job.args["federation"] not in known]


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


def _state(row: int, is_admitted: bool, newest: federations.Round | None) -> State:
    rows: dict[State, Any] = {}
    if newest is not None:
        rows = {"here": newest.taking_part, "refused": newest.refused, "late": newest.late}
    return next((name for name, each in rows.items() if row in each), "admitted" if is_admitted else "open")


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


def ledger_file(layout: Layout, federation_id: str) -> Path:
    """Return the file with the ledger: JSON lines, with the values of what messages hold beside tensors."""
    return layout.federation(federation_id) / federations.LEDGER


def ledger_total(found: Sequence[Sent]) -> LedgerTotal:
    """Sum up what left this machine, and what stayed on it; what a message holds beside tensors counts as one."""
    left, here = ([one for one in found if one.is_here is is_here] for is_here in (False, True))
    return LedgerTotal(len(left), sum(one.bytes for one in left), len(here), sum(one.bytes for one in here))


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
    if feature_sets.without_imagery(known.sets, known.in_use) is None:
        return NotReady(
            "Members compare buildings by the same features, and the filters of the usual ones are patches of this "
            "project's imagery. "
            "Shared features are by filters that hold no imagery; this project has none yet.",
            needs_features=True,
        )
    return None


@dataclass(frozen=True)
class OwnClass:
    """Damaged buildings of this project that can be a class.

    Attributes:
        name: of the damage type; "" for all damaged buildings, whatever type the federation calls them.
        types_from: where the type comes from, see `federations.Held`; None for all damaged buildings.
        n: how many.
    """

    name: str
    types_from: str | None
    n: int


def own_classes(layout: Layout) -> list[OwnClass]:
    """Return what this project could hold: all its damaged buildings first, then each type that some of them count as.

    A class has the buildings that its member would take: see `federation.member_job.OwnData.rows_of`.
    """
    _, pu = training.to_learn_from(layout)
    with store.connect(layout) as db:
        kinds = damage_types.kinds_of(db, pu)
    found = [OwnClass("", None, int(pu.is_positive.sum()))]
    for source, counts in kinds.items():
        found += [OwnClass(name, source, n) for name, n in sorted(counts.items(), key=lambda item: (-item[1], item[0]))]
    return found


def is_local(address: str) -> bool:
    """Return whether nobody but projects on this computer can reach an address, with or without a port."""
    host = address.rpartition(":")[0] if ":" in address else address
    return host == "localhost" or host.startswith("127.")


def invitation(path: str | Path) -> Invitation:
    """Read an invitation file. Raises FederationError if it is none, or of another version, or without the extra."""
    require_flower()
    from pu_geo.federation.deployed import membership

    return membership.read_invitation(Path(path).expanduser())


def request(path: str | Path) -> Request:
    """Read a member's request. Raises FederationError if it is none, or was changed on its way, or without the extra."""
    require_flower()
    from pu_geo.federation.deployed import membership

    return membership.read_request(Path(path).expanduser())


def own_requests(layout: Layout, federation_id: str) -> list[Request]:
    """Return the requests that this project made."""
    return [request(path) for path in sorted(layout.federation(federation_id).glob("request-*.json"))]


def invitation_file(layout: Layout, federation_id: str) -> Path | None:
    """Return the invitation that a project has; None before the leader's job wrote it, and without the extra."""
    path = layout.federation(federation_id) / federations.INVITATION
    return path if path.is_file() and is_installed() else None


def admit(layout: Layout, federation_id: str, asked: Request, fingerprint: str, *, replace: bool = False) -> None:
    """Bind a class to the key of whoever asked for it; see `membership.admit`."""
    from pu_geo.federation.deployed import membership

    membership.admit(layout, federation_id, asked, fingerprint, replace=replace)


def pixel_words(layout: Layout, found: Invitation) -> list[str]:
    """Return in words that this project's pixels are much finer or coarser than those of whoever leads."""
    return found.agreement.site_pixel_words(layout.folder.name, store.call(layout, contents.grid))


# Starts


def arguments_to_lead(layout: Layout, plan: Plan, own: Held, federation_id: str = "") -> dict[str, Any]:
    """Return the arguments of the job that leads a federation, and takes part in it for classes of this project.

    Args:
        federation_id: of one that may be there already; "" for a new one of the plan's title.

    Raises:
        FederationError: if this project cannot lead, has no building of a class, or the extra is missing.
    """
    require_flower()
    _require_ready(layout)
    _require_labels(layout, own)
    name = federation_id or _new_id(plan.title, layout)
    return {"federation": name, "plan": asdict(plan), "own": dict(own)}


def start(layout: Layout, task: str, args: dict[str, Any]) -> str:
    """Start one of its jobs; return the federation's id."""
    jobs.start(layout, task, args)
    return str(args["federation"])


def join(layout: Layout, path: str | Path, own: Held, fingerprint: str) -> tuple[Invitation, list[Path], bool]:
    """Join a federation for classes of this project. Nothing is sent: the job of each class may start once the fingerprint
    was compared.

    Args:
        fingerprint: of the invitation, as whoever leads reads it out, needed once; the file may be another one by now.

    Returns:
        The invitation, the requests that go to the leader, and whether people here compared the fingerprint, now or before.

    Raises:
        FederationError: if the file is no invitation, or has another fingerprint, or this project cannot take part, or has
            no building of a class.
    """
    found = invitation(path)
    from pu_geo.federation.deployed import membership

    _require_ready(layout)
    if fingerprint:
        membership.require_fingerprint(found, fingerprint)
    for name in own:
        found.agreement.row(name)
    _require_labels(layout, own)
    requests, folder = membership.accept(layout, found, own), layout.federation(found.agreement.id)
    if fingerprint:
        membership.confirm(folder, found)
    return found, requests, membership.is_confirmed(folder, found)


def start_join(layout: Layout, path: str, own: Held, fingerprint: str) -> str:
    """Join a federation whose fingerprint was compared, and start a job for each class; return the federation's id. See
    `join`.
    """
    found, *_ = join(layout, path, own, fingerprint)
    for name in own:
        start(layout, JOIN, {"federation": found.agreement.id, "class_name": name})
    return found.agreement.id


def _require_ready(layout: Layout) -> None:
    """Raise FederationError if the project cannot take part."""
    reason = why_not(layout)
    if reason is not None:
        raise FederationError(reason.words, "Make shared features, on Imagery or here.", kind="features")


def _require_labels(layout: Layout, own: Held) -> None:
    """Raise FederationError if the project has no building of a class that it would hold, or the same ones for two."""
    federations.require_different_buildings(layout.folder.name, own)
    counts = {(one.name, one.types_from): one.n for one in own_classes(layout)}
    for name, source in own.items():
        if name != REST and not counts.get(("" if source is None else name, source), 0):
            by = "" if source is None else f" by {source!r}"
            raise FederationError(
                f"{layout.folder.name} has no damaged building of the class {name!r}{by} to learn from.",
                "Mark some on the Annotate page, or choose another class.",
                kind="few_labels",
            )


def _new_id(title: str, *layouts: Layout) -> str:
    """Return an id made of a title that no federation of these projects has."""
    words = re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-")[:40] or "federation"
    taken = {
        name
        for each in layouts
        for name in (*federations.ids(each), *(str(job.args["federation"]) for job in starting(each)))
    }
    return next(name for name in (words, *(f"{words}-{n}" for n in range(2, len(taken) + 3))) if name not in taken)


def parties(layout: Layout) -> dict[str, Layout]:
    """Return the other known projects on this machine that can take part in a trial, by their name with that of their
    folder.
    """
    found = {}
    for other in projects.recent():
        with suppress(PuGeoError):
            if other.folder != layout.folder and why_not(other) is None:
                found[f"{projects.card(other).name} · {other.folder.name}"] = other
    return found


def arguments_to_simulate(layout: Layout, plan: Plan, held: Mapping[Layout, Held]) -> dict[str, Any]:
    """Return the arguments of the job that trains projects on this machine together; this one leads.

    Args:
        held: project -> the classes that it holds.

    Raises:
        FederationError: if a project holds none, two hold the same or nobody holds "rest", or a project cannot take part, or
            has no building of its class.
    """
    named = [name for classes in held.values() for name in classes]
    if len(held) < 2 or not all(held.values()) or len(set(named)) < len(named) or REST not in named:
        listed = "; ".join(f"{wording.listed(list(own)) or 'none'} by {each.folder.name}" for each, own in held.items())
        raise FederationError(
            f"These classes are held: {listed}.",
            f"Let each of two projects or more hold one or more, no two the same, and one of them {REST!r}: without it no "
            "score tells damaged "
            "buildings from the others.",
            kind="class",
        )
    for each, own in held.items():
        _require_ready(each)
        _require_labels(each, own)
    types = tuple(name for name in named if name != REST)
    return {
        "federation": _new_id(plan.title, layout, *held), "plan": asdict(replace(plan, types=types)),
        "parties": {str(each.folder): dict(own) for each, own in held.items()},
    }  # fmt: skip


# The finished model


def start_scoring(layout: Layout, federation_id: str) -> str:
    """Start the job that scores all buildings by the finished model; return its id. Raises ModelError if its file is
    damaged.
    """
    return jobs.start(layout, ApplyModel(_model(layout, federation_id)))


def scoring(layout: Layout, federation_id: str) -> JobView | None:
    """Return the newest job that scores, or scored, this project's buildings by the finished model."""
    path = str(_model(layout, federation_id).resolve())
    return next((job for job in jobs.all_jobs(layout) if job.task == "apply_model" and job.args.get("path") == path), None)


def is_scoring(layout: Layout, job: JobView) -> bool:
    """Return whether a job scores by the model of a federation, and is shown with it."""
    return any(job.args.get("path") == str(_model(layout, each).resolve()) for each in federations.ids(layout))


def _model(layout: Layout, federation_id: str) -> Path:
    return layout.federation(federation_id) / federations.MODEL
