"""How numbers, shares, times and days are written for people, on screens, in reports and on the command line."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from datetime import datetime, tzinfo
from typing import Any

_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
LABEL_WORDS = {
    "positive": "damaged",
    "not_damaged": "not damaged",
    "not_assessable": "not assessable",
    "cleared": "not reviewed",
}
_EXACT = 1e-9  # what 100 * 0.29 misses 29 by is no reason to round outward


def shortened(text: str, most: int) -> str:
    """Return a text of at most `most` characters, with a sign where some of it is left out.

    >>> shortened("EPSG:32615", 10), shortened("tcp://head-node:8786", 12)
    ('EPSG:32615', 'tcp://head-…')
    """
    return text if len(text) <= most else f"{text[: most - 1]}…"


def plural(n: int, one: str, several: str | None = None) -> str:
    """Write a number with its noun.

    >>> plural(1, "run"), plural(1200, "run"), plural(0, "damaged", "damaged")
    ('1 run', '1,200 runs', '0 damaged')
    """
    return f"{n:,} {one if n == 1 else several or f'{one}s'}"


def listed(names: Sequence[str], most: int = 5) -> str:
    """Write names as a list, the first few of many.

    >>> listed(["pre+post"]), listed(["pre+post", "sar-post", "dsm"]), listed(["a", "b", "c"], 1)
    ('pre+post', 'pre+post, sar-post and dsm', 'a and 2 more')
    """
    if len(names) > most:
        names = [*names[:most], f"{len(names) - most:,} more"]
    return " and ".join(filter(None, (", ".join(names[:-1]), *names[-1:])))


def short_crs(crs: str) -> str:
    """Return what people call a coordinate system that is "EPSG:n" or WKT.

    >>> short_crs("EPSG:32633"), short_crs('PROJCRS["Local TM",BASEGEOGCRS["WGS 84"]]')
    ('EPSG:32633', 'Local TM')
    """
    return crs if crs.startswith("EPSG:") else crs.split('"')[1] if '"' in crs else crs[:30]


def duration(seconds: float) -> str:
    """Write a time span in the unit a person would use.

    >>> [duration(each) for each in (0.2, 42, 100, 3000, 8000, 7200, 500_000)]
    ['under 1 s', '42 s', '2 min', '50 min', '2 h 13 min', '2 h', '6 days']
    """
    if seconds < 1:
        return "under 1 s"
    if round(seconds) < 90:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    if minutes < 120:
        return f"{minutes} min"
    if minutes >= 2 * 24 * 60:
        return f"{round(minutes / 24 / 60)} days"
    return f"{minutes // 60} h {minutes % 60} min".removesuffix(" 0 min")


def size(n_bytes: int) -> str:
    """Write the size of a file or folder.

    >>> size(900), size(2_400_000), size(12_000_000_000)
    ('1 kB', '2.4 MB', '12 GB')
    """
    for unit, step in (("GB", 1e9), ("MB", 1e6)):
        if n_bytes >= step:
            return f"{n_bytes / step:.1f} {unit}" if n_bytes < 10 * step else f"{n_bytes / step:.0f} {unit}"
    return f"{max(1, round(n_bytes / 1e3))} kB"


def when(moment: str, zone: tzinfo | None = None) -> str:
    """Write an RFC 3339 moment or an ISO 8601 day without seconds and zone; as it is where it is neither.

    Args:
        zone: whose clock; this machine's if None.

    >>> from datetime import UTC
    >>> when("2026-11-22T11:29:08+00:00", UTC), when("2011-05-22")
    ('22 Nov 2026, 11:29', '22 May 2011')
    """
    try:
        at = datetime.fromisoformat(moment)
    except ValueError:
        return moment
    is_day = len(moment) <= len("2026-11-22")
    at = at if is_day else at.astimezone(zone)
    day = f"{at.day} {_MONTHS[at.month - 1]} {at.year}"
    return day if is_day else f"{day}, {at:%H:%M}"


def day_and_time(moment: str) -> str:
    """Write an RFC 3339 moment by this machine's clock, short enough for a name: no year, no seconds; as it is where it is
    no moment.

    >>> day_and_time("2026-11-22T11:29:08")
    '22 Nov 11:29'
    """
    try:
        at = datetime.fromisoformat(moment).astimezone()
    except ValueError:
        return moment
    return f"{at.day} {_MONTHS[at.month - 1]} {at:%H:%M}"


def percent(share: float) -> str:
    """Write a share 0..1 so that neither end is reached by rounding alone.

    >>> [percent(each) for each in (0.0, 0.0004, 0.012, 0.5, 0.9996, 1.0)]
    ['0 %', '< 0.1 %', '1.2 %', '50 %', '> 99.9 %', '100 %']
    """
    value = 100 * share
    if 0 < value < 0.1:
        return "< 0.1 %"
    if 99.9 < value < 100:
        return "> 99.9 %"
    digits = 1 if (value < 10 or value > 99) and value != round(value) else 0
    return f"{value:.{digits}f} %"


def interval(value: float, low: float, high: float) -> str:
    """Write a share 0..1 with its 95 % interval, both in percent; its ends are rounded outward, so it never becomes a point.

    >>> interval(1.0, 0.912, 1.0), interval(0.953, 0.9472, 0.9595), interval(1.0, 0.9996, 1.0)
    ('100 % (91–100)', '95 % (94–96)', '100 % (99–100)')
    """
    return f"{percent(value)} ({math.floor(100 * low + _EXACT)}–{math.ceil(100 * high - _EXACT)})"


def interval_of(found: Mapping[str, Any]) -> str:
    """Write an estimated share, {"value", "low", "high", "words"}, or that none can be told, and why.

    >>> interval_of({"value": 1.0, "low": 0.912, "high": 1.0, "words": ""}), interval_of({"value": None, "words": "few"})
    ('100 % (91–100)', 'few')
    >>> interval_of({"value": 0.99, "low": 0.0, "high": 1.0, "words": ""})
    'cannot be told (0–100 %)'
    """
    if found["value"] is None:
        return str(found["words"])
    if found["low"] <= 0 and found["high"] >= 1:
        return "cannot be told (0–100 %)"
    return interval(found["value"], found["low"], found["high"])
