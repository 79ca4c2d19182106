"""A federation over the two Joplin scenes as two agencies: does each rank the damage type that it has no example of?

`python -m benchmarks.federated_joplin DATA`, DATA with the folder joplin_xbd: one project has clicks on destroyed buildings and holds "rest",
too, the other one has clicks on buildings with minor damage. Both directions, 5 draws of the clicks each; settings are those
of the preset quick. Reported is the AUC of a type among the known buildings without a click,
where its own clicks are ("own") and where the other agency's were ("foreign").
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks.kept import bootstrap
from benchmarks.ranking_sources import UNKNOWN
from pu_geo.analysis import metrics
from pu_geo.federation.agreement import Plan
from pu_geo.federation.federate_job import federate_simulate
from pu_geo.records import FeatureRequest, LabelOp
from pu_geo.runs.apply_model_job import apply_model
from pu_geo.scenes.chip_job import prepare
from pu_geo.scenes.features_job import features
from pu_geo.store import contents, federations, labels, runs, store
from pu_geo.store.contents import chip_facts
from pu_geo.store.job import Job
from pu_geo.store.layout import Layout

TYPES, N_DRAWS, N_CLICKS = ("destroyed", "minor-damage"), 5, 30


def prepared(folder: Path, scene: Path) -> tuple[Layout, list[str], NDArray[np.str_]]:
    """Make a project of a scene; return it with the ids and damage of its buildings, in the order of its chips."""
    layout = store.create(folder, scene.name)
    files = {name: [str(scene / f"{name}.tif")] for name in ("pre", "post")}
    prepare(_job(layout, "prepare"), **files, footprints=[str(scene / "buildings.geojson")], bands="pre+post")
    features(_job(layout, "features"), request=asdict(FeatureRequest("shared")), use=True)
    with store.connect(layout) as db:
        chip_set, table = contents.chosen_chip_set(db), contents.footprints(db)
    ids, damage = list(chip_facts(layout, chip_set)["building_ids"]), table.values("damage")
    return layout, ids, np.array([str(damage[one]) for one in ids])


def draw(places: Sequence[tuple[Layout, list[str], NDArray[np.str_]]], seed: int, work: Path) -> dict[str, list[float]]:
    """Click 30 buildings of a type in a copy of each project, train, and return the AUC of each type in each."""
    rng, layouts, is_clicked = np.random.default_rng(seed), list[Layout](), list[NDArray[np.bool_]]()
    for number, ((made, ids, damage), kind) in enumerate(zip(places, TYPES, strict=True)):
        layout = Layout(Path(shutil.copytree(made.folder, work / f"agency-{number}.pugeo")))
        rows = rng.choice(np.flatnonzero(damage == kind), N_CLICKS, replace=False)
        with store.connect(layout) as db:
            labels.append(db, [LabelOp(f"{seed}-{row}", ids[row], "positive") for row in rows], analyst="draw", screen="map")
        layouts.append(layout)
        is_clicked.append(np.isin(np.arange(len(ids)), rows))
    held = {str(layouts[0].folder): {TYPES[0]: None, "rest": None}, str(layouts[1].folder): {TYPES[1]: None}}
    plan = Plan("Joplin", TYPES, seed=seed)
    federate_simulate(_job(layouts[0], "federate"), federation="joplin", plan=asdict(plan), parties=held)
    found: dict[str, list[float]] = {}
    for number, layout in enumerate(layouts):
        path = layout.federation("joplin") / federations.MODEL
        run_id = str(apply_model(_job(layout, "apply"), path=str(path))["run_id"])
        scores = np.asarray(runs.array(layout, run_id, runs.TYPE_SCORES))
        damage = places[number][2]
        is_judged = (damage != UNKNOWN) & ~is_clicked[number]
        for column, kind in enumerate(TYPES):
            whose = "own" if column == number else "foreign"
            found.setdefault(f"{kind}, {whose}", []).append(
                float(metrics.auc(scores[is_judged, column], (damage == kind)[is_judged]))
            )
    return found


def _job(layout: Layout, name: str) -> Job:
    folder = layout.jobs / name
    folder.mkdir(parents=True, exist_ok=True)
    return Job(layout, folder)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path)
    scenes = sorted(path for path in (parser.parse_args().data / "joplin_xbd").iterdir() if path.is_dir())
    found: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory() as name:
        made = [prepared(Path(name) / f"{number}.pugeo", scene) for number, scene in enumerate(scenes)]
        for seed in range(N_DRAWS):
            for order in (made, made[::-1]):
                with tempfile.TemporaryDirectory(dir=name) as work:
                    for what, values in draw(order, seed, Path(work)).items():
                        found.setdefault(what, []).extend(values)
                        print(seed, what, [round(each, 3) for each in values], flush=True)
    for what, values in sorted(found.items()):
        low, high = bootstrap(np.array(values))
        print(f"{what}: {np.mean(values):.3f}, 95 % interval of the mean {low:.3f} to {high:.3f}, {len(values)} draws")


if __name__ == "__main__":
    main()
