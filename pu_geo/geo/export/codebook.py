"""What every field of an exported damage map means, and the two files that travel with an export to explain it.

With it, the damage classes of other mapping services, worked out from people's answers and never from a score.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import numpy as np
import orjson

from pu_geo.atomic_write import write_export
from pu_geo.records import DamageMap, Units

Kind = Literal["text", "bool", "int", "float", "list", "json"]
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


_BINARY = "damaged; not_flagged; not_assessed"
_GRADES = "destroyed; major; minor; possible; damaged_not_graded; no_visible_damage; not_assessed"
_WHY_NOT = "cloud; outside_image; nodata; no_pre_image; scene_without_answers; misaligned; no_building; unclear; not_in_run"
_TRIAGE = "confirmed; flagged; high_precision; high_recall; below; not_assessed"
_DEGREES = "degrees (WGS 84)"
_THING = re.compile(r"\b[Bb]uilding(s)?\b")

_FIELDS = (
    Field("building_id", "text", "", "Name of the footprint, the same in every export of a project."),
    Field(
        "source_footprint", "text", "", "Where the outline comes from.",
        "overture; osm; open_buildings; microsoft; user; grid",
    ),
    Field("area_m2", "float", "m2", "Ground area of the footprint.", "> 0, 1 decimal"),
    Field("lon", "float", _DEGREES, "Longitude of the footprint's centroid.", "-180..180, 6 decimals"),
    Field("lat", "float", _DEGREES, "Latitude of the footprint's centroid.", "-90..90, 6 decimals"),
    Field("adm1_pcode", "text", "", "P-code of the first administrative level."),
    Field("adm2_pcode", "text", "", "P-code of the second administrative level."),
    Field("adm2_name", "text", "", "Name of the second administrative level."),
    Field(
        "assessed", "bool", "",
        "True where enough of the outline is visible, in the bands the run needs, in a scene where the ranking has evidence, or "
        "where a person answered. Where false, nothing is known about damage.",
    ),
    Field(
        "not_assessed_reason", "text", "",
        "Why the building was not assessed; null where it was. no_pre_image: the run compares with pre-event imagery, and none "
        "shows the building. scene_without_answers: its scene differs from those with answers, and too few were given there. "
        "not_in_run: it was added after the run; train again.",
        _WHY_NOT,
    ),
    Field(
        "damage_binary", "text", "",
        "damaged: a person marked it, or its score reaches the threshold. not_flagged is no proof of an intact building.",
        _BINARY,
    ),
    Field(
        "damage_class", "text", "",
        "Grade a person gave. damaged_not_graded: a person marked it damaged and gave no grade, so it may be anything up to "
        "destroyed. Null where no person answered: the model gives no grades.",
        _GRADES,
    ),
    Field(
        "score", "float", "", "How much the building resembles the marked ones; not a probability unless calibrated.",
        "0..1, 4 decimals",
    ),
    Field("score_type", "text", "", "What kind of number the score is.", "pu_probability; rank; linear"),
    Field("p_damaged", "float", "", "Probability of damage, calibrated on an audit; null without one.", "0..1"),
    Field("p_low", "float", "", "Lower end of its interval.", "0..1"),
    Field("p_high", "float", "", "Upper end of its interval.", "0..1"),
    Field("rank", "int", "", "Place in the list from the highest score; 1 is the top.", ">= 1"),
    Field("threshold", "float", "", "Scores from here on are flagged.", "0..1, 4 decimals"),
    Field(
        "triage", "text", "",
        "confirmed: a person marked it damaged. flagged: by score alone. high_precision, high_recall: by the audit's two "
        "thresholds. below: under the threshold, or a person saw no damage. not_assessed: nothing is known.",
        _TRIAGE,
    ),
    Field("damage_types", "list", "", "Kinds of damage a person named."),
    Field(
        "discovered_type", "text", "",
        "A machine's guess at the kind of damage, never a person's answer and never a grade: the building lies in a group that "
        "the machine proposed and a person named after looking at some of it. Null elsewhere, where a person saw no damage, and "
        "where nothing was assessed.",
    ),
    Field("label", "text", "", "A person's answer.", "damaged; no_visible_damage; not_assessable"),
    Field(
        "label_source", "text", "", "On which way the answer came: set by a person, imported, or simulated in a trial.",
        "set; import; simulated",
    ),
    Field("labeller", "text", "", "Pseudonym of the person."),
    Field("labelled_at", "text", "RFC 3339", "When the answer was given."),
    Field("n_labels", "int", "", "How many people answered.", ">= 0"),
    Field("agreement", "float", "", "Share of them who agree with the label.", "0..1"),
    Field(
        "review_status", "text", "",
        "State of the second reading. single: no second person answered. agreed: all who answered give this label. disputed: "
        "somebody gives another one; the last answer stands. Null where no person answered.",
        "single; agreed; disputed",
    ),
    Field("audit_weight", "float", "", "Buildings that one audited building stands for.", "> 0"),
    Field(
        "pre_image_id", "text", "",
        "Scene from before the event that the run saw this building in; null where the run used none.",
    ),
    Field("pre_date", "text", "ISO 8601", "Its date; null where it is not known."),
    Field("post_image_id", "text", "", "Scene from after the event that the run saw this building in."),
    Field("post_date", "text", "ISO 8601", "Its date; null where it is not known."),
    Field("post_gsd_m", "float", "m", "Its pixel size on the ground.", "> 0"),
    Field(
        "pre_hidden_share", "float", "",
        "Share of the outline that clouds, missing data or the scene's border hide before the event; null where not measured.",
        "0..1, 4 decimals",
    ),
    Field("post_hidden_share", "float", "", "The same after the event.", "0..1, 4 decimals"),
    Field("off_nadir_deg", "float", "degrees", "Viewing angle away from straight down.", "0..90"),
    Field("shift_dx_m", "float", "m", "By how much the scene before the event must move to the east to fit the one after."),
    Field("shift_dy_m", "float", "m", "The same to the north."),
    Field("shift_quality", "float", "", "How sure that shift is.", "0..1"),
    Field("method", "text", "", "Method that made the score."),
    Field("run_id", "text", "", "Run that made the score."),
    Field("run_at", "text", "RFC 3339", "When the run was made."),
    Field("round", "int", "", "Round of labeling and training.", ">= 1"),
    Field("product_version", "text", "", "Version of this damage map, v1, v2, ..."),
    Field("schema_version", "text", "", "Version of this list of fields."),
    Field("source_attributes", "json", "JSON", "The footprint file's own attributes, unchanged."),
    Field(
        "ems_class", "text", "",
        "Class after Copernicus EMS, from a person's answer alone. 'Damaged, not graded', which is ours: a person marked it "
        "damaged and gave no grade. The grade 'minor', which the table leaves open between two classes, is 'Possibly damaged'. "
        "Null where only the model spoke: a flag is no grade, and no flag is not 'No visible damage'.",
        "Destroyed; Damaged; Possibly damaged; Damaged, not graded; No visible damage; Not analysed",
    ),
    Field(
        "unosat_class", "int", "",
        "Class after UNOSAT, from a person's answer alone: 1 destroyed, 2 major, 3 minor, 4 possible, 6 no visible damage. "
        "Null where a person marked it damaged and gave no grade, for which there is no code, where only the model spoke, and "
        "where nothing was assessed; unosat_class_name says which.",
        "1; 2; 3; 4; 6",
    ),
    Field(
        "unosat_class_name", "text", "",
        "The same in words; 'Damaged, not graded' is ours. Null where only the model spoke.",
        "Destroyed; Major damage; Minor damage; Possible damage; Damaged, not graded; No visible damage; Not assessed",
    ),
)  # fmt: skip
_LOCAL_FIELDS = {  # in place of lon and lat, where a project has no place on the Earth
    "x_m": Field(
        "x_m", "float", "m", "Footprint's centroid, to the right of the post picture's left edge. No longitude.", ">= 0"
    ),
    "y_m": Field("y_m", "float", "m", "Footprint's centroid above the post picture's upper edge. No latitude.", "<= 0"),
}
FIELDS: dict[str, Field] = {field.name: field for field in _FIELDS}


def fields_of(damage_map: DamageMap) -> list[Field]:
    """Return the fields of a damage map, `building_id` first, then in the order of its columns.

    A field of the schema keeps its kind, also where all is null, so that two exports have the same types. A column that the
    schema does not know, or that holds something else than the schema names, gets the kind of what it holds.
    """
    known = [FIELDS["building_id"]]
    for name, column in damage_map.columns.items():
        if name == "building_id":
            continue
        field = FIELDS.get(name) or _LOCAL_FIELDS.get(name, Field(name, "text", "", "Not part of the schema."))
        held = _kind_held(column)
        fits = held is None or held == field.kind or (held, field.kind) == ("int", "float") or field.kind == "json"
        known.append(field if fits or held is None else replace(field, kind=held))
    return [_for(field, damage_map.units) for field in known]


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
    held = {type(value.item() if isinstance(value, np.generic) else value) for value in column} - {type(None)}
    if not held:
        return None
    if held <= {list, tuple}:
        return "list"
    kinds: tuple[tuple[set[type], Kind], ...] = (({bool}, "bool"), ({int}, "int"), ({int, float}, "float"), ({dict}, "json"))
    return next((kind for types, kind in kinds if held <= types), "text")


def write_side_files(damage_map: DamageMap, out: Path) -> list[Path]:
    """Write `<name>.codebook.csv` and `<name>.run.json` beside an export, each whole or not at all.

    Args:
        out: the export; `<name>` is its name without the last suffix, so that exports of one version share the two files.

    Returns:
        The two paths.
    """
    text = io.StringIO(newline="")
    writer = csv.writer(text)
    writer.writerow(["field", "type", "unit", "meaning", "allowed_values"])
    writer.writerows([f.name, f.kind, f.unit, f.meaning, f.allowed] for f in fields_of(damage_map))
    codebook = out.with_name(f"{out.stem}.codebook.csv")
    write_export(codebook, [text.getvalue().encode("utf-8-sig")])
    run = out.with_name(f"{out.stem}.run.json")
    options = orjson.OPT_INDENT_2 | orjson.OPT_SERIALIZE_NUMPY
    write_export(run, [orjson.dumps(dict(damage_map.metadata), option=options), b"\n"])
    return [codebook, run]


# Classes of other mapping services


def with_classes(damage_map: DamageMap, profile: Profile) -> DamageMap:
    """Add the column `ems_class`, or `unosat_class` and `unosat_class_name`; the codebook explains them.

    A grade (`damage_class`) decides where a person gave one. A building that a person marked damaged and did not grade is
    "Damaged, not graded" and has no number: any class of the profile would state a degree that was never given, and the weakest
    one made destroyed houses "Possibly damaged". A building that only the model assessed has no class: a score is no
    grade, and a score under the threshold is no "No visible damage". Source: class mapping of the export schema; the choices
    are ours.

    Args:
        profile: "copernicus" (Copernicus EMS grading) or "unosat" (UNOSAT codes).

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


def _grade(damage_class: object, label: object, binary: object) -> str | None:
    if damage_class is not None:
        return str(damage_class)
    if label is not None:
        return _GRADE_OF_LABEL.get(str(label))
    return "not_assessed" if binary == "not_assessed" else None
