"""The released shared filters come from the sample event, and their table says what was measured."""

from __future__ import annotations

import numpy as np
import pytest
from safetensors.numpy import load

from benchmarks import shared_features
from benchmarks.ranking_sets import CHOSEN, REPORTED
from benchmarks.shared_features import OWN, SHARED, Outcome
from pu_geo.features import shared


@pytest.mark.slow
@pytest.mark.long(part="slow")
def test_released_filters_are_patches_of_the_sample_event() -> None:
    """Whoever doubts that they hold no imagery can make them again; numbers differ by rounding alone."""
    made, released = shared_features.made(shared_features.sample_chips()), load(shared.FILE.read_bytes())
    assert made.keys() == released.keys()
    for name, array in released.items():
        np.testing.assert_allclose(made[name].astype(np.float64), array.astype(np.float64), atol=0.01, err_msg=name)


def test_table_has_means_and_paired_differences() -> None:
    found = [
        Outcome("linear ranker, 10 clicks", where, role, candidate, seed, ap + 0.1 * seed, 0.5)
        for where, role in (("here", CHOSEN), ("there", REPORTED))
        for candidate, ap in ((OWN, 0.5), (SHARED, 0.47))
        for seed in (0, 1)
    ]
    lines = shared_features.section(found).splitlines()
    first, second = (next(line for line in lines if line.startswith(f"| {where} |")) for where in ("here", "there"))
    # Means of .50 and .60, and of .47 and .57; each draw is .03 behind, so the interval is that number.
    assert first.startswith(
        "| here | chosen on | linear ranker, 10 clicks | 2 | 0.550 / 0.500 | 0.520 / 0.500 (-0.030 [-0.030, -0.030]) |"
    )
    assert "| reported on |" in second
    assert shared_features.section([]) == ""
