"""Import labels that were made elsewhere: a CSV of building ids, points on a map, or the whole history of a project."""

from __future__ import annotations

import csv
import json
import re
import uuid
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pu_geo import wording
from pu_geo.answers.export_labels_job import DECISIONS, DECISIONS_FORMAT, TYPES, named_in
from pu_geo.errors import LabelError
from pu_geo.geo.readers.file_kinds import delimiter_of
from pu_geo.geo.vector import crs as systems
from pu_geo.geo.vector.points import find_footprints, into_project, read_exported_map, read_points
from pu_geo.records import DAMAGE_CLASSES, LABEL_NAMES, LABELS, Grid, LabelEvent, LabelOp, utc
from pu_geo.spreadsheets import unguarded
from pu_geo.store import analysts, contents, grades, history, labels, store
from pu_geo.store import decisions as decision_log
from pu_geo.store.grades import Grade
from pu_geo.store.layout import Layout

MAX_BYTES = 200_000_000
_ALIASES = {name: label for label, name in LABEL_NAMES.items()}
_TEXTS = ("reason", "comment", "shown", "grade")
_SOURCES = ("kind", "label_source")  # columns of label files and of damage maps that say how an answer came
_ORIGIN = ("analyst", "at")  # whose answer it is and when they gave it: no part of the answer
_OF_DECISION = ("op", "kind", "name", "analyst", "at")

_NO_ANSWER = LabelEvent(0, "", "", "cleared", "", "", "")
_KNOWN = {"", *_ALIASES, *LABELS}
_MOST_VALUES = 8
_LAST = "9999"
_TELLS = re.compile("dam|grad|class|state|status|label|condition", re.IGNORECASE)
_MOST_COLUMNS = 1_000
_PLACES = (("lon", "lat"), ("longitude", "latitude"))
_LOCAL_PLACES = (("x_m", "y_m"),)


@dataclass(frozen=True)
class Meaning:
    """What the values of a file that was not made with PU-Geo mean.

    Attributes:
        field: the column that tells what was seen; "" for one called label.
        damaged, not_damaged: its values; rows with others are no answers and are skipped.
        all_damaged: each row is a damaged building, whatever it says.
    """

    field: str = ""
    damaged: tuple[str, ...] = ()
    not_damaged: tuple[str, ...] = ()
    all_damaged: bool = False


IN_OUR_WORDS = Meaning()


