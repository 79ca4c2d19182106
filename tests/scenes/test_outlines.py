"""The map's outlines: made when somebody asks, kept beside the map tiles, and never those of other footprints."""

import json
from dataclasses import replace

import numpy as np
import pytest
from small_parts import small_scene, square_table

from pu_geo.errors import ProjectError
from pu_geo.geo.vector.outlines import HEADER, PER_TILE
from pu_geo.scenes import outlines
from pu_geo.store import contents, store
from pu_geo.store.layout import Layout


def kept(layout: Layout) -> list[str]:
    return sorted(path.name for path in layout.quicklooks.iterdir())


def header(first: bytes) -> tuple[int, str]:
    found = np.frombuffer(first[: HEADER.itemsize], HEADER)[0]
    return int(found["n"]), found["name"].decode()


def test_they_are_made_once_and_kept_and_a_tile_is_sent_under_their_name_alone(
    project: Layout, monkeypatch: pytest.MonkeyPatch
) -> None:
    project.quicklooks.mkdir(exist_ok=True)
    first = outlines.first_part(project)
    name = header(first)[1]
    assert json.loads(first[HEADER.itemsize + 24 * 20 :]) == store.call(project, contents.building_ids)
    assert kept(project) == [project.outlines(store.call(project, contents.geometry_v)).name]
    with monkeypatch.context() as patch:
        patch.setattr(outlines, "_made", None)
        assert outlines.first_part(project) == first
        tile = outlines.tile(project, name, 0)
    assert len(tile or b"") == 20 * (4 + 4 + 4 * 8)
    project.outlines(store.call(project, contents.geometry_v)).unlink()
    assert outlines.tile(project, name, 0) == tile, "made anew: the same, under the same name"
    for other, number in ((name, 1), (name, -1), (name, PER_TILE), (name[:-1], 0), ("", 0), (name + "0", 0)):
        assert outlines.tile(project, other, number) is None


def test_others_are_made_once_footprints_or_their_places_on_the_grid_change(project: Layout) -> None:
    names = [header(outlines.first_part(project))]
    with store.connect(project) as db:
        contents.add_footprints(db, square_table(3, prefix="c"))
    names.append(header(outlines.first_part(project)))
    assert outlines.tile(project, names[0][1], 0) is None
    with store.connect(project) as db:
        grid = contents.grid(db)
        a, b, c, d, e, f = grid.transform
        moved = replace(grid, transform=(a, b, c - 8 * a, d, e, f))
        contents.add_scenes(db, [replace(small_scene(), scene_id="further")], moved)
    boxes = [np.frombuffer(outlines.first_part(project), "<f4", 4, HEADER.itemsize + 4 * 23)]
    names.append(header(outlines.first_part(project)))
    assert [n for n, _ in names] == [20, 23, 23]
    assert len({name for _, name in names}) == 3
    assert boxes[0][0] >= 8, "a scene farther to the west"
    assert len(kept(project)) == 1, "those of before are gone"


@pytest.mark.parametrize("wrong", [b"", b"\xff" * 200, "cut"])
def test_a_file_that_is_not_whole_is_made_anew(project: Layout, wrong: bytes | str) -> None:
    first = outlines.first_part(project)
    path = project.outlines(store.call(project, contents.geometry_v))
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2] if wrong == "cut" else wrong)
    assert outlines.first_part(project) == first
    assert path.stat().st_size == len(whole)


def test_no_name_in_a_database_leads_out_of_the_project(project: Layout) -> None:
    with store.connect(project) as db, store.transaction(db):
        db.execute("UPDATE pugeo_meta SET value = '/../../../elsewhere' WHERE key = 'geometry_v'")
    with pytest.raises(ProjectError, match="is not an id"):
        outlines.first_part(project)
    assert not any("elsewhere" in path.name for path in project.folder.parent.rglob("*"))


def test_footprints_that_change_meanwhile_leave_no_file_under_a_wrong_name(
    project: Layout, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = outlines._made

    def while_others_add(db: object) -> bytes:
        found = made(db)
        with store.connect(project) as other:
            contents.add_footprints(other, square_table(2, prefix="c"))
        return found

    monkeypatch.setattr(outlines, "_made", while_others_add)
    assert header(outlines.first_part(project))[0] == 20
    assert not project.quicklooks.exists() or not kept(project)
    monkeypatch.setattr(outlines, "_made", made)
    assert header(outlines.first_part(project))[0] == 22
