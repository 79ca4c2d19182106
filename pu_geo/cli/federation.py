"""Verbs of federations: several projects train one model and show each other nothing but weights."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from pu_geo import wording
from pu_geo.cli.run import File, Json, Project, Screen, absolute, overrides_of, repeated, run_job, show
from pu_geo.errors import FederationError
from pu_geo.project import federations
from pu_geo.project.federations import Membership
from pu_geo.project.layout import SUFFIX, Layout
from pu_geo.project.store import now
from pu_geo.services.project import projects
from pu_geo.services.train import federation as readiness
from pu_geo.tasks.train import federate_admission as admission

federate = Screen("Train", group="federate ")
REST, USUAL = federations.REST, readiness.Plan()
Name = Annotated[str, typer.Argument(metavar="NAME", help="short name of the federation", show_default=False)]


@federate.verb(
    "simulate", "joplin.pugeo moore.pugeo --as joplin=destroyed,rest --as moore=flooded",
    "joplin.pugeo moore.pugeo --as joplin=destroyed,rest --as moore=flooded --types-from joplin=answers --set rounds=100",
)  # fmt: skip
def simulate(
    paths: Annotated[
        list[str],
        typer.Argument(metavar="P.pugeo...", help="project folders; the first one leads", show_default=False),
    ],
    *,
    roles: Annotated[
        list[str],
        repeated("P=CLASS,...", "classes that a project holds: damage types, and rest (its buildings that nobody marked)", "--as"),
    ],
    types_from: Annotated[
        list[str],
        repeated(
            "P=SOURCE",
            "where a project's damage types come from: answers, grades or an attribute; if not named, all its damaged buildings are of "
            "its class",
            "--types-from",
        ),
    ],
    settings: Annotated[list[str], repeated("KEY=VALUE", "change a setting of FedAwS, such as rounds=100", "--set")],
    name: Annotated[str, typer.Option(help="short name of the federation, for its folders")] = "",
    title: Annotated[str, typer.Option(help="its title")] = "",
    features: Annotated[
        str, typer.Option("--features", metavar="NAME", help="feature set of the first project; the set in use if not named")
    ] = "",
    quorum: Annotated[int, typer.Option(min=0, help="classes that a round needs; 0 for all")] = 0,
    noise: Annotated[str, typer.Option(metavar="none|local|central", help="who adds noise for privacy")] = "none",
    epsilon: Annotated[float, typer.Option(help="of all rounds together, with noise")] = USUAL.epsilon,
    clip: Annotated[float, typer.Option(help="longest change that counts, with noise")] = USUAL.clip,
    seed: Annotated[int, typer.Option(min=0, help="of all random numbers")] = 0,
    as_json: Json = False,
) -> None:  # fmt: skip
    """Train several projects on this machine as if each were at another agency; makes a run in each."""
    layouts = [projects.find(path) for path in paths]
    classes, sources = _by_project(layouts, roles, "--as"), _by_project(layouts, types_from, "--types-from")
    if without := [layout.folder.name for layout in layouts if layout not in classes]:
        raise FederationError(
            f"{wording.listed(without)} would hold no class.",
            f"Name one: --as {Path(without[0]).stem}=destroyed.",
            kind="class",
        )
    args: dict[str, Any] = {
        "name": name or f"simulated-{now()[5:16].replace('-', '').replace('T', '-').replace(':', '')}", "title": title,
        "feature_set": features, "settings": overrides_of(settings), "seed": seed,
        "rules": {"quorum": quorum} if quorum else {}, "privacy": {"kind": noise, "epsilon": epsilon, "clip": clip},
        "parties": [
            {
                "project": absolute(str(layout.folder)), "classes": classes[layout].split(","), "types_from": sources.get(layout),
            }
            for layout in layouts
        ],
    }  # fmt: skip
    result = dict(run_job(layouts[0], "federate_simulate", args, as_json))
    made = {
        layout.folder.name: run_job(layout, "apply_model", {"path": result["models"][str(layout.folder)]}, as_json)["run_id"]
        for layout in layouts
    }
    result["runs"] = made
    words = [f"{project}: run {run}" for project, run in made.items()]
    show(
        result, f"Federation {result['federation']}, {result['rounds']} rounds, classes {wording.listed(result['classes'])}. "
        f"Made {wording.listed(words)}.{_lines(result['warnings'])}", as_json,
    )  # fmt: skip


@federate.verb(
    "serve", "joplin.pugeo may-floods --types destroyed,flooded --as destroyed,rest --rounds 20",
    "joplin.pugeo may-floods --types destroyed,flooded --host leader.example.org",
    "joplin.pugeo may-floods",
)  # fmt: skip
def serve(
    project: Project, name: Name, *,
    types: Annotated[str, typer.Option(metavar="A,B", help="damage types of a new federation; without it, a known one goes on")] = "",
    own: Annotated[str, typer.Option("--as", metavar="A,rest", help="classes that this project holds itself")] = "",
    types_from: Annotated[
        str, typer.Option(metavar="SOURCE", help="where this project's damage types come from: answers, grades or an attribute")
    ] = "",
    title: Annotated[str, typer.Option(help="its title")] = "",
    features: Annotated[str, typer.Option("--features", metavar="NAME", help="feature set; the shared one if not named")] = "",
    n_rounds: Annotated[int, typer.Option("--rounds", min=1, help="rounds of a new federation")] = USUAL.rounds,
    deadline_s: Annotated[float, typer.Option("--deadline", help="seconds that a round waits for members")] = USUAL.deadline_s,
    noise: Annotated[str, typer.Option(metavar="none|local|central", help="who adds noise for privacy")] = "none",
    epsilon: Annotated[float, typer.Option(help="of all rounds together, with noise")] = USUAL.epsilon,
    clip: Annotated[float, typer.Option(help="longest change that counts, with noise")] = USUAL.clip,
    host: Annotated[
        str, typer.Option(help="name or address by which members reach this machine; 127.0.0.1 for this machine alone")
    ] = USUAL.host,
    as_json: Json = False,
) -> None:  # fmt: skip
    """Lead a federation: write its invitation, wait for members, run its rounds, and make a run. Started again, it goes on."""
    layout = projects.find(project)
    if not types and name not in federations.ids(layout):
        raise FederationError(
            f"{layout.folder.name} has no federation {name!r}.", "Name the damage types of a new one: --types destroyed,flooded.",
            kind="class",
        )  # fmt: skip
    held = [
        {"class_name": each, "types_from": (types_from or None) if each != REST else None} for each in own.split(",") if each
    ]
    args = {
        "federation": name, "title": title or name, "types": [each for each in types.split(",") if each],
        "feature_set": features or readiness.feature_set(layout) or "", "rounds": n_rounds, "deadline_s": deadline_s, "own": held,
        "host": host, "privacy": {"kind": noise, "epsilon": epsilon, "clip": clip},
    }  # fmt: skip
    admission.require_extra(layout, name)  # before anything is promised
    invitation = layout.federation(name) / federations.INVITATION
    if not as_json:
        print(
            f"The invitation for members will be {invitation}.",
            "Send it to them, and compare its fingerprint.",
            sep="\n",
            flush=True,
        )
    result = dict(run_job(layout, "federate_lead", args, as_json, has_news=True))
    result["run"] = _run_of_leader(layout, name, as_json)
    made = "this project holds no class, so it has no model and no run"
    if result["run"]:
        made = f"the model is the run {result['run']}"
    words = f"{result['rounds']} rounds are done; {len(result['delivered'])} members have the model; {made}."
    show(result, words + _lines(result["warnings"]), as_json)


def _run_of_leader(layout: Layout, name: str, as_json: bool) -> str | None:
    """Return the run of the finished model in the leader's project, made now unless it is there; None where it holds no class."""
    if not readiness.has_model(layout, name):
        return None
    before = readiness.scoring(layout, name)
    if before is not None and before.state == "done":
        return str(before.result["run_id"])
    path = str((layout.federation(name) / federations.MODEL).resolve())
    return str(run_job(layout, "apply_model", {"path": path}, as_json)["run_id"])


