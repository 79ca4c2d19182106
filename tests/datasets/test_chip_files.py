"""Folders and zip files of chips, ABCD, and buildings cut out of xBD: made-up copies of the layouts."""

import json
import zipfile
from pathlib import Path

import cv2
import numpy as np
import pytest
import rasterio
from golden_parts import kind_of_refusal

from pu_geo.datasets import chip_files
from pu_geo.errors import DatasetError

pytestmark = pytest.mark.filterwarnings("ignore::rasterio.errors.NotGeoreferencedWarning")


def write_chips(folder: Path) -> None:
    for i, label in enumerate(["damage", "damage", "no_damage"]):
        (folder / label).mkdir(parents=True, exist_ok=True)
        picture = np.zeros((40, 40, 3), np.uint8)
        picture[..., 2] = 80 * (i + 1)  # red, as OpenCV orders it
        cv2.imwrite(str(folder / label / f"{i}.png"), picture)


def pack(folder: Path, target: Path) -> Path:
    with zipfile.ZipFile(target, "w") as archive:
        for path in folder.rglob("*"):
            archive.write(path, path.relative_to(folder).as_posix())
    return target


@pytest.mark.parametrize("as_zip", [True, False])
def test_folders_are_classes(tmp_path: Path, as_zip: bool) -> None:
    folder = tmp_path / "chips"
    write_chips(folder)
    read = chip_files.read_chips(pack(folder, tmp_path / "chips.zip") if as_zip else folder, 32)
    assert read.chips.shape == (3, 3, 32, 32)
    assert read.chips[:, 0, 5, 5].tolist() == [80, 160, 240]
    assert not read.chips[:, 1:].any()
    assert (read.class_names, read.classes.tolist(), read.place) == (("damage", "no_damage"), [0, 0, 1], None)


def test_index_tells_class_place_and_split(tmp_path: Path) -> None:
    write_chips(tmp_path)
    rows = ["path,label,lon,lat,split", "damage/0.png,wet,-95.105,29.105,train", "damage/1.png,wet,-95.1051,29.1051,test",
            "no_damage/2.png,dry,-95.5,29.105,"]  # fmt: skip
    (tmp_path / "index.csv").write_text("\r\n".join(rows))
    read = chip_files.read_chips(tmp_path)
    assert (read.class_names, read.classes.tolist()) == (("dry", "wet"), [1, 1, 0])
    assert read.is_test.tolist() == [False, True, False]
    assert read.place[0] == read.place[1] != read.place[2]


def test_nothing_outside_the_folder_is_read_and_an_odd_index_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "chips"
    write_chips(folder)
    cv2.imwrite(str(tmp_path / "secret.png"), np.zeros((9, 9, 3), np.uint8))
    (folder / "index.csv").write_text("path,label\n../secret.png,x\n")
    assert kind_of_refusal(chip_files.read_chips, folder) == "link"
    for row in ("damage/0.png,", "dam\x00age/0.png,x", "damage/0.png," + "x" * 200_000):
        (folder / "index.csv").write_text(f"path,label\n{row}\n")
        with pytest.raises(DatasetError):
            chip_files.read_chips(folder)
    (folder / "index.csv").unlink()
    (folder / "damage" / "link.png").symlink_to(tmp_path / "secret.png")
    assert kind_of_refusal(chip_files.read_chips, folder) == "link"


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_bad_sources_are_refused_and_odd_names_in_a_zip_hang_nothing(tmp_path: Path) -> None:
    (tmp_path / "no.zip").write_bytes(b"no zip")
    (tmp_path / "empty").mkdir()
    with zipfile.ZipFile(tmp_path / "odd.zip", "w") as archive:
        for name in ("/", "//", "/../a.png", "a/../../b.png", "x/1.png", "x/1.png"):
            archive.writestr(name, b"no picture")
    write_chips(tmp_path / "cut")
    (tmp_path / "cut" / "damage" / "1.png").write_bytes(b"\x89PNG\r\n\x1a\n")
    with pytest.raises(DatasetError, match=r"1\.png"):
        chip_files.read_chips(tmp_path / "cut")
    for name, kind in (("nowhere", "missing"), ("no.zip", "corrupt"), ("empty", "missing"), ("odd.zip", "corrupt")):
        assert kind_of_refusal(chip_files.read_chips, tmp_path / name) == kind


