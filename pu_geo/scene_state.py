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
from pu_geo.records import Scene
from pu_geo.wording import listed

END_BYTES = 65_536
State = Literal["same", "touched", "changed", "missing"]
_BLOCK_BYTES = 8 * 1024**2


def sha256_of(path: Path, each: Callable[[int], None] | None = None) -> str:
    """Return the sha256 of a file, lowercase hex; `each` gets the number of bytes read so far, and may raise to stop."""
    digest, done = hashlib.sha256(), 0
    with path.open("rb") as file:
        while block := file.read(_BLOCK_BYTES):
            digest.update(block)
            done += len(block)
            if each is not None:
                each(done)
    return digest.hexdigest()


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
        "missing" where no file can be read, or a path inside a project leads out of it; "changed" for another size or other ends; "same" where its time agrees, too;
        "touched" where only the time differs, as after a copy: all of the file has to be read to know.
    """
    path = Path(scene.path)
    try:
        found = path.stat()
        if not path.is_file() or _leads_out(path):
            return "missing"
        if (
            found.st_size != scene.size_bytes
            or _ends_at(path, found.st_size, found.st_mtime_ns, found.st_ctime_ns) != scene.ends_sha256
        ):
            return "changed"
    except (OSError, ValueError):  # a path with a NUL is none
        return "missing"
    return "same" if found.st_mtime_ns == scene.mtime_ns else "touched"


def state_of(scene: Scene) -> State:
    """Return what `state_at_once` does, and where that is "touched" let the sha256 of the file decide, once a process."""
    state, path = state_at_once(scene), Path(scene.path)
    if state != "touched":
        return state
    try:
        found = path.stat()
        return "same" if _sha256_at(path, found.st_size, found.st_mtime_ns, found.st_ctime_ns) == scene.sha256 else "changed"
    except OSError:
        return "missing"


@lru_cache(maxsize=1024)
def _sha256_at(path: Path, size: int, mtime_ns: int, ctime_ns: int) -> str:
    """Return the sha256 of a file as it was at one moment, so that it is read once a process."""
    return sha256_of(path)


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
    where = "P.pugeo" if project is None else shlex.quote(str(project))
    find = f"find it on the Imagery page, or with `{command}`."
    if missing:
        return ImageryError(
            f"{_named(missing)} cannot be read: {_why(missing[0])}.",
            f"If it was moved or renamed, {find} Only a file that is the same byte for byte takes its place.",
            kind="missing",
        )
    return ImageryError(
        f"{_named(changed)} has changed since it was added to the project: another file has its path now.",
        f"Put the original back under its path. If it is elsewhere, {find} To use the other file, replace {_replacing(changed[0], where)}, "
        "or add it as a new scene under another name.",
        kind="changed",
    )


def _replacing(scene: Scene, where: str) -> str:
    """Return what to replace by another file, with the command."""
    if scene.role == "layer":
        return f"the layer by its files (`pu-geo replace {where} layer {scene.layer} FILE...`)"
    return f"the scene by it (`pu-geo replace {where} scene {scene.scene_id} FILE`)"


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


def relink_command(scenes: Sequence[Scene], project: Path | None = None) -> str:
    """Return the command that finds scenes' files: by their folder where several are in one, else the first one's file."""
    folders = {str(Path(scene.path).parent) for scene in scenes}
    is_folder = len(scenes) > 1 and len(folders) == 1
    old, new = (folders.pop(), "NEW_FOLDER") if is_folder else (scenes[0].path, "NEW_FILE")
    return f"pu-geo relink {'P.pugeo' if project is None else shlex.quote(str(project))} {shlex.quote(old)} {new}"
