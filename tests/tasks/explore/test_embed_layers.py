"""Buildings of newer chips are embedded by a run on layers only where these were scaled alike."""

from __future__ import annotations

import json

import numpy as np
import pytest
from layered_chip_parts import layer_set, with_layers
from model_parts import job_of
from small_parts import facts_of

from pu_geo.errors import ModelError
from pu_geo.project import runs
from pu_geo.project.layout import Layout, write_array
from pu_geo.tasks.explore.embed import embed_again
from pu_geo.tasks.train.train import rank

pytestmark = pytest.mark.slow


def test_chips_whose_layers_are_scaled_otherwise_are_refused(project: Layout) -> None:
    with_layers(project)
    layer_set(project, "pre+post", "sar-post", use=True)
    facts = facts_of(project, str(rank(job_of(project, "rank"))["run_id"]))
    cut = json.loads(project.chip_facts("set").read_text())
    write_array(project.chips("newer"), np.load(project.chips("set")))
    rows = np.arange(3)

    def embedded(**bands: list[list[float]]) -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
        scaling = {name: {**about, "bands": bands.get(name, about["bands"])} for name, about in cut["scaling"].items()}
        project.chip_facts("newer").write_text(json.dumps({**cut, "chip_set": "newer", "scaling": scaling}))
        return embed_again(job_of(project, "embed"), facts, "newer", rows)

    stored = np.asarray(runs.array(project, facts.run_id, "embeddings"), np.float32)[rows]
    found = embedded()
    unit = [each / np.linalg.norm(each, axis=1, keepdims=True) for each in (found, stored)]
    np.testing.assert_allclose((unit[0] * unit[1]).sum(axis=1), 1, atol=0.01)
    embedded(dsm=[[0.0, 80.0]])  # which the run did not learn from
    with pytest.raises(ModelError, match="layer sar-post of the newest chips is scaled from"):
        embedded(**{"sar-post": [[-30.0, 0.0], [-30.0, -5.0]]})
