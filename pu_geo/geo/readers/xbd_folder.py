"""A folder of xBD pictures taken as one: which pictures are there, which can be placed, and whether they lie together."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from fnmatch import fnmatchcase
from pathlib import Path

import numpy as np

from pu_geo.errors import ImageryError
from pu_geo.geo.raster.placement import MAX_PIXELS
from pu_geo.geo.readers import in_child
from pu_geo.geo.readers.xbd import XbdFolder, XbdPlace, find_xbd, labels_of
from pu_geo.geo.vector import crs as systems
from pu_geo.wording import listed

MIDDLE_PX = 512  # xBD pictures are 1024 x 1024
MAX_PICTURES = 5_000
_ROLE = re.compile(r"_?(pre|post)_disaster$")
_NUMBER = re.compile(r"_\d+$")


def choose_xbd(folder: Path, chosen: str = "") -> XbdFolder:
    """List the pictures with labels of an xBD folder and of the folders in it, or some of them by their names.

    Args:
        chosen: how names begin, such as "joplin-tornado", or a pattern with * or ?; all pictures if empty.

    Raises:
        ImageryError: kind "empty" if there is no post picture with labels, "size" if there are over 5,000 of a date.
    """
    try:
        str(folder).encode()
    except UnicodeEncodeError as cause:
        raise ImageryError(f"{str(folder)!r} is no name in UTF-8.", "Rename the folder.", kind="missing") from cause
    if not folder.is_dir():
        raise ImageryError(f"{folder} is no folder.", "Choose the folder that holds images/ and labels/.", kind="missing")
    pattern = chosen if set(chosen) & set("*?[") else f"{chosen}*"
    found: list[XbdFolder] = []
    for inner in (folder, *sorted(folder.glob("*/"))):
        with suppress(ImageryError):
            found.append(find_xbd(inner))
    every = {picture: labels for part in found for picture, labels in zip(part.post, part.labels, strict=True)}
    post = {picture: labels for picture, labels in every.items() if fnmatchcase(display_name(picture), pattern)}
    pre = {picture: None for part in found for picture in part.pre if fnmatchcase(display_name(picture), pattern)}
    if not post:
        raise ImageryError(
            f"{folder.name} holds no xBD picture *_post_disaster.png with its labels .json"
            + (f" whose name begins with, or matches, {chosen!r}." if every else "."),
            _by_name(list(every)) if every else "Choose the folder that holds images/ and labels/.",
            kind="empty",
        )
    if max(len(pre), len(post)) > MAX_PICTURES:
        raise ImageryError(
            f"{folder.name} holds {len(post):,} xBD pictures; up to {MAX_PICTURES:,} fit in a project.",
            _by_name(list(post)),
            kind="size",
        )
    return XbdFolder(list(pre), list(post), list(post.values()))


def display_name(picture: Path) -> str:
    """Return the name by which people know a picture: with its folder's, where its own is no more than the date."""
    return picture.name if _ROLE.sub("", picture.stem) else f"{picture.parent.name}_{picture.name}"


def placed_xbd(found: XbdFolder, before_each: Callable[[int], None]) -> tuple[XbdFolder, list[str]]:
    """Keep the pictures that their labels can place, most often all that have two buildings, if they lie together.

    Args:
        before_each: called with the number of each picture before it is placed.

    Returns:
        The pictures that are kept, and the names of those that were left out.

    Raises:
        ImageryError: kind "geotransform" if no post picture can be placed, "size" if they are too far from each other for
            one grid.
    """
    places: dict[Path, XbdPlace] = {}
    first: ImageryError | None = None
    pictures = {picture: beside for picture in (*found.post, *found.pre) if (beside := labels_of(picture))}
    fitted = in_child.place_each(list(pictures.values()), [display_name(picture) for picture in pictures])
    for i, picture in enumerate(pictures):
        before_each(i)
        place = next(fitted)
        if isinstance(place, ImageryError):
            first = first or place
        else:
            places[picture] = place
    post = [picture for picture in found.post if picture in places]
    if not post:
        raise first or ImageryError("No picture could be placed.", "Choose another folder.", kind="geotransform")
    _check_together(post, places)
    kept = [path for picture, path in zip(found.post, found.labels, strict=True) if picture in places]
    left_out = [display_name(picture) for picture in [*found.post, *found.pre] if picture not in places]
    return XbdFolder([picture for picture in found.pre if picture in places], post, kept), left_out


def _check_together(pictures: Sequence[Path], places: dict[Path, XbdPlace]) -> None:
    """Refuse pictures so far from each other that one grid over all of them would be absurd."""
    middles = []
    for picture in pictures:
        a, b, c, d, e, f = places[picture].transform
        middle = np.array([[c + (a + b) * MIDDLE_PX, f + (d + e) * MIDDLE_PX]])
        middles.append(systems.convert(middle, places[picture].crs, systems.LONLAT)[0])
    lonlat = np.array(middles)
    center = np.median(lonlat, axis=0)
    metres = systems.convert(lonlat, systems.LONLAT, systems.equal_area(*center.tolist()))
    span_m, (a, b, _, d, e, _) = np.ptp(np.nan_to_num(metres, posinf=1e8), axis=0), places[pictures[0]].transform
    if np.prod(span_m) <= MAX_PIXELS * abs(a * e - b * d):
        return
    raise ImageryError(
        f"The pictures do not lie in one place: together they span {span_m[0] / 1000:,.0f} x {span_m[1] / 1000:,.0f} km, "
        "too much for one project.",
        _by_name(pictures),
        kind="size",
    )


def _by_name(pictures: Sequence[Path]) -> str:
    """Return how to choose some of the pictures, with the beginnings of names that there are."""
    groups = Counter(_NUMBER.sub("", _ROLE.sub("", display_name(picture).removesuffix(".png"))) for picture in pictures)
    named = listed([f"{name} ({n} pictures)" for name, n in groups.most_common()], 12)
    if len(groups) > 1:
        return f"Choose those of one place by how their names begin. Here are {named}."
    return f"Choose some by a pattern of their names, such as {named.split(' (')[0]}_0000000*."
