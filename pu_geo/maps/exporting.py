"""The versions of the damage map that there are, how two of them differ, and what the next one would change."""

from __future__ import annotations

import re
import zipfile
from collections import Counter
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from pu_geo import jobs
from pu_geo.errors import OutOfReach, PuGeoError
from pu_geo.explore import selections
from pu_geo.maps import thresholds
from pu_geo.maps.damage_map import OF_TRIAGE, DamageMap
from pu_geo.records import Facts
from pu_geo.store import contents, run_names, store, versions
from pu_geo.store.layout import Layout
from pu_geo.store.population import Class

FORMATS = {
    "geojson": "GeoJSON, short", "gpkg": "GeoPackage (opens colored in QGIS)", "geojson-full": "GeoJSON, all columns",
    "csv": "CSV", "parquet": "GeoParquet", "fgb": "FlatGeobuf", "kml": "KML", "heat": "Heat raster (COG)",
}  # fmt: skip
LOCAL_FORMATS = ("gpkg", "csv")  # the formats that can say that a map has no place on the Earth
PROFILES = {
    "copernicus": "Copernicus EMS", "unosat": "UNOSAT", "xbd": "xBD joint damage scale", "fema": "FEMA",
}  # fmt: skip
_FILE = re.compile(r"[\w][\w.-]{0,99}")
_VERSION = re.compile(r"v[1-9]\d{0,5}")
REPORT = "report.html"


class State(NamedTuple):
    """What a building is in a version; `grade` is the `damage_class` of a confirmed one, "" of the others."""

    kind: Class
    grade: str = ""


class Changed(NamedTuple):
    """One building that differs between two versions; None where it is not in one of them."""

    building_id: str
    before: State | None
    after: State | None


def states_of(layout: Layout, version: str) -> dict[str, State]:
    """Return building id -> what it is in a version. Raises ProjectError if it holds nothing to compare with."""
    state = versions.read_state(layout, version)
    return _states(state["building_id"], map(OF_TRIAGE.__getitem__, state["triage"]), state["damage_class"])


def states_now(shown: DamageMap) -> dict[str, State]:
    """Return the same as the next version would have it."""
    return _states(shown.population.ids, shown.classes, shown.people["damage_class"])


def _states(ids: Iterable[str], kinds: Iterable[Class], grades: Iterable[Any]) -> dict[str, State]:
    rows = zip(ids, kinds, grades, strict=True)
    return {building: State(kind, grade if kind == "confirmed" else "") for building, kind, grade in rows}


def changed(before: Mapping[str, State], after: Mapping[str, State]) -> list[Changed]:
    """Return each building whose class or grade differs."""
    both = (Changed(building, before.get(building), after.get(building)) for building in {**before, **after})
    return [one for one in both if one.before != one.after]


def difference(layout: Layout, before: str, after: str) -> list[Changed]:
    """Return what differs from one version, such as "v1", to another. Raises as `states_of`."""
    return changed(states_of(layout, before), states_of(layout, after))


def counted(found: Iterable[Changed]) -> list[tuple[State | None, State | None, int]]:
    """Return how many buildings changed from what to what, the most frequent change first."""
    return [(*pair, n) for pair, n in Counter((one.before, one.after) for one in found).most_common()]


def since_last(shown: DamageMap) -> list[Changed] | None:
    """Return what the next version would change of the one before; None for the first one, or where that cannot be
    compared.
    """
    if not (numbers := versions.numbers(shown.layout)):
        return None
    with suppress(PuGeoError):
        return changed(states_of(shown.layout, f"v{numbers[-1]}"), states_now(shown))
    return None


# The versions there are


def all_versions(layout: Layout) -> list[Facts]:
    """Return the versions of the damage map, the newest first: what `version.json` has, and "run": its run's name, "words":
    how many are
    damaged, "files": their names."""
    names, found = run_names.names(layout), list[Facts]()
    for facts in versions.all_facts(layout):
        estimate, run_id = facts["estimate"], str(facts["run_id"])
        words = ""
        if estimate["estimate"] is not None:
            words = f"about {estimate['estimate']:,} damaged, between {estimate['low']:,} and {estimate['high']:,}"
        there = layout.path("exports", str(facts["version"])).iterdir()
        files = sorted(path.name for path in there if path.is_file() and _FILE.fullmatch(path.name))
        found.append({**facts, "run": names.get(run_id, run_id), "words": words, "files": files})
    return found


def version_file(layout: Layout, version: str, name: str) -> Path | None:
    """Return the path of a file of a version; None for what is not one, whatever its name says."""
    if not _VERSION.fullmatch(version) or not _FILE.fullmatch(name):
        return None
    with suppress(OutOfReach):
        path = layout.path("exports", version, name)
        return path if path.is_file() else None
    return None


def write_zip(layout: Layout, version: str, out: Path) -> bool:
    """Write all files of a version into one zip file; return whether there is such a version."""
    folder = layout.exports / version
    if not _VERSION.fullmatch(version) or not folder.is_dir():
        return False
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED, compresslevel=3) as zipped:
        for path in sorted(folder.iterdir()):
            if version_file(layout, version, path.name) is not None:
                zipped.write(path, f"{layout.folder.stem}_{version}/{path.name}")
    return True


# Starting one


def start_selection(layout: Layout, run_id: str, name: str) -> str:
    """Start the job that writes a saved selection into `exports/selections/`, with all columns of the damage map; its id."""
    with store.connect(layout) as db:
        decision, has_place = selections.standing(db, name).decision, contents.grid(db).has_place
    formats = ["csv", "geojson"] if has_place else list(LOCAL_FORMATS)
    arguments = thresholds.map_arguments(layout, run_id, None)
    return jobs.start(layout, "export_selection", {**arguments, "decision": decision, "formats": formats})
