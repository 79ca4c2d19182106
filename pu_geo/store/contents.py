"""What a project holds: scenes and their grid, footprints, chip sets."""

from __future__ import annotations

import hashlib
import json
import re
import secrets
import sqlite3
import struct
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from functools import lru_cache
from math import log
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pu_geo.errors import ProjectError, writing
from pu_geo.files import atomic_write
from pu_geo.records import ID_KEYS, FootprintTable, Grid, Layer, Scene, Units, View, scene_of
from pu_geo.store import schema
from pu_geo.store.layout import Layout, read_array, read_json, reading
from pu_geo.store.store import fact, now, project_id, transaction


def add_scenes(db: sqlite3.Connection, scenes: Sequence[Scene], grid: Grid, pre_share: float | None = None) -> None:
    """Store scenes and the project grid that follows from them, in one transaction.

    The path of a file inside the project is stored relative to it, so that it holds wherever the project goes.

    Args:
        pre_share: share of the post scenes' area, 0..1, that all pre scenes cover; None without one.
    """
    with transaction(db):
        _insert_scenes(db, scenes)
        _put_grid(db, grid, pre_share)
        note_footprints(db)  # their places on the grid may be others


def set_stretch(db: sqlite3.Connection, scenes: Sequence[Scene]) -> None:
    """Store the stretch of scenes that are here; within a transaction."""
    change = "UPDATE scene SET facts = json_set(facts, '$.stretch', json(?)) WHERE scene_id = ?"
    db.executemany(change, [(json.dumps(scene.stretch), scene.scene_id) for scene in scenes])


def add_layer_scenes(db: sqlite3.Connection, scenes: Sequence[Scene]) -> None:
    """Store files of a layer, as `add_scenes` does; the grid stays that of the post scenes."""
    with transaction(db):
        _insert_scenes(db, scenes)


def _insert_scenes(db: sqlite3.Connection, scenes: Sequence[Scene]) -> None:
    folder = _folder_of(db)
    for scene in scenes:
        path = _stored_path(scene.path, folder)
        facts = json.dumps({**asdict(scene), "path": path})
        db.execute("INSERT INTO scene VALUES (?, ?, ?, ?, ?)", (scene.scene_id, scene.role, path, facts, now()))


def exchange_scenes(
    db: sqlite3.Connection, gone: Sequence[Scene], new: Sequence[Scene], grid: Grid | None, pre_share: float | None
) -> None:
    """Remove scenes, put others in their places, and store the grid of those that are there then; within a transaction.

    Args:
        new: at most as many as `gone`.
        grid: None where no post scene is left.
    """
    exchange_layer(db, gone, new)
    if grid is None:
        db.execute("DELETE FROM pugeo_meta WHERE key IN ('grid', 'pre_share')")
    else:
        _put_grid(db, grid, pre_share)
    note_footprints(db)


def exchange_layer(db: sqlite3.Connection, gone: Sequence[Scene], new: Sequence[Scene]) -> None:
    """Remove files of a layer and put others in their places; within a transaction.

    The order of layers stays, which is that of their bands in chips.
    """
    query = "SELECT rowid FROM scene WHERE scene_id = ?"
    places = [db.execute(query, (scene.scene_id,)).fetchone()[0] for scene in gone]
    db.executemany("DELETE FROM scene WHERE scene_id = ?", [(scene.scene_id,) for scene in gone])
    _insert_scenes(db, new)
    for place, scene in zip(places, new, strict=False):
        db.execute("UPDATE scene SET rowid = ? WHERE scene_id = ?", (place, scene.scene_id))


def _put_grid(db: sqlite3.Connection, grid: Grid, pre_share: float | None) -> None:
    """Store the grid that follows from the post scenes, and register its coordinate system."""
    srs_id = schema.UNDEFINED_CARTESIAN
    if grid.has_place:
        srs_id = int(grid.crs.removeprefix("EPSG:")) if grid.crs.startswith("EPSG:") else schema.CUSTOM_SRS
        row = (grid.crs[:60], srs_id, "EPSG" if srs_id != schema.CUSTOM_SRS else "PU-GEO", srs_id, grid.crs_wkt)
        db.execute("INSERT OR IGNORE INTO gpkg_spatial_ref_sys VALUES (?, ?, ?, ?, ?, NULL)", row)
    db.execute("INSERT OR REPLACE INTO pugeo_meta VALUES ('grid', ?)", (json.dumps(asdict(grid)),))
    db.execute("INSERT OR REPLACE INTO pugeo_meta VALUES ('pre_share', ?)", (json.dumps(pre_share),))
    for table in ("gpkg_contents", "gpkg_geometry_columns"):
        db.execute(f"UPDATE {table} SET srs_id = ? WHERE table_name IN ('footprints', 'damage_map')", (srs_id,))


def scenes(db: sqlite3.Connection) -> list[Scene]:
    """Return every pre and post scene, as `all_scenes` does."""
    return [scene for scene in all_scenes(db) if scene.role != "layer"]


