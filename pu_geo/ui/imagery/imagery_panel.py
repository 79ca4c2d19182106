"""The Imagery screen: whether the scene pair is usable, and three steps, scenes, footprints, chips. Each shows what is
here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import date
from functools import partial
from html import escape
from pathlib import Path
from typing import Any

import streamlit as st

from pu_geo import jobs
from pu_geo.jobs import JobView, tasks
from pu_geo.lifecycle import projects, removing
from pu_geo.scenes import features, layers, preparation, scene_files, scene_pair, sites
from pu_geo.scenes.actions import AddAoi, AddFootprints, AddGrid, AddLayer, AddScenes, AddXbd, Chip, PutInSite, Relink
from pu_geo.scenes.features import FeatureSets
from pu_geo.scenes.preparation import Outlines, Overview
from pu_geo.scenes.scene_files import LostFiles
from pu_geo.scenes.scene_pair import Pair, Step
from pu_geo.scenes.sites import Site
from pu_geo.store import contents, store
from pu_geo.store.contents import MAX_MB
from pu_geo.store.layout import RCF, SHARED, Layout
from pu_geo.store.removals import Kind
from pu_geo.ui import frame
from pu_geo.ui.components import cluster_field, file_picker, job_card, remove_dialog
from pu_geo.ui.frame import own
from pu_geo.ui.imagery import texts
from pu_geo.ui.routes import PREFIX
from pu_geo.wording import listed, when

_PICTURES = ["tif", "tiff", "png", "jpg", "jpeg"]
_BESIDE = ["tfw", "tifw", "pgw", "pngw", "jgw", "jpgw", "jpegw", "wld", "prj", "xml", "json"]
_VECTORS = ["geojson", "json", "gpkg", "zip", "fgb", "parquet", "geoparquet", "csv"]
_CLUSTER = "imagery-cluster"
_MOST_GROUPS = 4
_SPARSE, _MOST_PICTURES = 0.3, 12  # share of a site that its scenes cover below which each is drawn by itself, and how many
_ORDER: tuple[Step, ...] = ("scenes", "footprints", "align", "chips", "done")
_ICONS = {"done": ":material/check_circle:", "current": ":material/radio_button_checked:", "blocked": ":material/lock:"}
_COLORS = {"done": "green", "current": "blue", "blocked": "gray"}


def main_action(layout: Layout, overview: Overview, pair: Pair, step: Step, is_running: bool) -> None:
    """Draw the next step as the screen's main button."""
    if step == "done":
        frame.link("annotate", texts.NEXT_ANNOTATE, is_main=True)
    elif step == "scenes":
        _choose_scenes(layout, "all-scenes", is_running, is_main=True)
    else:
        if step == "footprints":
            _choose_footprints(layout, "main-footprints", is_running, is_main=True)
        if overview.n_buildings:
            is_new, has_pre = overview.chips is None, any(scene.role == "pre" for scene in overview.scenes)
            aligns = is_new and has_pre and not pair.shift
            label = texts.ALIGN_AND_CUT if aligns else texts.CUT if is_new else texts.CUT_AGAIN
            _button(label, "main-chip", partial(_cut, layout, align=aligns), is_running, is_main=step != "footprints")


def _choose_scenes(layout: Layout, key: str, is_running: bool, *, is_main: bool = False) -> None:
    """Draw the button whose dialog picks scenes, tells their dates, and adds them."""
    file_picker.browse_button(
        key, texts.CHOOSE_SCENES_TITLE, "scenes", partial(_start_scenes, layout), several=True, by_date=True,
        label=texts.CHOOSE_SCENES, is_main=is_main, disabled=is_running,
    )  # fmt: skip


def _choose_footprints(layout: Layout, key: str, is_running: bool, *, is_main: bool = False) -> None:
    """Draw the button whose dialog picks footprint files and adds them."""
    file_picker.browse_button(
        key, texts.BROWSE_FOOTPRINTS, "vectors", partial(_start_footprints, layout), several=True,
        label=texts.CHOOSE_FOOTPRINTS, is_main=is_main, disabled=is_running,
    )  # fmt: skip


def _button(
    label: str, key: str, act: Callable[[], object], disabled: bool, *, is_main: bool = False, help: str | None = None
) -> None:
    """Draw a button that acts before the page is drawn anew."""
    frame.press(label, act, key=key, type="primary" if is_main else "secondary", disabled=disabled, help=help)


def _field(key: str) -> str:
    return str(st.session_state.get(own(key)) or "").strip()


@contextmanager
def _step(n: int, title: str, here: str, steps: Sequence[Step], now: Step) -> Iterator[None]:
    """Draw a step: open where it is the next one, else as a line with what is there."""
    first, last = _ORDER.index(steps[0]), _ORDER.index(steps[-1])
    state = "done" if _ORDER.index(now) > last else "current" if _ORDER.index(now) >= first else "blocked"
    label = f"**{texts.STEP.format(n=n, title=title)}** &nbsp; :{_COLORS[state]}-badge[{here or texts.STATES[state]}]"
    with st.expander(label, expanded=state == "current", icon=_ICONS[state]):
        yield


def _watch(layout: Layout, panel: str) -> None:
    """Draw the job that was started last, where its step is."""
    if tasks.of(preparation.last_task(layout)).panel == panel:
        job_card.watch(layout, panel, body=partial(notes, layout))


