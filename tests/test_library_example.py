"""The example of the library, as it is written in README and docs/library.md, on the sample event."""

from __future__ import annotations

from pathlib import Path

import geopandas
import numpy as np
import pytest

from pu_geo import Project
from pu_geo.project.layout import Layout

EXAMPLE = """
import pu_geo as pg
project = pg.Project.open("joplin.pugeo")
X, y = project.features(), project.labels()
ranker = pg.PURanker().fit(X, y)
model = pg.NcPU(preset="quick", random_state=0).fit(X, y)
scores, z = model.decision_function(X), model.transform(X)
clusters = pg.PUPL(n_clusters=2).fit_predict(z, y)
loss = pg.losses.PUCLLoss(temperature=0.5)(z1, z2, y_batch)
project.damage_map(scores=scores, threshold=model.threshold_).to_file("map.gpkg")
"""


@pytest.mark.filterwarnings("ignore:Two clusters do not follow the positives")  # they do not, and it says so
@pytest.mark.ci
@pytest.mark.slow
def test_the_example_runs_as_written(sample: Layout, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    monkeypatch.chdir(tmp_path)
    assert sample.folder == tmp_path / "joplin.pugeo"
    before = Project.open(sample.folder, progress=False)
    before.simulate_labels("damage", ["destroyed", "major-damage"], count=30)
    draw = torch.Generator().manual_seed(0)
    names = {f"z{i}": torch.randn(64, 32, generator=draw).requires_grad_() for i in (1, 2)}
    y_batch = (torch.arange(64) < 8).long()
    found: dict[str, object] = {**names, "y_batch": y_batch}
    exec(EXAMPLE, found)
    n = len(before.building_ids())
    scores, z, clusters = (np.asarray(found[name]) for name in ("scores", "z", "clusters"))
    assert (scores.shape, scores.dtype) == ((n,), np.float32)
    assert scores.min() >= 0
    assert scores.max() <= 1
    assert np.abs(np.linalg.norm(z, axis=1) - 1).max() < 1e-4
    assert set(np.unique(clusters)) == {0, 1}
    assert clusters[np.asarray(found["y"]) == 1].all()
    found["loss"].backward()  # type: ignore[attr-defined]
    assert torch.isfinite(names["z1"].grad).all()  # type: ignore[arg-type]
    table = geopandas.read_file(tmp_path / "map.gpkg").set_index("building_id")
    assert table.index.tolist() == before.building_ids()
    assert table.method.unique().tolist() == ["own_scores"]
    is_flagged = np.round(scores, 4) >= round(float(found["model"].threshold_), 4)  # type: ignore[attr-defined]
    is_shown = (table.assessed & table.label.isna()).to_numpy(bool)
    assert ((table.damage_binary == "damaged").to_numpy()[is_shown] == is_flagged[is_shown]).all()
    truth = before.footprints().damage.isin(["destroyed", "major-damage"]).to_numpy()
    assert scores[truth].mean() > scores[~truth].mean()
