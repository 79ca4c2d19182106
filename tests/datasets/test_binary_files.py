"""FMNIST, CIFAR and STL-10 in small made-up copies, the real FMNIST, and positive-unlabeled splits."""

import gzip
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from golden_parts import kind_of_refusal
from numpy.typing import NDArray

from pu_geo.datasets import binary_files, classified
from pu_geo.datasets.classified import ClassifiedChips
from pu_geo.errors import DatasetError

Pictures = NDArray[np.uint8]
Read = Callable[[Path], ClassifiedChips]
CIFAR_10_FILES = [*(f"data_batch_{i}.bin" for i in range(1, 6)), "test_batch.bin"]


def idx(values: Pictures) -> bytes:
    return np.array([0x800 + values.ndim, *values.shape], ">u4").tobytes() + values.tobytes()


def write_fmnist(folder: Path, *, packed: bool) -> tuple[Pictures, Pictures]:
    draw = np.random.default_rng(0)
    pictures, labels = draw.integers(0, 256, (7, 28, 28)).astype(np.uint8), np.array([9, 0, 3, 3, 1, 7, 2], np.uint8)
    for name, rows in (("train", slice(0, 5)), ("t10k", slice(5, 7))):
        for kind, values in (("images-idx3", pictures), ("labels-idx1", labels)):
            data = idx(values[rows])
            path = folder / f"{name}-{kind}-ubyte{'.gz' if packed else ''}"
            path.write_bytes(gzip.compress(data) if packed else data)
    return pictures, labels


def write_cifar(folder: Path, names: list[str], n_labels: int) -> tuple[Pictures, Pictures]:
    draw = np.random.default_rng(1)
    pictures = draw.integers(0, 256, (2 * len(names), 3, 32, 32)).astype(np.uint8)
    labels = draw.integers(0, 10, (2 * len(names), n_labels)).astype(np.uint8)
    rows = np.concatenate([labels, pictures.reshape(len(pictures), -1)], axis=1)
    for i, name in enumerate(names):
        (folder / name).write_bytes(rows[2 * i : 2 * i + 2].tobytes())
    return pictures, labels[:, 0]


def write_stl10(folder: Path) -> Pictures:
    draw = np.random.default_rng(2)
    pictures = draw.integers(0, 256, (6, 3, 96, 96)).astype(np.uint8)
    for name, rows in (("train", slice(0, 2)), ("test", slice(2, 4)), ("unlabeled", slice(4, 6))):
        (folder / f"{name}_X.bin").write_bytes(pictures[rows].transpose(0, 1, 3, 2).tobytes())
    (folder / "train_y.bin").write_bytes(bytes([1, 10]))
    (folder / "test_y.bin").write_bytes(bytes([3, 4]))
    return pictures


@pytest.mark.parametrize("packed", [True, False])
def test_fmnist(tmp_path: Path, packed: bool) -> None:
    pictures, labels = write_fmnist(tmp_path, packed=packed)
    read = binary_files.read_fmnist(tmp_path)
    np.testing.assert_array_equal(read.chips[:, 0], pictures)
    np.testing.assert_array_equal(read.classes, labels)
    assert read.is_test.tolist() == [False] * 5 + [True] * 2
    assert read.is_one_of(["trouser", "sneaker"]).tolist() == [False, False, False, False, True, True, False]
    with pytest.raises(DatasetError, match="no class 'cat'"):
        read.is_one_of(["cat"])


def test_cifar10_and_100(tmp_path: Path) -> None:
    for (write, read_), n_train in ((CIFAR_10, 10), (CIFAR_100, 2)):
        pictures, labels = write(tmp_path)
        read = read_(tmp_path)
        np.testing.assert_array_equal(read.chips, pictures)
        np.testing.assert_array_equal(read.classes, labels)
        assert read.is_test.tolist() == [False] * n_train + [True] * 2


def test_stl10_stands_upright_and_has_chips_without_a_class(tmp_path: Path) -> None:
    pictures = write_stl10(tmp_path)
    read = binary_files.read_stl10(tmp_path)
    np.testing.assert_array_equal(read.chips, pictures)
    assert read.classes.tolist() == [0, 9, 2, 3, -1, -1]
    assert read.is_test.tolist() == [False, False, True, True, False, False]


FMNIST = partial(write_fmnist, packed=False), binary_files.read_fmnist
PACKED = partial(write_fmnist, packed=True), binary_files.read_fmnist
CIFAR_10 = partial(write_cifar, names=CIFAR_10_FILES, n_labels=1), binary_files.read_cifar10
CIFAR_100 = partial(write_cifar, names=["train.bin", "test.bin"], n_labels=2), binary_files.read_cifar100
STL_10 = write_stl10, binary_files.read_stl10