def notes(layout: Layout, job: JobView) -> None:
    """Draw in a job's card what it left out or chose; accounts of footprints are shown with the footprints."""
    if job.state == "done" and "plan" in job.result:
        st.markdown("\n".join(f"- {frame.plain(str(line))}" for line in job.result["plan"]))
        if job.result["removal"] is None:
            path, plan, shift = str(job.result["path"]), job.result["plan"], bool(job.result["shift"])
            start = partial(removing.start_replacing_footprints, layout, path, frame.analyst())
            _button(
                texts.REPLACE_FOOTPRINTS,
                "replace-footprints",
                lambda: start(confirmed=plan, shift=shift),
                False,
                is_main=True,
            )
            if job.result["way"]:
                words = texts.COMPARE_WITHOUT_SHIFT if shift else texts.COMPARE_WITH_SHIFT
                _button(words, "compare-shifted", lambda: start(shift=not shift), False)
        else:
            st.caption(texts.CAN_UNDO)
    if job.task not in ("add_footprints", "add_grid", "replace_footprints"):
        job_card.notes(job)


# Scenes


def scenes(layout: Layout, overview: Overview, now: Step, is_running: bool) -> None:
    """Draw step 1: which scenes are here, and three ways to add some."""
    n_pre, n_post = (sum(scene.role == role for scene in overview.scenes) for role in ("pre", "post"))
    n_layers = len({scene.layer for scene in overview.layer_scenes})
    with _step(1, texts.SCENES, texts.scenes_here(n_pre, n_post, n_layers), ["scenes"], now):
        _watch(layout, "scenes")
        ways = {
            **({texts.HERE: lambda: _scene_table(layout, overview, is_running)} if overview.scenes else {}),
            texts.BY_PATH: lambda: _scene_paths(layout, overview, now, is_running),
            texts.UPLOAD: lambda: _scene_uploads(layout, is_running),
            texts.XBD: lambda: _xbd(layout, is_running),
            **({texts.LAYERS: lambda: _layers(layout, overview, is_running)} if overview.grid is not None else {}),
        }
        _tabs(ways)


def _tabs(ways: Mapping[str, Callable[[], None]]) -> None:
    for tab, draw in zip(st.tabs(list(ways)), ways.values(), strict=True):
        with tab:
            draw()


def _scene_paths(layout: Layout, overview: Overview, now: Step, is_running: bool) -> None:
    known = {scene.path for scene in overview.scenes}
    fields = (
        (own("post_paths"), texts.POST_PATHS, texts.POST_EXAMPLE),
        (own("pre_paths"), texts.PRE_PATHS, texts.PRE_EXAMPLE),
    )
    for column, (key, label, example) in zip(st.columns(2), fields, strict=True):
        _leave(key, known)
        column.text_area(label, height=80, key=key, placeholder=example, help=texts.PATHS_HELP)
    with st.container(horizontal=True):
        is_named = bool(_field("post_paths") or _field("pre_paths"))

        def add() -> None:
            _start_scenes(layout, *(preparation.paths_in(_field(key)) for key in ("pre_paths", "post_paths")))

        if now != "scenes":
            _choose_scenes(layout, "more-scenes", is_running)
        _button(texts.ADD_SCENES, "add-scenes", add, is_running, is_main=is_named)
        with st.popover(frame.plain(texts.bands_and_crs(*_special())), icon=":material/tune:"):
            st.text_input(texts.RGB, placeholder=texts.RGB_EXAMPLE, key=own("rgb_bands"))
            st.text_input(texts.CRS_MISSING, placeholder=texts.CRS_EXAMPLE, key=own("file_crs"))
            st.number_input(
                texts.PIXEL_M, 0.01, 100.0, None, 0.1, key=own("pixel_m"), placeholder=texts.PIXEL_M_EXAMPLE,
                help=texts.PIXEL_M_HELP,
            )  # fmt: skip


def _leave(key: str, known: set[str]) -> bool:
    """Take what was added out of a field, and return whether there was any; what was refused stays, to be corrected."""
    lines = preparation.paths_in(str(st.session_state.get(key, "")))
    if is_any := bool(known.intersection(lines)):
        st.session_state[key] = "\n".join(line for line in lines if line not in known)
    return is_any


def _special() -> tuple[str, str, float | None]:
    """Return what people wrote of files that say too little: bands, CRS, pixel size in metres."""
    return _field("rgb_bands"), _field("file_crs"), st.session_state.get(own("pixel_m"))


def _start_scenes(layout: Layout, pre: Sequence[str], post: Sequence[str]) -> None:
    bands, crs, pixel_m = _special()
    jobs.start(layout, AddScenes(pre, post, bands=bands, crs=crs, pixel_m=pixel_m))


def _uploads(
    label: str, kinds: Sequence[str], key: str, words: str, act: Callable[[list[str]], object], layout: Layout,
    is_running: bool, *, several: bool = False,
) -> None:  # fmt: skip
    """Draw a field for files and the button that adds them, after which it is empty; `act` takes where they are kept."""

    def add() -> None:
        found = st.session_state[key]
        files = found if isinstance(found, list) else [found] * (found is not None)
        act(preparation.keep_uploads(layout, [(file.name, file.getbuffer()) for file in files]))

    with st.form(f"{key}-form", clear_on_submit=True, border=False):
        st.file_uploader(label, type=list(kinds), accept_multiple_files=several, max_upload_size=MAX_MB, key=key)
        st.form_submit_button(words, disabled=is_running, on_click=frame.does(add))


