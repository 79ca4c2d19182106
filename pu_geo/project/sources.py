"""Small files that came through the browser: kept in the project's `sources/`, under names that lead nowhere else."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from pathlib import Path

from pu_geo.atomic_write import atomic_write
from pu_geo.errors import ProjectError
from pu_geo.project.layout import Layout

MAX_BYTES = 50 * 1024**2
_MAX_STEM_BYTES, _MAX_SUFFIX_BYTES = 120, 24  # of UTF-8; file systems take 255


def safe_name(name: str) -> str:
    """Return a file name without folders, blanks or signs; letters of every script stay."""
    last = re.split(r"[/\\]", name)[-1]
    path = Path(re.sub(r"[^\w.-]", "_", last).strip(".-_") or "file")
    stem = path.stem.encode()[:_MAX_STEM_BYTES].decode(errors="ignore")
    return stem + path.suffix.encode()[:_MAX_SUFFIX_BYTES].decode(errors="ignore")


def keep(layout: Layout, files: Sequence[tuple[str, bytes | memoryview]]) -> list[Path]:
    """Store files that belong together in one folder of `sources/`; the same files once more lie where they lay before.

    Args:
        files: name as the browser gave it, and content.

    Raises:
        ProjectError: if one is empty or over 50 MB, two have the same name, or the disk is full.
    """
    names = [safe_name(name) for name, _ in files]
    for (given, content), name in zip(files, names, strict=True):
        if not 0 < len(content) <= MAX_BYTES:
            raise ProjectError(
                f"{given[:80]} has {len(content) / 1e6:,.1f} MB; 0 to {MAX_BYTES / 1e6:.0f} MB can be uploaded.",
                "Name larger files by their path: they stay where they are.",
            )
        if names.count(name) > 1:
            raise ProjectError(f"Two of these files are called {name}.", "Give them other names, or upload them one by one.")
    digest = hashlib.sha256()
    for name, (_, content) in sorted(zip(names, files, strict=True)):
        digest.update(f"{name}\0{len(content)}\0".encode())
        digest.update(content)
    folder = layout.folder / "sources" / digest.hexdigest()[:12]
    for name, (_, content) in zip(names, files, strict=True):
        try:
            if not (folder / name).exists():
                with atomic_write(folder / name) as temporary:
                    temporary.write_bytes(content)
        except OSError as cause:
            raise ProjectError(
                f"{name} cannot be stored in the project: {cause.strerror or cause}.",
                "Make room on the disk, or name the file by its path.",
            ) from cause
    return [folder / name for name in names]
