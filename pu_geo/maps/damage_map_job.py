"""The damage map as exports have it: every building with its score, label, audit figures and provenance."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import shapely
from numpy.typing import NDArray

from pu_geo import __version__
from pu_geo.analysis import assessability
from pu_geo.assessment import auditing
from pu_geo.errors import ProjectError, PuGeoError
from pu_geo.geo.local_space import COORDINATES, centroid_places, place_names
from pu_geo.geo.raster.placement import moved_to
from pu_geo.geo.vector import crs as systems
from pu_geo.geo.vector.aoi import touching
from pu_geo.geo.vector.areas import assign, centroids
from pu_geo.geo.vector.duplicates import twins
from pu_geo.maps import damage_map as maps
from pu_geo.maps import damage_types
from pu_geo.records import LABEL_NAMES, DamageMap, Facts, Floats, FootprintTable, RunFacts, Scene, Singles, Units, rows_of
from pu_geo.runs import training
from pu_geo.scenes import scene_files
from pu_geo.store import (
    alignment,
    aoi,
    areas,
    choices,
    contents,
    discoveries,
    freshness,
    import_log,
    labels,
    population,
    rounds,
    runs,
    store,
)
from pu_geo.store.choices import NOT_AUDITED
from pu_geo.store.job import Job, Part
from pu_geo.store.layout import Layout

Columns = dict[str, Sequence[object]]
SCHEMA_VERSION = "1.3"
DISCLAIMER = "Preliminary damage map from satellite or aerial imagery; not field-validated."
OWN_SCORES = "own_scores"  # method of a map whose scores no run of the project made
_NO_RUN = dict.fromkeys(("preset", "seed", "trained_on_labels_up_to_event", "n_positive_clicks"))
MOST_FLAGGED_BY_ROUNDING = 0.01  # of all buildings


def build_damage_map(
    layout: Layout,
    run_id: str,
    threshold: float | None,
    *,
    version: str | None = None,
    threshold_origin: str = choices.PERSON,
) -> DamageMap:
    """Collect every building with its score, label, audit and provenance, as they stand now.

    Args:
        run_id: of a finished run, "chosen" or "latest".
        threshold: buildings with at least this score are flagged, 0..1; the one that was chosen for the run if None.
        version: of the product, such as "v2".
        threshold_origin: who or what set `threshold`, see `choices.Threshold`.
    """
    limit = None if threshold is None else choices.Threshold(round(threshold, 4), threshold_origin)
    shown = maps.of_run(layout, run_id, limit)
    if not layout.chip_facts(shown.chip_set).is_file():
        raise ProjectError(
            f"The facts of the chips {shown.chip_set} that run {run_id} scored are gone.", "Cut chips and train again."
        )
    return _collect(shown, version)


def map_for(job: Job, run_id: str, threshold: float | None, origin: str, version: str | None = None) -> DamageMap:
    """Collect the same for a job, once the files of the scenes were compared with those that were added."""
    job.report(0.05, "collecting scores and labels")
    scene_files.settle(job.layout, report=Part(job, 0.0, 0.05).report, is_cancelled=job.is_cancelled)
    return build_damage_map(job.layout, run_id, threshold, version=version, threshold_origin=origin)


def build_own_map(
    layout: Layout, scores: NDArray[np.floating], threshold: float, *, chip_set: str | None = None
) -> DamageMap:
    """Collect the same of scores that no run of this project made; nothing of them is stored.

    The map says so: no run, no audit, method "own_scores", and a first sentence on what it cannot say. Labels, what the
    imagery hides and what groups of scenes have no answers are as in every other map.

    Args:
        scores: [N] in 0..1, one a building of the chip set, in its order; higher is more likely damaged.
        threshold: buildings with at least this score are flagged, 0..1.
        chip_set: the newest one if None.

    Raises:
        ProjectError: if there are no chips yet.
        PuGeoError: for scores of another number or out of range, or such a threshold.
    """
    check_threshold(threshold)
    limit, (chips, pu) = round(float(threshold), 4), training.to_learn_from(layout, chip_set)
    given = _checked_scores(scores, len(pu.building_ids))
    is_flagged = runs.written(given) >= limit
    if limit != threshold:
        n, n_given, n_written = len(given), int((given >= threshold).sum()), int(is_flagged.sum())
        if abs(n_given - n_written) > max(1, MOST_FLAGGED_BY_ROUNDING * n):
            raise PuGeoError(
                f"{n_given:,} of {n:,} scores reach the threshold, and {n_written:,} do once they are written with 4 "
                "decimals, as in every map.",
                "Spread the scores over 0..1, such as by ranks: scipy.stats.rankdata(scores) / len(scores), the threshold "
                "likewise.",
            )
    silent = assessability.groups_without_answers(chips, pu.is_positive, pu.is_not_damaged, is_flagged)
    why = assessability.by_building(pu.building_ids, assessability.reasons(chips, silent))
    there = store.call(layout, contents.building_ids)
    buildings = population.of_scores(layout, there, pu.building_ids, given, why)
    return _collect(maps.DamageMap(layout, chips["chip_set"], choices.Threshold(limit, choices.PERSON), buildings), None)


def check_threshold(threshold: float) -> None:
    """Refuse what is no score."""
    if not 0 <= threshold <= 1:
        raise PuGeoError(f"The threshold is {threshold}; scores lie between 0 and 1.", "Choose a value in between.")


def _checked_scores(scores: NDArray[np.floating], n: int) -> Singles:
    """Return own scores as float32 [n]; refuse what is none, in words."""
    given = np.asarray(scores)
    if given.shape != (n,) or given.dtype.kind != "f":
        raise PuGeoError(
            f"The scores have shape {given.shape} and type {given.dtype}; this map needs floating-point numbers of shape "
            f"({n},), one a building.",
            "Give them in the order of `project.building_ids()`.",
        )
    wrong = np.flatnonzero(~((given >= 0) & (given <= 1)))
    if len(wrong):
        raise PuGeoError(
            f"{len(wrong)} of {n} scores do not lie between 0 and 1; the first is {given[wrong[0]]}, in row {wrong[0]}.",
            "Scale them so that 1 is most surely damaged, and give every building one.",
        )
    return given.astype(np.float32)


def _collect(shown: maps.DamageMap, version: str | None) -> DamageMap:
    """Put a map together with geometry, imagery and provenance as they stand now."""
    layout, run, chips, limit = shown.layout, shown.run, shown.chips, shown.limit
    with store.connect(layout) as db:
        table, grid, scenes = contents.footprints(db), contents.grid(db), contents.scenes(db)
        name, newest, outlines = store.project_name(db), labels.last_event(db), contents.footprint_sources(db)
        guessed = discoveries.type_of(db)
    ids, n = table.building_ids, len(table.wkb)
    audit = None if run is None else auditing.facts(layout, run.run_id, limit.value)
    (x_name, y_name), (x, y) = place_names(grid.crs), centroid_places(table.wkb, grid.crs)
    results, people = shown.results, shown.people
    made_at = store.now() if run is None else run.created_at
    provenance = {
        "method": OWN_SCORES if run is None else run.method, "run_id": run and run.run_id, "run_at": made_at,
        "round": rounds.read(layout).number, "product_version": version, "schema_version": SCHEMA_VERSION,
    }  # fmt: skip
    columns: Columns = {
        "building_id": list(ids),
        "source_footprint": list(outlines),
        "area_m2": [round(float(area), 1) for area in table.area_m2],
        x_name: x.tolist(),
        y_name: y.tolist(),
        **({"site": shown.population.sites.named} if grid.sites else {}),
        **results,
        **_audited(results, people["label"], audit),
        **people,
        **damage_types.columns(shown.types),
        "discovered_type": [  # by a machine: not of what was not assessed, or not damaged
            None if how == "not_assessed" or label == LABEL_NAMES["not_damaged"] else guessed.get(building)
            for building, how, label in zip(ids, results["triage"], people["label"], strict=True)
        ],
        **districts(layout, table),
        **shifts(layout, table, scenes),
        "audit_weight": _weights(ids, shown, audit),
        **_imagery(ids, chips),
        **{column: [value] * n for column, value in provenance.items()},
        "source_attributes": list(table.attributes),
    }
    layers, types = shown.layers, shown.types
    n_hidden = run.n_hidden if run else int((assessability.reasons(chips) != "").sum())
    metadata: dict[str, object] = {
        "title": f"Damage map: {name}",
        "disclaimer": DISCLAIMER,
        "made_with": f"PU-Geo {__version__}",
        "schema_version": SCHEMA_VERSION,
        "run_id": run and run.run_id,
        "method": provenance["method"],
        **(_NO_RUN if run is None else _about_run(run)),
        "threshold": limit.value,
        "threshold_origin": limit.origin,
        "audit_id": audit["check_id"] if audit is not None and audit["total"]["value"] is not None else NOT_AUDITED,
        "counts": {kind: shown.n[kind] for kind in population.CLASSES},
        **({"sites": shown.sites} if grid.sites else {}),
        "audit": None if audit is None else {key: value for key, value in audit.items() if key != "calibration"},
        "run_warnings": list(run.warnings) if run else [],
        "sha256": {str(scene["scene_id"]): scene["sha256"] for scene in _scenes_used(chips)},
        "labels_up_to_event": newest,
        "estimate": auditing.how_many(layout).as_mapping(),
        "bands": chips["bands"],
        "bands_why": chips.get("bands_why", ""),
        "n_hidden_from_training": n_hidden,
        "scenes": [row.as_mapping() for row in shown.scenes],
        "in_doubt": shown.in_doubt,
        "out_of_date": freshness.of_chips(layout, shown.chip_set).words,
        **({"types": shown.type_facts, "types_rule": types.rule} if types.types else {}),
        **({"layers": layers} if layers else {}),
    }
    columns |= _layers_missing(ids, chips, layers)
    about = {**interest(layout, table, grid.crs, made_at), **doubles(table, outlines), **sources(layout, scenes)}
    metadata |= about
    if not grid.has_place:
        metadata["coordinates"] = COORDINATES
    if version:
        metadata["product_version"] = version
    metadata["cannot_say"] = [*shown.cannot_say, *of_outlines(about, shown.units, n)]
    return DamageMap(ids, table.wkb, columns, grid.crs, metadata)


def _audited(results: Mapping[str, Sequence[Any]], label: Sequence[object], audit: Facts | None) -> Columns:
    """Return chances of damage, and triage by the audit's two thresholds, for buildings that nobody answered."""
    columns: Columns = dict.fromkeys(("p_damaged", "p_low", "p_high"), [None] * len(label))
    if audit is None:
        return columns
    scores = [None if given else score for given, score in zip(label, results["score"], strict=True)]
    if curve := audit["calibration"]:
        known = np.array([np.nan if score is None else score for score in scores])
        for name, key in (("p_damaged", "p"), ("p_low", "p_low"), ("p_high", "p_high")):
            found = np.interp(known, curve["score"], curve[key])
            columns[name] = [None if np.isnan(value) else round(float(value), 6) for value in found]
    bands = {"flagged": "high_precision", "below": "high_recall"}
    least = {triage: audit["bands"][name] for triage, name in bands.items()}
    columns["triage"] = [
        triage if score is None or least.get(triage) is None or score < least[triage] else bands[triage]
        for triage, score in zip(results["triage"], scores, strict=True)
    ]
    return columns


