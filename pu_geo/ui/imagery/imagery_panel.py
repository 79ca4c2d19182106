"""The Imagery screen: whether the scene pair is usable, and three steps, scenes, buildings, chips. Each shows what is here."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from typing import Any

import streamlit as st

from pu_geo.jobs import JobView
from pu_geo.project.layout import Layout
from pu_geo.services.imagery import features, preparation, scene_pair
from pu_geo.services.imagery.features import FeatureSets
from pu_geo.services.imagery.preparation import Outlines, Overview
from pu_geo.services.imagery.scene_pair import Pair
from pu_geo.ui import frame

_MAX_MB = 50
_PICTURES = ["tif", "tiff", "png", "jpg", "jpeg"]
_BESIDE = ["tfw", "tifw", "pgw", "pngw", "jgw", "jpgw", "jpegw", "wld", "prj", "xml", "json"]
_VECTORS = ["geojson", "json", "gpkg", "zip", "fgb", "parquet", "geoparquet", "csv"]
_FORMATS = "GeoJSON, GeoPackage, shapefile (.zip), FlatGeobuf, GeoParquet, CSV with WKT, or xBD labels."
_MOST_ACCOUNTS = 8
_MOST_NAMED = 6


def next_step(overview: Overview, pair: Pair) -> None:
    """Draw what to do next, in one line."""
    has = {scene.role for scene in overview.scenes}
    if "post" not in has:
        words = "Next: add the post-event scene. It gives the project its coordinate system; a pre-event scene helps a lot."
    elif not overview.n_buildings:
        words = "Next: add the footprints of the buildings, or lay a grid where nobody mapped them."
    elif overview.chips is None and "pre" in has and not pair.shift:
        words = "Next: align pre and post, then cut chips."
    elif overview.chips is None:
        words = "Next: cut chips."
    elif pair.stale:
        words = f"Next: cut chips again. {pair.stale}"
    else:
        frame.link("annotate", "Everything is here. Next: Annotate")
        return
    st.markdown(f":blue[:material/arrow_forward:] {words}")


def notes(job: JobView) -> None:
    """Draw in a job's card what it left out or chose; accounts of footprints are shown with the buildings."""
    if job.state == "done" and job.task in ("add_xbd", "add_aoi"):
        for note in job.result.get("notes", ()):
            st.caption(frame.plain(note))


def _head(title: str, here: str) -> None:
    st.markdown(f"**{title}** &nbsp; :{'green' if here else 'gray'}-badge[{here or 'nothing yet'}]")


def scenes(layout: Layout, overview: Overview, is_running: bool) -> None:
    """Draw step 1: which scenes are here, and three ways to add some."""
    counts = [(role, sum(scene.role == role for scene in overview.scenes)) for role in ("pre", "post")]
    with st.container(border=True):
        _head("1 · Scenes", " · ".join(f"{n} {role}" for role, n in counts if n))
        if overview.scenes:
            _scene_table(layout, overview)
        with st.expander("Add scenes", expanded=not overview.scenes, icon=":material/add_photo_alternate:"):
            draws = (_scene_paths, _scene_uploads, _xbd)
            for tab, draw in zip(st.tabs(["By path", "Upload small files", "xBD folder"]), draws, strict=True):
                with tab:
                    draw(layout, is_running)


def _scene_paths(layout: Layout, is_running: bool) -> None:
    left, right = st.columns(2)
    post = left.text_area("Post-event images, one path a line", height=80, key="post_paths", placeholder="/data/post.tif")
    pre = right.text_area("Pre-event images (optional)", height=80, key="pre_paths", placeholder="/data/pre.tif")
    st.caption(
        "GeoTIFF, or PNG and JPEG with a world file or xBD labels. Files stay where they are. Pre and post may differ in "
        "coordinate system and pixel size; several files of one date become one image."
    )
    with st.container(horizontal=True):
        wanted = st.button("Add scenes", type="primary", disabled=is_running or not (post.strip() or pre.strip()))
        with st.popover("Bands and coordinate system", icon=":material/tune:"):
            _special_files()
    if wanted:
        _start_scenes(layout, preparation.paths_in(pre), preparation.paths_in(post))


