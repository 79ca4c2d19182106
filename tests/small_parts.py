"""Small made-up records and projects that many tests start from."""

import importlib.metadata
import itertools
import os
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import shapely
from numpy.typing import NDArray
from packaging.requirements import Requirement

from pu_geo import files, jobs
from pu_geo.records import FootprintTable, Grid, LabelOp, Role, RunFacts, Scene
from pu_geo.store import contents, events, freshness, labels, runs, store
from pu_geo.store.job import Job
from pu_geo.store.layout import Layout, write_array, write_facts

REPOSITORY = Path(__file__).resolve().parents[1]
REQUIRED_EXTRAS = "PU_GEO_REQUIRE_EXTRAS"  # names of extras, with commas, for want of which no test is skipped
_NUMBERS = itertools.count()
WKT_UTM15 = (
    'PROJCS["WGS 84 / UTM zone 15N",GEOGCS["WGS 84",DATUM["WGS_1984",SPHEROID["WGS 84",6378137,298.257223563]],'
    'PRIMEM["Greenwich",0],UNIT["degree",0.0174532925199433]],PROJECTION["Transverse_Mercator"],'
    'PARAMETER["latitude_of_origin",0],PARAMETER["central_meridian",-93],PARAMETER["scale_factor",0.9996],'
    'PARAMETER["false_easting",500000],PARAMETER["false_northing",0],UNIT["metre",1],AUTHORITY["EPSG","32615"]]'
)


def with_key(home: Path) -> Path:
    """Make a folder that a user's own may be, whose key all tests share, as they share projects."""
    home.mkdir(parents=True, exist_ok=True)
    key = home / files.PROJECTS_KEY
    key.write_text("0" * 64)
    key.chmod(0o600)
    return home


def _parts(case: Any) -> tuple[Any, ...]:
    return case if isinstance(case, tuple) else (case,)


def square_table(n: int, *, prefix: str = "b") -> FootprintTable:
    """n squares of 8 x 8 m in a row, 16 m apart, from (500000, 4000000) in UTM 15N; of another prefix 12 m to the south."""
    y = 4_000_000 if prefix == "b" else 3_999_988
    squares = [shapely.box(500_000 + 16 * i, y, 500_008 + 16 * i, y + 8) for i in range(n)]
    attributes = [{"damage": "destroyed" if i % 4 == 0 else "no-damage", "name": f"House {i}"} for i in range(n)]
    return table_of(squares, [f"{prefix}{i}" for i in range(n)], attributes=attributes)


def table_of(shapes: Sequence[shapely.Geometry], ids: Sequence[str] | None = None, **facts: Any) -> FootprintTable:
    """Return a table of footprints, which are called b0, b1, ... where no ids are given."""
    n = len(shapes)
    ids, wkb = list(ids or [f"b{i}" for i in range(n)]), [bytes(each) for each in shapely.to_wkb(shapes)]
    usual = {"area_m2": shapely.area(shapes), "attributes": [{}] * n, "source": "user", "n_in": n}
    return FootprintTable(**{"building_ids": ids, "wkb": wkb, "n_repaired": 0, "n_dropped": 0, **usual, **facts})


def small_project(
    folder: Path, n: int = 20, name: str = "Event", *, table: FootprintTable | None = None, sites: Sequence[int] = ()
) -> Layout:
    """A project with a grid, a scene and footprints: those of a table, or b0, b1, ...; `sites` are how many each site has."""
    layout = store.create(folder, name)
    with store.connect(layout) as db:
        contents.add_scenes(db, [small_scene()], sites_grid(sites) if sites else small_grid())
        contents.add_footprints(db, table or square_table(n))
    return layout


def add_chips(
    layout: Layout, ids: Sequence[str], name: str = "set", *, bands: str = "post", size_px: int = 16,
    chips: NDArray[Any] | None = None, features: NDArray[Any] | None = None, **facts: object,
) -> None:  # fmt: skip
    """Give a project a chip set, its facts, and the arrays that are given."""
    for path, array in ((layout.chips(name), chips), (layout.features(name), features)):
        if array is not None:
            write_array(path, array)
    usual = {"building_ids": list(ids), "nodata_share": [0.0] * len(ids), "bands": bands, "size_px": size_px}
    with store.connect(layout) as db:
        scenes = contents.all_scenes(db)
        made = freshness.made_from(db, layout, {one.scene_id for one in scenes}, ids)
        kept = ("role", "sha256", "date", "gsd_m", "dtype")
        of_scenes = {one.scene_id: {key: getattr(one, key) for key in kept} for one in scenes}
        files = [path for path in (layout.chips(name), layout.features(name)) if path.is_file()]
        write_facts(layout.chip_facts(name), {**usual, "made_from": made, "scenes": of_scenes, **facts}, files)
        contents.add_chip_set(db, name, bands, size_px, len(ids))


def add_run(
    layout: Layout, run_id: str = "ranker-1", *, scores: NDArray[Any] | None = None, ids: Sequence[str] | None = None,
    arrays: Mapping[str, NDArray[Any]] | None = None, reasons: Any = None, like: str = "", **facts: Any,
) -> None:  # fmt: skip
    """Store a finished run of the chip set "set", of b0, b1, ... where no ids are given; `like` names one to take facts from."""
    n = len(ids) if ids is not None else 20
    scores = np.linspace(0, 1, n) if scores is None else scores
    ids = [f"b{i}" for i in range(len(scores))] if ids is None else ids
    usual = RunFacts(
        run_id=run_id, method="ranker", preset="quick", seed=0, settings={}, chip_set="set", at_event=0, n_positive=2,
        n_unlabeled=len(ids) - 2, created_at=store.now(), seconds=1.0, device="cpu", score_type="linear", threshold=0.5,
    )  # fmt: skip
    with store.connect(layout) as db:
        run = replace(runs.find(db, like) if like else usual, run_id=run_id, **facts)
        runs.finish(db, layout, run, ids=list(ids), scores=scores.astype(np.float32), arrays=arrays or {})
        if reasons is not None:
            runs.put_reasons(db, run_id, reasons)


