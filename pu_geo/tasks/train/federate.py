"""Federations as jobs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pu_geo.errors import FederationError
from pu_geo.federation.agreement import REST_CLASS, Agreement, Privacy
from pu_geo.federation.member import feature_space, pixel_words
from pu_geo.federation.rounds import lead, of_parts
from pu_geo.federation.simulated import SimulatedTransport, set_up
from pu_geo.methods import catalog
from pu_geo.project import contents, feature_sets, store
from pu_geo.project.federations import Membership
from pu_geo.project.layout import Layout
from pu_geo.project.store import open_project
from pu_geo.tasks.job import Job


def federate_simulate(
    job: Job, *, name: str, parties: Sequence[Mapping[str, Any]], title: str = "", feature_set: str = "",
    settings: Mapping[str, str] | None = None, rules: Mapping[str, Any] | None = None, privacy: Mapping[str, Any] | None = None,
    seed: int = 0,
) -> dict[str, object]:  # fmt: skip
    """Train projects on this machine together as if each were at another agency; the job's project leads.

    Started again with the same arguments it goes on after its last round.

    Args:
        name: id of the federation.
        parties: {"project": path, "classes": [names], "types_from": source or None} of each project that takes part.
        feature_set: of this project; "" for the set in use. The others need one with the same fingerprint.
        settings: of FedAwS that differ from the preset "quick", as text.
        rules: other fields of the `Agreement`, such as "quorum".
        privacy: fields of `Privacy`.

    Returns:
        {"federation", "digest", "classes", "rounds", "models": {project folder: path of the model file}, "took_part": {class: rounds},
        "warnings": of classes that took part in few rounds, and projects with other pixels}

    Raises:
        FederationError: if an argument is wrong, a project cannot take part, or a federation of that name has other rules.
    """
    held = [(open_project(Path(party["project"])), _memberships(party)) for party in parties]
    named = list(dict.fromkeys(one.class_name for _, memberships in held for one in memberships))
    if REST_CLASS not in named:
        raise FederationError(
            f"Nobody would hold the class {REST_CLASS!r}, and without it no score tells damaged buildings from the others.",
            f"Let one of the projects hold it, too: --as P=destroyed,{REST_CLASS}.",
            kind="class",
        )
    classes = (REST_CLASS, *(one for one in named if one != REST_CLASS))
    space = feature_space(job.layout, feature_set or _used(job.layout))
    agreement = Agreement(
        name, title or name, classes, space, catalog.settings_for("fedaws", "quick", dict(settings or {})),
        **{"quorum": len(named), **(rules or {})}, privacy=Privacy(**(privacy or {})), seed=seed,
    )  # fmt: skip
    folder = job.layout.federation(name)
    transport = SimulatedTransport(set_up(agreement, job.layout, held))

    def report(facts: Mapping[str, Any]) -> None:
        job.epoch({"stage": "rounds", "epoch": facts["round"], "epochs": facts["rounds"], **facts})
        job.report(0.95 * facts["round"] / facts["rounds"], f"round {facts['round']} of {facts['rounds']}")

    led = lead(agreement, folder, transport, report=report, is_cancelled=job.is_cancelled)
    said = of_parts(agreement, led)
    said["warnings"] += [f"{layout.folder.name}: {words}" for layout, _ in held for words in pixel_words(layout, agreement)]
    return {
        "federation": name, "digest": agreement.digest, "classes": list(classes), "rounds": agreement.settings.rounds,
        "models": {str(project): str(path) for project, path in transport.models.items()}, **said,
    }  # fmt: skip


def _memberships(party: Mapping[str, Any]) -> list[Membership]:
    source = party.get("types_from")
    return [Membership(each, None if each == REST_CLASS else source) for each in party["classes"]]


def _used(layout: Layout) -> str:
    """Return the name of the feature set in use."""
    with store.connect(layout) as db:
        return feature_sets.in_use(db, layout, contents.chosen_chip_set(db)).name