def _scene_uploads(layout: Layout, is_running: bool) -> None:
    st.radio(texts.ROLE, ["post", "pre"], format_func=texts.ROLES.__getitem__, horizontal=True, key="role")

    def add(kept: list[str]) -> None:
        pictures = list(dict.fromkeys(path for path in kept if path.rsplit(".", 1)[-1].lower() in _PICTURES))
        is_pre = st.session_state.get("role") == "pre"
        _start_scenes(layout, pictures if is_pre else [], [] if is_pre else pictures)

    kinds = [*_PICTURES, *_BESIDE]
    _uploads(texts.UPLOAD_SCENES, kinds, "scene-files", texts.ADD_UPLOADS, add, layout, is_running, several=True)
    st.caption(texts.UPLOAD_LIMIT.format(mb=MAX_MB))


def _xbd(layout: Layout, is_running: bool) -> None:
    left, right = st.columns([2, 1])
    left.text_input(texts.XBD_FOLDER, key=own("xbd_folder"), placeholder=texts.XBD_FOLDER_EXAMPLE, help=texts.XBD_HELP)
    right.text_input(texts.XBD_NAMES, key=own("xbd_chosen"), placeholder=texts.XBD_NAMES_EXAMPLE)
    with st.container(horizontal=True):
        file_picker.browse_button("xbd-picker", texts.BROWSE_XBD, "folders", file_picker.into_field(own("xbd_folder")))
        _button(
            texts.ADD_XBD, "add-xbd",
            lambda: jobs.start(layout, AddXbd(_field("xbd_folder"), chosen=_field("xbd_chosen"))),
            is_running, is_main=bool(_field("xbd_folder")),
        )  # fmt: skip


def _scene_table(layout: Layout, overview: Overview, is_running: bool) -> None:
    """Draw the scenes, one a row, with dates that can be changed, and what is done to each as it is read."""
    days = {scene.scene_id: _day(scene.date) for scene in overview.scenes}
    rows: list[dict[str, Any]] = [
        {
            texts.SCENE: scene.scene_id,
            texts.ROLE: texts.PICTURES[scene.role],
            texts.DATE: days[scene.scene_id],
            texts.PIXEL: round(scene.gsd_m, 3),
            texts.SIZE: texts.SIZE_VALUE.format(width=scene.width, height=scene.height),
            texts.CRS: scene.place if scene.crs.startswith("ENGCRS[") else scene.crs[:40],
            texts.BANDS: texts.BANDS_VALUE.format(n=scene.bands, dtype=scene.dtype, rgb="-".join(map(str, scene.rgb))),
        }
        for scene in overview.scenes
    ]
    if any(scene.place for scene in overview.scenes):
        rows = [{**row, texts.PLACED_BY: scene.place} for row, scene in zip(rows, overview.scenes, strict=True)]
    dates = st.column_config.DateColumn(texts.DATE, help=texts.DATE_HELP)
    key = f"scenes-{hash(tuple(days.items()))}"
    st.data_editor(
        rows, key=key, hide_index=True, placeholder=texts.NOT_KNOWN,
        disabled=[name for name in rows[0] if name != texts.DATE], column_config={texts.DATE: dates},
        on_change=frame.does(partial(_change_dates, layout, key, list(days))),
    )  # fmt: skip
    _repairs(overview)
    if sum(scene.role == "post" for scene in overview.scenes) > 1 and st.toggle(texts.CHANGE_SITES, key="change-sites"):
        _change_sites(layout, is_running)
    if st.toggle(texts.REMOVE_OR_REPLACE, key="change-scenes"):
        _change(layout, "scene", [scene.scene_id for scene in overview.scenes], is_running)


def _change_sites(layout: Layout, is_running: bool) -> None:
    """Draw how a site gets a name, sites are joined, and one is divided."""
    found = sites.sites(layout)
    st.caption(texts.SITES_ABOUT)
    left, right = st.columns(2)
    what = left.multiselect(
        texts.SITES_AND_SCENES,
        [*(site.name for site in found), *(one for site in found for one in site.post)],
        key="site-what",
    )
    right.text_input(texts.SITE_NAME, key=own("site-name"), help=texts.SITE_NAME_HELP)
    _button(texts.PUT_IN_SITE, "put-in-site", lambda: jobs.start(layout, PutInSite(what, _field("site-name"))), is_running)


def _change(layout: Layout, kind: Kind, names: Sequence[str], is_running: bool) -> None:
    """Draw how a scene or a layer is removed, or other files are put in its place."""
    left, right = st.columns([2, 3])
    name = left.selectbox(kind.capitalize(), list(names), key=f"{kind}-to-change")
    field, is_several = f"{kind}_new_paths", kind == "layer"
    into = file_picker.into_lines if is_several else file_picker.into_field
    right.text_area(texts.OTHER_FILES[kind], key=own(field), height=80, help=texts.OTHER_FILES_HELP)
    paths = preparation.paths_in(_field(field))[: None if is_several else 1]
    with st.container(horizontal=True):
        remove_dialog.button(layout, kind, name, key=f"remove-{kind}", label=texts.REMOVE, disabled=is_running)
        file_picker.browse_button(
            f"{kind}-new-picker", texts.OTHER_FILES[kind], "scenes", into(own(field)), several=is_several
        )
        if paths:
            remove_dialog.button(
                layout, kind, name, key=f"replace-{kind}", label=texts.REPLACE, paths=paths, disabled=is_running
            )


