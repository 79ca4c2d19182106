"""Import labels that were made elsewhere: a CSV of building ids, points on a map, or the whole history of a project."""

from __future__ import annotations

import csv
import json
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import shapely

from pu_geo.errors import LabelError
from pu_geo.geo.csv_cells import unguarded
from pu_geo.geo.points import read_exported_map, read_points
from pu_geo.project import analysts, contents, history, labels, store
from pu_geo.project.history import PastEvent
from pu_geo.project.labels import LabelOp
from pu_geo.project.layout import Layout
from pu_geo.records import LabelEvent
from pu_geo.tasks.export_labels import LABEL_NAMES

MAX_BYTES = 200_000_000
_ALIASES = {name: label for label, name in LABEL_NAMES.items()}
_DETAILS = ("reason", "damage_types", "comment", "shown", "inclusion", "analyst", "at")
_ORIGIN = ("analyst", "at")  # whose answer it is and when they gave it: no part of the answer
_OF_MAP = ("analyst", "at", "reason", "shown", "inclusion")
_NEEDED = ("op", "building_id", "label", "analyst", "at", "kind")

_NO_ANSWER = LabelEvent(0, "", "", "cleared", "", "", "")
Row = tuple[str, dict[str, Any]]  # a building, and what the file says about it: label, and details by name


def import_labels(layout: Layout, path: str, *, analyst: str) -> dict[str, object]:
    """Store the labels of a file as one act, so that one undo of `analyst` takes them back.

    Args:
        path: one of
            - CSV with a column building_id, and label, reason, damage_types (a JSON list, or texts with ";" between them),
              comment, shown, inclusion, analyst, at where it has them. A row without a label is skipped; without a column
              label all are positive. What stands already is not stored again: for a row with an analyst, as the answer of
              that analyst, otherwise as the building's label.
            - a damage map as `export` and `publish` write it, GeoJSON or CSV: what people said, not what was scored.
            - GeoJSON points (EPSG:4326) with the same properties; a point without a label is positive.
            - CSV with a column event, as `export_labels` writes it: the history of a project, replayed in its order; an
              event whose op is here already is not stored again, not even if it was undone here: redo it.
        analyst: who imports; also whose labels these are where the file does not say.

    Returns:
        {"rows", "stored", "unchanged", "skipped": CSV rows without a label, or points that lie in no footprint}

    Raises:
        LabelError: if the file cannot be read, or some rows could not be stored (the others are).
    """
    source = _checked_source(path)
    act = f"import-{uuid.uuid4()}"
    table, columns = _read_csv(source) if source.suffix.lower() == ".csv" else ([], [])
    if "event" in columns:
        return _import_history(layout, source, table, analyst=analyst, act=act)
    exported = None if columns else read_exported_map(source)
    if exported is not None:
        table, columns = [_as_row(one) for one in exported], ["building_id", "label", *_DETAILS]
    rows, skipped = _csv_rows(table, columns) if columns else _point_rows(layout, source)
    with store.connect(layout) as db:
        current, own = labels.current(db), analysts.own_answers(db)
        ops = [
            LabelOp(f"{act}-{i}", building, act=act, **said)
            for i, (building, said) in enumerate(rows)
            if _is_news(said, own.get((building, said["analyst"])) if "analyst" in said else current.get(building))
        ]
        acks = labels.append(db, ops, analyst=analyst, screen="cli", kind="import")
    labels.refuse_rejected(acks, source.name)
    return {"rows": len(rows) + skipped, "stored": len(acks), "unchanged": len(rows) - len(acks), "skipped": skipped}


def _checked_source(path: str) -> Path:
    source = Path(path).expanduser()
    if not source.is_file():
        raise LabelError(f"{path} is not a file.", "Name a CSV or GeoJSON file of labels.")
    if source.stat().st_size > MAX_BYTES:
        raise LabelError(f"{path} has {source.stat().st_size:,} bytes; 200 MB at most.", "Split it.", kind="size")
    return source


def _is_news(said: Mapping[str, Any], known: LabelEvent | None) -> bool:
    """Say whether a row differs, in what it speaks of, from the answer that stands; no answer is one that was cleared."""
    standing = known or _NO_ANSWER
    return any(value != getattr(standing, name) for name, value in said.items() if name not in _ORIGIN)


def _details(given: Mapping[str, Any]) -> dict[str, Any]:
    """Read a row's label and details, as far as it has them. Whether they make sense is checked where they are stored."""
    said: dict[str, Any] = {name: given[name] for name in ("reason", "comment", "shown") if name in given}
    said["label"] = _ALIASES.get(given["label"], given["label"])
    if "damage_types" in given:
        said["damage_types"] = _types(given["damage_types"])
    if "inclusion" in given:
        said["inclusion"] = _number(given["inclusion"])
    return {**said, **{name: str(given[name]) for name in _ORIGIN if given.get(name)}}


def _types(value: Any) -> Any:
    """Read damage types: a list, its JSON, or texts with ";" between them."""
    if isinstance(value, str) and value.startswith("["):
        try:
            value = json.loads(value)
        except ValueError:
            return value
    elif isinstance(value, str):
        value = [text for text in map(str.strip, value.split(";")) if text]
    return tuple(value) if isinstance(value, list) else value


