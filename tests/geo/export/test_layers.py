"""GeoPackage and FlatGeobuf as the child writes them: what a full disk leaves, and a map of every size."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pyogrio
import pytest
import shapely
from small_parts import in_tiers

from pu_geo.errors import PuGeoError
from pu_geo.geo.export import layers
from pu_geo.geo.export.exporters import EXPORTERS
from pu_geo.geo.vector.crs import LOCAL
from pu_geo.records import DamageMap


def squares(n: int) -> DamageMap:
    x, y = np.random.default_rng(n).random((2, n))
    shapes = shapely.box(x, y, x + 0.002, y + 0.002)
    return DamageMap([f"b{i}" for i in range(n)], list(shapely.to_wkb(shapes)), {"rank": list(range(n))}, "EPSG:4326", {})


@pytest.mark.parametrize("name", layers.DRIVERS)
@pytest.mark.parametrize("n", [0, 2001])
def test_a_map_of_any_size_arrives_whole(name: str, n: int, tmp_path: Path) -> None:
    EXPORTERS[name](squares(n), tmp_path / f"map.{name}")
    found = pyogrio.read_dataframe(tmp_path / f"map.{name}", layer="damage_map")
    assert sorted(found["rank"]) == list(range(n))


@pytest.mark.parametrize("n_bytes", in_tiers([20_000, 200_000, 400_000], "disk", quick=[200_000]))
@pytest.mark.parametrize("name", layers.DRIVERS)
def test_a_full_disk_is_refused_and_leaves_the_older_map(
    name: str, n_bytes: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / f"map.{name}"
    out.write_bytes(b"older")
    monkeypatch.setattr(layers, "WRITING", replace(layers.WRITING, file_bytes=n_bytes))
    with pytest.raises(PuGeoError) as caught:
        EXPORTERS[name](squares(5000), out)
    assert caught.value.kind == "disk"
    assert out.read_bytes() == b"older"
    assert [path.name for path in tmp_path.iterdir()] == [out.name]


def test_a_map_is_a_table_of_geopandas_on_demand() -> None:
    plain = squares(3)
    columns = {"rank": [2, None, 1], "assessed": [True, None, False], "damage_types": [["roof", "wall"], [], None]}
    frame = layers.to_geodataframe(replace(plain, columns=columns))
    assert list(frame.columns) == ["building_id", "rank", "assessed", "damage_types", "geometry"]
    assert [str(frame[name].dtype) for name in ("rank", "assessed")] == ["Int64", "boolean"]
    assert frame["damage_types"].iloc[:2].tolist() == ["roof;wall", ""]
    assert frame["damage_types"].isna().tolist() == [False, False, True]
    assert frame.crs == "EPSG:4326"
    local = layers.to_geodataframe(replace(plain, grid_crs=LOCAL))
    assert local.crs is None
    assert shapely.to_wkb(local.geometry.to_numpy()).tolist() == list(plain.wkb)