def _weights(ids: Sequence[str], shown: maps.DamageMap, audit: Facts | None) -> list[object]:
    """Return how many buildings each building of the audit's sample represents; None for those that do not count."""
    if audit is None or shown.audit is None:
        return [None] * len(ids)
    sample, own = shown.audit.done.sample, shown.chips["building_ids"]
    drawn, share = sample.stratum[: sample.n_drawn], sample.inclusion()
    weight = np.divide(1.0, share, out=np.zeros(len(share)), where=share > 0)
    rows, weights = sample.rows[: sample.n_drawn].tolist(), weight[drawn].round(4).tolist()
    of_building = {own[row]: one for row, one in zip(rows, weights, strict=True)}
    return list(map(of_building.get, ids))


def _scenes_used(chips: Facts) -> list[Facts]:
    """Return the scenes that a chip set was cut from, each with its "scene_id", "role", "date", "gsd_m" and "sha256"."""
    used = ("pre", "post") if assessability.needs_pre(chips) else ("post",)
    return [{"scene_id": name, **one} for name, one in chips["scenes"].items() if one["role"] in used]


def _imagery(ids: Sequence[str], chips: Facts) -> Columns:
    """Return, building by building, the scenes that the run's chip was cut from, and how much of the outline is hidden
    there.

    Null for buildings without a chip; of the pre scenes also where the run does not use them.
    """
    n, rows = len(chips["building_ids"]), rows_of(ids, chips["building_ids"]).tolist()
    columns: Columns = {}
    for role in ("pre", "post"):
        used = {one["scene_id"]: one for one in _scenes_used(chips) if one["role"] == role}
        shown = chips.get(f"{role}_scene") or [next(iter(used), None)] * n
        lacks = assessability.lacks_pre(chips) if role == "pre" else np.zeros(n, np.bool_)
        scenes = [None if row < 0 or lacks[row] else used.get(shown[row]) for row in rows]
        columns[f"{role}_image_id"] = [one and one["scene_id"] for one in scenes]
        columns[f"{role}_date"] = [one and one["date"] for one in scenes]
        if role == "post":
            columns["post_gsd_m"] = [one and round(float(one["gsd_m"]), 3) for one in scenes]
        share = assessability.hidden_share(chips, role)
        known = [None] * n if share is None else share.round(4).tolist()
        columns[f"{role}_hidden_share"] = [None if row < 0 else known[row] for row in rows]
    return columns