def layers(db: sqlite3.Connection) -> tuple[Layer, ...]:
    """Return the layers beside pre and post, in the order in which they were added; their paths as in `all_scenes`."""
    of_layer: dict[str, list[Scene]] = {}
    for scene in all_scenes(db):
        if scene.role == "layer":
            of_layer.setdefault(scene.layer, []).append(scene)
    return tuple(
        Layer(name, found[0].when, found[0].kind, tuple(found), len(found[0].rgb), found[0].stretch or ())
        for name, found in of_layer.items()
    )


def all_scenes(db: sqlite3.Connection) -> list[Scene]:
    """Return every scene, those of layers too, in the order in which they were added; the paths are absolute.

    Raises:
        ProjectError: kind "corrupt" if a stored path leads out of the project.
    """
    folder = _folder_of(db)
    rows = db.execute("SELECT facts FROM scene ORDER BY rowid").fetchall()
    every: list[dict[str, Any]] = [json.loads(row[0]) for row in rows]
    return [scene_of({**facts, "path": _found_path(facts, folder)}) for facts in every]


def stored_paths(db: sqlite3.Connection) -> dict[str, str]:
    """Return the path of each scene as it is stored, by scene id; that of a file inside the project is relative to it."""
    return dict(db.execute("SELECT scene_id, json_extract(facts, '$.path') FROM scene ORDER BY rowid").fetchall())


def relink_scenes(db: sqlite3.Connection, scenes: Sequence[Scene]) -> None:
    """Store where the files of scenes are now, with their sizes, times and ends.

    Raises:
        ProjectError: if a scene is not in the project; nothing is changed then.
    """
    change = (
        "UPDATE scene SET path = ?1, facts = json_set(facts, '$.path', ?1, '$.size_bytes', ?2, '$.mtime_ns', ?3, "
        "'$.ends_sha256', ?4) "
        "WHERE scene_id = ?5"
    )
    with transaction(db):
        folder = _folder_of(db)
        for scene in scenes:
            path = _stored_path(scene.path, folder)
            facts = (path, scene.size_bytes, scene.mtime_ns, scene.ends_sha256, scene.scene_id)
            if not db.execute(change, facts).rowcount:
                raise ProjectError(f"This project has no scene {scene.scene_id!r}.", "Load the page anew.")


def _folder_of(db: sqlite3.Connection) -> Path:
    """Return the folder of the project that a connection has open, absolute."""
    return Path(next(row[2] for row in db.execute("PRAGMA database_list") if row[1] == "main")).parent


def _stored_path(path: str, folder: Path) -> str:
    """Return the path under which a scene's file is stored: relative to the project, with /, where it is inside."""
    if not Path(path).is_relative_to(folder):
        return path
    relative = Path(path).relative_to(folder).as_posix()
    return relative if is_inside(relative) else path


def is_inside(stored: str) -> bool:
    """Return whether a stored path is relative, and means the same file inside the project on every system."""
    return not re.search(r"[\\:\0]", stored) and all(part not in ("", ".", "..") for part in stored.split("/"))


def _found_path(facts: Mapping[str, Any], folder: Path) -> str:
    """Return the absolute path of a scene's file."""
    stored = str(facts["path"])
    if stored.startswith("/"):
        return stored
    if not is_inside(stored):
        raise ProjectError(
            f"Scene {facts['scene_id']} names the file {stored[:80]!r}, which is not a path inside the project.",
            "Restore project.gpkg from a backup: PU-Geo writes no such path.",
            kind="corrupt",
        )
    return str(folder / stored)


def pre_share(db: sqlite3.Connection) -> float | None:
    """Return the share of the post scenes' area, 0..1, that pre scenes cover; None where there is none, or it was not
    measured.
    """
    found: float | None = json.loads(fact(db, "pre_share") or "null")
    return found


def set_dates(db: sqlite3.Connection, dates: Mapping[str, str | None]) -> None:
    """Change the dates of acquisition of scenes, given by id: ISO 8601, or None where it is not known."""
    with transaction(db):
        for scene_id, date in dates.items():
            row = db.execute("SELECT facts FROM scene WHERE scene_id = ?", (scene_id,)).fetchone()
            if row is None:
                raise ProjectError(f"This project has no scene {scene_id!r}.", "Load the page anew.")
            facts = json.loads(row[0])
            if date != facts["date"]:  # a person's word is no guess
                facts |= {"date": date, "notes": [note for note in facts["notes"] if note[0] != "date"]}
                db.execute("UPDATE scene SET facts = ? WHERE scene_id = ?", (json.dumps(facts), scene_id))


OTHER_GSD = 1.5
"""Times finer or coarser, from which buildings differ from those that a model knows."""


