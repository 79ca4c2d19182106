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
    "ranker": ((0.82, 0.88), (0.9, 0.93), (0.99, 0.99), (0.99, 1.0)),
    "ncpu": ((0.85, 0.9), (0.93, 0.95), (0.98, 0.98), (0.99, 0.99)),
    "pucl": ((0.93, 0.95), (0.93, 0.95), (0.56, 0.63), (0.51, 0.54)),
    "ncl": ((0.94, 0.96), (0.94, 0.96), (0.95, 0.97), (0.72, 0.68)),
    "herocon": ((0.82, 0.88), (0.9, 0.93), (0.99, 0.99), (1.0, 1.0)),
    "fedaws": ((0.88, 0.91), (0.91, 0.93), (0.99, 0.99), (0.99, 0.99)),
    "linear": ((0.79, 0.86), (0.87, 0.9), (0.99, 0.99), (0.99, 1.0)),
    "ce": ((0.79, 0.86), (0.88, 0.91), (0.99, 0.99), (1.0, 0.99)),
    "upu": ((0.75, 0.82), (0.83, 0.87), (0.99, 0.98), (0.99, 0.99)),
    "nnpu": ((0.86, 0.9), (0.88, 0.9), (0.99, 0.98), (0.99, 0.99)),
    "upu+noisncl": ((0.72, 0.77), (0.78, 0.81), (0.93, 0.94), (0.98, 0.98)),
    "nnpu+noisncl": ((0.85, 0.89), (0.88, 0.89), (0.99, 0.99), (0.98, 0.99)),
}
"""Method -> mean (AUC, AP) on each of `EVENTS`."""


def in_words(method: str) -> str:
    """Say what a method's quick preset reached, with the instant ranker's figures beside; "" if it was never measured."""
    if method not in MEASURED:
        return ""
    rows = zip(EVENTS, MEASURED[method], MEASURED[RANKER], strict=True)
    said = "; ".join(
        f"{name}: {auc:.2f} / {ap:.2f} ({rank_auc:.2f} / {rank_ap:.2f})"
        for (_, _, name), (auc, ap), (rank_auc, rank_ap) in rows
    )
    return f"AUC / AP with quick, and the instant ranker's: {said}. These events were looked at when presets were chosen."
