"""The damage map of a run: every building with its score, label, audit figures and provenance."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import shapely
from numpy.typing import NDArray

from pu_geo import __version__
from pu_geo.analysis import assessability
from pu_geo.analysis.scenes import scene_rows
from pu_geo.errors import ProjectError, PuGeoError
from pu_geo.geo.local_space import COORDINATES, centroid_places, place_names
from pu_geo.geo.raster.placement import moved_to
from pu_geo.geo.vector import crs as systems
from pu_geo.geo.vector.aoi import touching
from pu_geo.geo.vector.areas import assign, centroids
from pu_geo.geo.vector.duplicates import twins
from pu_geo.project import (
    alignment,
    analysts,
    aoi,
    areas,
    choices,
    contents,
    discoveries,
    freshness,
    grades,
    import_log,
    labels,
    rounds,
    runs,
    store,
)
from pu_geo.project.contents import chip_facts
from pu_geo.project.grades import Grade
from pu_geo.project.layout import Layout
from pu_geo.records import NOT_IN_RUN, DamageMap, FootprintTable, LabelEvent, RunFacts, Scene
from pu_geo.services.damage_map import auditing, damage_types, exporting, random_audits
from pu_geo.services.imagery import layers, scene_files, scene_pair
from pu_geo.services.project.choices import reasons_of
from pu_geo.services.train import training
from pu_geo.tasks.annotate.export_labels import LABEL_NAMES, TYPES
from pu_geo.tasks.damage_map.limits import OWN_SCORES, limits

SCHEMA_VERSION = "1.3"
DISCLAIMER = "Preliminary damage map from satellite or aerial imagery; not field-validated."
_OF_RUN = (
    "assessed", "not_assessed_reason", "damage_binary", "score", "score_type", "rank", "threshold", "triage",
)  # fmt: skip
_OF_PEOPLE = (
    "damage_class", "label", "label_source", "labeller", "labelled_at", "damage_types", "absent_types", "n_labels", "agreement",
    "review_status",
)  # fmt: skip
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
    with store.connect(layout) as db:
        facts = runs.find(db, run_id)
        limit = choices.threshold_of(db, facts)
    if threshold is not None:
        limit = choices.Threshold(round(threshold, 4), threshold_origin)
    audit = auditing.facts(layout, facts.run_id, limit.value)
    if not layout.chip_facts(facts.chip_set).is_file():
        raise ProjectError(
            f"The facts of the chips {facts.chip_set} that run {facts.run_id} scored are gone.", "Cut chips and train again."
        )
    scores = np.asarray(runs.array(layout, facts.run_id, "scores"), dtype=np.float32)
    source = _Source(
        runs.building_ids_of(layout, facts.run_id), scores, reasons_of(layout, facts) or {}, facts.chip_set, facts.method,
        facts.created_at, facts.run_id, facts.score_type, _about_run(facts), facts.n_hidden, facts.warnings,
        types=damage_types.on_map(layout, facts.run_id, limit.value), learned_views=layers.learned_views(facts),
    )  # fmt: skip
    return _collect(layout, source, limit, audit, version)


def build_own_map(
    layout: Layout, scores: NDArray[np.floating], threshold: float, *, chip_set: str | None = None
) -> DamageMap:
    """Collect the same of scores that no run of this project made; nothing of them is stored.

    The map says so: no run, no audit, method "own_scores", and a first sentence on what it cannot say. Labels, what the imagery
    hides and what groups of scenes have no answers are as in every other map.

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
        _check_decimals(int((given >= threshold).sum()), int(is_flagged.sum()), len(given))
    silent = assessability.groups_without_answers(chips, pu.is_positive, pu.is_not_damaged, is_flagged)
    why = assessability.reasons(chips, silent)
    source = _Source(
        pu.building_ids, given, assessability.by_building(pu.building_ids, why), chips["chip_set"], OWN_SCORES, store.now(),
        n_hidden=int((assessability.reasons(chips) != "").sum()),
    )  # fmt: skip
    return _collect(layout, source, choices.Threshold(limit, choices.PERSON), None, None)


def check_threshold(threshold: float) -> None:
    """Refuse what is no score."""
    if not 0 <= threshold <= 1:
        raise PuGeoError(f"The threshold is {threshold}; scores lie between 0 and 1.", "Choose a value in between.")


