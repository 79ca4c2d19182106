"""Labels leave a project and come back: as a table, as points on the map, and as the whole history."""

import csv
import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import geopandas
import numpy as np
import pytest
import shapely
from answers.test_rebuilding import NASTY, SCALE, work
from small_parts import answer, click, op_of, small_project, square_table, table_of

from pu_geo.answers import labeling
from pu_geo.answers.export_labels_job import export_labels
from pu_geo.answers.import_labels_job import import_labels
from pu_geo.errors import LabelError
from pu_geo.geo.local_space import points_inside
from pu_geo.records import FootprintTable
from pu_geo.spreadsheets import guarded, unguarded
from pu_geo.store import analysts, contents, grades, labels, store
from pu_geo.store.grades import Grade
from pu_geo.store.layout import Layout

ODD = ["+1", "\r", "=", "'", "a=b", "'''=x", "|calc", "＝1", "＋1", "－1", "＠sum", "  =1", " '=1", "'  -x"]


def new_project(folder: Path, name: str, table: FootprintTable | None = None) -> Layout:
    return small_project(folder / f"{name}.pugeo", table=table)


@pytest.fixture
def busy(project: Layout) -> Layout:
    """Acts of several analysts: every kind of answer, many undone, some redone."""
    work(project, 150, 5)
    return project


def facts(layout: Layout) -> dict[str, Any]:
    """All that people see of the labels; event numbers apart."""
    keys = ("label", "reason", "damage_types", "absent_types", "comment", "shown", "inclusion", "analyst", "at")
    with store.connect(layout) as db:
        of_map = "SELECT building_id, label, labeller, labelled_at, reason, comment FROM damage_map WHERE label <> ''"
        return {
            "current": {name: [getattr(event, key) for key in keys] for name, event in labels.current(db).items()},
            "map": db.execute(of_map).fetchall(),
        }


@pytest.mark.parametrize("ending", ["csv", "GeoJSON"])
def test_current_labels_come_back_from_table_and_points(busy: Layout, tmp_path: Path, ending: str) -> None:
    result = export_labels(busy, str(tmp_path / f"labels.{ending}"))
    other = new_project(tmp_path, "other")
    store.call(other, grades.put, SCALE)
    done = import_labels(other, str(result["out"]), analyst="carl")
    assert done == {"rows": result["n"], "stored": result["n"], "unchanged": 0, "skipped": 0}
    assert facts(other) == facts(busy)
    assert import_labels(other, str(result["out"]), analyst="carl")["stored"] == 0
    with store.connect(other) as db:  # an audit's answer is still no answer to learn from
        pu, current = labels.pu_set(db), labels.current(db)
        learned = {building for building, is_positive in zip(pu.building_ids, pu.is_positive, strict=True) if is_positive}
        assert not [building for building in learned if current[building].shown == "audit"]
        labels.undo(db, "all", analyst="carl", screen="cli")
        assert labels.current_labels(db) == {}


def test_points_lie_inside_their_buildings_in_a_file_that_gis_reads(project: Layout, tmp_path: Path) -> None:
    click(project, "b3", "b7", damage_types=["roof"])
    out = export_labels(project, str(tmp_path / "labels.geojson"))["out"]
    frame = geopandas.read_file(out)
    squares = shapely.from_wkb(list(square_table(20).wkb))
    assert list(frame.building_id) == ["b3", "b7"]
    assert shapely.contains(squares[[3, 7]], frame.to_crs(32615).geometry.to_numpy()).all()
    document = json.loads(Path(str(out)).read_text())
    assert "crs" not in document
    assert document["features"][0]["properties"]["damage_types"] == ["roof"]
    assert document["features"][0]["properties"]["label"] == "damaged"
    assert document["features"][0]["properties"]["reason"] is None
    assert document["features"][0]["geometry"]["coordinates"][0] == pytest.approx(-92.9994, abs=1e-4)


