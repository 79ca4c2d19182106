"""What there is to know of each task before its code is imported: what does it, what people call it, what it needs and what
it changes.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Task:
    """One kind of job.

    Attributes:
        work: module and function that do it, "package.module:function".
        title: what people call a job of it.
        screen: where it is started and its result shown.
        panel: the part of that screen that shows its progress.
        is_exclusive: it changes what the project is made of; one such job runs at a time.
        needs_torch: its import loads torch, which takes some seconds: a stage of its own for whoever waits.
        needs_device: it uses the device for long, so it waits in the line of this machine.
        can_pause: it keeps its state on the disk and goes on from there.
        only_reads: it writes nothing into the project.
    """

    work: str
    title: str
    screen: str = "imagery"
    panel: str = ""
    is_exclusive: bool = False
    needs_torch: bool = False
    needs_device: bool = False
    can_pause: bool = False
    only_reads: bool = False


UNKNOWN = Task("", "")
TASKS = {
    "prepare": Task(
        "pu_geo.scenes.chip_job:prepare",
        "Loading scenes, footprints and chips",
        screen="project",
        panel="scenes",
        is_exclusive=True,
        needs_torch=True,
    ),
    "doctor": Task("pu_geo.lifecycle.doctor_job:doctor", "Check of the project", screen="project", panel="safety"),
    "next_round": Task(
        "pu_geo.lifecycle.rounds_job:next_round",
        "Preparing the next round",
        screen="project",
        needs_torch=True,
        panel="scenes",
    ),
    "add_scenes": Task("pu_geo.scenes.scenes_job:add_scenes", "Adding scenes", panel="scenes", is_exclusive=True),
    "add_layer": Task("pu_geo.scenes.layers_job:add_layer", "Adding a layer", panel="scenes", is_exclusive=True),
    "add_xbd": Task("pu_geo.scenes.scenes_job:add_xbd", "Adding an xBD folder", panel="scenes", is_exclusive=True),
    "relink": Task("pu_geo.scenes.relink_job:relink", "Finding moved scene files", is_exclusive=True, panel="files"),
    "add_footprints": Task(
        "pu_geo.scenes.footprints_job:add_footprints", "Adding footprints", panel="footprints", is_exclusive=True
    ),
    "add_aoi": Task(
        "pu_geo.scenes.footprints_job:add_aoi", "Setting the area of interest", panel="footprints", is_exclusive=True
    ),
    "add_areas": Task("pu_geo.maps.areas_job:add_areas", "Adding areas", screen="damage_map", panel="areas"),
    "sum_up": Task("pu_geo.maps.areas_job:sum_up", "Summary by area", screen="damage_map", panel="areas"),
    "add_grid": Task(
        "pu_geo.scenes.footprints_job:add_grid", "Creating a grid of cells", panel="footprints", is_exclusive=True
    ),
    "align": Task("pu_geo.scenes.align_job:align", "Aligning pre and post", panel="chips", is_exclusive=True),
    "chip": Task(
        "pu_geo.scenes.chip_job:chip",
        "Cutting chips and computing features",
        panel="chips",
        is_exclusive=True,
        needs_torch=True,
    ),
    "features": Task(
        "pu_geo.scenes.features_job:features",
        "Computing a feature set",
        panel="chips",
        is_exclusive=True,
        needs_torch=True,
        needs_device=True,
    ),
    "rank": Task("pu_geo.runs.train_job:rank", "Ranking", screen="train", panel="methods", needs_torch=True),
    "train": Task(
        "pu_geo.runs.train_job:train",
        "Training",
        screen="train",
        panel="methods",
        needs_torch=True,
        needs_device=True,
        can_pause=True,
    ),
    "apply_model": Task(
        "pu_geo.runs.apply_model_job:apply_model",
        "Scoring with a model",
        screen="train",
        panel="model",
        needs_torch=True,
        needs_device=True,
    ),
    "federate_lead": Task(
        "pu_geo.federation.federate_deployed_job:federate_lead",
        "Leading the federation",
        screen="train",
        panel="federation",
        needs_torch=True,
    ),
    "federate_join": Task(
        "pu_geo.federation.federate_deployed_job:federate_join",
        "Taking part in the federation as",
        screen="train",
        panel="federation",
        needs_torch=True,
    ),
    "federate_simulate": Task(
        "pu_geo.federation.federate_job:federate_simulate",
        "Federation between projects on this machine",
        screen="train",
        panel="federation",
        needs_torch=True,
    ),
    "compare_features": Task(
        "pu_geo.runs.compare_features_job:compare_features",
        "Comparing features or layers",
        screen="train",
        panel="features",
        needs_torch=True,
        needs_device=True,
    ),
    "embed": Task("pu_geo.explore.embed_job:embed", "UMAP", screen="explore", needs_torch=True, panel="umap"),
    "cluster": Task("pu_geo.explore.cluster_job:cluster", "Clustering", screen="explore", panel="clusters"),
    "outliers": Task(
        "pu_geo.explore.outliers_job:find_outliers",
        "Search for odd chips and duplicates",
        screen="explore",
        panel="outliers",
    ),
    "discover": Task(
        "pu_geo.explore.discover_job:discover",
        "Search for damage types",
        screen="explore",
        panel="types",
        needs_torch=True,
        needs_device=True,
        can_pause=True,
    ),
    "export": Task("pu_geo.maps.export_job:export", "Export", screen="damage_map", panel="export", only_reads=True),
    "export_selection": Task(
        "pu_geo.maps.export_job:export_selection", "Exporting a selection", screen="explore", panel="selection"
    ),
    "publish": Task("pu_geo.maps.publish_job:publish", "Export", screen="damage_map", panel="export"),
    "remove_scene": Task("pu_geo.lifecycle.remove_job:remove_scene", "Removing a scene", panel="scenes", is_exclusive=True),
    "replace_scene": Task(
        "pu_geo.lifecycle.remove_job:replace_scene", "Replacing a scene", panel="scenes", is_exclusive=True
    ),
    "replace_layer": Task(
        "pu_geo.lifecycle.remove_job:replace_layer", "Replacing a layer", panel="scenes", is_exclusive=True
    ),
    "remove_footprints": Task(
        "pu_geo.lifecycle.remove_job:remove_footprints", "Removing footprints", panel="footprints", is_exclusive=True
    ),
    "replace_footprints": Task(
        "pu_geo.lifecycle.remove_job:replace_footprints",
        "Comparing or replacing footprints",
        panel="footprints",
        is_exclusive=True,
    ),
}


def of(name: str) -> Task:
    """Return a task; `UNKNOWN` for one that another version of PU-Geo wrote."""
    return TASKS.get(name, UNKNOWN)