def _special_files() -> None:
    st.text_input("Red, green, blue", placeholder="as the file says, or 3, 2, 1", key="rgb_bands")
    st.text_input("System, where files name none", placeholder="EPSG:32615", key="file_crs")
    st.number_input(
        "Pictures without any place: size of a pixel, m", 0.01, 100.0, None, 0.1, key="pixel_m",
        placeholder="not allowed", help="The map then shows their own pixels, and exports say that it has no place.",
    )  # fmt: skip


def _start_scenes(layout: Layout, pre: Sequence[str], post: Sequence[str]) -> None:
    state = st.session_state
    frame.act_and_rerun(lambda: preparation.start_adding_scenes(
        layout, pre, post, bands=preparation.bands_in(state.get("rgb_bands", "")), crs=state.get("file_crs", "").strip(),
        pixel_m=state.get("pixel_m"),
    ))  # fmt: skip


def _uploader(label: str, kinds: Sequence[str], key: str, *, several: bool = False) -> list[tuple[str, memoryview]]:
    """Draw a field for files; it is empty again after `_empty`."""
    widget = f"{key}-{st.session_state.get(f'{key}-times', 0)}"
    found = st.file_uploader(label, type=list(kinds), accept_multiple_files=several, max_upload_size=_MAX_MB, key=widget)
    files = found if isinstance(found, list) else [found] if found is not None else []
    return [(file.name, file.getbuffer()) for file in files]


def _empty(key: str) -> None:
    st.session_state[f"{key}-times"] = st.session_state.get(f"{key}-times", 0) + 1


def _scene_uploads(layout: Layout, is_running: bool) -> None:
    role = st.radio(
        "These are", ["post", "pre"], format_func=lambda role: f"{role}-event images", horizontal=True, key="role"
    )
    files = _uploader(
        "Pictures, with their world files or labels beside them", [*_PICTURES, *_BESIDE], "scene-files", several=True
    )
    st.caption(f"Up to {_MAX_MB} MB each; they are copied into the project. Larger files: by path.")
    if st.button("Add these scenes", type="primary", disabled=is_running or not files):
        with frame.show_errors():
            kept = preparation.keep_uploads(layout, files)
            pictures = [path for path in kept if path.rsplit(".", 1)[-1].lower() in _PICTURES]
            _empty("scene-files")
            _start_scenes(layout, pictures if role == "pre" else [], pictures if role == "post" else [])


def _xbd(layout: Layout, is_running: bool) -> None:
    left, right = st.columns([2, 1])
    folder = left.text_input("Folder with images/ and labels/", key="xbd_folder", placeholder="/data/xbd/train")
    chosen = right.text_input("Only names that begin with", key="xbd_chosen", placeholder="joplin-tornado")
    st.caption("Its pictures become scenes, placed by their labels; the outlines in the labels become footprints.")
    if st.button("Add the folder", type="primary", disabled=is_running or not folder.strip()):
        frame.act_and_rerun(lambda: preparation.start_adding_xbd(layout, folder, chosen=chosen))


def buildings(layout: Layout, overview: Overview, here: Outlines, is_running: bool) -> None:
    """Draw step 2: the account of each footprint file, the area of interest, and ways to add them."""
    with st.container(border=True):
        _head("2 · Buildings", f"{overview.n_buildings:,} footprints" if overview.n_buildings else "")
        if overview.grid is None:
            st.caption("Needs a post-event scene first: it gives the project its coordinate system.")
            return
        _accounts(here)
        if here.aoi is not None:
            known = preparation.last_aoi_words(layout) or f"Limited to the area of interest {here.aoi.source}."
            st.caption(f":material/crop_free: {frame.plain(known)}")
        with st.expander("Add footprints", expanded=not overview.n_buildings, icon=":material/add_home:"):
            draws = (_footprint_path, _footprint_upload, _lay_grid)
            names = ["By path", "Upload a small file", "No outlines? Lay a grid"]
            for tab, draw in zip(st.tabs(names), draws, strict=True):
                with tab:
                    draw(layout, is_running)
        with st.expander("Area of interest, districts", icon=":material/crop_free:"):
            _aoi(layout, here, is_running)
            layers = ", ".join(f"{frame.plain(name)} ({n:,})" for name, n in here.areas.items())
            st.caption(
                f"Districts to sum damage up by: {layers or 'none yet'}. They are added on the Damage map, under By area."
            )


