"""The sample event's town, drawn very small, with a chipped and a ranked project; the fixture `town` builds it once a test run."""

import shutil
import sys
from pathlib import Path

from small_parts import REPOSITORY, click, job_of

from pu_geo.runs.train_job import rank
from pu_geo.scenes.chip_job import prepare
from pu_geo.store import contents, store
from pu_geo.store.layout import Layout


def draw_town(folder: Path, size_px: tuple[int, int] = (320, 256), n_buildings: int = 40) -> None:
    """Write the two scenes, and the footprints of about so many buildings."""
    sys.path.insert(0, str(REPOSITORY / "sample_data"))
    try:
        from make_sample import make_sample
    finally:
        sys.path.pop(0)
    make_sample(folder, seed=3, size_px=size_px, n_buildings=n_buildings)


def build_town(folder: Path) -> None:
    """Make the scenes, and the projects `chipped.pugeo` and `ranked.pugeo`, which has every third of six clicks undamaged."""
    folder.mkdir()
    draw_town(folder)
    layout = store.create(folder / "chipped.pugeo", "Town")
    files = {name: [str(folder / f"{name}.tif")] for name in ("pre", "post")}
    prepare(job_of(layout, "prepare"), **files, footprints=[str(folder / "footprints.geojson")])  # type: ignore[arg-type]
    shutil.rmtree(layout.jobs)
    ranked = Layout(Path(shutil.copytree(layout.folder, folder / "unfinished.pugeo")))
    with store.connect(ranked) as db:
        ids = contents.building_ids(db)[:6]
    click(ranked, *(building for i, building in enumerate(ids) if i % 3 < 2))
    click(ranked, *ids[2::3], label="not_damaged")
    rank(job_of(ranked, "rank"))
    shutil.rmtree(ranked.jobs)
    ranked.folder.rename(folder / "ranked.pugeo")
