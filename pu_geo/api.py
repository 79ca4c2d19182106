"""`Project`: the steps of the app and the command line as methods that return ordinary objects.

Each method is one call of a service or a task. Nothing stays open between two calls: the project file is opened by sqlite3,
read or written, and closed again, so the app may serve the same project meanwhile.

Never open `project.gpkg` with geopandas, pyogrio or fiona in a process that uses PU-Geo, not even to read it: a second
SQLite library takes away the first one's locks, and clicks of the app are lost. `footprints()` and `live_map()` return what
is in it.
"""

from __future__ import annotations

import base64
import inspect
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields
from itertools import cycle
from pathlib import Path
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar

import numpy as np
from numpy.typing import NDArray

from pu_geo import jobs
from pu_geo.answers import labeling
from pu_geo.assessment import auditing, random_audits
from pu_geo.assessment.auditing import AuditView, HowMany
from pu_geo.errors import JobCancelled, JobError, JobPaused, ProjectError, PuGeoError
from pu_geo.explore import coloring, discovering, groups, looks, questions
from pu_geo.explore.actions import Discover, Look
from pu_geo.files import make_folder, remove_path
from pu_geo.jobs import JobView, actions, foreground
from pu_geo.jobs.actions import Action, Files, PathOrText, RunName, absolute, absolutes, kind_of, run_name
from pu_geo.lifecycle import projects
from pu_geo.lifecycle.copying import copy_project
from pu_geo.maps import damage_map, run_card, thresholds
from pu_geo.maps.actions import AddAreas, Export, Publish
from pu_geo.methods.catalog import DEFAULT_METHOD, METHODS
from pu_geo.records import Label, Layer, RunFacts, Scene, View
from pu_geo.runs import comparing, layer_comparison, models, training
from pu_geo.runs.actions import ApplyModel, CompareLayers, Rank, Train
from pu_geo.scenes import features, pictures, preparation, sites
from pu_geo.scenes.actions import (
    AddAoi,
    AddFeatures,
    AddFootprints,
    AddGrid,
    AddLayer,
    AddScenes,
    AddXbd,
    Align,
    Chip,
    PutInSite,
    Relink,
)
from pu_geo.scenes.sites import Site
from pu_geo.store import chosen as choices
from pu_geo.store import contents, feature_sets, labels, runs, store
from pu_geo.store.choices import Threshold
from pu_geo.store.feature_sets import FeatureSet
from pu_geo.store.grades import Grade
from pu_geo.store.layout import Layout, find_project, read_array
from pu_geo.wording import LABEL_WORDS, listed

if TYPE_CHECKING:
    import geopandas
    import pandas
    import plotly

CHOSEN = "chosen"
DETAILS = ("reason", "damage_types", "absent_types", "comment", "grade")


@dataclass(frozen=True, eq=False)
class Run:
    """A finished run, which never changes: its facts, and its arrays in the order of `building_ids`.

    Attributes:
        facts: method, settings, seed, threshold to start from, warnings, versions.
        building_ids: [N].
        scores: float32 [N] in 0..1, higher is more likely damaged; uncalibrated. A memory map.
        embeddings: unit rows, float32 or float16 [N, E], a memory map.
    """

    facts: RunFacts
    building_ids: Sequence[str]
    scores: NDArray[np.float32]
    embeddings: NDArray[np.floating]

    @property
    def run_id(self) -> str:
        """The id under which every method takes it as `run`."""
        return self.facts.run_id


@dataclass(frozen=True, eq=False)
class EmbeddingMap:
    """The picture of all buildings that the Explore page shows.

    Attributes:
        figure: of Plotly: a dot a building, clicks ringed, density shaded, and what there is of each region.
        words: what may be read from how near clicks are to each other.
    """

    figure: plotly.graph_objects.Figure
    words: str

    def show(self) -> None:
        """Draw it, in a notebook or in a browser."""
        self.figure.show()


Given = ParamSpec("Given")
Result = TypeVar("Result")


def _step(
    action: Callable[Given, Action], then: Callable[[Project, Mapping[str, Any]], Result]
) -> Callable[Concatenate[Project, Given], Result]:
    """Return the method that does an action: its arguments and help are those of the action's class.

    Args:
        then: makes what is returned of what the job returned.
    """

    def step(self: Project, *given: Given.args, **more: Given.kwargs) -> Result:
        return then(self, self._run(action(*given, **more)))

    step.__doc__ = actions.described(action)  # type: ignore[arg-type]
    own = inspect.Parameter("self", inspect.Parameter.POSITIONAL_ONLY)
    step.__signature__ = inspect.Signature([own, *inspect.signature(action).parameters.values()])  # type: ignore[attr-defined]
    return step


def _facts_of(self: Project, result: Mapping[str, Any]) -> Mapping[str, Any]:
    return result


def _run_of(self: Project, result: Mapping[str, Any]) -> Run:
    return self.run(str(result["run_id"]))


