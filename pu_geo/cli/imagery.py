"""Verbs of the Imagery screen: scenes, footprints, grid, area of interest, alignment, chips, and files on their own."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Annotated, Any, Literal

import typer

from pu_geo.cli.run import Bands, Cluster, File, FileCrs, Json, Project, Screen, absolute, repeated, run_job, show
from pu_geo.errors import PuGeoError
from pu_geo.lifecycle import projects
from pu_geo.records import FeatureRequest
from pu_geo.scale import computers
from pu_geo.scenes import features, layers, preparation
from pu_geo.wording import percent, plural

screen = Screen("Imagery")
_VIEWS = "views of each chip; rankings need one, NcPU and PUCL more"
_NO_CHIPS = "There are no chips yet, so there are no features: cut them with `pu-geo chip`."


@screen.verb(
    "add-scene", "joplin.pugeo --pre pre.tif --post post.tif", "joplin.pugeo --xbd xbd/train --choose joplin-tornado"
)
def add_scene(
    project: Project,
    *,
    pre: Annotated[list[str], repeated("TIF", "a pre-event scene; may be repeated")],
    post: Annotated[list[str], repeated("TIF", "a post-event scene; may be repeated")],
    bands: Bands = "",
    crs: Annotated[str | None, typer.Option(metavar="EPSG:N", help="of pictures with a world file")] = None,
    pixel_size: Annotated[
        float | None, typer.Option(metavar="M", help="side of a pixel in meters, to use pictures without any georeference")
    ] = None,
    xbd: Annotated[
        str | None, typer.Option(metavar="DIR", help="an xBD folder: its pictures as scenes, its labels as footprints")
    ] = None,
    choose: Annotated[
        str, typer.Option(metavar="NAME", help="only its pictures whose names start with NAME, or match a NAME with *")
    ] = "",
    as_json: Json = False,
) -> None:
    """Add pre- and post-event GeoTIFF scenes."""
    layout = projects.find(project)
    if xbd:
        if pre or post or crs or bands or pixel_size:
            raise PuGeoError(
                "--xbd takes its pictures from one folder.", "Leave --pre, --post, --crs, --bands and --pixel-size away."
            )
        result = run_job(layout, "add_xbd", {"folder": absolute(xbd), "chosen": choose}, as_json)
        words = (
            f"Added {len(result['added'])} scenes of {result['n_pictures']} pictures; {result['n_left_out']} were left out."
        )
        show(result, "\n".join([words, *result["notes"], _footprint_words(result["footprints"])]), as_json)
        return
    if not (pre or post):
        raise PuGeoError("No scene was named.", "Name GeoTIFF files with --pre and --post, or an xBD folder with --xbd.")
    args = {"pre": [*map(absolute, pre)], "post": [*map(absolute, post)], "crs": crs, "pixel_m": pixel_size}
    result = run_job(layout, "add_scenes", {**args, "bands": preparation.bands_in(bands)}, as_json)
    words = f"Added {', '.join(result['added']) or 'nothing new'}; grid {result['width']} x {result['height']} px"
    system = "local coordinates, without a place on the Earth" if result["is_local"] else result["crs"]
    covered = result["pre_share"]
    partial = "" if covered is None or covered > 0.999 else f"\nPre scenes cover {covered:.0%} of the post scenes."
    show(result, "\n".join([f"{words} of {result['gsd_m']:.3f} m in {system}.{partial}", *result["notes"]]), as_json)


@screen.verb(
    "add-layer",
    "joplin.pugeo --name sar-post --when post --kind sar-db vv_vh.tif",
    "joplin.pugeo --name height --when none --kind elevation tiles/*.tif --nodata=-9999",
)
def add_layer(
    project: Project,
    files: Annotated[
        list[str], typer.Argument(metavar="FILE...", help="GeoTIFFs; several form a mosaic", show_default=False)
    ],
    *,
    name: Annotated[
        str, typer.Option(metavar="NAME", help="lowercase letters, digits and -; files of a name that is here join it")
    ],
    when: Annotated[
        Literal["pre", "post", "none"] | None, typer.Option(help="the date that it shows; post if not named")
    ] = None,
    kind: Annotated[
        Literal["sar-db", "sar-amplitude", "elevation", "proxy", "other"] | None,
        typer.Option(help="what it measures, for units; an amplitude is read in decibels"),
    ] = None,
    nodata: Annotated[
        float | None,
        typer.Option(metavar="VALUE", help="a sample value that stands for no data, beside the one that the files name"),
    ] = None,
    crs: FileCrs = None,
    as_json: Json = False,
) -> None:
    """Add a layer beside pre and post: SAR, elevation, a damage proxy map; 1 to 16 bands, uint8, uint16 or float32."""
    layout = projects.find(project)
    args = {"name": name, "paths": [*map(absolute, files)], "when": when, "kind": kind, "nodata": nodata, "crs": crs}
    result = run_job(layout, "add_layer", args, as_json)
    words = (
        f"Layer {result['name']} has {plural(result['n_files'], 'file')} of {plural(result['bands'], 'band')}, "
        f"{layers.WHEN_WORDS[result['when']]}; it covers {percent(result['share'])} of the post scenes. "
        f"Samples from {result['scaling_words']}."
    )
    again = ["Cut chips again to use it."] if result["added"] else []
    show(result, "\n".join([words, *result["notes"], *again]), as_json)


@screen.verb("layers", "joplin.pugeo", "joplin.pugeo --json")
def list_layers(project: Project, *, as_json: Json = False) -> None:
    """List the layers beside pre and post: scaling, what one of 256 steps means, and which buildings lack them."""
    found = layers.rows(projects.find(project))
    words = (
        "\n".join(row["words"] for row in found) or "There are no layers beside pre and post: `pu-geo add-layer` adds one."
    )
    show({"layers": found}, words, as_json)


@screen.verb(
    "relink",
    "joplin.pugeo /old/imagery /new/imagery",
    "joplin.pugeo /old/post.tif /new/post.tif",
    "joplin.pugeo post-1 /new/post.tif",
)
def relink(
    project: Project,
    old: Annotated[
        str,
        typer.Argument(
            metavar="OLD", help="where a scene's file, or a folder of such files, was; or the scene's id", show_default=False
        ),
    ],
    new: Annotated[str, typer.Argument(metavar="NEW", help="where the file or the folder is now", show_default=False)],
    *,
    as_json: Json = False,
) -> None:
    """Find scene files again that were moved or renamed; all of them are compared byte for byte first."""
    result = run_job(projects.find(project), "relink", {"old": old, "new": absolute(new)}, as_json)
    lines = [f"{one['scene_id']}: {one['old']} is now {one['new']}" for one in result["relinked"]]
    show(result, "\n".join([*lines, f"Found {plural(len(lines), 'scene file')}; each is the one that was added."]), as_json)


@screen.verb("add-footprints", "joplin.pugeo houses.geojson")
def add_footprints(project: Project, file: File, *, crs: FileCrs = None, as_json: Json = False) -> None:
    """Add building footprints (GeoJSON, GeoPackage, shapefile, FlatGeobuf, GeoParquet, CSV, xBD)."""
    result = run_job(projects.find(project), "add_footprints", {"path": absolute(file), "crs": crs}, as_json)
    show(result, _footprint_words(result), as_json)


@screen.verb("add-grid", "joplin.pugeo --size-m 30")
def add_grid(
    project: Project, *, size_m: Annotated[float, typer.Option(help="side of a cell in meters")], as_json: Json = False
) -> None:
    """Create a grid of square cells, for places without footprints."""
    result = run_job(projects.find(project), "add_grid", {"size_m": size_m}, as_json)
    show(result, _footprint_words(result), as_json)


def _footprint_words(result: Mapping[str, Any]) -> str:
    """Return the account of one file: what went in, what became of it, and why."""
    reasons = ", ".join(f"{n} {reason}" for reason, n in result["dropped_by"].items())
    account = f"{result['n_in']} in = {result['kept']} kept + {result['repaired']} repaired + {result['dropped']} dropped"
    return "\n".join([f"{result['file']}: {account}{f' ({reasons})' if reasons else ''}.", *result["notes"]])


@screen.verb("add-aoi", "joplin.pugeo aoi.geojson", "joplin.pugeo --text=-94.53,37.04,-94.47,37.09", "joplin.pugeo --remove")
def add_aoi(
    project: Project,
    file: Annotated[
        str | None, typer.Argument(metavar="FILE", help="polygons, in any format that footprints may have")
    ] = None,
    *,
    text: Annotated[
        str,
        typer.Option(
            metavar="AREA",
            help="instead of a file: west,south,east,north in degrees or a WKT polygon; --text=-94.5,37,-94.4,37.1",
        ),
    ] = "",
    crs: FileCrs = None,
    remove: Annotated[bool, typer.Option("--remove", help="remove the area; nothing else changes")] = False,
    undo: Annotated[bool, typer.Option("--undo", help="restore the area that was removed or replaced last")] = False,
    as_json: Json = False,
) -> None:
    """Limit footprints and grids that are added from now on to an area of interest."""
    layout = projects.find(project)
    if [bool(file), bool(text), remove, undo].count(True) != 1:
        raise PuGeoError(
            "An area is named once: by a file, with --text, --remove or --undo.",
            f"For example: pu-geo add-aoi {project} aoi.geojson",
        )
    if remove:
        was_there = preparation.remove_aoi(layout)
        words = "The area of interest was removed; footprints stay. --undo restores it."
        show({"removed": was_there}, words if was_there else "There is no area of interest.", as_json)
    elif undo:
        found = preparation.put_back_aoi(layout)
        source = None if found is None else found.source
        show({"source": source}, f"{source} is the area of interest again." if source else "There was none before.", as_json)
    else:
        path = {"path": absolute(file)} if file else {}
        result = run_job(layout, "add_aoi", {**path, "text": text, "crs": crs}, as_json)
        show(result, "\n".join([preparation.aoi_words(result), *result["notes"]]), as_json)


@screen.verb("align", "joplin.pugeo")
def align(project: Project, *, as_json: Json = False) -> None:
    """Align pre and post scenes: measure the shift between them at each building."""
    layout = projects.find(project)
    result = run_job(layout, "align", {}, as_json)
    grid = preparation.overview(layout).grid
    right, up = ("east", "north") if grid is None or grid.has_place else ("to the right", "up")
    moved = f"{result['dx_m']:+.1f} m {right} and {result['dy_m']:+.1f} m {up}"
    words = f"Pre must move {moved} to fit post (median of the buildings)"
    if result["n_failed"]:
        words += f"; {result['n_failed']} of {result['n']} could not be aligned: no shift within 20 m of that fits reliably"
    has_chips = bool(features.overview(layout).sets)
    show(
        result,
        f"{words}. {'Cut chips again to use it.' if has_chips else 'Chips that are cut from now on use it.'}",
        as_json,
    )


@screen.verb("chip", "joplin.pugeo --size-px 64", "joplin.pugeo --cluster local:4")
def chip(
    project: Project,
    *,
    size_px: Annotated[int, typer.Option(min=1, help="side of a chip in pixels")] = 64,
    bands: Annotated[
        Literal["auto", "pre+post", "post"],
        typer.Option(help="auto: both dates, or post alone where pre scenes leave buildings out"),
    ] = "auto",
    views: Annotated[int, typer.Option(min=1, help=_VIEWS)] = 17,
    cluster: Cluster = "",
    as_json: Json = False,
) -> None:
    """Cut one chip per footprint and compute its features."""
    args = {"size_px": size_px, "bands": bands, "views": views, **computers.arguments(cluster)}
    result = run_job(projects.find(project), "chip", args, as_json)
    lines = [f"Cut {result['n']} chips of {result['size_px']} px ({result['bands']}), with features."]
    if result["n_nodata"]:
        lines.append(f"{result['n_nodata']} of them reach beyond the post scenes or their data.")
    lines += filter(None, (result["bands_why"], result["features_note"]))
    lines += [f"{layers.missing_words(name, n, result['n'])}." for name, n in result["n_missing"].items() if n]
    if result["n_sensors"] > 1:
        lines.append(
            f"The scenes are of {result['n_sensors']} kinds that differ too much for scores to carry over. Mark damaged "
            "buildings in each; a kind without labels is not assessed."
        )
    if why := ", ".join(f"{n} {reason.replace('_', ' ')}" for reason, n in result["n_not_assessed"].items()):
        lines.append(f"Not assessed unless labeled: {why}.")
    show(result, "\n".join(lines), as_json)


@screen.verb(
    "features",
    "joplin.pugeo --list",
    "joplin.pugeo --backbone resnet18 --weights resnet18.safetensors --licence BSD-3-Clause --use",
    "joplin.pugeo --maker layers --layers pre+post,sar-post --use",
    "joplin.pugeo --maker shared --use",
    "joplin.pugeo --maker layers --cluster local:4",
    "joplin.pugeo --use rcf",
)
def make_features(
    project: Project,
    *,
    backbone: Annotated[
        str | None,
        typer.Option(
            "--backbone",
            "--maker",
            metavar="NAME",
            help="shared (no imagery in it), resnet18, resnet50, local-dir:FOLDER (timm), self-supervised, layers, or rcf",
        ),
    ] = None,
    layers: Annotated[
        str,
        typer.Option(
            metavar="A,B",
            help="of the maker layers, a filter bank each: a layer, pre, post, or dates joined by +; pre+post and each "
            "layer if not named",
        ),
    ] = "",
    weights: Annotated[
        str, typer.Option(metavar="FILE", help="local .safetensors file; nothing is downloaded, no code in it is run")
    ] = "",
    pool: Annotated[
        Literal["mean", "cls", "footprint"], typer.Option(help="over the chip, its class token, or over the footprint")
    ] = "mean",
    layer: Annotated[str, typer.Option(metavar="NAME", help="layer to read; the last one if not named")] = "",
    size: Annotated[
        int, typer.Option(min=0, metavar="PX", help="side to which chips are scaled; 0 for the maker's own")
    ] = 0,
    dates: Annotated[
        Literal["both", "diff", "post"], typer.Option(help="pre, post and post minus pre; that difference; or post alone")
    ] = "both",
    licence: Annotated[
        str, typer.Option("--licence", metavar="TEXT", help="of the weights; run cards and reports name it")
    ] = "",
    views: Annotated[int, typer.Option(min=1, help=_VIEWS)] = 17,
    use: Annotated[
        str | None, typer.Option(metavar="[NAME]", help="use a set from now on: the one just made, or one that is there")
    ] = None,
    is_list: Annotated[bool, typer.Option("--list", help="list the sets of the newest chips")] = False,
    cluster: Cluster = "",
    as_json: Json = False,
) -> None:
    """Make another set of frozen features of the chips, choose the one that is used, or list them."""
    layout = projects.find(project)
    if backbone is not None and is_list:
        raise PuGeoError("--backbone and --list are steps of their own.", "Give one of them.")
    if backbone is not None:
        if use:
            raise PuGeoError(f"--use {use} names a set, and --backbone makes one.", "Write --use alone to use the new one.")
        request = FeatureRequest(backbone, weights, pool, layer, size, dates, licence, views, _names(layers))
        args = {**features.arguments(request, use=use is not None), **computers.arguments(cluster)}
        result = run_job(layout, "features", args, as_json)
        show(result, _features_made(project, result), as_json)
        return
    named = {"--weights": weights, "--pool": pool != "mean", "--layer": layer, "--size": size, "--dates": dates != "both",
             "--licence": licence, "--views": views != 17, "--layers": layers, "--cluster": cluster}  # fmt: skip
    if of_making := [option for option, value in named.items() if value]:
        raise PuGeoError(
            f"{of_making[0]} is of a set to be made, and no --backbone is named.", "Add --backbone, such as resnet18."
        )
    if use == "":
        raise PuGeoError("--use names no set.", f"Write its name: `pu-geo features {project} --list` has them.")
    if use is not None:
        features.choose(layout, use)
    found = features.overview(layout)
    rows = [features.as_row(one, found.in_use) for one in found.sets]
    lines = [f"{'*' if row['is_in_use'] else ' '} {row['words']}; {row['n_features']:,} features" for row in rows]
    words = "\n".join([*lines, found.note or "* is used where no other set is named."]) if rows else _NO_CHIPS
    show({"sets": rows, "in_use": found.in_use, "note": found.note}, words, as_json)


def _names(text: str) -> tuple[str, ...]:
    """Return the names of a list with commas."""
    return tuple(filter(None, (one.strip() for one in text.split(","))))


def _features_made(project: str, result: Mapping[str, Any]) -> str:
    """Return what came of making a set."""
    made = "was there already" if result["was_there"] else f"made in {result['seconds']:,.1f} s"
    words = (
        f"Features {result['name']}: {plural(result['n_features'], 'number')} for each of {plural(result['n'], 'chip')} "
        f"in {plural(result['n_views'], 'view')}, {made}."
    )
    words += f" {result['layers_lacking']}" if result["layers_lacking"] else ""
    if result["in_use"] == result["name"]:
        return f"{words} They are used from now on, where no other set is named."
    return (
        f"{words} `pu-geo features {project} --use {result['name']}` uses them from now on; now {result['in_use']} is used."
    )


@screen.verb("inspect", "*.tif *.geojson --json")
def inspect(
    files: Annotated[list[str], typer.Argument(metavar="FILE...", show_default=False)], *, as_json: Json = False
) -> None:
    """Check whether files can be used. Ends with exit code 2 if one is missing."""
    from pu_geo.geo.readers.in_child import inspect_file

    is_any_missing = False
    for path in files:
        answer = inspect_file(path)
        is_any_missing = is_any_missing or answer["kind"] == "missing"
        about = answer["problem"] if not answer["ok"] else f"usable {answer['kind']}{'.' if answer['hint'] else ''}"
        words = f"{path}: {about} {answer['hint']}".rstrip()
        show(answer, words, as_json)
        sys.stdout.flush()
    if is_any_missing:
        raise typer.Exit(2)
