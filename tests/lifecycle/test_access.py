"""The key behind the cookie: made once, the user's alone, the same at every start."""

import errno
import os
import re
import stat
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from pu_geo import files
from pu_geo.errors import PuGeoError
from pu_geo.lifecycle import access

pytestmark = pytest.mark.skipif(os.name != "posix", reason="Windows keeps no such modes")


def test_the_key_is_made_once_stays_and_is_the_users_alone(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        with ThreadPoolExecutor(8) as threads:  # servers that start at once agree
            (key,) = set(threads.map(lambda _: access.user_key(tmp_path / "new" / "home"), range(8)))
    finally:
        os.umask(before)
    assert re.fullmatch(rb"[0-9a-f]{64}", key)
    assert stat.S_IMODE((tmp_path / "new" / "home" / access.KEY_NAME).stat().st_mode) == 0o600
    assert access.user_key(tmp_path / "new" / "home") == key
    assert access.user_key(tmp_path / "other") != key


def test_a_key_that_others_may_read_or_that_is_a_link_is_refused(tmp_path: Path) -> None:
    access.user_key(tmp_path)
    path = tmp_path / access.KEY_NAME
    path.chmod(0o640)
    with pytest.raises(PuGeoError, match=r"mode 640\); it must be yours, with mode 600") as refusal:
        access.user_key(tmp_path)
    assert "start PU-Geo again" in refusal.value.hint
    path.chmod(0o600)
    path.rename(tmp_path / "elsewhere")
    path.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(PuGeoError, match="cannot be made or read") as refusal:
        access.user_key(tmp_path)
    assert "It is a link" in refusal.value.hint
    hints = {number: files._hint(number, path) for number in (errno.ENOSPC, errno.EACCES, errno.EROFS)}
    words = {errno.ENOSPC: "Free some space", errno.EACCES: "sudo", errno.EROFS: "PU_GEO_HOME"}
    assert all(words[number] in hint for number, hint in hints.items())


def test_a_disk_that_keeps_no_rights_is_named_as_the_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As exFAT does, where every file has mode 777."""
    kept = os.fstat
    monkeypatch.setattr(os, "fstat", lambda of: os.stat_result((kept(of).st_mode | 0o777, *kept(of)[1:])))
    with pytest.raises(PuGeoError, match="keeps no rights of files"):
        access.user_key(tmp_path)


@pytest.mark.parametrize("content", [b"", b"0" * 65, b"g" * 64])
def test_what_is_no_key_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / access.KEY_NAME
    path.write_bytes(content)
    path.chmod(0o600)
    with pytest.raises(PuGeoError, match="is not a key that PU-Geo made"):
        access.user_key(tmp_path)


def test_a_cookie_differs_by_port_and_by_user() -> None:
    values = {access.cookie_value(key, port) for key in (b"0" * 64, b"1" * 64) for port in (8501, 8502)}
    assert len(values) == 4
    assert access.cookie_value(b"0" * 64, 8501) in values


def test_the_secret_is_taken_out_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(access.SECRET_VARIABLE, "abc")
    assert (access.given_secret(), access.given_secret()) == ("abc", None)
    assert access.SECRET_VARIABLE not in os.environ


@pytest.fixture
def opened(home: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The addresses that are opened in a browser, on a computer with a screen."""
    found: list[str] = []
    monkeypatch.setattr("webbrowser.open", found.append)
    monkeypatch.setenv("DISPLAY", ":0")
    return found


def test_the_browser_is_given_a_private_file_and_not_the_secret(
    home: Path, opened: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    left, new = home / "open-00000000.html", home / "open-00000001.html"
    for path in (left, new):
        path.write_text("")
    os.utime(left, (1, 1))
    with access.opened_in_browser("http://127.0.0.1:1/?token=abc"):
        assert not left.exists(), "of a start that was killed"
        (page,) = {*home.glob("open-*.html")} - {new}  # the new one may be another server's
        assert stat.S_IMODE(page.stat().st_mode) == 0o600
        assert "url=http://127.0.0.1:1/?token=abc" in page.read_text(encoding="utf-8")
    assert opened == [page.as_uri()]
    assert [*home.glob("open-*.html")] == [new]

    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(access, "atomic_write", full)
    with pytest.raises(OSError, match="of the server"), access.opened_in_browser("http://127.0.0.1:1/?token=abc"):
        raise OSError("of the server")
    assert len(opened) == 1, "a full disk opens no browser and ends nothing"


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere there is always a screen")
def test_no_browser_is_opened_without_a_screen(home: Path, opened: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("DISPLAY", "WAYLAND_DISPLAY"):
        monkeypatch.delenv(name, raising=False)
    with access.opened_in_browser("http://127.0.0.1:1/?token=abc"):
        assert (opened, [*home.glob("open-*")]) == ([], [])
