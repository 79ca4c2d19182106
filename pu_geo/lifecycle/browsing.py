"""Folders and files of this machine for the file picker: below a few roots alone, whatever links lead elsewhere."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from pu_geo.errors import PuGeoError
from pu_geo.files import write_file
from pu_geo.store.layout import SUFFIX, home

ROOTS_VARIABLE = "PU_GEO_ROOTS"
MEDIA = ("/media", "/mnt", "/run/media", "/Volumes")
MOST_BELOW = 600
_HOME, _PROJECTS, _HERE = "Home", "Projects", "Working folder"
Kind = Literal["scenes", "vectors", "projects", "folders", "federation"]
PICTURES = ("tif", "tiff", "png", "jpg", "jpeg")
VECTORS = ("geojson", "json", "gpkg", "zip", "shp", "fgb", "parquet", "geoparquet", "csv")
_ENDINGS: Mapping[Kind, tuple[str, ...]] = {
    "scenes": PICTURES,
    "vectors": VECTORS,
    "projects": (),
    "folders": (),
    "federation": ("json",),
}


@dataclass(frozen=True)
class Place:
    """A folder or a file as it is shown: its name, and its absolute path."""

    name: str
    path: Path


@dataclass(frozen=True)
class Listing:
    """What a folder holds.

    Attributes:
        way: from the root down to the folder itself.
        folders, files: those that fit the filter, in the order in which people count: b2 before b10.
        problem: why nothing can be shown; "" where it can.
    """

    way: Sequence[Place]
    folders: Sequence[Place] = ()
    files: Sequence[Place] = ()
    problem: str = ""


def roots() -> list[Place]:
    """Return the folders below which files may be picked: $PU_GEO_ROOTS, home, that of projects, the working one, drives.

    One that is not there, is the same as an earlier one, or has nothing to show is left out; so is "/" where nobody named it
    in $PU_GEO_ROOTS: as working folder, or as home of a container, it would show the whole machine.
    """
    more = [Path(part).expanduser() for part in os.environ.get(ROOTS_VARIABLE, "").split(os.pathsep) if part.strip()]
    named = [Place(_name(path), path) for path in more]
    usual = [Place(_HOME, Path.home()), Place(_PROJECTS, home()), Place(_HERE, Path.cwd())]
    drives = [str(path) for one in MEDIA for depth in ("*", "*/*") for path in Path(one).glob(depth) if path.is_mount()]
    usual += [Place(path, Path(path)) for path in (*drives, *MEDIA) if _holds_anything(path)]
    found: dict[Path, Place] = {}
    for place in [*named, *usual]:
        real = _resolved(place.path)
        if real is None or not real.is_dir() or (real == real.parent and place not in named):
            continue
        found.setdefault(real, Place(place.name, real))
    return list(found.values())


def _holds_anything(path: str) -> bool:
    try:
        with os.scandir(path) as entries:
            return any(not entry.name.startswith(".") for entry in entries)
    except OSError:
        return False


def _name(path: Path) -> str:
    return path.name or str(path)


def _resolved(path: Path) -> Path | None:
    """Return where a path leads once all links are followed; None where it leads nowhere."""
    try:
        return path.resolve(strict=True)
    except (OSError, RuntimeError, ValueError):  # a loop of links is either of the first two
        return None


def allowed(path: Path, below: Sequence[Place] = ()) -> Path:
    """Return where a path leads, all links followed.

    Args:
        below: the roots, where they are known already.

    Raises:
        PuGeoError: if it is not there, or leads out of the roots, or to something hidden.
    """
    real = _resolved(path)
    if real is None:
        raise PuGeoError(f"{path.name or path} is not there any more.", "Choose another folder or file.", kind="missing")
    if _root_of(real, below or roots()) is None:
        raise PuGeoError(
            f"{path.name or path} is outside the folders that can be browsed.",
            f"Paste the path of a file into the field of its screen. Or allow the folder when you start PU-Geo: "
            f"{ROOTS_VARIABLE}={real} pu-geo app.",
            kind="outside",
        )
    return real


def _root_of(real: Path, below: Sequence[Place]) -> Place | None:
    """Return the nearest root above a path without links; None where there is none, or something hidden is between."""
    above = [root for root in below if real.is_relative_to(root.path)]
    open_ones = [root for root in above if not any(part.startswith(".") for part in real.relative_to(root.path).parts)]
    return max(open_ones, key=lambda root: len(root.path.parts), default=None)


def _memory(kind: Kind) -> Path:
    """Return the file that keeps where somebody was last; projects are kept elsewhere than imagery."""
    return home() / f"last-folder-{'of-projects' if kind == 'projects' else 'of-files'}.txt"


def remember(kind: Kind, folder: Path) -> None:
    """Keep a folder as the one that pickers of its kind open with, also after a restart, where home can be written to."""
    with suppress(OSError, ValueError):
        write_file(_memory(kind), str(folder).encode())


def first_folder(kind: Kind) -> Path:
    """Return the folder that the picker opens with: where somebody was last, else for projects where new ones are kept, else
    the first root.
    """
    with suppress(OSError, ValueError, PuGeoError):
        if (last := allowed(Path(_memory(kind).read_text(encoding="utf-8")))).is_dir():
            return last
    known = [root.path for root in roots() if kind != "projects" or root.name == _PROJECTS]
    return known[0] if known else Path.cwd()


def browse(folder: Path, kind: Kind, *, filter: str = "") -> Listing:
    """List a folder below one of the roots; what is hidden, and what leads out of the roots, is not listed.

    Args:
        filter: part of the names to show, in any case; all if empty.

    Raises:
        PuGeoError: as `allowed`.
    """
    known = roots()
    real = allowed(folder, known)
    root = _root_of(real, known)
    assert root is not None  # `allowed` has found one
    parts = real.relative_to(root.path).parts
    way = [root, *(Place(part, root.path.joinpath(*parts[: i + 1])) for i, part in enumerate(parts))]
    try:
        with os.scandir(real) as entries:
            fitting = list(_fitting(entries, filter.strip().lower()))
    except OSError as error:
        return Listing(way, problem=f"{_name(real)} cannot be read: {error.strerror or error}.")
    return Listing(way, *_sorted_out(fitting, kind, known))


def below(folder: Path, kind: Kind, *, filter: str = "") -> list[Place]:
    """Return what can be picked in a folder and all folders below it.

    Args:
        filter: part of the names of the files, in any case; all if empty.

    Raises:
        PuGeoError: as `allowed`, and if there are more than `MOST_BELOW` folders.
    """
    files, folders = list[Place](), [folder]
    for one in folders:  # they become more meanwhile
        found = browse(one, kind)
        files += [file for file in found.files if filter.lower() in file.name.lower()]
        folders += [each.path for each in found.folders]
        if len(folders) > MOST_BELOW:
            raise PuGeoError(f"There are more than {MOST_BELOW} folders below {_name(folder)}.", "Go into one of them.")
    return files


def _fitting(entries: Iterator[os.DirEntry[str]], wanted: str) -> Iterator[os.DirEntry[str]]:
    named = (entry for entry in entries if entry.name == entry.name.encode(errors="replace").decode())  # a name in UTF-8
    return (entry for entry in named if not entry.name.startswith(".") and wanted in entry.name.lower())


def _sorted_out(entries: Sequence[os.DirEntry[str]], kind: Kind, below: Sequence[Place]) -> tuple[list[Place], list[Place]]:
    """Return the folders to go into and what can be picked, each in the order in which people count."""
    folders, files = [], []
    for entry in sorted(entries, key=lambda entry: _in_order(entry.name)):
        try:
            place = Place(entry.name, allowed(Path(entry.path), below) if entry.is_symlink() else Path(entry.path))
            is_folder, is_file = entry.is_dir(), entry.is_file()
        except (OSError, PuGeoError):  # gone meanwhile, or a link that leads out
            continue
        is_project = is_folder and place.path.suffix == SUFFIX
        if is_project and kind == "projects":
            files.append(place)
        elif is_folder and not is_project:
            folders.append(place)
        elif is_file and entry.name.lower().rpartition(".")[2] in _ENDINGS[kind]:
            files.append(place)
    return folders, files


def _in_order(name: str) -> list[tuple[bool, int, str]]:
    """Return a key by which b2 comes before b10, and B2 beside b2."""
    return [(not part.isdecimal(), int(part) if part.isdecimal() else 0, part) for part in re.split(r"(\d+)", name.lower())]


def picked(paths: Sequence[str], kind: Kind) -> list[str]:
    """Return the paths that a person picked, all links followed, after they were checked once more.

    Raises:
        PuGeoError: as `allowed`.
    """
    found = [allowed(Path(path)) for path in paths]
    wants_folder = kind in ("projects", "folders")
    for path in found:
        if path.is_dir() != wants_folder:
            raise PuGeoError(
                f"{path.name} is {'a file' if wants_folder else 'a folder'}.", "Choose another one.", kind="missing"
            )
    return [str(path) for path in found]
