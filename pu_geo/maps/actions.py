"""What a person asks of a run's map: areas to sum up by, exports, and published versions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import Any

from pu_geo.errors import PuGeoError
from pu_geo.jobs.actions import REQUIRED, Action, OfRun, PathOrText, absolute, or_none
from pu_geo.jobs.tasks import Task, declare
from pu_geo.maps import thresholds
from pu_geo.maps.exporting import FORMATS, PROFILES
from pu_geo.methods.settings import setting
from pu_geo.store import areas
from pu_geo.store.layout import Layout

declare(
    Task("pu_geo.maps.areas_job:sum_up", "Summary by area", screen="damage_map", panel="areas"),
    Task("pu_geo.maps.export_job:export_selection", "Exporting a selection", screen="explore", panel="selection"),
)


@dataclass(frozen=True)
class AddAreas(Action):
    """Add areas to summarise damage by, such as districts; layers adm1 and adm2 also fill the codes of exports."""

    task = Task("pu_geo.maps.areas_job:add_areas", "Adding areas", screen="damage_map", panel="areas")
    path: PathOrText = setting(REQUIRED, "", read=absolute, metavar="FILE", is_positional=True, noun="file of areas")
    layer: str = setting(
        REQUIRED, "what to call them; adm1 and adm2 also fill the codes of the export", read=areas.checked_layer
    )
    _: KW_ONLY
    name_field: str | None = setting(None, "attribute with the names (default: a usual one)", read=or_none, metavar="NAME")
    code_field: str | None = setting(None, "attribute with the codes (default: a usual one)", read=or_none, metavar="NAME")


@dataclass(frozen=True)
class OfMap(OfRun):
    """An action on the map of one run, at a threshold."""

    _: KW_ONLY
    threshold: float | None = setting(
        None,
        "flag buildings with at least this score (default: the one chosen for the run, else its own)",
        read=thresholds.checked_threshold,
    )
    top: int | None = setting(None, "flag the K highest-ranked buildings, in place of a threshold", min=0, metavar="K")
    local: bool = setting(
        False, "write a map without a place on the Earth, in local meters (gpkg, csv)", flag="--local-coordinates"
    )

    def args(self, layout: Layout) -> Mapping[str, Any]:
        """Return what every job on a run's map takes. Raises as `thresholds.map_arguments`."""
        given = dict(super().args(layout))
        given |= thresholds.map_arguments(layout, given["run_id"], given.pop("threshold"), given.pop("top"))
        return given


def _several(given: str | Sequence[str]) -> list[str]:
    return [given] if isinstance(given, str) else list(given)


@dataclass(frozen=True)
class Export(OfMap):
    """Write the damage map into one file, with codebook and metadata beside it.

    Returns:
        {"out", "n", "flagged", "confirmed", "not_assessed", "run_id", "threshold", ...}
    """

    task = Task("pu_geo.maps.export_job:export", "Export", screen="damage_map", panel="export", only_reads=True)
    out: PathOrText = setting(REQUIRED, "file to write", read=absolute, metavar="FILE", noun="file")
    format: str = setting("", f"{', '.join(FORMATS)}; by the ending of the file if not named")

    def __post_init__(self) -> None:
        super().__post_init__()
        path = Path(str(self.out))
        object.__setattr__(self, "format", self.format or path.suffix.removeprefix("."))
        if not self.format:
            raise PuGeoError(
                f"{path.name} has no ending that names a format; these are: {', '.join(FORMATS)}.",
                f"Call it {path.name}.geojson, for example, or name a format.",
            )


@dataclass(frozen=True)
class Publish(OfMap):
    """Write the next version of the damage map, with its report and tables, into exports/.

    Returns:
        {"out": folder of the version, "version", "files", "n_changes", and what an export returns}
    """

    task = Task("pu_geo.maps.publish_job:publish", "Export", screen="damage_map", panel="export")
    formats: str | Sequence[str] = setting(
        ("geojson", "gpkg", "csv"), "as for export", read=_several, metavar="FORMAT...", is_many=True
    )
    _: KW_ONLY
    profiles: str | Sequence[str] = setting(
        (), f"add classes of one of {', '.join(PROFILES)}", read=_several, flag="--profile", metavar="NAME", is_many=True
    )
