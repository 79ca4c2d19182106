"""What frozen features of chips are made by."""

from __future__ import annotations

FEATURE_SEED = 0
"""Of the views that the features of every chip set are made of."""
