"""Import labels that were made elsewhere: a CSV of building ids, or points on a map."""

from __future__ import annotations

import csv
import uuid
from pathlib import Path

import numpy as np
import shapely

from pu_geo.errors import LabelError
from pu_geo.geo.points import read_points
from pu_geo.project import contents, labels, store
from pu_geo.project.labels import LabelOp
from pu_geo.project.layout import Layout
from pu_geo.records import Label

MAX_BYTES = 200_000_000
_ALIASES = {"damaged": "positive", "no_visible_damage": "not_damaged"}


def import_labels(layout: Layout, path: str, *, analyst: str) -> dict[str, object]:
    """Store the labels of a file as one act, so that one undo takes them back.

    Args:
        path: CSV with columns building_id and label, or GeoJSON points (EPSG:4326) with an optional property `label`;
            a point without one is positive, a CSV row without one is skipped. Labels that stand already are not stored
            again.

    Returns:
        {"rows", "stored", "unchanged", "skipped": CSV rows without a label, or points that lie in no footprint}

    Raises:
        LabelError: if the file cannot be read, or some rows could not be stored (the others are).
    """
    source = Path(path).expanduser()
    if not source.is_file():
        raise LabelError(f"{path} is not a file.", "Name a CSV or GeoJSON file of labels.")
    if source.stat().st_size > MAX_BYTES:
        raise LabelError(f"{path} has {source.stat().st_size:,} bytes; 200 MB at most.", "Split it.", kind="size")
    rows, skipped = _csv_rows(source) if source.suffix.lower() == ".csv" else _point_rows(layout, source)
    act = f"import-{uuid.uuid4()}"
    with store.connect(layout) as db:
        known = labels.current_labels(db)
        ops = [
            LabelOp(f"{act}-{i}", building, label, act)
            for i, (building, label) in enumerate(rows)
            if known.get(building, "cleared") != label
        ]
        acks = labels.append(db, ops, analyst=analyst, screen="cli", kind="import")
    labels.refuse_rejected(acks, source.name)
    return {"rows": len(rows) + skipped, "stored": len(acks), "unchanged": len(rows) - len(acks), "skipped": skipped}


def _label(text: str) -> Label:
    found: Label = _ALIASES.get(text, text)  # type: ignore[assignment]  # checked where it is stored
    return found


def _csv_rows(source: Path) -> tuple[list[tuple[str, Label]], int]:
    """Return (building, label) rows, and how many carry no label; without a label column all are positive."""
    try:
        with source.open(newline="", encoding="utf-8-sig") as stream:
            reader = csv.DictReader(stream)
            if "building_id" not in (reader.fieldnames or []):
                raise LabelError(
                    f"{source.name} has no column building_id; its columns are {reader.fieldnames}.",
                    "Write a header line: building_id,label",
                )
            has_labels = "label" in (reader.fieldnames or [])
            found = [(row["building_id"], (row.get("label") or "").strip() if has_labels else "positive") for row in reader]
    except (UnicodeDecodeError, csv.Error) as error:
        raise LabelError(f"{source.name} is not a readable CSV file: {error}.", "Save it as UTF-8 CSV.") from error
    rows = [(building, _label(label)) for building, label in found if label]
    return rows, len(found) - len(rows)


def _point_rows(layout: Layout, source: Path) -> tuple[list[tuple[str, Label]], int]:
    """Find the footprint under each point; return (building, label) rows and how many points hit none."""
    with store.connect(layout) as db:
        grid, table = contents.grid(db), contents.footprints(db)
    xy, properties = read_points(source, grid.crs)
    tree = shapely.STRtree(shapely.from_wkb(list(table.wkb)))
    points, hits = tree.query(shapely.points(xy), predicate="intersects")
    first = dict(zip(points[::-1].tolist(), hits[::-1].tolist(), strict=True))
    rows = [
        (table.building_ids[first[i]], _label(str(properties[i].get("label") or "positive")))
        for i in np.sort(list(first)).tolist()
    ]
    return rows, len(xy) - len(rows)
