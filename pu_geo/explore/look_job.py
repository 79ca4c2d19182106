"""Lay a source out in the plane, once: how buildings look by a feature set, or the embeddings of a run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from pu_geo.analysis import looks as formulas
from pu_geo.analysis import projection
from pu_geo.analysis.assessability import reasons
from pu_geo.analysis.neighbor_graph import blocks
from pu_geo.analysis.two_readings import MOST_MEASURED, POWER, Space, plain_and_roots
from pu_geo.explore import looks
from pu_geo.records import Facts, Singles, rows_of
from pu_geo.store import contents, feature_sets, population, store
from pu_geo.store.job import Job, Part
from pu_geo.store.layout import read_array, write_array, write_json

CUT_FROM = 0.1  # black share of a chip from which it lies at the edge of the image
_STAGES = {
    "axes": "widest axes",
    "neighbors": "neighbors of each building",
    "layout": "layout (compiled the first time, some seconds)",
}


def look(job: Job, *, source: str = looks.LOOK, chip_set: str = "", feature_set: str = "") -> Facts:
    """Write where each building of a source is in its picture, float32 [N, 2], for the look its rows, float32 [N, 64], the
    clusters, and traits, float32 [N, 10].

    What is there already stays.

    Args:
        source: `looks.LOOK`, or the id of a run.
        chip_set, feature_set: of the look.

    Returns:
        {"source", "n"}

    Raises:
        ProjectError: if there is no such run or feature set, or its embeddings are gone.
        JobCancelled: if the user cancelled.
    """
    layout = job.layout
    if source == looks.LOOK:
        path, of_rows = layout.look_plane(chip_set, feature_set), layout.look(chip_set, feature_set)
        if not of_rows.is_file():
            write_array(of_rows, _look(Part(job, 0.0, 0.4), chip_set, feature_set))
        rows, of_groups = read_array(of_rows), layout.look_groups(chip_set, feature_set)
        ids = contents.chip_facts(layout, chip_set)["building_ids"]
    else:
        path, of_groups = looks.plane_file(layout, source), looks.groups_file(layout, source)
        chip_set, ids = looks.chip_set_of(layout, source), looks.ids_of(layout, source)
        rows = looks.rows_of(layout, source)

    def report(values: Mapping[str, object]) -> None:
        job.stop_if_cancelled()
        job.report(0.4 + 0.5 * float(str(values["share"])), _STAGES[str(values["stage"])])

    if not path.is_file():
        write_array(path, projection.umap_2d(rows, seed=0, report=report))
    if not of_groups.is_file():
        job.report(0.9, "clusters, and what stands out in them")
        part, stands = formulas.regions(read_array(path))
        regions = {"part": part.tolist(), "stands": stands.tolist()}
        found, measures = _groups(job, chip_set, ids, np.asarray(rows))
        if source == looks.LOOK:
            write_array(layout.look_traits(chip_set, feature_set), measures)
        write_json(of_groups, {"regions": regions, **found})
    return {"source": source, "n": len(rows)}


def _look(job: Job, chip_set: str, name: str) -> Singles:
    """Bring all buildings into the whitened space of all views, unit rows, float32 [N, d]; block by block.

    The space is measured from the buildings that the pictures show.
    """
    views = feature_sets.views(job.layout, chip_set, name)
    n, is_visible = views.shape[1], reasons(contents.chip_facts(job.layout, chip_set)) == ""
    shown = np.flatnonzero(is_visible) if is_visible.any() else np.arange(n)
    job.report(0.0, "reading features")
    space = Space.of(*plain_and_roots(views, shown[:: max(1, len(shown) // MOST_MEASURED)]), POWER)
    parts = []
    for part in blocks(n, check=job.stop_if_cancelled):
        job.report(0.3 + 0.7 * part.start / n, "how buildings look")
        parts.append(formulas.look(plain_and_roots(views, part)[1], space))
    return np.concatenate(parts)


def _groups(job: Job, chip_set: str, ids: Sequence[str], rows: Singles) -> tuple[dict[str, Facts], Singles]:
    """Return the clusters of a source, small and large ones, with their words, see `groups.stored`, and traits.

    Args:
        chip_set: whose chips the buildings are measured on.
        ids, rows: of the source, unit rows float32 [N, D].
    """
    facts = contents.chip_facts(job.layout, chip_set)
    chips, views = contents.optical_chips(job.layout, chip_set), {one.name: one for one in contents.views_of(facts)}
    pre, post = views.get("pre"), views["post"]
    at = rows_of(ids, facts["building_ids"])
    measured, is_cut = [], []
    for block in blocks(len(ids), check=job.stop_if_cancelled):
        after = chips[at[block], post.start : post.stop]
        measured.append(formulas.traits(None if pre is None else chips[at[block], pre.start : pre.stop], after))
        is_cut.append((after == 0).all(1).mean((1, 2)) > CUT_FROM)
    measures = np.concatenate(measured)
    sites = store.call(job.layout, population.sites, ids)
    others = {"image": np.where(np.concatenate(is_cut), "edge", "").tolist()}
    if sites.names:
        others["site"] = sites.named
    if (scenes := facts.get("post_scene")) is not None:
        others["scene"] = [scenes[row] or "" for row in at.tolist()]
    found: dict[str, Facts] = {}
    for kind in ("small", "large"):
        part = formulas.small_groups(rows, is_common=kind == "large")
        words, follows = formulas.named(measures, part), formulas.follows(measures, part, others)
        found[kind] = {"part": part.tolist(), "words": words, "follows": follows}
    return found, measures
