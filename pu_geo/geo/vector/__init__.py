"""Outlines, areas, grids, points and their coordinate systems. Others may use all of its modules."""

__all__ = ["aoi", "areas", "crs", "duplicates", "footprints", "grid", "matching", "outlines", "points", "sites"]
