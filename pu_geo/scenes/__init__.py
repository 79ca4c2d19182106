"""Imagery and outlines up to features: scene files, layers, grid, alignment, chips."""