def _layers_missing(ids: Sequence[str], chips: Facts, found: Sequence[Facts]) -> Columns:
    """Return which of the layers that the run learned from do not show each building; nothing where it learned from none."""
    names = [one["name"] for one in found if one["is_used"]]
    if not names:
        return {}
    lacks = dict(zip((view.name for view in contents.views_of(chips)), contents.is_missing(chips), strict=True))
    rows = rows_of(ids, chips["building_ids"]).tolist()
    return {"layers_missing": [None if row < 0 else [name for name in names if lacks[name][row]] for row in rows]}


def _about_run(facts: RunFacts) -> Facts:
    """Return how a run was made and what it learned from, as metadata of its map."""
    has_features = facts.settings.get("backbone", "features") == "features"  # else it learned from the chips themselves
    return {
        "preset": facts.preset,
        "seed": facts.seed,
        "trained_on_labels_up_to_event": None if facts.from_model else facts.at_event,
        **({"from_model": dict(facts.from_model)} if facts.from_model else {}),
        "feature_set": facts.feature_set if has_features else None,
        "feature_maker": dict(facts.feature_maker) if has_features else None,
        "n_positive_clicks": facts.n_positive,
        **({"n_accepted_from_clusters": facts.n_accepted} if not facts.from_model else {}),
        "ranking_evidence": facts.evidence,
        **({} if facts.place is None else {"evidence_from_place": dict(facts.place)}),
    }


