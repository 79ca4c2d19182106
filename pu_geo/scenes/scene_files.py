"""The files of a project's scenes: whether they are those that were added, and finding them again after a move."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePath, PurePosixPath, PureWindowsPath

from pu_geo.errors import ImageryError, JobCancelled, ProjectError, PuGeoError
from pu_geo.files import sha256_of
from pu_geo.geo.scene_state import State, ends_sha256, refusal, replacing, state_at_once, state_of
from pu_geo.records import Scene
from pu_geo.store import contents, store
from pu_geo.store.layout import Layout
from pu_geo.wording import listed

Report = Callable[[float, str], None]


@dataclass(frozen=True)
class LostFiles:
    """Scenes whose files are to be found together: those of one folder.

    Attributes:
        old: their folder, or the path of the only one.
        is_folder: whether `old` is a folder of several.
        scenes: (scene, "missing" or "changed").
    """

    old: str
    is_folder: bool
    scenes: Sequence[tuple[Scene, State]]


def lost(scenes: Sequence[Scene]) -> list[LostFiles]:
    """Return the scenes whose files are missing or are other files now, those of one folder together; reads no file in
    full.
    """
    found = [(scene, state) for scene in scenes if (state := state_at_once(scene)) in ("missing", "changed")]
    groups: dict[str, list[tuple[Scene, State]]] = {}
    for scene, state in found:
        groups.setdefault(str(Path(scene.path).parent), []).append((scene, state))
    return [
        LostFiles(folder if (several := len({scene.path for scene, _ in group}) > 1) else group[0][0].path, several, group)
        for folder, group in groups.items()
    ]


def settle(
    layout: Layout, scenes: Sequence[Scene] | None = None, *, report: Report | None = None,
    is_cancelled: Callable[[], bool] | None = None,
) -> dict[str, State]:  # fmt: skip
    """Return whether each scene's file is the one that was added, by scene id: "same", "changed" or "missing".

    A file of which only the time differs, as after a copy, is read in full, once: its new time is stored with the scene.

    Args:
        scenes: all of the project if None.

    Raises:
        JobCancelled: if `is_cancelled` returned True.
    """
    states: dict[str, State] = {}
    renewed = []
    scenes = store.call(layout, contents.all_scenes) if scenes is None else scenes
    for i, scene in enumerate(scenes):
        was_touched = state_at_once(scene) == "touched"
        states[scene.scene_id] = state_of(scene, each=_counter(scene, i, len(scenes), report, is_cancelled))
        if was_touched and states[scene.scene_id] == "same":
            renewed.append(_as_it_is(scene))
    if renewed:
        try:
            store.call(layout, contents.relink_scenes, renewed)
        except ProjectError as error:  # whoever may only read a project reads the files again the next time
            if error.kind not in ("busy", "read_only", "elsewhere"):
                raise
    return states


def require(
    layout: Layout, scenes: Sequence[Scene], *, report: Report | None = None, is_cancelled: Callable[[], bool] | None = None
) -> list[Scene]:
    """Return scenes as they are stored once their files were checked by `settle`, in their order.

    Raises:
        ImageryError: kind "missing" or "changed" if a file is not the one that was added; the hint has the command that
            helps.
        JobCancelled: if `is_cancelled` returned True.
    """
    states = settle(layout, scenes, report=report, is_cancelled=is_cancelled)
    missing, changed = ([one for one in scenes if states[one.scene_id] == state] for state in ("missing", "changed"))
    if missing or changed:
        raise refusal(missing, changed, layout.folder)
    stored = {scene.scene_id: scene for scene in store.call(layout, contents.all_scenes)}
    return [stored[scene.scene_id] for scene in scenes]


def _as_it_is(scene: Scene) -> Scene:
    """Return a scene with size, time and ends of its file as they are now."""
    path = Path(scene.path)
    found = path.stat()
    return replace(scene, size_bytes=found.st_size, mtime_ns=found.st_mtime_ns, ends_sha256=ends_sha256(path))


def _counter(
    scene: Scene, i: int, n: int, report: Report | None, is_cancelled: Callable[[], bool] | None
) -> Callable[[int], None]:
    """Return what reports the reading of the i-th of n files, and stops it once the job is cancelled."""
    path = Path(scene.path)
    total = path.stat().st_size if path.is_file() else 0

    def each(done: int) -> None:
        if is_cancelled is not None and is_cancelled():
            raise JobCancelled
        if report is not None:
            report(
                (i + done / max(total, 1)) / n, f"reading {path.name} in full, to check that it is the file that was added"
            )

    return each


def id_of(scenes: Sequence[Scene], name: str) -> str:
    """Return the id of the only scene whose file has this name; what was given where it is an id, fits none or several."""
    found = [scene.scene_id for scene in scenes if name in (Path(scene.path).name, scene.scene_id)]
    return found[0] if len(found) == 1 else name


# Finding files again


def relink(
    layout: Layout, old: str, new: str, *, report: Report | None = None, is_cancelled: Callable[[], bool] | None = None
) -> list[dict[str, object]]:
    """Store that the files of scenes are elsewhere now, once each was read in full and is the one that was added.

    Of several files all are stored or none.

    Args:
        old: path of a scene's file or of a folder above such files, as the project names it; or the name of a scene.
        new: the file or the folder where they are now.

    Returns:
        {"scene_id", "role", "old", "new"} of each scene, in the order in which they were added.

    Raises:
        PuGeoError: if no scene is recorded there, a file is not there, or one is another file.
        JobCancelled: if `is_cancelled` returned True.
    """
    with store.connect(layout) as db:
        scenes, stored = contents.all_scenes(db), contents.stored_paths(db)
    targets = [(scene, _real(path, scene)) for scene, path in _targets(layout, scenes, stored, old, new)]
    found = []
    for i, (scene, path) in enumerate(targets):
        size = path.stat().st_size
        if size != scene.size_bytes:
            raise _other_file(scene, path, f"it has {size:,} bytes", f"{scene.size_bytes:,} bytes")
        at_path = replace(scene, path=str(path))
        was = path.stat()
        sha256 = sha256_of(path, _counter(at_path, i, len(targets), report, is_cancelled))
        if sha256 != scene.sha256:
            raise _other_file(scene, path, f"its sha256 is {sha256}", f"the sha256 {scene.sha256}")
        fresh = _as_it_is(at_path)
        if (was.st_size, was.st_mtime_ns) != (fresh.size_bytes, fresh.mtime_ns):
            raise ImageryError(f"{path} was written to while it was read.", "Wait until that has ended, then try again.")
        found.append(fresh)
    store.call(layout, contents.relink_scenes, found)
    return [
        {"scene_id": scene.scene_id, "role": scene.role, "old": scene.path, "new": one.path}
        for (scene, _), one in zip(targets, found, strict=True)
    ]


def _targets(
    layout: Layout, scenes: Sequence[Scene], stored: Mapping[str, str], old: str, new: str
) -> list[tuple[Scene, Path]]:
    """Return the scenes that are recorded at or under `old`, and where each would be under `new`."""
    target = Path(new).expanduser().absolute()
    given = {old, str(Path(old).expanduser().absolute()), str(Path(old).expanduser().resolve())}
    mine, found = id_of(scenes, old), []
    for scene in scenes:
        if mine == scene.scene_id or given & {scene.path, stored[scene.scene_id]}:
            found.append((scene, target / _pure(scene.path).name if target.is_dir() else target))
            continue
        for recorded in (_pure(scene.path), _pure(stored[scene.scene_id])):
            above = next((one for one in given if recorded.is_relative_to(one)), None)
            if above is not None:
                found.append((scene, target.joinpath(*recorded.relative_to(above).parts)))
                break
    if found:
        return found
    paths = [scene.path for scene in scenes]
    known = f"Its scenes are {listed(paths)}." if paths else "It has no scenes yet."
    raise PuGeoError(
        f"{layout.folder.name} has no scene at {old} or in a folder of that name.",
        f"{known} Name one of these files, a folder above it, or a scene.",
        kind="missing",
    )


def _pure(path: str) -> PurePath:
    """Return a path of this system, or of Windows where it is one from there."""
    return PureWindowsPath(path) if PureWindowsPath(path).is_absolute() and path[:1] != "/" else PurePosixPath(path)


def _real(path: Path, scene: Scene) -> Path:
    """Return the real path of a plain file. Raises ImageryError, kind "missing", if there is none."""
    try:
        real = path.resolve(strict=True)
    except OSError as error:
        raise ImageryError(
            f"There is no file {path} for {scene.scene_id} ({error.strerror or error}); nothing was changed.",
            "Name the file where it is now, or the folder that has the same folders and files in it as the one before.",
            kind="missing",
        ) from error
    if not real.is_file():
        raise ImageryError(f"{path} is no file; nothing was changed.", "Name the file of the scene.", kind="missing")
    return real


def _other_file(scene: Scene, path: Path, found: str, wanted: str) -> ImageryError:
    return ImageryError(
        f"{path} is not the file of {scene.scene_id}: {found}, and the file that was added has {wanted}. Nothing was "
        "changed.",
        f"Find the original. Or replace {replacing(scene)}, or add this file as a new scene: chips of the original are "
        "out of date then.",
        kind="changed",
    )
