"""The methods an analyst can choose from. Imports no torch; the method itself is loaded when a training starts."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, asdict, dataclass, fields
from functools import cached_property
from typing import Any

from pu_geo.errors import TrainingError
from pu_geo.methods.cards import baselines, fedaws, herocon, ncl, ncpu, propagation, pucl
from pu_geo.methods.settings import MethodCard, check, setting
from pu_geo.records import DEFAULT_METHOD as DEFAULT_METHOD

METHODS: dict[str, MethodCard] = {
    found.name: found
    for found in (propagation.CARD, ncpu.CARD, pucl.CARD, ncl.CARD, herocon.CARD, fedaws.CARD, *baselines.CARDS)
}
"""All methods, in the order in which they are shown."""

ESTIMATORS = ("PURanker", *(found.estimator for found in METHODS.values()), "PUPL")
"""Names of the classes in `methods.estimators`, which loads torch and scikit-learn."""

FEATURES_HELP = "of `pu-geo features P.pugeo`; the set in use if not named"
SEVERAL_HELP = (
    "of `pu-geo features P.pugeo`; A,B averages the propagated rankings by several, but for one by which held-out clicks "
    "stand lower. If not named the set in use; for the propagated ranking all sets but those of layers"
)
GROUPS = {
    "default": "Recommended", "pu": "Second opinion", "types": "Damage types and agencies", "baseline": "Baseline methods",
}  # fmt: skip
"""Where a card is shown, and the heading there."""


def card(method: str) -> MethodCard:
    """Return a method by its short name. Raises TrainingError if there is no such method."""
    if method not in METHODS:
        raise TrainingError(
            f"There is no method {method!r}; there are {', '.join(METHODS)}.", "Choose one of these.", kind="settings"
        )
    return METHODS[method]


def settings_for(method: str, preset: str, overrides: Mapping[str, str | float] | None = None) -> Any:
    """Make the settings of a method from a preset and some values of the user's.

    Args:
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
            "Choose one of these, or name another method.",
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


def overrides_of(given: Mapping[str, str | float] | Sequence[str]) -> Mapping[str, str | float]:
    """Read settings that were written as name=value, or are a mapping; raise TrainingError for what is neither."""
    if isinstance(given, Mapping):
        return dict(given)
    if wrong := [pair for pair in given if "=" not in pair]:
        raise TrainingError(
            f"--set {wrong[0]!r} is not of the form key=value.", "Write, for example, --set epochs=80.", kind="settings"
        )
    return dict(pair.split("=", 1) for pair in given)


@dataclass(frozen=True)
class TrainingRequest:
    """What a person asks of a training: one thing from the form and the options to job, task and run.

    A job keeps it as plain values, `as_args`, and `TrainingRequest(**args)` reads them back.

    Attributes:
        method: a name in `METHODS`.
        preset: one of the method's presets.
        seed: of all that is drawn at random, from 0 on.
        overrides: settings that differ from the preset: field name -> value, as text or number; or texts "name=value".
        types_from: where damage types come from: "answers" given on Annotate, or "grades"; one kind for all if None.
        hold_out: positives that are not learned from, drawn by the seed; the run is judged by them.
        feature_set: name of the frozen features that are learned from, or several, as "rcf,backbone-1a2b3c4d", of which
            rankings are averaged; "" for the set in use, or those of `feature_sets.to_average`.

    Raises:
        TrainingError: see `settings_for`; also for a seed or a hold-out out of bounds, and features named to a
            network that is trained from the chips.
    """

    method: str = setting(DEFAULT_METHOD, "ncpu, pucl, ...: `pu-geo methods` lists them")
    preset: str = setting("quick", "of the method")
    _: KW_ONLY
    seed: int = setting(0, "of all random numbers", min=0)
    types_from: str | None = setting(
        None, "damage types to learn: answers (given on Annotate), or grades (as a scale)", choices=("answers", "grades")
    )
    hold_out: int = setting(0, "damaged buildings to judge the run by, not to learn from", min=0, metavar="N")
    overrides: Mapping[str, str | float] | Sequence[str] = setting(
        (), "change one setting of the preset", flag="--set", metavar="KEY=VALUE", is_many=True
    )
    feature_set: str = setting("", SEVERAL_HELP, flag="--features", metavar="NAME")

    def __post_init__(self) -> None:
        object.__setattr__(self, "overrides", overrides_of(self.overrides))
        check(self)
        takes_features = self.takes_features  # checks the settings
        if self.feature_set and not takes_features:
            raise TrainingError(
                f"Features {self.feature_set!r} were named, but with backbone {self.settings.backbone} a network learns "
                "from the chips themselves.",
                "Leave the features out, or choose a preset on cached features, such as quick.",
                kind="settings",
            )
        if len(self.feature_sets) > 1 and not self.card.averages_features:
            raise TrainingError(
                f"{self.card.title} learns from one set of features, not from {self.feature_set}.",
                "Name one.",
                kind="settings",
            )

    @property
    def feature_sets(self) -> list[str]:
        """Names in `feature_set`."""
        return [name.strip() for name in self.feature_set.split(",") if name.strip()]

    @property
    def takes_features(self) -> bool:
        """Whether cached frozen features are learned from, rather than chips."""
        return bool(self.settings.backbone == "features")

    @property
    def card(self) -> MethodCard:
        return METHODS[self.method]

    @cached_property
    def settings(self) -> Any:
        """The method's settings: the preset's, with the overrides."""
        return settings_for(self.method, self.preset, overrides_of(self.overrides))

    def as_args(self) -> dict[str, Any]:
        """Return plain values, as a job keeps them."""
        return asdict(self)


def load_from_state(method: str) -> Callable[..., Any]:
    """Import a method and return its `from_state(state, settings, device)`. This loads torch."""
    module = card(method).entry.partition(":")[0]
    return importlib.import_module(module).from_state


def load_fit(method: str) -> Callable[..., Any]:
    """Import a method and return its `fit(data, settings, run)`. This loads torch."""
    module, function = card(method).entry.split(":")
    return getattr(importlib.import_module(module), function)


def title(method: str) -> str:
    """Return a method's name for people; the plain word for one that this version does not know."""
    return METHODS[method].title if method in METHODS else {"ranker": "Instant ranker"}.get(method, method)


def name_within(method: str) -> str:
    """Return a method's name as it stands within a sentence: "propagated ranking", but "NcPU"."""
    words = title(method)
    return words[:1].lower() + words[1:] if words[1:].islower() else words
