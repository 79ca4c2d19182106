"""Real flood chips with their truth, for tests; they skip where the shared data is absent."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path

import cv2
import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from pu_geo.features import rcf


def harvey(shared: Path, *, n_undamaged: int, n_damaged: int) -> tuple[NDArray[np.float32], NDArray[np.bool_]]:
    """Features of some of the flood chips, and which are damaged."""
    path = shared / "data" / "harvey_chips" / "region_A.zip"
    if not path.is_file():
        pytest.skip("no Harvey chips")
    with zipfile.ZipFile(path) as pack:
        lines = io.TextIOWrapper(pack.open("index.csv"), "utf-8").read().splitlines()
        names = lines[0].split(",")
        rows = [dict(zip(names, line.split(","), strict=False)) for line in lines[1:]]
        damaged = [row["path"] for row in rows if row["label"] == "damage"][:n_damaged]
        others = [row["path"] for row in rows if row["label"] != "damage"][:n_undamaged]
        pictures = np.stack([small(pack.read(name)) for name in (*damaged, *others)])
    bank = rcf.RcfBank.fit(pictures, torch.Generator().manual_seed(0), rcf.RcfSettings(n_filters=128))
    views = bank.transform(pictures, 1, seed=0, device=torch.device("cpu"))
    return views[0].astype(np.float32), np.arange(len(pictures)) < len(damaged)


def small(jpeg: bytes) -> NDArray[np.uint8]:
    picture = cv2.imdecode(np.frombuffer(jpeg, np.uint8), cv2.IMREAD_COLOR)
    return np.ascontiguousarray(cv2.resize(picture, (48, 48), interpolation=cv2.INTER_AREA)[:, :, ::-1].transpose(2, 0, 1))