def _check_decimals(n_given: int, n_written: int, n: int) -> None:
    """Refuse a threshold of more than 4 decimals among scores so close to each other that 4 decimals flag others."""
    if abs(n_given - n_written) > max(1, MOST_FLAGGED_BY_ROUNDING * n):
        raise PuGeoError(
            f"{n_given:,} of {n:,} scores reach the threshold, and {n_written:,} do once they are written with 4 decimals, as in "
            "every map.",
            "Spread the scores over 0..1, such as by ranks: scipy.stats.rankdata(scores) / len(scores), the threshold likewise.",
        )


def _checked_scores(scores: NDArray[np.floating], n: int) -> NDArray[np.float32]:
    """Return own scores as float32 [n]; refuse what is none, in words."""
    given = np.asarray(scores)
    if given.shape != (n,) or given.dtype.kind != "f":
        raise PuGeoError(
            f"The scores have shape {given.shape} and type {given.dtype}; this map needs floating-point numbers of shape ({n},), "
            "one a building.",
            "Give them in the order of `project.building_ids()`.",
        )
    wrong = np.flatnonzero(~((given >= 0) & (given <= 1)))
    if len(wrong):
        raise PuGeoError(
            f"{len(wrong)} of {n} scores do not lie between 0 and 1; the first is {given[wrong[0]]}, in row {wrong[0]}.",
            "Scale them so that 1 is most surely damaged, and give every building one.",
        )
    return given.astype(np.float32)


@dataclass(frozen=True)
class _Source:
    """What a map takes its scores from: a run, or, without `run_id`, scores of the user's own.

    Attributes:
        ids: building of each row of `scores`, float32 [N].
        hidden: building id -> why the picture keeps it from being assessed.
        about: metadata that a run alone has.
        n_hidden: buildings whose chips show nothing to learn from.
        learned_views: names of the views of layers that the run learned from.
        types: damage types that the run scores; none of own scores.
    """

    ids: Sequence[str]
    scores: NDArray[np.float32]
    hidden: Mapping[str, str]
    chip_set: str
    method: str
    at: str
    run_id: str | None = None
    score_type: str | None = None
    about: Mapping[str, object] = field(default_factory=lambda: _NO_RUN)
    n_hidden: int = 0
    warnings: tuple[str, ...] = ()
    learned_views: Sequence[str] = ()
    types: damage_types.TypesOnMap = field(default_factory=lambda: damage_types.TypesOnMap(()))


def _collect(
    layout: Layout, source: _Source, limit: choices.Threshold, audit: Mapping[str, Any] | None, version: str | None
) -> DamageMap:
    """Put scores together with labels, imagery and provenance as they stand now."""
    with store.connect(layout) as db:
        table, grid, scenes = contents.footprints(db), contents.grid(db), contents.scenes(db)
        events, name, newest = labels.current(db), store.project_name(db), labels.last_event(db)
        outlines, answers, scale = contents.footprint_sources(db), analysts.own_answers(db), grades.known(db)
        guessed = discoveries.type_of(db)
    chips, hidden, here = chip_facts(layout, source.chip_set), source.hidden, set(table.building_ids)
    rows = {one: i for i, one in enumerate(source.ids) if one in here and hidden.get(one) != NOT_IN_RUN}
    (x_name, y_name), (x, y) = place_names(grid.crs), centroid_places(table.wkb, grid.crs)
    results = _results(table.building_ids, rows, source.scores, hidden, events, limit.value, source.score_type)
    human = _human(table.building_ids, events, answers, scale)
    provenance = {
        "method": source.method, "run_id": source.run_id, "run_at": source.at, "round": rounds.read(layout).number,
        "product_version": version, "schema_version": SCHEMA_VERSION,
    }  # fmt: skip
    columns: dict[str, Sequence[object]] = {
        "building_id": list(table.building_ids),
        "source_footprint": list(outlines),
        "area_m2": [round(float(area), 1) for area in table.area_m2],
        x_name: x.tolist(),
        y_name: y.tolist(),
        **results,
        **_audited(table.building_ids, results, events, audit),
        **human,
        **damage_types.columns(source.types, table.building_ids),
        "discovered_type": _guesses(table.building_ids, results["triage"], human["label"], guessed),
        **districts(layout, table),
        **shifts(layout, table, scenes),
        "audit_weight": _weights(layout, table.building_ids, rows, audit),
        **_imagery(table.building_ids, chips),
        **{name: [value] * len(table.wkb) for name, value in provenance.items()},
        "source_attributes": list(table.attributes),
    }
    metadata = {**_metadata(name, columns, _scenes_used(chips), source, limit, audit), "labels_up_to_event": newest}
    metadata["estimate"] = auditing.how_many(layout).as_mapping()
    answered = [event.label if (event := events.get(building)) else None for building in chips["building_ids"]]
    why = np.array([hidden.get(one, "") if one in here else assessability.REMOVED for one in chips["building_ids"]], np.str_)
    rows_of_scenes = scene_rows(chips, runs.written(source.scores), limit.value, why, answered)
    metadata |= {
        "bands": chips["bands"], "bands_why": chips.get("bands_why", ""), "n_hidden_from_training": source.n_hidden,
        "scenes": [row.as_mapping() for row in rows_of_scenes],
        "in_doubt": [*scene_pair.doubts_of(layout), *store.call(layout, import_log.doubts)], "out_of_date": freshness.of_chips(layout, source.chip_set).words,
    }  # fmt: skip
    if source.run_id is not None and source.types.types:
        types = damage_types.facts(layout, source.run_id, limit.value, source.types)
        metadata |= {"types": types, "types_rule": " ".join((source.types.rule, *source.types.warnings))}
    if used := layers.in_chips(chips, source.learned_views):
        metadata["layers"] = used
        columns |= _layers_missing(table.building_ids, chips, used)
    metadata |= {**interest(layout, table, grid.crs, source.at), **doubles(table, outlines), **sources(layout, scenes)}
    if not grid.has_place:
        metadata["coordinates"] = COORDINATES
    if version:
        metadata["product_version"] = version
    found = DamageMap(table.building_ids, table.wkb, columns, grid.crs, metadata)
    return replace(found, metadata={**metadata, "cannot_say": limits(found, audit)})