@federate.verb("admit", "joplin.pugeo may-floods request-2.json --fingerprint 'B49C AABA C4C1 B5D2 E8B1 2AB8 F9C3 95DD'")
def admit(
    project: Project, name: Name, path: File, *,
    fingerprint: Annotated[
        str, typer.Option(help="of the key in the request, as its member read it out to you; shown without it")
    ] = "",
    replace: Annotated[bool, typer.Option(help="take the class from a member whose key was lost")] = False,
    as_json: Json = False,
) -> None:  # fmt: skip
    """Admit a member: from now on its key, and no other, may update its class. A federation that is served need not be stopped."""
    layout = projects.find(project)
    if not fingerprint:
        asked = admission.read_request(layout, name, path)
        words = (
            f"{asked.project} asks for the class {asked.class_name!r}. Fingerprint of its key: {asked.fingerprint}\n"
            f"Ask whoever sent it to read out theirs. If it is the same: add --fingerprint '{asked.fingerprint}'.{_lines(asked.warnings)}"
        )
        show(asked._asdict(), words, as_json)
        return
    asked = admission.admit(layout, name, path, fingerprint, replace=replace)
    show(
        asked._asdict(),
        f"{asked.project} is the member of {asked.class_name!r} from now on.{_lines(asked.warnings)}", as_json,
    )  # fmt: skip