def test_point_of_a_bent_building_is_not_its_centroid() -> None:
    bent = shapely.difference(shapely.box(10, 50, 11, 51), shapely.box(10, 50.01, 10.99, 51))
    assert shapely.contains(bent, shapely.points(points_inside([shapely.to_wkb(bent)], "EPSG:4326"))).all()


def test_no_text_cell_of_the_files_starts_like_a_formula(busy: Layout, tmp_path: Path) -> None:
    result, texts = export_labels(busy, str(tmp_path / "labels.csv")), list[str]()
    for path in (result["out"], result["events_out"]):
        with Path(str(path)).open(newline="", encoding="utf-8") as stream:
            rows = list(csv.DictReader(stream))
        texts += [value for row in rows for key, value in row.items() if key not in ("lon", "lat")]
        assert {"building_id", "label", "reason", "damage_types", "comment"} <= set(rows[0])
    assert any(text.startswith("'=") for text in texts)
    assert not [text for text in texts if text[:1] in {"=", "+", "-", "@", "\t"}]
    for text in [*NASTY, *ODD]:
        assert guarded(text)[:1] not in {"=", "+", "-", "@", "|", "\t", "\r", "＝", "＋", "－", "＠"}
        assert unguarded(guarded(text)) == text


def test_places_where_an_export_would_destroy_something_are_refused(project: Layout, tmp_path: Path) -> None:
    (tmp_path / "x.csv").mkdir()
    for path, word in (
        (tmp_path / "labels.xlsx", r"\.csv or \.geojson"),
        (tmp_path / "labels", "ends in nothing"),
        (tmp_path / "none" / "labels.csv", "does not exist"),
        (tmp_path / "x.csv", "is a folder"),
        (project.folder / "labels.csv", "belongs to a project"),
        (project.folder / "chips" / "labels.csv", "."),
    ):
        with pytest.raises(LabelError, match=word):
            export_labels(project, str(path))
    (tmp_path / "y.events.csv").mkdir()
    with pytest.raises(LabelError, match=r"y\.events\.csv is a folder"):
        export_labels(project, str(tmp_path / "y.csv"))
    assert not (tmp_path / "y.csv").exists()
    project.exports.mkdir()
    export_labels(project, str(project.exports / "labels.csv"))
    # a project without labels exports empty files
    for ending in ("csv", "geojson"):
        result = export_labels(project, str(tmp_path / f"labels.{ending}"))
        assert (result["n"], result["n_events"]) == (0, 0)
        assert import_labels(project, str(result["out"]), analyst="ann")["stored"] == 0


def nameless(order: list[int], dx: float = 0.0) -> FootprintTable:
    """Houses without ids, in an order of their own: PU-Geo makes ids up, b000001 for the first one."""
    table = square_table(40)
    shapes = shapely.transform(shapely.from_wkb([table.wkb[i] for i in order]), lambda xy: xy + np.array([dx, 0.0]))
    return table_of(shapes, [""] * len(order))


@pytest.fixture
def two(tmp_path: Path) -> tuple[Layout, Layout]:
    """The same 40 houses twice, in another order and 1 m off; 30 of the first project have a label."""
    order = np.random.default_rng(3).permutation(40).tolist()
    one, other = new_project(tmp_path, "one", nameless(list(range(40)))), new_project(tmp_path, "two", nameless(order, 1.0))
    answer(one, *(op_of(f"b{i + 1:06d}", "positive" if i % 3 else "not_damaged") for i in range(30)))
    return one, other


def on_the_ground(layout: Layout) -> dict[int, str]:
    """The labels by the house that they are on, counted from west to east."""
    with store.connect(layout) as db:
        said, (ids, xy) = labels.current_labels(db), contents.centers(db)
    return {round((xy[ids.index(building), 0] - 500_004) / 16): label for building, label in said.items()}