def pixel_words(here_m: float, known_m: float, who: str = "The model", where: str = "here") -> list[str]:
    """Return in words that pixels here are much finer or coarser than those that a model, or a federation, knows; nothing
    where not.

    Args:
        where: what stands for "here" where the pixels are another project's.
    """
    if 1 / OTHER_GSD <= here_m / known_m <= OTHER_GSD:
        return []
    return [f"{who} knows pixels of {known_m:.2f} m; {where} they have {here_m:.2f} m, so buildings look other to it."]


def site_pixel_words(grid: Grid, known_m: Sequence[float], who: str = "The model", where: str = "here") -> list[str]:
    """Return the same of each site of a project, by the nearest of all the pixel sizes that a model, or a federation,
    knows; of several sites their names say where.
    """
    return [
        words
        for site in grid.parts
        for words in pixel_words(
            site.gsd_m,
            min(known_m, key=lambda known: abs(log(known / site.gsd_m))),
            who, f"in {site.name}" if grid.sites else where,
        )
    ]  # fmt: skip


def oddest_gsd_m(grid: Grid, known_m: float) -> float:
    """Return the pixel size, in metres, of the site that differs most from a known one."""
    return max((site.gsd_m for site in grid.parts), key=lambda own: abs(log(own / known_m)))


def any_grid(db: sqlite3.Connection) -> Grid | None:
    """Return the project grid; None if there is no post scene yet."""
    text = fact(db, "grid")
    return None if text is None else Grid.from_json(json.loads(text))


def lattice(grid: Grid) -> list[list[Any]]:
    """Return what says where the pixels of each site lie, whatever the site is called; ready for JSON."""
    return [[one.crs, *one.transform, one.width, one.height, one.row] for one in grid.parts]


@lru_cache(maxsize=4)
def _numbers(text: str) -> NDArray[np.int64]:
    return np.array(json.loads(text), np.int64)


def sites(db: sqlite3.Connection) -> NDArray[np.int64]:
    """Return the number of the site in `grid.parts` that each building belongs to, int64 [N], as `building_ids`; -1 of one
    that is far from all.
    """
    found = grid(db)
    return _numbers(str(fact(db, "sites"))) if found.sites else np.zeros(count_footprints(db), np.int64)


def grid(db: sqlite3.Connection) -> Grid:
    """Return the project grid. Raises ProjectError if there is no post scene yet."""
    if (found := any_grid(db)) is None:
        raise ProjectError(
            "This project has no post-event scene yet, so it has no coordinate system.",
            "Add one on the Imagery page, or with `pu-geo add-scene`.",
            kind="no_scene",
        )
    return found


# Footprints


def blob_from_wkb(wkb: bytes, bounds: NDArray[np.float64], srs_id: int) -> bytes:
    """Wrap WKB as a GeoPackage geometry: little-endian header with an xy envelope, then the WKB."""
    west, south, east, north = (float(value) for value in bounds)
    return struct.pack("<2sBBi4d", b"GP", 0, 0b00000011, srs_id, west, east, south, north) + wkb


def wkb_from_blob(blob: bytes) -> bytes:
    """Return the WKB inside a GeoPackage geometry that `blob_from_wkb` wrote."""
    return blob[8 + 32 :]


def register_layer(db: sqlite3.Connection, table: str, srs_id: int, box: Sequence[float | None]) -> None:
    """Write coordinate system and extent (west, south, east, north) of a layer into the GeoPackage's own registry."""
    db.execute("UPDATE gpkg_geometry_columns SET srs_id = ? WHERE table_name = ?", (srs_id, table))
    db.execute(
        "UPDATE gpkg_contents SET srs_id = ?, min_x = ?, min_y = ?, max_x = ?, max_y = ?, "
        "last_change = strftime('%Y-%m-%dT%H:%M:%fZ','now') WHERE table_name = ?",
        (srs_id, *box, table),
    )


def add_footprints(db: sqlite3.Connection, table: FootprintTable) -> int:
    """Add footprints, give ids to those without, and return how many were new.

    A footprint whose outline is here already is left as it is. One whose id another building has, or had, gets an id of the
    project.
    """
    with transaction(db):
        return len(insert_footprints(db, table))


def insert_footprints(db: sqlite3.Connection, table: FootprintTable, come_back: Collection[str] = ()) -> dict[int, str]:
    """Do what `add_footprints` does within a transaction of the caller's; return the rows of the table that were new, with
    their ids.

    Args:
        come_back: ids of buildings that were removed and stand again where they stood, see `former_outlines`.
    """
    alike = "SELECT geom FROM footprints WHERE (source_footprint = 'grid') = ?"  # a house may well be as large as a cell
    outlines = {row[0] for row in db.execute(alike, (table.source == "grid",))}
    taken = used_ids(db).difference(come_back)
    number, reserved = max(count_footprints(db), highest_number(db)), {*taken, *table.building_ids}
    new: dict[int, str] = {}
    rows = []
    for i, (blob, building_id) in enumerate(zip(blobs(db, table.wkb), table.building_ids, strict=True)):
        if blob in outlines:
            continue
        while not building_id or building_id in taken:
            number += 1
            building_id = "" if (made := f"b{number:06d}") in reserved else made
        outlines.add(blob)
        taken.add(building_id)
        new[i] = building_id
        rows.append(_row(table, i, blob, building_id))
    db.executemany(
        "INSERT INTO footprints (geom, area_m2, source_footprint, attributes, building_id) VALUES (?, ?, ?, ?, ?)", rows
    )
    if rows:
        note_footprints(db)
        _note_numbers(db, new.values())
        db.execute(
            "DELETE FROM former WHERE building_id IN (SELECT value FROM json_each(?))", (json.dumps([*new.values()]),)
        )
        _note_extent(db)
    return new