def write_abcd(folder: Path) -> None:
    (folder / "patch-pairs").mkdir(parents=True)
    (folder / "5fold-list").mkdir()
    for i in range(10):
        name = f"patch-pair_{i + 1}.tif"
        with rasterio.open(
            folder / "patch-pairs" / name, "w", driver="GTiff", width=128, height=128, count=6, dtype="uint8"
        ) as target:
            target.write(np.full((6, 128, 128), 10 * i, np.uint8))
        with (folder / "5fold-list" / f"cv{i % 5 + 1}-test.csv").open("a") as file:
            file.write(f"{name},{i % 2}\n")


def test_abcd(tmp_path: Path) -> None:
    write_abcd(tmp_path)
    read = chip_files.read_abcd(tmp_path)
    assert read.chips.shape == (10, 6, 128, 128)
    number = read.chips[:, 0, 0, 0] // 10
    np.testing.assert_array_equal(read.classes, number % 2)
    np.testing.assert_array_equal(read.is_test, number % 5 < 2)


def test_damaged_abcd_is_refused(tmp_path: Path) -> None:
    write_abcd(tmp_path)
    pair = tmp_path / "patch-pairs" / "patch-pair_3.tif"
    whole = pair.read_bytes()
    for data in (b"", whole[:100], b"<VRTDataset/>"):
        pair.write_bytes(data)
        with pytest.raises(DatasetError, match="patch-pair_3"):
            chip_files.read_abcd(tmp_path)
    pair.write_bytes(whole)
    (tmp_path / "5fold-list" / "cv2-test.csv").write_text("patch-pair_2.tif,maybe\n")
    with pytest.raises(DatasetError, match="maybe"):
        chip_files.read_abcd(tmp_path)
    assert kind_of_refusal(chip_files.read_abcd, tmp_path / "patch-pairs") == "missing"


def test_damaged_and_foreign_parts_of_archives(tmp_path: Path) -> None:
    folder = tmp_path / "chips"
    write_chips(folder)
    (folder / "__MACOSX" / "damage").mkdir(parents=True)
    (folder / "__MACOSX" / "damage" / "._0.png").write_bytes(b"resource fork")
    assert len(chip_files.read_chips(pack(folder, tmp_path / "mac.zip")).chips) == 3
    with zipfile.ZipFile(tmp_path / "deflated.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("damage/1.png", (folder / "damage" / "0.png").read_bytes() * 3)
    data = bytearray((tmp_path / "deflated.zip").read_bytes())
    data[45:60] = bytes(15)
    (tmp_path / "deflated.zip").write_bytes(data)
    with pytest.raises(DatasetError):
        chip_files.read_chips(tmp_path / "deflated.zip")


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
    read = chip_files.read_xbd(tmp_path, 40)
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
    read = chip_files.read_xbd(tmp_path)
    assert read.place.tolist() == [0, 0, 0, 1, 2]
    assert read.is_test.tolist() == [False] * 4 + [True]


def test_building_at_the_border_is_filled_up_with_border(tmp_path: Path) -> None:
    write_picture(tmp_path, "a_00000001", ("destroyed",))
    labels = tmp_path / "labels" / "a_00000001_post_disaster.json"
    labels.write_text(labels.read_text().replace("40 60, 60 60, 60 80, 40 80, 40 60", "0 0, 20 0, 20 20, 0 20, 0 0"))
    assert (chip_files.read_xbd(tmp_path).chips == 50).all()


def test_damaged_files_of_xbd_are_refused_by_name(tmp_path: Path) -> None:
    assert kind_of_refusal(chip_files.read_xbd, tmp_path) == "missing"
    write_picture(tmp_path, "a_00000001")
    labels = tmp_path / "labels" / "a_00000001_post_disaster.json"
    whole = labels.read_text()
    for text in ("{", "[]", '{"features": {"xy": [{"properties": null}]}}', whole.replace("POLYGON", "POLY")):
        labels.write_text(text)
        with pytest.raises(DatasetError, match="a_00000001_post"):
            chip_files.read_xbd(tmp_path)
    labels.write_text(whole)
    (tmp_path / "images" / "a_00000001_post_disaster.png").write_bytes(b"\x89PNG cut off")
    with pytest.raises(DatasetError, match="cannot be decoded"):
        chip_files.read_xbd(tmp_path)