def _results(
    ids: Sequence[str], rows: Mapping[str, int], scores: np.ndarray, hidden: Mapping[str, str],
    events: Mapping[str, LabelEvent], limit: float, score_type: str | None,
) -> dict[str, Sequence[object]]:  # fmt: skip
    """Return what is known of each building; a person's answer wins over the picture and the score.

    A building that was added after the run has no result: its picture may show it well, but the run never scored it. Score and
    threshold are compared with the decimals that the file has.
    """
    counted = list(rows.values())
    ranks, limit = np.zeros(len(scores), np.int64), round(limit, 4)
    ranks[counted] = runs.ranks(scores[counted])
    columns: dict[str, list[object]] = {name: [] for name in _OF_RUN}  # no dict a building: 1,000,000 of them are 0.5 GB
    for building in ids:
        event, row = events.get(building), rows.get(building)
        why = hidden.get(building) if row is not None else NOT_IN_RUN
        if event is not None:
            why = (event.reason or "unclear") if event.label == "not_assessable" else None
        score = None if why or row is None else round(float(scores[row]), 4)
        is_damaged = event.label == "positive" if event is not None else score is not None and score >= limit
        triage = ("flagged" if event is None else "confirmed") if is_damaged else "below"
        columns["assessed"].append(why is None)
        columns["not_assessed_reason"].append(why)
        columns["damage_binary"].append("not_assessed" if why else "damaged" if is_damaged else "not_flagged")
        columns["score"].append(score)
        columns["rank"].append(None if why or row is None else int(ranks[row]))
        columns["triage"].append("not_assessed" if why else triage)
    return {**columns, "score_type": [score_type] * len(ids), "threshold": [limit] * len(ids)}


def _audited(
    ids: Sequence[str],
    results: Mapping[str, Sequence[Any]],
    events: Mapping[str, LabelEvent],
    audit: Mapping[str, Any] | None,
) -> dict[str, Sequence[object]]:
    """Return chances of damage, and triage by the audit's two thresholds, for buildings that nobody answered."""
    nothing: list[object] = [None] * len(ids)
    columns: dict[str, Sequence[object]] = {"p_damaged": nothing, "p_low": nothing, "p_high": nothing}
    if audit is None:
        return columns
    scores = [None if building in events else score for building, score in zip(ids, results["score"], strict=True)]
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


