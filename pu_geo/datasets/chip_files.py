"""Data sets of small pictures: any folder or zip file of chips, ABCD, and xBD as NcPU uses it, one crop a building."""

from __future__ import annotations

import csv
import io
import math
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path, PurePosixPath

import cv2
import numpy as np
import orjson
import shapely
from numpy.typing import NDArray

from pu_geo.datasets.classified import ClassifiedChips, as_chip
from pu_geo.errors import DatasetError, ImageryError, PuGeoError
from pu_geo.geo.chips import chip_windows, whole_pixels
from pu_geo.geo.raster.guard import GDAL_ERRORS, gdal_env, quiet_open
from pu_geo.geo.readers import xbd
from pu_geo.geo.readers.file_kinds import regular_file, scene_driver
from pu_geo.records import Grid

_UNREADABLE = (KeyError, ValueError, OSError, RuntimeError, zlib.error, zipfile.BadZipFile)  # RuntimeError: a password
PICTURES = (".jpeg", ".jpg", ".png")
MAX_PICTURE_BYTES, MAX_SIDE_PX = 20_000_000, 4096
PLACE_DEGREES = 0.01  # chips within about a kilometer count as one place
ABCD = ("surviving", "washed-away")
N_ABCD_TEST_FOLDS = 2  # of five: 3,377 chips, as NcPU, Table 4, tests on
SUBTYPES = ("no-damage", "minor-damage", "major-damage", "destroyed")
PARTS = ("train", "tier1", "tier3", "test", "hold")
_PIXELS = Grid("", "", (1.0, 0.0, 0.0, 0.0, 1.0, 0.0), 1024, 1024, 1.0, 1.0, 1.0)  # of a picture, row 0 above


def read_chips(path: Path, size_px: int = 64) -> ClassifiedChips:
    """Read a folder, or a zip file of one, that holds chips as PNG or JPEG pictures.

    Either index.csv gives each chip's `path` and `label`, and optionally its `lon` and `lat` in degrees, from which
    places are made, and `split` ("test" or else); or the name of the folder that a chip lies in is its class, and there is
    neither place nor test set.

    Args:
        size_px: side that all chips are brought to.

    Returns:
        chips [N, 3, size_px, size_px].

    Raises:
        DatasetError: kind "missing" or "corrupt", or "link" where a path leads outside.
    """
    with _opened(path) as root:
        index = _index(root)
        chips = np.empty((len(index), 3, size_px, size_px), np.uint8)
        for row, out in zip(index, chips, strict=True):
            out[:] = _picture(_read(root, row["path"]), row["path"], size_px)
    names = tuple(sorted({row["label"] for row in index}))
    classes = np.array([names.index(row["label"]) for row in index], np.int64)
    is_test = np.array([row.get("split") == "test" for row in index], np.bool_)
    return ClassifiedChips(chips, classes, names, is_test, _places(index))


def read_abcd(folder: Path) -> ClassifiedChips:
    """Read one scale of ABCD: pre and post pairs, six bands; folds 1 and 2 are for testing.

    Source: Fujita et al. 2017, "Damage Detection from Aerial Images via Convolutional Neural Networks".

    Args:
        folder: `resized` (128 x 128 px) or `fixed-scale` (160 x 160 px); holds patch-pairs/ and 5fold-list/.

    Raises:
        DatasetError: kind "missing" or "corrupt".
    """
    folds: dict[str, tuple[int, int]] = {}
    for fold in range(1, 6):
        listed = folder / "5fold-list" / f"cv{fold}-test.csv"
        if not listed.is_file():
            raise DatasetError(f"{folder} does not hold 5fold-list/{listed.name}.", "Choose ABCD's folder `resized`.",
                               kind="missing")  # fmt: skip
        for line in csv.reader(listed.read_text(encoding="utf-8").splitlines()):
            if len(line) != 2 or line[1].strip() not in ("0", "1"):
                raise _corrupt(f"{listed.name} has a line {line!r}; it must be NAME,0 or NAME,1")
            folds[line[0].strip()] = (int(line[1]), fold)
    names = sorted(folds)
    chips = np.stack([_pair(folder / "patch-pairs" / PurePosixPath(name).name) for name in names])
    classes, of_fold = np.array([folds[name] for name in names], np.int64).T
    return ClassifiedChips(chips, np.ascontiguousarray(classes), ABCD, of_fold <= N_ABCD_TEST_FOLDS)


