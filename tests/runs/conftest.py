"""Projects that trainings start from."""

import numpy as np
import pytest
from model_parts import with_chips
from small_parts import add_chips, click

from pu_geo.store.layout import Layout


@pytest.fixture
def chipped(project: Layout) -> Layout:
    """A project with chips, filters and their features, six positives and six undamaged."""
    return with_chips(project)


@pytest.fixture
def clicked(project: Layout) -> Layout:
    """A project with 20 chips of made-up features and six positives."""
    rng = np.random.default_rng(0)
    ids = [f"b{i}" for i in range(20)]
    features = rng.normal(size=(4, 20, 8)).astype(np.float16)
    chips = rng.integers(0, 255, (20, 6, 16, 16)).astype(np.uint8)
    add_chips(project, ids, bands="pre+post", chips=chips, features=features)
    click(project, *ids[:6])
    return project
