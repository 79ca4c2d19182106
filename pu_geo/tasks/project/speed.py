"""How fast this machine is: a small piece of work that was timed where the costs of steps were measured, see `scale.costs`."""

from __future__ import annotations

import time

import numpy as np
import torch

from pu_geo.features.rcf import RcfBank
from pu_geo.training.threads import one_thread

N_CHIPS, N_VIEWS, SIZE_PX, TIMES = 128, 5, 64, 3


def known_piece_s() -> float:
    """Return the seconds of a processor that features of 128 made-up chips take, on one thread: the shortest of three times."""
    chips = np.random.default_rng(0).integers(0, 255, (N_CHIPS, 6, SIZE_PX, SIZE_PX), np.uint8)
    found = []
    with one_thread():
        bank = RcfBank.fit(chips, torch.Generator().manual_seed(0))
        for _ in range(TIMES):
            began = time.process_time()
            bank.transform(chips, N_VIEWS, seed=0, device=torch.device("cpu"))
            found.append(time.process_time() - began)
    return min(found)
