"""Torch parts that every method shares."""
