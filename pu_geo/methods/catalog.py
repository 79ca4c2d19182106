"""The methods an analyst can choose from. Imports no torch; the method itself is loaded when a training starts."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any

from pu_geo.errors import TrainingError
from pu_geo.methods.settings import PRESETS, NcpuSettings, PuclSettings


@dataclass(frozen=True)
class MethodCard:
    """What the Train page and the command line say about one method.

    Attributes:
        name: short name, as typed on the command line.
        title: name for people.
        paper: authors, title, venue, year.
        summary: what it does, in two sentences.
        needs: what it must be given.
        cannot: what it is not good at.
        min_positives: fewer are refused.
        settings: its dataclass in `methods.settings`.
        presets: name of a preset -> values that differ from the dataclass's defaults.
        entry: "module:function" of its `fit`.
    """

    name: str
    title: str
    paper: str
    summary: str
    needs: str
    cannot: str
    min_positives: int
    settings: type[Any]
    presets: Mapping[str, Mapping[str, object]]
    entry: str


METHODS: dict[str, MethodCard] = {
    "ncpu": MethodCard(
        name="ncpu",
        title="NcPU",
        paper="Zhao et al., Noisy-Pair Robust Representation Alignment for Positive-Unlabeled Learning",
        summary=(
            "Learns from the clicked positives and all other buildings, and works out by itself which of those are "
            "damaged. Most worth trying where a third or more of the buildings are damaged."
        ),
        needs="At least 5 positives, better 10 to 30, of every kind of damage that shall be found.",
        cannot="Its scores order buildings; they are no probabilities. It does not tell kinds of damage apart.",
        min_positives=5,
        settings=NcpuSettings,
        presets=PRESETS["ncpu"],
        entry="pu_geo.methods.ncpu:fit",
    ),
    "pucl": MethodCard(
        name="pucl",
        title="PUCL + PUPL",
        paper="Contrastive Positive Unlabeled Learning (PUCL and PUPL)",
        summary=(
            "Learns embeddings in which positives lie together, splits them into two clusters, and trains a linear "
            "classifier on the result. Its embeddings suit the Explore page."
        ),
        needs="At least 5 positives, better 30.",
        cannot="Its two clusters follow what splits the scene most, which need not be damage. Compare with the instant ranking.",
        min_positives=5,
        settings=PuclSettings,
        presets=PRESETS["pucl"],
        entry="pu_geo.methods.pucl:fit",
    ),
}


def card(method: str) -> MethodCard:
    """Look a method up by its short name.

    Raises:
        TrainingError: if there is no such method.
    """
    if method not in METHODS:
        raise TrainingError(
            f"There is no method {method!r}; there are {', '.join(METHODS)}.", "Choose one of these.", kind="settings"
        )
    return METHODS[method]


def settings_for(method: str, preset: str, overrides: Mapping[str, str | float] | None = None) -> Any:
    """Make the settings of a method from a preset and some values of the user's.

    Args:
        method: short name.
        preset: one of the card's presets.
        overrides: field name -> value; text is read as the field's type, as in "epochs=80".

    Returns:
        An instance of the method's settings class.

    Raises:
        TrainingError: for an unknown method, preset or field, and for a value that cannot be read or is out of bounds.
    """
    found = card(method)
    if preset not in found.presets:
        raise TrainingError(
            f"{found.title} has no preset {preset!r}; it has {', '.join(found.presets)}.",
            "Choose one of these.",
            kind="settings",
        )
    types = {item.name: type(item.default) for item in fields(found.settings)}
    values = dict(found.presets[preset])
    for name, value in (overrides or {}).items():
        if name not in types:
            raise TrainingError(
                f"{found.title} has no setting {name!r}; it has {', '.join(types)}.",
                "Correct the name, or leave this setting out.",
                kind="settings",
            )
        values[name] = _read(name, value, types[name])
    return found.settings(**values)


def _read(name: str, value: str | float, wanted: type) -> object:
    """Turn a value into the type of its field; numbers with a fraction do not become whole ones."""
    text = str(value).strip()
    words = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}
    try:
        if wanted is bool:
            return words[text.lower()]
        if wanted is int and float(text) == int(float(text)):
            return int(float(text))
        if wanted is float:
            return float(text)
        if wanted is str:
            return text
    except (ValueError, KeyError, OverflowError):
        pass
    kinds = {bool: "yes or no", int: "a whole number", float: "a number"}
    raise TrainingError(
        f"{name} is {text!r}; it must be {kinds.get(wanted, 'a word')}.", f"Write {name} as such.", kind="settings"
    )


def load_fit(method: str) -> Callable[..., Any]:
    """Import a method and return its `fit(data, settings, run)`. This loads torch."""
    module, function = card(method).entry.split(":")
    fit: Callable[..., Any] = getattr(importlib.import_module(module), function)
    return fit