@pytest.mark.parametrize(
    ("data_set", "name", "harm"),
    [(PACKED, "train-images-idx3-ubyte.gz", lambda data: data[:-3]), (FMNIST, "train-labels-idx1-ubyte", lambda data: b""),
     (FMNIST, "train-images-idx3-ubyte", lambda data: data[:4] + b"\xff\xff\xff\xff" + data[8:]),
     (FMNIST, "train-labels-idx1-ubyte", lambda data: data[:-1] + bytes([10])),
     (CIFAR_10, "test_batch.bin", lambda data: data[:-3]), (CIFAR_100, "train.bin", lambda data: bytes([20]) + data[1:]),
     (STL_10, "train_y.bin", lambda data: data[:-1] + bytes([11])), (STL_10, "test_y.bin", lambda data: data[:-1] + bytes([0]))],
)  # fmt: skip
def test_damaged_files_and_labels_of_no_class_are_refused(
    tmp_path: Path, data_set: tuple[Callable[[Path], object], Read], name: str, harm: Callable[[bytes], bytes]
) -> None:
    write, read = data_set
    assert kind_of_refusal(read, tmp_path) == "missing"
    write(tmp_path)
    read(tmp_path)
    (tmp_path / name).write_bytes(harm((tmp_path / name).read_bytes()))
    assert kind_of_refusal(read, tmp_path) == "corrupt"


def test_real_fmnist(shared: Path) -> None:
    read = binary_files.read_fmnist(shared / "data" / "fashion_mnist")
    assert read.chips.shape == (70_000, 1, 28, 28)
    assert np.bincount(read.classes[~read.is_test]).tolist() == [6000] * 10
    assert read.is_test.sum() == 10_000


TRUTH = np.arange(2000) % 5 == 0  # 20 % positive
POOL, TEST = np.arange(1500), np.arange(1500, 2000)


@pytest.mark.parametrize(("prior", "n"), [(None, 400), (0.5, 300), (0.5, 0)])
def test_case_control_draws_apart_at_the_asked_share(prior: float | None, n: int) -> None:
    made = classified.case_control(TRUTH, POOL, TEST, 100, n, prior, np.random.default_rng(0))
    assert TRUTH[made.positive].all()
    assert len(made.positive) == 100
    everything = np.concatenate([made.positive, made.unlabeled, made.test])
    assert len(set(everything.tolist())) == len(everything)
    assert n in (0, len(made.unlabeled))
    share = 200 / 1400 if prior is None else prior
    assert TRUTH[made.unlabeled].mean() == pytest.approx(share, abs=1 / len(made.unlabeled))
    if n == 0:
        assert len(made.unlabeled) == 400, "all 200 positives that are left, and as many others"


@pytest.mark.parametrize("prior", [None, 0.05, 0.5])
def test_single_set_hides_the_rest_of_the_positives(prior: float | None) -> None:
    made = classified.single_set(TRUTH, POOL, None, 10, prior, np.random.default_rng(0))
    np.testing.assert_array_equal(made.test, made.unlabeled)
    everything = np.concatenate([made.positive, made.unlabeled])
    assert len(set(everything.tolist())) == len(everything)
    assert TRUTH[everything].mean() == pytest.approx(0.2 if prior is None else prior, abs=0.002)
    assert len(made.positive) == 10


def test_too_few_are_refused() -> None:
    rng = np.random.default_rng(0)
    for n_positive, n_unlabeled, prior in ((400, 100, 0.1), (10, 1000, 0.9), (10, 5000, None)):
        with pytest.raises(DatasetError):
            classified.case_control(TRUTH, POOL, TEST, n_positive, n_unlabeled, prior, rng)
    with pytest.raises(DatasetError):
        classified.single_set(TRUTH, POOL, None, 63, 0.05, rng)


def test_places_are_set_aside_whole_and_something_is_left_to_learn_from() -> None:
    place = np.repeat(np.arange(40), np.arange(1, 41))
    is_test = classified.held_out_places(place, 0.3, np.random.default_rng(0))
    assert 0.3 <= is_test.mean() < 0.36
    assert all(len(set(is_test[place == each].tolist())) == 1 for each in range(40))
    for seed in range(6):
        is_test = classified.held_out_places(np.array([0] * 95 + [1] * 5), 0.3, np.random.default_rng(seed))
        assert 0 < is_test.sum() < 100