@federate.verb(
    "join", "moore.pugeo invitation.json --as flooded",
    "moore.pugeo invitation.json --as flooded --fingerprint '5D0C 41E2 77B9 A3F8 1E64 90CD 2B7A 8F13' --types-from answers",
)  # fmt: skip
def join(
    project: Project, path: File, *,
    class_name: Annotated[str, typer.Option("--as", metavar="CLASS", help="class that this project holds", show_default=False)],
    types_from: Annotated[
        str,
        typer.Option(
            metavar="SOURCE", help="where the damage types come from: answers, grades or an attribute; all damaged buildings if not named"
        ),
    ] = "",
    fingerprint: Annotated[
        str, typer.Option(help="of the invitation, as whoever leads read it out to you; shown without it, and needed once")
    ] = "",
    as_json: Json = False,
) -> None:  # fmt: skip
    """Take part in a federation for one class, until its model is there; makes a run. Waits where the leader is away."""
    layout = projects.find(project)
    joined = admission.join(layout, path, Membership(class_name, types_from or None), fingerprint)
    words = (
        f"Fingerprint of the invitation: {joined.invitation_fingerprint}\n"
        f"Send the leader {joined.request}; the fingerprint of your key is {joined.fingerprint}."
        f"{_lines(joined.warnings)}"
    )
    if not joined.is_confirmed:
        how = (
            f"Nothing was sent yet. Ask whoever leads to read out the fingerprint of the invitation. If it is the same: add --fingerprint "
            f"'{joined.invitation_fingerprint}'."
        )
        show({**joined._asdict(), "request": str(joined.request)}, f"{words}\n{how}", as_json)
        return
    if not as_json:
        print(words, flush=True)
    result = dict(
        run_job(layout, "federate_join", {"federation": joined.federation, "class_name": class_name}, as_json, has_news=True)
    )
    result["run"] = run_job(layout, "apply_model", {"path": result["model"]}, as_json)["run_id"]
    show(result, f"{result['rounds']} rounds; the model is the run {result['run']}.", as_json)


@federate.verb("status", "joplin.pugeo", "joplin.pugeo --json")
def status(project: Project, *, as_json: Json = False) -> None:
    """Show the federations of a project: classes, rounds, who took part, and what left this machine."""
    layout = projects.find(project)
    found = [_status(layout, each) for each in federations.ids(layout)]
    lines = [line for facts in found for line in _words(facts)]
    show({"federations": found}, "\n".join(lines) or f"{layout.folder.name} is in no federation.", as_json)


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
                f"Write, for example, {flag} {next(iter(known))}={'answers' if flag == '--types-from' else 'destroyed,rest'}.",
                kind="class",
            )
        found[layout] = value
    return found


