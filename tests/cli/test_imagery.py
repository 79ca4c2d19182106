"""Verbs of the Imagery screen: accounts that add up, and `--cluster` of the verbs that know it."""

from pathlib import Path

import geopandas
import pytest
import shapely
from cli_parts import CommandLine

from pu_geo.store import aoi, store
from pu_geo.store.layout import Layout

WEST = "EPSG:32615; 499900, 3999900, 500070, 4000100"


def test_the_account_of_a_file_adds_up_in_words_and_json(run: CommandLine, project: Layout, tmp_path: Path) -> None:
    square = shapely.box(500_000, 4_000_010, 500_008, 4_000_018)
    bowtie = shapely.Polygon([(500_020, 4_000_010), (500_028, 4_000_018), (500_028, 4_000_010), (500_020, 4_000_018)])
    far = shapely.box(600_000, 4_000_000, 600_010, 4_000_010)
    path = tmp_path / "new.geojson"
    geopandas.GeoDataFrame(geometry=[square, bowtie, far, shapely.Point(500_000, 4_000_000)], crs=32615).to_file(path)
    out = run.text("add-footprints", project.folder, path)
    assert "new.geojson: 4 in = 1 kept + 1 repaired + 2 dropped (1 not a polygon, 1 outside the scenes)." in out
    (again,) = run.json("add-footprints", str(project.folder), str(path))["files"]
    assert again["n_in"] == again["kept"] + again["repaired"] + again["dropped"] == sum(again["dropped_by"].values()) == 4


def test_an_area_is_set_taken_away_and_put_back(run: CommandLine, project: Layout) -> None:
    folder = project.folder
    assert "15 of the 20 footprints that are here lie outside it and stay" in run.text("add-aoi", folder, "--text", WEST)
    assert "124 outside the AOI" in run.text("add-grid", folder, "--size-m", "10")
    assert run.json("remove-aoi", folder) == {"removed": True}
    assert run.json("remove-aoi", folder) == {"removed": False}
    assert run.json("remove-aoi", folder, "--undo") == {"source": WEST}
    with store.connect(project) as db:
        assert aoi.current(db) is not None
    for more in ((), ("a.geojson", "--text", WEST)):
        assert "named once" in run.refused("add-aoi", folder, *more)


@pytest.mark.parametrize("words", [("add-features", "layers"), ("chip",)], ids=lambda words: words[0])
def test_no_job_is_there_for_a_cluster_that_is_none(words: tuple[str, ...], project: Layout, run: CommandLine) -> None:
    verb, *rest = words
    problem, hint = run.refused(verb, project.folder, *rest, "--cluster", "four").splitlines()
    assert problem == "'four' names no cluster."
    assert "local:4" in hint
    assert not list(project.jobs.glob("*/spec.json"))
