"""Tasks that change what a project is made of as a whole: loading all of it, the next round, the doctor, removals."""

from __future__ import annotations

from pu_geo.jobs.tasks import Task, declare

declare(
    Task(
        "pu_geo.scenes.chip_job:prepare",
        "Loading scenes, footprints and chips",
        screen="project",
        panel="scenes",
        is_exclusive=True,
        needs_torch=True,
    ),
    Task("pu_geo.lifecycle.doctor_job:doctor", "Check of the project", screen="project", panel="safety"),
    Task(
        "pu_geo.lifecycle.rounds_job:next_round",
        "Preparing the next round",
        screen="project",
        needs_torch=True,
        panel="scenes",
    ),
    Task("pu_geo.lifecycle.remove_job:remove_scene", "Removing a scene", panel="scenes", is_exclusive=True),
    Task("pu_geo.lifecycle.remove_job:replace_scene", "Replacing a scene", panel="scenes", is_exclusive=True),
    Task("pu_geo.lifecycle.remove_job:replace_layer", "Replacing a layer", panel="scenes", is_exclusive=True),
    Task("pu_geo.lifecycle.remove_job:remove_footprints", "Removing footprints", panel="footprints", is_exclusive=True),
    Task(
        "pu_geo.lifecycle.remove_job:replace_footprints",
        "Comparing or replacing footprints",
        panel="footprints",
        is_exclusive=True,
    ),
)