def _change_dates(layout: Layout, key: str, scene_ids: Sequence[str]) -> None:
    edited = st.session_state[key]["edited_rows"]
    days = {scene_ids[int(row)]: _day(cells[texts.DATE]) for row, cells in edited.items() if texts.DATE in cells}
    scene_pair.set_dates(layout, days)


def _repairs(overview: Overview) -> None:
    """Draw what is done to scenes as they are read, those together to which the same is done."""
    names_of: dict[str, list[str]] = {}
    for name, words in scene_pair.repairs(overview.scenes, overview.grid).items():
        names_of.setdefault(words, []).append(name)
    if set(names_of) == {scene_pair.UNCHANGED}:
        st.caption(texts.UNCHANGED)
        return
    repairs = " · ".join(f"{listed(names)} {words}" for words, names in names_of.items())
    st.caption(texts.HOW_READ.format(repairs=frame.plain(repairs)))


def _day(given: object) -> date | None:
    """Return the day of a date or of an ISO 8601 text; None where it is not known or cannot be read."""
    try:
        return date.fromisoformat(str(given)[:10])
    except ValueError:
        return None


# Layers beside pre and post


def _layers(layout: Layout, overview: Overview, is_running: bool) -> None:
    """Draw the layers that are here, how another one is added, and how one is removed or replaced."""
    st.caption(texts.LAYERS_ABOUT)
    if overview.layer_scenes:
        found = layers.rows(layout)
        st.dataframe([_layer_row(row) for row in found], hide_index=True, key="layers")
    _add_layer_form(layout, overview, is_running)
    if overview.layer_scenes and st.toggle(texts.REMOVE_OR_REPLACE, key="change-layers"):
        _change(layout, "layer", [row["name"] for row in found], is_running)


def _layer_row(row: Mapping[str, Any]) -> dict[str, object]:
    lacks, n = row["n_missing"], row["n_buildings"]
    words = texts.NOT_IN_CHIPS if lacks is None else texts.SOME_LACK_IT.format(n=lacks, of=n) if lacks else texts.ALL_HAVE_IT
    return {
        texts.LAYER: row["name"],
        texts.LAYER_WHEN: texts.LAYER_WHEN_OF[row["when"]],
        texts.LAYER_KIND: texts.LAYER_KINDS[row["kind"]],
        texts.LAYER_FILES: len(row["files"]),
        texts.BANDS: row["bands"],
        texts.PIXEL: round(row["gsd_m"], 2),
        texts.LAYER_LACKS: words,
        texts.LAYER_SCALING: layers.scaling_words([(a, b) for a, b in row["scaling"]], row["unit"]),
    }


def _add_layer_form(layout: Layout, overview: Overview, is_running: bool) -> None:
    known = {scene.path for scene in overview.layer_scenes}
    if _leave(own("layer_paths"), known):
        st.session_state[own("layer_name")] = ""
    left, right = st.columns(2)
    with left:
        st.text_area(
            texts.LAYER_PATHS,
            height=122,
            key=own("layer_paths"),
            placeholder=texts.LAYER_PATHS_EXAMPLE,
            help=texts.LAYER_PATHS_HELP,
        )
    with right:
        name, when = st.columns(2)
        name.text_input(
            texts.LAYER_NAME, key=own("layer_name"), placeholder=texts.LAYER_NAME_EXAMPLE, help=texts.LAYER_NAME_HELP
        )
        when.selectbox(
            texts.LAYER_WHEN, list(texts.LAYER_WHENS), format_func=texts.LAYER_WHENS.__getitem__, key=own("layer_when")
        )
        kind, nodata = st.columns(2)
        kind.selectbox(
            texts.LAYER_KIND,
            list(texts.LAYER_KINDS),
            index=list(texts.LAYER_KINDS).index("other"),
            format_func=texts.LAYER_KINDS.__getitem__,
            key=own("layer_kind"),
            help=texts.LAYER_KIND_HELP,
        )
        nodata.text_input(texts.LAYER_NODATA, key=own("layer_nodata"), placeholder=texts.LAYER_NODATA_EXAMPLE)
    with st.container(horizontal=True):
        file_picker.browse_button(
            "layer-picker", texts.BROWSE_LAYER, "scenes", file_picker.into_lines(own("layer_paths")), several=True
        )
        _button(texts.ADD_LAYER, "add-layer", partial(_add_layer, layout), is_running, is_main=bool(_field("layer_paths")))


def _add_layer(layout: Layout) -> None:
    name, paths = _field("layer_name").strip(), preparation.paths_in(_field("layer_paths"))
    layers.check_name(name)
    is_here = name in {one.name for one in store.call(layout, contents.layers)}
    when, kind = (None, None) if is_here else (_field("layer_when") or "post", _field("layer_kind") or "other")
    jobs.start(layout, AddLayer(name, paths, when=when, kind=kind, nodata=_field("layer_nodata")))  # type: ignore[arg-type]


