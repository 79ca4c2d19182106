"""How much memory this process can still take: of the machine, and within the limit of a container."""

from __future__ import annotations

import resource
from contextlib import suppress
from pathlib import Path, PurePosixPath

_CGROUPS = Path("/sys/fs/cgroup")
_OWN = Path("/proc/self/cgroup")
_FILES = (  # (limit, use, the part of the use that Linux gives back when asked), of both versions of control groups
    ("memory.max", "memory.current", "inactive_file"),
    ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
)


def free_memory() -> int:
    """Return the bytes that are free: what the machine has available, or less where the limit of a container or of the
    process leaves less.
    """
    import psutil

    return min([int(psutil.virtual_memory().available), *_left_in_groups(), *_left_to_process()])


def _left_to_process() -> list[int]:
    """Return the bytes of addresses that a limit on this process itself leaves (`ulimit -v`); none without one."""
    import psutil

    most = resource.getrlimit(resource.RLIMIT_AS)[0]
    return [] if most == resource.RLIM_INFINITY else [max(0, most - int(psutil.Process().memory_info().vms))]


def _left_in_groups() -> list[int]:
    """Return the bytes that each limit on this process leaves; none outside Linux and without limits."""
    return [left for folder in _groups() for names in _FILES if (left := _left(folder, *names)) is not None]


def _groups() -> list[Path]:
    """Return the folders of this process's control groups for memory, with all those that contain them."""
    found = []
    with suppress(OSError):
        for line in _OWN.read_text(encoding="utf-8").splitlines():
            _, controllers, path = line.split(":", 2)
            if controllers and "memory" not in controllers.split(","):
                continue
            root = _CGROUPS / "memory" if controllers else _CGROUPS
            within = PurePosixPath(path.lstrip("/"))
            found += [root / each for each in (within, *within.parents) if ".." not in each.parts]
    return list(dict.fromkeys(found))


def _left(folder: Path, limit: str, use: str, inactive: str) -> int | None:
    try:
        most, used = int((folder / limit).read_text()), int((folder / use).read_text())
        kept = dict(line.split() for line in (folder / "memory.stat").read_text().splitlines())
    except (OSError, ValueError):  # no such group, or "max": no limit
        return None
    return max(0, most - used + int(kept.get(inactive, 0)))
