"""The door to files: whole or not at all, never through a link out of a project, and in projects of this installation alone.

Below the folder of a project (`*.pugeo`, which itself may be reached through links) nothing is opened, written, renamed or
removed but by the functions here: each part of a path is looked at just before. So a project that somebody sent is data,
whatever its database, its JSON files and its links say.

Files take their name only once they are complete: a temporary name, fsync, rename. Whoever writes one holds a lock on it.
The kernel frees the lock however a process ends, so that a file without one belongs to nobody, see `is_abandoned`.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import hmac
import os
import re
import secrets
import shlex
import shutil
import stat
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from pu_geo.errors import OutOfReach, PuGeoError

SUFFIX = ".pugeo"
HOME_VARIABLE = "PU_GEO_HOME"
MARK = ".made_here"  # in a project's folder: a random text, and what `signature` makes of it
PROJECTS_KEY = "projects.key"
FULL = {errno.ENOSPC, errno.EDQUOT}
_NO_ROOM = FULL | {errno.EFBIG, errno.EIO}
_NAME = re.compile(r"\..+\.[0-9a-f]{16}\.part")
_PROJECT = re.compile(re.escape(SUFFIX) + rf"(?={re.escape(os.sep)}|$)")
_KEY = re.compile(rb"[0-9a-f]{64}")
_MARK_BYTES, _MOST_MARKS = 4096, 20
_BLOCK_BYTES = 8 * 1024**2
_known: set[tuple[object, ...]] = set()  # marks that were found to be ours
_vouched: set[Path] = set()
APPENDED = os.O_WRONLY | os.O_CREAT | os.O_APPEND
_UNLOCKED_S = 5.0  # a library may put a file of its own, without a lock, under the name; that one is renamed at once
_UNKNOWN_S = 24 * 3600.0  # where the file system knows no locks
_ZEROS = bytes(1 << 20)
_KEPT_OF_NAME = 40  # characters; a name may have 255 bytes, and one character up to four
_ANOTHER_FOLDER = f"Name a folder of your own in the environment variable {HOME_VARIABLE}"


# Where a path leads


def checked(path: Path) -> Path:
    """Return a path once nothing between the project's folder and its end leads elsewhere; a path outside of projects as it
    is.

    Raises:
        OutOfReach: of kind "link" where a part of it is a link, or neither a file nor a folder.
    """
    text = str(path)
    place = text.find(SUFFIX + os.sep)
    if place < 0:
        return path
    here = text[: place + len(SUFFIX)]
    for part in Path(text[len(here) + 1 :]).parts:
        here = f"{here}{os.sep}{part}"
        try:
            mode = os.lstat(here).st_mode
        except OSError:  # not there yet, or closed: nothing is reached through it
            mode = stat.S_IFREG
        if part == ".." or not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
            raise OutOfReach(
                f"{here} is {'a link' if stat.S_ISLNK(mode) else 'no file and no folder'}. All files of a project are in "
                "its folder, and nothing is "
                "read or written through links.",
                "Put what it leads to in its place, or remove it.",
                kind="link",
            )
    return path


def to_change(path: Path) -> Path:
    """Return a path that may be written to; see `checked`.

    Raises:
        OutOfReach: also of kind "elsewhere" where it is in a project that is not `is_ours`.
    """
    text = str(checked(path))
    for found in _PROJECT.finditer(text):
        if not is_ours(folder := Path(text[: found.end()])):
            raise elsewhere(folder)
    return path


def elsewhere(folder: Path) -> OutOfReach:
    """Return the error for a project that is not `is_ours`. Raises PuGeoError where nobody can say, as the user's key cannot
    be read.
    """
    if os.path.lexists(home() / PROJECTS_KEY):
        user_key(home(), PROJECTS_KEY)
    return OutOfReach(
        f"{folder.name} was made by another installation of PU-Geo: it can be viewed and exported, not changed.",
        f"If you trust where it comes from: `pu-geo open {shlex.quote(str(folder))} --from-elsewhere`.",
        kind="elsewhere",
    )


def may_change(folder: Path) -> bool:
    """Return whether this process may change what is in the folder of a project."""
    return is_ours(folder) and os.access(folder, os.W_OK)


def opened(path: Path, flags: int) -> int:
    """Open a file, never through a link, and return its descriptor.

    Args:
        flags: as `os.open` takes them.

    Raises:
        OutOfReach: see `to_change`; also where it would be written to and has a second name (a hard link).
        OSError: if it cannot be opened.
    """
    is_written = bool(flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT))
    return os.open(single(to_change(path)) if is_written else checked(path), flags | os.O_NOFOLLOW, 0o666)


def single(path: Path) -> Path:
    """Return the path of a file that is written to in place, and of no other file's; see `checked`.

    Raises:
        OutOfReach: also where it has a second name, a hard link.
    """
    with suppress(FileNotFoundError):
        facts = os.lstat(checked(path))
        if stat.S_ISREG(facts.st_mode) and facts.st_nlink > 1 and _PROJECT.search(str(path)):
            raise OutOfReach(
                f"{path} has a second name somewhere (a hard link): what is written to it would be written there, too.",
                "Put a copy of it in its place.",
                kind="link",
            )
    return path


def touch(path: Path) -> None:
    """Make an empty file where there is none."""
    os.close(opened(path, os.O_WRONLY | os.O_CREAT))


def append_lines(path: Path, lines: str) -> None:
    """Append whole lines to a log in one call, so that a reader never sees half of two; half a line before them is ended.

    Raises:
        OSError: if it did not fit on the disk; a half of it is left.
    """
    with os.fdopen(opened(path, os.O_RDWR | os.O_CREAT | os.O_APPEND), "ab+", buffering=0) as stream:
        if stream.seek(0, os.SEEK_END):
            stream.seek(-1, os.SEEK_END)
            lines = lines if stream.read(1) == b"\n" else f"\n{lines}"
        content = lines.encode()
        if stream.write(content) != len(content):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))


@contextmanager
def appended(path: Path, lines: bytes) -> Iterator[None]:
    """Append whole lines to a file that nobody else writes to now, and force them to the disk; where the block fails they go
    again.

    Half a line that a power cut left before them is ended.

    Raises:
        OSError: if they cannot be written; nothing is left of them.
    """
    with os.fdopen(opened(path, os.O_RDWR | os.O_CREAT | os.O_APPEND), "ab+", buffering=0) as stream:
        end = stream.seek(0, os.SEEK_END)
        if end:
            stream.seek(end - 1)
            lines = lines if stream.read(1) == b"\n" else b"\n" + lines
        try:
            if stream.write(lines) != len(lines):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))
            os.fsync(stream.fileno())
            if not end:
                _sync_folder(path.parent)
            yield
        except BaseException:
            stream.truncate(end)
            raise


def write_file(path: Path, content: bytes) -> None:
    """Write a file anew, in a place that is not looked at before it is complete."""
    to_change(path).unlink(missing_ok=True)
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666), "wb") as file:
        file.write(content)


def make_folder(path: Path, *, parents: bool = True) -> Path:
    """Make a folder where there is none, and those around it; return its path.

    Args:
        parents: False where a project that was moved away shall not come back to its former place.
    """
    try:
        to_change(path).mkdir(parents=parents, exist_ok=True)
    except FileExistsError as error:
        if not _PROJECT.search(str(path)):
            raise
        raise OutOfReach(f"{path} is a file, and a folder belongs there.", "Move it elsewhere.", kind="link") from error
    return path


def move_path(source: Path, target: Path) -> None:
    """Rename a file or folder; the folders around its new name are made."""
    make_folder(target.parent)
    to_change(source).rename(to_change(target))


def remove_path(path: Path) -> None:
    """Remove a file, or a folder with all that is in it and can be removed; one that is not there is none."""
    if to_change(path).is_dir():
        shutil.rmtree(path, ignore_errors=True)  # follows no link
    else:
        with suppress(FileNotFoundError, NotADirectoryError):  # there is nothing below a file
            path.unlink()


# Whose a project is


def home() -> Path:
    """Return the user's own folder, for new projects and what concerns all of them: $PU_GEO_HOME, else ~/PU-Geo."""
    return Path(os.environ.get(HOME_VARIABLE, "~/PU-Geo")).expanduser()