def _number(value: Any) -> Any:
    try:
        return float(value) if isinstance(value, str) and value else value or None
    except ValueError:
        return value


def _read_csv(source: Path) -> tuple[list[dict[str, str]], Sequence[str]]:
    """Return the rows of a CSV file with at least a column building_id, and its columns. Missing cells are empty."""
    try:
        with source.open(newline="", encoding="utf-8-sig") as stream:
            reader = csv.DictReader(stream)
            columns = list(reader.fieldnames or [])
            if "building_id" not in columns:
                raise LabelError(
                    f"{source.name} has no column building_id; its columns are {reader.fieldnames}.",
                    "Write a header line: building_id,label",
                )
            rows = [{name: unguarded(row[name] or "") for name in columns} for row in reader]
    except (UnicodeDecodeError, csv.Error) as error:
        raise LabelError(f"{source.name} is not a readable CSV file: {error}.", "Save it as UTF-8 CSV.") from error
    return rows, columns


def _as_row(properties: Mapping[str, Any]) -> dict[str, str]:
    """Write a building of an exported damage map as a row of CSV has it."""
    types = properties.get("damage_types")
    texts = {name: "" if value is None else str(value) for name, value in properties.items()}
    return dict.fromkeys(("label", *_DETAILS), "") | texts | {"damage_types": json.dumps(types or [])}


def _in_our_words(row: Mapping[str, str]) -> Mapping[str, str]:
    """Name the columns of an exported damage map as those of a label file."""
    if "labeller" not in row:
        return row
    reason = row.get("not_assessed_reason", "") if row["label"] == "not_assessable" else ""
    weight = _number(row.get("audit_weight", ""))
    drawn = {"shown": "audit", "inclusion": str(1 / max(weight, 1.0))} if isinstance(weight, float) else {"shown": ""}
    return {"inclusion": "", **row, "analyst": row["labeller"], "at": row.get("labelled_at", ""), "reason": reason, **drawn}


def _csv_rows(table: Sequence[Mapping[str, str]], columns: Sequence[str]) -> tuple[list[Row], int]:
    """Return what each row says, and how many carry no label; without a label column all are positive."""
    is_map = "labeller" in columns or bool(table and "labeller" in table[0])
    names = [name for name in _DETAILS if name in columns or (is_map and name in _OF_MAP)]
    rows = []
    for row in map(_in_our_words, table):
        label = row["label"].strip() if "label" in columns else "positive"
        if label:
            rows.append((row["building_id"], _details({"label": label, **{name: row[name] for name in names}})))
    return rows, len(table) - len(rows)


def _point_rows(layout: Layout, source: Path) -> tuple[list[Row], int]:
    """Find the footprint under each point; return what the points say and how many hit none.

    Where footprints overlap, the one decides that the point names as its building.
    """
    with store.connect(layout) as db:
        grid, table = contents.grid(db), contents.footprints(db)
    xy, properties = read_points(source, grid.crs)
    tree = shapely.STRtree(shapely.from_wkb(list(table.wkb)))
    under: dict[int, list[str]] = {}
    for point, hit in tree.query(shapely.points(xy), predicate="intersects").T.tolist():
        under.setdefault(point, []).append(table.building_ids[hit])
    rows = []
    for point, found in sorted(under.items()):
        given = {name: value for name, value in properties[point].items() if value is not None}
        building = str(given["building_id"]) if given.get("building_id") in found else found[0]
        rows.append((building, _details({**given, "label": str(given.get("label") or "positive")})))
    return rows, len(xy) - len(rows)


def _import_history(
    layout: Layout, source: Path, table: Sequence[Mapping[str, str]], *, analyst: str, act: str
) -> dict[str, object]:
    missing = [name for name in _NEEDED if table and name not in table[0]]
    if missing:
        raise LabelError(
            f"{source.name} has a column event, so it is a history, but no column {', '.join(missing)}.",
            "Export the labels again and take the file that ends in .events.csv, or remove the column event.",
        )
    past = [_past_event(row, source.name) for row in table]
    if len({one.event for one in past}) < len(past):
        raise LabelError(f"{source.name} has two rows with the same event number.", "Export the labels again.")
    with store.connect(layout) as db:
        before = labels.last_event(db)
        acks = history.replay(db, past, importer=analyst, act=act)
    labels.refuse_rejected(acks, source.name)
    stored = sum(ack.event is not None and ack.event > before for ack in acks)
    return {"rows": len(past), "stored": stored, "unchanged": len(past) - stored, "skipped": 0}


def _past_event(row: Mapping[str, str], name: str) -> PastEvent:
    try:
        event, undoes, answer = (int(row[key]) if row.get(key) else None for key in ("event", "undoes", "answer"))
    except ValueError as error:
        raise LabelError(
            f"{name} has a row whose event numbers are not whole numbers: {error}.", "Export it again."
        ) from error
    if event is None:
        raise LabelError(f"{name} has a row without an event number.", "Export the labels again.")
    details = _details({key: row[key] for key in ("label", *_DETAILS) if key in row})
    said = LabelOp(row["op"], row["building_id"], **{**details, "analyst": row["analyst"], "at": row["at"]})
    return PastEvent(event, said, row.get("screen", ""), row["kind"], undoes, answer)