def _row(table: FootprintTable, i: int, blob: bytes, building_id: str) -> tuple[object, ...]:
    return (
        blob,
        float(table.area_m2[i]),
        table.source,
        json.dumps(dict(table.attributes[i]), ensure_ascii=False),
        building_id,
    )


def blobs(db: sqlite3.Connection, outlines: Sequence[bytes]) -> list[bytes]:
    """Wrap outlines, WKB in the project CRS, as GeoPackage geometries in that system."""
    import shapely  # not where a training alone runs

    srs_id = db.execute("SELECT srs_id FROM gpkg_geometry_columns WHERE table_name = 'footprints'").fetchone()[0]
    bounds = shapely.bounds(shapely.from_wkb(np.array(list(outlines), dtype=object)))
    return [blob_from_wkb(wkb, box, srs_id) for wkb, box in zip(outlines, bounds, strict=True)]


def _note_extent(db: sqlite3.Connection) -> None:
    """Write the extent of all footprints into the GeoPackage's own registry."""
    _, corners = _envelopes(db)
    box = [*corners.min(axis=(0, 2)).tolist(), *corners.max(axis=(0, 2)).tolist()] if len(corners) else [None] * 4
    db.execute(
        "UPDATE gpkg_contents SET min_x = ?, min_y = ?, max_x = ?, max_y = ?, "
        "last_change = strftime('%Y-%m-%dT%H:%M:%fZ','now') WHERE table_name IN ('footprints', 'damage_map')",
        box,
    )


def _envelopes(db: sqlite3.Connection) -> tuple[list[str], NDArray[np.float64]]:
    """Return building ids and their envelopes, float64 [N, 2, 2]: of x and y the least and the most, without reading an
    outline.
    """
    rows = db.execute("SELECT building_id, substr(geom, 9, 32) FROM footprints ORDER BY fid").fetchall()
    return [row[0] for row in rows], np.frombuffer(b"".join(row[1] for row in rows), "<f8").reshape(-1, 2, 2)


def used_ids(db: sqlite3.Connection) -> set[str]:
    """Return the ids of all buildings that are, or were, in the project; imported answers may name others."""
    tables = ("footprints", "label_event", "score", "former")
    return {row[0] for row in db.execute(" UNION ".join(f"SELECT building_id FROM {table}" for table in tables))}


def former_outlines(db: sqlite3.Connection, *, are_cells: bool = False) -> dict[str, bytes]:
    """Return building id -> outline in the project CRS as WKB of removed buildings: answers and scores count again where one
    stands.

    Args:
        are_cells: of removed cells of a grid instead.
    """
    found = db.execute(
        "SELECT building_id, geom FROM former WHERE (source_footprint = 'grid') = ? AND building_id NOT IN (SELECT "
        "building_id FROM footprints)",
        (are_cells,),
    )
    return {building: wkb_from_blob(blob) for building, blob in found}


def move_former(db: sqlite3.Connection, way: tuple[float, float]) -> None:
    """Move the places of removed buildings with those of all others, by so many units of the project CRS."""
    import shapely  # not where a training alone runs

    found = former_outlines(db)
    moved = shapely.transform(shapely.from_wkb(np.array(list(found.values()), dtype=object)), lambda xy: xy + np.array(way))
    rows = zip(blobs(db, shapely.to_wkb(moved, byte_order=1)), found, strict=True)
    db.executemany("UPDATE former SET geom = ? WHERE building_id = ?", rows)


def any_removed(db: sqlite3.Connection) -> bool:
    """Return whether labels may be of buildings that are not here: removed, or added after a backup that was restored;
    mostly none ever were.
    """
    query = (
        "SELECT 1 FROM removal WHERE kind = 'footprints' UNION ALL SELECT 1 FROM pugeo_meta WHERE key = 'restored' LIMIT 1"
    )
    return db.execute(query).fetchone() is not None


def removed_by_list(db: sqlite3.Connection) -> set[str]:
    """Return the ids of the removed buildings that may have been chosen by what was seen there."""
    return {row[0] for row in db.execute("SELECT building_id FROM former WHERE by_list")}


