"""Imagery: add pre and post scenes and footprints, and cut chips."""

from __future__ import annotations

import streamlit as st

from pu_geo.services import imagery
from pu_geo.ui import frame, job_card

layout = frame.needs_project()
frame.header(
    "Imagery", "Add the scenes from before and after the event and the building footprints, then cut one chip per building."
)
is_running = job_card.watch(layout, imagery.IMAGERY_TASKS)
overview = imagery.overview(layout)

scenes, footprints, chips = st.columns(3, gap="medium")

with scenes.container(border=True):
    st.markdown("**1 · Scenes**")
    post = st.text_area(
        "Post-event images (GeoTIFF, PNG or JPEG with a world file), one path a line", height=80, key="post_paths"
    )
    pre = st.text_area("Pre-event images (optional)", height=80, key="pre_paths")
    with st.expander("Bands and coordinate system"):
        rgb = st.text_input("Red, green, blue", placeholder="as the file says, or 3, 2, 1", key="rgb_bands")
        crs = st.text_input("System, where files name none", placeholder="EPSG:32615", key="file_crs")
    if st.button("Add scenes", disabled=is_running or not (post or pre)):
        with frame.telling_errors():
            chosen = imagery.bands_in(rgb)
            imagery.start_adding_scenes(layout, imagery.paths_in(pre), imagery.paths_in(post), bands=chosen, crs=crs.strip())
            st.rerun()

with footprints.container(border=True):
    st.markdown("**2 · Footprints**")
    path = st.text_input(
        "File of outlines", key="footprint_path",
        help="GeoJSON, GeoPackage, shapefile (.zip), FlatGeobuf, GeoParquet, CSV with WKT, or xBD labels.",
    )  # fmt: skip
    if overview.grid is None:
        st.caption("Needs a post-event scene first: it gives the project its coordinate system.")
    if st.button("Add footprints", disabled=is_running or not path or overview.grid is None):
        with frame.telling_errors():
            imagery.start_adding_footprints(layout, imagery.paths_in(path)[0], crs=crs.strip())
            st.rerun()
    with st.expander("No outlines? Lay a grid"):
        side = st.number_input("Side of a cell, m", 5, 1000, 30, 5, key="grid_side")
        if st.button("Lay the grid", disabled=is_running or overview.grid is None):
            imagery.start_laying_grid(layout, float(side))
            st.rerun()

with chips.container(border=True):
    st.markdown("**3 · Chips**")
    has_pre = any(scene.role == "pre" for scene in overview.scenes)
    bands = st.radio("Bands", ["pre+post", "post"], index=0 if has_pre else 1, horizontal=True, key="chip_bands")
    size_px = st.select_slider("Chip size (px)", [32, 48, 64, 96, 128], value=64, key="chip_size")
    st.caption("Each chip covers the footprint and half its size around it.")
    if has_pre and overview.n_buildings:
        st.caption(imagery.alignment_words(layout) or "Pre and post may be meters apart; align them before chips are cut.")
        if st.button(
            "Align pre and post", disabled=is_running, help="Found anew for each building; chips have to be cut again."
        ):
            imagery.start_aligning(layout)
            st.rerun()
    if st.button("Cut chips", type="primary", disabled=is_running or not overview.n_buildings):
        with frame.telling_errors():
            imagery.start_chipping(layout, size_px=size_px, bands=bands)
            st.rerun()

if overview.scenes:
    st.markdown("#### What is here")
    st.dataframe(
        [
            {
                "scene": scene.scene_id,
                "file": scene.path,
                "width (px)": scene.width,
                "height (px)": scene.height,
                "pixel (m)": round(scene.gsd_m, 3),
                "date": scene.date,
                "CRS": scene.crs[:40],
                "bands": scene.bands,
                "type": scene.dtype,
                "shown as RGB": ", ".join(map(str, scene.rgb)),
                "stretched from": ""
                if scene.stretch is None
                else " · ".join(f"{low:g} to {high:g}" for low, high in scene.stretch),
                "placed by": scene.place,
            }
            for scene in overview.scenes
        ],
        hide_index=True,
    )
    facts = [f"{overview.n_buildings:,} footprints"]
    if overview.grid is not None:
        grid = overview.grid
        facts.append(f"grid {grid.width:,} x {grid.height:,} px of {grid.gsd_m:.3f} m")
    if overview.chips is not None:
        nodata = sum(share > 0 for share in overview.chips["nodata_share"])
        facts.append(
            f"{len(overview.chips['building_ids']):,} chips of {overview.chips['size_px']} px ({overview.chips['bands']})"
        )
        facts.append(f"{nodata} of them reach beyond the post image")
        frame.link("annotate", "Next: Annotate")
    st.caption(" · ".join(facts))
