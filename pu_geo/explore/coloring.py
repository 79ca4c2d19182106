"""What the dots of the Explore screen can be colored by, and the values that each building has of it."""

from __future__ import annotations

import hashlib
import math
import sqlite3
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime
from functools import lru_cache
from typing import Any, Literal

import numpy as np
import shapely

from pu_geo import wording
from pu_geo.answers import ranking
from pu_geo.explore import groups, looks
from pu_geo.records import Floats, Singles
from pu_geo.store import areas, contents, decisions, discoveries, grades, labels, population, runs, store
from pu_geo.store.chosen import threshold
from pu_geo.store.layout import Layout

MOST_CATEGORIES = 12
OTHER = "other"
STEPS = ("rest", "next as many", "flagged", "upper half of flagged")
NOT_GRADED = "damaged, no grade"
AGAINST_LIVE = "Uncertainty: ranks, run against live ranking"
_MOST_ATTRIBUTES = 60
_AREA, _ATTRIBUTE = "area:", "attribute:"
_LEAST_APART = 0.02  # of all places, at which the color of most disagreement is reached
_ENDS = (1, 99)  # percentiles between which colors change; one huge building shall not gray all others
Color = Literal["labels", "categories", "numbers"]


@dataclass(frozen=True)
class Coloring:
    """Values of all buildings that dots are colored by.

    Attributes:
        by: one of the keys of `choices`.
        kind: "labels" are known to the browser already and bring no values.
        names: of the categories, by code; the last one is "other" where there are too many. Sites are never too many.
        values: float32 [M] in the order of the map's geometry: codes of categories, or numbers; NaN where there is none.
        low, high: numbers between which colors change.
        ends: how these two are written.
        v: changes with the values and the order of the footprints.
        steps: how many of the names are steps of one ramp, the least first; 0 where categories have no order.
        waits_for: score id of a live ranking that has yet to rank all buildings: there are no values until it has.
    """

    by: str
    title: str
    kind: Color
    names: Sequence[str] = ()
    values: Singles | None = None
    low: float = 0.0
    high: float = 1.0
    ends: tuple[str, str] = ("0", "1")
    v: str = "1"
    steps: int = 0
    waits_for: str = ""


def choices(layout: Layout) -> dict[str, str]:
    """Return what dots can be colored by: key -> words, the usual ones first."""
    with store.connect(layout) as db:
        layers, names = list(areas.layers(db)), contents.attribute_names(db)
        has_types, has_runs, grid = bool(discoveries.types(db)), bool(runs.all_runs(db)), contents.any_grid(db)
    found = {"place": "Place in the ranking", "label": "Answers", "cluster": "Cluster", "grade": "Grade"}
    if has_types:
        found["type"] = "Discovered type"
    if discoveries.all_facts(layout):
        found["groups"] = "Groups of the newest discovery"
    if grid is not None and grid.sites:
        found["site"] = "Site"
    if has_runs:
        found["disagreement"] = "Uncertainty: run against live ranking"
    found["size"] = "Footprint area"
    found |= {f"{_AREA}{layer}": f"Area: {layer}" for layer in layers}
    return found | {f"{_ATTRIBUTE}{name}": f"Attribute: {name}" for name in names[:_MOST_ATTRIBUTES]}


def coloring(layout: Layout, source: str, by: str) -> Coloring | None:
    """Return what the buildings have of one of `choices`; None if it is none of them, or there is no such source.

    Args:
        source: of the picture, see `looks`; the scores are those of `looks.run_of`, without a run answers are shown.
    """
    if source not in looks.sources(layout):
        return None
    run_id = looks.run_of(layout, source)
    if by == "label" or (by == "place" and not run_id):
        return Coloring(by, "Answers", "labels")
    with store.connect(layout) as db:
        place = contents.geometry_v(db)
        stamps = [place, db.execute("SELECT ifnull(max(fid), 0) FROM areas").fetchone()[0]]
        if by == "site":
            return _sites(db, place)
        if by in ("type", "groups"):
            stamps.append(decisions.last_decision(db))
        if by in ("type", "grade"):
            stamps.append(hashlib.sha256(repr(labels.moment(db)).encode()).hexdigest()[:12])
    if by == "place":
        return _in_steps(layout, run_id, threshold(layout, run_id).value, place)
    if by == "disagreement":
        return _disagreement(layout, run_id, place) if run_id else None
    if by == "groups":
        stamps += [facts["discovery"] for facts in discoveries.all_facts(layout)[:1]]
    if by == "cluster":
        v = groups.v(layout, source)
        return _clusters(layout, source, _most_clicked(layout, source), f"{place}-{v}") if v else None
    return _coloring(layout, source, by, "-".join(map(str, stamps)))