@pytest.mark.parametrize("ending", ["csv", "geojson", "events.csv"])
def test_made_up_ids_land_on_their_houses(two: tuple[Layout, Layout], tmp_path: Path, ending: str) -> None:
    one, other = two
    result = export_labels(one, str(tmp_path / ("x.geojson" if ending == "geojson" else "x.csv")))
    is_history = ending == "events.csv"
    done = import_labels(other, str(result["events_out" if is_history else "out"]), analyst="bob", rebuild=is_history)
    assert (done["stored"], done["skipped"]) == (30, 0)
    assert on_the_ground(other) == on_the_ground(one)
    assert done["placed"] >= 26
    assert done["notes"] == [f"{done['placed']} label(s) were placed by their position because ids differ."]
    assert import_labels(other, str(result["out"]), analyst="bob")["stored"] == 0


def test_made_up_ids_without_a_place_and_a_history_of_another_place_are_refused(
    two: tuple[Layout, Layout], tmp_path: Path
) -> None:
    _, other = two
    path = write(tmp_path, "building_id,label\nb000001,damaged\nb000002,damaged\n")
    with pytest.raises(LabelError, match=r"2 building\(s\) by ids that PU-Geo made up, such as b000001") as refused:
        import_labels(other, path, analyst="bob")
    assert refused.value.kind == "ids"
    assert on_the_ground(other) == {}
    assert import_labels(other, path, analyst="bob", same_footprints=True)["stored"] == 2
    one, _ = two
    third = new_project(tmp_path, "three", nameless(list(range(25))))
    out = export_labels(one, str(tmp_path / "x.csv"))
    with pytest.raises(LabelError, match=r"5 building\(s\) of the history"):
        import_labels(third, str(out["events_out"]), analyst="bob", rebuild=True)
    assert on_the_ground(third) == {}
    assert import_labels(third, str(out["out"]), analyst="bob")["skipped"] == 5


def test_an_id_of_the_files_own_counts_only_where_the_place_agrees(project: Layout, tmp_path: Path) -> None:
    # b1 lies at x 500016 to 500024. A point 3 m beside it agrees with its id; one on b5 does not; one 100 m off is nowhere.
    spots = [("b1", 500_027.0, 4_000_004.0), ("b2", 500_084.0, 4_000_004.0), ("b3", 500_050.0, 4_000_200.0)]
    points = shapely.points([spot[1:] for spot in spots])
    lonlat = geopandas.GeoSeries(points, crs=32615).to_crs(4326)
    rows = [f"{name},damaged,{p.x:.7f},{p.y:.7f}" for (name, *_), p in zip(spots, lonlat, strict=True)]
    done = import_labels(project, write(tmp_path, "\n".join(["building_id,label,lon,lat", *rows])), analyst="bob")
    assert sorted(labeling.current_labels(project)) == ["b1", "b5"]
    assert (done["rows"], done["stored"], done["skipped"], done["placed"]) == (3, 2, 1, 1)
    assert len(done["notes"]) == 2
    with pytest.raises(LabelError, match="None of the 1 labels") as refused:
        import_labels(project, write(tmp_path, "\n".join(["building_id,label,lon,lat", rows[2]])), analyst="bob")
    assert refused.value.kind == "outside"


def test_two_buildings_of_a_file_on_one_outline_are_told(tmp_path: Path) -> None:
    halves = [shapely.box(500_000, 4_000_000, 500_004, 4_000_008), shapely.box(500_004, 4_000_000, 500_008, 4_000_008)]
    one, other = new_project(tmp_path, "one", table_of(halves, ["", ""])), new_project(tmp_path, "two", nameless([0]))
    click(one, "b000001", "b000002")
    done = import_labels(other, str(export_labels(one, str(tmp_path / "x.csv"))["out"]), analyst="bob")
    assert done["notes"][-1] == "1 footprint(s) hold several buildings of the file; of each the last row counts."