def is_ours(folder: Path) -> bool:
    """Return whether this installation made a project, or a person said that she trusts where it comes from.

    True too of a folder without that ending, or without a database: it is no project yet.
    """
    if folder in _vouched or folder.suffix != SUFFIX or not os.path.lexists(folder / "project.gpkg"):
        return True
    try:
        facts = os.lstat(folder / MARK)
    except OSError:
        return False
    known = (folder / MARK, facts.st_ino, facts.st_mtime_ns, home())
    if known not in _known and stat.S_ISREG(facts.st_mode) and facts.st_size < _MARK_BYTES and _signed_by_us(folder / MARK):
        _known.add(known)
    return known in _known


def _signed_by_us(path: Path) -> bool:
    if os.path.lexists(home() / PROJECTS_KEY):
        with suppress(OSError, ValueError, PuGeoError):
            pairs = (line.partition(" ") for line in path.read_text(encoding="ascii").splitlines())
            return any(hmac.compare_digest(signature("project", text), signed) for text, _, signed in pairs)
    return False


def vouch(folder: Path) -> None:
    """Take a project for ours in this process: a worker of a cluster does whose driver proved that it may write there."""
    _vouched.add(folder)


def sign(folder: Path) -> None:
    """Note in the folder of a project that it is this installation's: it made it, or a person trusts where it comes from.

    Raises:
        PuGeoError: if the user's key cannot be made or read, see `user_key`.
        OSError: if the project's folder cannot be written to.
    """
    text, path = secrets.token_hex(16), checked(folder / MARK)
    others = path.read_text(encoding="ascii", errors="ignore").splitlines() if path.is_file() else []
    lines = [f"{text} {signature('project', text)}", *others[:_MOST_MARKS]]  # several installations may work in it in turn
    with _written(path) as temporary:
        temporary.write_text("\n".join(lines), encoding="ascii")


