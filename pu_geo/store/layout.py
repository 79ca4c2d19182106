"""Where each file of a project is, and how its arrays and small JSON files are written and read."""

from __future__ import annotations

import hashlib
import json
import os
import re
import tokenize
import zipfile
import zlib
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import DTypeLike, NDArray

from pu_geo.errors import OutOfReach, ProjectError, PuGeoError, printable
from pu_geo.files import HOME_VARIABLE as HOME_VARIABLE
from pu_geo.files import SUFFIX as SUFFIX
from pu_geo.files import atomic_write, checked, reserve
from pu_geo.files import home as home
from pu_geo.files import sha256_of as sha256_of

JOURNAL = "labels.jsonl"
RCF = "rcf"  # the feature set that comes with every chip set; its files have names without it
SHARED = "shared"  # the maker of features whose filters are the same everywhere and hold no imagery
SHARDS = "shards"  # folder in that of a job: what workers of a cluster have finished
LAYERS = "layers"  # the maker of features with a bank of filters for each layer
_MOST_ARRAYS = 2**30  # bytes of a .npz file once they are unpacked; filters of seven layers take 100 MB
_ID = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")


@dataclass(frozen=True)
class Layout:
    """The paths inside one `<name>.pugeo` folder, each handed out once it is sure that it leads nowhere else; see
    `files.checked`.
    """

    folder: Path

    @property
    def gpkg(self) -> Path:
        return self.path("project.gpkg")

    @property
    def journal(self) -> Path:
        """Every label event, from which what a backup lacks is put in again; see `journal`."""
        return self.path(JOURNAL)

    def path(self, *parts: str) -> Path:
        """Return a path in the folder.

        Raises:
            OutOfReach: if a part of it is a link, or neither a file nor a folder.
        """
        path = self.folder.joinpath(*parts)
        if not path.is_relative_to(self.folder):
            raise OutOfReach(f"{printable(path)} is not in {self.folder.name}.", "PU-Geo writes no such path.", kind="link")
        return checked(path)

    @property
    def quicklooks(self) -> Path:
        return self.path("quicklooks")

    def outlines(self, geometry_v: str) -> Path:
        """Footprints in grid pixels, for the map in the browser; made anew where it is gone. `geometry_v`: see
        `contents.geometry_v`.
        """
        return self.path("quicklooks", f"outlines-{checked_id(geometry_v)}.bin")

    @property
    def jobs(self) -> Path:
        return self.path("jobs")

    @property
    def exports(self) -> Path:
        return self.path("exports")

    @property
    def trash(self) -> Path:
        """Files of what was removed, a folder a removal, until their space is reclaimed."""
        return self.path("trash")

    @property
    def backups(self) -> Path:
        return self.path("backups")

    def layer_tiles(self, layer: str) -> Path:
        return self.path("quicklooks", "layers", checked_id(layer))

    def chips(self, chip_set: str) -> Path:
        return self.path("chips", f"{checked_id(chip_set)}.npy")

    def chip_facts(self, chip_set: str) -> Path:
        return self.path("chips", f"{checked_id(chip_set)}.json")

    def features(self, chip_set: str, feature_set: str = RCF) -> Path:
        return self._of_features(chip_set, feature_set, "features.npy")

    def filters(self, chip_set: str) -> Path:
        return self.maker(chip_set, RCF)

    def maker(self, chip_set: str, feature_set: str) -> Path:
        """What makes the features of a set: `<chip_set>.filters.npz` of "rcf", `<chip_set>.<feature_set>.maker.npz` of
        others.
        """
        return self._of_features(chip_set, feature_set, "filters.npz" if feature_set == RCF else "maker.npz")

    def feature_facts(self, chip_set: str, feature_set: str) -> Path:
        return self._of_features(chip_set, feature_set, "features.json")

    def look(self, chip_set: str, feature_set: str) -> Path:
        """How buildings look by the features of a set, see `explore.looks`: made once, and anew with the features."""
        return self._of_features(chip_set, feature_set, "look.npy")

    def look_plane(self, chip_set: str, feature_set: str) -> Path:
        return self._of_features(chip_set, feature_set, "look_umap.npy")

    def look_groups(self, chip_set: str, feature_set: str) -> Path:
        return self._of_features(chip_set, feature_set, "look_groups.json")

    def look_traits(self, chip_set: str, feature_set: str) -> Path:
        return self._of_features(chip_set, feature_set, "look_traits.npy")

    def _of_features(self, chip_set: str, feature_set: str, ending: str) -> Path:
        own = "" if feature_set == RCF else f"{checked_id(feature_set)}."
        return self.path("chips", f"{checked_id(chip_set)}.{own}{ending}")

    def run(self, run_id: str) -> Path:
        return self.path("runs", checked_id(run_id))

    def discovery(self, discovery_id: str) -> Path:
        return self.path("discoveries", checked_id(discovery_id))

    def federation(self, federation_id: str) -> Path:
        return self.path("federation", checked_id(federation_id))


