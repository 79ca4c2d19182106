"""Room for many open files: a project of a thousand scenes keeps all of one date open while it reads."""

from __future__ import annotations

import contextlib
import sys
from pathlib import Path

from pu_geo.errors import ImageryError

SPARE_FILES = 128  # for the project, the log, libraries that load late


def allow_files(n: int) -> None:
    """Let this process open `n` more files; many systems stop at 1,024 or 256 unless asked, and at far more then.

    Raises:
        ImageryError: kind "files" if the system does not allow as many.
    """
    if sys.platform == "win32":
        return
    import resource  # not on Windows

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = len(list(Path("/dev/fd").iterdir())) + n + SPARE_FILES
    if soft == resource.RLIM_INFINITY or needed <= soft:
        return
    if hard == resource.RLIM_INFINITY or needed <= hard:
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (needed, hard))
            return
    raise ImageryError(
        f"{n:,} scenes need as many open files, and this computer allows {hard:,} in one program.",
        "Join scenes into fewer files with gdalwarp, or have the limit raised (ulimit -n).",
        kind="files",
    )