def import_labels(
    layout: Layout,
    path: str,
    *,
    analyst: str,
    meaning: Meaning = IN_OUR_WORDS,
    same_footprints: bool = False,
    rebuild: bool = False,
) -> dict[str, object]:
    """Store the labels of a file as one act, so that one undo of `analyst` takes them back.

    Which building is meant is decided by id and position: see `geo.vector.points.find_footprints`. An answer of the file
    that is older than the one here and differs from it is left out.

    Args:
        path: one of
            - CSV with a column building_id, or lon and lat, and label, reason, damage_types and absent_types (JSON lists, or
            texts with ";"
              between them), comment, grade (its name or id), shown, inclusion, analyst, at where it has them. A row without
              a label is skipped. What is known already is not stored again: for a row with an analyst, as the answer of that
              analyst, otherwise as the building's label.
            - a damage map as `export` and `publish` write it, GeoJSON or CSV: what people answered, not what was scored.
            - GeoJSON points (EPSG:4326) with the same properties.
            - the history of a project as `export_labels` writes it, with `rebuild` alone.
        analyst: who imports; also whose labels these are where the file does not say.
        meaning: which column tells what was seen, and what its values mean, in a file that was not made with PU-Geo.
        same_footprints: a person states that the file was made of this project's footprints, so that its ids hold also where
            PU-Geo made them up and the file does not say where the buildings lie.
        rebuild: store a history as it was, with everybody's acts, undo and redo, and the decisions in the file beside it;
            for a project without answers.

    Returns:
        {"rows", "stored", "unchanged", "skipped": rows without a label, and rows whose place is on no footprint}; and
        {"placed": how many were placed by their position because ids differ, "notes"} where there is something to tell.

    Raises:
        LabelError: if the file cannot be read, or some rows could not be stored (the others are); kind "values" if it does
            not say what its values mean, "ids" if it names buildings by made-up ids alone, "outside" if none of it, or not
            all of a history, lies on footprints.
    """
    source = _checked_source(path)
    act, is_csv, is_ours = f"import-{uuid.uuid4()}", source.suffix.lower() == ".csv", meaning == IN_OUR_WORDS
    table: Sequence[Mapping[str, Any]] = _read_csv(source) if is_csv else []
    if rebuild:
        return _rebuild(layout, source, table, same_footprints)
    if table and table[0].keys() >= history.COLUMNS.keys():
        raise LabelError(
            f"{source.name} is the history of a project, from which an empty one is rebuilt.",
            "Rebuild it with --rebuild in a new project with the same footprints, or import the file of current labels.",
        )
    grid = store.call(layout, contents.grid)
    exported = None if is_csv else read_exported_map(source)
    if exported is not None:
        if not is_ours:
            raise LabelError(
                f"{source.name} was made with PU-Geo, so what its values mean is known.",
                "Leave --field, --damaged, --not-damaged and --all-damaged away.",
                kind="values",
            )
        table = [_as_row(one, {name for other in exported[0] for name in other}) for one in exported[0]]
        xy = np.full((len(table), 2), np.nan) if systems.is_local(grid.crs) else into_project(exported[1], grid)
    elif is_csv:
        xy = _places_of(table, grid, source.name)
    else:
        xy, properties = read_points(source, grid.crs)
        table = [{key: value for key, value in one.items() if value is not None} for one in properties]
    if not table:
        return {"rows": 0, "stored": 0, "unchanged": 0, "skipped": 0}
    said, unclear = _labels_in(source.name, table, meaning)
    given = [number for number, label in enumerate(said) if label]
    ids = [str(table[number].get("building_id") or "") for number in given]
    placed, n_placed, notes = _placed(layout, source.name, ids, xy[given], same_footprints)
    notes += unclear
    rows = [
        (building, _details(table[number], said[number], is_ours=is_ours))
        for number, building in zip(given, placed, strict=True)
        if building is not None
    ]
    rows.sort(key=lambda row: _at(row[1]) or _LAST)  # the newest last; one without a time is of now
    said_of = dict.fromkeys((building, str(details["label"])) for building, details in rows)
    twice = [building for building, n in Counter(building for building, _ in said_of).items() if n > 1]
    notes += _about("Named more than once with different labels, of which the newest or last counts", twice)
    with store.connect(layout) as db:
        current, own, scale = labels.current(db), analysts.own_answers(db), grades.known(db)
        ops, older, other = [], [], []
        for i, (building, details) in enumerate(rows):
            standing = current.get(building)
            known = own.get((building, details["analyst"])) if "analyst" in details else standing
            details = _with_grade(details, known, scale)
            if standing is not None and (_at(details) or _LAST) < standing.at and _is_news(details, standing):
                older.append(building)
            elif _is_news(details, known):
                other += [building] * (standing is not None and standing.label != details["label"])
                ops.append(LabelOp(f"{act}-{i}", building, act=act, **details))
        acks = labels.append(db, labels.keep_details(db, ops), analyst=analyst, screen="cli", kind="import")
    labels.refuse_rejected(acks, source.name)
    counts = {
        "rows": len(table), "stored": len(acks), "unchanged": len(rows) - len(acks) - len(older),
        "skipped": len(table) - len(rows) + len(older),
    }  # fmt: skip
    notes += _about("Older than the answers here, which say otherwise, and left out", older)
    return {**counts, **_told(n_placed, [*notes, *_about("Took the place of answers that said otherwise", other)])}


def _about(words: str, buildings: Sequence[str]) -> list[str]:
    """Return a note on some buildings; none where there are none."""
    names = wording.listed(list(dict.fromkeys(buildings)))
    return [f"{words}: {len(buildings):,} ({names})."] if buildings else []


def _told(n_placed: int, notes: Sequence[str]) -> dict[str, object]:
    """Return what there is to tell of an import beside its counts."""
    return {"placed": n_placed, "notes": list(notes)} if notes else {}


def _at(details: Mapping[str, Any]) -> str | None:
    """Return when a row says that it was answered; None where it does not, and of what is no time, which is refused where it
    is stored.
    """
    try:
        return utc(details.get("at"))
    except (ValueError, OverflowError):
        return None