def _pair(path: Path) -> NDArray[np.uint8]:
    try:
        real = regular_file(path, ImageryError)
        with gdal_env(), quiet_open(real, scene_driver(real)) as source:
            if source.count != 6 or set(source.dtypes) != {"uint8"} or max(source.shape) > MAX_SIDE_PX:
                raise _corrupt(f"{path.name} has {source.count} bands; pairs have 6 of 8 bits")
            return np.asarray(source.read())
    except (ImageryError, *GDAL_ERRORS) as cause:
        words = cause.problem if isinstance(cause, PuGeoError) else str(cause)
        raise _corrupt(f"{path.name} cannot be read: {words.rstrip('.')}") from cause


@contextmanager
def _opened(path: Path) -> Iterator[Path | zipfile.ZipFile]:
    """Yield a folder, or a zip file for reading; no `zipfile.Path`, which names like "/" can hang before Python 3.11.10."""
    if not path.exists():
        raise DatasetError(f"{path} does not exist.", "Check the path.", kind="missing")
    if path.is_dir():
        yield path.resolve()
        return
    try:
        pack = zipfile.ZipFile(path)
    except (zipfile.BadZipFile, OSError) as cause:
        raise DatasetError(f"{path.name} is no zip file.", "Choose a zip file or a folder.", kind="corrupt") from cause
    with pack:
        yield pack


def _index(root: Path | zipfile.ZipFile) -> Sequence[dict[str, str]]:
    """Return a row for each chip: as in index.csv, or its path and the name of its folder."""
    names = (
        [path.relative_to(root).as_posix() for path in root.rglob("*") if path.is_file()]
        if isinstance(root, Path)
        else root.namelist()
    )
    if "index.csv" in names:
        rows = _read_index(_read(root, "index.csv").decode("utf-8-sig", errors="replace"))
    else:
        found = [PurePosixPath(name) for name in sorted(set(names)) if name.lower().endswith(PICTURES)]
        own = [name for name in found if name.parent.name and not name.name.startswith("._")]  # not macOS's
        rows = [{"path": str(name), "label": name.parent.name} for name in own]
    if not rows:
        raise DatasetError(f"{_name_of(root)} holds no chips in folders named after their class.",
                           "Put PNG or JPEG chips into one folder per class.", kind="missing")  # fmt: skip
    return rows


def _read(root: Path | zipfile.ZipFile, name: str) -> bytes:
    """Read one file, at most 20 MB (index.csv too); nothing outside of the folder."""
    try:
        if isinstance(root, Path) and not (root / name).resolve(strict=True).is_relative_to(root):
            raise DatasetError(f"{name} lies outside {root.name}.", "Correct index.csv.", kind="link")
        with (root / name).open("rb") if isinstance(root, Path) else root.open(name) as stream:
            return stream.read(MAX_PICTURE_BYTES)
    except _UNREADABLE as cause:
        raise _corrupt(f"{name} of {_name_of(root)} cannot be read: {cause}") from cause


def _corrupt(problem: str) -> DatasetError:
    return DatasetError(f"{problem}.", "Download it again.", kind="corrupt")


def _name_of(root: Path | zipfile.ZipFile) -> str:
    return root.name if isinstance(root, Path) else Path(str(root.filename)).name


def _read_index(text: str) -> list[dict[str, str]]:
    try:
        reader = csv.DictReader(io.StringIO(text))
        rows = [{key: value or "" for key, value in row.items() if isinstance(key, str)} for row in reader]
    except csv.Error as cause:
        raise DatasetError(f"index.csv cannot be read: {cause}.", "Export it again.", kind="corrupt") from cause
    if not {"path", "label"} <= set(reader.fieldnames or ()) or not all(row["label"].strip() for row in rows):
        raise DatasetError("index.csv lacks a column path or label, or a chip's label.", "Add them.", kind="corrupt")
    return rows


