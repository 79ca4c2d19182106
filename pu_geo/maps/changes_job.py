"""What changed from one version of the damage map to the next."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from pu_geo.geo.export.pieces import write_csv
from pu_geo.records import LABEL_NAMES, DamageMap, Facts
from pu_geo.store import rounds, versions
from pu_geo.store.layout import Layout
from pu_geo.store.rounds import Round

COMPARED = ("damage_binary", "triage", "label", "not_assessed_reason", "damage_class")
CHANGE = ("building_id", "field", "before", "after")
_HISTORY = ("round", "building_id", "damage_binary", "label", "labeller", "labelled_at", "score", "post_date")


def changes_since(layout: Layout, number: int, damage_map: DamageMap) -> list[Facts]:
    """Return what differs from version `number`: one row a building and field, with "before" and "after".

    Buildings that came or went have the field "building" with before or after "present".
    """
    before = versions.read_state(layout, f"v{number}")
    old = {building: i for i, building in enumerate(before["building_id"])}
    found: list[tuple[str, str, object, object]] = []
    for i, building in enumerate(damage_map.building_ids):
        if (was := old.pop(building, None)) is None:
            found.append((building, "building", None, "present"))
            continue
        both = ((name, before[name][was], damage_map.columns[name][i]) for name in COMPARED)
        found += [(building, name, then, now) for name, then, now in both if then != now]
    found += [(building, "building", "present", None) for building in old]
    return [dict(zip(CHANGE, row, strict=True)) for row in found]


def write_history(folder: Path, past: Round, damage_map: DamageMap) -> None:
    """Write what each round knew of each building, a row each, and what differs from the round before."""
    now = [
        {"round": past.number, "building_id": building, **{name: damage_map.columns[name][i] for name in _HISTORY[2:]}}
        for i, building in enumerate(damage_map.building_ids)
    ]
    before = [{**asdict(one), "label": one.label and LABEL_NAMES[one.label]} for one in past.past]
    write(folder / "history.csv", _HISTORY, [*before, *now])
    last = rounds.last_of_each(past)
    changed = [
        {
            "building_id": row["building_id"], "before": old.damage_binary, "after": row["damage_binary"],
            "is_confirmed": row["label"] is not None,
        }
        for row in now
        if (old := last.get(str(row["building_id"]))) is not None and old.damage_binary != row["damage_binary"]
    ]  # fmt: skip
    write(folder / "round_changes.csv", ("building_id", "before", "after", "is_confirmed"), changed)


def write(path: Path, columns: Sequence[str], rows: Sequence[Facts]) -> None:
    """Write some columns of rows as a table."""
    write_csv(path, columns, ([row[name] for name in columns] for row in rows))