def remove_footprints(db: sqlite3.Connection, ids: Sequence[str], *, by_list: bool = False) -> None:
    """Remove footprints within a transaction of the caller's; labels of these buildings stay in the log, and their ids are
    not given anew.

    Args:
        by_list: a person named them one by one, or a file left them out: what was seen there may have chosen them.
    """
    _note_numbers(db, ids)
    gone = (json.dumps(list(ids)),)
    db.execute(
        "INSERT OR REPLACE INTO former SELECT building_id, geom, source_footprint, ? FROM footprints "
        "WHERE building_id IN (SELECT value FROM json_each(?))",
        (by_list, *gone),
    )
    db.execute("DELETE FROM footprints WHERE building_id IN (SELECT value FROM json_each(?))", gone)
    _note_extent(db)
    note_footprints(db)


def change_outlines(db: sqlite3.Connection, table: FootprintTable, ids: Collection[str]) -> None:
    """Give some buildings the outlines, areas and attributes that a table has; within a transaction of the caller's."""
    wanted = set(ids)
    kept = [i for i, building in enumerate(table.building_ids) if building in wanted]
    wrapped = zip(kept, blobs(db, [table.wkb[i] for i in kept]), strict=True)
    rows = [_row(table, i, blob, table.building_ids[i]) for i, blob in wrapped]
    change = "UPDATE footprints SET geom = ?, area_m2 = ?, source_footprint = ?, attributes = ? WHERE building_id = ?"
    db.executemany(change, rows)
    note_footprints(db)


def geometry_v(db: sqlite3.Connection) -> str:
    """Return what names this state of the footprints and their places on the grid, such as "3-9f86d081"; "0" before the
    first change.

    It is in the address and the key of all that is kept in the order of `building_ids`.
    """
    return fact(db, "geometry_v") or "0"


def note_footprints(db: sqlite3.Connection) -> None:
    """Give the state of the footprints another name and note their sites, within the transaction that adds, removes,
    replaces or restores some.

    No name comes twice, not in a backup either that is changed in another way.
    """
    count = geometry_v(db).partition("-")[0]
    name = f"{int(count) + 1 if count.isdecimal() else 1}-{secrets.token_hex(4)}"
    db.execute("INSERT OR REPLACE INTO pugeo_meta VALUES ('geometry_v', ?)", (name,))
    found = any_grid(db)
    if found is not None and found.sites:
        from pu_geo.geo.vector.sites import site_of  # not where a training alone runs, which reads what is stored

        of = json.dumps(site_of(centers(db)[1], found).tolist())
        db.execute("INSERT OR REPLACE INTO pugeo_meta VALUES ('sites', ?)", (of,))


def note_restored(db: sqlite3.Connection) -> None:
    """Note in a database that was made of a backup that labels may be of buildings which it lacks."""
    db.execute("INSERT OR REPLACE INTO pugeo_meta VALUES ('restored', ?)", (now(),))
    note_footprints(db)


_MADE_UP = re.compile(r"b\d{6,}")  # as `insert_footprints` numbers footprints without id


_LONGEST_NUMBERED = 11  # signs; a file's own ids of more digits are left out, and no count of houses reaches them
_HIGHEST = "highest_number"


def highest_number(db: sqlite3.Connection) -> int:
    """Return the highest number that an id such as b000012 ever had in this project; 0 without any.

    The next footprint without id gets the one after it: a removed building's labels and scores must not become another's.
    """
    return int(fact(db, _HIGHEST) or 0)


def _note_numbers(db: sqlite3.Connection, ids: Iterable[str]) -> None:
    """Store that the numbers of these ids were given, so that they stay theirs once the footprints are gone."""
    given = max((int(one[1:]) for one in ids if _MADE_UP.fullmatch(one) and len(one) < _LONGEST_NUMBERED), default=0)
    db.execute(
        "INSERT INTO pugeo_meta VALUES (?1, ?2) ON CONFLICT (key) DO UPDATE SET value = max(CAST(value AS INTEGER), ?2)",
        (_HIGHEST, given),
    )


def has_made_up_id(table: FootprintTable) -> NDArray[np.bool_]:
    """Return which footprints have an id that names no building by itself, bool [N].

    Their own file does not give it to them, so another may give it to another building; or files here give it to several.
    """
    named = [{str(value) for key, value in own.items() if key.lower() in ID_KEYS} for own in table.attributes]
    times = Counter(one for each in named for one in each)
    made_up = (
        times[one] > 1
        or (
            one not in map(str, own.values())
            and (_MADE_UP.fullmatch(one) is not None or any(key.lower() in ID_KEYS for key in own))
        )
        for one, own in zip(table.building_ids, table.attributes, strict=True)
    )
    return np.fromiter(made_up, np.bool_, len(table.building_ids))


def count_footprints(db: sqlite3.Connection) -> int:
    return int(db.execute("SELECT count(*) FROM footprints").fetchone()[0])


def building_ids(db: sqlite3.Connection) -> list[str]:
    """Return all building ids in the order in which they were added; chips and scores keep this order."""
    return [row[0] for row in db.execute("SELECT building_id FROM footprints ORDER BY fid")]


