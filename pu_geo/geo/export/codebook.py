"""What every field of an exported damage map means; `codebook.csv` beside this module has the list.

With it, the damage classes of other mapping services, worked out from people's answers and never from a score.
"""

from __future__ import annotations

import csv
import functools
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np

from pu_geo.records import NOT_GRADED, DamageMap, Units

Kind = Literal["text", "bool", "int", "float", "list", "json"]
Profile = Literal["copernicus", "unosat", "xbd", "fema"]
_NOT_GRADED_WORDS = "Damaged, not graded"
PROFILES: dict[Profile, Mapping[str, Mapping[str, str | int]]] = {
    "copernicus": {
        "ems_class": {
            "destroyed": "Destroyed", "major": "Damaged", "minor": "Possibly damaged", "possible": "Possibly damaged",
            NOT_GRADED: _NOT_GRADED_WORDS, "no_visible_damage": "No visible damage", "not_assessed": "Not analysed",
        },
    },
    "unosat": {
        "unosat_class": {"destroyed": 1, "major": 2, "minor": 3, "possible": 4, "no_visible_damage": 6},
        "unosat_class_name": {
            "destroyed": "Destroyed", "major": "Major damage", "minor": "Minor damage", "possible": "Possible damage",
            NOT_GRADED: _NOT_GRADED_WORDS, "no_visible_damage": "No visible damage", "not_assessed": "Not assessed",
        },
    },
    "xbd": {
        "xbd_class": {"destroyed": 3, "major": 2, "minor": 1, "no_visible_damage": 0},
        "xbd_class_name": {
            "destroyed": "destroyed", "major": "major-damage", "minor": "minor-damage", NOT_GRADED: _NOT_GRADED_WORDS,
            "no_visible_damage": "no-damage", "not_assessed": "un-classified",
        },
    },
    "fema": {
        "fema_class": {
            "destroyed": "Destroyed", "major": "Major", "minor": "Minor", NOT_GRADED: _NOT_GRADED_WORDS,
            "no_visible_damage": "No visible damage", "not_assessed": "Not assessed",
        },
    },
}  # fmt: skip
"""Profile -> column -> class of each value of `damage_class`; a column without a class for one has null there."""
SHORT = (
    "building_id", "site", "adm2_name", "assessed", "not_assessed_reason", "damage_binary", "damage_class", "score",
    "p_damaged", "p_low", "p_high", "rank", "triage", "label", "post_date",
)  # fmt: skip
"""Columns of the short GeoJSON: which building, where, what is known of it, how surely, and from when the picture is.

Outlines stand in for `lon` and `lat`, the member `pu_geo` for what all buildings share, such as the threshold."""
_GRADE_OF_LABEL = {"damaged": NOT_GRADED, "no_visible_damage": "no_visible_damage", "not_assessable": "not_assessed"}


@dataclass(frozen=True)
class Field:
    """One field of the export schema.

    Attributes:
        kind: "list" is a list of texts; "json" is whatever JSON can hold. Any field may be null.
        unit: "" where there is none.
        allowed: the values or the range that may occur; "" where any may.
    """

    name: str
    kind: Kind
    unit: str
    meaning: str
    allowed: str = ""


_LAYERS_MISSING = Field(
    "layers_missing",
    "list",
    "",
    "Layers that the run learned from and that do not show the building: half of its outline or more has no data there. "
    "The score rests on the others. Only in maps of such runs; `layers` of damage_map.run.json has each layer's scaling.",
)
TYPE_STATES = ("yes", "no", "unknown")
_THING = re.compile(r"\b[Bb]uilding(s)?\b")


@functools.cache
def known_fields() -> dict[str, Field]:
    """Read the export schema from `codebook.csv` beside this module, in the order of the columns.

    `x_m` and `y_m` stand in place of `lon` and `lat` where a project has no place on the Earth.
    """
    with Path(__file__).with_name("codebook.csv").open(encoding="utf-8", newline="") as file:
        _, *rows = csv.reader(file)
    return {row[0]: Field(*row) for row in rows}  # type: ignore[arg-type]


def fields_of(damage_map: DamageMap) -> list[Field]:
    """Return the fields of a damage map, `building_id` first, then in the order of its columns.

    A field of the schema keeps its kind, also where all is null, so that two exports have the same types. A column that the
    schema does not know, or that holds something else than the schema names, gets the kind of what it holds.
    """
    schema = {**known_fields(), **_of_types(damage_map), "layers_missing": _LAYERS_MISSING}
    known = [schema["building_id"]]
    for name, column in damage_map.columns.items():
        if name == "building_id":
            continue
        field = schema.get(name) or Field(name, "text", "", "Not part of the schema.")
        held = _kind_held(column)
        fits = held is None or held == field.kind or (held, field.kind) == ("int", "float") or field.kind == "json"
        known.append(field if fits or held is None else replace(field, kind=held))
    units = damage_map.units  # found from all buildings
    return [_for(field, units) for field in known]


