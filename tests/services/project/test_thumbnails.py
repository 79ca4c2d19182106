"""Pictures of files in the picker: made once, by the limited child, and by names that say nothing."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path

import cv2
import numpy as np
import pytest
import rasterio

from pu_geo.geo.raster import thumbnails
from pu_geo.services.project.thumbnails import SIDE_PX, Thumbnails, read_pictures


def write(path: Path, picture: np.ndarray) -> Path:
    bands, height, width = picture.shape
    facts = {"height": height, "width": width, "count": bands, "dtype": picture.dtype, "crs": "EPSG:32633"}
    place = rasterio.Affine(0.5, 0, 500_000, 0, -0.5, 4_600_000)
    with rasterio.open(path, "w", driver="GTiff", transform=place, **facts) as file:
        file.write(picture)
    return path


def test_pictures_are_small_and_a_file_that_breaks_hinders_no_other(tmp_path: Path) -> None:
    wide = write(tmp_path / "wide.tif", np.full((3, 200, 800), 90, np.uint8))
    dark = write(tmp_path / "dark.tif", np.random.default_rng(0).integers(0, 60, (4, 300, 300)).astype(np.uint16))
    broken = tmp_path / "broken.tif"
    broken.write_bytes(wide.read_bytes()[:300])
    text = tmp_path / "text.tif"
    text.write_text("<VRTDataset/>")
    found = read_pictures([wide, broken, text, dark, tmp_path / "gone.tif"])
    assert [picture is not None for picture in found] == [True, False, False, True, False]
    first, second = (cv2.imdecode(np.frombuffer(picture, np.uint8), cv2.IMREAD_COLOR) for picture in found if picture)
    assert first.shape == (SIDE_PX // 4, SIDE_PX, 3)
    assert abs(int(first.mean()) - 90) < 3
    assert second.std() > 30  # 16-bit samples are stretched


def test_of_a_large_file_without_overviews_the_middle_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(thumbnails, "MOST_PIXELS", 64 * 64)
    picture = np.zeros((3, 400, 400), np.uint8)
    picture[:, 190:210] = 200
    found = thumbnails.thumbnail(write(tmp_path / "large.tif", picture), 160)
    assert cv2.imdecode(np.frombuffer(found, np.uint8), cv2.IMREAD_COLOR).mean() > 100


def test_a_picture_is_read_once_and_again_when_its_file_changes(tmp_path: Path) -> None:
    asked: list[Path] = []

    def read(paths: Sequence[Path]) -> list[bytes | None]:
        asked.extend(paths)
        return [b"picture"] * len(paths)

    def failing(paths: Sequence[Path]) -> list[bytes | None]:
        raise OSError(28, "No space left on device")

    path = tmp_path / "a.tif"
    path.write_bytes(b"1")
    unread = Thumbnails(failing)
    assert unread.picture(unread.name(path)) is None
    pictures = Thumbnails(read)
    name = pictures.name(path)
    assert [pictures.picture(name), pictures.picture(name), asked] == [b"picture", b"picture", [path]]
    path.write_bytes(b"22")
    assert pictures.name(path) != name
    assert pictures.picture(pictures.name(path)) == b"picture"
    assert len(asked) == 2
    assert str(tmp_path) not in name
    assert (pictures.picture("0" * 32), pictures.name(tmp_path / "gone.tif")) == (None, ""), "names are handed out"


def test_who_waits_gets_the_picture_and_nobody_waits_for_ever(tmp_path: Path) -> None:
    may_go = threading.Event()
    pictures = Thumbnails(lambda paths: [path.name.encode() if may_go.wait(10) else None for path in paths])
    (tmp_path / "0.tif").touch()
    name = pictures.name(tmp_path / "0.tif")
    assert pictures.picture(name, seconds=0.05) is None
    threading.Timer(0.05, may_go.set).start()
    assert pictures.picture(name) == b"0.tif"