class Project:
    """One `.pugeo` folder. Make one by `open`, `create` or `sample`; it may be open in the app at the same time.

    Steps that take longer draw a bar and return when they are done; an interrupt (Ctrl+C, or the stop button of a notebook)
    cancels them, and they make no run, no chips, no file. A training that was cancelled or paused can be resumed from its
    last checkpoint in the app, or by `pu-geo jobs FOLDER resume ID`; calling the method again starts a new one. A method
    that takes `run` takes the run itself, its id, "latest", or "chosen": the one that the app shows. Everything that a user
    can mend raises `PuGeoError`, with `problem` and `hint`.
    """

    def __init__(self, layout: Layout, *, progress: bool = True) -> None:
        self._layout, self._progress = layout, progress

    def __repr__(self) -> str:
        return f"Project({str(self.folder)!r})"

    # Project

    @classmethod
    def open(cls, path: PathOrText, *, from_elsewhere: bool = False, progress: bool = True) -> Project:
        """Open a project that is there. One that another installation made can be viewed and exported, not changed.

        Args:
            from_elsewhere: you trust where it comes from: it can be changed from now on. `pu-geo open` lists what is odd in
                it.
            progress: whether steps draw a bar on stderr, or as a widget in a notebook.

        Raises:
            ProjectError: if there is none, or another version of PU-Geo made it.
        """
        try:
            if from_elsewhere:
                projects.trust(find_project(path))
            layout = store.open_project(path)
        except ProjectError as error:
            raise ProjectError(error.problem, _where_else(path) or error.hint, kind=error.kind) from error
        choices.chosen_run(layout)  # its folder may have been taken away
        return cls(layout, progress=progress)

    @classmethod
    def create(cls, path: PathOrText, name: str | None = None, *, progress: bool = True) -> Project:
        """Make a new, empty project.

        Args:
            path: folder to make; ".pugeo" is added where it has another ending.
            name: shown to people; that of the folder if None.
        """
        folder = projects.with_ending(path)
        return cls(store.create(folder, (name or folder.stem).strip()), progress=progress)

    @classmethod
    def sample(cls, path: PathOrText | None = None, *, progress: bool = True) -> Project:
        """Return the made-up sample event, ready to be labeled; needs no network. Preparing it takes a minute, once.

        Footprints have the truth in their attribute `damage`: no-damage, minor-damage, major-damage or destroyed.

        Args:
            path: folder to make it in, or a sample event made before; if None, the copy in the user's own folder, which the
                app opens too.

        Raises:
            ProjectError: if another project is there.
        """
        project = cls(projects.sample_project(path), progress=progress)
        if not project.summary().n_chips:
            project._run("prepare", projects.sample_arguments(), "Preparing the sample event")
        return project

    @property
    def folder(self) -> Path:
        """The project's folder."""
        return self._layout.folder

    @property
    def name(self) -> str:
        """The name that people gave it."""
        return store.call(self._layout, store.project_name)

    def summary(self) -> projects.Summary:
        """Return how far the project is.

        >>> project.summary().n_positive
        4
        """
        return projects.summary(self._layout)

    def copy(self, path: PathOrText, *, with_exports: bool = True) -> Project:
        """Copy the project while people click in it: as a backup, or to train on another machine."""
        found = copy_project(self._layout, str(path), with_exports=with_exports)
        return type(self)(Layout(Path(str(found["out"]))), progress=self._progress)

    def next_round(
        self, path: PathOrText, post: Files, *, pre: Files = (), bands: Sequence[int] | None = None, name: str | None = None
    ) -> Project:
        """Make the project of the next round: new post-event scenes over the same buildings. Answers are to be confirmed.

        Layers of no date and from before the event come along; those from after it stay behind.

        Where this fails or is interrupted, the new project is removed again, unless somebody labeled in it meanwhile.
        """
        folder = projects.with_ending(path)
        was_there = folder.exists()
        made = type(self).create(path, name or self.name, progress=self._progress)
        args = {
            "previous": str(self.folder),
            "post": absolutes(post),
            "pre": absolutes(pre),
            "bands": list(bands) if bands else None,
        }
        try:
            made._run("next_round", args, "Beginning the next round")
        except BaseException:
            if not store.call(made._layout, labels.last_event):
                remove_path(made.folder)
                if was_there:
                    make_folder(made.folder)
            raise
        return made

    def jobs(self) -> list[JobView]:
        """Return the jobs of the project, those of the app too, newest first."""
        return jobs.all_jobs(self._layout)

    # Imagery

    add_scenes = _step(AddScenes, _facts_of)
    add_layer = _step(AddLayer, _facts_of)

    def layers(self) -> tuple[Layer, ...]:
        """Return the layers beside pre and post, with the scaling of each band."""
        return store.call(self._layout, contents.layers)

    put_in_site = _step(PutInSite, _facts_of)

    def sites(self) -> list[Site]:
        """Return the sites of the event: places too far apart for one grid, with their scenes and what they lack."""
        return sites.sites(self._layout)

    add_xbd = _step(AddXbd, _facts_of)
    relink = _step(Relink, _facts_of)
    add_footprints = _step(AddFootprints, _facts_of)
    add_grid = _step(AddGrid, _facts_of)
    add_aoi = _step(AddAoi, _facts_of)

    def remove_aoi(self) -> bool:
        """Take the area of interest away; footprints stay. Returns whether there was one."""
        return preparation.remove_aoi(self._layout)

    align = _step(Align, _facts_of)
    chip = _step(Chip, _facts_of)

    def scenes(self) -> list[Scene]:
        """Return the scenes in the order in which they were added."""
        return store.call(self._layout, contents.scenes)

    def footprints(self) -> geopandas.GeoDataFrame:
        """Return all footprints: `building_id` as index, their attributes as columns, project CRS.

        >>> list(project.footprints().columns)
        ['area_m2', 'source_footprint', 'damage', 'roof', 'storeys', 'types', 'uid', 'use', 'geometry']
        """
        from pu_geo.lifecycle import frames_job

        return frames_job.footprints(self._layout)

    def positions(self, chip_set: str | None = None) -> NDArray[np.float64]:
        """Return (x, y) of all buildings, metres along the axes of the project CRS, float64 [N, 2], in the order of
        `building_ids`.

        `PropagatedRanking(neighbors="on").fit(X, y, positions=project.positions())` lets neighboring buildings count. A
        building whose footprint is gone has NaN.

        >>> project.positions().shape == (len(project.building_ids()), 2)
        True
        """
        return store.call(self._layout, contents.centers_m, self.building_ids(chip_set))

    def building_ids(self, chip_set: str | None = None) -> list[str]:
        """Return the building of each row of `features`, `chips`, `labels`, `known_negative` and `excluded`.

        These are the buildings of a chip set, the newest if None; `footprints()` also has those that were added since.

        >>> building_ids = project.building_ids()
        >>> project.footprints().loc[building_ids].index.tolist() == building_ids
        True
        """
        return list(preparation.chip_set_facts(self._layout, chip_set)["building_ids"])

    def features(self, chip_set: str | None = None, *, name: str | None = None) -> NDArray[np.float16]:
        """Return the frozen features of all buildings, float16 [V, N, D], a read-only memory map.

        `name` is one of `feature_sets()`; the set in use if None, which is "rcf" unless somebody chose another one. View 0
        is of the chips as they were cut, the others are of augmented ones; every estimator takes all of them, or one.

        >>> X = project.features()
        >>> X.shape[1] == len(project.building_ids())
        True
        """
        of = str(preparation.chip_set_facts(self._layout, chip_set)["chip_set"])
        used = name or store.call(self._layout, feature_sets.in_use, self._layout, of).name
        return feature_sets.views(self._layout, of, used)

    def feature_sets(self) -> list[FeatureSet]:
        """Return the feature sets of the newest chips, "rcf" first: name, maker with file, sha256 and license of weights,
        sizes.

        >>> [one.name for one in project.feature_sets()]
        ['rcf']
        """
        return list(features.overview(self._layout).sets)

    add_features = _step(AddFeatures, _facts_of)

    def use_features(self, name: str) -> None:
        """Use a feature set from now on where no other one is named, in the app as well."""
        features.choose(self._layout, name)

    def chips(self, chip_set: str | None = None, *, with_layers: bool = False) -> NDArray[np.uint8]:
        """Return the chips of all buildings, uint8 [N, C, H, W], a read-only memory map; C is 6 (pre and post) or 3 (post).

        Args:
            with_layers: the bands of layers follow those of pre and post then; `views` names them.

        >>> project.chips().shape[1:]
        (6, 64, 64)
        """
        name = preparation.chip_set_facts(self._layout, chip_set)["chip_set"]
        found: NDArray[np.uint8] = read_array(self._layout.chips(name))
        return found if with_layers else contents.optical(found, contents.chip_facts(self._layout, name))

    def views(self, chip_set: str | None = None) -> tuple[tuple[View, ...], NDArray[np.bool_]]:
        """Return what the bands of chips show, and which buildings each view does not show, bool [V, N].

        >>> [view.name for view in project.views()[0]]
        ['pre', 'post']
        """
        facts = preparation.chip_set_facts(self._layout, chip_set)
        return contents.views_of(facts), contents.is_missing(facts)

    # Annotate

    def label(
        self, building_ids: str | Sequence[str], label: Label = "positive", *, analyst: str | None = None, **details: Any
    ) -> int:  # fmt: skip
        """Label buildings in one act, which one undo takes back; return how many. They are on disk when this returns.

        Args:
            label: "positive" (damaged), "not_damaged", "not_assessable", or "cleared" to take the answer away.
            analyst: who does this, a pseudonym will do; the one of this user if None.
            details: `reason` (of not assessable ones), `grade` (of damaged ones: a name or id of `known_grades`),
                `damage_types`, `absent_types` (of damaged ones: types that were looked for and not found), `comment`.

        Raises:
            PuGeoError: if these are no ids, such as a mask or row numbers; nothing is labeled.
            ProjectError: if one of them is not known, or a word is not; the others are labeled.
        """
        ids = _ids(building_ids)
        _require_known("label", details, DETAILS)
        who = analyst or labeling.default_analyst()
        known = set(store.call(self._layout, contents.building_ids))
        try:
            return labeling.label_all(self._layout, ids, label, analyst=who, screen="library", **details)
        except ProjectError as error:
            if not (unknown := [building for building in ids if building not in known]):
                raise
            raise ProjectError(
                f"{error.problem} Not in this project: {listed([repr(str(one)) for one in unknown])}.",
                "Take ids from `project.building_ids()`, or from the index of `project.footprints()`.",
            ) from error

    def simulate_labels(
        self, field: str, values: Sequence[str], *, count: int = 30, seed: int = 0, label: Label = "positive",
        grade: str = "", analyst: str | None = None,
    ) -> Mapping[str, Any]:  # fmt: skip
        """Label random buildings whose attribute is one of some values, for trials; they are marked as simulated.

        Args:
            grade: name or id of the grade of damaged ones; "" gives none.

        Returns:
            {"stored", "positives": positives in the project now}
        """
        who = analyst or labeling.default_analyst()
        wanted = [values] if isinstance(values, str) else list(values)
        return labeling.simulate(self._layout, field=field, values=wanted, count=count, seed=seed, analyst=who, label=label,
            grade=grade,
        )  # fmt: skip

    def import_labels(
        self, file: PathOrText, *, field: str = "", damaged: Sequence[str] = (), not_damaged: Sequence[str] = (),
        all_damaged: bool = False, same_footprints: bool = False, analyst: str | None = None,
    ) -> Mapping[str, Any]:  # fmt: skip
        """Add the labels of a CSV or GeoJSON file, as `export_labels` and exports of damage maps have them.

        Args:
            field, damaged, not_damaged: of a file in other words: the column that tells, and what its values mean; other
                rows are skipped.
            all_damaged: each row of the file is a damaged building, whatever it says.
            same_footprints: of a file without lon and lat: it was made of these very footprints, so its ids hold.
        """
        from pu_geo.answers import import_labels_job as import_labels

        who = analyst or labeling.default_analyst()
        meaning = import_labels.Meaning(field, tuple(damaged), tuple(not_damaged), all_damaged)
        return import_labels.import_labels(
            self._layout, str(absolute(file)), analyst=who, meaning=meaning, same_footprints=same_footprints
        )

    def export_labels(self, out: PathOrText) -> Mapping[str, Any]:
        """Write the current labels (.csv or .geojson), and their whole history beside them."""
        from pu_geo.answers import export_labels_job as export_labels

        return export_labels.export_labels(self._layout, str(absolute(out)))

    def labels(self, chip_set: str | None = None) -> NDArray[np.int64]:
        """Return y for estimators, int64 [N] in the order of `building_ids`: 1 damaged, 0 everything else.

        0 is not the opposite of 1. It stands for buildings that nobody reviewed, for those called not damaged
        (`known_negative` says which; methods that can use them take them as `known_negative=`), and for those that a
        training leaves out (`excluded`). Answers given in an audit are 0 as well: they judge what is learned from the
        others.

        >>> y = project.labels()
        >>> y.dtype, int(y.sum()), int(project.known_negative().sum()), int(project.excluded().sum())
        (dtype('int64'), 4, 2, 0)
        """
        return training.to_learn_from(self._layout, chip_set)[1].is_positive.astype(np.int64)

    def grades(self) -> dict[str, str]:
        """Return building id -> name of its grade, such as "Destroyed", for every damaged building; "" where nobody graded
        it.

        People grade, one building at a time; a method learns from it only with `train(types_from="grades")`.
        """
        return labeling.graded(self._layout)

    def known_grades(self) -> list[Grade]:
        """Return the project's grades, the worst first: id, name, class in exports, and whether clicks may still give it."""
        return labeling.known_grades(self._layout)

    def choose_grades(self, grades: Sequence[Grade]) -> list[Grade]:
        """Store another scale of grades, and return it. Grades keep their buildings by id: change a name, not an id.

        >>> from dataclasses import replace
        >>> scale = [one for one in project.known_grades() if one.is_offered]
        >>> [one.name for one in project.choose_grades([replace(scale[0], name="Total loss"), *scale[1:]])]
        ['Total loss', 'Major', 'Minor']

        Raises:
            ProjectError: if it has no grade or more than six, or a name or class cannot be.
        """
        return labeling.choose_grades(self._layout, grades)

    def known_negative(self, chip_set: str | None = None) -> NDArray[np.bool_]:
        """Return which buildings people called not damaged, bool [N] in the order of `building_ids`."""
        return training.to_learn_from(self._layout, chip_set)[1].is_not_damaged

    def excluded(self, chip_set: str | None = None) -> NDArray[np.bool_]:
        """Return which buildings the app's trainings leave out, bool [N] in the order of `building_ids`.

        They are called not assessable, answered in an audit alone, or hidden by clouds or missing data. They get a score all
        the same: `to_fit` has them for an estimator.
        """
        return training.to_learn_from(self._layout, chip_set)[1].is_excluded

    def to_fit(self, *, name: str | None = None) -> dict[str, NDArray[np.bool_]]:
        """Return what `fit` of an estimator takes beside X and y to learn what a training of the app would, bool [N] each.

        `known_negative`, `excluded`, `queued` and `accepted` of the newest chips, see `methods.estimators`, for the feature
        set `name`; that in use if None. Evidence from place takes `positions=project.positions()` beside.

        `PURanker().fit(project.features(), project.labels(), **project.to_fit())` gives the scores of `project.rank()`.

        >>> {name: int(mask.sum()) for name, mask in project.to_fit().items()}
        {'known_negative': 2, 'excluded': 0, 'queued': 0, 'accepted': 0}
        """
        from pu_geo.runs import inputs_job

        inputs = inputs_job.read_inputs(self._layout, feature_set=name or "")
        pu, nobody = inputs.pu, np.zeros(len(inputs.pu.building_ids), np.bool_)
        queued, accepted = (nobody if mask is None else mask for mask in (pu.is_queued, inputs.is_accepted))
        return {"known_negative": pu.is_not_damaged, "excluded": pu.is_excluded, "queued": queued, "accepted": accepted}

    # Train

    rank = _step(Rank, _run_of)
    _train = _step(Train, _run_of)

    def train(self, method: str = DEFAULT_METHOD, preset: str = "quick", **settings: Any) -> Run:
        """Train a method on the labels, score all buildings, and store it as a run.

        Args:
            method: a name in `pu_geo.methods.catalog.METHODS`, such as "ncpu", or that of the estimator, such as "NcPU".
            settings: seed, types_from, hold_out and feature_set, as `pu-geo train --help` describes them; and those
                of the preset that shall be others, such as `epochs=10`. Of more epochs, `max_steps` may leave out some;
                raise it as well.

        Raises:
            TrainingError: if the method cannot start with these labels or settings, or had to stop.
        """
        method = next((name for name, card in METHODS.items() if card.estimator == method), method)
        own = {one.name for one in fields(Train)} - {"overrides"}
        others = {name: settings.pop(name) for name in [*settings] if name not in own}
        return self._train(method, preset, overrides=others, **settings)

    def export_model(self, out: PathOrText, run: RunName = CHOSEN) -> Mapping[str, Any]:
        """Write the model of a run into one file, `NAME.pugeo-model.zip`."""
        return models.export(self._layout, self._facts(run).run_id, str(absolute(out)))

    apply_model = _step(ApplyModel, _run_of)

    def runs(self) -> list[RunFacts]:
        """Return the finished runs, newest first.

        >>> [facts.method for facts in project.runs()]
        ['ranker']
        """
        return training.all_runs(self._layout)

    def run(self, run: RunName = CHOSEN) -> Run:
        """Return one run with its scores and embeddings.

        >>> found = project.run("latest")
        >>> found.scores.shape == (len(found.building_ids),)
        True
        """
        facts = self._facts(run)
        scores, embeddings = (runs.array(self._layout, facts.run_id, name) for name in ("scores", "embeddings"))
        return Run(facts, runs.building_ids_of(self._layout, facts.run_id), scores, embeddings)  # type: ignore[arg-type]

    def evaluate(
        self, field: str, positive: Sequence[str], *, exclude: Sequence[str] = (), run: RunName = CHOSEN
    ) -> Mapping[str, Any]:
        """Compare a run with truth that came with the footprints, on the buildings that were not labeled when it began.

        Returns:
            {"run_id", "method", "n", "n_positive", "auc", "ap", "precision_at_k", "threshold", "oa", "f1", ...}
        """
        from pu_geo.runs import evaluate_job as evaluate

        return evaluate.evaluate(self._layout, run_name(run), field=field, positive=positive, exclude=exclude)

    def card(self, run: RunName = CHOSEN) -> Mapping[str, Any]:
        """Return the card of a run: data, labels, settings, training, judgement, limits."""
        return run_card.card(self._layout, run_name(run))

    def compare(self, one: RunName, other: RunName) -> comparing.Comparison:
        """Compare two runs: how far they agree, where they do not, and which is judged better."""
        return comparing.compare(self._layout, run_name(one), run_name(other))

    compare_layers = _step(CompareLayers, lambda self, result: layer_comparison.Comparison.from_json(result))

    # Explore

    def similar(
        self, building_ids: str | Sequence[str] = (), *, count: int = questions.MOST_ALIKE, run: RunName = ""
    ) -> questions.Asked:
        """Return where else it looks like some buildings: those that nobody answered, by look and score together.

        Args:
            building_ids: all that are damaged if there are none.
            run: whose scores count; those of the live ranking if "".
        """
        self._drawn()
        return questions.elsewhere(self._layout, _ids(building_ids), run=run_name(run), count=count)

    def label_errors(self, *, count: int = questions.MOST_DOUBTED) -> questions.Asked:
        """Return which answers may be wrong, the most doubtful first."""
        self._drawn()
        return questions.wrong(self._layout, count=count)

    look = _step(Look, lambda self, result: looks.plane_of(self._layout, str(result["source"])))

    def clusters(self, run: RunName = "") -> groups.Grouping:
        """Return small groups of buildings that look alike, those first in which a larger share was called damaged.

        Args:
            run: whose embeddings are grouped; "" for how the buildings look.
        """
        source = self._drawn(run)
        return groups.grouping(self._layout, source, looks.run_of(self._layout, source))

    def embedding_map(self, run_or_look: RunName = looks.LOOK, color: str = "place") -> EmbeddingMap:
        """Return the picture that the Explore page shows, as a Plotly figure; it is drawn first where it is not there yet.

        Args:
            run_or_look: "look" for how buildings look, or a run, whose embeddings are shown.
            color: what dots are colored by: "place" (in the ranking), "label", "cluster", "grade", "type", "groups", "site",
                "disagreement", "size", "area:LAYER" or "attribute:NAME".

        Example:
            >>> project.embedding_map().show()
        """
        source = self._drawn(run_or_look)
        found = coloring.coloring(self._layout, source, color)
        if found is None:
            raise PuGeoError(
                f"Dots cannot be colored by {color!r}; possible: {listed([*coloring.choices(self._layout)])}.",
                "Name one of them.",
            )
        return EmbeddingMap(_figure(self._layout, source, found), looks.words_of(self._layout, source))

    def _drawn(self, run: RunName = "") -> str:
        """Return the source of pictures that a run is, or the look, once its picture is there."""
        source = looks.LOOK if run in ("", looks.LOOK) else self._facts(run).run_id
        if not looks.is_drawn(self._layout, source):
            self._run(Look(run="" if source == looks.LOOK else source))
        return source

    discover = _step(Discover, lambda self, result: discovering.proposal(self._layout, str(result["discovery"])))

    # Damage map

    def choose(
        self,
        run: RunName | None = None,
        *,
        threshold: float | None = None,
        top: int | None = None,
        damage_type: str | None = None,
    ) -> RunFacts:
        """Store which run is shown and exported where none is named, and its threshold; return that run.

        Args:
            run: "auto" takes a person's choice back.
            threshold: flag buildings with at least this score, 0..1.
            top: flag so many buildings, the highest-ranked ones, instead.
            damage_type: the threshold, or the number, is of this damage type, among the damaged buildings; see
                `damage_types`.

        >>> project.choose(top=3).run_id == project.run().facts.run_id
        True
        >>> project.threshold().origin
        'top:3'
        """
        name = None if run is None else run_name(run)
        return thresholds.choose(
            self._layout, name, threshold=thresholds.checked_threshold(threshold), top=top, damage_type=damage_type
        )

    def threshold(self, run: RunName = CHOSEN) -> Threshold:
        """Return the threshold of a run's map, and who or what set it: `value`, `origin`.

        >>> 0 <= project.threshold().value <= 1
        True
        """
        return choices.threshold(self._layout, self._facts(run).run_id)

    def damage_types(self, run: RunName = CHOSEN) -> list[dict[str, Any]]:
        """Return the damage types that a run scores, as its map has them; none where it scores none.

        Returns:
            a mapping a type, as exports carry it: "name", "column", "threshold" and who set it, how many buildings have the
            type by people and by score, what its threshold rests on, and "audit" with precision and recall.

        >>> project.damage_types()
        []
        """
        return damage_map.of_run(self._layout, run_name(run)).type_facts

    def begin_audit(self, checks: int | None = None, *, run: RunName = CHOSEN, analyst: str | None = None) -> AuditView:
        """Begin the audit of a run's map; people answer its random checks on the Annotate page.

        Args:
            checks: how many, at least 30; 60 if None, or all that have no answer where these are fewer.
        """
        run_id = self._facts(run).run_id
        n = auditing.plan(self._layout, run_id).n if checks is None else checks
        if isinstance(n, bool) or not isinstance(n, int | np.integer):
            raise PuGeoError(
                f"The number of checks is {n!r}; it must be a whole number.", "Give one, such as 300, or leave it out."
            )
        random_audits.begin_audit(self._layout, run_id, int(n), analyst or labeling.default_analyst())
        return self.audit(run_id)

    def audit(self, run: RunName = CHOSEN) -> AuditView:
        """Return what the newest audit of a run says: number damaged, precision and recall by threshold, calibration.

        Raises:
            PuGeoError: if there is none.
        """
        run_id = self._facts(run).run_id
        found = auditing.view(self._layout, run_id)
        if found is None:
            raise PuGeoError(f"There is no accuracy assessment of {run_id} yet.", "Begin one with `project.begin_audit()`.")
        return found

    def how_many(self) -> HowMany:
        """Return how many buildings are damaged, with a 95 % interval where there are enough random checks.

        >>> found = project.how_many()
        >>> found.confirmed, found.basis
        (4, 'none')
        """
        return auditing.how_many(self._layout)

    add_areas = _step(AddAreas, _facts_of)

    def live_map(self) -> geopandas.GeoDataFrame:
        """Return what the damage map says now: labels, scores of the chosen run, threshold, what is assessed; project CRS.

        It is the layer `damage_map` that QGIS shows of the project, and has `building_id` as index.

        >>> project.live_map().damage_binary.isin(["damaged", "not_flagged", "not_assessed"]).all()
        np.True_
        """
        from pu_geo.lifecycle import frames_job

        return frames_job.live_map(self._layout)

    def damage_map(
        self,
        run: RunName | None = None,
        *,
        scores: NDArray[np.floating] | pandas.Series | None = None,
        threshold: float | None = None,
        top: int | None = None,
        chip_set: str | None = None,
    ) -> geopandas.GeoDataFrame:
        """Return the damage map with every field of the exports, longitude and latitude of WGS 84; nothing is written.

        `attrs["pu_geo"]` is the metadata that exports carry: counts, estimate, audit, and what the map cannot say.

        Args:
            run: whose scores; the chosen run if None.
            scores: own scores instead, float [N] in 0..1, in the order of `building_ids(chip_set)`; a pandas Series with
                building ids as its index may have any order. The map says that no run made them: method "own_scores",
                without run, score type and audit. Labels and what the imagery hides hold.
            threshold: flag buildings with at least this score; the one chosen for the run if None. Own scores need one.
            top: flag so many buildings, the highest-ranked ones of a run, instead.

        Raises:
            PuGeoError: if scores or threshold cannot be used.

        >>> scores = project.run().scores
        >>> table = project.damage_map(scores=scores, threshold=0.5)
        >>> table.method.unique().tolist(), table.run_id.isna().all()
        (['own_scores'], np.True_)
        >>> table.to_file("map.gpkg")
        """
        from pu_geo.geo.export import layers
        from pu_geo.maps.damage_map_job import build_damage_map, build_own_map, check_threshold

        if run is not None and not isinstance(run, str | Run | RunFacts):
            raise PuGeoError(
                f"{kind_of(run)} stands in the place of a run.",
                "Pass own scores as `scores=`: damage_map(scores=..., threshold=...).",
            )
        threshold = thresholds.checked_threshold(threshold)
        if scores is None:
            if threshold is not None:
                check_threshold(threshold)
            wanted = thresholds.map_arguments(self._layout, run_name(run or CHOSEN), threshold, top)
            return layers.to_geodataframe(build_damage_map(self._layout, **wanted))  # type: ignore[arg-type]
        if run is not None:
            raise PuGeoError("A map is of a run or of own scores, not of both.", "Leave one of the two out.")
        if threshold is None:
            raise PuGeoError(
                "A map of own scores needs a threshold.", "Give the one of your model, such as `threshold=model.threshold_`."
            )
        given = _by_position(scores, self.building_ids(chip_set))
        return layers.to_geodataframe(build_own_map(self._layout, given, threshold, chip_set=chip_set))

    export = _step(Export, _facts_of)
    publish = _step(Publish, _facts_of)

    def _facts(self, run: RunName) -> RunFacts:
        """Return a run's facts."""
        return choices.run(self._layout, run_name(run))

    def _run(self, task: str | Action, args: Mapping[str, Any] | None = None, title: str = "") -> Mapping[str, Any]:
        """Do an action, or a task by its name, in this process, and return its result."""
        title = task.title if isinstance(task, Action) else title
        stopped_ids: list[str] = []
        with _bar(title, self._progress) as echo:
            try:
                return foreground.run(self._layout, task, args, echo=echo, is_guest=True, named=stopped_ids.append)
            except JobPaused as stopped:
                raise JobError(
                    f"{title} was paused by somebody else, in the app or on the command line.",
                    f"`pu-geo jobs {self.folder} resume {stopped_ids[0]}`, or the app, goes on where it was.",
                    kind="paused",
                ) from stopped
            except JobCancelled as stopped:
                raise JobError(
                    f"{title} was stopped by somebody else, in the app or on the command line.",
                    "Call this step again; `project.jobs()` lists what was stopped.",
                    kind="cancelled",
                ) from stopped