def _status(layout: Layout, name: str) -> dict[str, Any]:
    """Return what the files of a federation say, as JSON."""
    folder = layout.federation(name)
    agreement, rounds, sent = federations.agreement(folder), federations.rounds(folder), federations.ledger(folder)
    last = rounds[-1] if rounds else None
    classes = agreement["classes"]
    parts = federations.took_part(rounds, len(classes))
    return {
        "federation": name, "title": agreement["title"], "classes": classes, "leads": federations.is_lead(folder),
        "holds": [one.class_name for one in federations.memberships(folder)],
        "members": {classes[row]: one.project for row, one in federations.members(folder).items()},
        "rounds": agreement["settings"]["rounds"], "done": federations.rounds_done(folder),
        "taking_part": [classes[row] for row in last.taking_part] if last else [],
        "took_part": {name: part.n_rounds for name, part in zip(classes, parts, strict=True)} if last else {},
        "warnings": federations.warnings(folder, agreement, rounds),
        "late": [classes[row] for row in last.late] if last else [],
        "refused": {classes[row]: why for row, why in last.refused.items()} if last else {},
        "loss": last.loss if last else None, "noise": agreement["privacy"]["kind"],
        "epsilon": last.epsilon if last else None, "epsilon_agreed": agreement["privacy"]["epsilon"],
        "trial": not federations.is_deployed(folder),
        "tensors_sent": sum(one.name != federations.FACTS for one in sent if not one.is_here),
        "bytes_sent": sum(one.bytes for one in sent if not one.is_here),
        "tensors_here": sum(one.name != federations.FACTS for one in sent if one.is_here),
        "bytes_here": sum(one.bytes for one in sent if one.is_here),
        "model": str(folder / federations.MODEL) if (folder / federations.MODEL).is_file() else None,
    }  # fmt: skip


def _words(facts: dict[str, Any]) -> list[str]:
    roles = ["leads"] if facts["leads"] else []
    roles += [f"holds {wording.listed(facts['holds'])}"] if facts["holds"] else []
    title = f" ({facts['title']})" if facts["title"] != facts["federation"] else ""
    lines = [
        f"{facts['federation']}{title}: {' and '.join(roles) or 'no role'}; classes {wording.listed(facts['classes'])}.",
        f"  {facts['done']} of {facts['rounds']} rounds; {_noise_words(facts)}.",
    ]
    if facts["leads"] and facts["done"]:
        lines.append(f"  Last round: {wording.listed(facts['taking_part']) or 'nobody'} took part.")
    lines += [f"  {each}" for each in facts["warnings"]]
    lines += [f"  Late: {wording.listed(facts['late'])}."] if facts["late"] else []
    lines += [f"  Refused: {name}: {why}" for name, why in facts["refused"].items()]
    if facts["trial"]:
        lines.append(
            f"  A trial: {facts['tensors_here']:,} tensors passed between projects on this machine, and none left it."
        )
    else:
        here = f"; {facts['tensors_here']:,} more stayed on it, for its own classes" if facts["tensors_here"] else ""
        lines.append(f"  {facts['tensors_sent']:,} tensors left this machine, {facts['bytes_sent']:,} bytes in all{here}.")
    lines += [f"  Model: {facts['model']}"] if facts["model"] else []
    return lines


def _lines(warnings: list[str]) -> str:
    return "".join(f"\n{each}" for each in warnings)


def _noise_words(facts: dict[str, Any]) -> str:
    if facts["noise"] == "none":
        return "no noise, so no formal privacy"
    spent = "" if facts["epsilon"] is None else f", {facts['epsilon']:.3g} of it spent"
    return f"{facts['noise']} noise, epsilon {facts['epsilon_agreed']:g} over all rounds{spent}"