def _picture(data: bytes, name: str, size_px: int) -> NDArray[np.uint8]:
    """Decode a picture and bring it to size, uint8 [3, size_px, size_px], red first."""
    try:
        picture = cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_COLOR) if data else None
    except cv2.error:
        picture = None
    if picture is None or max(picture.shape[:2]) > MAX_SIDE_PX:
        raise _corrupt(f"{name} is no picture that can be read")
    return as_chip(np.asarray(picture, np.uint8), size_px)


def _places(index: Sequence[dict[str, str]]) -> NDArray[np.int64] | None:
    """Number the squares of 0.01 degrees that chips lie in, int64 [N]; None where a chip has no lon and lat."""
    try:
        lonlat = np.array([[float(row["lon"]), float(row["lat"])] for row in index])
    except (KeyError, ValueError):
        return None
    if not all(math.isfinite(value) for value in lonlat.ravel()):
        return None
    _, place = np.unique(np.floor(lonlat / PLACE_DEGREES), axis=0, return_inverse=True)
    return place.ravel().astype(np.int64)


def read_xbd(folder: Path, size_px: int = 64) -> ClassifiedChips:
    """Cut every classified building out of the post pictures of xBD.

    Source: NcPU, Appendix D: bounding rectangle of the outline buffered by 0.5 times its size.

    Args:
        folder: holds images/ and labels/, or any of train/, tier1/, tier3/, test/ and hold/ which do; test/ is for testing.

    Returns:
        chips [N, 3, size_px, size_px]; a place is a picture, since neighbors in one would leak into each other.

    Raises:
        DatasetError: kind "missing" if there is no picture with labels, "corrupt" if one cannot be read.
    """
    parts = [folder / name for name in PARTS if (folder / name).is_dir()] or [folder]
    chips, classes, place, is_test = [], [], [], []
    n_pictures = 0
    for part in parts:
        try:
            found = xbd.find_xbd(part)
        except ImageryError as cause:
            raise DatasetError(cause.problem, cause.hint, kind="missing") from cause
        for picture, labels in zip(found.post, found.labels, strict=True):
            own, damage = _crops(picture, labels, size_px)
            chips.append(own)
            classes.append(damage)
            place.append(np.full(len(damage), n_pictures))
            is_test.append(np.full(len(damage), part.name == "test"))
            n_pictures += 1
    where = np.concatenate(place).astype(np.int64)
    return ClassifiedChips(np.concatenate(chips), np.concatenate(classes), SUBTYPES, np.concatenate(is_test), where)


def _crops(picture: Path, labels: Path, size_px: int) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Return the buildings of one picture, uint8 [K, 3, size_px, size_px], and the class of each; un-classified ones not."""
    try:
        rows = orjson.loads(labels.read_bytes())["features"]["xy"]
        known = [row for row in rows if row["properties"].get("subtype") in SUBTYPES]
        outlines = shapely.to_wkb(shapely.from_wkt([row["wkt"] for row in known]))
        damage = np.array([SUBTYPES.index(row["properties"]["subtype"]) for row in known], np.int64)
    except (orjson.JSONDecodeError, KeyError, TypeError, AttributeError, shapely.errors.GEOSException, OSError) as cause:
        raise _corrupt(f"{labels.name} is no label file of xBD ({type(cause).__name__})") from cause
    chips = np.empty((len(known), 3, size_px, size_px), np.uint8)
    if not known:
        return chips, damage
    pixels = cv2.imread(str(picture), cv2.IMREAD_COLOR)
    if pixels is None:
        raise _corrupt(f"{picture.name} cannot be decoded")
    boxes = whole_pixels(chip_windows([bytes(one) for one in outlines], _PIXELS))
    height, width = pixels.shape[:2]
    for (left, top, right, bottom), out in zip(boxes.tolist(), chips, strict=True):
        columns = np.clip(np.arange(left, right), 0, width - 1)  # buildings at the border overshoot it by a fraction
        out[:] = as_chip(np.asarray(pixels[np.clip(np.arange(top, bottom), 0, height - 1)][:, columns], np.uint8), size_px)
    return chips, damage
