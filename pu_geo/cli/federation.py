"""Verbs of federations: several projects train one model and show each other nothing but weights."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from pu_geo import wording
from pu_geo.cli.run import File, Json, Project, Screen, repeated, run_job, show
from pu_geo.errors import FederationError
from pu_geo.federation import federating
from pu_geo.federation.federating import REST, Federation, Plan, Privacy
from pu_geo.lifecycle import projects
from pu_geo.runs.actions import ApplyModel
from pu_geo.store import federations
from pu_geo.store.layout import SUFFIX, Layout

federate = Screen("Train", group="federate ")
USUAL = Plan()
Name = Annotated[str, typer.Argument(metavar="NAME", help="short name of the federation", show_default=False)]
Title = Annotated[str, typer.Option(help="its title")]
Rounds = Annotated[int, typer.Option("--rounds", min=1, help="rounds of a new federation")]
Noise = Annotated[str, typer.Option(metavar="none|local|central", help="who adds noise for privacy")]
Epsilon = Annotated[float, typer.Option(help="of all rounds together, with noise")]
Clip = Annotated[float, typer.Option(help="longest change that counts, with noise")]


@federate.verb(
    "simulate",
    "joplin.pugeo moore.pugeo --as joplin=destroyed,rest --as moore=flooded",
    "joplin.pugeo moore.pugeo --as joplin=destroyed,rest --as moore=flooded --types-from joplin=answers --rounds 100",
)
def simulate(
    paths: Annotated[
        list[str], typer.Argument(metavar="P.pugeo...", help="project folders; the first one leads", show_default=False)
    ],
    *,
    roles: Annotated[
        list[str],
        repeated(
            "P=CLASS,...", "classes that a project holds: damage types, and rest (its buildings that nobody marked)", "--as"
        ),
    ],
    types_from: Annotated[
        list[str],
        repeated(
            "P=SOURCE",
            "where a project's damage types come from: answers or grades; if not named, all its damaged buildings are of "
            "its class",
            "--types-from",
        ),
    ],
    title: Title = "Trial",
    n_rounds: Rounds = USUAL.rounds,
    noise: Noise = "none",
    epsilon: Epsilon = USUAL.privacy.epsilon,
    clip: Clip = USUAL.privacy.clip,
    as_json: Json = False,
) -> None:
    """Train several projects on this machine as if each were at another agency; makes a run in each."""
    layouts = [projects.find(path) for path in paths]
    classes, sources = _by_project(layouts, roles, "--as"), _by_project(layouts, types_from, "--types-from")
    held = {layout: _held(classes.get(layout, ""), sources.get(layout, "")) for layout in layouts}
    plan = Plan(title, rounds=n_rounds, privacy=Privacy(noise, clip, epsilon))
    args = federating.arguments_to_simulate(layouts[0], plan, held)
    result = dict(run_job(layouts[0], federating.SIMULATE, as_json, args))
    result |= {"federation": args["federation"], "runs": {}}
    for layout in layouts:
        result["runs"][layout.folder.name] = _scored(layout, args["federation"], as_json)
    words = [f"{project}: run {run}" for project, run in result["runs"].items()]
    show(
        result, f"Federation {result['federation']}, {result['rounds']} rounds. Made {wording.listed(words)}."
        f"{_lines(result['warnings'])}", as_json,
    )  # fmt: skip


@federate.verb(
    "serve",
    "joplin.pugeo may-floods --types destroyed,flooded --as destroyed,rest --rounds 20",
    "joplin.pugeo may-floods --types destroyed,flooded --host leader.example.org",
    "joplin.pugeo may-floods",
)
def serve(
    project: Project,
    name: Name,
    *,
    types: Annotated[
        str, typer.Option(metavar="A,B", help="damage types of a new federation; without it, a known one goes on")
    ] = "",
    own: Annotated[str, typer.Option("--as", metavar="A,rest", help="classes that this project holds itself")] = "",
    types_from: Annotated[
        str, typer.Option(metavar="SOURCE", help="where this project's damage types come from: answers or grades")
    ] = "",
    title: Title = "",
    n_rounds: Rounds = USUAL.rounds,
    deadline_s: Annotated[
        float, typer.Option("--deadline", help="seconds that a round waits for members")
    ] = USUAL.deadline_s,
    noise: Noise = "none",
    epsilon: Epsilon = USUAL.privacy.epsilon,
    clip: Clip = USUAL.privacy.clip,
    host: Annotated[
        str, typer.Option(help="name or address by which members reach this machine; 127.0.0.1 for this machine alone")
    ] = USUAL.host,
    as_json: Json = False,
) -> None:
    """Lead a federation: write its invitation, wait for members, run its rounds, and make a run. Started again, it goes
    on.
    """
    layout = projects.find(project)
    if not types and name not in federations.ids(layout):
        raise FederationError(
            f"{layout.folder.name} has no federation {name!r}.",
            "Name the damage types of a new one: --types destroyed,flooded.",
            kind="class",
        )
    damage_types = tuple(filter(None, types.split(",")))
    plan = Plan(title or name, damage_types, n_rounds, deadline_s, Privacy(noise, clip, epsilon), host=host)
    args = federating.arguments_to_lead(layout, plan, _held(own, types_from), name)
    if not as_json:
        print(
            f"The invitation for members will be {layout.federation(name) / federations.INVITATION}.",
            "Send it to them, and compare its fingerprint.",
            sep="\n",
            flush=True,
        )
    result = dict(run_job(layout, federating.LEAD, as_json, args, has_news=True))
    result["run"] = _scored(layout, name, as_json)
    made = "this project holds no class, so it has no model and no run"
    if result["run"]:
        made = f"the model is the run {result['run']}"
    words = f"{result['rounds']} rounds are done; {result['members']} members have the model; {made}."
    show(result, words + _lines(result["warnings"]), as_json)


def _scored(layout: Layout, name: str, as_json: bool) -> str | None:
    """Return the run of the finished model in a project, made now unless it is there; None where it has no model."""
    path, before = layout.federation(name) / federations.MODEL, federating.scoring(layout, name)
    if not path.is_file():
        return None
    if before is not None and before.state == "done":
        return str(before.result["run_id"])
    return str(run_job(layout, ApplyModel(path), as_json)["run_id"])


@federate.verb("admit", "joplin.pugeo may-floods request-2.json --fingerprint 'B49C AABA C4C1 B5D2 E8B1 2AB8 F9C3 95DD'")
def admit(
    project: Project, name: Name, path: File, *,
    fingerprint: Annotated[
        str, typer.Option(help="of the key in the request, as its member read it out to you; shown without it")
    ] = "",
    replace: Annotated[bool, typer.Option(help="take the class from a member whose key was lost")] = False,
    as_json: Json = False,
) -> None:  # fmt: skip
    """Admit a member: from now on its key, and no other, may update its class. A federation that is served need not be
    stopped.
    """
    layout = projects.find(project)
    request = federating.request(path)
    asks = request.member
    warnings = federating.read(layout, name).agreement.pixel_words(asks.project, asks.gsd_m)
    words = (
        f"{asks.project} asks for the class {asks.class_name!r}. Fingerprint of its key: {asks.fingerprint}\n"
        f"Ask whoever sent it to read out theirs. If it is the same: add --fingerprint '{asks.fingerprint}'."
    )
    if fingerprint:
        federating.admit(layout, name, request, fingerprint, replace=replace)
        words = f"{asks.project} is the member of {asks.class_name!r} from now on."
    show({**asdict(asks), "warnings": warnings}, words + _lines(warnings), as_json)


@federate.verb(
    "join",
    "moore.pugeo invitation.json --as flooded",
    "moore.pugeo invitation.json --as flooded --fingerprint '5D0C 41E2 77B9 A3F8 1E64 90CD 2B7A 8F13' --types-from answers",
)
def join(
    project: Project,
    path: File,
    *,
    class_name: Annotated[
        str, typer.Option("--as", metavar="CLASS", help="class that this project holds", show_default=False)
    ],
    types_from: Annotated[
        str,
        typer.Option(
            metavar="SOURCE", help="where the damage types come from: answers or grades; all damaged buildings if not named"
        ),
    ] = "",
    fingerprint: Annotated[
        str, typer.Option(help="of the invitation, as whoever leads read it out to you; shown without it, and needed once")
    ] = "",
    as_json: Json = False,
) -> None:
    """Take part in a federation for one class, until its model is there; makes a run. Waits where the leader is away."""
    layout = projects.find(project)
    invitation, (file,), is_confirmed = federating.join(layout, path, {class_name: types_from or None}, fingerprint)
    name, key = invitation.agreement.id, federating.request(file).member.fingerprint
    words = (
        f"Fingerprint of the invitation: {invitation.fingerprint}\n"
        f"Send the leader {file}; the fingerprint of your key is {key}."
        f"{_lines(federating.pixel_words(layout, invitation))}"
    )
    if not is_confirmed:
        how = (
            "Nothing was sent yet. Ask whoever leads to read out the fingerprint of the invitation. If it is the same: "
            "add --fingerprint "
            f"'{invitation.fingerprint}'."
        )
        facts = {
            "federation": name,
            "invitation_fingerprint": invitation.fingerprint,
            "fingerprint": key,
            "request": str(file),
        }
        show(facts, f"{words}\n{how}", as_json)
        return
    if not as_json:
        print(words, flush=True)
    args = {"federation": name, "class_name": class_name}
    result = dict(run_job(layout, federating.JOIN, as_json, args, has_news=True))
    result["run"] = _scored(layout, name, as_json)
    show(result, f"{result['rounds']} rounds; the model is the run {result['run']}.", as_json)


@federate.verb("status", "joplin.pugeo", "joplin.pugeo --json")
def status(project: Project, *, as_json: Json = False) -> None:
    """Show the federations of a project: classes, rounds, who took part, and what left this machine."""
    layout = projects.find(project)
    found = federating.all_of(layout)
    lines = [line for one in found for line in _words(layout, one)]
    facts = [_facts(layout, one) for one in found]
    show({"federations": facts}, "\n".join(lines) or f"{layout.folder.name} is in no federation.", as_json)


def _held(classes: str, types_from: str) -> dict[str, str | None]:
    return {name: (types_from or None) if name != REST else None for name in classes.split(",") if name}


def _by_project(layouts: list[Layout], pairs: list[str], flag: str) -> dict[Layout, str]:
    """Read `P=VALUE` options, where P is the name of a project's folder with or without its ending."""
    known = {layout.folder.name.removesuffix(SUFFIX): layout for layout in layouts}
    found: dict[Layout, str] = {}
    for pair in pairs:
        name, is_pair, value = pair.partition("=")
        layout = known.get(Path(name).name.removesuffix(SUFFIX))
        if not is_pair or not value or layout is None or layout in found:
            raise FederationError(
                f"{flag} {pair!r} does not name one of the projects ({', '.join(known)}) once, and a value.",
                f"Write, for example, {flag} "
                f"{next(iter(known))}={'answers' if flag == '--types-from' else 'destroyed,rest'}.",
                kind="class",
            )
        found[layout] = value
    return found


