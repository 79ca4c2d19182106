"""Who has a project open: on a network disk one computer alone."""

import errno
import fcntl
import os
from pathlib import Path

import pytest

from pu_geo.errors import ProjectError
from pu_geo.store import in_use
from pu_geo.store.layout import Layout


@pytest.fixture
def layout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Layout:
    """A project's folder on a network disk, which no process has open."""
    mounts = tmp_path / "mounts"
    mounts.write_text(f"/dev/a / ext4 rw 0 0\nserver:/x {tmp_path} nfs4 rw 0 0\n")
    monkeypatch.setattr(in_use, "_MOUNTS", mounts)
    monkeypatch.setattr(in_use, "_BOOT", tmp_path / "boot_id")
    monkeypatch.setattr(in_use, "_held", {})
    (tmp_path / "event.pugeo").mkdir()
    return Layout(tmp_path / "event.pugeo")


def hold_as(host: str, layout: Layout, monkeypatch: pytest.MonkeyPatch, boot: str = "") -> int:
    """Hold a project as a new process on a computer does; return the file descriptor of its lock."""
    monkeypatch.setattr(in_use, "_held", {})
    in_use._BOOT.write_text(f"{boot or host}\n")
    monkeypatch.setattr(in_use.socket, "gethostname", lambda: host)
    in_use.hold(layout)
    return in_use._held[layout.folder][0]


def test_a_second_computer_is_refused_while_the_first_works(layout: Layout, monkeypatch: pytest.MonkeyPatch) -> None:
    app, job = (hold_as("desk", layout, monkeypatch) for _ in range(2))
    for lock in (app, job):
        with pytest.raises(ProjectError, match="open on the computer desk") as refused:
            hold_as("node-7", layout, monkeypatch)
        assert "Here is node-7" in refused.value.hint
        os.close(lock)
    other = hold_as("node-7", layout, monkeypatch)
    with pytest.raises(ProjectError, match="open on the computer node-7"):
        hold_as("desk", layout, monkeypatch)
    with pytest.raises(ProjectError, match="open on another computer called node-7"):
        hold_as("node-7", layout, monkeypatch, boot="0c2")  # two of one name are two
    os.close(other)


def test_a_disk_that_other_computers_may_have_is_named(
    layout: Layout, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for kind, found in {"nfs4": "nfs4", "fuse.ceph": "fuse.ceph", "brandnewfs": "brandnewfs", "ext4": "", "zfs": ""}.items():
        (tmp_path / "mounts").write_text(f"server:/x / nfs3 rw 0 0\nserver:/x {tmp_path} {kind} rw 0 0\n")
        assert in_use.network_of(layout.folder) == found
    for name in ("home", "office"):  # a laptop's name changes with the network it is in, and here the disk is its own
        hold_as(name, layout, monkeypatch)
    assert not (layout.folder / in_use.HOST).exists()


def test_a_network_disk_tells_who_has_the_project(layout: Layout, monkeypatch: pytest.MonkeyPatch) -> None:
    """NFS locks no file alone that was opened to be read."""
    lock = fcntl.flock

    def flock(descriptor: int, how: int) -> None:
        may_write = fcntl.fcntl(descriptor, fcntl.F_GETFL) & os.O_ACCMODE != os.O_RDONLY
        if how & fcntl.LOCK_EX and not may_write:
            raise OSError(errno.EBADF, os.strerror(errno.EBADF))
        lock(descriptor, how)

    monkeypatch.setattr(fcntl, "flock", flock)
    in_use.hold(layout)
    other = in_use._held.pop(layout.folder)[0]
    in_use.hold(layout)
    with pytest.raises(ProjectError, match="open in another process"), in_use.alone(layout):
        pass
    os.close(other)
    with in_use.alone(layout):
        assert in_use.held_here() == []


def test_a_disk_without_locks_holds_and_fails_nothing(layout: Layout, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_lock(*_: object) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    in_use.hold(layout)
    with monkeypatch.context() as patch:
        patch.setattr(in_use, "_held", {})
        patch.setattr(fcntl, "flock", no_lock)
        in_use.hold(layout)
        assert in_use.held_here() == []
