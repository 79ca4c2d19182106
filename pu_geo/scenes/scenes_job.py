"""Add pre and post scenes to a project, one by one or as an xBD folder, and build the map tiles that the browser shows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import chain, count
from pathlib import Path

from pu_geo.errors import ImageryError, JobCancelled, printable
from pu_geo.files import move_path, remove_path
from pu_geo.geo import local_space
from pu_geo.geo.raster import quicklooks, reading
from pu_geo.geo.raster.mosaic import FILLS, Mosaic
from pu_geo.geo.raster.placement import at_places_of, check_overlap, check_ratio, coarse_words, project_grid
from pu_geo.geo.readers import in_child, xbd_folder
from pu_geo.geo.vector.sites import sites_under
from pu_geo.records import BandTriple, Grid, Role, Scene, reads_alike
from pu_geo.scenes import scene_files, scene_pair
from pu_geo.scenes.footprints_job import store_footprints
from pu_geo.store import contents, store
from pu_geo.store.job import Job, Part
from pu_geo.store.layout import Layout, write_json
from pu_geo.wording import listed

_MOST_NOTES = 5
_MOST_OF_NAME = 80  # characters of a file's or a folder's name in a scene's id


def add_scenes(
    job: Job, *, pre: Sequence[str], post: Sequence[str], bands: Sequence[int] | None = None, crs: str | None = None,
    pixel_m: float | None = None, kept: Sequence[Scene] = (), like: Sequence[Scene] = (), before: Grid | None = None,
) -> dict[str, object]:  # fmt: skip
    """Check scenes, put them on the project grid, store them, and make quicklooks.

    Args:
        pre, post: paths of images; several of one date form a mosaic. A file that is here already is left as it is.
        bands: which of their bands are red, green and blue, from 1; chosen by what the files say, or else as in scenes that
            are here, if None.
        crs: of pictures with a world file that name none, "EPSG:n" or WKT.
        pixel_m: side of a pixel of the post picture on the ground, meters (of the pre picture where it comes alone), for
            pictures to be used without a place; see `local_space`.
        kept: scenes of another project, read here as they are there; their files were checked.
        like: other scenes that tell how files are read which do not say so themselves, after those that are here.
        before: grid of the same event in another project, whose sites keep their names and divisions where this one has
            none.

    Returns:
        {"added": ids, "width", "height", "gsd_m", "crs", "sites": names, "is_local": whether the project has no place on the
        Earth, "pre_share": share of the post scenes' pixels that pre scenes show or None, "notes": which files were here
        already}

    Raises:
        ImageryError: if a file cannot be used, pre and post do not overlap, or the file of a scene that is here already is
            missing or changed: the map is drawn anew from all of them.
    """
    everything = scene_files.require(
        job.layout,
        store.call(job.layout, contents.all_scenes),
        report=Part(job, 0.0, 0.02).report,
        is_cancelled=job.is_cancelled,
    )
    known = [scene for scene in everything if scene.role != "layer"]
    rgb = rgb_of(bands)
    new: list[Scene] = []
    here = [*known, *kept]
    notes: list[str] = []
    wanted: list[tuple[Role, str]] = [("pre", path) for path in pre] + [("post", path) for path in post]
    described = in_child.describe_each([path for _, path in wanted], bands=rgb, crs=crs, pixel_m=pixel_m)
    found = []
    for i, (role, path) in enumerate(wanted):
        job.report(0.2 * i / len(wanted), f"checking {path}")
        found.append(replace(next(described), role=role))
    found = with_ids(reading.with_bands(found, [*here, *like]), [*everything, *kept], job.layout)
    for scene in found:
        same = next((other for other in here + new if (other.role, other.sha256) == (scene.role, scene.sha256)), None)
        if same is None:
            new.append(scene)
        else:
            other = f" It would be read in another way: replace {same.scene_id} by it." * (not reads_alike(scene, same))
            notes.append(f"{scene.scene_id} was not added: it has the same content as {same.scene_id}.{other}")
    new = local_space.laid_over(here, new)
    scenes = here + new
    former, shown = store.call(job.layout, contents.any_grid), [scene for scene in scenes if scene.role == "post"]
    if former is None and before is not None:
        former = at_places_of(before, shown)
    grid = new_grid(job.layout, shown, former)
    notes += joined_words(former, grid)
    made = drawn(job, here, new, grid)
    scenes, notes = made.scenes, [*made.notes, *notes]
    added = scenes[len(known) :]
    with store.connect(job.layout) as db:
        exchange_folder(made.folder, job.layout.quicklooks)
        with store.transaction(db):
            contents.set_stretch(db, [scene for scene in scenes[: len(known)] if scene not in known])
            contents.add_scenes(db, added, grid, made.pre_share)
    return {
        "added": [scene.scene_id for scene in added],
        **{name: getattr(grid, name) for name in ("width", "height", "gsd_m", "crs")},
        "sites": [site.name for site in grid.parts],
        "is_local": not grid.has_place,
        "pre_share": made.pre_share,
        "notes": few(notes),
    }


def new_grid(layout: Layout, post: Sequence[Scene], former: Grid | None) -> Grid:
    """Return the grid of post scenes; footprints keep the project's coordinate system. Raises as `project_grid`."""
    n = store.call(layout, contents.count_footprints)
    return project_grid(post, former, former.crs if former and n else "")