def districts(layout: Layout, table: FootprintTable) -> Columns:
    """Return codes and names of the administrative areas of buildings, where layers adm1 and adm2 were added."""
    columns: Columns = {}
    for level in ("adm1", "adm2"):
        with store.connect(layout) as db:
            layer = areas.load_areas(db, level) if level in areas.layers(db) else areas.AreaLayer(level, [], [], [])
        index = assign(centroids(table.wkb), layer.wkb)[0].tolist()
        columns[f"{level}_pcode"] = [layer.pcodes[i] if i >= 0 else None for i in index]
        columns[f"{level}_name"] = [layer.names[i] if i >= 0 else None for i in index]
    del columns["adm1_name"]
    return columns


def shifts(layout: Layout, table: FootprintTable, scenes: Sequence[Scene]) -> Columns:
    """Return by how many metres the pre scenes must move to fit the post scenes at each building, and how sure that is."""
    found = alignment.load(layout, table.building_ids, scenes)
    if found is None:
        return dict.fromkeys(("shift_dx_m", "shift_dy_m", "shift_quality"), [None] * len(table.wkb))

    def column(values: Floats) -> list[object]:
        return [round(float(one), 2) if sure > 0 else None for one, sure in zip(values, found.quality, strict=True)]

    return {
        "shift_dx_m": column(found.dx_m),
        "shift_dy_m": column(found.dy_m),
        "shift_quality": [round(float(one), 2) for one in found.quality],
    }