def checked_id(text: str) -> str:
    """Return `text` if it may stand in a file name (lowercase letters, digits, - and _).

    Raises:
        ProjectError: otherwise; so that no id ever leads out of the project folder.
    """
    if not _ID.fullmatch(text):
        raise ProjectError(
            f"{text!r} is not an id. Ids are made of lowercase letters, digits, '-' and '_'.",
            "Use an id that `pu-geo jobs` or the Train page lists.",
        )
    return text


def find_project(path: str | Path) -> Layout:
    """Return the layout of an existing project. Raises ProjectError if `path` is not a project folder."""
    try:
        folder = Path(path).expanduser().resolve()
        is_there = (folder / "project.gpkg").is_file()
    except OSError as error:
        raise ProjectError(
            f"{printable(path)} cannot be the name of a project's folder: {error.strerror}.",
            "Name the folder as it is on the disk.",
        ) from error
    if not is_there:
        raise ProjectError(
            f"{path} is not a PU-Geo project: there is no project.gpkg in it.",
            f"Name a folder that ends in {SUFFIX}, or make one: Project page, or `pu-geo init "
            f"{Path(path).stem or 'event'}{SUFFIX}`.",
        )
    if folder.suffix != SUFFIX:
        raise ProjectError(
            f"{folder} does not end in {SUFFIX}; project folders do.", f"Rename it to {folder.name}{SUFFIX}, then open it."
        )
    return Layout(folder)


class _Blocks:
    """A file that numpy can only write to block by block."""

    def __init__(self, stream: BinaryIO) -> None:
        self.write = stream.write


def write_array(path: Path, array: NDArray[np.generic]) -> None:
    """Write a .npy file atomically.

    Raises:
        OSError: if it cannot be written; its errno says why, which numpy hides for the files that it writes itself.
    """
    with atomic_write(path) as temporary, temporary.open("wb") as stream:
        np.save(_Blocks(stream), array, allow_pickle=False)


@contextmanager
def new_array(path: Path, dtype: DTypeLike, shape: tuple[int, ...]) -> Iterator[NDArray[Any]]:
    """Yield an array mapped from a file, zeros at first, that becomes the .npy file `path` once the block ends well.

    The disk gives all of its room before anything is computed.

    Raises:
        OSError: ENOSPC if the disk has no room for it.
    """
    with atomic_write(path) as temporary:
        out = np.lib.format.open_memmap(temporary, mode="w+", dtype=dtype, shape=shape)
        reserve(temporary)
        yield out
        out.flush()


def write_json(path: Path, value: object) -> None:
    """Write a small JSON file atomically."""
    with atomic_write(path) as temporary:
        temporary.write_text(json.dumps(value, indent=1, ensure_ascii=False), encoding="utf-8")


def write_facts(path: Path, facts: Mapping[str, Any], files: Iterable[Path]) -> None:
    """Write the facts of something finished, with the sha256 of its files, which are beside them or below, and of the facts
    themselves.
    """
    sums = {one.relative_to(path.parent).as_posix(): sha256_of(one) for one in files}
    told = json.loads(json.dumps({**facts, "sha256": sums}))
    write_json(path, {**told, "seal": _seal(told)})


def damage(path: Path, *, full: bool) -> list[str]:
    """Return what is missing or damaged of something finished, by the facts that `write_facts` wrote.

    Args:
        full: read every file; else of arrays their heads alone.
    """
    try:
        facts = read_json(path)
        is_whole = facts.pop("seal") == _seal(facts)
        sums = dict(facts["sha256"])
    except (ProjectError, KeyError, TypeError, AttributeError):
        return [path.name]
    wrong = [] if is_whole else [f"{path.name} (damaged)"]
    for name, sha256 in sums.items():
        file = checked(path.parent / name.lstrip("/"))
        if not file.is_file():
            wrong.append(name)
        elif not _is_whole(file, sha256 if full else None):
            wrong.append(f"{name} (damaged)")
    return wrong