@contextmanager
def _bar(title: str, is_shown: bool) -> Iterator[Callable[[str], None]]:
    """Draw a bar for a job; yield what takes its reports. In a notebook it is a widget, where these are installed."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a notebook without widgets has a bar of text
        from tqdm.auto import tqdm
    form = "{desc}: {percentage:3.0f}%|{bar}| {elapsed}{postfix}"
    with tqdm(total=100, desc=title, disable=not is_shown, bar_format=form) as bar:

        def draw(report: str) -> None:
            share = foreground.share_of(report)
            bar.set_postfix_str(report if share is None else report.partition("%")[2].strip(), refresh=False)
            bar.update((share or bar.n) - bar.n)

        yield draw
        bar.set_postfix_str("", refresh=False)
        bar.update(100 - bar.n)


def _where_else(path: PathOrText) -> str:
    """Return what to do where no project can be opened; "" where one is there that cannot be read."""
    found = projects.project_near(path)
    if found is None:
        return f"`Project.create({str(path)!r})` makes a new one, `Project.sample()` opens the sample event."
    is_there = found == Path(path).expanduser().resolve()
    return "" if is_there else f"`Project.open({str(found)!r})` opens the project there."


_GRAY, _INK = "#c9ccd1", "#1c1c1c"
_STEPS = (_GRAY, "#fdae6b", "#e6452c", "#7f0000")
_ANSWERS = {"cleared": _GRAY, "positive": "#D55E00", "not_damaged": "#0072B2", "not_assessable": "#009E73"}


def _figure(layout: Layout, source: str, color: coloring.Coloring) -> plotly.graph_objects.Figure:
    """Draw the picture of a source: shaded by density, a dot a building, clicks ringed, a thumbnail for each region."""
    from plotly import graph_objects as go
    from plotly.colors import qualitative

    with store.connect(layout) as db:
        ids, answers = np.array(contents.building_ids(db)), labels.current_labels(db)
    given = np.array([answers.get(each, "cleared") for each in ids])
    xy = np.frombuffer(looks.positions_for_browser(layout, source) or b"", "<f4").reshape(-1, 2)
    values, names = color.values, color.names
    shades: Iterable[str] = _STEPS if color.steps else ()
    if color.kind == "labels":
        names, shades = [LABEL_WORDS[each] for each in _ANSWERS], _ANSWERS.values()
        values = np.array([list(_ANSWERS).index(each) for each in given.tolist()], np.float32)
    assert values is not None

    def dots(mask: NDArray[np.bool_], name: str, **marker: object) -> go.Scattergl:
        x, y = xy[mask].T
        name = f"{name} ({int(mask.sum()):,})"
        marker = {"size": 5, **marker}
        return go.Scattergl(x=x, y=y, text=ids[mask], hoverinfo="text+name", mode="markers", name=name, marker=marker)

    shading = {"colorscale": ["white", "#dbe3ee"], "showscale": False, "contours": {"showlines": False}}
    figure = go.Figure(go.Histogram2dContour(x=xy[:, 0], y=xy[:, 1], hoverinfo="skip", **shading))
    has_value = np.isfinite(values)
    if color.kind == "numbers":
        bar = {"title": color.title, "tickvals": [color.low, color.high], "ticktext": color.ends}
        ramp = {"cmin": color.low, "cmax": color.high, "colorscale": "Cividis", "colorbar": bar}
        figure.add_trace(dots(has_value, color.title, color=values[has_value], **ramp))
    shades = shades or [
        _GRAY if name == coloring.OTHER else shade for name, shade in zip(names, cycle(qualitative.Dark24), strict=False)
    ]
    for code, (name, shade) in enumerate(zip(names, shades, strict=True)):
        figure.add_trace(dots(values == code, name, color=shade))
    if not has_value.all():
        figure.add_trace(dots(~has_value, "no value", color="#e6e6e6"))
    figure.add_trace(dots(given == "positive", "marked damaged", size=10, symbol="circle-open", color=_INK))
    _draw_regions(figure, layout, source, xy, ids)
    bare = {"visible": False}
    figure.update_layout(
        title=f"{looks.sources(layout)[source]}: {color.title}", template="plotly_white", height=700, xaxis=bare,
        yaxis={**bare, "scaleanchor": "x"}, showlegend=color.kind != "numbers",
    )  # fmt: skip
    return figure


def _draw_regions(
    figure: plotly.graph_objects.Figure, layout: Layout, source: str, xy: NDArray[np.float32], ids: NDArray[np.str_]
) -> None:
    """Draw what stands for each region, pre beside post, and its words, at the left and the right with a line to it."""
    import cv2

    found = sorted(looks.regions_of(layout, source), key=lambda one: one.x)
    images = pictures.of_chips(layout, looks.chip_set_of(layout, source), [ids[one.place] for one in found])
    (left, low), (right, high) = np.nanmin(xy, axis=0).tolist(), np.nanmax(xy, axis=0).tolist()
    side, half = max(right - left, high - low), len(found) // 2
    for edge, those in ((left - 0.25 * side, range(half)), (right + 0.25 * side, range(half, len(found)))):
        for row, at in enumerate(sorted(those, key=lambda at: found[at].y)):
            one, y = found[at], low + (high - low) * (row + 0.5) / len(those)
            height, width = images[at].shape[:2]
            dates = np.hstack(np.split(images[at], 2)) if height > width else images[at]
            png = base64.b64encode(cv2.imencode(".png", dates[..., ::-1])[1].tobytes()).decode()
            figure.add_annotation(
                x=one.x, y=one.y, ax=edge, ay=y, axref="x", ayref="y", text=one.words, font={"size": 11, "color": _INK},
                arrowhead=0, arrowwidth=0.7, arrowcolor=_INK,
            )  # fmt: skip
            figure.add_layout_image(
                source=f"data:image/png;base64,{png}", xref="x", yref="y", x=edge, y=y + 0.03 * side,
                sizex=0.24 * side, sizey=0.12 * side, xanchor="center", yanchor="bottom",
            )  # fmt: skip


def _ids(building_ids: str | Sequence[str]) -> list[str]:
    """Return building ids as a list; refuse masks, row numbers and whatever else is no text."""
    given = building_ids if isinstance(building_ids, Iterable) and not isinstance(building_ids, str) else [building_ids]
    ids: list[Any] = list(given)
    wrong = [one for one in ids if not isinstance(one, str)]
    if not wrong:
        return ids
    if all(isinstance(one, bool | np.bool_) for one in wrong):
        what, hint = "a mask", "`np.array(project.building_ids())[mask]` has the ids of a mask."
    elif all(isinstance(one, int | np.integer) for one in wrong):
        what, hint = "row numbers", "`np.array(project.building_ids())[rows]` has the ids of row numbers."
    else:
        what, hint = f"such as {repr(wrong[0])[:40]}", "Take ids from `project.building_ids()`."
    raise PuGeoError(f"Building ids are texts; {len(wrong)} of {len(ids)} are none: {what}.", hint)


def _require_known(method: str, given: Mapping[str, object], names: Sequence[str]) -> None:
    if unknown := [name for name in given if name not in names]:
        raise TypeError(f"Project.{method}() takes no {unknown[0]!r}; there are: {', '.join(names)}.")


def _by_position(scores: Any, ids: Sequence[str]) -> Any:
    """Return own scores in the order of `ids`: those of a pandas Series by its index, unless it only counts the rows."""
    pandas = sys.modules.get("pandas")
    if pandas is None or not isinstance(scores, pandas.Series) or scores.index.equals(pandas.RangeIndex(len(scores))):
        return scores
    if not scores.index.is_unique:
        twice = scores.index[scores.index.duplicated()][0]
        problem = f"The index of the scores has {str(twice)!r} more than once."
    elif missing := sorted(set(ids) - set(scores.index)):
        have = f"{len(missing):,} building{' of the chip set has' if len(missing) == 1 else 's of the chip set have'}"
        problem = f"{have} no score, such as {missing[0]!r}."
    elif len(scores) == len(ids):
        return scores.loc[list(ids)]
    else:
        problem = ""
    if foreign := sorted(map(str, set(scores.index) - set(ids))):
        problem += f" {len(foreign):,} of the index are not in the chip set, such as {foreign[0]!r}."
    raise PuGeoError(
        problem.strip(),
        "Index the scores by `project.building_ids()`, or pass `scores.to_numpy()` if they are in its order already.",
    )
