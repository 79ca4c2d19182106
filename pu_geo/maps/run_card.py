"""The model card of a run: what it learned from, with which settings and where, how it went, and what it cannot tell.

`card` collects it as one mapping of plain values; `as_markdown` and `as_html` write it for people. It names no person and no
path.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from datetime import UTC
from pathlib import Path
from typing import Any

import numpy as np

from pu_geo import __version__, wording
from pu_geo.analysis import place, ranking_evidence
from pu_geo.analysis.pu_criterion import FEWEST_HELD_OUT, words_of
from pu_geo.assessment import auditing
from pu_geo.errors import ProjectError, TrainingError
from pu_geo.maps import damage_map
from pu_geo.methods import catalog
from pu_geo.methods.cards import fedaws
from pu_geo.records import Facts, RunFacts
from pu_geo.runs import comparing
from pu_geo.scenes import features, layers, preparation
from pu_geo.store import chosen as choices
from pu_geo.store import contents, documents, freshness, labels, run_names, runs, store
from pu_geo.store.documents import DASH, Section, plain, render
from pu_geo.store.layout import Layout, read_json

FEW_POSITIVES = 30
_OF_SCENE = ("scene_id", "role", "file", "date", "gsd_m", "width", "height", "sha256")
_OF_RUN = (
    "run_id", "method", "preset", "seed", "created_at", "seconds", "device", "score_type", "threshold",
    "from_model", "place",
)  # fmt: skip
_CANNOT = {
    "ranker": "The instant ranker orders buildings by one straight cut through features that were never trained; it finds "
    "what "
    "looks like the clicked buildings, and nothing else."
}
_SCORES = {
    "pu_probability": "A score is a network's own estimate and was not calibrated: read it as a rank, not as a probability.",
    "linear": "A score is a rank, not a probability.",
}
_TITLES = {
    "loss": "loss",
    "criterion": "PU criterion, held-out clicks",
    "recall": "held-out clicks found",
    "spread": "spread of the embeddings",
}
"""Figures of an epoch that the card has."""
_SHARES = ("damaged_share", "class_prior")


def card(layout: Layout, run_id: str) -> dict[str, Any]:
    """Collect all that is known of a run.

    Args:
        run_id: of the run; "chosen" is the one that is shown, "latest" the newest.

    Returns:
        {"made_with", "run", "data", "labels", "versions", "curve", "evidence", "judgement", "how_many", "audit", "warnings",
        "limits", "sha256"}: texts, finite numbers, bools, None, lists and mappings of such. "run" has under "changed" the
        preset's values of settings that differ from it; "curve" is a list of the reports of the epochs; "evidence" and
        "judgement" have "words"; "audit" is None without one.

    Raises:
        ProjectError: if there is no such run, or its files are gone.
    """
    facts = choices.run(layout, run_id)
    folder = layout.run(facts.run_id)
    with store.connect(layout) as db:
        for name in ("building_ids.json", "scores.npy"):
            if not (folder / name).is_file():
                raise ProjectError(f"Run {facts.run_id} has lost its file {name}.", "Choose another run, or make it anew.")
        ids = runs.building_ids_of(layout, facts.run_id)
        pu = labels.pu_set(db, at=facts.at_event, ids=ids)  # the labels as they were when the run was made
        people = {event.analyst for event in labels.current(db, at=facts.at_event).values()}
        project, scenes = store.project_name(db), contents.scenes(db)
    chips = preparation.chip_facts(layout, facts.chip_set) if layout.chip_facts(facts.chip_set).is_file() else {}
    chosen, method = choices.threshold(layout, facts.run_id), catalog.METHODS.get(facts.method)
    audit, manifest = auditing.facts(layout, facts.run_id, chosen.value), folder / "manifest.json"
    settings = dict(facts.settings)
    if settings.get("weights_file"):
        settings["weights_file"] = Path(str(settings["weights_file"])).name
    usual = settings
    with suppress(TrainingError):  # of a method or preset that this version does not know
        usual = asdict(catalog.settings_for(facts.method, facts.preset))
    found = {
        "made_with": f"PU-Geo {__version__}",
        "run": {
            **{name: getattr(facts, name) for name in _OF_RUN},
            "name": run_names.name(layout, facts.run_id),
            "title": catalog.title(facts.method),
            "paper": None if method is None else method.paper,
            "settings": settings,
            "changed": {name: usual.get(name) for name in settings if usual.get(name) != settings[name]},
            "threshold_chosen": chosen.value,
            "threshold_origin": chosen.origin,
        },
        "data": {
            "project": project,
            "chip_set": facts.chip_set,
            "bands": chips.get("bands"),
            "size_px": chips.get("size_px"),
            "features": _features(facts),
            "not_assessed": Counter((choices.reasons_of(layout, facts) or {}).values()),
            "scenes": [{name: getattr(one, name, Path(one.path).name) for name in _OF_SCENE} for one in scenes],
            "n_buildings": len(ids),
            "layers": layers.in_chips(chips, layers.learned_views(facts)) if chips else [],
        },
        "labels": {
            "at_event": facts.at_event,
            "n_positive": facts.n_positive,
            "n_unlabeled": facts.n_unlabeled,
            "n_not_damaged": int(pu.is_not_damaged.sum()),
            "n_left_out": int(pu.is_excluded.sum()),
            "n_held_out": int(runs.held_out(layout, facts.run_id).sum()),
            "n_people": len(people),
            "were_learned": facts.from_model is None,
        },
        "versions": facts.versions,
        "curve": comparing.curve(layout, facts.run_id),
        "evidence": {**(facts.evidence or {}), "words": ranking_evidence.words_of(facts.evidence)},
        "judgement": {**(facts.judgement or {}), "words": judgement_words(facts.judgement)},
        "how_many": auditing.how_many(layout).as_mapping(),
        "audit": None if audit is None else {key: audit[key] for key in audit if key not in ("curve", "calibration")},
        "warnings": [*_gone_chips(layout, facts), *facts.warnings, *damage_map.of_run(layout, facts.run_id, chosen).doubts],
        "limits": limits(facts, has_audit=audit is not None),
        "sha256": read_json(manifest)["sha256"] if manifest.is_file() else {},
    }
    # Written and read again, so that None is in the place of numbers that JSON does not know.
    written = json.dumps(found, default=lambda value: value.item() if isinstance(value, np.generic) else dict(value))
    return dict(json.loads(written, parse_constant=lambda _: None))


def _features(facts: RunFacts) -> str:
    if facts.settings.get("backbone", "features") != "features":
        return "none: it learned from the chips themselves"
    return features.words_of(facts.feature_set, facts.feature_maker)


# Limits in words


def judgement_words(judged: Facts | None) -> str:
    """Return in words how a run does on clicks that it did not learn from.

    Args:
        judged: {"n_held_out", "recall", "share_called", "criterion", "low", "high", "threshold"}, or None.
    """
    n = int((judged or {}).get("n_held_out") or 0)
    if judged is None or n < FEWEST_HELD_OUT or None in (judged.get("criterion"), judged.get("low")):
        return (
            f"Not enough to judge: {n} held-out clicks, and it takes {FEWEST_HELD_OUT}. Nothing is known of this run from "
            "its own labels beyond what it was taught."
        )
    return f"{words_of(judged)} Compare it between runs of one project: what guesses gets less than 1."


def _gone_chips(layout: Layout, facts: RunFacts) -> list[str]:
    """Return that the chips of a run were removed or are out of date, a sentence each; nothing where they are current."""
    said = [freshness.of_chips(layout, facts.chip_set).words]
    if layout.chip_facts(facts.chip_set).is_file() and not store.call(layout, contents.has_chip_set, facts.chip_set):
        said.append(
            f"The chips {facts.chip_set} that it learned from were removed: it cannot be resumed or place new buildings."
        )
    return list(filter(None, said))


def limits(facts: RunFacts, *, has_audit: bool) -> list[str]:
    """Return what a run cannot tell, one sentence or two each."""
    method, n = catalog.METHODS.get(facts.method), facts.n_positive
    cannot = _CANNOT.get(facts.method, "") if method is None else f"{method.title}: {method.cannot}"
    learned = ""
    if facts.from_model:
        learned = "The model was trained elsewhere and learned nothing from the answers in this project."
    elif facts.federation is not None:
        learned = (
            f"It learned from {n} damaged buildings of this project, and from those of its partners, whose number is not "
            "known here."
        )
    elif n < FEW_POSITIVES:
        learned = (
            f"It learned from {n} damaged buildings; with fewer than {FEW_POSITIVES}, other clicks may give another map."
        )
    if facts.federation is not None:
        cannot = fedaws.CANNOT.get(
            str(facts.federation.get("noise")), f"{cannot} The model's file does not say whether there was noise."
        )
    return list(filter(None, (
        cannot, _SCORES.get(facts.score_type, "A score is a rank, not a probability."), learned,
        "It knows damage as it was clicked: a kind of damage that nobody clicked may be missed as a whole.",
        "It sees these scenes alone: what the pictures do not show, or a cloud hides, it does not know.",
        "" if has_audit else "No accuracy assessment judged this map: how many damaged buildings it misses is not known.",
        "Preliminary and not validated in the field. Do not decide on single buildings by it.",
    )))  # fmt: skip


# For people


def as_markdown(card: Facts, *, level: int = 1) -> str:
    """Write a card as Markdown, its title at `level` 1 or more."""
    return documents.as_markdown(*_page(card), level)


def as_html(card: Facts) -> str:
    """Write a card as one page: no script, no address outside of it."""
    title, lead, sections = _page(card)
    footer = f"Written by {card['made_with']}."
    return render("base.html", title=title, lead=lead, sections=sections, footer=footer)


WRITERS: Mapping[str, Callable[[Facts], str]] = {
    "html": as_html, "md": as_markdown, "json": lambda card: json.dumps(card, ensure_ascii=False, indent=1),
}  # fmt: skip
"""What writes a card, by the ending of the file."""


def _page(card: Facts) -> tuple[str, str, list[Section]]:
    """Return title, lead and sections of a card."""
    run, data, counts, changed = card["run"], card["data"], card["labels"], card["run"]["changed"]
    about = {
        "Run": run["name"],
        "Method": run["title"],
        "Source": run["paper"],
        "Preset, seed": f"{run['preset']}, {run['seed']}",
        "Took": f"{wording.duration(float(run['seconds']))} on {run['device']}",
        "Run id": run["run_id"],
        "Versions": ", ".join(f"{name} {version}" for name, version in sorted(card["versions"].items())),
        "Threshold of the map": f"{run['threshold_chosen']}, {choices.origin_words(run['threshold_origin'])}",
        "Model from elsewhere": ", ".join(f"{name} {plain(value)}" for name, value in (run["from_model"] or {}).items()),
        "Evidence from place": place.words_of(run["place"]),
    }
    material = {
        "Project": data["project"],
        "Buildings": f"{data['n_buildings']:,}",
        "Hidden by the imagery": ", ".join(
            f"{n:,} {why.replace('_', ' ')}" for why, n in sorted(data["not_assessed"].items())
        )
        or "none",
        "Chips": data["bands"] and f"{data['bands']}, {data['size_px']} px",
        "Chip set": data["chip_set"],
        "Layers": layers.all_words(data["layers"]),
        "Features": data["features"],
    }
    answers = {
        "Up to event": f"{counts['at_event']}, by {wording.plural(counts['n_people'], 'person', 'people')}",
        f"Damaged ({'learned from' if counts['were_learned'] else 'there, not learned from'})": counts["n_positive"],
        "Damaged, held out to judge": counts["n_held_out"],
        "Not reviewed, or not damaged": counts["n_unlabeled"],
        "Of them, answered not damaged": counts["n_not_damaged"],
        "Left out (not assessable, or a check of an accuracy assessment alone)": counts["n_left_out"],
    }
    settings = [(name, _setting(name, value), changed.get(name, "as the preset")) for name, value in run["settings"].items()]
    settings.sort(key=lambda row: row[0] not in changed)
    sections = [
        Section("What it is", table=_known(about)),
        Section("Judgement without negatives", [card["evidence"]["words"], card["judgement"]["words"], *_audit_lines(card)]),
        Section("Warnings", card["warnings"] or ["None."]),
        Section("Limits", card["limits"]),
        Section("Data", table=_known(material)),
        Section("Scenes", header=_OF_SCENE, table=[[scene[name] for name in _OF_SCENE] for scene in data["scenes"]]),
        Section("Labels", table=_known(answers)),
        Section("Training", header=("figure", "first", "lowest", "highest", "last"), table=figures(card["curve"])),
        Section("Settings", header=("setting", "value", "preset"), table=settings),
        Section("Files of the run", header=("file", "sha256"), table=sorted(card["sha256"].items())),
    ]
    lead = f"Model card of {run['name']}, made {wording.when(str(run['created_at']), UTC)} UTC. Not field-validated."
    shown = [one for one in sections if one.sentences or one.table]
    return f"{run['title']} {DASH} {data['project']}", lead, shown


def _known(rows: Facts) -> list[tuple[str, object]]:
    return [(name, value) for name, value in rows.items() if value not in (None, "")]


def _setting(name: str, value: object) -> object:
    """Return the value of a setting for people: a share of 0 means that nobody gave one."""
    return "not given" if name in _SHARES and value == 0 else value


def _audit_lines(card: Facts) -> list[str]:
    audit, total = card["audit"], f"Number damaged in the project: {card['how_many']['words']}"
    if audit is None:
        return ["There was no accuracy assessment of its map.", total]
    counted = f"{audit['n_answered']} of {audit['n_drawn']} checks answered, {audit['n_damaged']} damaged"
    shares = [f"{name.capitalize()}: {wording.interval_of(audit['at_threshold'][name])}" for name in ("precision", "recall")]
    return [f"Accuracy assessment: {counted}. {audit['words']}", total, *shares]


def figures(curve: Sequence[Facts]) -> list[tuple[str, float, float, float, float]]:
    """Return what each figure of the epochs' reports was first, at its lowest, at its highest and last.

    Args:
        curve: {"stage", "epoch", name -> number, ...}, one an epoch.
    """
    found: dict[str, list[float]] = {}
    for report in curve:
        for name, title in _TITLES.items():
            if isinstance(value := report.get(name), int | float):
                found.setdefault(f"{title} ({report.get('stage', 'training')})", []).append(value)
    return [(name, values[0], min(values), max(values), values[-1]) for name, values in found.items()]
