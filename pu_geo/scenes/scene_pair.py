"""Whether a scene pair is usable: cover, pixels, dates, shift, no data, clouds; and what was repaired."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

import numpy as np
import shapely
from numpy.typing import NDArray

from pu_geo.analysis import assessability
from pu_geo.geo.vector.sites import area_px, sites_under
from pu_geo.records import Grid, Scene
from pu_geo.store import alignment, contents, freshness, labels, store
from pu_geo.store.alignment import Alignment
from pu_geo.store.layout import Layout, read_json
from pu_geo.wording import listed, percent, plural, short_crs, when

LEAST_COVER = 0.95
MOST_GSD_M, MOST_RATIO = 1.0, 2.0
MOST_FAILED, MOST_HIDDEN = 0.1, 0.1
FARTHEST_M = 20.0  # as `geo.alignment.FAR_REACH_M`, which loads too much for a screen
COLORS = "colors.json"  # beside the map tiles: sentences of `geo.raster.reading.color_doubts`
BLURRED, BLURRIER = 0.9, 0.5  # sharpness of a file, and in parts of the other date's, below which it is said
_LIKE_PIXEL = 1.25  # pixels that are so much larger show less anyhow
_FINE_M = 0.2  # finer ones show small damage even if blurred
_SAME = 0.005  # pixel sizes that differ by less are called the same
_MOVED_M = 0.05
UNCHANGED = "unchanged"
RANK_WITHOUT_PRE = "Add the missing pre scenes, or cut chips of post alone, which rank these buildings, too."
KINDS = "Kinds of scenes"
MISALIGNMENT = "Pre/post misalignment (median / 95th percentile)"


_LACKS = "Add footprints for {}, or nothing is mapped there."


@dataclass(frozen=True)
class PairIssue:
    """One thing to know about a pair: heading, figure, what to do about it ("" if it is fine), and what it means."""

    name: str
    value: str
    worry: str = ""
    words: str = ""


_NO_PLACE = PairIssue(
    "Place on the Earth", "none",
    "Distances and areas rest on the pixel size that you entered, and the map cannot be overlaid on others.",
)  # fmt: skip


@dataclass(frozen=True)
class Pair:
    """What there is to know about the scenes of a project.

    Attributes:
        checks: figures and worries; none without a post scene.
        shift: what alignment does to the pre scenes, in words; "" where it is not known, or not any more.
        stale: why the newest chips should be cut again; "" if there are none or they are up to date.
        bare: ids of the post scenes that show no building.
    """

    checks: Sequence[PairIssue]
    shift: str
    stale: str
    bare: Sequence[str] = ()


def judge(layout: Layout, chips: Mapping[str, Any] | None) -> Pair:
    """Judge the scenes of a project; what cannot be known yet is left out.

    Args:
        chips: facts of the newest chip set.
    """
    with store.connect(layout) as db:
        scenes, share, ids = contents.scenes(db), contents.pre_share(db), contents.building_ids(db)
        pre, post = ([scene for scene in scenes if scene.role == role] for role in ("pre", "post"))
        if not post:
            return Pair([], "", "")
        grid, version = contents.grid(db), contents.geometry_v(db)
    bare = _bare(layout, version, tuple(post), grid)
    shifts = alignment.load(layout, ids, scenes) if pre and ids else None
    found = [
        *([_cover(share, chips)] if pre and share is not None else []),
        _pixels(pre, post),
        *(
            [PairIssue("Scenes without buildings", f"{len(bare)} of {len(post)}", _LACKS.format(listed(bare)))]
            * bool(bare and ids)
        ),
        *_doubts(scenes, layout.quicklooks),
        _dates(pre, post),
        *_exchanged(pre, post),
        *([] if grid.has_place else [_NO_PLACE]),
        *([] if shifts is None else _shifts(shifts)),
        *([] if chips is None else _hidden_parts(layout, chips)),
    ]
    return Pair(found, "" if shifts is None else _shift_words(shifts), freshness.of_chips(layout).words, bare)


Step = Literal["scenes", "footprints", "align", "chips", "done"]


def next_step(layout: Layout, pair: Pair, chips: Mapping[str, Any] | None) -> Step:
    """Return what the Imagery screen needs next: footprints until each post scene has some, or chips are cut without them;
    "chips" also where the newest ones are out of date.
    """
    with store.connect(layout) as db:
        roles, n_buildings = {scene.role for scene in contents.scenes(db)}, contents.count_footprints(db)
    if "post" not in roles:
        return "scenes"
    if not n_buildings or (chips is None and pair.bare):
        return "footprints"
    if chips is None and "pre" in roles and not pair.shift:
        return "align"
    return "chips" if chips is None or pair.stale else "done"


@lru_cache(maxsize=16)
def _bare(layout: Layout, version: str, post: tuple[Scene, ...], grid: Grid) -> tuple[str, ...]:
    """Return ids of the post scenes in which no building has its middle; `version` changes with the footprints."""
    with store.connect(layout) as db:
        places = shapely.points(contents.centers_px(db, contents.building_ids(db)))
    shown, _ = shapely.STRtree(places).query([area_px([scene], grid) for scene in post], "contains")
    return tuple(scene.scene_id for i, scene in enumerate(post) if i not in shown)


def kinds(layout: Layout, chips: Mapping[str, Any]) -> list[PairIssue]:
    """Return how many kinds of post scenes a chip set has, where there are several: those in which nobody marked damage, in
    answers that are learned from, are a worry.
    """
    scenes, known = dict[int, set[str]](), set[int]()
    if len(set(chips.get("sensor_group") or ())) < 2:
        return []
    taught = store.call(layout, labels.pu_set, ids=chips["building_ids"]).is_positive
    for kind, scene, is_damaged in zip(chips["sensor_group"], chips["post_scene"], taught, strict=True):
        scenes.setdefault(kind, set()).update([scene] if scene else [])
        known.update([kind] if is_damaged else [])
    names = "; ".join(
        f"({i}) {listed(sorted(scenes[kind]))}" for i, kind in enumerate(sorted(scenes), 1) if kind not in known
    )
    worry = (
        "Haze, colors or sharpness set them apart, so scores learned in one say little in another. Mark damaged buildings "
        f"in each kind; one without any is not assessed: {names}."
    )
    return [PairIssue(KINDS, str(len(scenes)), worry if names else "")]


def _hidden_parts(layout: Layout, chips: Mapping[str, Any]) -> list[PairIssue]:
    parts = assessability.hidden_parts(chips, "post")
    return [
        *kinds(layout, chips),
        _hidden(parts[:, :2].sum(axis=1), "No data", "where no post scene has data"),
        _hidden(parts[:, 2], "Clouds", "where clouds lie over it"),
    ]


def _cover(share: float, chips: Mapping[str, Any] | None) -> PairIssue:
    """Return how much the pre scenes cover: of the buildings, or of the post scenes' area before there are chips."""
    lacks = None if chips is None or assessability.hidden_share(chips, "pre") is None else assessability.lacks_pre(chips)
    if lacks is None or not len(lacks):
        worry = "Add the missing pre scenes." if share < LEAST_COVER else ""
        return PairIssue("Pre covers post", percent(share), worry)
    n_shown = int((~lacks).sum())
    worry = str(chips.get("bands_why") or "") if chips else ""
    if not worry and n_shown < len(lacks):
        worry = f"{plural(len(lacks) - n_shown, 'building')} without a pre image: not assessed. {RANK_WITHOUT_PRE}"
    return PairIssue("Pre shows buildings", f"{n_shown:,} of {len(lacks):,}", worry)


