"""The card of a run: what it learned from, with which settings and where, how it went, and what nobody knows about it.

One mapping of plain values, from which `run_card_page` makes Markdown and a page. It names no person and no path.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from pu_geo import __version__
from pu_geo.errors import ProjectError, TrainingError
from pu_geo.methods import catalog
from pu_geo.project import contents, labels, runs, store
from pu_geo.project.layout import Layout
from pu_geo.records import PUSet, RunFacts
from pu_geo.services.damage_map import auditing, mapping
from pu_geo.services.imagery import preparation
from pu_geo.services.project import choices
from pu_geo.services.train import comparing, training
from pu_geo.services.train.run_card_limits import judgement_words, limits
from pu_geo.services.train.run_card_page import as_html as as_html
from pu_geo.services.train.run_card_page import as_markdown as as_markdown

FORMAT, VERSION = "pu-geo run card", 1


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
    with store.connect(layout) as db:
        _require_whole(layout, facts.run_id)
        ids = runs.building_ids_of(layout, facts.run_id)
        pu = labels.pu_set(db, at=facts.at_event, ids=ids)
        people = {event.analyst for event in labels.current(db, at=facts.at_event).values()}
        data = _data(layout, facts, store.project_name(db), [_scene(asdict(scene)) for scene in contents.scenes(db)])
    told = _labels(layout, facts, pu, len(people))
    chosen = choices.threshold(layout, facts.run_id)
    audit = auditing.facts(layout, facts.run_id, chosen.value)
    judged = getattr(facts, "judgement", None)
    doubts = mapping.doubts(layout, facts.run_id, chosen.value)
    found = {
        "format": FORMAT,
        "format_version": VERSION,
        "made_with": f"PU-Geo {__version__}",
        "run": _run(facts) | {"threshold_chosen": chosen.value, "threshold_origin": chosen.origin},
        "data": data | {"n_buildings": len(ids)},
        "labels": told,
        "versions": dict(facts.versions),
        "curve": comparing.curve(layout, facts.run_id),
        "judgement": {**(judged or {}), "words": judgement_words(judged)},
        "how_many": auditing.how_many(layout).as_mapping(),
        "audit": None if audit is None else {key: audit[key] for key in audit if key not in ("curve", "calibration")},
        "warnings": [*facts.warnings, *doubts],
        "limits": limits(facts, n_positive=told["n_positive"], has_audit=audit is not None),
        "sha256": _sums(layout, facts.run_id),
    }
    return dict(_finite(found))


def _require_whole(layout: Layout, run_id: str) -> None:
    for name in ("building_ids.json", "scores.npy"):
        if not (layout.run(run_id) / name).is_file():
            raise ProjectError(f"Run {run_id} has lost its file {name}.", "Choose another run, or make it anew.")


def _run(facts: RunFacts) -> dict[str, Any]:
    """Say what made the scores; a weights file that it began with is named without its folder."""
    settings = dict(facts.settings)
    if settings.get("weights_file"):
        settings["weights_file"] = Path(str(settings["weights_file"])).name
    method = catalog.METHODS.get(facts.method)
    names = ("run_id", "method", "preset", "seed", "created_at", "seconds", "device", "score_type", "threshold")
    return {
        **{name: getattr(facts, name) for name in names},
        "title": training.method_title(facts.method),
        "paper": None if method is None else method.paper,
        "summary": None if method is None else method.summary,
        "settings": settings,
        "changed": _changed(facts, settings),
        "from_model": None if facts.from_model is None else dict(facts.from_model),
    }


def _changed(facts: RunFacts, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings that differ from the preset, as this version knows it: name -> its value there."""
    try:
        usual = asdict(catalog.settings_for(facts.method, facts.preset))
    except TrainingError:
        return {}
    return {name: usual.get(name) for name, value in settings.items() if usual.get(name) != value}


def _data(layout: Layout, facts: RunFacts, project: str, scenes: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    has_facts = layout.chip_facts(facts.chip_set).is_file()
    chips = preparation.chip_facts(layout, facts.chip_set) if has_facts else {}
    why = dict(Counter((choices.reasons_of(layout, facts) or {}).values()))
    return {
        "project": project,
        "chip_set": facts.chip_set,
        "bands": chips.get("bands"),
        "bands_why": chips.get("bands_why", ""),
        "n_hidden_from_training": facts.n_hidden,
        "size_px": chips.get("size_px"),
        "not_assessed": why,
        "scenes": list(scenes),
    }


def _scene(facts: Mapping[str, Any]) -> dict[str, Any]:
    known = {name: facts[name] for name in ("scene_id", "role", "date", "gsd_m", "width", "height", "sha256")}
    return {**known, "file": Path(facts["path"]).name}


def _labels(layout: Layout, facts: RunFacts, pu: PUSet, n_people: int) -> dict[str, Any]:
    """Count what the labels said when the run was made. Positives are those it learned from."""
    held_out = layout.run(facts.run_id) / "held_out.npy"
    n_held_out = len(np.load(held_out, mmap_mode="r", allow_pickle=False)) if held_out.is_file() else 0
    return {
        "at_event": facts.at_event,
        "n_positive": facts.n_positive,
        "n_unlabeled": facts.n_unlabeled,
        "n_not_damaged": int(pu.is_not_damaged.sum()),
        "n_left_out": int(pu.is_excluded.sum()),
        "n_held_out": n_held_out,
        "n_people": n_people,
        "were_learned": facts.from_model is None,
    }


def _sums(layout: Layout, run_id: str) -> dict[str, str]:
    """Return the sha256 of the run's files, by name; none for a run whose manifest is gone."""
    manifest = layout.run(run_id) / "manifest.json"
    if not manifest.is_file():
        return {}
    return dict(json.loads(manifest.read_text(encoding="utf-8"))["sha256"])


def _finite(value: Any) -> Any:
    """Copy plain values, with None in the place of numbers that JSON does not know."""
    if isinstance(value, Mapping):
        return {str(key): _finite(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(one) for one in value]
    if isinstance(value, np.generic):
        value = value.item()
    return None if isinstance(value, float) and not math.isfinite(value) else value
