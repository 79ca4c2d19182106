"""Small projects with real features, on which methods are trained for models that are handed on."""

from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from small_parts import add_chips, click, job_of

from pu_geo.features import rcf
from pu_geo.lifecycle.copying import copy_project
from pu_geo.methods import catalog
from pu_geo.runs import train_job as train_task
from pu_geo.store import runs
from pu_geo.store.layout import Layout
from pu_geo.training import model_files

N, SIDE_PX, N_VIEWS = 20, 16, 3
SHORT = {"epochs": "2", "batch_size": "10", "rounds": "3", "max_steps": "4"}


def with_chips(
    layout: Layout, *, seed: int = 0, n_bands: int = 6, n_filters: int = 4, is_clicked: bool = True, **facts: object
) -> Layout:
    """Give a project of 20 buildings chips, random filters and their features, six positives and six undamaged."""
    rng = np.random.default_rng(seed)
    chips = rng.integers(60, 120, (N, n_bands, SIDE_PX, SIDE_PX)).astype(np.uint8)
    chips[:8, -3:, 3:9, 3:9] = 220
    bank = rcf.RcfBank.fit(chips, torch.Generator().manual_seed(0), rcf.RcfSettings(n_filters=n_filters))
    views = bank.transform(chips, N_VIEWS, seed=0, device=torch.device("cpu"))
    ids = [f"b{i}" for i in range(N)]
    add_chips(
        layout, ids, bands="pre+post" if n_bands == 6 else "post", size_px=SIDE_PX, chips=chips, features=views, **facts
    )
    np.savez(layout.filters("set"), allow_pickle=False, **bank.state())
    if is_clicked:
        click(layout, *ids[:6])
        click(layout, *ids[-6:], label="not_damaged")
    return layout


def trained(layout: Layout, method: str, **settings: object) -> str:
    """Train a method for a moment, and return its run."""
    known = set(catalog.card(method).settings.__dataclass_fields__)
    short: dict[str, Any] = {name: value for name, value in SHORT.items() if name in known}
    chosen = {**short, **{name: str(value) for name, value in settings.items()}}
    job = job_of(layout, f"train-{method.replace('+', '-')}-{len(list(layout.jobs.glob('*')))}")
    return str(train_task.train(job, method=method, preset="quick", overrides=chosen)["run_id"])


def parts(layout: Layout, run_id: str) -> tuple[bytes, bytes]:
    """Return `model.json` and `model.safetensors` of a run."""
    folder: Path = layout.run(run_id)
    return (folder / "model.json").read_bytes(), (folder / "model.safetensors").read_bytes()


def array_of(layout: Layout, run_id: str, name: str = "scores") -> NDArray[Any]:
    return np.asarray(runs.array(layout, run_id, name))


def exported(layout: Layout, run_id: str, path: Path) -> str:
    """Write the model of a run to a file; return its path."""
    model_files.write(path, *parts(layout, run_id))
    return str(path)


def copy_of(layout: Layout, name: str = "copy") -> Layout:
    """Copy a project, as a person does who trains elsewhere."""
    return Layout(Path(str(copy_project(layout, str(layout.folder.with_name(f"{name}.pugeo")))["out"])))


class TrainedOnce:
    """A project with chips, and runs that are made when a test first asks for them; tests only read it."""

    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        self._runs: dict[tuple[object, ...], str] = {}

    def run(self, method: str, **settings: object) -> str:
        key = (method, *sorted(settings.items()))
        if key not in self._runs:
            self._runs[key] = trained(self.layout, method, **settings)
        return self._runs[key]

    def parts(self, method: str, **settings: object) -> tuple[bytes, bytes]:
        return parts(self.layout, self.run(method, **settings))
