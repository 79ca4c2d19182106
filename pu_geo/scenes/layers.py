"""Layers beside pre and post: what their names and kinds may be, what is known of each, and the job that adds one."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from itertools import compress
from typing import Any, get_args

from pu_geo.errors import ImageryError, ProjectError
from pu_geo.records import MAX_LAYER_NAME, Layer, LayerKind, RunFacts, When
from pu_geo.store import contents, feature_sets, freshness, store
from pu_geo.store.layout import Layout
from pu_geo.wording import plural

KINDS: tuple[LayerKind, ...] = get_args(LayerKind)
WHEN: Mapping[str, When] = {"pre": "pre", "post": "post", "none": ""}
WHEN_WORDS: Mapping[str, str] = {"pre": "before the event", "post": "after the event", "": "of no date"}
KIND_WORDS: Mapping[LayerKind, str] = {
    "sar-db": "SAR in decibels",
    "sar-amplitude": "SAR amplitude, read as 20 log10 of it, in decibels",
    "elevation": "elevation in meters",
    "proxy": "damage proxy map",
    "other": "no known unit",
}
_USED = {"Learned from": True, "In the chips, and not used": False}
TAKEN = ("pre", "post", "all", "none")
_NAME = re.compile(rf"[a-z0-9][a-z0-9-]{{0,{MAX_LAYER_NAME - 1}}}")


def check_name(name: str) -> None:
    """Raise ImageryError unless a layer can be called so: it becomes the name of a folder, and part of names of columns."""
    if not _NAME.fullmatch(name):
        raise ImageryError(
            f"A layer cannot be called {name[:60]!r}.",
            f"Use lowercase letters, digits and -, at most {MAX_LAYER_NAME}, such as sar-post.",
            kind="name",
        )
    if name in TAKEN:
        raise ImageryError(
            f"{name!r} has a meaning of its own here, so no layer can be called so.",
            f"Call it sar-{name}, for example.",
            kind="name",
        )


def when_of(word: str) -> When:
    """Return the date of a layer that a person named: pre, post or none."""
    if word not in WHEN:
        raise ImageryError(f"The date of a layer is {word[:40]!r}.", f"Name one of: {', '.join(WHEN)}.", kind="when")
    return WHEN[word]


def find(layout: Layout, name: str) -> Layer:
    """Return a layer by its name. Raises ProjectError if there is none."""
    found = store.call(layout, contents.layers)
    for layer in found:
        if layer.name == name:
            return layer
    known = ", ".join(layer.name for layer in found) or "none"
    raise ProjectError(f"This project has no layer {name!r}; its layers are: {known}.", "Name one of them.")


def rows(layout: Layout) -> list[dict[str, Any]]:
    """Return what is known of each layer as JSON.

    Each has {"name", "when", "kind", "files", "bands", "dtype", "unit", "scaling": [[low, high]], "steps": what one step of
    256 means, "nodata": one value, or one of each file where they differ, "gsd_m", "n_missing": buildings of the newest
    chips that it does not show, None where these were cut without it, or from other files of it, "n_buildings", "words"}.
    """
    with store.connect(layout) as db:
        layers, chip_set = contents.layers(db), contents.latest_chip_set(db)
    facts: Mapping[str, Any] = {}
    if chip_set is not None and layout.chip_facts(chip_set).is_file():
        facts = contents.chip_facts(layout, chip_set)
    missing, n = n_missing(facts), len(facts.get("building_ids", ()))
    of_now = [layer.name for layer in layers if facts and freshness.is_of_now(facts, layer)]
    return [as_row(layer, missing[layer.name] if layer.name in of_now else None, n) for layer in layers]


def n_missing(facts: Mapping[str, Any]) -> dict[str, int]:
    """Return how many buildings of a chip set each of its layers does not show, by the layer's name."""
    return {name: len(ids) for name, ids in missing_ids(facts).items()}


def missing_ids(facts: Mapping[str, Any]) -> dict[str, list[str]]:
    """Return which buildings of a chip set each of its layers does not show, by the layer's name."""
    if not facts.get("view_missing"):
        return {}
    rows = zip(contents.views_of(facts), contents.is_missing(facts), strict=True)
    ids: dict[str, list[str]] = {view.name: list(compress(facts["building_ids"], row)) for view, row in rows}
    return {name: ids[name] for name in facts["view_missing"]}