def _facts(layout: Layout, now: Federation) -> dict[str, Any]:
    """Return how a federation stands, as JSON."""
    total = federating.ledger_total(federating.ledger(layout, now.id))
    return asdict(now) | {"id": now.id, "model": now.model and str(now.model), "ledger": asdict(total)}


def _words(layout: Layout, now: Federation) -> list[str]:
    agreed, total = now.agreement, federating.ledger_total(federating.ledger(layout, now.id))
    roles = ["leads"] if now.is_lead else []
    roles += [f"holds {wording.listed(now.own)}"] if now.own else []
    title = f" ({agreed.title})" if agreed.title != now.id else ""
    lines = [f"{now.id}{title}: {' and '.join(roles) or 'no role'}; classes {wording.listed(agreed.classes)}."]
    lines.append(f"{now.round} of {agreed.settings.rounds} rounds. {agreed.privacy.words(len(now.own))}")
    if now.is_lead:
        here = [name for name, state in zip(agreed.classes, now.states, strict=True) if state == "here"]
        lines.append(f"Last round: {wording.listed(here) or 'nobody'} took part.")
    lines += [*now.warnings, *now.troubles[:5]]
    if now.is_trial:
        lines.append(f"A trial: {total.n_here:,} entries passed between projects on this machine, and none left it.")
    else:
        here_words = f"; {total.n_here:,} more stayed on it, for its own classes" if total.n_here else ""
        lines.append(f"{total.n_tensors:,} entries left this machine, {total.n_bytes:,} bytes in all{here_words}.")
    lines += [f"Model: {now.model}"] if now.model else []
    return [lines[0], *(f"  {each}" for each in lines[1:])]


def _lines(warnings: list[str]) -> str:
    return "".join(f"\n{each}" for each in warnings)