def write(tmp_path: Path, text: str) -> str:
    path = tmp_path / "made.csv"
    path.write_text(text, encoding="utf-8")
    return str(path)


def test_table_by_hand_may_say_more_than_labels(project: Layout, tmp_path: Path) -> None:
    path = write(
        tmp_path,
        "building_id,label,reason,damage_types,comment,analyst,at,other\n"
        "b1,damaged,,roof; wall ;,half gone,bob,2026-01-02T03:04:05Z,x\n"
        'b2,not_assessable,cloud,,,,,\nb3,positive,,"[""a;b""]"\nb4,,,,,,,\n',
    )
    assert import_labels(project, path, analyst="carl") == {"rows": 4, "stored": 3, "unchanged": 0, "skipped": 1}
    with store.connect(project) as db:
        found = labels.current(db)
    assert found["b1"].damage_types == ("roof", "wall")
    assert (found["b1"].analyst, found["b1"].at, found["b1"].comment) == ("bob", "2026-01-02T03:04:05.000Z", "half gone")
    assert (found["b2"].reason, found["b2"].analyst) == ("cloud", "carl")
    assert (found["b3"].damage_types, found["b3"].comment) == (("a;b",), "")
    assert import_labels(project, path, analyst="carl")["unchanged"] == 3


def test_a_file_that_says_nothing_of_types_takes_none_away(project: Layout, tmp_path: Path) -> None:
    def types() -> dict[str, tuple[Sequence[str], Sequence[str]]]:
        now = store.call(project, labels.current).items()
        return {building: (one.damage_types, one.absent_types) for building, one in now}

    click(project, "b1", "b2", damage_types=["wall"], absent_types=["roof", "flooded"])
    click(project, "b3", absent_types=["roof"])
    text = "building_id,label,damage_types\nb1,damaged,roof\nb2,damaged,wall\nb3,not_damaged,\n"
    assert import_labels(project, write(tmp_path, text), analyst="carl")["stored"] == 2
    assert types() == {"b1": (("roof",), ("flooded",)), "b2": (("wall",), ("roof", "flooded")), "b3": ((), ())}
    text = "building_id,label,damage_types,absent_types\nb1,damaged,roof,\nb2,damaged,wall,roof; debris\n"
    assert import_labels(project, write(tmp_path, text), analyst="carl")["stored"] == 1
    assert [types()[b][1] for b in ("b1", "b2")] == [("flooded",), ("roof", "debris")]
    for columns in ("comment\nb1,damaged,new", "damage_types,absent_types,analyst\nb1,damaged,,,bob"):
        assert import_labels(project, write(tmp_path, f"building_id,label,{columns}\n"), analyst="eve")["stored"] == 1
        assert types()["b1"] == (("roof",), ("flooded",))


def test_types_of_checks_and_other_answers_stay_with_their_own(project: Layout, tmp_path: Path) -> None:
    click(project, "b1", damage_types=["roof"], shown="audit", inclusion=0.5)
    click(project, "b2", damage_types=["roof"])
    text = "building_id,label,shown,inclusion,analyst\nb1,damaged,,,bob\nb2,damaged,audit,0.5,bob\n"
    import_labels(project, write(tmp_path, text), analyst="eve")
    found = store.call(project, labels.current)
    assert [(found[b].analyst, found[b].damage_types) for b in ("b1", "b2")] == [("bob", ()), ("bob", ())]
    click(project, "b1", comment="keep")
    assert import_labels(project, write(tmp_path, "building_id,label\nb1,damaged\n"), analyst="carl")["stored"] == 0
    assert (
        import_labels(project, write(tmp_path, "building_id,label,comment\nb1,damaged,x\n"), analyst="carl")["stored"] == 1
    )


