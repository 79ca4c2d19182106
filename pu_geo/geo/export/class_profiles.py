"""Damage classes of other mapping services, worked out from what people said and never from a score."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Literal

from pu_geo.records import DamageMap

Profile = Literal["copernicus", "unosat"]
NOT_GRADED = "damaged_not_graded"
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
}  # fmt: skip
"""Profile -> column -> class of each value of `damage_class`; a column without a class for one has null there."""
_GRADE_OF_LABEL = {"damaged": NOT_GRADED, "no_visible_damage": "no_visible_damage", "not_assessable": "not_assessed"}


def with_classes(damage_map: DamageMap, profile: Profile) -> DamageMap:
    """Add the column `ems_class`, or `unosat_class` and `unosat_class_name`; the codebook says how they are meant.

    A grade (`damage_class`) decides where a person gave one. A building that a person marked damaged and nobody graded is
    "Damaged, not graded" and has no number: any class of the profile would state a degree that nobody gave, and the weakest
    one made destroyed houses "Possibly damaged". A building that nobody but the model looked at has no class: a score is no
    grade, and a score under the threshold is no "No visible damage". Source: class mapping of the export schema; the choices
    are ours.

    Args:
        profile: "copernicus" (Copernicus EMS grading) or "unosat" (UNOSAT codes).

    Returns:
        The same map with the profile's columns; None where there is no class.
    """
    nothing: Sequence[object] = [None] * len(damage_map.building_ids)
    told = (damage_map.columns.get(name, nothing) for name in ("damage_class", "label", "damage_binary"))
    grades = [_grade(*answers) for answers in zip(*told, strict=True)]
    classes = {
        column: [None if grade is None else names.get(grade) for grade in grades]
        for column, names in PROFILES[profile].items()
    }
    return replace(damage_map, columns={**damage_map.columns, **classes})


def _grade(damage_class: object, label: object, binary: object) -> str | None:
    if damage_class is not None:
        return str(damage_class)
    if label is not None:
        return _GRADE_OF_LABEL.get(str(label))
    return "not_assessed" if binary == "not_assessed" else None
