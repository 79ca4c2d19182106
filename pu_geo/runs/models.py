"""What the Train screen and the command line ask for about models: which runs have one, export, and use of another's."""

from __future__ import annotations

import tempfile
from pathlib import Path

from pu_geo.errors import ModelError, writing
from pu_geo.records import Facts, RunFacts
from pu_geo.store import runs, store
from pu_geo.store.layout import Layout
from pu_geo.training import model_files
from pu_geo.training.model_files import SUFFIX


def runs_with_model(layout: Layout) -> list[RunFacts]:
    """Return the runs whose model can be exported, newest first."""
    return [run for run in store.call(layout, runs.all_runs) if model_files.is_there(layout.run(run.run_id))]


def model_file(layout: Layout, run_id: str) -> bytes:
    """Return the model file of a run, as `export` writes it. Raises ModelError if the run has no model, or a damaged one."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.zip"
        model_files.write(path, *model_files.of_run(layout.run(run_id)))
        return path.read_bytes()


def export(layout: Layout, run_id: str, out: str) -> Facts:
    """Write the model of a run into one file.

    Args:
        run_id: "latest" is the newest that has a model.
        out: path; in a folder that exists the file gets the run's name.

    Returns:
        {"run_id", "out": path written, "bytes"}

    Raises:
        ProjectError: if there is no such run.
        ModelError: if it has no model, or the file cannot be written.
    """
    newest = runs_with_model(layout)[:1] if run_id == "latest" else []
    found = newest[0].run_id if newest else store.call(layout, runs.find, run_id).run_id
    path = Path(out).expanduser().resolve()
    path = path / f"{found}{SUFFIX}" if path.is_dir() else path
    card, weights = model_files.of_run(layout.run(found))
    with writing(path, ModelError):
        model_files.write(path, card, weights)
    return {"run_id": found, "out": str(path), "bytes": path.stat().st_size}
