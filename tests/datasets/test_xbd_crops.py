"""Buildings cut out of xBD's post pictures, on a made-up copy of its layout."""

from __future__ import annotations

import json
from pathlib import Path

import cv2
import numpy as np
import pytest

from pu_geo.datasets.chip_files import read_xbd
from pu_geo.errors import DatasetError

SUBTYPES = ("no-damage", "destroyed", "un-classified", "minor-damage")


def write_picture(folder: Path, name: str, subtypes: tuple[str | None, ...] = SUBTYPES) -> None:
    """A gray picture; building k is a bright square of 20 px whose upper left corner is (40 + 100 k, 60)."""
    (folder / "images").mkdir(parents=True, exist_ok=True)
    (folder / "labels").mkdir(exist_ok=True)
    picture = np.full((1024, 1024, 3), 50, np.uint8)
    rows = []
    for k, subtype in enumerate(subtypes):
        x = 40 + 100 * k
        picture[60:80, x : x + 20] = (10, 20, 200)  # blue, green, red
        wkt = f"POLYGON (({x} 60, {x + 20} 60, {x + 20} 80, {x} 80, {x} 60))"
        rows.append({"properties": {"uid": str(k), **({"subtype": subtype} if subtype else {})}, "wkt": wkt})
    text = json.dumps({"features": {"xy": rows, "lng_lat": []}, "metadata": {}})
    for role in ("pre", "post"):
        cv2.imwrite(str(folder / "images" / f"{name}_{role}_disaster.png"), picture)
        (folder / "labels" / f"{name}_{role}_disaster.json").write_text(text)


def test_each_classified_building_is_cut_with_half_its_size_around(tmp_path: Path) -> None:
    write_picture(tmp_path, "joplin_00000000")
    read = read_xbd(tmp_path, 40)
    assert [read.class_names[i] for i in read.classes] == ["no-damage", "destroyed", "minor-damage"]
    assert read.chips.shape == (3, 3, 40, 40)
    expected = np.full((3, 40, 40), 50, np.uint8)
    expected[:, 10:30, 10:30] = np.array([200, 20, 10])[:, None, None]
    for chip in read.chips:
        np.testing.assert_array_equal(chip, expected)
    assert not read.is_test.any()


def test_parts_of_the_release_and_places(tmp_path: Path) -> None:
    write_picture(tmp_path / "train", "a_00000001")
    write_picture(tmp_path / "train", "a_00000002", ("destroyed",))
    write_picture(tmp_path / "test", "a_00000003", ("no-damage", None))
    read = read_xbd(tmp_path)
    assert read.place.tolist() == [0, 0, 0, 1, 2]
    assert read.is_test.tolist() == [False] * 4 + [True]


def test_building_at_the_border_is_filled_up_with_border(tmp_path: Path) -> None:
    write_picture(tmp_path, "a_00000001", ("destroyed",))
    labels = tmp_path / "labels" / "a_00000001_post_disaster.json"
    labels.write_text(labels.read_text().replace("40 60, 60 60, 60 80, 40 80, 40 60", "0 0, 20 0, 20 20, 0 20, 0 0"))
    assert (read_xbd(tmp_path).chips == 50).all()


def test_damaged_files_are_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(DatasetError) as refusal:
        read_xbd(tmp_path)
    assert refusal.value.kind == "missing"
    write_picture(tmp_path, "a_00000001")
    labels = tmp_path / "labels" / "a_00000001_post_disaster.json"
    whole = labels.read_text()
    for text in ("{", "[]", '{"features": {"xy": [{"properties": null}]}}', whole.replace("POLYGON", "POLY")):
        labels.write_text(text)
        with pytest.raises(DatasetError, match="a_00000001_post"):
            read_xbd(tmp_path)
    labels.write_text(whole)
    (tmp_path / "images" / "a_00000001_post_disaster.png").write_bytes(b"\x89PNG cut off")
    with pytest.raises(DatasetError, match="cannot be decoded"):
        read_xbd(tmp_path)