def _human(
    ids: Sequence[str], events: Mapping[str, LabelEvent], answers: Mapping[tuple[str, str], LabelEvent], scale: Sequence[Grade]
) -> dict[str, Sequence[object]]:  # fmt: skip
    """Return the answers of people for each building; `answers` has the last answer of each person."""
    given: dict[str, list[str]] = {}
    for (building, _), event in answers.items():
        given.setdefault(building, []).append(event.label)
    columns: dict[str, list[object]] = {name: [None] * len(ids) for name in _OF_PEOPLE}
    columns |= {name: [[] for _ in ids] for name in TYPES}
    columns["n_labels"] = [len(given.get(building, ())) for building in ids]
    for row, building in enumerate(ids):
        if (last := events.get(building)) is None:
            continue
        own = given.get(building, [])
        agree = round(own.count(last.label) / len(own), 4) if own else None
        found = {
            "damage_class": exporting.damage_class(last, scale), "label": LABEL_NAMES[last.label],
            **{name: list(getattr(last, name)) for name in TYPES}, "label_source": last.kind, "labeller": last.analyst, "labelled_at": last.at,
            "agreement": agree, "review_status": "single" if len(own) < 2 else "agreed" if agree == 1 else "disputed",
        }  # fmt: skip
        for name, value in found.items():
            columns[name][row] = value
    return {**columns}


def _guesses(
    ids: Sequence[str], triage: Sequence[object], label: Sequence[object], guessed: Mapping[str, str]
) -> list[object]:
    """Return the named group that a machine put each building into; None where it was not assessed or not damaged."""
    rows = zip(ids, triage, label, strict=True)
    none = LABEL_NAMES["not_damaged"]
    return [None if how == "not_assessed" or name == none else guessed.get(building) for building, how, name in rows]


def _weights(layout: Layout, ids: Sequence[str], rows: Mapping[str, int], audit: Mapping[str, Any] | None) -> list[object]:
    """Return how many buildings each building of the audit's sample represents; None for those that do not count."""
    if audit is None:
        return [None] * len(ids)
    sample = replace(random_audits.load(layout, audit["check_id"]).sample, n_drawn=int(audit["n_counted"]))
    drawn, share = sample.stratum[: sample.n_drawn], sample.inclusion()
    weight = np.divide(1.0, share, out=np.zeros(len(share)), where=share > 0)
    of_row = dict(zip(sample.rows[: sample.n_drawn].tolist(), weight[drawn].round(4).tolist(), strict=True))
    return [of_row.get(rows.get(building, -1)) for building in ids]