def _placed(
    layout: Layout, name: str, ids: Sequence[str], xy: NDArray[np.float64], same_footprints: bool
) -> tuple[list[str | None], int, list[str]]:
    """Return the building that each row means, None where its place is on none; how many were placed by it; and notes.

    Args:
        ids: what the file calls the buildings.
        xy: where they lie, project CRS, float64 [N, 2]; NaN where the file does not say.
    """
    with store.connect(layout) as db:
        grid, table = contents.grid(db), contents.footprints(db)
    is_made_up = contents.has_made_up_id(table)
    found = find_footprints(table, is_made_up & (not same_footprints), grid, ids, xy)
    unplaced = [building for building, (_, how) in zip(ids, found, strict=True) if how == "not known"]
    if unplaced:
        raise LabelError(
            f"{name} names {len(unplaced):,} building(s) by ids that PU-Geo made up, such as {unplaced[0]}, and does not "
            "say where they lie; in another project they may be other houses. Nothing was stored.",
            "Export the labels again: the file then has columns lon and lat, by which the buildings are known. If it was "
            "made of these very footprints, import it with --same-footprints.",
            kind="ids",
        )
    hows: Counter[str] = Counter(how for one, (_, how) in zip(ids, found, strict=True) if one or how != "position")
    if found and hows["elsewhere"] == len(found):
        raise LabelError(
            f"None of the {len(found):,} labels of {name} lies on a footprint of this project. Nothing was stored.",
            "Import them into a project of the same place, or add the footprints first.",
            kind="outside",
        )
    words = {
        "position": "{:,} label(s) were placed by their position because ids differ.",
        "elsewhere": "{:,} label(s) lie on no footprint of this project and were left out.",
    }
    notes = [text.format(hows[how]) for how, text in words.items() if hows[how]]
    meant: dict[str, set[str]] = {}
    for one, (building, _) in zip(ids, found, strict=True):
        if building is not None and one:
            meant.setdefault(building, set()).add(one)
    if several := sum(len(names) > 1 for names in meant.values()):
        notes.append(f"{several:,} footprint(s) hold several buildings of the file; of each the last row counts.")
    return [building for building, _ in found], hows["position"], notes


def _places_of(table: Sequence[Mapping[str, str]], grid: Grid, name: str) -> NDArray[np.float64]:
    """Return where the rows of a table lie, project CRS, float64 [N, 2]; NaN where it does not say."""
    is_local = systems.is_local(grid.crs)
    columns = _place_columns(table[0] if table else (), _LOCAL_PLACES if is_local else _PLACES)
    numbers = [[_number(row[column].replace(",", ".")) for column in columns] if columns else [None] * 2 for row in table]
    xy = np.array([[v if isinstance(v, float) else np.nan for v in pair] for pair in numbers], np.float64).reshape(-1, 2)
    if is_local:
        return xy
    known = xy[np.isfinite(xy).all(axis=1)]
    if not (np.abs(known) <= [180, 90]).all():
        raise LabelError(
            f"{name} has coordinates that are no longitude and latitude.", "Save them in EPSG:4326.", kind="bounds"
        )
    return into_project(xy, grid)


def _place_columns(columns: Iterable[str], pairs: Sequence[tuple[str, str]]) -> tuple[str, str] | None:
    """Return which columns say where a row lies, None if none do."""
    lower = {column.strip().lower(): column for column in columns}
    return next(((lower[x], lower[y]) for x, y in pairs if x in lower and y in lower), None)


def _checked_source(path: str) -> Path:
    source = Path(path).expanduser()
    if not source.is_file():
        raise LabelError(f"{path} is not a file.", "Name a CSV or GeoJSON file of labels.")
    if source.stat().st_size > MAX_BYTES:
        raise LabelError(f"{path} has {source.stat().st_size:,} bytes; 200 MB at most.", "Split it.", kind="size")
    return source


def _with_grade(details: dict[str, Any], known: LabelEvent | None, scale: Sequence[Grade]) -> dict[str, Any]:
    """Return the same with the id of the grade. A damage map has its class: a grade that it may stand for stays."""
    rest = {name: value for name, value in details.items() if name not in ("grade", "damage_class")}
    if named := details.get("damage_class"):
        is_same = known is not None and grades.class_of(scale, known.grade) == named
        return {**rest, "grade": known.grade if known and is_same else grades.of_class(scale, named)}
    if grade := details.get("grade"):
        found = grades.find(scale, grade)
        return {**rest, "grade": grade if found is None else found.id}
    return rest