def click(layout: Layout, *buildings: str, label: str = "positive", analyst: str = "ann", **details: Any) -> None:
    """Store one answer of each building."""
    answer(layout, *(op_of(building, label, **details) for building in buildings), analyst=analyst)


def op_of(building: str, label: str = "positive", **details: Any) -> LabelOp:
    """Return an answer with an id of its own; a town that another test process made and shares has ids of that one."""
    return LabelOp(f"op-{os.getpid()}-{next(_NUMBERS)}", building, label, **details)  # type: ignore[arg-type]


def answer(layout: Layout, *ops: LabelOp, analyst: str = "ann", kind: str = "set") -> None:
    """Store answers in one transaction."""
    with store.connect(layout) as db:
        acks = labels.append(db, ops, analyst=analyst, screen="map", kind=kind)
    assert not any(ack.error for ack in acks)


def facts_of(layout: Layout, run_id: str = "latest") -> RunFacts:
    """Read what is stored of a run."""
    with store.connect(layout) as db:
        return runs.find(db, run_id)


def job_of(layout: Layout, name: str = "job") -> Job:
    """Return a job of a project, whose folder is there."""
    folder = layout.jobs / name
    folder.mkdir(parents=True, exist_ok=True)
    return Job(layout, folder)


def replace_footprints(layout: Layout, path: Path, *, shift: bool = False) -> Any:
    """Put the footprints of a file in the place of all that are here, as a person does who read the plan; return it."""
    from pu_geo.lifecycle import remove_job

    for_job, given = job_of(layout, "replace"), dict[str, Any](path=str(path), analyst="ann", shift=shift)
    plan = remove_job.replace_footprints(for_job, **given)["plan"]
    remove_job.replace_footprints(for_job, **given, confirmed=plan)
    return plan


def small_grid() -> Grid:
    return Grid("EPSG:32615", WKT_UTM15, (0.5, 0.0, 499_990.0, 0.0, -0.5, 4_000_020.0), 800, 80, 0.5)


def sites_grid(sizes: Sequence[int]) -> Grid:
    """The grid of an event whose sites have so many of the squares of `square_table`, from west to east."""
    whole, parts = small_grid(), list[Grid]()
    for k, n in enumerate(sizes):
        transform = (0.5, 0.0, 499_990.0 + 16 * sum(sizes[:k]), 0.0, -0.5, 4_000_020.0)
        size = {"width": 32 * n, "boxes": ((0.0, 0.0, 32.0 * n, 80.0),), "scenes": (f"post-{k + 1}",)}
        parts.append(replace(whole, transform=transform, name=f"Site {k + 1}", row=2048 * k, **size))  # type: ignore[arg-type]
    width, height = max(one.width for one in parts), parts[-1].row + 80
    return replace(parts[0], width=width, height=height, sites=tuple(parts))


def small_scene(role: Role = "post") -> Scene:
    grid = small_grid()
    return Scene(f"{role}-1", role, "/nowhere/x.tif", grid.crs, grid.transform, grid.width, grid.height, 3, "uint8", 0.5)


def extra_requirements(extra: str) -> list[Requirement]:
    """Return what an extra of `pyproject.toml` asks for."""
    extras = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    return [Requirement(text) for text in extras[extra]]


def need_extra(extra: str) -> None:
    """Skip a test of an extra that is not installed, or fail where `REQUIRED_EXTRAS` names it."""
    for needed in extra_requirements(extra):
        try:
            if importlib.metadata.version(needed.name) in needed.specifier:
                continue
        except importlib.metadata.PackageNotFoundError:
            pass
        words = f'{needed} is not installed: pip install "pu-geo[{extra}]"'
        if extra in os.environ.get(REQUIRED_EXTRAS, "").split(","):
            pytest.fail(f"{words}; {REQUIRED_EXTRAS} requires it")
        pytest.skip(words, allow_module_level=True)


def unheld_job(layout: Layout, task: str, args: Mapping[str, Any]) -> Path:
    """Write a new job's folder and return it; nothing works for it."""
    folder, lock = jobs.create_held(layout, task, args)
    os.close(lock)
    return folder


def logged_job(layout: Layout, task: str, *log: tuple[str, Mapping[str, Any]], **args: Any) -> Path:
    """Write a job that was launched, and what it told since; nothing works for it."""
    folder = unheld_job(layout, task, args)
    for kind, values in (("launched", {}), *log):
        events.append(folder, kind, values)
    return folder


def in_tiers(cases: Iterable[Any], part: str, *, quick: Iterable[Any] = (), ci: Iterable[Any] = ()) -> list[Any]:
    """Return cases for `parametrize`: quick ones of `make test`, those of `.ci/run`, and the others of a part of the long tier."""
    cases, quick, ci = list(cases), list(quick), list(ci)
    marks = [() if case in quick else pytest.mark.ci if case in ci else pytest.mark.long(part=part) for case in cases]
    return [pytest.param(*_parts(case), marks=mark) for case, mark in zip(cases, marks, strict=True)]
