"""`Project`: the steps of the app and the command line as methods that return ordinary objects.

Each method is one call of a service or a task. Nothing stays open between two calls: the project file is opened by sqlite3,
read or written, and closed again, so the app may serve the same project meanwhile.

Never open `project.gpkg` with geopandas, pyogrio or fiona in a process that uses PU-Geo, not even to read it: a second
SQLite library takes away the first one's locks, and clicks of the app are lost. `footprints()` and `live_map()` return what
is in it.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from pu_geo import jobs
from pu_geo.answers import labeling
from pu_geo.assessment import auditing, random_audits
from pu_geo.assessment.auditing import AuditView, HowMany
from pu_geo.errors import JobCancelled, JobError, JobPaused, ProjectError, PuGeoError
from pu_geo.explore import clusters, discovering, exploring, neighbors, outliers
from pu_geo.files import make_folder, remove_path
from pu_geo.jobs import JobView, foreground
from pu_geo.lifecycle import projects
from pu_geo.lifecycle.copying import copy_project
from pu_geo.maps import damage_map, exporting, run_card, thresholds
from pu_geo.methods import catalog
from pu_geo.methods.catalog import DEFAULT_METHOD, METHODS, TrainingRequest
from pu_geo.records import FeatureRequest, Label, Layer, LayerKind, RunFacts, Scene, View
from pu_geo.runs import comparing, feature_comparison, models, training
from pu_geo.scenes import features, preparation
from pu_geo.store import chosen as choices
from pu_geo.store import contents, feature_sets, labels, runs, store
from pu_geo.store.choices import Threshold
from pu_geo.store.feature_sets import FeatureSet
from pu_geo.store.grades import Grade
from pu_geo.store.layout import Layout, find_project, read_array
from pu_geo.wording import listed

if TYPE_CHECKING:
    import geopandas
    import pandas

PathOrText = str | Path
Files = PathOrText | Sequence[PathOrText]
CHOSEN = "chosen"
DETAILS = ("reason", "damage_types", "absent_types", "comment", "grade")
"""Ids that a refusal names; of the others it has the number."""


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


RunName = str | Run | RunFacts
"""How a run is named: by its id, "latest", "chosen", or by what `Project.run`, `train` and `runs` return."""


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
            "post": _paths(post),
            "pre": _paths(pre),
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

    def add_scenes(
        self, pre: Files = (), post: Files = (), *, bands: Sequence[int] | None = None, crs: str | None = None,
        pixel_m: float | None = None,
    ) -> Mapping[str, Any]:  # fmt: skip
        """Add pre- and post-event scenes. They are read from where they are, not copied.

        Args:
            bands: numbers of the red, green and blue band, from 1; the first three if None.
            crs: of pictures with a world file, such as "EPSG:32615".
            pixel_m: side of a pixel in meters, for pictures without any georeference.

        Returns:
            {"added", "width", "height", "gsd_m", "crs", "is_local", "pre_share"}
        """
        args = {"pre": _paths(pre), "post": _paths(post), "bands": None if bands is None else list(bands), "crs": crs}
        return self._run("add_scenes", {**args, "pixel_m": pixel_m}, "Adding scenes")

    def add_layer(
        self, name: str, files: Files, *, when: Literal["pre", "post", "none"] | None = None, kind: LayerKind | None = None,
        nodata: float | None = None, crs: str | None = None,
    ) -> Mapping[str, Any]:  # fmt: skip
        """Add a layer beside pre and post, such as SAR or elevation, or files to one that is here; then cut chips again.

        Args:
            name: lowercase letters, digits and -, such as "sar-post".
            files: GeoTIFFs of 1 to 16 bands, uint8, uint16 or float32; several form a mosaic.
            when: the date that it shows, "post" for a new layer if None; "none" of no date.
            kind: what it measures: "sar-db", "sar-amplitude" (read in decibels), "elevation", "proxy" or "other".
            nodata: the sample value that stands for no data, where the files name none.

        Returns:
            {"name", "when", "kind", "added", "bands", "dtype", "unit", "scaling", "steps", "gsd_m", "n_files", "share",
            "scaling_words", "notes"}
        """
        args = {"name": name, "paths": _paths(files), "when": when, "kind": kind, "nodata": nodata, "crs": crs}
        return self._run("add_layer", args, "Adding a layer")

    def layers(self) -> tuple[Layer, ...]:
        """Return the layers beside pre and post, with the scaling of each band."""
        return store.call(self._layout, contents.layers)

    def add_xbd(self, folder: PathOrText, *, chosen: str = "") -> Mapping[str, Any]:
        """Add an xBD folder: its pictures as scenes, its labels as footprints.

        Args:
            chosen: how the names of the wanted pictures begin, or a pattern of them with *; all if empty.
        """
        return self._run("add_xbd", {"folder": _path(folder), "chosen": chosen}, "Adding xBD pictures")

    def relink(self, old: PathOrText, new: PathOrText) -> Mapping[str, Any]:
        """Find scene files again that were moved or renamed; each is read in full and must be the one that was added.

        Args:
            old: where a scene's file, or a folder of such files, was; or the scene's id.
            new: where the file or the folder is now.

        Returns:
            {"relinked": {"scene_id", "role", "old", "new"} of each scene}
        """
        return self._run("relink", {"old": str(old), "new": _path(new)}, "Finding moved scene files")

    def add_footprints(self, file: PathOrText, *, crs: str | None = None) -> Mapping[str, Any]:
        """Add building footprints: GeoJSON, GeoPackage, shapefile, FlatGeobuf, GeoParquet, CSV or xBD.

        Returns:
            The account of the file: {"file", "n_in", "kept", "repaired", "dropped", "dropped_by", "added", "notes"}
        """
        return self._run("add_footprints", {"path": _path(file), "crs": crs}, "Adding footprints")

    def add_grid(self, size_m: float) -> Mapping[str, Any]:
        """Lay square cells where nobody mapped buildings; returns an account as `add_footprints` does."""
        return self._run("add_grid", {"size_m": size_m}, "Laying cells")

    def add_aoi(self, file: PathOrText | None = None, *, text: str = "", crs: str | None = None) -> Mapping[str, Any]:
        """Limit footprints and cells that are added from now on to an area.

        Args:
            file: polygons, in any format that footprints may have.
            text: instead of a file: west,south,east,north in degrees, or a WKT polygon.
        """
        if (file is None) == (not text.strip()):
            raise PuGeoError("An area is named once: by a file, or as text.", "Give one of the two.")
        path = {} if file is None else {"path": _path(file)}
        return self._run("add_aoi", {**path, "text": text, "crs": crs}, "Adding the area of interest")

    def remove_aoi(self) -> bool:
        """Take the area of interest away; footprints stay. Returns whether there was one."""
        return preparation.remove_aoi(self._layout)

    def align(self) -> Mapping[str, Any]:
        """Find how far pre and post scenes are from each other at each building; cut chips again to use it."""
        return self._run("align", {}, "Aligning")

    def chip(self, size_px: int = 64, *, bands: Literal["auto", "pre+post", "post"] = "auto") -> Mapping[str, Any]:
        """Cut one chip per footprint and compute its features: a new chip set, which is the newest from then on.

        Returns:
            {"chip_set", "n", "size_px", "bands", "n_not_assessed", ...}
        """
        return self._run("chip", {"size_px": size_px, "bands": bands}, "Cutting chips")

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

    def add_features(
        self,
        backbone: str,
        weights: PathOrText = "",
        *,
        pool: Literal["mean", "cls", "footprint"] = "mean",
        layer: str = "",
        size_px: int = 0,
        dates: Literal["both", "diff", "post"] = "both",
        licence: str = "",
        n_views: int = 17,
        use: bool = False,
        layers: Sequence[str] = (),
    ) -> Mapping[str, Any]:
        """Make another set of frozen features of the newest chips; nothing is downloaded, and no code in a file is run.

        The same weights and settings are found again, which takes no time.

        Args:
            backbone: "shared" (filters without imagery), "resnet18", "resnet50", "local-dir:FOLDER" of a timm model,
                "self-supervised", or "layers".
            weights: a local .safetensors file.
            licence: of the weights, in your words; run cards and reports name it.
            use: use the set from now on where no other one is named.
            layers: of "layers", a filter bank each, such as ("pre+post", "sar-post"); both dates and each layer if none.

        Returns:
            {"name", "n", "n_features", "n_views", "seconds", "was_there", "in_use", "layers_lacking"}
        """
        request = FeatureRequest(backbone, str(weights), pool, layer, size_px, dates, licence, n_views, tuple(layers))
        return self._run("features", features.arguments(request, use=use), "Making features")

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
            self._layout, _path(file), analyst=who, meaning=meaning, same_footprints=same_footprints
        )

    def export_labels(self, out: PathOrText) -> Mapping[str, Any]:
        """Write the current labels (.csv or .geojson), and their whole history beside them."""
        from pu_geo.answers import export_labels_job as export_labels

        return export_labels.export_labels(self._layout, _path(out))

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

        They are called not assessable, answered in an audit alone, or hidden by clouds or missing data. To learn from what
        the app learns from: `keep = ~project.excluded()`, then `fit(X[:, keep], y[keep])`.
        """
        return training.to_learn_from(self._layout, chip_set)[1].is_excluded

    # Train

    def rank(self, *, features: str = "") -> Run:
        """Rank all buildings with the instant ranker, by a feature set or the one in use; makes a run."""
        return self._made("rank", {"feature_set": features}, "Ranking")

    def train(
        self, method: str = DEFAULT_METHOD, preset: str = "quick", *, seed: int = 0, types_from: str | None = None,
        hold_out: int = 0, features: str = "", devices: int = 1, **settings: Any,
    ) -> Run:  # fmt: skip
        """Train a method on the labels, score all buildings, and store it as a run.

        Args:
            method: a name in `pu_geo.methods.catalog.METHODS`, such as "ncpu", or that of the estimator, such as "NcPU".
            types_from: where damage types come from: "answers" (given on Annotate), "grades" (as a scale), or an attribute
                of the labeled footprints.
            hold_out: positives to judge the run by, not to learn from.
            features: name of the feature set to learn from; the one in use if empty.
            devices: how many train together, see `TrainingRequest`.
            settings: those of the preset that shall be others, such as `epochs=10`. Of more epochs,
                `max_steps` may leave out some; raise it as well.

        Raises:
            TrainingError: if the method cannot start with these labels or settings, or had to stop.
        """
        method = next((name for name, card in METHODS.items() if card.estimator == method), method)
        request = TrainingRequest(method, preset, seed, settings, types_from, hold_out, features, devices)
        training.require(self._layout, request)
        return self._made("train", request.as_args(), f"Training {catalog.name_within(method)}")

    def export_model(self, out: PathOrText, run: RunName = CHOSEN) -> Mapping[str, Any]:
        """Write the model of a run into one file, `NAME.pugeo-model.zip`."""
        return models.export(self._layout, self._facts(run).run_id, _path(out))

    def apply_model(self, file: PathOrText) -> Run:
        """Score all buildings by a model file, or by the newest model of another copy of this project; makes a run."""
        return self._made("apply_model", {"path": _path(file)}, "Scoring by the model")

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

        return evaluate.evaluate(self._layout, _run_name(run), field=field, positive=positive, exclude=exclude)

    def card(self, run: RunName = CHOSEN) -> Mapping[str, Any]:
        """Return the card of a run: data, labels, settings, training, judgement, limits."""
        return run_card.card(self._layout, _run_name(run))

    def compare(self, one: RunName, other: RunName) -> comparing.Comparison:
        """Compare two runs: how far they agree, where they do not, and which is judged better."""
        return comparing.compare(self._layout, _run_name(one), _run_name(other))

    def compare_features(
        self, methods: Sequence[str] = feature_comparison.METHODS, *, layers: bool = False
    ) -> feature_comparison.Comparison:
        """Compare feature sets, or what each layer adds: how high your own clicks rank while they are held out. Chooses
        nothing.

        Args:
            methods: names of methods, and "ranker".
            layers: compare all layers with all but one of them.
        """
        of = "layers" if layers else "features"
        feature_comparison.require(self._layout, of, methods)
        result = self._run("compare_features", {"of": of, "methods": list(methods)}, "Comparing")
        return feature_comparison.Comparison.from_json(result)

    # Explore

    def similar(
        self, building_ids: str | Sequence[str], *, count: int = 20, unlabeled: bool = False, run: RunName = CHOSEN
    ) -> list[neighbors.Alike]:
        """Return the buildings that a run's model finds most like some others.

        Args:
            unlabeled: leave out what carries a label.
        """
        return neighbors.like(self._layout, _run_name(run), _ids(building_ids), count=count, only_unlabeled=unlabeled)

    def label_errors(self, run: RunName = CHOSEN, *, search: bool = False) -> list[outliers.Suspect]:
        """Return what is odd: labels that may be wrong, buildings that are there twice, chips unlike any other.

        Args:
            search: look through all chips again.
        """
        run_id = self._facts(run).run_id
        if search or not outliers.is_searched(self._layout, run_id):
            self._run("outliers", {"run_id": run_id}, "Searching for label errors")
        return outliers.queue(self._layout, run_id)

    def umap(self, run: RunName = CHOSEN, **settings: Any) -> NDArray[np.float32]:
        """Draw a run's embeddings with UMAP; return the positions, float32 [N, 2], in the order of its `building_ids`.

        Args:
            settings: n_neighbors, min_dist, metric, densmap, supervised, seed, as `pu-geo umap --help` describes them.
        """
        _require_known("umap", settings, [one.name for one in fields(exploring.UmapSettings)])
        run_id = self._facts(run).run_id
        wanted = asdict(exploring.UmapSettings(**settings))
        self._run("embed", {"run_id": run_id, "settings": wanted}, "Drawing the UMAP")
        return np.asarray(runs.array(self._layout, run_id, "umap"), np.float32)

    def cluster(self, run: RunName = CHOSEN, *, k: int = 0, kind: clusters.Kind = "many") -> clusters.Inspected:
        """Cluster a run's embeddings: two means that start at the positives, and many small clusters.

        Args:
            k: number of small clusters; 0 for one a 30 buildings.
            kind: which of the two is returned, "two" or "many"; its `part` is the cluster of each building.
        """
        if kind not in get_args(clusters.Kind):
            raise PuGeoError(
                f"The kind of clusters is {kind!r}; these are possible: {', '.join(get_args(clusters.Kind))}.",
                "Name one of them.",
            )
        run_id = self._facts(run).run_id
        self._run("cluster", {"run_id": run_id, "k": k}, "Clustering")
        return clusters.inspect(self._layout, run_id, kind)

    def discover(
        self, groups: int | None = None, *, seeds: int = 3, seed: int = 0, preset: str = "quick"
    ) -> discovering.Proposal:
        """Propose groups of buildings: which kinds of damage are there besides those that people named?"""
        args = {"seed": seed, "n_seeds": seeds, "n_groups": groups, "preset": preset}
        return discovering.proposal(self._layout, str(self._run("discover", args, "Discovering")["discovery"]))

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
        name = None if run is None else _run_name(run)
        return thresholds.choose(
            self._layout, name, threshold=_checked_threshold(threshold), top=top, damage_type=damage_type
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
        return damage_map.of_run(self._layout, _run_name(run)).type_facts

    def begin_audit(self, checks: int | None = None, *, run: RunName = CHOSEN, analyst: str | None = None) -> AuditView:
        """Begin the audit of a run's map; people answer its random checks on the Annotate page.

        Args:
            checks: how many, at least 30; if None as many as give about +-30 % of the number damaged if 1 building in 20 is.
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
            raise PuGeoError(f"There is no audit of {run_id} yet.", "Begin one with `project.begin_audit()`.")
        return found

    def how_many(self) -> HowMany:
        """Return how many buildings are damaged, with a 95 % interval where there are enough random checks.

        >>> found = project.how_many()
        >>> found.confirmed, found.basis
        (4, 'none')
        """
        return auditing.how_many(self._layout)

    def add_areas(
        self, file: PathOrText, layer: str, *, name_field: str | None = None, code_field: str | None = None
    ) -> Mapping[str, Any]:
        """Add areas to sum up by, such as districts; layers adm1 and adm2 also fill the codes of exports."""
        args = {"path": _path(file), "layer": layer, "name_field": name_field, "code_field": code_field}
        return self._run("add_areas", args, "Adding areas")

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

        if run is not None and not isinstance(run, RunName):
            raise PuGeoError(
                f"{_kind(run)} stands in the place of a run.",
                "Pass own scores as `scores=`: damage_map(scores=..., threshold=...).",
            )
        threshold = _checked_threshold(threshold)
        if scores is None:
            if threshold is not None:
                check_threshold(threshold)
            wanted = thresholds.map_arguments(self._layout, _run_name(run or CHOSEN), threshold, top)
            return layers.to_geodataframe(build_damage_map(self._layout, **wanted))  # type: ignore[arg-type]
        if run is not None:
            raise PuGeoError("A map is of a run or of own scores, not of both.", "Leave one of the two out.")
        if threshold is None:
            raise PuGeoError(
                "A map of own scores needs a threshold.", "Give the one of your model, such as `threshold=model.threshold_`."
            )
        given = _by_position(scores, self.building_ids(chip_set))
        return layers.to_geodataframe(build_own_map(self._layout, given, threshold, chip_set=chip_set))

    def export(
        self, out: PathOrText, *, format: str | None = None, run: RunName = CHOSEN, threshold: float | None = None,
        top: int | None = None, local: bool = False,
    ) -> Mapping[str, Any]:  # fmt: skip
        """Write the damage map of a run into one file, with codebook and metadata beside it.

        Args:
            format: geojson, gpkg, parquet, fgb, csv, kml or heat; by the ending of `out` if None.
            threshold, top: see `choose`; the threshold chosen for the run if both are None.
            local: write a map without a place on the Earth, in local meters (gpkg, csv).

        Returns:
            {"out", "n", "flagged", "confirmed", "not_assessed", "run_id", "threshold", ...}
        """
        wanted = format or Path(out).suffix.removeprefix(".")
        if not wanted:
            raise PuGeoError(
                f"{out} has no ending that names a format; these are: {', '.join(exporting.FORMATS)}.",
                f"Call it {Path(out).name}.geojson, for example, or pass `format=`.",
            )
        args = {"format": wanted, "out": _path(out), "local": local}
        of_run = thresholds.map_arguments(self._layout, _run_name(run), _checked_threshold(threshold), top)
        return self._run("export", {**of_run, **args}, "Writing the map")

    def publish(
        self,
        formats: str | Sequence[str] = ("geojson", "gpkg", "csv"),
        *,
        profiles: str | Sequence[str] = (),
        run: RunName = CHOSEN,
        threshold: float | None = None,
        top: int | None = None,
        local: bool = False,
    ) -> Mapping[str, Any]:
        """Write the next version of the damage map into `exports/`: all formats, areas, report, codebook, what changed.

        Args:
            formats: see `export`; one, or several.
            profiles: "copernicus", "unosat", "xbd" or "fema", whose classes are added.

        Returns:
            {"out": folder of the version, "version", "files", "n_changes", and what `export` returns}
        """
        formats, profiles = ([one] if isinstance(one, str) else one for one in (formats, profiles))
        limit = _checked_threshold(threshold)
        args = exporting.publish_arguments(self._layout, _run_name(run), limit, formats, profiles, local=local, top=top)
        return self._run("publish", args, "Publishing the map")

    def _facts(self, run: RunName) -> RunFacts:
        """Return a run's facts."""
        return choices.run(self._layout, _run_name(run))

    def _made(self, task: str, args: Mapping[str, Any], title: str) -> Run:
        """Do a job that makes a run, and return the run."""
        return self.run(str(self._run(task, args, title)["run_id"]))

    def _run(self, task: str, args: Mapping[str, Any], title: str) -> Mapping[str, Any]:
        """Do a job in this process and return its result."""
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


def _path(path: PathOrText) -> str:
    return str(Path(path).expanduser().resolve())


def _paths(files: Files) -> list[str]:
    return [_path(one) for one in ([files] if isinstance(files, str | Path) else files)]


def _where_else(path: PathOrText) -> str:
    """Return what to do where no project can be opened; "" where one is there that cannot be read."""
    found = projects.project_near(path)
    if found is None:
        return f"`Project.create({str(path)!r})` makes a new one, `Project.sample()` opens the sample event."
    is_there = found == Path(path).expanduser().resolve()
    return "" if is_there else f"`Project.open({str(found)!r})` opens the project there."


def _kind(value: object) -> str:
    """Return what a value is, for refusals: never the value, which may be an array."""
    shape = f" of shape {tuple(value.shape)}" if hasattr(value, "shape") else ""
    return f"A {type(value).__name__}{shape}"


def _run_name(run: RunName) -> str:
    """Return the id of a run, "latest" or "chosen"."""
    if not isinstance(run, RunName):
        raise PuGeoError(
            f"A run is named by its id; this is none: {_kind(run)}.",
            'Give an id, "latest", "chosen", or what `project.run()` returns.',
        )
    return run if isinstance(run, str) else run.run_id


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


def _checked_threshold(value: Any) -> float | None:
    """Return a threshold as a float, None if None; refuse what is no number."""
    try:
        if isinstance(value, str | bytes | bool):
            raise TypeError
        return None if value is None else float(value)
    except (TypeError, ValueError) as error:
        raise PuGeoError(
            f"The threshold is {repr(value)[:40]}, which is no number.", "Give a number between 0 and 1, such as 0.5."
        ) from error


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