def _pixels(pre: Sequence[Scene], post: Sequence[Scene]) -> PairIssue:
    before, after = (max((scene.gsd_m for scene in scenes), default=None) for scenes in (pre, post))
    assert after is not None  # there is a post scene
    value = f"{after:.2f} m" if before is None else f"{before:.2f} / {after:.2f} m"
    worry = ""
    if after > MOST_GSD_M:
        worry = f"Post has pixels of {after:.2f} m: a house is only a few of them, so small damage cannot be seen."
    elif before is not None and before / after > MOST_RATIO:
        worry = "Pre is much coarser than post: choose chips of post alone if pre shows too little."
    return PairIssue("Pixel size" if before is None else "Pixel size, pre / post", value, worry)


def assumed(scenes: Sequence[Scene]) -> list[tuple[str, str]]:
    """Return what was assumed of scenes where their files do not say: what it is about, and a sentence for all files of
    which the same was.
    """
    names: dict[tuple[str, str], list[str]] = {}
    for scene in scenes:
        for note in scene.notes:
            names.setdefault(note, []).append(Path(scene.path).name)
    return [(about, f"{listed(files)}: {words}") for (about, words), files in names.items()]


def doubts(scenes: Sequence[Scene], folder: Path) -> list[tuple[str, str]]:
    """Return what was assumed of scenes and what speaks against them as a pair: what it is about, and a sentence.

    Args:
        folder: of their map tiles.
    """
    pre, post = ([scene for scene in scenes if scene.role == role] for role in ("pre", "post"))
    path = folder / COLORS
    found = [("colors", words) for words in read_json(path)] if path.is_file() else []
    found += [("sharpness", words) for words in blurred(scenes).values()]
    found += [("dates", words) for words in (_late(pre, post),) if words]
    for one in pre:
        found += [
            ("pictures", f"Scenes {one.scene_id} and {other.scene_id} are one and the same picture: it shows no change.")
            for other in post
            if other.sha256 and other.sha256 == one.sha256
        ]
    return [*found, *assumed(scenes)]


