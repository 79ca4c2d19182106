"""Frozen features: what chips are turned into without any training."""