def _accounts(here: Outlines) -> None:
    """Draw what became of each file: features in it = kept + repaired + dropped."""
    if not here.imports:
        return
    rows = [
        {
            "File": one.file, "Added": one.at[:16].replace("T", " "), "In the file": one.n_in, "= kept": one.kept,
            "+ repaired": one.repaired, "+ dropped": one.n_dropped,
            "Why dropped": ", ".join(f"{n:,} {reason}" for reason, n in one.dropped.items()),
        }
        for one in here.imports[:_MOST_ACCOUNTS]
    ]  # fmt: skip
    added = st.column_config.TextColumn("Added (UTC)")
    st.dataframe(rows, hide_index=True, key="accounts", column_config={"Added": added})
    if here.imports[0].notes:
        st.caption(f"{frame.plain(here.imports[0].file)}: {frame.plain(' '.join(here.imports[0].notes))}")


def _footprint_path(layout: Layout, is_running: bool) -> None:
    left, right = st.columns([3, 1])
    path = left.text_input("File of outlines", key="footprint_path", placeholder="/data/houses.geojson", help=_FORMATS)
    crs = right.text_input("System, if it names none", key="footprint_crs", placeholder="EPSG:32615")
    if st.button("Add footprints", type="primary", disabled=is_running or not path.strip()):
        _start_footprints(layout, preparation.paths_in(path)[0], crs.strip())


def _footprint_upload(layout: Layout, is_running: bool) -> None:
    files = _uploader(_FORMATS, _VECTORS, "footprint-file")
    if st.button("Add this file", type="primary", disabled=is_running or not files):
        with frame.show_errors():
            kept = preparation.keep_uploads(layout, files)
            _empty("footprint-file")
            _start_footprints(layout, kept[0], st.session_state.get("footprint_crs", "").strip())


def _start_footprints(layout: Layout, path: str, crs: str) -> None:
    frame.act_and_rerun(lambda: preparation.start_adding_footprints(layout, path, crs=crs))


def _lay_grid(layout: Layout, is_running: bool) -> None:
    side = st.number_input("Side of a cell, m", 5, 1000, 30, 5, key="grid_side", width=200)
    if st.button("Lay the grid", type="primary", disabled=is_running):
        frame.act_and_rerun(lambda: preparation.start_laying_grid(layout, float(side)))


def _aoi(layout: Layout, here: Outlines, is_running: bool) -> None:
    st.caption("Footprints and grids added afterwards are limited to those that touch the area; what is here already stays.")
    left, right = st.columns(2)
    path = left.text_input("Polygon file", key="aoi_path", placeholder="/data/aoi.geojson", help=_FORMATS)
    text = right.text_input("or a box or WKT, in degrees", key="aoi_text", placeholder="west, south, east, north")
    with st.container(horizontal=True):
        if st.button("Replace the area" if here.aoi else "Set the area", disabled=is_running or not (path or text)):
            frame.act_and_rerun(
                lambda: preparation.start_adding_aoi(layout, path="".join(preparation.paths_in(path)[:1]), text=text)
            )
        if here.aoi is not None and st.button("Take it away", disabled=is_running):
            frame.act_and_rerun(lambda: preparation.remove_aoi(layout))
        if here.aoi_before is not None and st.button(f"Put back {here.aoi_before.source[:40]}", disabled=is_running):
            frame.act_and_rerun(lambda: preparation.put_back_aoi(layout))


