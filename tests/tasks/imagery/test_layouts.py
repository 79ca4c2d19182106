"""One command reproduces a row from the files as their makers publish them: small copies, positive chips brighter than others."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import cv2
import numpy as np
import pytest
import rasterio
from cli_parts import CommandLine
from datasets.test_binary_files import idx
from numpy.typing import NDArray

from pu_geo.datasets import binary_files
from pu_geo.tasks.train import tables

pytestmark = pytest.mark.filterwarnings("ignore::rasterio.errors.NotGeoreferencedWarning")
N = 60
Chips = NDArray[np.uint8]


def bright_where(is_positive: NDArray[np.bool_], shape: tuple[int, ...]) -> Chips:
    """Noise, uint8 [N, *shape], brighter where positive."""
    draw = np.random.default_rng(0)
    chips = draw.integers(0, 80, (len(is_positive), *shape)).astype(np.uint8)
    chips[is_positive] += 100
    return chips


def some_classes(n_classes: int, n: int = N) -> NDArray[np.uint8]:
    return (np.arange(n) % n_classes).astype(np.uint8)


def write_fmnist(folder: Path, positive: tuple[str, ...]) -> Path:
    classes = some_classes(10)
    chips = bright_where(np.isin(np.array(binary_files.FMNIST)[classes], positive), (28, 28))
    for name, rows in (("train", slice(0, 40)), ("t10k", slice(40, N))):
        for kind, values in (("images-idx3", chips), ("labels-idx1", classes)):
            (folder / f"{name}-{kind}-ubyte.gz").write_bytes(gzip.compress(idx(values[rows])))
    return folder


def write_cifar10(folder: Path, positive: tuple[str, ...]) -> Path:
    classes = some_classes(10)
    chips = bright_where(np.isin(np.array(binary_files.CIFAR_10)[classes], positive), (3, 32, 32))
    rows = np.concatenate([classes[:, None], chips.reshape(N, -1)], axis=1)
    for i, name in enumerate([*(f"data_batch_{i}.bin" for i in range(1, 6)), "test_batch.bin"]):
        (folder / name).write_bytes(rows[10 * i : 10 * i + 10].tobytes())
    return folder


def write_cifar100(folder: Path, positive: tuple[str, ...]) -> Path:
    classes = some_classes(20)
    chips = bright_where(np.isin(np.array(binary_files.CIFAR_100_COARSE)[classes], positive), (3, 32, 32))
    rows = np.concatenate([classes[:, None], np.zeros((N, 1), np.uint8), chips.reshape(N, -1)], axis=1)
    (folder / "train.bin").write_bytes(rows[:40].tobytes())
    (folder / "test.bin").write_bytes(rows[40:].tobytes())
    return folder


def write_stl10(folder: Path, positive: tuple[str, ...]) -> Path:
    classes = some_classes(10)
    chips = bright_where(np.isin(np.array(binary_files.STL_10)[classes], positive), (3, 96, 96))
    for name, rows in (("train", slice(0, 20)), ("test", slice(20, 40)), ("unlabeled", slice(40, N))):
        (folder / f"{name}_X.bin").write_bytes(chips[rows].transpose(0, 1, 3, 2).tobytes())
        if name != "unlabeled":
            (folder / f"{name}_y.bin").write_bytes((classes[rows] + 1).astype(np.uint8).tobytes())
    return folder


def write_abcd(folder: Path, positive: tuple[str, ...]) -> Path:
    (folder / "patch-pairs").mkdir()
    (folder / "5fold-list").mkdir()
    is_washed = np.arange(N) % 2 == 1
    lists = [list[str]() for _ in range(5)]
    for i, chip in enumerate(bright_where(is_washed, (6, 128, 128))):
        name = f"patch-pair_{i + 1}.tif"
        path = folder / "patch-pairs" / name
        with rasterio.open(path, "w", driver="GTiff", width=128, height=128, count=6, dtype="uint8") as target:
            target.write(chip)
        lists[i // 2 % 5].append(f"{name},{i % 2}\n")
    for i, lines in enumerate(lists):
        (folder / "5fold-list" / f"cv{i + 1}-test.csv").write_text("".join(lines))
    return folder


def write_xbd(folder: Path, positive: tuple[str, ...]) -> Path:
    for number, part in enumerate(["train", "train", "test"]):
        home = folder / part
        (home / "images").mkdir(parents=True, exist_ok=True)
        (home / "labels").mkdir(exist_ok=True)
        picture = np.random.default_rng(number).integers(0, 80, (1024, 1024, 3)).astype(np.uint8)
        rows = []
        for k in range(20):
            x, y = 40 + 90 * (k % 10), 60 + 200 * (k // 10)
            subtype = positive[k % 4] if k % 4 < len(positive) else "no-damage"
            if subtype in positive:
                picture[y - 10 : y + 30, x - 10 : x + 30] += 100
            wkt = f"POLYGON (({x} {y}, {x + 20} {y}, {x + 20} {y + 20}, {x} {y + 20}, {x} {y}))"
            rows.append({"properties": {"uid": str(k), "subtype": subtype}, "wkt": wkt})
        text = json.dumps({"features": {"xy": rows, "lng_lat": []}, "metadata": {}})
        for role in ("pre", "post"):
            cv2.imwrite(str(home / "images" / f"storm_{number:08d}_{role}_disaster.png"), picture)
            (home / "labels" / f"storm_{number:08d}_{role}_disaster.json").write_text(text)
    return folder


def write_harvey(folder: Path, positive: tuple[str, ...]) -> Path:
    is_damaged = np.arange(N) % 2 == 0
    rows = ["path,label,lon,lat"]
    for i, chip in enumerate(bright_where(is_damaged, (40, 40, 3))):
        label = "damage" if is_damaged[i] else "no_damage"
        (folder / label).mkdir(exist_ok=True)
        cv2.imwrite(str(folder / label / f"{i}.png"), chip)
        rows.append(f"{label}/{i}.png,{label},{-95.1 - 0.05 * (i // 6)},29.1")
    (folder / "index.csv").write_text("\n".join(rows) + "\n")
    return folder


WRITERS: dict[str, Callable[[Path, tuple[str, ...]], Path]] = {
    "fmnist": write_fmnist, "cifar10": write_cifar10, "cifar100": write_cifar100, "stl10": write_stl10, "abcd": write_abcd,
    "xbd": write_xbd, "harvey": write_harvey,
}  # fmt: skip


def test_every_table_has_a_made_up_copy() -> None:
    assert set(WRITERS) == set(tables.TABLES)


@pytest.mark.parametrize("name", WRITERS)
def test_one_command_gives_a_row(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: CommandLine) -> None:
    table = tables.TABLES[name]
    first = table.settings[0]
    files = WRITERS[name](tmp_path, first.positive)
    few = replace(first, n_positive=4, n_unlabeled=0, prior=first.prior and 0.4)
    monkeypatch.setitem(tables.TABLES, name, replace(table, settings=(few,)))
    (row,) = run.json("benchmark", name, "--data", files, "--methods", "linear", "--seeds", "1")["outcomes"]
    assert row["n_positive"] == 4
    assert 0 < row["n_test_positive"] < row["n_test"]
    assert row["auc"] > 0.9
