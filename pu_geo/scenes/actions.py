"""What a person asks of scenes, footprints, layers and chips: settings, words and tasks, no work."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, Literal

from pu_geo.errors import PuGeoError
from pu_geo.jobs.actions import REQUIRED, Action, Files, PathOrText, absolute, absolutes, or_none
from pu_geo.jobs.tasks import Task
from pu_geo.methods.settings import setting
from pu_geo.records import LayerKind
from pu_geo.scale import computers
from pu_geo.store.layout import LAYERS, RCF, SHARED, Layout

_BACKBONE = "backbone"
_VIEWS = "views of each chip; rankings need one, NcPU and PUCL more"
_CLUSTER = "work in parts: local:N (N processes here), or tcp://HOST:8786 (a Dask scheduler)"
_FILE_CRS = "where the file names none"


def bands_in(given: str | Sequence[int] | None) -> list[int] | None:
    """Read three band numbers, such as "3, 2, 1"; None where nothing is written.

    Raises:
        PuGeoError: if they are not three whole numbers from 1 on.
    """
    parts = [part.strip() for part in given.split(",")] if isinstance(given, str) else [*map(str, given or ())]
    if not any(parts):
        return None
    if len(parts) != 3 or not all(part.isdigit() and int(part) > 0 for part in parts):
        raise PuGeoError(f"{given!r} does not name three bands.", "Write the numbers of red, green and blue: 3, 2, 1.")
    return [int(part) for part in parts]


def number_in(given: str | float | None) -> float | None:
    """Read a number such as "-9999" or "-3,4e38"; None where nothing is written. Raises PuGeoError for anything else."""
    if not (text := "" if given is None else str(given).strip()):
        return None
    try:
        return float(text.replace(",", "."))
    except ValueError as cause:
        raise PuGeoError(f"{text!r} is no number.", "Write the value that stands for no data, such as -9999.") from cause


def _cluster(name: str) -> str:
    return computers.arguments(name).get("cluster", "")


@dataclass(frozen=True)
class AddScenes(Action):
    """Add pre- and post-event GeoTIFF scenes; they are read from where they are, not copied.

    Returns:
        {"added", "width", "height", "gsd_m", "crs", "is_local", "pre_share", "notes"}
    """

    task = Task("pu_geo.scenes.scenes_job:add_scenes", "Adding scenes", panel="scenes", is_exclusive=True)
    pre: Files = setting((), "a pre-event scene; may be repeated", read=absolutes, metavar="TIF", is_many=True)
    post: Files = setting((), "a post-event scene; may be repeated", read=absolutes, metavar="TIF", is_many=True)
    _: KW_ONLY
    bands: Sequence[int] | str | None = setting(
        None, "numbers of the red, green and blue band, such as 3,2,1", read=bands_in, metavar="R,G,B"
    )
    crs: str | None = setting(None, "of pictures with a world file", read=or_none, metavar="EPSG:N")
    pixel_m: float | None = setting(
        None, "side of a pixel in meters, to use pictures without any georeference", flag="--pixel-size", metavar="M"
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if not (self.pre or self.post):
            raise PuGeoError("No scene was named.", "Name at least one GeoTIFF file, of before or after the event.")


@dataclass(frozen=True)
class PutInSite(Action):
    """Name a site, join sites, or divide one: sites and post scenes become the site of a name.

    Returns:
        {"sites": names, "is_redrawn"}
    """

    task = Task("pu_geo.scenes.sites_job:put_in_site", "Changing the sites", panel="scenes", is_exclusive=True)
    what: Sequence[str] = setting(
        REQUIRED, "names of sites or post scenes", metavar="SITE...", is_positional=True, is_many=True, noun="site"
    )
    name: str = setting(REQUIRED, "a new name, or that of a site that they join", read=str.strip)


@dataclass(frozen=True)
class AddXbd(Action):
    """Add an xBD folder: its pictures as scenes, its labels as footprints."""

    task = Task("pu_geo.scenes.scenes_job:add_xbd", "Adding an xBD folder", panel="scenes", is_exclusive=True)
    folder: PathOrText = setting(
        REQUIRED,
        "the folder that holds images/ and labels/",
        read=absolute,
        metavar="DIR",
        is_positional=True,
        noun="xBD folder",
    )
    _: KW_ONLY
    chosen: str = setting(
        "",
        "only its pictures whose names start with NAME, or match a NAME with *",
        read=str.strip,
        flag="--choose",
        metavar="NAME",
    )


@dataclass(frozen=True)
class AddLayer(Action):
    """Add a layer beside pre and post: SAR, elevation, a damage proxy map; 1 to 16 bands, uint8, uint16 or float32.

    Returns:
        {"name", "when", "kind", "added", "bands", "dtype", "unit", "scaling", "steps", "gsd_m", "n_files", "share",
        "scaling_words", "notes"}
    """

    task = Task("pu_geo.scenes.layers_job:add_layer", "Adding a layer", panel="scenes", is_exclusive=True)
    name: str = setting(REQUIRED, "lowercase letters, digits and -; files of a name that is here join it", metavar="NAME")
    paths: Files = setting(
        REQUIRED,
        "GeoTIFFs; several form a mosaic",
        read=absolutes,
        metavar="FILE...",
        is_positional=True,
        is_many=True,
        noun="file",
    )
    _: KW_ONLY
    when: Literal["pre", "post", "none"] | None = setting(None, "the date that it shows; post if not named")
    kind: LayerKind | None = setting(None, "what it measures, for units; an amplitude is read in decibels")
    nodata: float | str | None = setting(
        None, "a sample value that stands for no data, beside the one that the files name", read=number_in, metavar="VALUE"
    )
    crs: str | None = setting(None, _FILE_CRS, read=or_none, metavar="EPSG:N")


@dataclass(frozen=True)
class Relink(Action):
    """Find scene files again that were moved or renamed; all of them are compared byte for byte first.

    Returns:
        {"relinked": {"scene_id", "role", "old", "new"} of each scene}
    """

    task = Task("pu_geo.scenes.relink_job:relink", "Finding moved scene files", is_exclusive=True, panel="files")
    old: PathOrText = setting(
        REQUIRED, "where a scene's file, or a folder of such files, was; or the scene", read=str, is_positional=True
    )
    new: PathOrText = setting(
        REQUIRED, "where the file or the folder is now", read=absolute, is_positional=True, noun="file or folder"
    )


@dataclass(frozen=True)
class AddFootprints(Action):
    """Add building footprints (GeoJSON, GeoPackage, shapefile, FlatGeobuf, GeoParquet, CSV, xBD).

    All files are read before the first one is stored.

    Returns:
        {"files": the account of each, {"file", "n_in", "kept", "repaired", "dropped", "dropped_by", "added", "notes"};
        "added": buildings in all}
    """

    task = Task("pu_geo.scenes.footprints_job:add_footprints", "Adding footprints", panel="footprints", is_exclusive=True)
    paths: Files = setting(
        REQUIRED, "", read=absolutes, metavar="FILE...", is_positional=True, is_many=True, noun="footprint file"
    )
    _: KW_ONLY
    crs: str | None = setting(None, _FILE_CRS, read=or_none, metavar="EPSG:N")


@dataclass(frozen=True)
class AddGrid(Action):
    """Create a grid of square cells, for places without footprints.

    Returns:
        An account as of a footprint file.
    """

    task = Task("pu_geo.scenes.footprints_job:add_grid", "Creating a grid of cells", panel="footprints", is_exclusive=True)
    size_m: float = setting(REQUIRED, "side of a cell in meters")


@dataclass(frozen=True)
class AddAoi(Action):
    """Limit footprints and grids that are added from now on to an area of interest.

    Returns:
        {"source", "area_km2", "replaced", "n", "n_outside", "notes"}
    """

    task = Task(
        "pu_geo.scenes.footprints_job:add_aoi", "Setting the area of interest", panel="footprints", is_exclusive=True
    )
    path: PathOrText | None = setting(
        None, "polygons, in any format that footprints may have", read=absolute, metavar="FILE", is_positional=True
    )
    _: KW_ONLY
    text: str = setting(
        "",
        "instead of a file: west,south,east,north in degrees or a WKT polygon; --text=-94.5,37,-94.4,37.1",
        metavar="AREA",
    )
    crs: str | None = setting(None, _FILE_CRS, read=or_none, metavar="EPSG:N")

    def __post_init__(self) -> None:
        super().__post_init__()
        if bool(self.path) == bool(self.text.strip()):
            raise PuGeoError("An area is named once: by a polygon file, or as text.", "Give one of the two.")


@dataclass(frozen=True)
class Align(Action):
    """Align pre and post scenes: measure the shift between them at each building. Cut chips again to use it."""

    task = Task("pu_geo.scenes.align_job:align", "Aligning pre and post", panel="chips", is_exclusive=True)


@dataclass(frozen=True)
class Chip(Action):
    """Cut one chip per footprint and compute its features: a new chip set, which is the newest from then on.

    Returns:
        {"chip_set", "n", "size_px", "bands", "n_not_assessed", ...}
    """

    task = Task(
        "pu_geo.scenes.chip_job:chip",
        "Cutting chips and computing features",
        panel="chips",
        is_exclusive=True,
        needs_torch=True,
    )
    size_px: int = setting(64, "side of a chip in pixels", min=1)
    _: KW_ONLY
    bands: Literal["auto", "pre+post", "post"] = setting(
        "auto", "auto: both dates, or post alone where pre scenes leave buildings out"
    )
    align: bool = setting(False, "align pre and post first, where the chips show both")
    views: int = setting(17, _VIEWS, min=1)
    cluster: str = setting("", _CLUSTER, read=_cluster, metavar="C")


@dataclass(frozen=True)
class AddFeatures(Action):
    """Make another set of frozen features of the newest chips; nothing is downloaded, no code in a file is run.

    The same weights and settings are found again, which takes no time.

    Returns:
        {"name", "n", "n_features", "n_views", "seconds", "was_there", "in_use", "layers_lacking"}
    """

    task = Task(
        "pu_geo.scenes.features_job:features",
        "Computing a feature set",
        panel="chips",
        is_exclusive=True,
        needs_torch=True,
        needs_device=True,
    )
    maker: str = setting(
        _BACKBONE,
        "backbone (weights that you bring), shared (no imagery in it), self-supervised, layers, or rcf",
        metavar="MAKER",
        is_positional=True,
    )
    _: KW_ONLY
    backbone: PathOrText = setting(
        "", "folder of Hugging Face or timm (config.json beside the weights), or weights file of torchvision",
        read=lambda path: absolute(path) or "", metavar="PATH",
    )  # fmt: skip
    pool: Literal["mean", "cls", "footprint"] = setting("mean", "over the chip, its class token, or over the footprint")
    layer: str = setting("", "layer to read, or last; an early stage or the middle block if not named", metavar="NAME")
    size_px: int = setting(
        0,
        "side to which chips are scaled; 0 for the one that the network was trained on",
        min=0,
        flag="--size",
        metavar="PX",
    )
    dates: Literal["both", "diff", "post"] = setting("both", "pre, post and post minus pre; that difference; or post alone")
    licence: str = setting("", "of the weights; run cards and reports name it", metavar="TEXT")
    n_views: int = setting(17, _VIEWS, min=1, flag="--views")
    layers: Sequence[str] | str = setting(
        (),
        "of the maker layers, a filter bank each: a layer, pre, post, or dates joined by +; pre+post and each layer if not "
        "named",
        read=lambda given: tuple(filter(None, map(str.strip, given.split(","))) if isinstance(given, str) else given),
        metavar="A,B",
    )
    use: bool = setting(False, "use the set from now on where no other one is named")
    cluster: str = setting("", _CLUSTER, read=_cluster, metavar="C")

    def __post_init__(self) -> None:
        super().__post_init__()
        maker = self.maker
        if maker not in (_BACKBONE, RCF, SHARED, LAYERS, "self-supervised"):
            raise PuGeoError(
                f"No maker of features is called {maker!r}.",
                f"There are {_BACKBONE}, {SHARED}, self-supervised, {LAYERS} and {RCF}.",
            )
        if self.layers and maker != LAYERS:
            raise PuGeoError(
                f"The layers {', '.join(self.layers)[:200]} were named, and {maker} takes the optical bands alone.",
                f"Name the maker {LAYERS} with them.",
            )
        if (maker == _BACKBONE) != bool(self.backbone):
            raise PuGeoError(
                "No weights were named: PU-Geo downloads none." if not self.backbone else f"{maker} takes no weights.",
                "Name a folder or file that you have with --backbone PATH, and no other maker with it.",
            )

    def args(self, layout: Layout) -> Mapping[str, Any]:
        given = dict(super().args(layout))
        use, cluster = given.pop("use"), given.pop("cluster")
        return {"request": given, "use": use, "cluster": cluster}