def signature(*texts: str) -> str:
    """Return what only this installation can make of some texts, 64 hexadecimal characters."""
    return hmac.digest(user_key(home(), PROJECTS_KEY), "\0".join(texts).encode(), hashlib.sha256).hex()


def user_key(folder: Path, name: str) -> bytes:
    """Read a key of the user's, 64 hexadecimal characters; it is made where there is none.

    Raises:
        PuGeoError: if it cannot be made or read, or another account could read or replace it.
    """
    path = folder / name
    try:
        if not os.path.lexists(path):
            _make(path)
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
        with os.fdopen(descriptor, "rb") as file:
            facts, key = os.fstat(descriptor), file.read(65)
    except OSError as error:
        raise PuGeoError(
            f"The key file {path} cannot be made or read: {error.strerror or error}.", _hint(error.errno, path)
        ) from error
    advice = f"Remove {path} and start PU-Geo again: it makes a new one, and what the old one had signed is asked for anew."
    if not stat.S_ISREG(facts.st_mode) or not _KEY.fullmatch(key):
        raise PuGeoError(f"{path} is not a key that PU-Geo made.", advice)
    if not _is_private(facts):
        if not _keeps_rights(folder):
            raise PuGeoError(
                f"The disk that holds {folder} keeps no rights of files, so every account could read the key {name}.",
                f"{_ANOTHER_FOLDER}, on a disk that keeps them.",
            )
        raise PuGeoError(
            f"{path} belongs to another account, or others may use it (mode {stat.S_IMODE(facts.st_mode):o}); "
            "it must be yours, with mode 600.",
            advice,
        )
    return key


def _is_private(facts: os.stat_result) -> bool:
    return facts.st_uid == os.getuid() and not facts.st_mode & 0o077


def _keeps_rights(folder: Path) -> bool:
    """Return whether a new private file is private there; exFAT, some network disks and folders of containers make it
    public.
    """
    try:
        with tempfile.TemporaryFile(dir=folder) as file:
            return _is_private(os.fstat(file.fileno()))
    except OSError:
        return True  # not known


def _hint(number: int | None, path: Path) -> str:
    """Return what to do where the key file cannot be made or read for a reason of the system's."""
    if number in FULL:
        return "Free some space on its disk, then start PU-Geo again."
    if number in (errno.EACCES, errno.EPERM):
        return (
            f"It may be another account's, as after `sudo pu-geo app`: make {path.parent} and all in it yours "
            f"(sudo chown -R $USER {path.parent}), and start PU-Geo without sudo. {_ANOTHER_FOLDER} if that cannot be."
        )
    if number == errno.ELOOP:
        return f"It is a link, which PU-Geo does not follow. Remove {path} and start PU-Geo again."
    return f"{_ANOTHER_FOLDER}, on a disk that can be written to."