def _of_types(damage_map: DamageMap) -> dict[str, Field]:
    """Return the fields of the damage types that a map's run scores, see `maps.damage_types`."""
    found, rule = dict[str, Field](), str(damage_map.metadata.get("types_rule", ""))
    for one in types_of(damage_map):
        name, column = f"'{one['name']}'", str(one["column"])
        limit = "None, so no score decides" if one["threshold"] is None else f"{one['threshold']:.4f}"
        score = (
            f"How much the building resembles those that people gave the damage type {name}; it only ranks and is no "
            "probability."
        )
        state = f"Whether the building has the damage type {name}. {rule} Threshold: {limit}."
        found[f"{column}_score"] = Field(f"{column}_score", "float", "", score, "0..1, 4 decimals")
        found[column] = Field(column, "text", "", state, "; ".join(TYPE_STATES))
    return found


def types_of(damage_map: DamageMap) -> Sequence[Mapping[str, Any]]:
    """Return what a map says of each damage type that its run scores: "name", "column", "threshold", counts and audit; often
    none.
    """
    found: Sequence[Mapping[str, Any]] = damage_map.metadata.get("types", ())  # type: ignore[assignment]
    return found


def _for(field: Field, units: Units) -> Field:
    """Return a field in the words of what is mapped: cells of a grid are no buildings."""
    if not units.n_cells:
        return field
    meaning = _THING.sub(lambda found: units.several if found[1] else units.one, field.meaning)
    if field.name == "building_id":
        meaning += f" Mapped are {units.full}; cells are squares of a regular grid, laid where no outlines were at hand."
    return replace(field, meaning=meaning)


def _kind_held(column: Sequence[object]) -> Kind | None:
    """Return the narrowest kind that holds a column's values; None where all are null."""
    found = set(map(type, column))
    if any(issubclass(one, np.generic) for one in found):
        found = {type(value.item() if isinstance(value, np.generic) else value) for value in column}
    held = found - {type(None)}
    if not held:
        return None
    if held <= {list, tuple}:
        return "list"
    kinds: tuple[tuple[set[type], Kind], ...] = (({bool}, "bool"), ({int}, "int"), ({int, float}, "float"), ({dict}, "json"))
    return next((kind for types, kind in kinds if held <= types), "text")


# Classes of other mapping services


def with_classes(damage_map: DamageMap, profile: Profile) -> DamageMap:
    """Add the columns of another service, such as `ems_class`; the codebook explains them.

    A grade (`damage_class`) decides where a person gave one. A building that a person marked damaged and did not grade is
    "Damaged, not graded" and has no number: any class of the profile would state a degree that was never given, and the
    weakest one made destroyed houses "Possibly damaged". A building that only the model assessed has no class: a score is no
    grade, and a score under the threshold is no "No visible damage". Source: class mapping of the export schema; the choices
    are ours.

    Args:
        profile: "copernicus" (Copernicus EMS grading), "unosat" (UNOSAT codes), "xbd" (joint damage scale of xBD) or "fema".

    Returns:
        The same map with the profile's columns; None where there is no class.
    """
    nothing: Sequence[object] = [None] * len(damage_map.building_ids)
    answers = (damage_map.columns.get(name, nothing) for name in ("damage_class", "label", "damage_binary"))
    grades = [_grade(*one) for one in zip(*answers, strict=True)]
    classes = {
        column: [None if grade is None else names.get(grade) for grade in grades]
        for column, names in PROFILES[profile].items()
    }
    return replace(damage_map, columns={**damage_map.columns, **classes})


def shortened(damage_map: DamageMap) -> DamageMap:
    """Return the map with the columns of `SHORT` alone, and the classes of other services that were asked for."""
    kept = {*SHORT, *(column for classes in PROFILES.values() for column in classes)}
    return replace(damage_map, columns={name: values for name, values in damage_map.columns.items() if name in kept})


def _grade(damage_class: object, label: object, binary: object) -> str | None:
    if damage_class is not None:
        return str(damage_class)
    if label is not None:
        return _GRADE_OF_LABEL.get(str(label))
    return "not_assessed" if binary == "not_assessed" else None