def joined_words(former: Grid | None, grid: Grid) -> list[str]:
    """Return which sites are one since, in sentences."""
    site_of = {scene: site.name for site in grid.parts for scene in site.scenes}
    words = []
    for site in former.parts if former else ():
        now = sorted({site_of[scene] for scene in site.scenes if scene in site_of} - {site.name})
        words += [f"{site.name} is a part of {name} now: scenes between them join them." for name in now]
    return words


def few(notes: Sequence[str]) -> list[str]:
    """Return the first of many notes, and how many more there are."""
    return [*notes] if len(notes) <= _MOST_NOTES else [*notes[:_MOST_NOTES], f"And {len(notes) - _MOST_NOTES} more."]


def with_ids(new: Sequence[Scene], here: Sequence[Scene], layout: Layout) -> list[Scene]:
    """Return new scenes with ids that no scene has, whatever their order: the name of a file without its ending.

    Where several share one, the folder's name stands before it, unless the project made that folder; else a number after it.
    """
    names, taken = [_names(layout, scene) for scene in new], {scene.scene_id for scene in here}
    times, ids = Counter(name for own in names for name in own), dict[int, str]()
    for i in sorted(range(len(new)), key=lambda i: (new[i].path, new[i].role)):
        free = chain((name for name in names[i] if times[name] == 1), (f"{names[i][-1]}-{n}" for n in count(1)))
        ids[i] = next(name for name in free if name not in taken)
        taken.add(ids[i])
    return [replace(scene, scene_id=ids[i]) for i, scene in enumerate(new)]


def _names(layout: Layout, scene: Scene) -> list[str]:
    """Return what a scene can be called, without signs that are not seen; the first of them that is free is best."""
    path = Path(scene.path)
    stem = printable(path.stem, _MOST_OF_NAME)
    folder = printable(path.parent.name, _MOST_OF_NAME)
    return [stem] if path.is_relative_to(layout.folder) else [stem, f"{folder}/{stem}"]


@dataclass(frozen=True)
class Drawn:
    """What is made of scenes before they are stored.

    Attributes:
        scenes: known and new ones as they are read.
        folder: of the map tiles.
        pre_share: share of the post scenes' pixels that pre scenes show, 0..1; None without pre scenes.
        notes: what to know about them, in sentences.
    """

    scenes: list[Scene]
    folder: Path
    pre_share: float | None
    notes: list[str]


def drawn(job: Job, known: Sequence[Scene], new: Sequence[Scene], grid: Grid, *, order: Sequence[str] = ()) -> Drawn:
    """Stretch new scenes and make tile pyramids of both dates and of all layers for one grid, in a folder beside the one in
    use.

    A scene whose damage shows only when all of it is read is refused here, before anything was stored.

    Args:
        order: ids of all scenes as they lie over one another, where a new one takes a place among the others, and no chips
            are left that a new stretch would make out of date.

    Raises:
        ImageryError: if pre and post scenes do not overlap, or a file cannot be decoded.
    """
    of_role = {role: [scene for scene in (*known, *new) if scene.role == role] for role in ("post", "pre")}
    pre_share = check_overlap(of_role["pre"], of_role["post"], grid) if of_role["pre"] else None
    fresh = job.layout.quicklooks.with_name("quicklooks.new")
    remove_path(fresh)
    for scene in (*known, *new):
        for site in sites_under(scene, grid):
            check_ratio(scene, site)
    new = [reading.with_datum(scene, grid) for scene in new]
    scenes, odd = reading.with_stretch(known, new, grid, fresh / FILLS, job.is_cancelled, anew=bool(order))
    if order:
        scenes.sort(key=lambda scene: order.index(scene.scene_id))
    notes = [words for scene in new for site in sites_under(scene, grid)[:1] if (words := coarse_words(scene, site))]
    of_role = {role: [scene for scene in scenes if scene.role == role] for role in ("post", "pre")}
    wanted = [(fresh / role, f"the {role} scenes", some) for role, some in of_role.items() if some]
    wanted += [
        (
            fresh / job.layout.layer_tiles(layer.name).relative_to(job.layout.quicklooks),
            f"layer {layer.name}",
            shown_bands(layer.scenes),
        )
        for layer in store.call(job.layout, contents.layers)
    ]
    for i, (folder, words, some) in enumerate(wanted):
        report = job.part(0.2 + 0.8 * i / len(wanted), 0.2 + 0.8 * (i + 1) / len(wanted), f"map tiles of {words}")
        with Mosaic(some, grid, fills=fresh / FILLS) as mosaic:
            quicklooks.build_pyramid(mosaic, folder, report=report, is_cancelled=job.is_cancelled)
        job.stop_if_cancelled()
    pictures = reading.coarse_pictures(fresh)
    write_json(fresh / scene_pair.COLORS, reading.color_doubts(pictures, are_named=not any(map(reading.is_guess, scenes))))
    known_doubts = scene_pair.doubts(known, job.layout.quicklooks)
    doubts = [words for about, words in scene_pair.doubts(scenes, fresh) if (about, words) not in known_doubts]
    return Drawn(scenes, fresh, pre_share and min(pre_share, reading.cover(pictures)), [*odd, *notes, *doubts])


