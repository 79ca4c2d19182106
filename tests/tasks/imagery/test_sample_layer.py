"""The sample event comes with its radar: the job that prepares it adds the layer, and its chips hold it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from small_parts import job_of

from pu_geo.project import contents, store
from pu_geo.services.imagery import layers, preparation
from pu_geo.services.project import projects
from pu_geo.tasks.imagery.chip import prepare


def of_town(town: Path) -> dict[str, Any]:
    """Return the arguments that prepare the sample event, with the files of the small town, which the same program drew."""
    arguments = projects.sample_arguments()

    def here(paths: list[str]) -> list[str]:
        return [str(town / Path(path).name) for path in paths]

    named = [{**layer, "paths": here(layer["paths"])} for layer in arguments["layers"]]  # type: ignore[attr-defined]
    dates = {name: here(arguments[name]) for name in ("pre", "post", "footprints")}  # type: ignore[arg-type]
    return {**arguments, **dates, "layers": named}


@pytest.mark.slow
@pytest.mark.usefixtures("without_features", "home")
def test_preparing_the_sample_event_adds_its_radar(town: Path, tmp_path: Path) -> None:
    layout = store.create(tmp_path / "sample.pugeo", projects.SAMPLE_NAME)
    (named,) = projects.sample_arguments()["layers"]  # type: ignore[attr-defined]
    assert all(Path(path).is_file() for path in named["paths"])
    done = prepare(job_of(layout), **of_town(town))
    (row,) = layers.rows(layout)
    assert (row["name"], row["when"], row["kind"], row["bands"], row["unit"]) == ("sar-post", "post", "sar-db", 1, "dB")
    assert [Path(path).parent for path in row["files"]] == [layout.folder / "sources"], (
        "a copy: the sample's folder may move"
    )
    assert 0 < row["n_missing"] < row["n_buildings"] / 2, "a part of the town has no radar"
    assert done["chips"]["n_missing"] == {"sar-post": row["n_missing"]}  # type: ignore[index]
    facts = preparation.chip_set_facts(layout)
    assert [view.name for view in contents.views_of(facts)] == ["pre", "post", "sar-post"]
    (tiles,) = preparation.layer_tiles(layout, facts)
    assert len(tiles.missing) == row["n_missing"]
    assert list(tiles.folder.glob("0/0/*.jpg")), "and the map shows it"