def has_building(db: sqlite3.Connection, building_id: str) -> bool:
    """Return whether a building of this id is in the project."""
    return db.execute("SELECT 1 FROM footprints WHERE building_id = ?", (building_id,)).fetchone() is not None


def building_at(db: sqlite3.Connection, place: int) -> tuple[str, float, dict[str, Any]] | None:
    """Return id, area in square meters and attributes of the building at a place of `building_ids`, from 0; None past the
    last.
    """
    found = (
        "SELECT building_id, area_m2, attributes FROM footprints WHERE fid = (SELECT fid FROM footprints ORDER BY fid "
        "LIMIT 1 OFFSET ?)"
    )
    row = db.execute(found, (place,)).fetchone()
    return None if row is None else (str(row[0]), float(row[1]), json.loads(row[2]))


def places_of(db: sqlite3.Connection, building_ids: Sequence[str]) -> dict[str, int]:
    """Return building id -> its place in `building_ids`, for those of some buildings that are there."""
    query = (
        "SELECT building_id, (SELECT count(*) FROM footprints other WHERE other.fid < own.fid) FROM footprints own "
        "WHERE building_id IN (SELECT value FROM json_each(?))"
    )
    return dict(db.execute(query, (json.dumps(list(building_ids)),)).fetchall())


def outlines(db: sqlite3.Connection, building_ids: Sequence[str]) -> list[bytes]:
    """Return the outlines of some buildings in the project CRS as WKB, in this order."""
    query = "SELECT geom FROM footprints WHERE building_id = ?"
    return [wkb_from_blob(db.execute(query, (each,)).fetchone()[0]) for each in building_ids]


def all_outlines(db: sqlite3.Connection) -> dict[str, bytes]:
    """Return building id -> outline in the project CRS as WKB, in the order of `building_ids`, without reading
    attributes.
    """
    rows = db.execute("SELECT building_id, geom FROM footprints ORDER BY fid")
    return {building: wkb_from_blob(blob) for building, blob in rows}


def outline_pieces(db: sqlite3.Connection, size: int) -> Iterator[tuple[list[str], list[bytes]]]:
    """Yield building ids and outlines as WKB, project CRS, in the order of `building_ids`, at most `size` at a time."""
    rows = db.execute("SELECT building_id, geom FROM footprints ORDER BY fid")
    while some := rows.fetchmany(size):
        yield [row[0] for row in some], [wkb_from_blob(row[1]) for row in some]


def footprints(db: sqlite3.Connection) -> FootprintTable:
    """Return all footprints in the order of `building_ids`; `source` is that of the first one."""
    columns = "building_id, geom, area_m2, attributes, source_footprint"
    rows = db.execute(f"SELECT {columns} FROM footprints ORDER BY fid").fetchall()
    area_m2, attributes = np.array([row[2] for row in rows], dtype=np.float64), [json.loads(row[3]) for row in rows]
    source, wkb = rows[0][4] if rows else "user", [wkb_from_blob(row[1]) for row in rows]
    return FootprintTable([row[0] for row in rows], wkb, area_m2, attributes, source, len(rows), n_repaired=0, n_dropped=0)


def centers(db: sqlite3.Connection) -> tuple[list[str], NDArray[np.float64]]:
    """Return building ids and the middles of their envelopes, float64 [N, 2], project CRS, without reading an outline."""
    ids, corners = _envelopes(db)
    return ids, corners.mean(axis=2)


def centers_px(db: sqlite3.Connection, ids: Sequence[str]) -> NDArray[np.float32]:
    """Return (column, row) of buildings in pixels of the project grid, float32 [n, 2]; NaN for one that is gone."""
    from pu_geo.geo.vector.sites import to_px  # not where a training alone runs

    return to_px(_centers_of(db, ids), grid(db)).astype(np.float32)


def centers_m(db: sqlite3.Connection, ids: Sequence[str]) -> NDArray[np.float64]:
    """Return (x, y) of buildings, metres on the ground along the axes of the project CRS, float64 [n, 2]; NaN for one that
    is gone.

    Degrees, feet and the like become metres by what they are at the grid's centre.
    """
    found, units = _centers_of(db, ids), grid(db)
    return np.column_stack([found[:, 0] * units.x_unit_m, found[:, 1] * units.y_unit_m])


def _centers_of(db: sqlite3.Connection, ids: Sequence[str]) -> NDArray[np.float64]:
    """Return the middles of the envelopes of buildings, float64 [n, 2], project CRS; NaN for one that is gone."""
    known, xy = centers(db)
    row = {building: i for i, building in enumerate(known)}
    at = np.array([row.get(building, -1) for building in ids], np.int64)
    found: NDArray[np.float64] = np.concatenate([xy, np.full((1, 2), np.nan)])[at]
    return found


def attribute_names(db: sqlite3.Connection) -> list[str]:
    """Return the names of all attributes that footprints carry, in alphabetical order, without reading an outline."""
    return [row[0] for row in db.execute("SELECT DISTINCT key FROM footprints, json_each(attributes) ORDER BY key")]


