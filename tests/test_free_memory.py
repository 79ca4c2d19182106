"""How much memory is free: a container's limit counts where it leaves less than the machine has."""

from pathlib import Path
from types import SimpleNamespace

import pytest

from pu_geo import free_memory as module
from pu_geo.free_memory import free_memory


@pytest.fixture
def groups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine with 64 GB that are available, and a folder for its control groups."""
    monkeypatch.setattr("psutil.virtual_memory", lambda: SimpleNamespace(available=64_000_000_000))
    monkeypatch.setattr(module, "_CGROUPS", tmp_path / "cgroup")
    monkeypatch.setattr(module, "_OWN", tmp_path / "own")
    return tmp_path / "cgroup"


def write(folder: Path, **values: object) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, value in values.items():
        (folder / name.replace("__", ".")).write_text(f"{value}\n")


@pytest.mark.parametrize("place", ["", "box", "box/job"])
def test_the_limit_of_a_group_counts_and_that_of_those_around_it(groups: Path, place: str) -> None:
    groups.with_name("own").write_text("0::/box/job\n")
    write(groups / "box" / "job", memory__max="max", memory__current=7, memory__stat="inactive_file 3")
    facts = {"memory__max": 2_000_000_000, "memory__current": 1_500_000_000}
    write(groups / place, **facts, memory__stat="anon 1000\ninactive_file 300000000")
    assert free_memory() == 800_000_000


def test_groups_of_the_first_version_count(groups: Path) -> None:
    groups.with_name("own").write_text("5:cpu:/other\n4:memory:/box\n0::/\n")
    facts = {"memory__limit_in_bytes": 1_000_000_000, "memory__usage_in_bytes": 1_100_000_000}
    write(groups / "memory" / "box", **facts, memory__stat="total_inactive_file 50")
    assert free_memory() == 0
    write(groups / "memory" / "box", memory__limit_in_bytes=9223372036854771712)
    assert free_memory() == 64_000_000_000
