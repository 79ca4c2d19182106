"""The frozen dataclasses that cross rooms. Geometry travels as WKB bytes, so that no room needs another's library."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from pu_geo.errors import UNSEEN

Role = Literal["pre", "post", "layer"]
When = Literal["pre", "post", "", "pre+post"]
"""The date that a view shows: "" of none (elevation, say); "pre+post" of features that were made of both dates together."""
LayerKind = Literal["sar-db", "sar-amplitude", "elevation", "proxy", "other"]
Stretch = tuple[tuple[float, float], ...]
MAX_LAYER_NAME, MAX_LAYER_BANDS = 40, 16  # characters of a layer's name; bands of a layer
Label = Literal["positive", "not_damaged", "not_assessable", "cleared"]
LABELS: tuple[Label, ...] = ("positive", "not_damaged", "not_assessable", "cleared")
Reason = Literal["", "cloud", "outside_image", "nodata", "misaligned", "no_building", "unclear"]
REASONS: tuple[Reason, ...] = ("", "cloud", "outside_image", "nodata", "misaligned", "no_building", "unclear")
Shown = Literal["", "exploit", "explore", "audit"]
SHOWN: tuple[Shown, ...] = ("", "exploit", "explore", "audit")
MAX_NAME = 200  # characters of an analyst's name, and of an operation's id, act and screen
MAX_COMMENT, MAX_TYPES, MAX_TYPE = 500, 20, 60  # characters of a comment, damage types of an answer, and characters of each
DamageClass = Literal["destroyed", "major", "minor", "possible"]
LABEL_NAMES = {"positive": "damaged", "not_damaged": "no_visible_damage", "not_assessable": "not_assessable"}
"""Label -> what exports call it."""
DAMAGE_CLASSES: tuple[DamageClass, ...] = (
    "destroyed",
    "major",
    "minor",
    "possible",
)  # what an export calls a grade, the worst first
NOT_GRADED = "damaged_not_graded"  # class in exports of a building that people marked damaged without a grade
MAX_GRADE, MAX_GRADES = 40, 6  # characters of a grade's id and name; grades of a project, one a key from 4 to 9
Facts = Mapping[str, Any]
"""Plain values by name, as JSON has them."""
Bools = NDArray[np.bool_]
Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Singles = NDArray[np.float32]
Chips = NDArray[np.uint8]
"""[N, C, size, size]."""
Affine6 = tuple[float, float, float, float, float, float]
BandTriple = tuple[int, int, int]

NOT_IN_RUN = "not_in_run"  # why a building that was added after a run is not assessed in its map, and in the view for QGIS
DEFAULT_METHOD = "propagation"
"""What is trained where nobody chooses, and whose map is shown where nobody chose, published or audited one: ahead of the
linear ranker, or level with it, on every set that was measured (docs/tables.md)."""


def rows_of(ids: Sequence[str], among: Sequence[str]) -> Ints:
    """Return the place of each building among others, int64 [n]; -1 where it is not one of them."""
    row = {building: place for place, building in enumerate(among)}
    return np.array([row.get(building, -1) for building in ids], np.int64)


@dataclass(frozen=True)
class Scene:
    """One georeferenced image, pre or post, as `geo.raster.describe` found it.

    Attributes:
        scene_id: what it is called, unique in a project: its file's name without the ending, see `scenes_job.with_ids`.
        path: absolute path of the file; never copied. One inside the project is stored relative to it, see
            `contents.scenes`.
        crs: "EPSG:n" where the system has a code, otherwise its WKT.
        transform: (a, b, c, d, e, f): x = a * col + b * row + c, y = d * col + e * row + f, in units of `crs`.
        width, height: pixels.
        bands: number of bands in the file.
        dtype: numpy name of the sample type.
        gsd_m: pixel size on the ground, metres.
        date: ISO 8601 date of acquisition, or None where it is not known.
        sha256: of the file, lowercase hex.
        stretch: (low, high) per read band, in sample values, mapped to 0..255; None for uint8.
        rgb: the bands, from 1, that are read as red, green and blue; one may serve twice or thrice. Of a layer: all of its
            bands but one of transparency.
        place: how the place of a picture without one of its own is known, in words; "" for a file that has it.
        size_bytes, mtime_ns, ends_sha256: of the file when it was added, by which `scene_state` notices another one in its
            place without reading all of it.
        layer, when, kind: of a scene with the role "layer": its layer's name, date and kind, see `Layer`; its `stretch` is
            its layer's scaling.
        nodata: of a layer's file: the sample value that stands for no data, as it was given, beside the file's own; None
            where there is none.
        has_alpha: a band called transparency is one; else it is not used.
        sharpness: how fine the detail is that it shows, in its own pixels, see `geo.raster.sharpness`; None where it is not
            known.
        notes: what was assumed where the file does not say, as pairs: what it is about, such as "bands", and a sentence.
    """

    scene_id: str
    role: Role
    path: str
    crs: str
    transform: Affine6
    width: int
    height: int
    bands: int
    dtype: str
    gsd_m: float
    date: str | None = None
    sha256: str = ""
    stretch: Stretch | None = None
    rgb: tuple[int, ...] = (1, 2, 3)
    place: str = ""
    size_bytes: int = 0
    mtime_ns: int | None = None
    ends_sha256: str = ""
    layer: str = ""
    when: When = ""
    kind: LayerKind = "other"
    nodata: float | None = None
    has_alpha: bool = True
    sharpness: float | None = None
    notes: tuple[tuple[str, str], ...] = ()


def scene_of(values: Mapping[str, Any]) -> Scene:
    """Return the scene that `asdict` gave, once it was JSON, which has lists for tuples."""

    def as_tuples(value: Any) -> Any:
        return tuple(map(as_tuples, value)) if isinstance(value, list) else value

    return Scene(**{name: as_tuples(value) for name, value in values.items()})


_AS_FILE = ("sha256", "crs", "transform", "rgb", "nodata", "kind")
_READ = (*_AS_FILE, "role", "stretch", "layer", "when")


def scene_fingerprint(scene: Scene) -> str:
    """Return the fingerprint of a scene, 12 hex digits: of its file's content, and of all that says how and where it is
    read.
    """
    text = json.dumps([getattr(scene, name) for name in _READ])
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def reads_alike(one: Scene, other: Scene) -> bool:
    """Return whether two files are one and the same, read in the same way; where it is laid in a project without a place
    says nothing.
    """
    is_local = one.crs.startswith("ENGCRS[")
    return all(getattr(one, name) == getattr(other, name) for name in _AS_FILE if not is_local or name != "transform")


def misses_by_band(scene: Scene) -> bool:
    """Return whether a pixel has no data as soon as one of its bands has none: in layers that measure, unlike in
    pictures.
    """
    return scene.role == "layer" and scene.dtype != "uint8"


@dataclass(frozen=True)
class Layer:
    """A raster layer beside pre and post, of one or several files that form a mosaic: SAR, elevation, a damage proxy.

    Its place is taken as given: no alignment moves it.

    Attributes:
        name: letters, digits and -, at most `MAX_LAYER_NAME` signs; unique in a project.
        when: "pre", "post", or "" for a layer of no date.
        kind: what it measures, which names the unit. Samples of "sar-amplitude" are read as 20 log10 of themselves, in dB.
        scenes: its files, in the order in which they were added.
        bands: of each file, without one of transparency: 1 to `MAX_LAYER_BANDS`.
        scaling: (low, high) per band, mapped to 0..255, one for all files, in `unit`.
    """

    name: str
    when: When
    kind: LayerKind
    scenes: tuple[Scene, ...]
    bands: int
    scaling: tuple[tuple[float, float], ...]

    @property
    def unit(self) -> str:
        """Return the unit of `scaling`: "dB", "m", or "" where the samples have none that is known."""
        return {"sar-db": "dB", "sar-amplitude": "dB", "elevation": "m"}.get(self.kind, "")

    @property
    def nodata(self) -> float | list[float | None] | None:
        """Return the sample value that stands for no data; of each file, where they differ."""
        each = [scene.nodata for scene in self.scenes]
        return each[0] if len(set(each)) == 1 else each

    @property
    def steps(self) -> tuple[float, ...]:
        """Return what one step of the 256 of a chip means in each band, in `unit`."""
        return tuple((high - low) / 255 for low, high in self.scaling)


@dataclass(frozen=True)
class View:
    """One view of a building: some bands of a chip array, or some columns of a feature array.

    Attributes:
        name: "pre", "post", or the name of a layer; unique in a table of views. Dates joined by + for features of both.
        when: the date that it shows; "" of none.
        start, stop: half-open span of bands or columns.
    """

    name: str
    when: When
    start: int
    stop: int

    @classmethod
    def from_json(cls, entry: Mapping[str, Any]) -> View:
        """Read a view as `dataclasses.asdict` wrote it."""
        return cls(str(entry["name"]), entry["when"], int(entry["start"]), int(entry["stop"]))


FIRST_SITE = "Site 1"


@dataclass(frozen=True)
class Grid:
    """The project's pixel grid: the union of its post scenes, north-up, in the first post scene's CRS.

    An event in several places has a grid for each of its sites, see `sites`. In the pixels of the project they lie below
    one another with gaps between them, whatever their place on the Earth; `geo.vector.sites` turns places into pixels.

    Attributes:
        crs: "EPSG:n" or WKT. This is the "project CRS", also where the sites have others.
        crs_wkt: the same system as WKT, for files that must define it.
        transform: as in `Scene`; b = d = 0.
        width, height: pixels.
        gsd_m: pixel size on the ground, metres.
        x_unit_m, y_unit_m: metres on the ground per unit of the project CRS along x and y, at the grid's centre
            (1.0 for UTM; about 111,000 in degrees).
        name: of the site.
        is_named: a person said which scenes it has.
        scenes: ids of its post scenes.
        boxes: what each of them covers: column, row, right and bottom in its pixels.
        row: of a site, its first row in the pixels of the project.
        sites: grids of the sites of an event in several places, from top to bottom; none where all lie on one grid. Width
            and height span all of them; transform and pixel size are those of the first.
    """

    crs: str
    crs_wkt: str
    transform: Affine6
    width: int
    height: int
    gsd_m: float
    x_unit_m: float = 1.0
    y_unit_m: float = 1.0
    name: str = FIRST_SITE
    is_named: bool = False
    scenes: tuple[str, ...] = ()
    boxes: tuple[tuple[float, ...], ...] = ()
    row: int = 0
    sites: tuple[Grid, ...] = ()

    @classmethod
    def from_json(cls, entry: Mapping[str, Any]) -> Grid:
        """Read a grid as `dataclasses.asdict` wrote it."""
        own: dict[str, Any] = {name: tuple(entry[name]) for name in ("transform", "scenes")}
        own |= {"boxes": tuple(map(tuple, entry["boxes"])), "sites": tuple(map(cls.from_json, entry["sites"]))}
        return cls(**{**entry, **own})

    @property
    def parts(self) -> tuple[Grid, ...]:
        """Return the grids of all sites: this one where there is one."""
        return self.sites or (self,)

    @property
    def alone(self) -> Grid:
        """Return the grid of a site as that of a project with no other."""
        return replace(self, row=0)

    @property
    def span(self) -> tuple[int, int, int, int]:
        """Return the first column and row of a site, and one past the last, in the pixels of the project."""
        return 0, self.row, self.width, self.row + self.height

    @property
    def m_per_px(self) -> NDArray[np.float64]:
        """Return metres to the east per column and to the north per row (negative) of each site, float64 [S, 2]."""
        return np.array([[one.transform[0] * one.x_unit_m, one.transform[4] * one.y_unit_m] for one in self.parts])

    def site_at(self, rows: NDArray[np.floating | np.integer]) -> NDArray[np.int64]:
        """Return the number of the site that rows of the project's pixels belong to, int64 [N]; a gap is shared by both."""
        ends = [(one.row + one.height + other.row) / 2 for one, other in pairwise(self.parts)]
        return np.searchsorted(np.array(ends), rows, side="right")

    def limits(self, boxes: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the first column and row, and one past the last, of the site in whose pixels each box lies, int64 [N, 4].

        Args:
            boxes: column, row, right and bottom in pixels of the project, int64 [N, 4].
        """
        return np.array([one.span for one in self.parts])[self.site_at((boxes[:, 1] + boxes[:, 3]) / 2)]

    def site_of_windows(self, windows: NDArray[np.float64]) -> NDArray[np.int64]:
        """Return the number of the site of windows, [N, 4]: column, row, width and height in pixels of the project."""
        return self.site_at(windows[:, 1] + windows[:, 3] / 2)

    @property
    def has_place(self) -> bool:
        """False for a project without a place on the Earth: its coordinates are local meters, see `geo.local_space`."""
        return not self.crs.startswith("ENGCRS[")

    def to_px(self, xy: NDArray[np.float64]) -> NDArray[np.float64]:
        """Turn coordinates of this grid's CRS, float [..., 2], into (column, row) pixels of it, float [..., 2].

        Not of an event in several places: see `geo.vector.sites`.
        """
        a, _, c, _, e, f = self.transform
        return np.stack([(xy[..., 0] - c) / a, (xy[..., 1] - f) / e], axis=-1)


ID_KEYS = ("building_id", "uid", "osm_id", "full_id", "@id", "full_plus_code", "gers_id", "globalid", "id")
"""Attributes that may name a building, in small letters: ours, xBD's, OpenStreetMap's, Open Buildings', Overture's, ArcGIS',
anybody's.
"""


@dataclass(frozen=True)
class FootprintTable:
    """Footprints as read from one file.

    Attributes:
        building_ids: unique within the table; made up ("" here) where the file has no usable id.
        wkb: one polygon or multipolygon each, little-endian WKB, 2-D, project CRS.
        area_m2: ground area, float64 [N].
        attributes: the file's own attributes, one JSON-ready dict each.
        source: enum of the export schema (overture, osm, open_buildings, microsoft, user, grid).
        n_in, n_repaired, n_dropped: how many features the file had, were mended, were left out.
            n_in = n_dropped + len(building_ids), or + the different numbers in `feature` where some were split.
        notes: one sentence for each kind of repair, drop or renaming, with its count.
        doubts: what the outlines may say wrongly, one sentence each; maps repeat them.
        dropped: how many were left out for which reason, such as {"outside the scenes": 3}; sums to `n_dropped`.
        is_repaired: bool [N], which ones were mended; None where none was.
        feature: int64 [N], number of the feature that each comes from, where one feature was split into several buildings;
            None where each is a feature of its own.
    """

    building_ids: Sequence[str]
    wkb: Sequence[bytes]
    area_m2: NDArray[np.float64]
    attributes: Sequence[Mapping[str, object]]
    source: str
    n_in: int
    n_repaired: int
    n_dropped: int
    notes: tuple[str, ...] = ()
    doubts: tuple[str, ...] = ()
    dropped: Mapping[str, int] = field(default_factory=dict)
    is_repaired: NDArray[np.bool_] | None = None
    feature: NDArray[np.int64] | None = None

    @property
    def feature_of(self) -> NDArray[np.int64]:
        """Return the number of the feature that each footprint comes from, int64 [N]."""
        return np.arange(len(self.wkb), dtype=np.int64) if self.feature is None else self.feature

    def without(self, is_out: NDArray[np.bool_], reason: str, note: str) -> FootprintTable:
        """Return the table without some footprints; a feature of which nothing is left counts as dropped for that reason."""
        rows = np.flatnonzero(~is_out).tolist()
        repaired = None if self.is_repaired is None else self.is_repaired[rows]
        n_lost = len(np.unique(self.feature_of)) - len(np.unique(self.feature_of[rows]))
        lost = {reason: self.dropped.get(reason, 0) + n_lost} if n_lost else {}
        return replace(
            self,
            building_ids=[self.building_ids[i] for i in rows],
            wkb=[self.wkb[i] for i in rows],
            area_m2=self.area_m2[rows],
            attributes=[self.attributes[i] for i in rows],
            n_repaired=0 if repaired is None else len(np.unique(self.feature_of[rows][repaired])),
            n_dropped=self.n_dropped + n_lost,
            notes=(*self.notes, note),
            dropped={**self.dropped, **lost},
            is_repaired=repaired,
            feature=None if self.feature is None else self.feature[rows],
        )

    def values(self, field_name: str) -> dict[str, object]:
        """Return building id -> its value of an attribute, None where it has none."""
        rows = zip(self.building_ids, self.attributes, strict=True)
        return {building: attributes.get(field_name) for building, attributes in rows}


@dataclass(frozen=True)
class Units:
    """What is counted, in words: buildings, cells of a regular grid where nobody mapped them, or both.

    Attributes:
        n_buildings, n_cells: how many of each.
        sizes_m: sides of the cells, metres.
    """

    n_buildings: int
    n_cells: int = 0
    sizes_m: tuple[float, ...] = ()

    @classmethod
    def of(cls, sources: Sequence[object], attributes: Sequence[object]) -> Units:
        """Count footprints by where they come from; a cell's attribute `cell_m` is its side."""
        cells = [row for source, row in zip(sources, attributes, strict=True) if source == "grid"]
        sides = {float(row["cell_m"]) for row in cells if isinstance(row, Mapping) and row.get("cell_m")}
        return cls(len(sources) - len(cells), len(cells), tuple(sorted(sides)))

    @property
    def one(self) -> str:
        """Return "building", "cell", or "building or cell"."""
        return "building" if not self.n_cells else "building or cell" if self.n_buildings else "cell"

    @property
    def several(self) -> str:
        """Return "buildings", "cells", or "buildings and cells"."""
        return "buildings" if not self.n_cells else "buildings and cells" if self.n_buildings else "cells"

    @property
    def full(self) -> str:
        """Return the same with the sides of the cells: "cells of 30 m"."""
        sides = " and ".join(f"{side:g}" for side in self.sizes_m)
        return f"{self.several} of {sides} m" if self.n_cells and sides else self.several


@dataclass(frozen=True)
class LabelOp:
    """One operation of an analyst, on its way from a browser, a stream or a file to the label log.

    Attributes:
        op: unique for ever: a replayed operation is acknowledged again, never stored twice.
        label: what the building is labeled; it comes with all the details below, which replace earlier ones.
        act: id shared by operations that are undone together; by default each is an act of its own.
        reason: for not assessable buildings alone, one of `REASONS`.
        damage_types: types of damage that the building has, at most `MAX_TYPES` texts of 1 to `MAX_TYPE` characters.
        absent_types: types that the analyst looked for and that the damaged building has not; with positives alone. Of a
            type in neither list nobody said anything.
        comment: at most `MAX_COMMENT` characters.
        grade: how badly a building is damaged, the id or the name of a grade of the project; "" where nobody graded it, and
            with every other label. A run learns from it only where it is asked to.
        shown: why the building was put before the analyst, one of `SHOWN`.
        inclusion: probability, (0, 1], with which an audit drew the building; given for "audit" and for nothing else.
        analyst: whose answer it is, where that is not who stores it (imports).
        at: when it was given, ISO 8601 with a time zone, where that is not now (imports).
        is_simulated: taken from known labels for a trial, where it was made (imports); nobody looked.
        screen: where it was made: "map", "wall", "keys", "queue", "card", "cli", ...
        step: "undo" takes back the analyst's last act and "redo" makes it stand again; these use `op` and `screen` alone.
    """

    op: str
    building_id: str = ""
    label: Label = "cleared"
    act: str | None = None
    reason: Reason = ""
    damage_types: Sequence[str] = ()
    comment: str = ""
    shown: Shown = ""
    inclusion: float | None = None
    grade: str = ""
    absent_types: Sequence[str] = ()
    analyst: str | None = None
    at: str | None = None
    is_simulated: bool = False
    screen: str = ""
    step: Literal["", "undo", "redo"] = ""

    @classmethod
    def from_json(cls, entry: Mapping[str, Any]) -> LabelOp:
        """Read an operation that a browser or a stream sent; `problem` checks its values.

        Nobody answers for another analyst or at another time: `analyst` and `at` are not read.

        >>> LabelOp.from_json({"op": "s-1", "undo": True}).step
        'undo'
        """
        texts: dict[str, Any] = {
            name: entry.get(name) or "" for name in ("op", "building_id", "reason", "comment", "shown", "grade")
        }
        return cls(
            **texts,
            label=entry.get("label"),  # type: ignore[arg-type]  # `problem` checks it
            act=entry.get("act") or None,
            damage_types=entry["damage_types"] if entry.get("damage_types") is not None else (),
            absent_types=entry["absent_types"] if entry.get("absent_types") is not None else (),
            inclusion=entry.get("inclusion"),
            screen=entry.get("screen") or "",
            step="undo" if entry.get("undo") else "redo" if entry.get("redo") else "",
        )

    def problem(self, *, max_op: int = MAX_NAME, details: bool = True) -> str | None:
        """Return what is wrong with the values, in words; None if nothing is. They may be anything: they come from outside.

        Without `details` only id, screen, label and act are checked.
        """
        if not is_text(self.op, 1, max_op):
            return f"op must be a text of 1 to {max_op} characters that you never use twice."
        if not is_text(self.screen, 0, MAX_NAME):
            return f"screen must be a text of at most {MAX_NAME} characters."
        if self.step:
            return None
        if self.label not in LABELS:
            return f"label {self.label!r} is not one of {', '.join(LABELS)}."
        if self.act is not None and not is_text(self.act, 1, MAX_NAME):
            return f"act must be a text of 1 to {MAX_NAME} characters."
        return self.problem_of_details() if details else None

    def problem_of_details(self) -> str | None:
        """Return what is wrong with what comes with a label, in words; None if nothing is."""
        return self._problem_of_answer() or self._problem_of_audit() or self._problem_of_origin()

    def _problem_of_answer(self) -> str | None:
        if self.reason not in REASONS:
            return f"reason {self.reason!r} is not one of {', '.join(REASONS[1:])}."
        if self.reason and self.label != "not_assessable":
            return f"reason {self.reason!r} says why a building is not assessable; the label is {self.label}."
        if wrong := self._problem_of_types():
            return wrong
        if self.comment != "" and not is_text(self.comment, 0, MAX_COMMENT):
            return f"comment must be a text of at most {MAX_COMMENT} characters."
        if self.grade != "" and not is_text(self.grade, 0, MAX_GRADE):
            return f"grade must be a text of at most {MAX_GRADE} characters."
        if self.grade and self.label != "positive":
            return f"grade {self.grade!r} says how badly a building is damaged; the label is {self.label}."
        return None

    def _problem_of_types(self) -> str | None:
        if self.damage_types == self.absent_types == ():
            return None
        for name in ("damage_types", "absent_types"):
            types = getattr(self, name)
            if not isinstance(types, list | tuple) or not all(
                is_text(text, 1, MAX_TYPE) and not UNSEEN.search(text) for text in types
            ):
                return f"{name} must be a list of texts of 1 to {MAX_TYPE} characters; got {types!r}."
            if len(types) > MAX_TYPES:
                return f"{name} has {len(types)} entries; {MAX_TYPES} at most."
        if self.absent_types and self.label != "positive":
            return f"absent_types says which types a damaged building does not have; the label is {self.label}."
        if both := set(self.damage_types) & set(self.absent_types):
            return f"damage type {min(both)!r} is in damage_types and in absent_types; a building has a type or it has not."
        return None

    def _problem_of_audit(self) -> str | None:
        chance = self.inclusion
        if self.shown not in SHOWN:
            return f"shown {self.shown!r} is not one of {', '.join(SHOWN[1:])}."
        if self.shown != "audit":
            return None if chance is None else f"inclusion goes with shown = audit alone; shown is {self.shown!r}."
        if isinstance(chance, bool) or not isinstance(chance, int | float) or not 0 < chance <= 1:
            return f"inclusion of an audit answer must be a probability above 0, up to 1; got {chance!r}."
        return None

    def _problem_of_origin(self) -> str | None:
        if self.analyst is not None and not is_text(self.analyst, 1, MAX_NAME):
            return f"analyst must be a text of 1 to {MAX_NAME} characters."
        try:
            utc(self.at)
        except (ValueError, OverflowError):
            return f"at {self.at!r} is not a time with its zone, such as 2026-01-31T12:00:00Z."
        return None


_NOT_TEXT = re.compile("[\0\ud800-\udfff]")


def is_text(value: object, least: int, most: int) -> bool:
    """Return whether a value is a text of that many characters that SQLite and UTF-8 can hold: no NUL, no half
    characters.
    """
    return isinstance(value, str) and least <= len(value) <= most and _NOT_TEXT.search(value) is None


def utc(text: str | None) -> str | None:
    """Return a time as RFC 3339 in UTC, to the millisecond; None stays None.

    Raises:
        ValueError, OverflowError: if it is not ISO 8601, has no time zone, or is in no year of UTC.
    """
    if text is None:
        return None
    time = datetime.fromisoformat(text)
    if time.tzinfo is None:
        raise ValueError("no time zone")
    return time.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


@dataclass(frozen=True)
class LabelEvent:
    """One row of the append-only label log.

    Attributes:
        event: its number.
        op: the operation that made it; unique for ever.
        label: the building's label after it.
        analyst: who made it; for an imported event, whose answer it is.
        at: when it was made, RFC 3339 UTC; for an imported event, when it was made where it comes from.
        undoes: the event that an undo took back, or a redo put back.
        reason: why a building is not assessable; "" where not known, and with every other label.
        damage_types: types of damage that the building has, in the analyst's words.
        absent_types: types that the analyst looked for, and that it has not.
        comment: at most 500 characters.
        shown: why the building was put before the analyst; "" if the analyst picked it.
        inclusion: probability, (0, 1], with which an audit drew the building; None outside audits.
        grade: id of the grade of a damaged building; "" where nobody graded it.
    """

    event: int
    op: str
    building_id: str
    label: Label
    analyst: str
    at: str
    screen: str
    kind: Literal["set", "undo", "redo", "import", "simulated"] = "set"
    undoes: int | None = None
    reason: Reason = ""
    damage_types: tuple[str, ...] = ()
    comment: str = ""
    shown: Shown = ""
    inclusion: float | None = None
    grade: str = ""
    absent_types: tuple[str, ...] = ()


@dataclass(frozen=True)
class PUSet:
    """What a method may learn from: every building of a chip set, and which of them are positive.

    Attributes:
        building_ids: [N], in the order of the chip set.
        is_positive: bool [N]. Everything else is unlabeled.
        is_not_damaged: bool [N]; buildings an analyst called not damaged (unlabeled for PU methods).
        is_excluded: bool [N]; not assessable, or answered in an audit alone: not trained on.
        at_event: number of the last label event that was taken into account.
        is_queued: bool [N]; those of the positives that the queue put before the analyst. None: the analyst found all.
    """

    building_ids: Sequence[str]
    is_positive: NDArray[np.bool_]
    is_not_damaged: NDArray[np.bool_]
    is_excluded: NDArray[np.bool_]
    at_event: int
    is_queued: NDArray[np.bool_] | None = None

    @property
    def is_open(self) -> NDArray[np.bool_]:
        """Which buildings nobody has answered, bool [N]."""
        return ~(self.is_positive | self.is_not_damaged | self.is_excluded)

    def without(self, is_hidden: NDArray[np.bool_]) -> PUSet:
        """Return the same set with some buildings, bool [N], left out: their chips show nothing to learn from."""
        return replace(
            self,
            is_positive=self.is_positive & ~is_hidden,
            is_not_damaged=self.is_not_damaged & ~is_hidden,
            is_excluded=self.is_excluded | is_hidden,
        )


@dataclass(frozen=True)
class RunFacts:
    """What never changes about a finished run. Its arrays are in `runs/<run_id>/`.

    Attributes:
        score_type: enum of the export schema: "pu_probability" or "linear".
        threshold: where to start looking, 0..1, from positives and unlabeled alone; not calibrated.
        warnings: what a person should know before trusting the run, one sentence each.
        start_k: how many of the unlabeled `threshold` flags, as a starting point and no estimate; None where it came from
            elsewhere.
        from_model: where a model that was trained elsewhere gave the scores: {"file", "sha256", "run_id", "at_event",
            "n_positive"} of its training. Then `n_positive` and `at_event` tell of labels that nothing was learned from.
        place: whether evidence from place is in the scores: {"used", "weight", "b", "m", "why_not"}, see
            `analysis.place.PlaceEvidence`; None of a method that has none. Where it is used, the run's array `scores_alone`
            has the scores without.
        judgement: what held-out clicks say, as `analysis.pu_criterion.Judgement.as_mapping` gives it: {"n_held_out",
            "recall", "share_called", "criterion", "low", "high", "threshold", "n_called"}; None without held-out clicks.
            These are not among `n_positive`.
        evidence: where clicks stand that were held out, as `analysis.ranking_evidence.facts_of` gives it:
            {"n_clicks", "place", "low", "high", "lowest", "is_weak"}; None where none was.
        feature_set: the frozen features that it learned from, see `store.feature_sets`.
        feature_maker: what its maker is, as `facts()` gives it: {"kind"}, and for weights from a file "name", "sha256",
            "licence". "averaged": further sets that were tried, {"feature_set", "feature_maker", "is_used"} each: the scores
            are the average of the rankings by those used.
        views: names of the named views that it learned from, such as "pre+post" and "sar-post"; () where these are not
            known, or it learned from pre and post alone.
        types: damage types that it scores one by one, in the order of its array `type_scores`; () where it scores none.
        types_from: where these were learned from, as a training was asked; None without.
        is_ordinal: whether they are a scale, of which no score is above the one before it.
        federation: of a model that several projects trained: {"title", "noise": kind}; None of any other. Then `n_positive`
            and `n_unlabeled` are of the classes that this project held.
        type_grades: ids of the project's grades that the types are, "at least" each; () where they are others, or are not
            known.
    """

    method: str
    preset: str
    chip_set: str
    at_event: int
    n_positive: int
    n_unlabeled: int
    score_type: str
    threshold: float
    run_id: str = ""
    created_at: str = ""
    seconds: float = 0.0
    seed: int = 0
    settings: Mapping[str, object] = field(default_factory=dict)
    device: str = "cpu"
    start_k: int | None = None
    warnings: tuple[str, ...] = ()
    versions: Mapping[str, str] = field(default_factory=dict)
    from_model: Mapping[str, object] | None = None
    judgement: Mapping[str, object] | None = None
    place: Mapping[str, object] | None = None
    evidence: Mapping[str, object] | None = None
    n_accepted: int = 0  # of accepted clusters, learned from as positives; not among `n_positive`
    n_hidden: int = 0  # whose chips show nothing to learn from; not among `n_unlabeled`
    without_answers: tuple[int, ...] = ()  # look groups without evidence, see `assessability.groups_without_answers`
    feature_set: str = "rcf"
    feature_maker: Mapping[str, object] = field(default_factory=lambda: {"kind": "rcf"})
    types: tuple[str, ...] = ()
    types_from: str | None = None
    is_ordinal: bool = False
    type_grades: tuple[str, ...] = ()
    views: tuple[str, ...] = ()
    federation: Mapping[str, object] | None = None


@dataclass(frozen=True)
class FeatureRequest:
    """Which frozen features to make of the chips of a project, see `features.bank.fit_maker`.

    Attributes:
        maker: "rcf", "shared", "layers", "self-supervised", or "backbone".
        backbone: folder or file of a network that others have trained, see `features.weights`; "" for another maker.
        pool: how the places of a chip become one vector: their "mean", the class token "cls", or those of the "footprint".
        layer: name of the layer that is read, or "last"; "" for the maker's own.
        size_px: side in pixels to which chips are scaled before; 0 for the maker's own.
        dates: "both" joins [pre, post, post - pre], "diff" is the difference alone, "post" the post chip alone; of "shared",
            "both" are filters over both dates.
        licence: of the weights, in the user's words; it is written wherever they are used.
        n_views: views per chip, the chip as it was cut included.
        layers: of the maker "layers", one bank of filters each: "pre", "post", a layer's name, or several of them joined by
            +.
    """

    maker: str = "rcf"
    backbone: str = ""
    pool: Literal["mean", "cls", "footprint"] = "mean"
    layer: str = ""
    size_px: int = 0
    dates: Literal["both", "diff", "post"] = "both"
    licence: str = ""
    n_views: int = 17
    layers: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "layers", tuple(self.layers))  # a job's arguments are JSON, which knows lists alone


@dataclass(frozen=True)
class DamageMap:
    """All that an exporter needs: one row per building, and where it came from.

    Attributes:
        building_ids: [N].
        wkb: [N], project CRS.
        columns: field name of the export schema -> list or array of length N; None means null.
        grid_crs: CRS of `wkb`, "EPSG:n" or WKT.
        metadata: the foreign member `pu_geo`.
    """

    building_ids: Sequence[str]
    wkb: Sequence[bytes]
    columns: Mapping[str, Sequence[object]]
    grid_crs: str
    metadata: Mapping[str, object]

    @property
    def units(self) -> Units:
        """Return what the rows are."""
        n = len(self.building_ids)
        sources, attributes = (self.columns.get(name) for name in ("source_footprint", "source_attributes"))
        return Units.of(sources or [None] * n, attributes or [None] * n)
