"""The doors for files of other people: each is read in a child process with limits, and comes back as a record or a refusal.

They answer as the functions of the same names in `scene_files` and `footprints` do, which the child calls. A file that ends
the child is refused in the same words as one that is damaged.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np

from pu_geo.errors import FootprintError, ImageryError, PuGeoError
from pu_geo.geo.child_process import Answer, Limits, ReaderEnded, ask, ask_each
from pu_geo.geo.readers.file_kinds import is_vector, regular_file
from pu_geo.geo.readers.raw_footprints import broken
from pu_geo.geo.readers.xbd import XbdPlace
from pu_geo.records import BandTriple, FootprintTable, Grid, LayerKind, Scene, scene_of

GIB = 1024**3
FOOTPRINTS = Limits(180.0, 120, 4 * GIB, 3 * GIB, 1 * GIB)  # 100,000 buildings take under 0.6 GiB of memory
SCENES = Limits(180.0, 120, 4 * GIB, 1 * GIB, 1_000_000)
SLOWEST_DISK, SLOWEST_SEARCH = 10_000_000, 5_000_000  # bytes a second of a network disk, and of decoding a scene
MAX_TOGETHER, MAX_TOGETHER_BYTES = 64, 200_000_000  # scenes that share a child
MAX_LABELS = 64  # xBD label files that do
_ARRAYS: Mapping[str, type[np.generic]] = {"area_m2": np.float64, "is_repaired": np.bool_, "feature": np.int64}


def describe_each(
    paths: Sequence[Path | str], *, bands: BandTriple | None = None, crs: str | None = None, pixel_m: float | None = None
) -> Iterator[Scene]:
    """Check files from end to end and describe them in turn, small ones by one child together; see `scene_files.describe`.

    Their `role` is "post" and their `scene_id` "" for now.

    Raises:
        ImageryError: its refusal, when it comes to a file that cannot be a scene; kind "timeout" or "size" where a limit
            ended the child, "corrupt" where it broke.
    """
    arguments = {"role": "post", "scene_id": "", "bands": bands, "crs": crs, "pixel_m": pixel_m}
    yield from _describe("scene", paths, arguments)


def describe_layers(
    paths: Sequence[Path | str], kind: LayerKind, *, nodata: float | None = None, crs: str | None = None,
    pixel_m: float | None = None,
) -> Iterator[Scene]:  # fmt: skip
    """Describe files of a layer in turn, as `describe_each` does; see `scene_files.describe_layer`."""
    # JSON has no NaN; a float32 layer is without data wherever it is one.
    given = None if nodata is None or math.isnan(nodata) else nodata
    yield from _describe("layer", paths, {"kind": kind, "nodata": given, "crs": crs, "pixel_m": pixel_m})


def _describe(reader: str, paths: Sequence[Path | str], arguments: Mapping[str, object]) -> Iterator[Scene]:
    """Describe files by a reader of `child_process`, small ones by one child together."""
    reals = [regular_file(path, ImageryError) for path in paths]
    for some in _in_groups(reals):
        limits = _for_scenes(sum(path.stat().st_size for path in some))
        for path, answer in zip(some, ask_each(reader, some, [arguments] * len(some), limits), strict=False):
            if isinstance(answer, Answer):
                yield scene_of({**answer.values, "path": str(path)})
            else:
                raise _scene_ended(path.name, answer) if isinstance(answer, ReaderEnded) else answer


def _in_groups(paths: Sequence[Path]) -> Iterator[list[Path]]:
    """Cut a list of files into runs of at most 64 files and 200 MB; a larger file is a run of its own."""
    group: list[Path] = []
    for path in paths:
        together = sum(other.stat().st_size for other in (*group, path))
        if group and (len(group) == MAX_TOGETHER or together > MAX_TOGETHER_BYTES):
            yield group
            group = []
        group.append(path)
    yield from [group] if group else []


def _for_scenes(n_bytes: int) -> Limits:
    """Return the limits for checking scenes of so many bytes: each is read twice, for its hash and in search of data."""
    return replace(
        SCENES,
        seconds=SCENES.seconds + n_bytes / SLOWEST_DISK + n_bytes / SLOWEST_SEARCH,
        cpu_seconds=SCENES.cpu_seconds + n_bytes // SLOWEST_SEARCH,
    )


def _scene_ended(name: str, ended: ReaderEnded) -> ImageryError:
    again = "gdal_translate -co TILED=YES -co COMPRESS=DEFLATE in.tif out.tif"
    needs = f"{name} needs more memory to be checked than a scene may take ({SCENES.memory_bytes / GIB:g} GB)."
    damaged = f"{name} is damaged and cannot be decoded ({ended.last_words})."
    problem, hint, kind = {
        "timeout": (f"Checking {name} was stopped: {ended.last_words}.", f"Rewrite it: {again}", "timeout"),
        "size": (needs, f"Rewrite it in tiles: {again}", "size"),
    }.get(ended.kind, (damaged, "Download or export the file again.", "corrupt"))
    return ImageryError(problem, hint, kind=kind)


def read_footprints(path: Path | str, grid: Grid, *, crs: str | None = None, are_buildings: bool = True) -> FootprintTable:
    """Read the footprints of a file that lie on the project grid; see `footprints.read_footprints`.

    Raises:
        FootprintError: its refusal; kind "timeout" or "size" where a limit ended the child, "parse" where it broke.
    """
    return _table(_ask_footprints("footprints", path, {"grid": asdict(grid), "crs": crs, "are_buildings": are_buildings}))


def read_xbd_footprints(labels: Sequence[Path], name: str, grid: Grid) -> FootprintTable:
    """Read the buildings of xBD label files, at least one, as one table; `name` is what messages call them.

    Raises:
        FootprintError: as `read_footprints`.
    """
    arguments = {"labels": [str(path.absolute()) for path in labels], "name": name, "grid": asdict(grid)}
    limits = replace(FOOTPRINTS, seconds=FOOTPRINTS.seconds + len(labels), cpu_seconds=FOOTPRINTS.cpu_seconds + len(labels))
    try:
        return _table(ask("xbd_footprints", labels[0].parent.absolute(), arguments, limits))
    except ReaderEnded as ended:
        raise _footprints_ended(name, ended) from ended


def place_each(labels: Sequence[Path], names: Sequence[str]) -> Iterator[XbdPlace | ImageryError]:
    """Fit the places of xBD pictures, called `names`, to their labels in turn; see `xbd.place_of`. Refusals are handed
    out.
    """
    for start in range(0, len(labels), MAX_LABELS):
        some = [path.absolute() for path in labels[start : start + MAX_LABELS]]
        arguments = [{"name": name} for name in names[start : start + MAX_LABELS]]
        found = ask_each("xbd_place", some, arguments, FOOTPRINTS)
        for answer, about in zip(found, arguments, strict=False):
            if isinstance(answer, Answer):
                yield XbdPlace(**{**answer.values, "transform": tuple(answer.values["transform"])})  # type: ignore[arg-type]
            elif isinstance(answer, ReaderEnded):
                raise _scene_ended(about["name"], answer)
            elif isinstance(answer, ImageryError):
                yield answer
            else:
                raise answer


def _table(answer: Answer) -> FootprintTable:
    """Make a table of what JSON has, which knows lists for arrays and tuples."""
    values: Mapping[str, Any] = answer.values
    arrays = {name: np.array(values[name], dtype) for name, dtype in _ARRAYS.items() if values[name] is not None}
    return FootprintTable(
        **{**values, **arrays, "notes": tuple(values["notes"]), "doubts": tuple(values["doubts"]), "wkb": answer.blobs}
    )


def describe_footprints(path: Path | str) -> str:
    """Check a footprint file without a grid and return in one line what it holds; refusals as in `read_footprints`."""
    return str(_ask_footprints("summary", path, {}).values["text"])


def _ask_footprints(reader: str, path: Path | str, arguments: Mapping[str, object]) -> Answer:
    regular_file(path, FootprintError)  # an address is refused here
    given = Path(path).absolute()
    try:
        return ask(reader, given, arguments, FOOTPRINTS)
    except ReaderEnded as ended:
        raise _footprints_ended(given.name, ended) from ended


def _footprints_ended(name: str, ended: ReaderEnded) -> FootprintError:
    if ended.kind == "crash":
        return broken(name, f"it is damaged ({ended.last_words})")
    if ended.kind == "size":
        return broken(
            name, "it needs more memory than a footprint file may take", "Cut it to the area of the scenes.", "size"
        )
    hint = "Cut it to the area of the scenes, or save it as GeoPackage."
    return broken(name, f"reading took too long ({ended.last_words})", hint, "timeout")


def inspect_file(path: Path | str) -> Mapping[str, object]:
    """Return whether a file could be used as a scene or as footprints; never raises for a file of any content.

    Returns:
        {"file", "ok", "kind", "problem", "hint"}. `kind` is "raster" or "vector" when ok, else the kind of refusal;
        `problem` and `hint` are then whole sentences, otherwise a one-line description, and a warning or "".
    """
    name = str(path)
    try:
        if is_vector(regular_file(path, ImageryError)):
            return {"file": name, "ok": True, "kind": "vector", "problem": describe_footprints(path), "hint": ""}
        (scene,) = describe_each([path])
    except PuGeoError as refusal:
        return {"file": name, "ok": False, "kind": refusal.kind, "problem": refusal.problem, "hint": refusal.hint}
    doubts = [words[:1].upper() + words[1:] for _, words in scene.notes]
    size = f"{scene.width} x {scene.height} pixels of {scene.gsd_m:.3g} m"
    found = f"{size}, {scene.bands} bands {scene.dtype}, {scene.crs[:40]}"
    return {"file": name, "ok": True, "kind": "raster", "problem": found, "hint": " ".join(doubts)}
