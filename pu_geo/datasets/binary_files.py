"""Fashion-MNIST, CIFAR-10, CIFAR-100 and STL-10 from the raw files that their makers publish. Nothing is unpickled.

Sources: Xiao et al. 2017 (IDX files of LeCun et al.); Krizhevsky 2009, "binary version"; Coates et al. 2011, binary files.
A folder without one of its files raises `DatasetError` of kind "missing", a damaged file one of kind "corrupt".
"""

from __future__ import annotations

import gzip
import zlib
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pu_geo.datasets.classified import UNKNOWN_CLASS, ClassifiedChips
from pu_geo.errors import DatasetError

FMNIST = ("T-shirt/top", "trouser", "pullover", "dress", "coat", "sandal", "shirt", "sneaker", "bag", "ankle boot")
CIFAR_10 = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
STL_10 = ("airplane", "bird", "car", "cat", "deer", "dog", "horse", "monkey", "ship", "truck")
CIFAR_100_COARSE = (
    *("aquatic mammals", "fish", "flowers", "food containers", "fruit and vegetables", "household electrical devices"),
    *("household furniture", "insects", "large carnivores", "large man-made outdoor things", "large natural outdoor scenes"),
    *("large omnivores and herbivores", "medium-sized mammals", "non-insect invertebrates", "people", "reptiles"),
    *("small mammals", "trees", "vehicles 1", "vehicles 2"),
)
_IDX_MAGIC = {3: 0x00000803, 1: 0x00000801}
MAX_IDX_BYTES = 200_000_000


def read_fmnist(folder: Path) -> ClassifiedChips:
    """Read Fashion-MNIST (or MNIST, which has the same layout): 28 x 28, one band, ten classes.

    Args:
        folder: holds train-images-idx3-ubyte and the three other files, packed with gzip or not.
    """
    parts = [(_idx(folder, f"{name}-images-idx3-ubyte", 3), _idx(folder, f"{name}-labels-idx1-ubyte", 1)) for name in
             ("train", "t10k")]  # fmt: skip
    for pictures, labels in parts:
        if len(pictures) != len(labels) or (len(labels) and labels.max() >= len(FMNIST)):
            raise _corrupt(folder, f"{len(pictures)} pictures have {len(labels)} labels, or a label is over 9")
    chips, classes = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
    is_test = np.arange(len(chips)) >= len(parts[0][0])
    return ClassifiedChips(chips[:, None], classes.astype(np.int64), FMNIST, is_test)


def read_cifar10(folder: Path) -> ClassifiedChips:
    """Read CIFAR-10, binary version: 32 x 32, three bands, ten classes; data_batch_1.bin to _5.bin and test_batch.bin."""
    names = [*(f"data_batch_{i}.bin" for i in range(1, 6)), "test_batch.bin"]
    return _cifar(folder, names, 1, CIFAR_10)


def read_cifar100(folder: Path) -> ClassifiedChips:
    """Read CIFAR-100, binary version, with its 20 superclasses: 32 x 32, three bands. From train.bin and test.bin."""
    return _cifar(folder, ["train.bin", "test.bin"], 2, CIFAR_100_COARSE)


def read_stl10(folder: Path) -> ClassifiedChips:
    """Read STL-10: 96 x 96, three bands; 5,000 for training, 8,000 for testing, 100,000 without a class.

    Args:
        folder: holds train_X.bin, train_y.bin, test_X.bin, test_y.bin and unlabeled_X.bin.
    """
    chips, classes, is_test = [], [], []
    for part in ("train", "test", "unlabeled"):
        path = _existing(folder, f"{part}_X.bin")
        pictures = _records(path, 3 * 96 * 96).reshape(-1, 3, 96, 96).transpose(0, 1, 3, 2)  # columns come first on disk
        if part == "unlabeled":
            own = np.full(len(pictures), UNKNOWN_CLASS, np.int64)
        else:
            own = _records(_existing(folder, f"{part}_y.bin"), 1)[:, 0].astype(np.int64) - 1
        if len(own) != len(pictures) or (len(own) and own.max() >= len(STL_10)) or (part != "unlabeled" and own.min() < 0):
            raise _corrupt(path, f"{len(pictures)} pictures have {len(own)} labels, or a label is not 1 to 10")
        chips.append(pictures)
        classes.append(own)
        is_test.append(np.full(len(own), part == "test"))
    return ClassifiedChips(np.concatenate(chips), np.concatenate(classes), STL_10, np.concatenate(is_test))


def _cifar(folder: Path, names: list[str], n_labels: int, class_names: tuple[str, ...]) -> ClassifiedChips:
    """Read records of some label bytes, the first of which is kept, and 3 x 32 x 32 samples; the last file is for
    testing.
    """
    found = [_records(_existing(folder, name), n_labels + 3072) for name in names]
    rows = np.concatenate(found)
    classes = rows[:, 0].astype(np.int64)
    if len(rows) and classes.max() >= len(class_names):
        raise _corrupt(folder, f"there is a label {int(classes.max())}; labels end at {len(class_names) - 1}")
    is_test = np.arange(len(rows)) >= len(rows) - len(found[-1])
    return ClassifiedChips(rows[:, n_labels:].reshape(-1, 3, 32, 32), classes, class_names, is_test)


def _records(path: Path, size: int) -> NDArray[np.uint8]:
    """Return a file as records of `size` bytes, uint8 [N, size], without reading it yet."""
    n_bytes = path.stat().st_size
    if not n_bytes or n_bytes % size:
        raise _corrupt(path, f"{n_bytes:,} bytes are no whole number of records of {size:,}")
    return np.memmap(path, dtype=np.uint8, mode="r").reshape(-1, size)


def _existing(folder: Path, name: str) -> Path:
    path = folder / name
    if not path.is_file():
        raise DatasetError(
            f"{folder} does not hold {name}.",
            "Choose the folder that the published archive unpacks to (of CIFAR the binary version, not the Python one).",
            kind="missing",
        )
    return path


def _idx(folder: Path, name: str, n_axes: int) -> NDArray[np.uint8]:
    """Read an IDX file of unsigned bytes with 1 or 3 axes, packed with gzip or not."""
    packed = folder / f"{name}.gz"
    path = packed if packed.is_file() else _existing(folder, name)
    try:
        with gzip.open(path) if path == packed else path.open("rb") as stream:
            data = stream.read(MAX_IDX_BYTES)
    except (OSError, EOFError, zlib.error) as cause:
        raise _corrupt(path, str(cause)) from cause
    header = np.frombuffer(data[: 4 * (n_axes + 1)], ">u4")
    if len(header) != n_axes + 1 or header[0] != _IDX_MAGIC[n_axes]:
        raise _corrupt(path, "it does not begin as an IDX file of that kind")
    shape = tuple(int(size) for size in header[1:])
    values = np.frombuffer(data, np.uint8, offset=4 * (n_axes + 1))
    if len(values) != np.prod(shape, dtype=np.int64) or shape[1:] not in ((), (28, 28)):
        raise _corrupt(path, f"it announces {shape} and holds {len(values):,} values")
    return values.reshape(shape)


def _corrupt(path: Path, why: str) -> DatasetError:
    return DatasetError(f"{path.name} is damaged: {why}.", "Download it again.", kind="corrupt")