def _is_news(details: Mapping[str, Any], known: LabelEvent | None) -> bool:
    """Return whether a row differs, in what it names, from the current answer; no answer is one that was cleared."""
    standing = known or _NO_ANSWER
    return any(value != getattr(standing, name) for name, value in details.items() if name not in (*_ORIGIN, "is_simulated"))


def _details(row: Mapping[str, Any], label: str, *, is_ours: bool = True) -> dict[str, Any]:
    """Read a row's label and details, as far as it has them. Whether they make sense is checked where they are stored.

    Args:
        is_ours: else of the other columns only analyst, at and comment count.
    """
    label = _ALIASES.get(label, label)
    if not is_ours:
        row = {name: row[name] for name in (*_ORIGIN, "comment") if name in row}
    elif "labeller" in row:
        row = _of_map(row, label)
    details: dict[str, Any] = {name: row[name] for name in (*_TEXTS, *["damage_class"] * ("labeller" in row)) if name in row}
    details |= {name: _types(row[name]) for name in TYPES if row.get(name)}  # one that is silent on types takes none away
    if "inclusion" in row:
        details["inclusion"] = _number(row["inclusion"])
    if any(row.get(name) == "simulated" for name in _SOURCES):
        details["is_simulated"] = True
    return {"label": label, **details, **{name: str(row[name]) for name in _ORIGIN if row.get(name)}}


def _types(value: Any) -> Any:
    """Read damage types: a list, its JSON, or texts with ";" between them."""
    if isinstance(value, str) and value.startswith("["):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            return value
    elif isinstance(value, str):
        value = [text for text in map(str.strip, value.split(";")) if text]
    return tuple(value) if isinstance(value, list) else value


def _number(value: Any) -> Any:
    try:
        return float(value) if isinstance(value, str) and value else value or None
    except ValueError:
        return value


def _read_csv(source: Path) -> list[dict[str, str]]:
    """Return the rows of a CSV file that tells which buildings it means. Missing cells are empty."""
    try:
        with source.open(newline="", encoding="utf-8-sig") as stream:
            sign = delimiter_of(stream.readline())
            stream.seek(0)
            reader = csv.DictReader(stream, delimiter=sign)
            columns = list(reader.fieldnames or [])
            if len(columns) > _MOST_COLUMNS:
                raise LabelError(
                    f"{source.name} has {len(columns):,} columns; at most {_MOST_COLUMNS:,} are read.",
                    "Keep those that say something.",
                )
            if "building_id" not in columns and not _place_columns(columns, _PLACES + _LOCAL_PLACES):
                raise LabelError(
                    f"{source.name} has no column building_id, and no lon and lat; its columns are "
                    f"{wording.listed(columns, 20)}.",
                    "Write a header line: building_id,label",
                )
            rows = [{name: unguarded(row[name] or "") for name in columns} for row in reader]
    except (UnicodeDecodeError, csv.Error) as error:
        raise LabelError(f"{source.name} is not a readable CSV file: {error}.", "Save it as UTF-8 CSV.") from error
    return rows


def _as_row(properties: Mapping[str, Any], columns: Collection[str]) -> dict[str, str]:
    """Write a building of an exported damage map as a row of CSV has it."""
    types = {name: json.dumps(properties.get(name) or []) for name in TYPES if name in columns}
    texts = {name: "" if value is None else str(value) for name, value in properties.items()}
    return {"label": "", **texts, **types}


def _of_map(row: Mapping[str, str], label: str) -> dict[str, str]:
    """Return a row of an exported damage map in the words of a label file; of a grade it has the class."""
    weight, named = _number(row.get("audit_weight", "")), row.get("damage_class", "")
    is_drawn = isinstance(weight, float)
    return {
        **{name: value for name, value in row.items() if name != "grade"},
        "damage_class": named if label == "positive" and named in DAMAGE_CLASSES else "",
        "reason": row.get("not_assessed_reason", "") if label == "not_assessable" else "",
        "shown": "audit" if is_drawn else "",
        "inclusion": str(1 / max(weight, 1.0)) if is_drawn else "",
        "analyst": row["labeller"],
        "at": row.get("labelled_at", ""),
    }


# What the values of a file mean