# Scene files that are missing or changed


def lost_files(layout: Layout, overview: Overview, is_running: bool) -> None:
    """Draw which scene files are missing or changed, and fields to find them again; nothing where all are as they were."""
    found = scene_files.lost([*overview.scenes, *overview.layer_scenes])
    if not found:
        return
    with st.container(border=True, key="lost-files"):
        st.markdown(f":orange[:material/warning:] **{texts.LOST}**")
        _watch(layout, "files")
        for group in found[:_MOST_GROUPS]:
            _lost_group(layout, group, is_running)
        if len(found) > _MOST_GROUPS:
            st.caption(texts.MORE_FOLDERS.format(n=len(found) - _MOST_GROUPS))


def _lost_group(layout: Layout, group: LostFiles, is_running: bool) -> None:
    """Draw the lost files of one folder, and where they are to be found."""
    folder = frame.plain(str(Path(group.scenes[0][0].path).parent))
    missing = [frame.plain(scene.scene_id) for scene, state in group.scenes if state == "missing"]
    changed = [frame.plain(scene.scene_id) for scene, state in group.scenes if state == "changed"]
    for names, words in ((missing, texts.MISSING_FILES), (changed, texts.CHANGED_FILES)):
        if names:
            st.markdown(words.format(scenes=listed(names), folder=folder))
    key = f"lost-{frame.digest([group.old])}"
    with st.container(horizontal=True, vertical_alignment="bottom"):
        st.text_input(
            texts.NEW_FOLDER if group.is_folder else texts.NEW_FILE, key=own(f"{key}-path"), help=texts.RELINK_HELP,
            placeholder=texts.NEW_FOLDER_EXAMPLE if group.is_folder else texts.NEW_FILE_EXAMPLE,
        )  # fmt: skip
        file_picker.browse_button(
            f"{key}-picker", texts.BROWSE_FOLDER if group.is_folder else texts.BROWSE_FILE,
            "folders" if group.is_folder else "scenes", file_picker.into_field(own(f"{key}-path")), disabled=is_running,
        )  # fmt: skip
        _button(
            texts.RELINK_FOLDER if group.is_folder else texts.RELINK, f"{key}-relink",
            lambda: jobs.start(layout, Relink(group.old, _field(f"{key}-path"))), is_running,
            is_main=bool(_field(f"{key}-path")),
        )  # fmt: skip


# The scene pair


def verdict(layout: Layout, pair: Pair, overview: Overview) -> None:
    """Draw whether the pair is usable, its figures and its imagery; nothing before there is a post scene."""
    if not pair.checks:
        return
    worries = [
        f"**{check.name}: {frame.plain(check.value)}.** {frame.plain(check.worry)}" for check in pair.checks if check.worry
    ]
    found = sites.sites(layout)
    worries += sites.lacking_words(found)
    has_pre = any(scene.role == "pre" for scene in overview.scenes)
    with st.container(border=True, horizontal=len(found) == 1, gap="medium"):
        _pictures(layout, overview, found)
        with st.container(width="stretch"):
            if worries:
                st.markdown(f":orange[:material/warning:] **{texts.WORRIES}**")
                st.markdown("\n".join(f"- {worry}" for worry in worries))
                if any(check.name == scene_pair.KINDS and check.worry for check in pair.checks):
                    frame.link("annotate", texts.MARK_EACH)
            elif not overview.n_buildings:
                st.markdown(f":blue[:material/info:] **{texts.NO_BUILDINGS}** {texts.NEEDS_BUILDINGS}")
            elif has_pre and not pair.shift:
                st.markdown(f":blue[:material/info:] **{texts.FITS_SO_FAR}** {texts.NOT_MEASURED}")
            else:
                st.markdown(f":green[:material/check_circle:] **{texts.USABLE}**")
            st.html(_WHOLE_HEADINGS)
            with st.container(horizontal=True, gap="medium", key="pair-figures"):
                for check in pair.checks:
                    st.metric(check.name, frame.plain(check.value), help=frame.plain(check.words) or None, width="content")


def _pictures(layout: Layout, overview: Overview, found: Sequence[Site]) -> None:
    """Draw each date of each site, scene by scene where scenes are few and far between; of several sites, with what each of
    them has and lacks.
    """
    dates = [layer for layer in overview.layers if layer["name"] in texts.PICTURES]
    if not dates:
        return
    place = f"{PREFIX}/{projects.token_of(layout)}/tiles"
    drawn = [
        f'<section><div class="pugeo-dates">'
        f"{''.join(_picture(place, date, box, escape(name)) for date in dates)}</div>{words}</section>"
        for site in found for name, box, words in _boxes(site, is_only=len(found) == 1)
    ]  # fmt: skip
    st.html(f'{_FIGURES}<div class="pugeo-sites">{"".join(drawn)}</div>', width="content" if len(drawn) == 1 else "stretch")


