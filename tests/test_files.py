"""A file is there whole or not at all: after an error, on a full disk, in a killed process."""

import errno
import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from small_parts import in_tiers

from pu_geo.files import atomic_write, reserve
from pu_geo.geo.export.exporters import EXPORTERS

pytestmark = [pytest.mark.slow, pytest.mark.skipif(os.name == "nt", reason="limits and signals of POSIX")]

MAP = """
import os, resource, signal, sys
import numpy as np, shapely
from pathlib import Path
from pu_geo.errors import PuGeoError
from pu_geo.geo.export.exporters import EXPORTERS
from pu_geo.records import DamageMap

class Deadly(list):
    def __getitem__(self, at):
        if isinstance(at, slice) and at.start >= 2000:
            os.kill(os.getpid(), signal.SIGKILL)
        return super().__getitem__(at)

n, name, out = 5000, sys.argv[1], Path(sys.argv[2])
x = 500_000.0 + 500 * np.arange(n)
wkb = [bytes(b) for b in shapely.to_wkb(shapely.box(x, 4_500_000, x + 10, 4_500_010))]
ids = [f"b{i}" for i in range(n)]
columns = {"building_id": ids, "damage_binary": ["damaged"] * n, "note": np.random.default_rng(0).bytes(n * 20).hex(" ", 20).split()}
"""


def run(code: str, name: str, out: Path) -> subprocess.CompletedProcess[str]:
    script = MAP + textwrap.dedent(code)
    return subprocess.run([sys.executable, "-c", script, name, str(out)], capture_output=True, text=True, check=False)


def test_an_atomic_write_leaves_the_old_file_whole_after_a_failure(tmp_path: Path) -> None:
    target = tmp_path / "a.txt"
    target.write_text("old")
    with pytest.raises(OSError, match="No space left") as refused, atomic_write(target) as temporary:  # noqa: PT012
        temporary.write_text("half")
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    assert refused.value.filename == str(target)
    assert target.read_text() == "old"
    assert list(tmp_path.iterdir()) == [target]


def test_an_empty_file_needs_no_room(tmp_path: Path) -> None:
    (tmp_path / "a.npy").touch()
    reserve(tmp_path / "a.npy")
    assert (tmp_path / "a.npy").stat().st_size == 0


@pytest.mark.parametrize("name", in_tiers(EXPORTERS, "disk", quick=["geojson"], ci=["gpkg"]))
def test_a_full_disk_leaves_the_old_file_and_says_so(name: str, tmp_path: Path) -> None:
    out = tmp_path / f"map.{name}"
    out.write_bytes(b"old")
    code = """
        resource.setrlimit(resource.RLIMIT_FSIZE, (4_000, 4_000))
        try:
            EXPORTERS[name](DamageMap(ids, wkb, columns, "EPSG:32633", {}), out)
        except PuGeoError as error:
            print(error.kind, error.problem, error.hint)
        """
    done = run(code, name, out)
    assert done.stdout.startswith(f"disk map.{name} could not be written to the end: "), done.stderr
    assert out.read_bytes() == b"old"
    assert [path.name for path in tmp_path.iterdir()] == [out.name]


KILLED = {
    "while it is written": """
        import pu_geo.geo.export.layers as layers
        layers.ROWS_PER_GROUP = 2000
        columns["note"] = Deadly(columns["note"])
        """,
    "before it is on disk": "os.fsync = lambda handle: os.kill(os.getpid(), signal.SIGKILL)",
}
EXPORT = '\nEXPORTERS[name](DamageMap(ids, wkb, columns, "EPSG:32633", {}), out)'
MOMENTS = [
    (name, moment) for name in EXPORTERS for moment in KILLED if name not in ("heat", "geojson") or moment[:5] != "while"
]
"""Heat maps and the short GeoJSON read no notes."""
QUICK = [("geojson", "before it is on disk")]


@pytest.mark.parametrize(
    ("name", "moment"), in_tiers(MOMENTS, "kills", quick=QUICK, ci=[("geojson-full", "while it is written")])
)
def test_a_killed_export_leaves_the_old_file_and_a_part_without_its_name(name: str, moment: str, tmp_path: Path) -> None:
    out = tmp_path / f"map.{name}"
    out.write_bytes(b"old")
    done = run(textwrap.dedent(KILLED[moment]) + EXPORT, name, out)
    assert done.returncode == -signal.SIGKILL, done.stderr
    assert out.read_bytes() == b"old"
    assert all(path.suffix == ".part" and path.name.startswith(".") for path in tmp_path.iterdir() if path != out)


@pytest.mark.ci
def test_memory_does_not_grow_with_the_map(tmp_path: Path) -> None:
    """30,000 buildings of 40 corners with notes are over 150 MB of text; where memory is short, 15 MB of a process come and go by themselves."""
    if not Path("/proc/self/clear_refs").exists():
        pytest.skip("peak memory can be measured on Linux alone")
    code = """
        n = 30_000
        turn = np.linspace(0, 2 * np.pi, 40, endpoint=False)
        ring = 5 * np.stack([np.cos(turn), np.sin(turn)], axis=-1)
        at = np.stack([500_000 + 20.0 * np.arange(n), np.full(n, 4_500_000.0)], axis=-1)
        wkb = [bytes(b) for b in shapely.to_wkb(shapely.polygons(at[:, None] + ring))]
        ids = [f"b{i}" for i in range(n)]
        texts = ["x" * 4000] * n

        def kilobytes(key):
            return next(int(l.split()[1]) for l in Path("/proc/self/status").read_text().splitlines() if l.startswith(key))

        EXPORTERS[name](DamageMap(ids[:2000], wkb[:2000], {"note": texts[:2000]}, "EPSG:32633", {}), out)
        Path("/proc/self/clear_refs").write_text("5")
        before = kilobytes("VmRSS")
        EXPORTERS[name](DamageMap(ids, wkb, {"note": texts}, "EPSG:32633", {}), out)
        print((kilobytes("VmHWM") - before) / 1024, out.stat().st_size / 2**20)
        """
    done = run(code, "geojson-full", tmp_path / "map.geojson")
    rise_mb, size_mb = map(float, done.stdout.split())
    assert size_mb > 140, done.stderr
    assert rise_mb < size_mb / 2