def _scenes_used(chips: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the scenes that a chip set was cut from, each with its "scene_id", "role", "date", "gsd_m" and "sha256"."""
    used = ("pre", "post") if assessability.needs_pre(chips) else ("post",)
    return [{"scene_id": name, **one} for name, one in chips["scenes"].items() if one["role"] in used]


def _imagery(ids: Sequence[str], chips: Mapping[str, Any]) -> dict[str, Sequence[object]]:
    """Return, building by building, the scenes that the run's chip was cut from, and how much of the outline is hidden there.

    Null for buildings without a chip; of the pre scenes also where the run does not use them.
    """
    used = {str(one["scene_id"]): one for one in _scenes_used(chips)}
    row = {building: i for i, building in enumerate(chips["building_ids"])}
    columns: dict[str, Sequence[object]] = {}
    for role in ("pre", "post"):
        uses_role = role == "post" or assessability.needs_pre(chips)
        alone = next((name for name, one in used.items() if one["role"] == role), None)
        shown = chips.get(f"{role}_scene") or [alone] * len(row)
        lacks = assessability.lacks_pre(chips) if role == "pre" else np.zeros(len(row), np.bool_)
        names = [shown[row[one]] if one in row and uses_role and not lacks[row[one]] else None for one in ids]
        columns[f"{role}_image_id"] = names
        columns[f"{role}_date"] = [used[name]["date"] if name in used else None for name in names]
        if role == "post":
            columns["post_gsd_m"] = [round(float(used[name]["gsd_m"]), 3) if name in used else None for name in names]
        share = assessability.hidden_share(chips, role)
        known = None if share is None else share.round(4).tolist()
        columns[f"{role}_hidden_share"] = [known[row[one]] if known and one in row else None for one in ids]
    return columns


def _layers_missing(
    ids: Sequence[str], chips: Mapping[str, Any], found: Sequence[Mapping[str, Any]]
) -> dict[str, Sequence[object]]:
    """Return which of the layers that the run learned from do not show each building; nothing where it learned from none."""
    names = [one["name"] for one in found if one["is_used"]]
    if not names:
        return {}
    views, is_missing = contents.views_of(chips), contents.is_missing(chips)
    lacks = {view.name: is_missing[k] for k, view in enumerate(views)}
    row = {building: i for i, building in enumerate(chips["building_ids"])}
    lists = [[name for name in names if lacks[name][row[one]]] if one in row else None for one in ids]
    return {"layers_missing": lists}


def _about_run(facts: RunFacts) -> dict[str, object]:
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
        **({} if facts.place is None else {"evidence_from_place": dict(facts.place)}),
    }


def _metadata(
    name: str,
    columns: Mapping[str, Sequence[object]],
    scenes: Sequence[Mapping[str, Any]],
    source: _Source,
    limit: choices.Threshold,
    audit: Mapping[str, Any] | None,
) -> dict[str, object]:
    binary = list(columns["damage_binary"])
    return {
        "title": f"Damage map: {name}",
        "disclaimer": DISCLAIMER,
        "made_with": f"PU-Geo {__version__}",
        "schema_version": SCHEMA_VERSION,
        "run_id": source.run_id,
        "method": source.method,
        **source.about,
        "threshold": limit.value,
        "threshold_origin": limit.origin,
        "audit_id": audit["check_id"] if audit is not None and audit["total"]["value"] is not None else "not audited",
        "counts": {value: binary.count(value) for value in ("damaged", "not_flagged", "not_assessed")},
        "audit": None if audit is None else {key: value for key, value in audit.items() if key != "calibration"},
        "run_warnings": list(source.warnings),
        "sha256": {str(scene["scene_id"]): scene["sha256"] for scene in scenes},
    }


def districts(layout: Layout, table: FootprintTable) -> dict[str, Sequence[object]]:
    """Return codes and names of the administrative areas of buildings, where layers adm1 and adm2 were added."""
    columns: dict[str, Sequence[object]] = {}
    for level in ("adm1", "adm2"):
        with store.connect(layout) as db:
            layer = areas.load_areas(db, level) if level in areas.layers(db) else areas.AreaLayer(level, [], [], [])
        index = assign(centroids(table.wkb), layer.wkb)[0].tolist()
        columns[f"{level}_pcode"] = [layer.pcodes[i] if i >= 0 else None for i in index]
        columns[f"{level}_name"] = [layer.names[i] if i >= 0 else None for i in index]
    del columns["adm1_name"]
    return columns


def shifts(layout: Layout, table: FootprintTable, scenes: Sequence[Scene]) -> dict[str, Sequence[object]]:
    """Return by how many metres the pre scenes must move to fit the post scenes at each building, and how sure that is."""
    found = alignment.load(layout, table.building_ids, scenes)
    if found is None:
        return dict.fromkeys(("shift_dx_m", "shift_dy_m", "shift_quality"), [None] * len(table.wkb))

    def column(values: NDArray[np.float64]) -> list[object]:
        return [round(float(one), 2) if sure > 0 else None for one, sure in zip(values, found.quality, strict=True)]

    return {
        "shift_dx_m": column(found.dx_m),
        "shift_dy_m": column(found.dy_m),
        "shift_quality": [round(float(one), 2) for one in found.quality],
    }


def interest(layout: Layout, table: FootprintTable, crs: str, run_at: str) -> dict[str, object]:
    """Return the area of interest that the map's buildings were taken in by, and whether it chose them.

    Args:
        run_at: when the run was made, RFC 3339 UTC.

    Returns:
        {"aoi": {"source", "since", "wkt": longitude/latitude or local meters, "selected_buildings": every footprint before the
        run was taken in while it stood, "set_after_run", "n_outside": buildings of the map outside it, "stands": it is the
        project's area still}}; nothing where no area was ever in force or is now.
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


def sources(layout: Layout, scenes: Sequence[Scene]) -> dict[str, object]:
    """Return {"sources_changed", "sources_missing"}: scenes whose file is not the one that was added, or is not there."""
    states = scene_files.settle(layout, scenes)
    return {f"sources_{state}": [name for name, one in states.items() if one == state] for state in ("changed", "missing")}


def doubles(table: FootprintTable, sources: Sequence[str]) -> dict[str, object]:
    """Return {"n_duplicates": buildings that the map has further up already, by their outlines}.

    Whoever adds up the map counts them twice.
    """
    is_building = np.array(sources, dtype=np.str_) != "grid"
    outlines = shapely.from_wkb(np.array(list(table.wkb), dtype=object)[is_building])
    return {"n_duplicates": int(twins(outlines).sum())}
