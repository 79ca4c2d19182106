"""One command reproduces a row from the files as their makers publish them: small copies, positive chips brighter than others."""

from __future__ import annotations

import gzip
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from cli_parts import CommandLine
from datasets.test_binary_files import idx

from pu_geo.datasets import binary_files, chip_files
from pu_geo.tasks.train import tables

N = 60


def write_fmnist(folder: Path, positive: tuple[str, ...]) -> None:
    classes = (np.arange(N) % 10).astype(np.uint8)
    chips = np.random.default_rng(0).integers(0, 80, (N, 28, 28)).astype(np.uint8)
    chips[np.isin(np.array(binary_files.FMNIST)[classes], positive)] += 100
    for name, rows in (("train", slice(0, 40)), ("t10k", slice(40, N))):
        for kind, values in (("images-idx3", chips), ("labels-idx1", classes)):
            (folder / f"{name}-{kind}-ubyte.gz").write_bytes(gzip.compress(idx(values[rows])))


def test_each_table_is_read_by_the_reader_of_its_files() -> None:
    """What each reader makes of its files is told in tests/datasets."""
    assert {name: table.read for name, table in tables.TABLES.items()} == {
        "fmnist": binary_files.read_fmnist, "cifar10": binary_files.read_cifar10, "cifar100": binary_files.read_cifar100,
        "stl10": binary_files.read_stl10, "abcd": chip_files.read_abcd, "xbd": chip_files.read_xbd, "harvey": chip_files.read_chips,
    }  # fmt: skip


def test_one_command_gives_a_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: CommandLine) -> None:
    table = tables.TABLES["fmnist"]
    first = table.settings[0]
    write_fmnist(tmp_path, first.positive)
    few = replace(first, n_positive=4, n_unlabeled=0, prior=first.prior and 0.4)
    monkeypatch.setitem(tables.TABLES, "fmnist", replace(table, settings=(few,)))
    (row,) = run.json("benchmark", "fmnist", "--data", tmp_path, "--methods", "linear", "--seeds", "1")["outcomes"]
    assert row["n_positive"] == 4
    assert 0 < row["n_test_positive"] < row["n_test"]
    assert row["auc"] > 0.9