def doubts_of(layout: Layout) -> list[str]:
    """Return what was assumed of a project's scenes and what speaks against them, in sentences."""
    return [words for _, words in doubts(store.call(layout, contents.scenes), layout.quicklooks)]


def _late(pre: Sequence[Scene], post: Sequence[Scene]) -> str:
    before, after = ([scene.date[:10] for scene in scenes if scene.date] for scenes in (pre, post))
    if not before or not after or max(before) <= min(after):
        return ""
    return (
        f"A pre-event scene is dated {when(max(before))}, after a post-event one, {when(min(after))}. Check whether they "
        "were swapped; dates "
        "can be changed in the table of scenes."
    )


def blurred(scenes: Sequence[Scene]) -> dict[str, str]:
    """Return which pre and post scenes are blurred, in themselves or beside the other date, in a sentence by scene id."""
    found = {}
    for scene in scenes:
        own, name = scene.sharpness, scene.scene_id
        if own is None:
            continue
        others = [
            one.sharpness
            for one in scenes
            if one.role != scene.role and one.sharpness is not None and scene.gsd_m < _LIKE_PIXEL * one.gsd_m
        ]
        usual = float(np.median(others)) if others else 0.0
        if own < BLURRIER * usual:
            found[scene.scene_id] = (
                f"Scene {name} is much blurrier than the other date (sharpness {own:.1f} against {usual:.1f}): edges "
                "that are sharp in one date alone look like change. Use another picture if there is one."
            )
        elif own < BLURRED and scene.gsd_m > _FINE_M:
            found[scene.scene_id] = (
                f"Scene {name} is blurred (sharpness {own:.1f}): it shows less than its pixels of {scene.gsd_m:.2f} m "
                "promise, so small damage cannot be seen."
            )
    return found


def _doubts(scenes: Sequence[Scene], folder: Path) -> list[PairIssue]:
    """Return a row for each thing that is in doubt, the first sentence and how many more there are."""
    by: dict[str, list[str]] = {}
    for about, words in doubts(scenes, folder):
        if about != "dates":  # which have a row of their own
            by.setdefault(about, []).append(words)
    return [PairIssue(about.capitalize(), "in doubt", " ".join(words)) for about, words in by.items()]


def _dates(pre: Sequence[Scene], post: Sequence[Scene]) -> PairIssue:
    before, after = (sorted({scene.date[:10] for scene in scenes if scene.date}) for scenes in (pre, post))
    value = " / ".join(
        f"{when(dates[0])}{' …' * (len(dates) > 1)}" if dates else "unknown"
        for dates in ([before, after] if pre else [after])
    )
    worry = _late(pre, post)
    words = "" if after else "The files hold no date. Write it into the table of scenes; exports include it."
    return PairIssue("Dates, pre / post" if pre else "Date", value, worry, words)


def _exchanged(pre: Sequence[Scene], post: Sequence[Scene]) -> list[PairIssue]:
    """Return a worry where the files' own names hint that before and after were exchanged."""

    def names(scene: Scene, role: str) -> bool:
        return re.search(rf"(?<![a-z]){role}(?![a-z])", Path(scene.path).stem.lower()) is not None

    odd = [Path(scene.path).name for scenes, other in ((pre, "post"), (post, "pre")) for scene in scenes
           if names(scene, other) and not names(scene, scene.role)]  # fmt: skip
    worry = "Check whether pre and post were swapped. If so, start a new project with them the other way round."
    return [PairIssue("File names", odd[0], worry)] if odd else []