def _make(path: Path) -> None:
    """Write a new key that nobody else may read; where two servers start at once, the first one's key stays."""
    path.parent.mkdir(parents=True, exist_ok=True)
    from filelock import FileLock  # loads asyncio; most commands need no lock

    with FileLock(path.with_name(f".{path.name}.lock"), poll_interval=0.01):
        if not os.path.lexists(path):
            with atomic_write(path, mode=0o600) as temporary:
                temporary.write_text(secrets.token_hex(32), encoding="utf-8")


# Whole or not at all


@contextmanager
def atomic_write(path: Path, *, mode: int = 0o666) -> Iterator[Path]:
    """Yield a temporary path beside `path`; what was written there is forced to disk and renamed to `path` at the end.

    If anything fails, the file that was there before stays as it was, and nothing else is left behind. A process that is
    killed leaves the old file too, and a hidden `.part` file, see `is_abandoned`. Missing folders are made.

    Args:
        path: of the file.
        mode: rights of the file, of which the user's umask takes away; 0o600 where nobody else may ever read it.

    Raises:
        OSError: where the disk is full, with `path` as its `filename` unless it names a file already.
    """
    with _written(to_change(path), mode) as temporary:
        yield temporary


@contextmanager
def _written(path: Path, mode: int = 0o666) -> Iterator[Path]:
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name[:_KEPT_OF_NAME]}.{secrets.token_hex(8)}.part")
    lock = _made_and_locked(temporary, mode)
    try:
        yield temporary
        with temporary.open("r+b") as file:
            os.fsync(file.fileno())
        temporary.replace(path)
        _sync_folder(path.parent)
    except OSError as error:
        if error.errno in FULL and error.filename is None:
            error.filename = str(path)
        raise
    finally:
        temporary.unlink(missing_ok=True)
        os.close(lock)


def _made_and_locked(path: Path, mode: int) -> int:
    """Make an empty file and lock it until the descriptor that is returned is closed."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, mode)
    with suppress(OSError):  # some network disks know no locks
        fcntl.flock(descriptor, fcntl.LOCK_EX)  # `is_abandoned` may hold it for a moment
    return descriptor


def is_abandoned(path: Path) -> bool:
    """Return whether a file is a temporary one of `atomic_write` whose writer is gone.

    One without a lock counts after some seconds, one on a disk that knows no locks after a day.
    """
    if not _NAME.fullmatch(path.name):
        return False
    try:
        descriptor = os.open(checked(path), os.O_RDONLY)
    except OSError:
        return False
    try:
        age_s = time.time() - os.fstat(descriptor).st_mtime
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return age_s > _UNKNOWN_S
    finally:
        os.close(descriptor)
    return age_s > _UNLOCKED_S


def reserve(path: Path) -> None:
    """Have the disk give a file all the room that its length claims, so that it may be mapped into memory.

    Writing into a mapped file that has holes ends the process (SIGBUS) where the disk is full.

    Raises:
        OSError: ENOSPC if there is not enough room.
    """
    n_bytes = path.stat().st_size
    if n_bytes == 0:
        return  # `posix_fallocate` refuses a length of zero
    with path.open("r+b") as file:
        if hasattr(os, "posix_fallocate"):
            os.posix_fallocate(file.fileno(), 0, n_bytes)
            return
        for start in range(0, n_bytes, len(_ZEROS)):  # macOS; what is there is kept
            here = os.pread(file.fileno(), min(len(_ZEROS), n_bytes - start), start)
            os.pwrite(file.fileno(), here, start)


@contextmanager
def export_file(out: Path) -> Iterator[Path]:
    """Yield a temporary path as `atomic_write` does, for a file that a person asked for; a full disk is a refusal.

    Raises:
        PuGeoError: kind "disk" if the disk is full, a quota is used up, or it reports an error.
    """
    try:
        with atomic_write(out) as temporary:
            yield temporary
    except OSError as cause:
        if cause.errno not in _NO_ROOM:
            raise
        raise not_written(out.name, os.strerror(cause.errno)) from cause


def not_written(name: str, why: str) -> PuGeoError:
    """Return the error for an export that was not written to its end."""
    return PuGeoError(
        f"{name} could not be written to the end: {why}. An older {name} is unchanged.",
        "Free some space, or choose another disk, then export again.",
        kind="disk",
    )


def write_export(out: Path, pieces: Iterable[bytes]) -> None:
    """Write pieces as one file, whole or not at all; see `export_file`."""
    with export_file(out) as temporary, temporary.open("wb") as file:
        for piece in pieces:
            file.write(piece)


def _sync_folder(folder: Path) -> None:
    """Make a new name last through a power cut."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


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
