"""What benchmarks kept still holds what the product promises; the released filters come from the sample event."""

import numpy as np
import pytest
from safetensors.numpy import load

from benchmarks import shared_features
from benchmarks.ranking import KEPT, summary
from benchmarks.ranking_sets import cells
from pu_geo.features import shared


@pytest.mark.slow
@pytest.mark.long(part="slow")
def test_released_filters_are_patches_of_the_sample_event() -> None:
    """Whoever doubts that they hold no imagery can make them again; numbers differ by rounding alone."""
    made, released = shared_features.made(shared_features.sample_chips()), load(shared.FILE.read_bytes())
    assert made.keys() == released.keys()
    for name, array in released.items():
        np.testing.assert_allclose(made[name].astype(np.float64), array.astype(np.float64), atol=0.01, err_msg=name)


def test_the_default_ranker_gains_what_it_promises() -> None:
    found = summary(KEPT.read())
    assert found["every cell"][1] >= -0.01
    assert found["at most 5 %"][0] >= 0.05
    assert found["20 %"][0] >= 0.03
    assert found["every cell"][2] >= len([cell for cell in cells() if cell.source in ("joplin", "santa_rosa_a")])
