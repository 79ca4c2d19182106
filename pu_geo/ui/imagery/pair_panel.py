"""The scene pair in one look: is it usable, which scenes are here, and what was repaired."""

from __future__ import annotations

from datetime import date
from typing import Any

import streamlit as st

from pu_geo.project.layout import Layout
from pu_geo.services.imagery import scene_pair
from pu_geo.services.imagery.preparation import Overview
from pu_geo.services.imagery.scene_pair import Pair
from pu_geo.ui import frame

_MOST_NAMED = 6


def verdict(pair: Pair, overview: Overview) -> None:
    """Draw whether the pair is usable, and the figures that say so; nothing before there is a post scene."""
    if not pair.checks:
        return
    worries = [f"**{check.name}: {check.value}.** {check.worry}" for check in pair.checks if check.worry]
    what = "pair" if any(scene.role == "pre" for scene in overview.scenes) else "post image"
    is_measured = what == "post image" or pair.shift
    with st.container(border=True):
        if worries:
            st.markdown(f":orange[:material/warning:] **Look at this before you rely on the {what}**")
            st.markdown("\n".join(f"- {worry}" for worry in worries))
        elif not is_measured:
            st.markdown(":blue[:material/info:] **The pair fits so far.** How far apart it is shows once it is aligned.")
        else:
            st.markdown(f":green[:material/check_circle:] **The {what} is usable**")
        with st.container(horizontal=True, gap="medium"):
            for check in pair.checks:
                st.metric(check.name, check.value, help=check.words or None, width="content")


def table(layout: Layout, overview: Overview) -> None:
    """Draw the scenes, one a row, with dates that can be changed, and what is done to each as it is read."""
    days = {scene.scene_id: _day(scene.date) for scene in overview.scenes}
    rows: list[dict[str, Any]] = [
        {
            "Scene": scene.scene_id,
            "File": "/".join(scene.path.split("/")[-2:]),
            "Date": days[scene.scene_id],
            "Pixel (m)": round(scene.gsd_m, 3),
            "Size (px)": f"{scene.width:,} x {scene.height:,}",
            "System": scene.place if scene.crs.startswith("ENGCRS[") else scene.crs[:40],
            "Bands": f"{scene.bands} {scene.dtype}, RGB {'-'.join(map(str, scene.rgb))}",
        }
        for scene in overview.scenes
    ]
    if any(scene.place for scene in overview.scenes):
        rows = [{**row, "Placed by": scene.place} for row, scene in zip(rows, overview.scenes, strict=True)]
    edited = st.data_editor(
        rows,
        key=f"scenes-{hash(tuple(days.items()))}",
        hide_index=True,
        placeholder="not known",
        disabled=[name for name in rows[0] if name != "Date"],
        column_config={"Date": st.column_config.DateColumn("Date ✎", help="Double-click to change it; exports carry it.")},
    )
    now = {row["Scene"]: _day(row["Date"]) for row in edited}  # comes back as text where no scene had a date
    _repairs(overview)
    changed = {name: day for name, day in now.items() if day != days[name]}
    if changed:
        with frame.show_errors():
            scene_pair.set_dates(layout, changed)
            st.rerun()


def _repairs(overview: Overview) -> None:
    """Say what is done to scenes as they are read, those together to which the same is done."""
    names_of: dict[str, list[str]] = {}
    for name, words in scene_pair.repairs(overview.scenes, overview.grid).items():
        names_of.setdefault(words, []).append(name)
    said = " · ".join(f"{_some(names)} {words}" for words, names in names_of.items())
    st.caption(f"How they are read: {frame.plain(said)}.")


def _some(names: list[str]) -> str:
    more = len(names) - _MOST_NAMED
    return ", ".join(names) if more <= 0 else f"{', '.join(names[:_MOST_NAMED])} and {more} more"


def _day(given: object) -> date | None:
    """Return the day of a date or of an ISO 8601 text; None where it is not known or cannot be read."""
    try:
        return date.fromisoformat(str(given)[:10])
    except ValueError:
        return None
