"""Whether layers of one name are the same measure where a model learned and where it is applied: kind, unit and scaling."""

from __future__ import annotations

from collections.abc import Collection

from pu_geo.errors import ModelError, printable
from pu_geo.records import Facts
from pu_geo.store import contents

ALIKE = 0.05  # of its range: a scaling that differs by less is taken as the same


def described(facts: Facts, names: Collection[str]) -> dict[str, Facts]:
    """Return what a model's card says of the layers that it learned from: {name: {"when", "kind", "unit", "bands"}}.

    Args:
        facts: of the chip set.
        names: of views; pre and post are passed over.
    """
    scaling: Facts = facts.get("scaling", {})
    return {
        view.name: {
            "when": view.when, "kind": scaling[view.name].get("kind", "other"), "unit": scaling[view.name].get("unit", ""),
            "bands": scaling[view.name]["bands"],
        }
        for view in contents.views_of(facts)
        if view.name in names and view.name in scaling
    }  # fmt: skip


def scaled_otherwise(card: Facts, facts: Facts, file: str) -> list[str]:
    """Return, in words, which layers that a model learned from have another scaling here.

    Args:
        card: of the model, which may be a stranger's; one that says nothing of layers is not compared.
        facts: of the chip set that it is applied to; layers that these chips lack are passed over.
        file: of the model, for errors.

    Raises:
        ModelError: if a layer has another kind or unit here. Dates are compared where views are found by their names.
    """
    there = card["learned_from"].get("layers")
    words = []
    for name, here in described(facts, there if isinstance(there, dict) else ()).items():
        known = there[name] if isinstance(there[name], dict) else {}
        for what in ("kind", "unit"):
            if what in known and known[what] != here[what]:
                theirs, ours = (printable(str(one[what])[:20]) or "none" for one in (known, here))
                raise ModelError(
                    f"{file} learned from a layer {name} with the {what} {theirs}; {name} of this project has the {what} "
                    f"{ours}.",
                    "Add the layer that measures the same under that name, or use a model that was trained with the "
                    "layers here.",
                    kind="bands",
                )
        pairs = _pairs(known.get("bands"))
        for band, (pair, own) in enumerate(zip(pairs, _pairs(here["bands"]), strict=False), start=1):
            most = ALIKE * (pair[1] - pair[0])
            if max(abs(a - b) for a, b in zip(pair, own, strict=True)) > most:
                unit = f" {here['unit']}" if here["unit"] else ""
                words.append(
                    f"Band {band} of the layer {name} is scaled from {own[0]:.4g} to {own[1]:.4g}{unit} here, and was from "
                    f"{pair[0]:.4g} to {pair[1]:.4g}{unit} where the model learned: the same brightness means another "
                    "value, so its scores may be off."
                )
    return words


def _pairs(bands: object) -> list[tuple[float, float]]:
    """Read (low, high) of bands from a card; nothing where it holds anything else."""
    try:
        return [(float(low), float(high)) for low, high in bands]  # type: ignore[attr-defined]
    except (TypeError, ValueError):
        return []