def in_chips(facts: Mapping[str, Any], learned: Collection[str]) -> list[dict[str, Any]]:
    """Return what exports and cards say of each layer of a chip set; nothing where it has none.

    Args:
        facts: of the chip set.
        learned: names of the views that a run learned from, see `learned_views`.

    Returns:
        {"name", "when", "kind", "unit", "bands", "dtype", "nodata", "scaling", "files": [{"scene_id", "sha256", "date",
        "gsd_m", "nodata"}], "n_missing": buildings without it, "n_without_any": of these the ones that have none of what the
        run learned from, "is_used": whether the run learned from it, "words"} each.
    """
    missing, found = n_missing(facts), []
    n_none = int(feature_sets.lacks_all(sorted(learned), facts).sum()) if missing else 0
    for view in contents.views_of(facts):
        if view.name not in missing:
            continue
        about = {"kind": "other", "unit": "", "dtype": "", "nodata": None, "files": [], **facts["scaling"][view.name]}
        pairs = tuple((float(low), float(high)) for low, high in about["bands"])
        what = f"{WHEN_WORDS[view.when]}, {KIND_WORDS[about['kind']]}, {scaling_words(pairs, about['unit'])}"
        found.append(
            {
                "name": view.name,
                "when": view.when,
                **{name: about[name] for name in ("kind", "unit", "dtype", "nodata", "files")},
                "bands": len(pairs),
                "scaling": about["bands"],
                "n_missing": missing[view.name],
                "n_without_any": n_none if view.name in learned else 0,
                "is_used": view.name in learned,
                "words": f"{view.name} ({what}; {missing_words(view.name, missing[view.name], len(facts['building_ids']))})",
            }
        )
    return found


def learned_views(run: RunFacts) -> tuple[str, ...]:
    """Return the names of the views that a run learned from, where these are of layers."""
    facts: Mapping[str, Any] = run.feature_maker
    found = run.views or [view["name"] for view in facts.get("views", ())]
    return tuple(dict.fromkeys(part for name in found for part in str(name).split("+")))


def all_words(found: Sequence[Mapping[str, Any]]) -> str:
    """Return layers in a sentence or two: those that a run learned from, and those that it did not."""
    parts = [(title, [one["words"] for one in found if one["is_used"] is is_used]) for title, is_used in _USED.items()]
    return " ".join(f"{title}: {'; '.join(words)}." for title, words in parts if words)


def as_row(layer: Layer, n_without: int | None, n_buildings: int) -> dict[str, Any]:
    """Return a layer as JSON, see `rows`."""
    return {
        "name": layer.name,
        "when": layer.when,
        "kind": layer.kind,
        "files": [scene.path for scene in layer.scenes],
        "bands": layer.bands,
        "dtype": layer.scenes[0].dtype,
        "unit": layer.unit,
        "scaling": [[*pair] for pair in layer.scaling],
        "steps": [float(f"{step:.3g}") for step in layer.steps],
        "nodata": layer.nodata,
        "gsd_m": max(scene.gsd_m for scene in layer.scenes),
        "n_missing": n_without,
        "n_buildings": n_buildings,
        "words": words_of(layer, n_without, n_buildings),
    }


def words_of(layer: Layer, n_without: int | None, n_buildings: int) -> str:
    """Return a layer in one line: its date, kind, bands, scaling, and which buildings it does not show."""
    what = (
        f"{WHEN_WORDS[layer.when]}, {KIND_WORDS[layer.kind]}, {plural(layer.bands, 'band')} from "
        f"{plural(len(layer.scenes), 'file')}"
    )
    lacks = (
        "not in the newest chips: cut chips again"
        if n_without is None
        else missing_words(layer.name, n_without, n_buildings)
    )
    return f"{layer.name}: {what}; {scaling_words(layer.scaling, layer.unit)}; {lacks}"


def scaling_words(scaling: Sequence[tuple[float, float]], unit: str) -> str:
    """Return how samples of each band became 0 to 255, such as "-21.5 to 3.2 dB in steps of 0.097 dB"."""
    in_unit = f" {unit}" if unit else ""
    return ", ".join(
        f"{low:.4g} to {high:.4g}{in_unit} in steps of {(high - low) / 255:.2g}{in_unit}" for low, high in scaling
    )


def missing_words(name: str, n_without: int, n_buildings: int) -> str:
    """Return which buildings lack a layer, such as "1,204 of 8,000 buildings have no sar-post"."""
    if not n_without:
        return f"all {n_buildings:,} buildings have it"
    return f"{n_without:,} of {n_buildings:,} buildings have no {name}"
