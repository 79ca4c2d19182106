"""The model card of a run: what it learned from, with which settings and where, how it went, and what it cannot tell.

`card` collects it as one mapping of plain values; `as_markdown` and `as_html` write it for people. It names no person and no path.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from datetime import UTC
from pathlib import Path
from typing import Any

import numpy as np

from pu_geo import __version__, wording
from pu_geo.analysis import place
from pu_geo.analysis.pu_criterion import FEWEST_HELD_OUT, words_of
from pu_geo.errors import ProjectError, TrainingError
from pu_geo.methods import catalog
from pu_geo.methods.cards import fedaws
from pu_geo.project import contents, freshness, labels, runs, store
from pu_geo.project.layout import Layout, read_json
from pu_geo.records import RunFacts
from pu_geo.services.damage_map import auditing, mapping
from pu_geo.services.documents import DASH, Plot, Section, plain, render
from pu_geo.services.imagery import features, layers, preparation
from pu_geo.services.project import choices
from pu_geo.services.train import comparing, run_names

FORMAT, VERSION = "pu-geo run card", 1
FEW_POSITIVES = 30
_OF_SCENE = ("scene_id", "role", "date", "gsd_m", "width", "height", "sha256")
_OF_RUN = (
    "run_id", "method", "preset", "seed", "created_at", "seconds", "device", "score_type", "threshold", "start_k",
    "feature_set", "feature_maker",
)  # fmt: skip
_FIGURES = ("recall", "share_called", "criterion", "low", "high")
_CANNOT = {
    "ranker": "The instant ranker orders buildings by one straight cut through features that were never trained; it finds what "
    "looks like the clicked buildings, and nothing else."
}
_SCORES = {
    "pu_probability": "A score is a network's own estimate and was not calibrated: read it as a rank, not as a probability.",
    "linear": "A score is a rank, not a probability.",
}
MOST_FIGURES, MOST_POINTS = 9, 300
_NO_FIGURES = {
    "stage",
    "epoch",
    "epochs",
    "progress",
    "seconds",
    "look",
    "alarms",
    "n_held_out",
    "criterion_low",
    "criterion_high",
    "share_called",  # what a model calls damaged would be read as how much is
    "share_positive",
}
_TITLES = {
    "loss": "loss", "criterion": "PU criterion, held-out clicks", "recall": "held-out clicks found",
    "threshold": "threshold",
    "spread": "spread of the embeddings", "propagated": "weight of propagated scores",
    "chips_per_s": "chips a second", "memory_mb": "memory, MB",
}  # fmt: skip
_OTHERS_AT = 4.5  # before what says more of the machine than of the model
_SHARES = ("damaged_share", "class_prior")
_COLORS = {"pretraining": "#0072B2", "training": "#D55E00"}


def card(layout: Layout, run_id: str) -> dict[str, Any]:
    """Collect all that is known of a run.

    Args:
        run_id: of the run; "chosen" is the one that is shown, "latest" the newest.

    Returns:
        {"format", "format_version", "made_with", "run", "data", "labels", "versions", "curve", "judgement",
        "how_many", "audit", "warnings", "limits", "sha256"}: texts, finite numbers, bools, None, lists and mappings of such. "curve" is a list of
        the reports of the epochs, empty where none were kept; "judgement" has its "words", "how_many" is
        `auditing.HowMany` of the project, and "audit" is None without one.

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
    chosen = choices.threshold(layout, facts.run_id)
    audit = auditing.facts(layout, facts.run_id, chosen.value)
    judged, manifest = getattr(facts, "judgement", None), folder / "manifest.json"
    found = {
        "format": FORMAT,
        "format_version": VERSION,
        "made_with": f"PU-Geo {__version__}",
        "run": _run(facts)
        | {
            "name": run_names.name(layout, facts.run_id),
            "threshold_chosen": chosen.value,
            "threshold_origin": chosen.origin,
        },
        "data": {
            "project": project,
            "chip_set": facts.chip_set,
            "bands": chips.get("bands"),
            "bands_why": chips.get("bands_why", ""),
            "n_hidden_from_training": facts.n_hidden,
            "size_px": chips.get("size_px"),
            "not_assessed": Counter((choices.reasons_of(layout, facts) or {}).values()),
            "scenes": [{name: getattr(one, name) for name in _OF_SCENE} | {"file": Path(one.path).name} for one in scenes],
            "n_buildings": len(ids),
            **({"layers": cut} if (cut := layers.in_chips(chips, layers.learned_views(facts))) else {}),
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
        "judgement": {**(judged or {}), "words": judgement_words(judged)},
        "how_many": auditing.how_many(layout).as_mapping(),
        "audit": None if audit is None else {key: audit[key] for key in audit if key not in ("curve", "calibration")},
        "warnings": [*_gone_chips(layout, facts), *facts.warnings, *mapping.doubts(layout, facts.run_id, chosen.value)],
        "limits": limits(facts, n_positive=facts.n_positive, has_audit=audit is not None),
        "sha256": read_json(manifest)["sha256"] if manifest.is_file() else {},
    }
    # Written and read again, so that None is in the place of numbers that JSON does not know.
    written = json.dumps(found, default=lambda value: value.item() if isinstance(value, np.generic) else dict(value))
    return dict(json.loads(written, parse_constant=lambda _: None))


def _run(facts: RunFacts) -> dict[str, Any]:
    """Return what made the scores; "changed" has the preset's values of settings that differ from it."""
    settings = dict(facts.settings)
    if settings.get("weights_file"):
        settings["weights_file"] = Path(str(settings["weights_file"])).name
    usual = settings
    with suppress(TrainingError):  # of a method or preset that this version does not know
        usual = asdict(catalog.settings_for(facts.method, facts.preset))
    method = catalog.METHODS.get(facts.method)
    return {
        **{name: getattr(facts, name) for name in _OF_RUN},
        "title": catalog.title(facts.method),
        "paper": None if method is None else method.paper,
        "summary": None if method is None else method.summary,
        "settings": settings,
        "changed": {name: usual.get(name) for name in settings if usual.get(name) != settings[name]},
        "from_model": facts.from_model,
        "place": facts.place,
    }


# Limits in words


def judgement_words(judged: Mapping[str, Any] | None) -> str:
    """Return in words how a run does on clicks that it did not learn from.

    Args:
        judged: {"n_held_out", "recall", "share_called", "criterion", "low", "high", "threshold"}, or None.
    """
    n = int((judged or {}).get("n_held_out") or 0)
    if judged is None or n < FEWEST_HELD_OUT or any(judged.get(name) is None for name in _FIGURES):
        return (
            f"Not enough to judge: {n} held-out clicks, and it takes {FEWEST_HELD_OUT}. Nothing is known of this run from its "
            "own labels beyond what it was taught."
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


def limits(facts: RunFacts, *, n_positive: int, has_audit: bool) -> list[str]:
    """Return what a run cannot tell, one sentence or two each; `n_positive` clicks were learned from."""
    method = catalog.METHODS.get(facts.method)
    cannot = _CANNOT.get(facts.method, "") if method is None else f"{method.title}: {_cannot(facts, method.cannot)}"
    learned = ""
    if facts.from_model:
        learned = "The model was trained elsewhere and learned nothing from the answers in this project."
    elif facts.federation is not None:
        learned = f"It learned from {n_positive} damaged buildings of this project, and from those of its partners, whose number is not known here."
    elif n_positive < FEW_POSITIVES:
        learned = f"It learned from {n_positive} damaged buildings; with fewer than {FEW_POSITIVES}, other clicks may give another map."
    sentences = [
        cannot,
        _SCORES.get(facts.score_type, "A score is a rank, not a probability."),
        learned,
        "It knows damage as it was clicked: a kind of damage that nobody clicked may be missed as a whole.",
        "It sees these scenes alone: what the pictures do not show, or a cloud hides, it does not know.",
        "" if has_audit else "No random checks judged this map: how many damaged buildings it misses is not known.",
        "Preliminary and not validated in the field. Do not decide on single buildings by it.",
    ]
    return [words for words in sentences if words]


def _cannot(facts: RunFacts, usual: str) -> str:
    """Return what a method cannot do; of a federation's model that depends on its noise."""
    if facts.federation is None:
        return usual
    return fedaws.CANNOT.get(
        str(facts.federation.get("noise")), f"{usual} The model's file does not say whether there was noise."
    )


# For people. All that is written was somebody's text once, so all of it is escaped.


def as_markdown(card: Mapping[str, Any], *, level: int = 1) -> str:
    """Write a card as Markdown, its title at `level` 1 or more; names out of files are escaped and show as they are."""
    parts = [f"{'#' * level} {_title(card, _markdown)}", f"*{_markdown(_lead(card))}*"]
    for section in _sections(card):
        parts.append(f"{'#' * level}# {section.title}")
        if section.rows:
            rows = [f"| {_markdown(name)} | {_markdown(value)} |" for name, value in section.rows]
            parts.append("\n".join(["| what | value |", "|---|---|", *rows]))
        if section.lines:
            parts.append("\n".join(f"- {_markdown(line, 500)}" for line in section.lines))
        if section.table:
            head = f"| {' | '.join(map(_markdown, section.header))} |\n|{'---|' * len(section.header)}"
            parts.append("\n".join([head, *(f"| {' | '.join(map(_markdown, row))} |" for row in section.table)]))
    return "\n\n".join(parts) + "\n"


def as_html(card: Mapping[str, Any]) -> str:
    """Write a card as one page: no script, no address outside of it, curves as SVG."""
    title, footer = _title(card, plain), f"Written by {card['made_with']}."
    return render("base.html", title=title, lead=_lead(card), sections=_sections(card), footer=footer)


def _markdown(value: object, most: int = 300) -> str:
    """Escape Markdown; a joiner that nobody sees breaks up what viewers make links and icons of afterwards."""
    signs = re.sub(r"([\\`*_{}\[\]#!|~$<>&@])", r"\\\1", plain(value, most))
    return re.sub(r"(?<=:)(?=[^\s\d])|(?<=\\@)(?=\S)|(?<=www)(?=\.)", "\u2060", signs, flags=re.IGNORECASE)


def _title(card: Mapping[str, Any], write: Callable[[object], str]) -> str:
    return f"{write(card['run']['title'])} {DASH} {write(card['data']['project'])}"


def _lead(card: Mapping[str, Any]) -> str:
    run = card["run"]
    return f"Model card of {run['name']}, made {wording.when(str(run['created_at']), UTC)} UTC. Not field-validated."


def _sections(card: Mapping[str, Any]) -> list[Section]:
    run, data, counts, changed = card["run"], card["data"], card["labels"], card["run"]["changed"]
    about: list[tuple[str, object]] = [
        ("Run", run["name"]),
        ("Method", run["title"]),
        ("Source", run["paper"]),
        ("Preset, seed", f"{run['preset']}, {run['seed']}"),
        ("Took", f"{wording.duration(float(run['seconds']))} on {run['device']}"),
        ("Run id", run["run_id"]),
        ("Versions", ", ".join(f"{name} {version}" for name, version in sorted(card["versions"].items()))),
        ("Threshold to start from", _started_from(run)),
        ("Threshold of the map", f"{run['threshold_chosen']}, {choices.origin_words(run['threshold_origin'])}"),
    ]
    if from_model := run["from_model"]:
        about.append(("Model from elsewhere", ", ".join(f"{name} {plain(value)}" for name, value in from_model.items())))
    if neighbors := place.words_of(run["place"]):
        about.append(("Evidence from place", neighbors))
    hidden = ", ".join(f"{n:,} {why.replace('_', ' ')}" for why, n in sorted(data["not_assessed"].items())) or "none"
    material = [
        ("Project", data["project"]),
        ("Buildings", f"{data['n_buildings']:,}"),
        ("Hidden by the imagery", hidden),
        ("Chips", DASH if data["bands"] is None else f"{data['bands']}, {data['size_px']} px"),
        ("Chip set", data["chip_set"]),
        *([("Layers", layers.all_words(data["layers"]))] if data.get("layers") else []),
        ("Features", _features(run)),
    ]
    scenes = [
        (f"{one['role']} {one['scene_id']}", one["file"], one["date"], one["gsd_m"], f"{one['width']} x {one['height']}",
         str(one["sha256"])[:16])
        for one in data["scenes"]
    ]  # fmt: skip
    by = "1 person" if counts["n_people"] == 1 else f"{counts['n_people']} people"
    answers = [
        ("Up to event", f"{counts['at_event']}, by {by}"),
        (
            f"Damaged ({'learned from' if counts['were_learned'] else 'there, not learned from'})",
            f"{counts['n_positive']:,}",
        ),
        ("Damaged, held out to judge", f"{counts['n_held_out']:,}"),
        ("Not reviewed, or not damaged", f"{counts['n_unlabeled']:,}"),
        ("Of them, answered not damaged", f"{counts['n_not_damaged']:,}"),
        ("Left out (not assessable, or answered in an audit alone)", f"{counts['n_left_out']:,}"),
    ]
    rows = [(name, _setting(name, value), changed.get(name, "as the preset")) for name, value in run["settings"].items()]
    rows.sort(key=lambda row: row[0] not in changed)
    none = () if rows else ("None: it has no settings.",)
    sums = sorted(card["sha256"].items())
    return [
        Section("What it is", rows=about),
        Section("Judgement without negatives", lines=[card["judgement"]["words"], *_audit_lines(card)]),
        Section("Warnings", lines=card["warnings"] or ["None."]),
        Section("Limits", lines=card["limits"]),
        Section("Data", rows=material, header=("scene", "file", "date", "pixel (m)", "size (px)", "sha256"), table=scenes),
        Section("Labels", rows=answers),
        curves_section(card["curve"]),
        Section("Settings", lines=none, header=("setting", "value", "preset"), table=rows),
        *([Section("Files of the run", header=("file", "sha256"), table=sums)] if sums else []),
    ]


def _features(run: Mapping[str, Any]) -> str:
    if run["settings"].get("backbone", "features") != "features":
        return "none: it learned from the chips themselves"
    return features.words_of(run["feature_set"], run["feature_maker"])


def _setting(name: str, value: object) -> object:
    """Return the value of a setting for people: a share of 0 means that nobody gave one."""
    return "not given" if name in _SHARES and value == 0 else value


def _started_from(run: Mapping[str, Any]) -> str:
    k = run.get("start_k")
    return str(run["threshold"]) if k is None else f"{run['threshold']}, {choices.origin_words(f'{choices.START}:{k}')}"


def curves_section(curve: Sequence[Mapping[str, Any]]) -> Section:
    """Return the curves: on the page as drawings, each from its lowest value to its highest, elsewhere as a table."""
    rows, plots = [], []
    for (stage, name), points in figures(curve).items():
        epochs, values = zip(*points, strict=True)
        first, last, low, high = epochs[0], epochs[-1], min(values), max(values)
        rows.append((f"{name.replace('_', ' ')} ({stage})", values[0], low, high, values[-1]))
        shown = [*points[:: -(-len(points) // MOST_POINTS)], points[-1]]
        height = high - low
        line = [((at - first) / max(last - first, 1e-12), (value - low) / height if height else 0.5) for at, value in shown]
        title = _TITLES.get(name, name.replace("_", " ")) + ("" if stage == "training" else f" ({stage})")
        words = f"epoch {first:g} to {last:g}, last {_short(values[-1])}"
        drawn = ("", _COLORS.get(stage, "#444"), "none", [line], ())
        plots.append(Plot(title, words, [drawn], [(1, _short(high)), (0, _short(low))]))
    lines = () if rows else ("None were kept.",)
    header = ("figure", "first", "lowest", "highest", "last")
    return Section("Curves", lines=lines, plots=plots, header=header, table=rows)


def _audit_lines(card: Mapping[str, Any]) -> list[str]:
    audit, total = card["audit"], f"Number damaged in the project: {card['how_many']['words']}"
    if audit is None:
        return ["There was no audit of its map.", total]
    counted = f"{audit['n_answered']} of {audit['n_drawn']} random checks answered, {audit['n_damaged']} damaged"
    lines = [f"Audit: {counted}. {audit['words']}", total]
    for name in ("precision", "recall"):
        if found := (audit["at_threshold"] or {}).get(name):
            values = [found.get(key) for key in ("value", "low", "high")]
            words = found.get("words") or "not enough checks"
            if None not in values:
                words = "{:.0%} (95 % interval {:.0%} to {:.0%})".format(*values)
            lines.append(f"{name.capitalize()}: {words}")
    return lines


def figures(curve: Sequence[Mapping[str, Any]]) -> dict[tuple[str, str], list[tuple[float, float]]]:
    """Sort reports of epochs into curves.

    Args:
        curve: {"stage", "epoch", name -> number, ...}, one an epoch.

    Returns:
        (stage, name) -> points (epoch, value) in the order of the epochs, where at least two numbers were reported; the
        first `MOST_FIGURES` of them.
    """
    found: dict[tuple[str, str], list[tuple[float, float]]] = {}
    for report in curve:
        numbers = {name: float(value) for name, value in report.items() if type(value) in (int, float)}
        for name in numbers if "epoch" in numbers else ():
            found.setdefault((str(report.get("stage", "training")), name), []).append((numbers["epoch"], numbers[name]))
    whole = {key: sorted(points) for key, points in found.items() if len(points) > 1 and key[1] not in _NO_FIGURES}
    first = {name: place for place, name in enumerate(_TITLES)}
    ordered = sorted(whole, key=lambda key: (key[0] != "training", first.get(key[1], _OTHERS_AT)))  # the training first
    return {key: whole[key] for key in ordered[:MOST_FIGURES]}


def _short(value: float) -> str:
    return f"{value:,.0f}" if 100 <= abs(value) < 1e7 else f"{value:.3g}"
