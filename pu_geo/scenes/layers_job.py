"""Add a layer beside pre and post: SAR, elevation, a damage proxy map; files that are placed on the project's grid."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from pu_geo.errors import ImageryError
from pu_geo.files import remove_path
from pu_geo.geo import local_space
from pu_geo.geo.raster import quicklooks, reading
from pu_geo.geo.raster.mosaic import Mosaic
from pu_geo.geo.raster.placement import check_overlap, check_ratio, coarse_words
from pu_geo.geo.raster.scaling import MANY_EQUAL, NO_MEASURE, Scaling, find_scaling, is_cut, is_flat, is_possible
from pu_geo.geo.readers import in_child
from pu_geo.geo.vector.sites import sites_under
from pu_geo.records import Grid, Layer, LayerKind, Scene, When, reads_alike
from pu_geo.scenes import layers, scene_files, scene_pair
from pu_geo.scenes.scenes_job import exchange_folder, few, shown_bands, with_ids
from pu_geo.store import contents, store
from pu_geo.store.job import Job, Part

COARSER_FROM = 2.0  # times the project's pixel size
_HOUSE_M = 10.0


@dataclass(frozen=True)
class Described:
    """A layer whose files were checked, scaled and put on the grid, but not stored yet.

    Attributes:
        layer: with all of its files.
        new: of them those that are not in the project.
        tiles: folder of its map tiles, beside the one in use.
        share: of the post scenes' area that it covers, 0..1.
        notes: what to know about it, in sentences.
    """

    layer: Layer
    new: tuple[Scene, ...]
    tiles: Path
    share: float
    notes: tuple[str, ...]


def add_layer(
    job: Job, *, name: str, paths: Sequence[str], when: str | None = None, kind: LayerKind | None = None,
    nodata: float | None = None, crs: str | None = None,
) -> dict[str, object]:  # fmt: skip
    """Add files as a layer, or to a layer that is here, whose scaling stays; and make its map tiles.

    A layer is taken as co-registered with the post scenes: no alignment moves it. Its samples become 8 bits by one scaling
    per band, the 0.5th and 99.5th percentile of all its files on the grid (see `find_scaling`). Amplitudes of SAR become
    decibels first, 20 log10 of them, since speckle multiplies; an amplitude of 0 is no data.

    Args:
        name: lowercase letters, digits and -.
        paths: GeoTIFFs of 1 to 16 bands, uint8, uint16 or float32; several form a mosaic.
        when: "pre", "post" or "none"; that of the layer where it is here, else "post", if None.
        kind: what it measures; that of the layer where it is here, else "other", if None.
        nodata: a sample value that stands for no data, beside the one that the files name.
        crs: of files that name none, "EPSG:n" or WKT.

    Returns:
        What `as_result` does.

    Raises:
        ProjectError: if there is no post scene yet.
        ImageryError: if a file cannot be used, does not fit the layer's other files, or nothing of them lies on the post
            scenes.
    """
    layers.check_name(name)
    here = next((layer for layer in store.call(job.layout, contents.layers) if layer.name == name), None)
    usual: tuple[When, LayerKind] = ("post", "other") if here is None else (here.when, here.kind)
    date, measure = usual[0] if when is None else layers.when_of(when), kind or usual[1]
    if here is not None and (date, measure) != usual:
        raise ImageryError(
            f"The layer {name} is {layers.WHEN_WORDS[here.when]} and of the kind {here.kind}; files that are added to it "
            "are too.",
            "Leave the date and the kind away to add them to it, or give the new layer another name.",
            kind="name",
        )
    found = describe(job, name, paths, here, when=date, kind=measure, nodata=nodata, crs=crs)
    if found.new:
        with store.connect(job.layout) as db:
            exchange_folder(found.tiles, job.layout.layer_tiles(name))
            contents.add_layer_scenes(db, found.new)
    return as_result(found)


def as_result(found: Described) -> dict[str, object]:
    """Return {"name", "when", "kind", "added": ids, "bands", "unit", "scaling", "steps", "share", "words", "notes"} of a
    layer.
    """
    row = layers.as_row(found.layer, None, 0)
    return {
        **{key: row[key] for key in ("name", "when", "kind", "bands", "dtype", "unit", "scaling", "steps", "gsd_m")},
        "added": [scene.scene_id for scene in found.new],
        "n_files": len(found.layer.scenes),
        "share": round(found.share, 4),
        "scaling_words": layers.scaling_words(found.layer.scaling, found.layer.unit),
        "notes": list(found.notes),
    }


def take_over(job: Job, layer: Layer) -> None:
    """Store a layer of another project with its scaling, so that models of that project's runs fit, and make its map tiles.

    Args:
        layer: with its files where this project is to read them.

    Raises:
        ImageryError: kind "overlap" if nothing of it lies on the post scenes.
    """
    with store.connect(job.layout) as db:
        grid, taken = contents.grid(db), list(contents.all_scenes(db))
    check_overlap(layer.scenes, [scene for scene in taken if scene.role == "post"], grid, f"Layer {layer.name}")
    scenes = with_ids([scene for scene in layer.scenes if sites_under(scene, grid)], taken, job.layout)
    _draw_tiles(job, layer.name, scenes, grid, job.layout.layer_tiles(layer.name))
    job.stop_if_cancelled()
    with store.connect(job.layout) as db:
        contents.add_layer_scenes(db, scenes)


def _draw_tiles(job: Job, name: str, scenes: Sequence[Scene], grid: Grid, tiles: Path) -> None:
    with Mosaic(shown_bands(scenes), grid) as mosaic:
        report = job.part(0.5, 1.0, f"map tiles of layer {name}")
        quicklooks.build_pyramid(mosaic, tiles, report=report, is_cancelled=job.is_cancelled)


def describe(
    job: Job, name: str, paths: Sequence[str], here: Layer | None, *, when: When, kind: LayerKind,
    nodata: float | None, crs: str | None, former: Layer | None = None,
) -> Described:  # fmt: skip
    """Check files as `add_layer` does, find their scaling and draw their map tiles; nothing is stored.

    Args:
        here: the layer that they are added to; None for a new one.
        former: the layer whose place they take: its value for no data is that of files which name none.
    """
    if kind not in layers.KINDS:
        raise ImageryError(f"The kind of a layer is {kind!r}.", f"Name one of: {', '.join(layers.KINDS)}.", kind="kind")
    if not paths:
        raise ImageryError("No file was named.", "Name at least one GeoTIFF.", kind="missing")
    with store.connect(job.layout) as db:
        grid, scenes = contents.grid(db), contents.all_scenes(db)
    known = () if here is None else tuple(
        scene_files.require(job.layout, here.scenes, report=Part(job, 0.0, 0.02).report, is_cancelled=job.is_cancelled)
    )  # fmt: skip
    new, notes = _checked(job, name, paths, known, grid, kind, nodata, crs)
    if former is not None:
        new = reading.with_nodata(new, former.scenes[0])
    notes += [words for _, words in scene_pair.assumed(new)]
    new = [replace(scene, layer=name, when=when) for scene in with_ids(new, scenes, job.layout)]
    post = [scene for scene in scenes if scene.role == "post"]
    share = check_overlap([*known, *new], post, grid, f"Layer {name}")
    scaling = _scaling(job, name, new, grid, notes) if new else ()
    if here is not None:
        notes += _other_scaling(here, scaling)
        scaling = here.scaling
    new = [replace(scene, stretch=scaling) for scene in new]
    everything = (*known, *new)
    layer = Layer(name, when, kind, everything, len(everything[0].rgb), scaling)
    if when == "pre":
        notes.append(
            f"{name} is taken as co-registered with the post scenes: the alignment of the pre scenes does not move it."
        )
    tiles = job.layout.layer_tiles(name).with_name(f"{name}.new")
    if new:
        remove_path(tiles)
        _draw_tiles(job, name, everything, grid, tiles)
        job.stop_if_cancelled()
    return Described(layer, tuple(new), tiles, share, tuple(few(notes)))


def _checked(
    job: Job, name: str, paths: Sequence[str], known: Sequence[Scene], grid: Grid, kind: LayerKind, nodata: float | None,
    crs: str | None,
) -> tuple[list[Scene], list[str]]:  # fmt: skip
    """Return the files that are new and lie on the grid, described by a child process, and notes on them and on the
    others.
    """
    pixel_m = None if grid.has_place else grid.gsd_m
    if pixel_m is not None and len(paths) + len(known) > 1:
        raise ImageryError(
            f"{len(paths) + len(known)} files were named for {name}, and this project has no place on the Earth; nothing "
            "says how they lie beside one another.",
            "Join them to one picture.",
            kind="local",
        )
    new: list[Scene] = []
    notes: list[str] = []
    described = in_child.describe_layers(paths, kind, nodata=nodata, crs=crs, pixel_m=pixel_m)
    for i, path in enumerate(paths):
        job.report(0.02 + 0.28 * i / len(paths), f"checking {path}")
        scene, file = next(described), Path(path).name
        scene = scene if pixel_m is None else local_space.over_ground(scene, grid)
        if same := [other for other in (*known, *new) if other.sha256 == scene.sha256]:
            other = " It would be read in another way: replace the layer." * (not reads_alike(scene, same[0]))
            notes.append(f"{file} was not added: it has the same content as {Path(same[0].path).name}.{other}")
            continue
        check_ratio(scene, grid)
        if not sites_under(scene, grid):
            notes.append(f"{file} was left out: it lies beside the post scenes.")
            continue
        mine, theirs = ((len(one.rgb), one.dtype) for one in (scene, [*known, *new, scene][0]))
        if mine != theirs:
            raise ImageryError(
                f"{file} has {mine[0]} band(s) of {mine[1]}, and other files of the same layer have {theirs[0]} of "
                f"{theirs[1]}.",
                "Files of a layer have the same bands and sample type. Give this one a name of its own, or convert it.",
                kind="bands",
            )
        wide = f"a house of {_HOUSE_M:g} m is {_HOUSE_M / scene.gsd_m:.2g} pixels wide in it"
        notes += [words for words in (coarse_words(scene, grid, COARSER_FROM, wide),) if words]
        new.append(scene)
    if not new and not known:
        raise ImageryError(
            f"None of the {len(paths)} files of layer {name} lies on the post scenes."
            if len(paths) > 1
            else f"{Path(paths[0]).name} does not overlap the post scenes.",
            "Choose files of the same place, or check their coordinate system.",
            kind="overlap",
        )
    return new, notes


def _scaling(job: Job, name: str, scenes: Sequence[Scene], grid: Grid, notes: list[str]) -> tuple[tuple[float, float], ...]:
    """Return one scaling per band of new files, and note what is odd about their samples."""
    with Mosaic(scenes, grid) as mosaic:
        found = find_scaling(mosaic, job.part(0.3, 0.5, f"scaling of layer {name}"), job.is_cancelled)
    if found is None:
        raise ImageryError(
            f"Layer {name} holds no data where the post scenes are: every pixel there is nodata, transparent or not a number"
            + (", or an amplitude of 0." if scenes[0].kind == "sar-amplitude" else "."),
            "Choose other files, or name the value that stands for no data (--nodata).",
            kind="empty",
        )
    notes += _odd_samples(name, scenes[0], found)
    return found.bands


def _odd_samples(name: str, scene: Scene, found: Scaling) -> list[str]:
    """Return notes on bands of one value, and on values of samples that may mean no data.

    Raises:
        ImageryError: if so many samples are no measure of this kind that the scaling would be theirs.
    """
    notes = []
    for band, (pair, odd, is_constant) in enumerate(zip(found.bands, found.odd, found.is_constant, strict=True), start=1):
        if is_constant:
            notes.append(f"Band {band} of {name} has the value {_in_file(pair[0], scene)} everywhere: it says nothing.")
        elif wrong := [end for end in pair if not is_possible(end, scene.kind)]:
            value = next((value for value, _ in odd if not is_possible(value, scene.kind)), wrong[0])
            raise ImageryError(
                f"Band {band} of {name} has samples of {_in_file(value, scene)}, which no layer of the kind {scene.kind} "
                "can measure.",
                f"If that stands for no data, name it (--nodata {_in_file(value, scene)}); else correct the file or the "
                "kind.",
                kind="nodata",
            )
        for value, share in odd:
            words = _in_file(value, scene)
            notes.append(
                f"{_percent(share)} of the samples of band {band} of {name} are exactly {words}. If that stands for no "
                "data, remove the "
                f"layer and add it with --nodata {words}."
            )
    return notes


def _in_file(value: float, scene: Scene) -> str:
    """Return a sample as its file has it, in words that read back as the same float32."""
    value = 10 ** (value / 20) if scene.kind == "sar-amplitude" else value
    return f"{value:.6g}" if abs(value) < NO_MEASURE else f"{value:.9g}"


def _percent(share: float) -> str:
    return f"{share:.0%}" if share >= MANY_EQUAL else f"{share:.2%}" if share >= 1e-4 else "Under 0.01%"


def _other_scaling(layer: Layer, new: Sequence[tuple[float, float]]) -> list[str]:
    """Return notes on bands that files which are added to a layer would have scaled otherwise: much of them would be 0 or
    255, or alike.

    Args:
        new: the scaling that the new files alone would have; nothing where there are none.
    """
    notes, unit = [], f" {layer.unit}" if layer.unit else ""
    for band, ((low, high), (least, most)) in enumerate(zip(layer.scaling, new, strict=False), start=1):
        if not (is_cut((low, high), (least, most)) or is_flat((low, high), (least, most))):
            continue
        notes.append(
            f"Band {band} of the files added to {layer.name} spans {least:.4g} to {most:.4g}{unit}; the layer is scaled "
            f"from {low:.4g} to {high:.4g}{unit}, so what lies beyond is cut off. Check that they have the same unit and "
            "no undeclared no data. If they do, remove the layer and add all its files together, which finds one scaling "
            "for all."
        )
    return notes
