"""A made-up discovery: twenty buildings in four groups, of which one holds the positives."""

from pathlib import Path

import numpy as np
from model_parts import N, with_chips

from pu_geo.store import discoveries, store
from pu_geo.store.discoveries import Discovery, Review
from pu_geo.store.layout import Layout

IDS = [f"b{i}" for i in range(N)]
GROUPS = np.array([0] * 8 + [1] * 6 + [2] * 4 + [3] + [-1], np.int16)
KEPT = "types-0101-0000-abcd"


def name_types(layout: Layout, **types: list[str]) -> None:
    """Call buildings by types that a discovery of their own found; none takes that away."""
    with store.connect(layout) as db:
        for name, ids in types.items():
            found = Discovery({"discovery": f"types-{name}"}, ids, np.zeros(len(ids), np.int16))
            discoveries.decide(db, found, Review(names={0: name} if ids else {}), analyst="ann")


def discovered(project: Layout, *, n_seeds: int = 3, name: str = KEPT, at_event: int = 12) -> Layout:
    """Give a project with chips and clicks a discovery of groups 0 (8 buildings), 1 (6), 2 (4) and 3 (1); b19 has none."""
    if not project.chip_facts("set").exists():
        with_chips(project)
    sizes = np.bincount(GROUPS[GROUPS >= 0])
    groups = [
        {"group": i, "size": int(n), "jaccard": [0.9, 0.7, 0.55, 0.2][i],
         "central": [IDS[row] for row in np.flatnonzero(i == GROUPS)][::-1]}
        for i, n in enumerate(sizes)
    ]  # fmt: skip
    facts = {
        "discovery": name, "made_at": f"2026-01-01T00:00:00.{len(discoveries.all_facts(project)):03}Z", "chip_set": "set",
        "at_event": at_event, "n_groups": 4, "asked_for": 4, "suggested": 3, "silhouettes": {"2": 0.1, "3": 0.3, "4": 0.295},
        "known": {"not damaged": 6, "damaged": 6}, "seeds": list(range(n_seeds)), "adjusted_rand": 0.66,
        "reading": "embeddings", "agreement": {"memberships": 0.3, "embeddings": 0.66}, "groups": groups,
    }  # fmt: skip
    work: Path = project.folder / "work"
    discoveries.keep(project, work, facts, IDS, GROUPS)
    return project
