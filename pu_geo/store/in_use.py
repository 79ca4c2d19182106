"""Who has a project open: every process that opens its database holds a shared lock on one file until it ends.

SQLite's own locks say nothing between two transactions. Whoever wants to put another database into the place of this one
takes the lock alone (`alone`), and finds out whether an app, a command or a job still has the project.

On a network disk a second computer is refused as long as one has the project open: SQLite's write-ahead log needs memory
that all processes share, which those of two computers do not.
"""

from __future__ import annotations

import fcntl
import os
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from pu_geo.errors import ProjectError, printable
from pu_geo.files import opened, write_file
from pu_geo.store import locks
from pu_geo.store.layout import Layout

FILE = ".in_use.lock"
HOST = ".in_use.host"  # the computer that had the project open last, and its `_BOOT`; on a network disk alone
# Disks of one computer, as Linux names their file systems. Clusters have many others, and new ones come: what is not here
# may be shared.
_LOCAL = {
    "apfs", "aufs", "bcachefs", "btrfs", "ecryptfs", "erofs", "exfat", "ext2", "ext3", "ext4", "f2fs", "fuseblk", "hfs",
    "hfsplus", "iso9660", "jfs", "msdos", "nilfs2", "ntfs", "ntfs3", "overlay", "ramfs", "reiserfs", "rootfs", "squashfs",
    "tmpfs", "ubifs", "udf", "vfat", "xfs", "zfs", "fuse.bindfs", "fuse.cryfs", "fuse.encfs", "fuse.exfat",
    "fuse.fuse-overlayfs", "fuse.gocryptfs", "fuse.mergerfs", "fuse.ntfs-3g", "fuse.zfs",
}  # fmt: skip
_MOUNTS = Path("/proc/mounts")
_BOOT = Path("/proc/sys/kernel/random/boot_id")
"""An id that Linux draws at each start. A name does not tell computers apart: copies of a virtual machine have the same."""
_PATIENCE_S = 2.0
_PATIENCE_FOR_A_NAME_S = 0.3
_held: dict[Path, tuple[int, tuple[int, int]]] = {}  # folder -> file descriptor, and which file it is
_lock = threading.Lock()


def hold(layout: Layout) -> None:
    """Hold the project until this process ends; where no lock can be written, such as on a read-only disk, do nothing.

    Raises:
        ProjectError: of kind "busy" if its database is being replaced right now, or another computer has it open.
    """
    path = layout.path(FILE)
    with _lock:
        known = _held.get(layout.folder)
        if known is not None and known[1] == _identity(path):
            return
        _release(layout.folder)  # of a project that was moved away from here
        is_shared = bool(network_of(layout.folder))
        try:
            descriptor = _open_by_this_host(layout) if is_shared else _open(path)
        except OSError:
            return
        try:
            is_taken = locks.acquired(descriptor, fcntl.LOCK_SH, _PATIENCE_S)
            last = _last_host(layout) if is_shared else _this_host()
        except OSError:  # a network disk without locks
            os.close(descriptor)
            return
        if not is_taken:
            os.close(descriptor)
            raise ProjectError(
                f"{layout.folder.name} is being restored by another process.", "Try again in a moment.", kind="busy"
            )
        if last != _this_host():  # it came between two of our locks
            os.close(descriptor)
            raise _open_on(last, layout)
        facts = os.fstat(descriptor)
        _held[layout.folder] = descriptor, (facts.st_dev, facts.st_ino)


def network_of(folder: Path) -> str:
    """Return the file system that a folder is on, as Linux names it, where other computers may have it, too; "" where none
    can.

    "" also where the system does not say, as macOS does not.
    """
    try:
        mounts = [line.split()[1:3] for line in _MOUNTS.read_text(encoding="utf-8", errors="replace").splitlines()]
    except OSError:
        return ""
    over = [(place, kind) for place, kind in mounts if folder.resolve().is_relative_to(place.replace("\\040", " "))]
    kind = max(over, key=lambda one: len(one[0]), default=("", ""))[1]
    return "" if kind in _LOCAL else kind


def _open_by_this_host(layout: Layout) -> int:
    """Open the lock's file on a network disk, which belongs to this computer from then on.

    Raises:
        ProjectError: of kind "busy" if another computer has the project open.
        OSError: if the file cannot be written, as on a disk that may only be read.
    """
    here = _this_host()
    descriptor = opened(layout.path(FILE), os.O_RDWR | os.O_CREAT)  # NFS locks no file that may only be read
    until = time.monotonic() + _PATIENCE_FOR_A_NAME_S
    try:
        while (last := _last_host(layout)) != here:  # a process beside this one may be about to write our name
            if locks.acquired(descriptor, fcntl.LOCK_EX, 0.0):
                write_file(layout.path(HOST), "\n".join(here).encode())
                break
            if time.monotonic() > until:
                raise _open_on(last, layout)
            time.sleep(0.01)
    except (ProjectError, OSError):
        os.close(descriptor)
        raise
    return descriptor


def _this_host() -> tuple[str, str]:
    """Return the name of this computer and the id of its start; "" for the id where the system has none."""
    return socket.gethostname(), _BOOT.read_text(encoding="utf-8").strip() if _BOOT.is_file() else ""


def _last_host(layout: Layout) -> tuple[str, str]:
    """Return the computer that had the project open last, as `_this_host` does; empty texts where none is named."""
    path = layout.path(HOST)
    name, _, boot = (path.read_text(encoding="utf-8", errors="replace") if path.is_file() else "").partition("\n")
    return name.strip(), boot.strip()


def _open_on(last: tuple[str, str], layout: Layout) -> ProjectError:
    here, (name, _) = socket.gethostname(), last
    where = f"the computer {printable(name)}" if name else "another computer"
    if name == here:
        where = f"another computer called {here}, too"
    return ProjectError(
        f"{layout.folder.name} is open on {where}, and a project is opened on one computer alone.",
        f"Close the app and what else works in it there, or work there. Here is {here}.",
        kind="busy",
    )


def held_here() -> list[Layout]:
    """Return the projects that this process has open."""
    return [Layout(folder) for folder in list(_held)]


def let_go(layout: Layout) -> None:
    """Hold a project no longer, as this process has done with it."""
    with _lock:
        _release(layout.folder)


@contextmanager
def alone(layout: Layout) -> Iterator[None]:
    """Have the project for this process alone, so that its database may be replaced; this process must not have it open.

    Raises:
        ProjectError: of kind "busy" if another process has it open.
        OSError: if the lock cannot be written.
    """
    let_go(layout)
    descriptor = _open(layout.path(FILE))
    try:
        if not locks.acquired(descriptor, fcntl.LOCK_EX, _PATIENCE_S):
            raise ProjectError(
                f"{layout.folder.name} is open in another process: the app, a command or a job.",
                "Stop the app and what else works in this project, then try again.",
                kind="busy",
            )
        yield
    finally:
        os.close(descriptor)


def _open(path: Path) -> int:
    try:
        return opened(path, os.O_RDWR | os.O_CREAT)  # NFS gives nobody a file alone that may only be read
    except OSError:
        with suppress(FileNotFoundError):
            return opened(path, os.O_RDONLY)  # who may not write may still hold it
        raise


def _release(folder: Path) -> None:
    descriptor, _ = _held.pop(folder, (None, None))
    if descriptor is not None:
        os.close(descriptor)


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        facts = path.stat()
    except OSError:
        return None
    return facts.st_dev, facts.st_ino