def test_second_reader_with_the_same_label_is_a_second_answer(project: Layout, tmp_path: Path) -> None:
    path = write(tmp_path, "building_id,label,analyst\nb1,damaged,ann\nb1,damaged,bob\nb2,damaged,ann\nb2,not_damaged,bob\n")
    for stored in (4, 0):
        assert import_labels(project, path, analyst="carl")["stored"] == stored
        with store.connect(project) as db:
            assert labels.current_labels(db) == {"b1": "positive", "b2": "not_damaged"}
            assert (analysts.agreement(db).n, analysts.agreement(db).share) == (2, 0.5)


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("building_id,label,reason\nb1,damaged,cloud\n", "1 of 1 labels .* the label is positive"),
        ("building_id,label,reason\nb1,not_assessable,fog\nb2,damaged,\n", "1 of 2 labels .*'fog'"),
        ("building_id,label,at\nb1,damaged,yesterday\n", "is not a time"),
        ("building_id,label,damage_types\nb1,damaged,[broken\n", "must be a list"),
        ("building_id,label,shown,inclusion\nb1,damaged,audit,much\n", "got 'much'"),
        ("building_id,label,shown\nb1,damaged,audit\n", "got None"),
    ],
)
def test_file_that_makes_no_sense_is_refused_in_words(project: Layout, tmp_path: Path, text: str, word: str) -> None:
    with pytest.raises(LabelError, match=word):
        import_labels(project, write(tmp_path, text), analyst="carl")


@pytest.mark.parametrize("ending", ["csv", "geojson"])
def test_simulated_answers_stay_simulated_in_another_project(project: Layout, tmp_path: Path, ending: str) -> None:
    """Exported and imported they were answers like any other, and the map no longer spoke of a trial."""
    answer(project, op_of("b1"), kind="simulated")
    click(project, "b2")
    export_labels(project, str(tmp_path / f"labels.{ending}"))
    other = new_project(tmp_path, "other")
    import_labels(other, str(tmp_path / f"labels.{ending}"), analyst="bob")
    kinds = {building: event.kind for building, event in store.call(other, labels.current).items()}
    assert kinds == {"b1": "simulated", "b2": "import"}


def test_grades_leave_by_name_and_come_back_by_name_id_or_class(project: Layout, tmp_path: Path) -> None:
    worst, *rest = grades.USUAL
    store.call(project, grades.put, [replace(worst, name="Total loss"), Grade("", "Burned", "destroyed"), *rest])
    for k, grade in enumerate(("destroyed", "Burned", "")):
        click(project, f"b{k}", grade=grade)
    export_labels(project, str(tmp_path / "labels.csv"))
    with (tmp_path / "labels.csv").open(newline="", encoding="utf-8") as file:
        assert [row["grade"] for row in csv.DictReader(file)] == ["Total loss", "Burned", ""]
    again = import_labels(project, str(tmp_path / "labels.csv"), analyst="ann")
    assert (again["stored"], again["unchanged"]) == (0, 3)

    by_hand = write(tmp_path, "building_id,label,grade\nb0,damaged,burned\nb1,damaged,\nb5,damaged,major\n")
    assert import_labels(project, by_hand, analyst="bob")["stored"] == 2
    assert labeling.graded(project) == {"b0": "Burned", "b1": "Burned", "b2": "", "b5": "Major"}
    with pytest.raises(LabelError, match=r"grade 'Destoyed' is not one of this project's: Total loss, Burned, Major, Minor"):
        import_labels(project, write(tmp_path, "building_id,label,grade\nb7,damaged,Destoyed\n"), analyst="bob")
    damage_map = write(  # as an export has it: classes, not names
        tmp_path,
        "building_id,label,damage_class,labeller,labelled_at\nb0,damaged,destroyed,bob,\nb2,damaged,minor,bob,\n"
        "b6,damaged,damaged_not_graded,bob,\nb8,no_visible_damage,no_visible_damage,bob,\n",
    )
    import_labels(project, damage_map, analyst="bob")
    assert labeling.graded(project) == {"b0": "Burned", "b1": "Burned", "b2": "Minor", "b5": "Major", "b6": ""}