def rgb_of(bands: Sequence[int] | None) -> BandTriple | None:
    """Return bands as they were chosen. Raises ImageryError unless they are three."""
    if bands is None:
        return None
    if len(bands) != 3:
        raise ImageryError(f"{len(bands)} bands were chosen; red, green and blue are three.", "Write, for example, 3,2,1.")
    return bands[0], bands[1], bands[2]


def shown_bands(scenes: Sequence[Scene]) -> list[Scene]:
    """Return files of a layer with the bands that its map tiles show: the first three as red, green and blue, else the
    first.
    """
    n = 3 if len(scenes[0].rgb) >= 3 else 1
    return [replace(scene, rgb=scene.rgb[:n], stretch=(scene.stretch or ())[:n]) for scene in scenes]


def exchange_folder(fresh: Path, used: Path) -> None:
    """Exchange the folder in use for a new one; by two renames, so that hardly a moment is between."""
    old = used.with_name(f"{used.name}.old")
    remove_path(old)
    if used.exists():
        move_path(used, old)
    move_path(fresh, used)
    remove_path(old)


# An xBD folder


def add_xbd(job: Job, *, folder: str, chosen: str = "") -> dict[str, object]:
    """Add the pictures of an xBD folder as scenes, placed by their labels, and the buildings of its post labels.

    A building's damage in the labels becomes its attribute `damage`; it is never a label or a click.

    Args:
        folder: holds images/ and labels/, or the pictures with their labels beside them, or such folders.
        chosen: how the names of the wanted pictures begin, or a pattern of them with * or ?; all if empty.

    Returns:
        What `add_scenes` does, and {"n_pictures", "n_left_out": those that could not be placed, "notes", "footprints": as
        `store_footprints`}; n_pictures = added + here already + n_left_out.

    Raises:
        ImageryError: if there is no such picture, none can be placed, or they are too far from each other for one project.
        FootprintError: if the labels hold no usable building.
    """
    job.report(0.0, f"looking through {folder}")
    found = xbd_folder.choose_xbd(Path(folder), chosen)
    n_pictures = len(found.pre) + len(found.post)

    def before_each(number: int) -> None:
        if job.is_cancelled():
            raise JobCancelled
        job.report(0.15 * number / n_pictures, f"placing {n_pictures} pictures by their labels")

    kept, left_out = xbd_folder.placed_xbd(found, before_each)
    scenes = add_scenes(Part(job, 0.15, 0.9), pre=[str(path) for path in kept.pre], post=[str(path) for path in kept.post])
    grid = store.call(job.layout, contents.grid)
    table = in_child.read_xbd_footprints(kept.labels, f"the labels of {Path(folder).name}", grid)
    words = (
        f"{len(left_out)} pictures were left out, since their labels hold too few buildings, or fit too badly, to place "
        f"them: {listed(left_out)}."
    )
    return {
        **scenes,
        "n_pictures": n_pictures,
        "n_left_out": len(left_out),
        "notes": [*scenes["notes"], *([words] if left_out else [])],  # type: ignore[misc]
        "footprints": store_footprints(Part(job, 0.9, 1.0), table, grid, f"labels of {Path(folder).name}"),
    }