def attribute_values(db: sqlite3.Connection, name: str) -> list[Any]:
    """Return one attribute of every footprint, in the order of `building_ids`; None where there is none."""
    return [json.loads(row[0]).get(name) for row in db.execute("SELECT attributes FROM footprints ORDER BY fid")]


def areas_m2(db: sqlite3.Connection) -> NDArray[np.float64]:
    """Return the area of every footprint in square meters, float64 [N], in the order of `building_ids`."""
    return np.array([row[0] for row in db.execute("SELECT area_m2 FROM footprints ORDER BY fid")], dtype=np.float64)


_units: dict[tuple[str, str], Units] = {}  # by project and state of its footprints


def units(db: sqlite3.Connection) -> Units:
    """Return what the footprints are: buildings, cells of a grid, or both. All are read for it once for each state of
    them.
    """
    key = project_id(db), geometry_v(db)
    if key not in _units:
        _units[key] = _read_units(db)
    return _units[key]


def _read_units(db: sqlite3.Connection) -> Units:
    rows = db.execute(
        "SELECT source_footprint = 'grid', CASE source_footprint WHEN 'grid' THEN json_extract(attributes, '$.cell_m') "
        "END, count(*) FROM footprints GROUP BY 1, 2"
    ).fetchall()
    n_cells = sum(n for is_cell, _, n in rows if is_cell)
    sides = sorted({float(side) for is_cell, side, _ in rows if is_cell and side})
    return Units(sum(n for _, _, n in rows) - n_cells, n_cells, tuple(sides))


def footprint_sources(db: sqlite3.Connection) -> list[str]:
    """Return where each footprint came from, in the order of `building_ids`."""
    return [row[0] for row in db.execute("SELECT source_footprint FROM footprints ORDER BY fid")]


def live_map(db: sqlite3.Connection) -> tuple[list[str], list[tuple[Any, ...]]]:
    """Return names and rows of the view that QGIS shows, in the order of `building_ids`; the outlines are GeoPackage
    blobs.
    """
    found = db.execute("SELECT * FROM damage_map ORDER BY OGC_FID")
    return [column[0] for column in found.description], found.fetchall()


# Chip sets


def has_chip_set(db: sqlite3.Connection, chip_set: str) -> bool:
    """Return whether a chip set was finished."""
    return db.execute("SELECT 1 FROM chip_set WHERE chip_set = ?", (chip_set,)).fetchone() is not None


def add_chip_set(db: sqlite3.Connection, chip_set: str, bands: str, size_px: int, n: int) -> None:
    with transaction(db):
        db.execute(
            "INSERT OR REPLACE INTO chip_set (chip_set, bands, size_px, n, made_at) VALUES (?, ?, ?, ?, ?)",
            (chip_set, bands, size_px, n, now()),
        )


def chip_sets(db: sqlite3.Connection) -> list[str]:
    """Return the ids of all chip sets, the newest first."""
    return [row[0] for row in db.execute("SELECT chip_set FROM chip_set ORDER BY number DESC")]


def latest_chip_set(db: sqlite3.Connection) -> str | None:
    """Return the id of the chip set that was made last, or None."""
    row = db.execute("SELECT chip_set FROM chip_set ORDER BY number DESC LIMIT 1").fetchone()
    return None if row is None else str(row[0])


def chosen_chip_set(db: sqlite3.Connection, chip_set: str | None = None) -> str:
    """Return the id of a chip set that is there, the newest if None is named. Raises ProjectError if there is none."""
    found = latest_chip_set(db) if chip_set is None else chip_set
    if found is None:
        raise ProjectError(
            "This project has no chips yet, so there is nothing to learn from.",
            "Cut them on the Imagery page, or with `pu-geo chip`.",
            kind="no_chips",
        )
    if not has_chip_set(db, found):
        known = ", ".join(chip_sets(db)) or "none yet"
        raise ProjectError(f"This project has no chips {found!r}; its chip sets are: {known}.", "Name one of them.")
    return found


def chip_count(db: sqlite3.Connection, chip_set: str) -> int:
    """Return how many chips a chip set has."""
    return int(db.execute("SELECT n FROM chip_set WHERE chip_set = ?", (chip_set,)).fetchone()[0])


def chip_facts(layout: Layout, chip_set: str) -> Mapping[str, Any]:
    """Return a chip set's facts: {"chip_set", "bands", "size_px", "building_ids", "nodata_share", ...}."""
    path = layout.chip_facts(chip_set)
    with reading(path):
        changed_ns = path.stat().st_mtime_ns
    return {"chip_set": chip_set, **_parsed(path, changed_ns)}


@lru_cache(maxsize=2)
def _parsed(path: Path, changed_ns: int) -> Mapping[str, Any]:
    """Read a JSON file once, until it changes: that of 150,000 buildings takes a quarter of a second and more."""
    facts: Mapping[str, Any] = read_json(path)
    return facts


LEAST_MISSING = 0.5  # share of an outline without data from which on a view counts as missing for that building


