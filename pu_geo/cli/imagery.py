"""Verbs of the Imagery screen: scenes, footprints, grid, area of interest, alignment, chips, and files on their own."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Annotated, Any

import typer

from pu_geo.cli.drawn import draw
from pu_geo.cli.project import repair
from pu_geo.cli.run import Json, Project, Screen, run_job, show
from pu_geo.lifecycle import projects
from pu_geo.scenes import features, layers, preparation, scene_pair, sites
from pu_geo.scenes.actions import (
    AddAoi,
    AddFeatures,
    AddFootprints,
    AddGrid,
    AddLayer,
    AddScenes,
    AddXbd,
    Align,
    Chip,
    PutInSite,
    Relink,
)
from pu_geo.store.layout import Layout
from pu_geo.wording import percent, plural

screen = Screen("Imagery")
_NO_CHIPS = "There are no chips yet, so there are no features: cut them with `pu-geo chip`."


@draw(screen, "add-scene", AddScenes, "joplin.pugeo --pre pre.tif --post post.tif")
def _scene_words(layout: Layout, result: Mapping[str, Any]) -> str:
    words = f"Added {', '.join(result['added']) or 'nothing new'}"
    system = "local coordinates, without a place on the Earth" if result["is_local"] else result["crs"]
    covered = result["pre_share"]
    partial = "" if covered is None or covered > 0.999 else f"\nPre scenes cover {covered:.0%} of the post scenes."
    where = f"grid {result['width']} x {result['height']} px of {result['gsd_m']:.3f} m in {system}"
    if len(result["sites"]) > 1:
        where = f"{len(result['sites'])} sites, each with a grid of its own: {', '.join(result['sites'])}"
    return "\n".join([f"{words}; {where}.{partial}", *result["notes"]])


@screen.verb("sites", "matthew.pugeo", "matthew.pugeo 'Site 2' --name Jeremie", "matthew.pugeo 201.tif 202.tif --name West")
def list_sites(
    project: Project,
    what: Annotated[list[str] | None, typer.Argument(help="names of sites or post scenes")] = None,
    *,
    name: Annotated[str, typer.Option(help="what these become: a new site, or one that is here")] = "",
    as_json: Json = False,
) -> None:
    """List the sites of an event, each with a grid of its own; with --name, name one, join several, or divide one."""
    layout = projects.find(project)
    if what or name:
        run_job(layout, PutInSite(what or [], name), as_json)
    found = sites.sites(layout)
    names = ("name", "pre", "post", "n_buildings", "lacks")
    facts = [{each: getattr(one, each) for each in names} for one in found]
    words = [*(f"{one.name}: {one.words} ({', '.join(one.post)})" for one in found), *sites.lacking_words(found)]
    show({"sites": facts}, "\n".join(words) or "There is no post-event scene yet, so there is no site.", as_json)


@draw(screen, "add-xbd", AddXbd, "joplin.pugeo xbd/train --choose joplin-tornado")
def _xbd_words(layout: Layout, result: Mapping[str, Any]) -> str:
    words = f"Added {len(result['added'])} scenes of {result['n_pictures']} pictures; {result['n_left_out']} were left out."
    return "\n".join([words, *result["notes"], _footprint_words(layout, result["footprints"])])


@draw(
    screen,
    "add-layer",
    AddLayer,
    "joplin.pugeo --name sar-post --when post --kind sar-db vv_vh.tif",
    "joplin.pugeo --name height --when none --kind elevation tiles/*.tif --nodata=-9999",
)
def _layer_words(layout: Layout, result: Mapping[str, Any]) -> str:
    words = (
        f"Layer {result['name']} has {plural(result['n_files'], 'file')} of {plural(result['bands'], 'band')}, "
        f"{layers.WHEN_WORDS[result['when']]}; it covers {percent(result['share'])} of the post scenes. "
        f"Samples from {result['scaling_words']}."
    )
    again = ["Cut chips again to use it."] if result["added"] else []
    return "\n".join([words, *result["notes"], *again])


@screen.verb("layers", "joplin.pugeo", "joplin.pugeo --json")
def list_layers(project: Project, *, as_json: Json = False) -> None:
    """List the layers beside pre and post: scaling, what one of 256 steps means, and which buildings lack them."""
    found = layers.rows(projects.find(project))
    words = (
        "\n".join(row["words"] for row in found) or "There are no layers beside pre and post: `pu-geo add-layer` adds one."
    )
    show({"layers": found}, words, as_json)


@draw(
    repair,
    "relink",
    Relink,
    "joplin.pugeo /old/imagery /new/imagery",
    "joplin.pugeo /old/post.tif /new/post.tif",
    "joplin.pugeo post.tif /new/post.tif",
)
def _relinked_words(layout: Layout, result: Mapping[str, Any]) -> str:
    lines = [f"{one['scene_id']}: {one['old']} is now {one['new']}" for one in result["relinked"]]
    return "\n".join([*lines, f"Found {plural(len(lines), 'scene file')}; each is the one that was added."])


@draw(screen, "add-footprints", AddFootprints, "joplin.pugeo houses.geojson", "joplin.pugeo */buildings.geojson")
def _footprints_words(layout: Layout, result: Mapping[str, Any]) -> str:
    return "\n".join(_footprint_words(layout, one) for one in result["files"])


@draw(screen, "add-grid", AddGrid, "joplin.pugeo --size-m 30")
def _footprint_words(layout: Layout, result: Mapping[str, Any]) -> str:
    """Return the account of one file: what went in, what became of it, and why."""
    reasons = ", ".join(f"{n} {reason}" for reason, n in result["dropped_by"].items())
    account = f"{result['n_in']} in = {result['kept']} kept + {result['repaired']} repaired + {result['dropped']} dropped"
    return "\n".join([f"{result['file']}: {account}{f' ({reasons})' if reasons else ''}.", *result["notes"]])


@draw(screen, "add-aoi", AddAoi, "joplin.pugeo aoi.geojson", "joplin.pugeo --text=-94.53,37.04,-94.47,37.09")
def _aoi_words(layout: Layout, result: Mapping[str, Any]) -> str:
    return "\n".join([preparation.aoi_words(result), *result["notes"]])


@screen.verb("remove-aoi", "joplin.pugeo", "joplin.pugeo --undo")
def remove_aoi(
    project: Project,
    *,
    undo: Annotated[bool, typer.Option("--undo", help="restore the area that was removed or replaced last")] = False,
    as_json: Json = False,
) -> None:
    """Remove the area of interest; nothing else changes."""
    layout = projects.find(project)
    if undo:
        found = preparation.put_back_aoi(layout)
        source = None if found is None else found.source
        show({"source": source}, f"{source} is the area of interest again." if source else "There was none before.", as_json)
        return
    was_there = preparation.remove_aoi(layout)
    words = "The area of interest was removed; footprints stay. --undo restores it."
    show({"removed": was_there}, words if was_there else "There is no area of interest.", as_json)


@draw(screen, "align", Align, "joplin.pugeo")
def _shift_words(layout: Layout, result: Mapping[str, Any]) -> str:
    grid = preparation.overview(layout).grid
    right, up = ("east", "north") if grid is None or grid.has_place else ("to the right", "up")
    several = len(result["shifts"]) > 1
    moved = [
        f"{x:+.1f} m {right} and {y:+.1f} m {up}" + f" in {site}" * several for site, (x, y) in result["shifts"].items()
    ]
    words = f"Pre must move {', '.join(moved)} to fit post (median of the buildings)"
    if result["n_failed"]:
        words += f"; {result['n_failed']} of {result['n']} could not be aligned: no shift within 20 m of that fits reliably"
    has_chips = bool(features.overview(layout).sets)
    return f"{words}. {'Cut chips again to use it.' if has_chips else 'Chips that are cut from now on use it.'}"


@draw(screen, "chip", Chip, "joplin.pugeo --align", "joplin.pugeo --cluster local:4")
def _chip_words(layout: Layout, result: Mapping[str, Any]) -> str:
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
    if "no_pre_image" in result["n_not_assessed"]:
        lines.append(scene_pair.RANK_WITHOUT_PRE)
    return "\n".join(lines)


@screen.verb("features", "joplin.pugeo", "joplin.pugeo --use rcf")
def list_features(
    project: Project,
    *,
    use: Annotated[str, typer.Option(metavar="NAME", help="use this set from now on where no other one is named")] = "",
    as_json: Json = False,
) -> None:
    """List the sets of frozen features of the newest chips, or choose the one that is used."""
    layout = projects.find(project)
    if use:
        features.choose(layout, use)
    found = features.overview(layout)
    rows = [features.as_row(one, found.in_use) for one in found.sets]
    lines = [f"{'*' if row['is_in_use'] else ' '} {row['words']}; {row['n_features']:,} features" for row in rows]
    words = "\n".join([*lines, found.note or "* is used where no other set is named."]) if rows else _NO_CHIPS
    show({"sets": rows, "in_use": found.in_use, "note": found.note}, words, as_json)


@draw(
    screen,
    "add-features",
    AddFeatures,
    "joplin.pugeo --backbone dinov2-small --licence Apache-2.0 --use",
    "joplin.pugeo layers --layers pre+post,sar-post --use",
    "joplin.pugeo shared --use",
    "joplin.pugeo layers --cluster local:4",
)
def _features_words(layout: Layout, result: Mapping[str, Any]) -> str:
    made = "was there already" if result["was_there"] else f"made in {result['seconds']:,.1f} s"
    words = (
        f"Features {result['name']}: {plural(result['n_features'], 'number')} for each of {plural(result['n'], 'chip')} "
        f"in {plural(result['n_views'], 'view')}, {made}."
    )
    words += f" {result['layers_lacking']}" if result["layers_lacking"] else ""
    words += f"\n{result['about']}."
    if result["in_use"] == result["name"]:
        return f"{words}\nThey are used from now on, where no other set is named."
    use = f"`pu-geo features {layout.folder} --use {result['name']}`"
    return f"{words}\n{use} uses them from now on; now {result['in_use']} is used."


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