@lru_cache(maxsize=16)
def _coloring(layout: Layout, source: str, by: str, v: str) -> Coloring | None:
    words = choices(layout).get(by)
    if words is None:
        return None
    with store.connect(layout) as db:
        if by == "size":
            return _numbers(by, "Footprint area, m²", contents.areas_m2(db), v, lambda value: f"{value:,.0f}")
        if by == "grade":
            return _grades(db, words, v)
        if by == "type":
            return _categories(by, words, _types(db), v)
        if by == "groups":
            return _categories(by, words, _groups(layout, db), v)
        if by.startswith(_AREA):
            return _categories(by, words, _area_names(db, by.removeprefix(_AREA)), v)
        return of_values(by, words, contents.attribute_values(db, by.removeprefix(_ATTRIBUTE)), v)


@lru_cache(maxsize=4)
def _in_steps(layout: Layout, run_id: str, limit: float, place: str) -> Coloring:
    """Color by the place in a run's ranking, in four steps tied to the threshold, which flags n: above n/2, n, 2 n, and
    the rest.
    """
    here = population.of_run(layout, store.call(layout, runs.find, run_id))
    is_ranked = (here.why == "") & np.isfinite(here.exact)
    n = int((here.scores[is_ranked] >= round(limit, 4)).sum())
    steps = 3 - np.searchsorted([n / 2, n, 2 * n], runs.ranks(here.exact[is_ranked]))
    values = np.full(len(is_ranked), np.nan, np.float32)
    values[is_ranked] = steps
    v = f"{run_id}-{limit:.4f}-{place}"
    return Coloring("place", "Place in the ranking", "categories", STEPS, values, v=v, steps=len(STEPS))


def _most_clicked(layout: Layout, source: str) -> tuple[int, ...]:
    """Return the clusters that have a color of their own: those with most clicks, then the largest."""
    part, words = groups.stored(layout, source)
    answers = store.call(layout, labels.current_labels)
    is_clicked = np.fromiter((answers.get(each) == "positive" for each in looks.ids_of(layout, source)), np.bool_)
    n, clicks = (np.bincount(part[mask], minlength=len(words)) for mask in (part >= 0, is_clicked & (part >= 0)))
    return tuple(sorted(np.lexsort((-n, -clicks))[:MOST_CATEGORIES].tolist()))


@lru_cache(maxsize=4)
def _clusters(layout: Layout, source: str, shown: tuple[int, ...], v: str) -> Coloring:
    """Color by cluster; those that are not among `shown` share one color."""
    part, words = groups.stored(layout, source)
    code_of = np.full(len(words) + 1, len(shown), np.float32)  # the last one is that of buildings in none
    code_of[[*shown, -1]] = [*range(len(shown)), np.nan]
    names = [f"{k + 1} · {words[k]}" for k in shown] + [OTHER] * (len(words) > len(shown))
    values = ranking.in_map_order(layout, looks.ids_of(layout, source), code_of[part])
    v = f"{v}-{'.'.join(map(str, shown))}"
    return Coloring("cluster", "Cluster", "categories", names, values, v=v)


def _grades(db: sqlite3.Connection, words: str, v: str) -> Coloring:
    """Color what is marked damaged by its grade, in the order of the scale."""
    scale = grades.known(db)
    found = {building: event.grade for building, event in labels.current(db).items() if event.label == "positive"}
    codes = {one.id: code for code, one in enumerate(scale)}
    values = [math.nan if (grade := found.get(each)) is None else codes.get(grade, len(scale))
              for each in contents.building_ids(db)]  # fmt: skip
    names = [*(one.name for one in scale), NOT_GRADED]
    return Coloring("grade", words, "categories", names, np.array(values, np.float32), v=v)


def _disagreement(layout: Layout, run_id: str, place: str) -> Coloring:
    """Color by how many places, as a share of all, a run and the live ranking of this moment's labels differ.

    There are no values before that has all, as others keep scores by earlier labels.
    """
    here = _places(population.of_run(layout, store.call(layout, runs.find, run_id)).exact)
    now = ranking.rank_now(layout)
    sent = None if now is None or not now.is_complete else ranking.scores_for_browser(layout, now.score_id)
    live = np.full(len(here), np.nan, np.float32) if sent is None else np.frombuffer(sent, "<f4")
    difference = np.abs(here - _places(live))
    there = difference[~np.isnan(difference)]
    high = max(float(np.percentile(there, _ENDS[1])), _LEAST_APART) if len(there) else _LEAST_APART
    ends = ("same rank", f"≥ {wording.percent(round(high, 2))} difference")
    v = f"{run_id}-{'none' if now is None else now.score_id}-{place}"
    waits_for = "" if now is None or now.is_complete else now.score_id
    values = difference.astype(np.float32)
    return Coloring("disagreement", AGAINST_LIVE, "numbers", (), values, 0.0, high, ends, v, waits_for=waits_for)