def _shifts(found: Alignment) -> list[PairIssue]:
    known = found.has_data & (found.quality > 0)
    half, most = np.percentile(np.hypot(found.dx_m, found.dy_m)[known], [50, 95]) if known.any() else (0.0, 0.0)
    words = (
        f"At half of the buildings pre and post are less than {half:.1f} m out of line, at 95 % less than {most:.1f} m. "
        "Chips are cut with the measured shift of each building, which corrects it."
    )
    n, n_failed, n_all = int(found.has_data.sum()), int(found.is_misaligned.sum()), len(found.has_data)
    is_many = n_failed > MOST_FAILED * max(n, 1)
    without = (
        f" The other {n_all - n:,} of {n_all:,} buildings are too close to an edge or a gap to be measured."
        if n < n_all
        else ""
    )
    return [
        PairIssue(MISALIGNMENT, f"{half:.1f} / {most:.1f} m" if known.any() else "not known", "", words),
        PairIssue(
            "Not aligned",
            f"{n_failed:,} of {n:,}",
            "Check these by eye, or mark them not assessable (misaligned)." if is_many else "",
            f"Buildings where no shift within {FARTHEST_M:g} m fits reliably, and the neighbors give none either; of the "
            f"{n:,} buildings with imagery around them in both dates.{without}",
        ),
    ]


def _hidden(values: NDArray[np.float64], name: str, where: str) -> PairIssue:
    n_most = int((values > assessability.MOST_HIDDEN).sum())
    worry = f"{n_most:,} buildings cannot be judged, {where}." if n_most > MOST_HIDDEN * len(values) else ""
    words = (
        f"{int((values > 0).sum()):,} footprints reach {where}; {n_most:,} by more than "
        f"{percent(assessability.MOST_HIDDEN)}."
    )
    return PairIssue(f"{name} in footprints", percent(float(values.mean())) if len(values) else "0 %", worry, words)


def repairs(scenes: Sequence[Scene], grid: Grid | None) -> dict[str, str]:
    """Return what is done to each scene as it is read, by scene id; `UNCHANGED` where nothing is."""
    return {scene.scene_id: "; ".join(_repair(scene, grid)) or UNCHANGED for scene in scenes}


def _repair(scene: Scene, grid: Grid | None) -> list[str]:
    done = []
    grid = next(iter(sites_under(scene, grid)), grid.parts[0]) if grid is not None and grid.sites else grid
    if grid is not None and scene.crs != grid.crs:
        done.append(f"reprojected from {short_crs(scene.crs)} to {short_crs(grid.crs)}")
    if grid is not None and abs(scene.gsd_m / grid.gsd_m - 1) > _SAME:
        done.append(f"resampled from {scene.gsd_m:.2f} to {grid.gsd_m:.2f} m")
    _, b, _, d, e, _ = scene.transform
    if b or d:
        done.append("rotated to north-up")
    elif e > 0:
        done.append("flipped (it was south-up)")
    if scene.stretch is not None:
        ranges = " · ".join(f"{low:g}–{high:g}" for low, high in scene.stretch)
        done.append(f"{scene.dtype} stretched to 0–255 from {ranges}")
    if scene.place:
        done.append(scene.place if scene.crs.startswith("ENGCRS[") else f"placed by {scene.place.partition(' (')[0]}")
    return done


def _shift_words(found: Alignment) -> str:
    ways = [_way(*shift) for shift in found.scene_m.tolist()]
    if len(ways) > 1:
        moved = "; ".join(f"in {site} {way or 'not'}" for site, way in zip(found.sites, ways, strict=True))
        return f"pre is moved {moved} (medians); each building is corrected on its own"
    moved = f"pre is moved {ways[0]} (median)" if ways[0] else "no overall shift"
    return f"{moved}; each building is corrected on its own"


def _way(east: float, north: float) -> str:
    if np.hypot(east, north) < _MOVED_M:
        return ""
    ways = [
        f"{abs(size):.1f} m to the {way}"
        for size, way in ((east, "east" if east > 0 else "west"), (north, "north" if north > 0 else "south"))
        if abs(size) >= _MOVED_M
    ]
    return " and ".join(ways)


def set_dates(layout: Layout, dates: Mapping[str, date | None]) -> None:
    """Change the dates of scenes, given by id. Raises ProjectError if a scene is not in the project."""
    store.call(
        layout, contents.set_dates, {scene_id: None if day is None else day.isoformat() for scene_id, day in dates.items()}
    )