def _labels_in(name: str, table: Sequence[Mapping[str, Any]], meaning: Meaning) -> tuple[list[str], list[str]]:
    """Return the label of each row, "" of one that is no answer, and notes.

    Raises:
        LabelError: kind "values" if no column tells, or one does in words whose meaning nobody stated.
    """
    wanted, columns = meaning.field or "label", list(dict.fromkeys(name for row in table for name in row))
    column = wanted if wanted in columns else next((one for one in columns if one.strip().lower() == wanted.lower()), None)
    meant = {
        **dict.fromkeys(map(str.strip, meaning.damaged), "positive"),
        **dict.fromkeys(map(str.strip, meaning.not_damaged), "not_damaged"),
    }
    if meaning.all_damaged:
        if meant or meaning.field:
            raise LabelError(
                "All rows are called damaged, and a column is named as well.", "Leave one of the two away.", kind="values"
            )
        return ["positive"] * len(table), []
    if column is None:
        raise _unclear(name, f"has no column {wanted}, so nothing says which buildings are damaged", table, columns)
    given = [_text(row.get(column)) for row in table]
    if not meant:
        lower = [one.lower() for one in given]
        if unknown := {one for one, word in zip(given, lower, strict=True) if word and word not in _KNOWN}:
            words = f"has values in {column} that may mean anything, such as {min(unknown)[:60]!r}"
            raise _unclear(name, words, table, columns, column)
        return lower, []
    if both := [one for one in map(str.strip, meaning.damaged) if meant[one] != "positive"]:
        raise LabelError(f"{both[0]!r} is called damaged and not damaged.", "Name it once.", kind="values")
    absent = [one for one in meant if one not in given]
    if len(absent) == len(meant):
        raise _unclear(name, f"has no {absent[0]!r} in {column}", table, columns, column)
    words = f"No row has one of these values in {column}: {wording.listed(absent)}."
    return [meant.get(one, "") for one in given], [words] * bool(absent)


def _text(value: Any) -> str:
    """Write a cell as people would: 4.0 as 4, nothing as \"\"."""
    return "" if value is None else f"{value:g}" if isinstance(value, float) else str(value).strip()


def _unclear(
    name: str, why: str, table: Sequence[Mapping[str, Any]], columns: Sequence[str], column: str | None = None
) -> LabelError:
    """Return the refusal of a file whose values mean nothing yet, with its columns and what is in them."""
    values = {one: sorted({_text(row.get(one)) for row in table} - {""}) for one in columns}
    told = [f"{one} ({wording.listed(found, _MOST_VALUES)})" for one, found in values.items() if found]
    few = [one for one in columns if 1 < len(values[one]) <= _MOST_VALUES]
    likely = column or next((one for one in [*few, *columns] if values[one] and _TELLS.search(one)), "COLUMN")
    example = (values.get(likely) or ["VALUE"])[0]
    return LabelError(
        f"{name} {why}. Nothing was stored. Its columns: {'; '.join(told) or 'none'}.",
        f"State what its values mean: --field {likely} --damaged {example!r} --not-damaged VALUE, each as often as "
        "needed; rows of other "
        "values are skipped. If every row is a damaged building, say so: --all-damaged.",
        kind="values",
    )


