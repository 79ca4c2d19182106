"""Polygons and coordinate systems: footprints, areas, grids."""