def chips(layout: Layout, overview: Overview, pair: Pair, is_running: bool) -> None:
    """Draw step 3: how pre fits post, and cutting chips."""
    made = overview.chips
    with st.container(border=True):
        _head("3 · Chips", f"{len(made['building_ids']):,} chips of {made['size_px']} px ({made['bands']})" if made else "")
        if not overview.n_buildings:
            st.caption("Needs footprints first: a chip is one footprint and half its size around it.")
            return
        has_pre = any(scene.role == "pre" for scene in overview.scenes)
        if has_pre:
            _alignment(layout, pair.shift, is_running)
        with st.container(horizontal=True, vertical_alignment="bottom"):
            bands = st.radio(
                "Bands", ["auto", "pre+post", "post"] if has_pre else ["post"], horizontal=True, key="chip_bands",
                help="Auto uses both dates, or the post-event scenes alone where pre-event scenes leave buildings out.",
            )  # fmt: skip
            size_px = st.select_slider("Chip size (px)", [32, 48, 64, 96, 128], value=64, key="chip_size", width=280)
            if st.button("Cut chips", type="primary", disabled=is_running):
                frame.act_and_rerun(lambda: preparation.start_chipping(layout, size_px=size_px, bands=bands))
        st.caption("Each chip covers the footprint and half its size around it.")
        if made:
            known = features.overview(layout)
            if known.note:
                st.warning(frame.plain(known.note), icon=":material/warning:")
            with st.expander("Features of the chips", icon=":material/tune:"):
                _features(layout, known, is_running)


def _features(layout: Layout, known: FeatureSets, is_running: bool) -> None:
    """Draw the feature sets of the chips, which one is used, and how another one is made."""
    st.caption("Frozen features describe each chip to the ranking and to quick trainings. Sets of the newest chips:")
    for one in known.sets:
        st.markdown(f"- {frame.plain(features.words_of(one.name, one.maker))}; {one.n_features:,} features")
    if len(known.sets) > 1 or known.note:
        with st.container(horizontal=True, vertical_alignment="bottom"):
            chosen = st.selectbox(
                "Used by ranking, queue and trainings", known.names, index=known.names.index(known.in_use),
                key=f"feature-set-{known.in_use}", width=320,
            )  # fmt: skip
            if st.button("Use these features", disabled=is_running or (chosen == known.in_use and not known.note)):
                frame.act_and_rerun(lambda: features.choose(layout, chosen))
    st.caption("Another set comes from a local weights file, or is trained on these chips without labels:")
    st.code(
        f"pu-geo features {layout.folder.name} --backbone resnet18 --weights FILE.safetensors --use\n"
        f"pu-geo features {layout.folder.name} --backbone self-supervised --use",
        language="bash",
    )


def _alignment(layout: Layout, known: str, is_running: bool) -> None:
    with st.container(horizontal=True, vertical_alignment="center"):
        if st.button(
            "Align again" if known else "Align pre and post", disabled=is_running,
            help="Found anew for each building; chips have to be cut again.",
        ):  # fmt: skip
            frame.act_and_rerun(lambda: preparation.start_aligning(layout))
        st.caption(f"Aligned: {known}." if known else "Pre and post may be meters apart; align them before chips are cut.")


# The scene pair


def verdict(pair: Pair, overview: Overview) -> None:
    """Draw whether the pair is usable, and its figures; nothing before there is a post scene."""
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


def _scene_table(layout: Layout, overview: Overview) -> None:
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
    dates = st.column_config.DateColumn("Date ✎", help="Double-click to change it; exports carry it.")
    edited = st.data_editor(
        rows, key=f"scenes-{hash(tuple(days.items()))}", hide_index=True, placeholder="not known",
        disabled=[name for name in rows[0] if name != "Date"], column_config={"Date": dates},
    )  # fmt: skip
    now = {row["Scene"]: _day(row["Date"]) for row in edited}  # comes back as text where no scene had a date
    _repairs(overview)
    changed = {name: day for name, day in now.items() if day != days[name]}
    if changed:
        frame.act_and_rerun(lambda: scene_pair.set_dates(layout, changed))


def _repairs(overview: Overview) -> None:
    """Draw what is done to scenes as they are read, those together to which the same is done."""
    names_of: dict[str, list[str]] = {}
    for name, words in scene_pair.repairs(overview.scenes, overview.grid).items():
        names_of.setdefault(words, []).append(name)
    repairs = " · ".join(f"{_some(names)} {words}" for words, names in names_of.items())
    st.caption(f"How they are read: {frame.plain(repairs)}.")


def _some(names: list[str]) -> str:
    more = len(names) - _MOST_NAMED
    return ", ".join(names) if more <= 0 else f"{', '.join(names[:_MOST_NAMED])} and {more} more"


def _day(given: object) -> date | None:
    """Return the day of a date or of an ISO 8601 text; None where it is not known or cannot be read."""
    try:
        return date.fromisoformat(str(given)[:10])
    except ValueError:
        return None