def _rebuild(layout: Layout, source: Path, table: Sequence[Mapping[str, str]], same_footprints: bool) -> dict[str, object]:
    """Store a history as it was, with what is in the file of decisions beside it."""
    if not table or (missing := history.COLUMNS.keys() - table[0].keys()):
        lacks = f"it has no column {', '.join(sorted(missing))}" if table else "it is empty"
        raise LabelError(
            f"{source.name} is no history of a project, from which one could be rebuilt: {lacks}.",
            "Take the file that ends in .events.csv; `pu-geo export-labels` writes it.",
        )
    beside = source.with_name(f"{source.name.removesuffix('.csv').removesuffix('.events')}{DECISIONS}")
    decided = _read_decided(beside) if beside.is_file() else {}
    xy = _places_of(table, store.call(layout, contents.grid), source.name)
    placed, n_placed, notes = _placed(layout, source.name, [row["building_id"] for row in table], xy, same_footprints)
    if n_lost := len({row["building_id"] for row, building in zip(table, placed, strict=True) if building is None}):
        raise LabelError(
            f"{n_lost:,} building(s) of the history {source.name} lie on no footprint of this project. Nothing was stored.",
            "Add their footprints first, or import the file of current labels beside it, which leaves such buildings out.",
            kind="outside",
        )
    try:
        past = [history.row_of({**row, "building_id": str(building)}) for row, building in zip(table, placed, strict=True)]
    except (ValueError, OverflowError) as error:
        raise LabelError(f"{source.name} has a row that makes no sense: {error}.", "Export the labels again.") from error
    decisions = _decisions_here(layout, beside.name, decided, same_footprints)
    with store.connect(layout) as db, store.transaction(db):
        if labels.last_event(db) or decision_log.last_decision(db):
            raise LabelError(
                "This project has answers or decisions already; a project is rebuilt in one that has none.",
                "Make a new project with the same footprints, or import the file of current labels beside it.",
            )
        for one in decided.get("grades", []):
            row = (grades.CHOICE, json.dumps(one["scale"], ensure_ascii=False), one["at"])
            db.execute("INSERT INTO choice (name, value, at) VALUES (?, ?, ?)", row)
        if wrong := history.rebuild(db, past):
            raise LabelError(f"{source.name} cannot be stored: {wrong} Nothing was stored.", "Export the labels again.")
        db.executemany("INSERT INTO empty_step VALUES (?)", [(str(op),) for op in decided.get("empty_steps", [])])
        db.executemany(
            "INSERT INTO decision (op, kind, name, analyst, at, facts) VALUES (?, ?, ?, ?, ?, ?)",
            [(*(one[name] for name in _OF_DECISION), json.dumps(one["facts"], ensure_ascii=False)) for one in decisions],
        )
    if not decided:
        what = "decisions about groups of buildings and the scale of grades"
        notes.append(f"There is no {beside.name} beside it: {what} were not stored.")
    counts = {"rows": len(past), "stored": len(past), "unchanged": 0, "skipped": 0, "decisions": len(decisions)}
    return {**counts, **_told(n_placed, notes)}


def _read_decided(path: Path) -> dict[str, Any]:
    """Read a file of decisions. Raises LabelError if it is none."""
    try:
        found: dict[str, Any] = json.loads(_checked_source(str(path)).read_text(encoding="utf-8"))
        rows = [(one["facts"], [one[name] for name in _OF_DECISION]) for one in found["decisions"]]
        scales = [(one["at"], [Grade(**each) for each in one["scale"]]) for one in found["grades"]]
        texts = [*(text for _, own in rows for text in own), *(at for at, _ in scales)]
        is_whole = found["format"] == DECISIONS_FORMAT and isinstance(found["places"], dict)
        is_whole &= isinstance(found["empty_steps"], list) and all(isinstance(text, str) for text in texts)
        is_whole &= all(one["kind"] in decision_log.KINDS for one in found["decisions"])
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        is_whole = False
    if not is_whole:
        raise LabelError(
            f"{path.name} is not a file of decisions as PU-Geo writes it, or it is damaged.",
            "Export the labels again, or remove that file.",
        )
    return found


def _decisions_here(layout: Layout, name: str, decided: Mapping[str, Any], same_footprints: bool) -> list[dict[str, Any]]:
    """Return decisions with the buildings of this project; one that names a building that is not here is refused."""
    decisions: list[dict[str, Any]] = decided.get("decisions", [])
    ids = list(dict.fromkeys(named_in(decisions)))
    if not ids:
        return decisions
    grid = store.call(layout, contents.grid)
    places: Mapping[str, Any] = decided["places"]
    xy = np.array([places.get(one, (np.nan, np.nan)) for one in ids], np.float64).reshape(-1, 2)
    placed, _, _ = _placed(layout, name, ids, xy if systems.is_local(grid.crs) else into_project(xy, grid), same_footprints)
    here = dict(zip(ids, placed, strict=True))
    if lost := [one for one, building in here.items() if building is None]:
        raise LabelError(
            f"{len(lost):,} building(s) of {name}, such as {lost[0]}, lie on no footprint of this project. Nothing was "
            "stored.",
            "Add their footprints first.",
            kind="outside",
        )
    return list(json.loads(json.dumps(decisions), object_hook=partial(_renamed, here)))


def _renamed(here: Mapping[str, str | None], one: dict[str, Any]) -> dict[str, Any]:
    """Return an object of JSON with other ids under its "building_ids", if it has some."""
    ids = one.get("building_ids")
    return {**one, "building_ids": [here[str(each)] for each in ids]} if isinstance(ids, list) else one
