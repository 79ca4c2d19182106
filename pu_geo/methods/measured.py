"""What the quick presets reached where the truth is known, shown with each method. Imports no torch.

From `benchmarks/outcomes`, as docs/tables.md is; a test compares the two.
"""

from __future__ import annotations

RANKER = "ranker"
EVENTS = (
    ("joplin.jsonl", "joplin, 10 clicks", "Joplin tornado, 60 % damaged, 10 clicks"),
    ("joplin.jsonl", "joplin, 30 clicks", "Joplin tornado, 58 % damaged, 30 clicks"),
    ("harvey.jsonl", "Harvey A, 40 % damaged, 30 clicks", "Harvey flood, 40 % damaged, 30 clicks"),
    ("harvey.jsonl", "Harvey A, 5 % damaged, 30 clicks", "Harvey flood, 5 % damaged, 30 clicks"),
)
"""File of the outcomes, setting in it, and what it is called here, in the order of the figures below."""
MEASURED: dict[str, tuple[tuple[float, float], ...]] = {
    "ranker": ((0.82, 0.88), (0.9, 0.93), (0.99, 0.99), (0.99, 0.96)),
    "propagation": ((0.89, 0.92), (0.95, 0.96), (1.0, 1.0), (1.0, 0.98)),
    "ncpu": ((0.86, 0.91), (0.93, 0.94), (0.97, 0.97), (0.98, 0.92)),
    "pucl": ((0.85, 0.9), (0.91, 0.93), (0.99, 0.98), (0.98, 0.82)),
    "ncl": ((0.94, 0.96), (0.94, 0.96), (0.95, 0.96), (0.75, 0.11)),
    "herocon": ((0.83, 0.89), (0.91, 0.93), (0.99, 0.98), (0.99, 0.96)),
    "fedaws": ((0.86, 0.9), (0.92, 0.93), (0.99, 0.99), (0.98, 0.87)),
    "linear": ((0.79, 0.86), (0.87, 0.9), (0.99, 0.99), (0.99, 0.96)),
    "ce": ((0.8, 0.87), (0.89, 0.92), (0.99, 0.98), (0.99, 0.9)),
    "upu": ((0.77, 0.84), (0.84, 0.88), (0.98, 0.96), (0.99, 0.86)),
    "nnpu": ((0.8, 0.86), (0.85, 0.89), (0.98, 0.96), (0.99, 0.86)),
    "upu+noisncl": ((0.74, 0.83), (0.81, 0.86), (0.93, 0.92), (0.96, 0.84)),
    "nnpu+noisncl": ((0.84, 0.89), (0.86, 0.89), (0.98, 0.97), (0.96, 0.83)),
}
"""Method -> mean (AUC, AP) on each of `EVENTS`."""


def in_lines(method: str) -> list[str]:
    """Return what a method's quick preset reached, a line an event, with the instant ranker's figures beside; [] if
    unknown.
    """
    if method not in MEASURED:
        return []
    rows = zip(EVENTS, MEASURED[method], MEASURED[RANKER], strict=True)
    return [
        f"{name}: {auc:.2f} / {ap:.2f} ({rank_auc:.2f} / {rank_ap:.2f})"
        for (_, _, name), (auc, ap), (rank_auc, rank_ap) in rows
    ]