def interest(layout: Layout, table: FootprintTable, crs: str, run_at: str) -> Facts:
    """Return the area of interest that the map's buildings were taken in by, and whether it chose them.

    Args:
        run_at: when the run was made, RFC 3339 UTC.

    Returns:
        {"aoi": {"source", "since", "wkt": longitude/latitude or local meters, "selected_buildings": every footprint before
        the run was taken in while it stood, "set_after_run", "n_outside": buildings of the map outside it, "stands": it is
        the project's area still}}; nothing where no area was ever in force or is now.
    """
    with store.connect(layout) as db:
        now, accounts = aoi.current(db), import_log.all_records(db)
        taken = [one.at for one in accounts if one.at <= run_at and one.kept + one.repaired]
        held = [aoi.in_force(db, at) for at in taken]
    found = next((area for area in held if area is not None), now)
    if found is None:
        return {}
    n_outside = int((~touching(np.array(list(table.wkb), dtype=object), found.wkb)).sum()) if table.wkb else 0
    is_after = found.at > run_at
    chose = all(area is not None and area.wkb == found.wkb for area in held) if held else n_outside == 0 and not is_after
    (wkb,) = [found.wkb] if systems.is_local(crs) else moved_to([found.wkb], crs, systems.LONLAT)
    wkt = shapely.to_wkt(shapely.from_wkb(wkb), rounding_precision=7)
    area = {"source": found.source, "since": found.at, "wkt": wkt, "selected_buildings": chose, "set_after_run": is_after}
    return {"aoi": {**area, "n_outside": n_outside, "stands": now is not None and now.wkb == found.wkb}}


def sources(layout: Layout, scenes: Sequence[Scene]) -> Facts:
    """Return {"sources_changed", "sources_missing"}: scenes whose file is not the one that was added, or is not there."""
    states = scene_files.settle(layout, scenes)
    return {f"sources_{state}": [name for name, one in states.items() if one == state] for state in ("changed", "missing")}


def doubles(table: FootprintTable, sources: Sequence[str]) -> Facts:
    """Return {"n_duplicates": buildings that the map has further up already, by their outlines}.

    Whoever adds up the map counts them twice.
    """
    is_building = np.array(sources, dtype=np.str_) != "grid"
    outlines = shapely.from_wkb(np.array(list(table.wkb), dtype=object)[is_building])
    return {"n_duplicates": int(twins(outlines).sum())}


def of_outlines(about: Facts, units: Units, n: int) -> list[str]:
    """Return what of n outlines a reader could mistake, in sentences: cells, duplicates, files that changed, an area that
    chose nothing.

    Args:
        about: what `interest`, `doubles` and `sources` return.
    """
    area, found = about.get("aoi") or {}, list[str]()
    if units.n_cells:
        which = "Mapped are" if not units.n_buildings else f"{units.n_cells:,} of {n:,} rows are"
        cells = Units(0, units.n_cells, units.sizes_m).full
        found.append(
            f"{which} {cells} of a regular grid, not buildings: a cell may hold several houses, a part of one, or none."
        )
    if changed := ", ".join(about["sources_changed"][:5]):
        found.append(
            f"Another file lies now where {changed} was: the map shows the picture that was there when chips were cut."
        )
    if missing := ", ".join(about["sources_missing"][:5]):
        found.append(
            f"The files of {missing} were not where they had been when this map was made: nobody could compare it with them."
        )
    if doubled := about["n_duplicates"]:
        found.append(f"{doubled:,} outlines are the same building as another one, which every number here counts twice.")
    if area:
        name, outside = (
            f"The area of interest ({area['source']})",
            f"{area['n_outside']:,} of {n:,} {units.several} lie outside it",
        )
        if area["set_after_run"]:
            found.append(f"{name} was set after the run and did not choose what was mapped: {outside}.")
        elif not area["selected_buildings"]:
            found.append(f"{name} did not stand yet, or not any more, when some of the outlines were added: {outside}.")
        elif not area["stands"]:
            found.append(f"{name} chose what was mapped; it has been replaced or taken away since.")
    return found