def _places(scores: Singles) -> Floats:
    """Return the rank of each score as a share of all that there are, 0..1; NaN without a score."""
    known = np.isfinite(scores)
    found = np.full(len(scores), np.nan)
    found[known] = (runs.ranks(scores[known]) - 0.5) / max(int(known.sum()), 1)
    return found


def _types(db: sqlite3.Connection) -> list[str | None]:
    """Return the discovered type of each building, of several the newest; None where a person saw no damage, or nothing."""
    found = discoveries.type_of(db)
    for building, label in labels.current_labels(db).items():
        if label in ("not_damaged", "not_assessable"):
            found.pop(building, None)
    return [found.get(building) for building in contents.building_ids(db)]


def _groups(layout: Layout, db: sqlite3.Connection) -> list[str | None]:
    """Return the group of each building in the newest discovery, by the number that people see; of merged ones the first."""
    found = discoveries.load(layout, "latest")
    review = discoveries.review_of(db, found.id)
    first_of = {number: joined[0] + 1 for joined in review.joined(found.facts["n_groups"]) for number in joined}
    words = {number: f"Group {first}" for number, first in first_of.items() if number not in review.dropped}
    groups = dict(zip(found.building_ids, found.groups.tolist(), strict=True))
    return [words.get(groups.get(building, -1)) for building in contents.building_ids(db)]


def _sites(db: sqlite3.Connection, place: str) -> Coloring | None:
    """Color by all sites of the event, in their order; None where there is one."""
    names = [site.name for site in contents.grid(db).sites]
    of = contents.sites(db)
    v = f"{place}-{hashlib.sha256(of.tobytes()).hexdigest()[:12]}"
    return Coloring("site", "Site", "categories", names, of.astype(np.float32), v=v) if names else None


def _area_names(db: sqlite3.Connection, layer: str) -> list[str | None]:
    """Return the name of the area around the middle of each building."""
    found = areas.load_areas(db, layer)
    middles = shapely.points(contents.centers(db)[1])
    area, row = shapely.STRtree(middles).query(shapely.from_wkb(found.wkb), predicate="intersects")
    name_of = dict(zip(row.tolist(), area.tolist(), strict=True))
    return [found.names[name_of[i]] if i in name_of else None for i in range(len(middles))]


def of_values(by: str, title: str, values: Sequence[object], v: str) -> Coloring:
    """Color by an attribute: by numbers or dates where all values are such and there are many, else by category."""
    there = [value for value in values if value is not None and value != ""]
    distinct = set(map(str, there))
    if len(distinct) > MOST_CATEGORIES:
        for read, write in ((_number, _short), (_day, lambda day: date.fromordinal(round(day)).isoformat())):
            numbers = [read(value) for value in values]
            if sum(not math.isnan(number) for number in numbers) == len(there):
                return _numbers(by, title, np.array(numbers), v, write)
    return _categories(by, title, [None if value is None or value == "" else str(value) for value in values], v)


def _number(value: object) -> float:
    try:
        number = float(value) if isinstance(value, (int, float, str)) and not isinstance(value, bool) else math.nan
    except ValueError:
        return math.nan
    return number if math.isfinite(number) else math.nan


def _day(value: object) -> float:
    try:
        return float(datetime.fromisoformat(value).toordinal()) if isinstance(value, str) else math.nan
    except ValueError:
        return math.nan


def _short(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 or value == round(value) else f"{value:.3g}"


def _numbers(by: str, title: str, values: Floats, v: str, write: Any) -> Coloring:
    there = values[~np.isnan(values)]
    low, high = np.percentile(there, _ENDS).tolist() if len(there) else (0.0, 1.0)
    is_cut = len(there) and (there.min() < low or there.max() > high)
    ends = (f"≤ {write(low)}", f"≥ {write(high)}") if is_cut else (write(low), write(high))
    return Coloring(by, title, "numbers", (), values.astype(np.float32), low, high, ends, v)


def _categories(by: str, title: str, values: Sequence[str | None], v: str) -> Coloring:
    """Return a code for each of the most frequent values, in the order of the alphabet; all others share one."""
    counts = Counter(value for value in values if value is not None)
    most = MOST_CATEGORIES if len(counts) > MOST_CATEGORIES else len(counts)
    names = sorted(name for name, _ in counts.most_common(most))
    codes = {name: float(code) for code, name in enumerate(names)}
    if len(counts) > most:
        names.append(OTHER)
    found = [math.nan if value is None else codes.get(value, float(most)) for value in values]
    return Coloring(by, title, "categories", names, np.array(found, np.float32), v=v)


def values_for_browser(layout: Layout, source: str, by: str) -> bytes | None:
    """Return the values of a coloring, little-endian float32 [M]; None where there are none."""
    found = coloring(layout, source, by)
    return None if found is None or found.values is None else found.values.astype("<f4").tobytes()