def views_of(facts: Mapping[str, Any]) -> tuple[View, ...]:
    """Return which bands of a chip set's chips show what: pre and post as far as they were cut, then its layers.

    Args:
        facts: from `chip_facts`. A chip set without layers names no views; its bands are those of the dates.
    """
    if (views := facts.get("views")) is not None:
        return tuple(View.from_json(one) for one in views)
    post = View("post", "post", 0, 3)
    return (View("pre", "pre", 0, 3), replace(post, start=3, stop=6)) if facts.get("bands") == "pre+post" else (post,)


def optical(chips: NDArray[np.uint8], facts: Mapping[str, Any]) -> NDArray[np.uint8]:
    """Return the bands of pre and post alone, uint8 [N, 6 or 3, S, S]: a view of `chips`, which stays a memory map."""
    return chips[:, : max(view.stop for view in views_of(facts) if view.name in ("pre", "post"))]


def optical_chips(layout: Layout, chip_set: str) -> NDArray[np.uint8]:
    """Return the chips of a chip set as `optical` does, a read-only memory map."""
    return optical(read_array(layout.chips(chip_set)), chip_facts(layout, chip_set))


def is_missing(facts: Mapping[str, Any]) -> NDArray[np.bool_]:
    """Return which buildings each view of a chip set does not show, bool [V, N], in the order of `views_of`.

    A view is missing from `LEAST_MISSING` of the outline without data on. For pre and post that is what lies beyond their
    scenes, or has no data in them; clouds are no reason. Chip sets from before outlines were measured know the windows
    alone.
    """
    return np.stack([_share_without(facts, view.name) >= LEAST_MISSING for view in views_of(facts)])


def _share_without(facts: Mapping[str, Any], view: str) -> NDArray[np.float64]:
    """Return the share of each outline where a view has no data, float64 [N], 0..1."""
    if view not in ("pre", "post"):
        return np.asarray(facts["view_missing"][view], np.float64)
    if (outline := facts.get(f"{view}_outline")) is not None:
        return np.asarray(outline["outside"], np.float64) + np.asarray(outline["nodata"], np.float64)
    window = facts.get("nodata_share" if view == "post" else "pre_nodata_share")
    return np.zeros(len(facts["building_ids"])) if window is None else np.asarray(window, np.float64)


MAX_MB = 50  # of 1024**2 bytes, as the upload box counts them
MAX_BYTES = MAX_MB * 1024**2
_MAX_STEM_BYTES, _MAX_SUFFIX_BYTES = 120, 24  # of UTF-8; file systems take 255


def safe_name(name: str) -> str:
    """Return a file name without folders, blanks or signs; letters of every script stay."""
    last = re.split(r"[/\\]", name)[-1]
    path = Path(re.sub(r"[^\w.-]", "_", last).strip(".-_") or "file")
    stem = path.stem.encode()[:_MAX_STEM_BYTES].decode(errors="ignore")
    return stem + path.suffix.encode()[:_MAX_SUFFIX_BYTES].decode(errors="ignore")


def keep(layout: Layout, files: Sequence[tuple[str, bytes | memoryview]]) -> list[Path]:
    """Store files that belong together in one folder of `sources/`; files that are stored already keep their folder.

    Pictures of one name, as xBD has them in each of its folders, get a folder each; of files that are the same byte for byte
    one is stored.

    Args:
        files: name as the browser gave it, and content.

    Returns:
        where each of them is, in their order.

    Raises:
        ProjectError: if one is empty or over 50 MB, the disk is full, or several have one name and there is a file, such as
            a world file, that could belong to any of them.
    """
    for given, content in files:
        if not 0 < len(content) <= MAX_BYTES:
            raise ProjectError(
                f"{given[:80]} has {len(content):,} bytes; 1 to {MAX_BYTES:,} ({MAX_MB} MB) can be uploaded.",
                "Name larger files by their path: they stay where they are.",
            )
    signs = [(safe_name(name), hashlib.sha256(content).hexdigest()) for name, content in files]
    together, times = sorted({*signs}), Counter(name for name, _ in {*signs})
    several = sorted(name for name, n in times.items() if n > 1)
    for name in several:
        beside = sorted(other for other, _ in together if other != name and Path(other).stem == Path(name).stem)
        if beside:
            raise ProjectError(
                f"{times[name]} different files are called {name}, so it is not certain which one {beside[0]} belongs to.",
                "Upload each picture with its own world file or labels, one after the other, or add them by path.",
                kind="twice",
            )
    found = []
    for sign, (_, content) in zip(signs, files, strict=True):
        group = [sign] if sign[0] in several else [one for one in together if one[0] not in several]
        path = layout.path("sources") / hashlib.sha256(json.dumps(group).encode()).hexdigest()[:12] / sign[0]
        if not path.exists():
            with writing(path, ProjectError), atomic_write(path) as temporary:
                temporary.write_bytes(content)
        found.append(path)
    return found
