"""Whether a scene's file is the one that was added, and what to do where it is not."""

from __future__ import annotations

import hashlib
import os
import shlex
from collections.abc import Callable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Literal

from pu_geo.errors import ImageryError
from pu_geo.files import sha256_of
from pu_geo.records import Scene
from pu_geo.wording import listed

END_BYTES = 65_536
State = Literal["same", "touched", "changed", "missing"]


def ends_sha256(path: Path) -> str:
    """Return the sha256 of the first and the last 64 kB of a file; of all of it where these meet."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        digest.update(file.read(END_BYTES))
        file.seek(max(END_BYTES, file.seek(0, os.SEEK_END) - END_BYTES))
        digest.update(file.read(END_BYTES))
    return digest.hexdigest()


def state_at_once(scene: Scene) -> State:
    """Compare a scene's file with what was written down when it was added, without reading all of it.

    Returns:
        "missing" where no file can be read, or a path inside a project leads out of it; "changed" for another size or other
        ends; "same" where its time agrees, too; "touched" where only the time differs, as after a copy: all of the file has
        to be read to know.
    """
    path = Path(scene.path)
    try:
        moment = _moment(path)
        if not path.is_file() or _leads_out(path):
            return "missing"
        if moment[1] != scene.size_bytes or _ends_at(*moment) != scene.ends_sha256:
            return "changed"
    except (OSError, ValueError):  # a path with a NUL is none
        return "missing"
    return "same" if moment[2] == scene.mtime_ns else "touched"


def state_of(scene: Scene, *, full: bool = False, each: Callable[[int], None] | None = None) -> State:
    """Return whether a scene's file is the one that was added: "same", "changed" or "missing".

    A file of which only the time differs is read in full, once a process; so is every file with `full`: bytes changed in the
    middle of a file that keeps its size, its ends and its time show in no other way.

    Args:
        each: gets the number of bytes read so far, and may raise to stop.
    """
    state, path = state_at_once(scene), Path(scene.path)
    if state != "touched" and not (full and state == "same" and scene.sha256):
        return state
    try:
        before = _moment(path)
        if full or before not in _sha256_at:
            sha256 = sha256_of(path, each)
            if _moment(path) != before:
                return "changed"  # it is being written to
            _sha256_at[before] = sha256
    except OSError:
        return "missing"
    return "same" if _sha256_at[before] == scene.sha256 else "changed"


_sha256_at: dict[tuple[Path, int, int, int], str] = {}  # of files as they were at one moment


def _moment(path: Path) -> tuple[Path, int, int, int]:
    found = path.stat()
    return path, found.st_size, found.st_mtime_ns, found.st_ctime_ns


@lru_cache(maxsize=4096)
def _ends_at(path: Path, size: int, mtime_ns: int, ctime_ns: int) -> str:
    """Return `ends_sha256` of a file as it was at one moment, so that a screen reads it once."""
    return ends_sha256(path)


def refusal(missing: Sequence[Scene], changed: Sequence[Scene], project: Path | None = None) -> ImageryError:
    """Return the error for scenes whose files are not where they were, or are other files now.

    Args:
        missing, changed: one of them at least.
        project: folder of the project, for the command that the hint names; "P.pugeo" stands for it if None.
    """
    command = relink_command([*missing, *changed], project)
    find = f"find it on the Imagery page, or with `{command}`."
    if missing:
        return ImageryError(
            f"{_named(missing)} cannot be read: {_why(missing[0])}.",
            f"If it was moved or renamed, {find} Only a file that is the same byte for byte takes its place.",
            kind="missing",
        )
    return ImageryError(
        f"{_named(changed)} has changed since it was added to the project: another file has its path now.",
        f"Put the original back under its path. If it is elsewhere, {find} To use the other file, replace "
        f"{replacing(changed[0], project)}, "
        "or add it as a new scene under another name.",
        kind="changed",
    )


def replacing(scene: Scene, project: Path | None = None) -> str:
    """Return what to replace by another file, with the command."""
    where = _project_words(project)
    if scene.role == "layer":
        return f"the layer by its files (`pu-geo replace {where} layer {scene.layer} FILE...`)"
    return f"the scene by it (`pu-geo replace {where} scene {shlex.quote(scene.scene_id)} FILE`)"


def _why(scene: Scene) -> str:
    """Return why a scene's file cannot be read, in words."""
    path = Path(scene.path)
    if _leads_out(path):
        return "a link leads out of the project there"
    try:
        if not path.is_file():
            path.stat()
            return "there is no file, but something else"
        path.open("rb").close()
    except FileNotFoundError:
        return "there is no such file any more"
    except OSError as error:
        return str(error.strerror or error)
    return "it could not be read a moment ago"


def _leads_out(path: Path) -> bool:
    """Return whether a path inside a project folder leads out of it through a link."""
    folder = next((parent for parent in path.parents if parent.suffix == ".pugeo"), None)
    return folder is not None and not path.resolve().is_relative_to(folder.resolve())


def _named(scenes: Sequence[Scene]) -> str:
    return listed([f"{scene.scene_id} ({scene.path})" for scene in scenes])


def _project_words(project: Path | None) -> str:
    return "P.pugeo" if project is None else shlex.quote(str(project))


def relink_command(scenes: Sequence[Scene], project: Path | None = None) -> str:
    """Return the command that finds scenes' files: by their folder where several are in one, else the first one's file."""
    folders = {str(Path(scene.path).parent) for scene in scenes}
    is_folder = len(scenes) > 1 and len(folders) == 1
    old, new = (folders.pop(), "NEW_FOLDER") if is_folder else (scenes[0].path, "NEW_FILE")
    return f"pu-geo repair relink {_project_words(project)} {shlex.quote(old)} {new}"