def _boxes(site: Site, *, is_only: bool) -> list[tuple[str, tuple[int, ...], str]]:
    """Return what is drawn of a site: name, box in the project's pixels, and HTML to stand below it."""
    grid, name = site.grid, escape(site.name)
    sizes = [(right - left) * (bottom - top) for left, top, right, bottom in grid.boxes]
    if is_only and len(sizes) > 1 and sum(sizes) < _SPARSE * grid.width * grid.height:
        return [(scene, tuple(map(int, box)), escape(scene)) for scene, box in zip(grid.scenes, grid.boxes, strict=True)][
            :_MOST_PICTURES
        ]
    whole = (0, grid.row, grid.width, grid.row + grid.height)
    return [(site.name, whole, "" if is_only else f"<b>{name}</b> {escape(site.words)}")]


def _picture(place: str, date: Mapping[str, Any], box: Sequence[int], name: str) -> str:
    """Return what a date has in a box as HTML, of the coarsest map tiles that show it in some detail."""
    left, top, right, bottom = box
    width, height = right - left, bottom - top
    side = date["tile_px"] * next((px for px in date["resolutions"] if px * date["tile_px"] < 2 * height), 1)
    zoom = date["resolutions"].index(side // date["tile_px"])
    images = "".join(
        f'<img src="{place}/{date["name"]}/{zoom}/{x}/{y}.jpg" alt="" loading="lazy" style="left: '
        f"{100 * (x * side - left) / width:.3f}%; top: {100 * (y * side - top) / height:.3f}%; width: "
        f'{100 * side / width:.3f}%">'
        for y in range(top // side, -(-bottom // side)) for x in range(left // side, -(-right // side))
    )  # fmt: skip
    return (
        f'<figure><div role="img" aria-label="{texts.PICTURE.format(role=date["name"], site=name)}" '
        f'style="aspect-ratio: {width} / {height}">{images}</div>'
        f"<figcaption>{texts.PICTURES[date['name']]}</figcaption></figure>"
    )


_WHOLE_HEADINGS = "<style>.st-key-pair-figures [data-testid='stMetricLabel'] * { white-space: normal; }</style>"
"""Headings of figures take two lines where one would be cut."""

_FIGURES = """<style>
.pugeo-dates { display: flex; gap: 0.5rem; }
.pugeo-dates figure { margin: 0; }
.pugeo-dates div { height: 7rem; border-radius: 0.3rem; overflow: hidden; position: relative; background: #666; }
.pugeo-dates img { position: absolute; max-width: none; }
.pugeo-sites { display: flex; flex-wrap: wrap; gap: 1rem; font-size: 0.8rem; max-height: 22rem; overflow-y: auto; }
.pugeo-sites section { width: min-content; min-width: 15rem; }
.pugeo-dates figcaption { font-size: 0.8rem; }
</style>"""


# Footprints


def footprints(
    layout: Layout, overview: Overview, pair: Pair, here: Outlines, now: Step, is_running: bool
) -> None:  # fmt: skip
    """Draw step 2: the account of each footprint file, the area of interest, and ways to add them."""
    n_post = sum(scene.role == "post" for scene in overview.scenes)
    with _step(2, texts.FOOTPRINTS, texts.footprints_here(overview.units, len(pair.bare), n_post), ["footprints"], now):
        if overview.grid is None:
            st.caption(texts.NEEDS_SCENE)
            return
        _watch(layout, "footprints")
        ways = {
            **({texts.HERE: lambda: _here(layout, overview, here, is_running)} if overview.n_buildings else {}),
            texts.FOOTPRINT_FILES: lambda: _footprint_path(layout, now, is_running),
            texts.UPLOAD_FOOTPRINTS: lambda: _uploads(
                texts.FORMATS,
                _VECTORS,
                "footprint-file",
                texts.ADD_UPLOAD,
                partial(_start_footprints, layout),
                layout,
                is_running,
            ),
            texts.GRID: lambda: _lay_grid(layout, is_running),
            texts.AOI_TAB: lambda: _aoi(layout, here, is_running),
        }
        _tabs(ways)
        st.caption(texts.IN_QGIS, help=frame.plain(str(layout.folder)))


def _here(layout: Layout, overview: Overview, here: Outlines, is_running: bool) -> None:
    """Draw the accounts of footprint files, and how footprints are removed or replaced."""
    if here.imports:
        _accounts(here)
    if st.toggle(texts.REMOVE_OR_REPLACE, key="change-footprints"):
        _change_footprints(layout, overview, here, is_running)


def _change_footprints(layout: Layout, overview: Overview, here: Outlines, is_running: bool) -> None:
    which = {
        "all": texts.ALL_FOOTPRINTS.format(n=texts.footprints_here(overview.units)),
        **({"outside-aoi": texts.OUTSIDE_AOI} if here.aoi is not None else {}),
        **{f"file:{one.file}": texts.OF_FILE.format(file=one.file) for one in here.imports},
    }
    left, right = st.columns(2, vertical_alignment="bottom")
    with left:
        name = st.selectbox(texts.FOOTPRINTS, list(which), format_func=which.__getitem__, key="footprints-to-remove")
        remove_dialog.button(
            layout, "footprints", name, key="remove-footprints", label=texts.REMOVE_FOOTPRINTS, disabled=is_running
        )
    with right:
        st.text_input(
            texts.NEW_FOOTPRINTS, key=own("footprint_new_path"), placeholder=texts.FOOTPRINT_EXAMPLE, help=texts.FORMATS
        )
        with st.container(horizontal=True):
            file_picker.browse_button(
                "footprint-new-picker", texts.NEW_FOOTPRINTS, "vectors", file_picker.into_field(own("footprint_new_path"))
            )
            _button(
                texts.COMPARE_FOOTPRINTS, "compare-footprints", lambda: removing.start_replacing_footprints(
                    layout, preparation.first_path(_field("footprint_new_path")), frame.analyst()
                ), is_running,
                help=texts.COMPARE_HELP,
            )  # fmt: skip


def _accounts(here: Outlines) -> None:
    """Draw what became of each file: features in it = kept + repaired + dropped."""
    rows = [
        {
            texts.FILE: one.file, texts.ADDED: when(one.at), texts.FEATURES_IN: one.n_in, texts.KEPT: one.kept,
            texts.REPAIRED: one.repaired, texts.LEFT_OUT: one.n_dropped,
            texts.WHY: ", ".join(texts.REASON.format(n=n, reason=reason) for reason, n in one.dropped.items()),
        }
        for one in here.imports
    ]  # fmt: skip
    counted = {texts.FEATURES_IN: st.column_config.NumberColumn(texts.FEATURES_IN, help=texts.FEATURES_HELP)}
    st.dataframe(rows, hide_index=True, key="accounts", column_config=counted)
    files: dict[str, list[str]] = {}
    for one in here.imports:
        files.setdefault(" ".join(one.notes), []).append(one.file)
    for notes, names in files.items():
        if notes:
            frame.caption(texts.FILE_NOTES.format(file=listed(names), notes=notes))
    for words in dict.fromkeys(words for one in here.imports for words in one.doubts):
        frame.warn(words)


def _footprint_path(layout: Layout, now: Step, is_running: bool) -> None:
    left, right = st.columns([3, 1])
    left.text_area(
        texts.FOOTPRINT_PATHS, key=own("footprint_paths"), placeholder=texts.FOOTPRINT_EXAMPLE, help=texts.FORMATS, height=80
    )
    right.text_input(texts.CRS_MISSING, key=own("footprint_crs"), placeholder=texts.CRS_EXAMPLE)

    with st.container(horizontal=True):
        _button(
            texts.ADD_FOOTPRINTS, "add-footprints",
            lambda: _start_footprints(layout, preparation.paths_in(_field("footprint_paths"))), is_running,
            is_main=bool(_field("footprint_paths")),
        )  # fmt: skip
        if now != "footprints":
            _choose_footprints(layout, "more-footprints", is_running)


def _start_footprints(layout: Layout, paths: list[str]) -> None:
    jobs.start(layout, AddFootprints(paths, crs=_field("footprint_crs")))


def _lay_grid(layout: Layout, is_running: bool) -> None:
    with st.container(horizontal=True, vertical_alignment="bottom"):
        st.number_input(texts.GRID_SIDE, 5, 1000, 30, 5, key=own("grid_side"), width=200, help=texts.GRID_HELP)
        _button(texts.CREATE_GRID, "add-grid", lambda: jobs.start(layout, AddGrid(float(_field("grid_side")))), is_running)


def _aoi(layout: Layout, here: Outlines, is_running: bool) -> None:
    if here.aoi is not None:
        known = preparation.last_aoi_words(layout) or texts.AOI_LIMIT.format(source=here.aoi.source)
        st.caption(f":material/crop_free: {frame.plain(known)}")
    left, right = st.columns(2)
    left.text_input(
        texts.AOI_FILE, key=own("aoi_path"), placeholder=texts.AOI_EXAMPLE, help=f"{texts.AOI_HELP} {texts.FORMATS}"
    )
    right.text_input(texts.AOI_TEXT, key=own("aoi_text"), placeholder=texts.AOI_TEXT_EXAMPLE, help=texts.AOI_HELP)
    with st.container(horizontal=True):
        file_picker.browse_button("aoi-picker", texts.BROWSE_AOI, "vectors", file_picker.into_field(own("aoi_path")))
        _button(
            texts.REPLACE_AOI if here.aoi else texts.SET_AOI,
            "set-aoi",
            lambda: jobs.start(layout, AddAoi(preparation.first_path(_field("aoi_path")), text=_field("aoi_text"))),
            is_running,
        )
        if here.aoi is not None:
            _button(texts.REMOVE_AOI, "remove-aoi", lambda: preparation.remove_aoi(layout), is_running)
        if here.aoi_before is not None:
            label = texts.RESTORE_AOI.format(source=frame.plain(here.aoi_before.source[:40]))
            _button(label, "restore-aoi", lambda: preparation.put_back_aoi(layout), is_running)
    districts = ", ".join(f"{frame.plain(name)} ({n:,})" for name, n in here.areas.items())
    st.caption(texts.DISTRICTS.format(layers=districts or texts.NONE_YET))


# Chips


def chips(layout: Layout, overview: Overview, pair: Pair, now: Step, is_running: bool) -> None:
    """Draw step 3: how pre fits post, and cutting chips."""
    made = overview.chips
    shown = ", ".join([made["bands"], *made.get("view_missing", ())]) if made else ""
    here = texts.chips_here(len(made["building_ids"]), made["size_px"], shown) if made else ""
    with _step(3, texts.CHIPS, here, ["align", "chips"], now):
        if not overview.n_buildings:
            st.caption(texts.NEEDS_FOOTPRINTS)
            return
        has_pre = any(scene.role == "pre" for scene in overview.scenes)
        if pair.stale:
            st.warning(texts.STALE.format(why=frame.plain(pair.stale)), icon=":material/warning:")
        if has_pre:
            with st.container(horizontal=True, vertical_alignment="center"):
                label = texts.ALIGN_AGAIN if pair.shift else texts.ALIGN
                _button(label, "align", partial(jobs.start, layout, "align", {}), is_running, help=texts.ALIGN_HELP)
                st.caption(texts.ALIGNED.format(how=pair.shift) if pair.shift else texts.NOT_ALIGNED)
        with st.container(horizontal=True, vertical_alignment="bottom"):
            ways = ["auto", "pre+post", "post"] if has_pre else ["post"]
            st.radio(texts.CHIP_BANDS, ways, horizontal=True, key=own("chip_bands"), help=texts.CHIP_BANDS_HELP)
            st.select_slider(
                texts.CHIP_SIZE, [32, 48, 64, 96, 128], value=64, key=own("chip_size"), width=280, help=texts.CHIP_SIZE_HELP
            )
            _button(texts.CUT_AGAIN if made else texts.CUT, "chip", partial(_cut, layout), is_running)
            if made:
                known = features.overview(layout)
                with st.popover(texts.FEATURES, icon=":material/tune:"):
                    _features(layout, known, is_running)
                with st.popover(texts.REMOVE, icon=":material/more_horiz:", key=remove_dialog.menu_key("chips-menu")):
                    _remove_chips(layout, overview, known, is_running)
            cluster_field.draw(_CLUSTER, texts.CLUSTER_ABOUT)
        _watch(layout, "chips")
        if made and (note := features.note(layout)):
            frame.warn(note)


def _remove_chips(layout: Layout, overview: Overview, known: FeatureSets, is_running: bool) -> None:
    chip_set = st.selectbox(texts.CHIP_SET, list(overview.chip_sets), key="chips-to-remove")
    remove_dialog.button(layout, "chips", chip_set, key="remove-chips", label=texts.REMOVE_CHIPS, disabled=is_running)
    if others := [one.name for one in known.sets if one.name != RCF]:
        name = st.selectbox(texts.FEATURES, others, key="features-to-remove")
        remove_dialog.button(
            layout, "features", name, key="remove-features", label=texts.REMOVE_FEATURES, disabled=is_running
        )


def _cut(layout: Layout, *, align: bool = False) -> None:
    size_px, bands = int(st.session_state.get(own("chip_size")) or 64), _field("chip_bands")
    has_pre = any(scene.role == "pre" for scene in preparation.overview(layout).scenes)
    ways = bands or ("auto" if has_pre else "post")
    jobs.start(layout, Chip(size_px, bands=ways, align=align, cluster=cluster_field.given(_CLUSTER)))  # type: ignore[arg-type]


def _features(layout: Layout, known: FeatureSets, is_running: bool) -> None:
    """Draw the feature sets of the chips, which one is used, and how another one is made."""
    st.caption(texts.FEATURES_ABOUT)
    for one in known.sets:
        words = texts.FEATURE_LINE.format(title=features.title_of(one.name, one.maker), n=one.n_features)
        st.markdown(f"- {frame.plain(words)}", help=frame.plain(features.words_of(one.name, one.maker)))
    if len(known.sets) > 1 or known.note:
        makers = {one.name: one.maker for one in known.sets}
        key = f"feature-set-{known.in_use}"
        chosen = st.selectbox(
            texts.FEATURES_USED, known.names, index=known.names.index(known.in_use), key=own(key),
            format_func=lambda name: features.title_of(name, makers[name]),
        )  # fmt: skip
        is_same = chosen == known.in_use and not known.note
        _button(texts.USE_FEATURES, "use-features", lambda: features.choose(layout, _field(key)), is_running or is_same)
    if layers := features.layers_here(layout):
        usual = [name for name in layers if name not in ("pre", "post") or "pre+post" not in layers]
        box = f"feature-layers-{frame.digest(layers)}"
        chosen_layers = st.multiselect(
            texts.FEATURE_LAYERS, layers, usual, key=box, help=texts.FEATURE_LAYERS_HELP, format_func=texts.layer_choice
        )
        _button(
            texts.MAKE_FEATURES, "make-features",
            lambda: features.start_layers(layout, st.session_state[box], cluster=cluster_field.given(_CLUSTER)),
            is_running or not chosen_layers,
        )  # fmt: skip
    if not any(one.maker.get("kind") == SHARED for one in known.sets):
        _button(
            texts.MAKE_SHARED, "make-shared-features",
            lambda: features.start_maker(layout, SHARED, cluster=cluster_field.given(_CLUSTER)), is_running,
            help=texts.MAKE_SHARED_HELP,
        )  # fmt: skip
    path = st.text_input(texts.BACKBONE, key=own("backbone"), help=texts.BACKBONE_HELP)
    _button(
        texts.MAKE_BACKBONE, "make-backbone-features",
        lambda: features.start_maker(layout, "backbone", backbone=path, cluster=cluster_field.given(_CLUSTER)),
        is_running or not path.strip(),
    )  # fmt: skip
    st.caption(texts.FEATURES_MORE)
    st.code(texts.FEATURES_COMMANDS.format(folder=layout.folder.name), language=None, wrap_lines=True)