def _is_whole(path: Path, sha256: str | None) -> bool:
    with suppress(OSError, ValueError, EOFError):
        if sha256 is not None:
            return sha256_of(path) == sha256
        return path.suffix != ".npy" or len(np.load(path, mmap_mode="r", allow_pickle=False).shape) > 0
    return False


def _seal(facts: object) -> str:
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()


def read_json(path: Path) -> Any:
    """Return what a JSON file of a project holds. Raises ProjectError of kind "lost" if it is missing or damaged."""
    with reading(path):
        return json.loads(path.read_text(encoding="utf-8"))


def write_arrays(path: Path, arrays: Mapping[str, NDArray[Any]]) -> None:
    """Write a .npz file atomically, without pickle; whoever reads it sees the old one or the new one."""
    with atomic_write(path) as temporary, temporary.open("wb") as stream:
        np.savez(stream, allow_pickle=False, **arrays)


def read_array(path: Path) -> NDArray[Any]:
    """Return a .npy file of a project as a read-only memory map. Raises ProjectError of kind "lost" if it is missing or
    damaged.
    """
    with reading(path):
        found: NDArray[Any] = np.load(path, mmap_mode="r", allow_pickle=False)
    return found


def read_arrays(path: Path) -> dict[str, NDArray[Any]]:
    """Return the arrays of a .npz file of a project. Raises ProjectError of kind "lost" if it is missing or damaged."""
    with reading(path), zipfile.ZipFile(path) as archive:
        if (size := sum(member.file_size for member in archive.infolist())) > _MOST_ARRAYS:
            raise ValueError(f"{size:,} bytes")
    with reading(path), np.load(path, allow_pickle=False) as arrays:
        return {name: arrays[name] for name in arrays.files}


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Raise what `lost` returns in the place of an error that means that a file of a project is missing or damaged."""
    checked(path)
    try:
        yield
    except (
        OSError, ValueError, TypeError, KeyError, EOFError, RecursionError, MemoryError, zipfile.BadZipFile, zlib.error,
        tokenize.TokenError,
    ) as error:  # fmt: skip
        raise lost(path, error) from error


def lost(path: Path, error: Exception | None = None) -> ProjectError:
    """Return the error of kind "lost" for a file of a project that is missing or damaged: its name, and what to do.

    Args:
        error: why it cannot be read; None where it is missing.
    """
    project = next((folder for folder in path.parents if folder.suffix == SUFFIX), path.parent)
    parts = path.relative_to(project).parts
    if error is None or isinstance(error, FileNotFoundError):
        state = "is missing"
    else:
        state = f"cannot be read: {error.strerror}" if isinstance(error, OSError) and error.strerror else "is damaged"
    others = {
        "runs": f"choose another run, or remove this one: `pu-geo remove {project.name} run {parts[1:2] and parts[1]}`.",
        "chips": f"cut chips again: `pu-geo chip {project.name}`.",
        JOURNAL: f"move {JOURNAL} elsewhere: a backup is restored without it then.",
        "discoveries": f"propose groups again: `pu-geo discover {project.name}`.",
        "checks": f"move {'/'.join(parts)} out of the folder: that accuracy assessment is then gone.",
        "exports": f"remove the version: `pu-geo remove {project.name} export {parts[1:2] and parts[1]}`.",
    }
    return ProjectError(
        f"The file {'/'.join(parts)} of {project.name} {state}.",
        f"Restore it from a copy of the project, or {others.get(parts[0], 'make it again.')} "
        f"`pu-geo repair doctor {project.name}` lists all that is missing.",
        kind="lost",
    )


def writable_target(path: str, error: type[PuGeoError] = PuGeoError, sources: Collection[str] = ()) -> Path:
    """Return the absolute path of a file to write, and refuse places where it would destroy something else.

    Args:
        error: raised where the place cannot be used.
        sources: absolute paths that nothing may be written to.
    """
    target = Path(path).expanduser().resolve()
    if not target.parent.is_dir():
        raise error(f"The folder {target.parent} does not exist.", "Make it first, or choose another place.")
    if target.is_dir():
        raise error(f"{target} is a folder, not a file.", "Add a file name, such as damage_map.geojson.")
    inside = next((folder for folder in target.parents if folder.suffix == SUFFIX), None)
    if str(target) in sources or (inside is not None and inside / "exports" not in target.parents):
        raise error(
            f"{target} belongs to a project or is one of its scenes; an export would replace it.",
            "Choose a file in the project's exports folder, or outside the project.",
        )
    if not os.access(target.parent, os.W_OK):
        raise error(f"You may not write into {target.parent}.", "Choose another place.")
    return target
