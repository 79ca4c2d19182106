"""What a person asks of trainings: a ranking, a training, scores by a model that came, and a comparison of features."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pu_geo.jobs.actions import REQUIRED, Action, PathOrText, absolute
from pu_geo.jobs.tasks import Task
from pu_geo.methods import catalog
from pu_geo.methods.catalog import TrainingRequest
from pu_geo.methods.settings import setting
from pu_geo.runs import layer_comparison, training
from pu_geo.store.layout import Layout
from pu_geo.training import model_files


@dataclass(frozen=True)
class Rank(Action):
    """Rank all buildings with the instant ranker; makes a run."""

    task = Task("pu_geo.runs.train_job:rank", "Ranking", screen="train", panel="methods", needs_torch=True)
    feature_set: str = setting("", catalog.FEATURES_HELP, flag="--features", metavar="NAME")


@dataclass(frozen=True)
class Train(TrainingRequest, Action):
    """Train a method and score all buildings; makes a run."""

    task = Task(
        "pu_geo.runs.train_job:train",
        "Training",
        screen="train",
        panel="methods",
        needs_torch=True,
        needs_device=True,
        can_pause=True,
    )

    @property
    def title(self) -> str:
        return f"Training {catalog.name_within(self.method)}"

    def args(self, layout: Layout) -> Mapping[str, Any]:
        """Return what a job keeps, after checking what can be checked at once. Raises as `training.require`."""
        training.require(layout, self)
        return self.as_args()


@dataclass(frozen=True)
class ApplyModel(Action):
    """Score all buildings of a project by a model file, or by the newest model of another copy of it; makes a run."""

    task = Task(
        "pu_geo.runs.apply_model_job:apply_model",
        "Scoring with a model",
        screen="research",
        panel="model",
        needs_torch=True,
        needs_device=True,
    )
    path: PathOrText = setting(REQUIRED, "", read=absolute, metavar="FILE", is_positional=True, noun="model file")

    def args(self, layout: Layout) -> Mapping[str, Any]:
        """Return the path. Raises ModelError for a file that holds no model, or is damaged."""
        if not Path(str(self.path)).is_dir():
            model_files.read(Path(str(self.path)))
        return super().args(layout)


@dataclass(frozen=True)
class CompareLayers(Action):
    """Measure what each layer adds: how high your own clicks rank while held out, with all layers and without each."""

    task = Task(
        "pu_geo.runs.compare_layers_job:compare_layers",
        "Comparing layers",
        screen="research",
        panel="layers",
        needs_torch=True,
        needs_device=True,
    )

    def args(self, layout: Layout) -> Mapping[str, Any]:
        """Return what the job takes. Raises as `layer_comparison.require`."""
        layer_comparison.require(layout)
        return super().args(layout)
