"""The only door to rasters: described scenes, the grid that joins them, and their pixels on it.

Files of other people are described through `in_child`, which calls `scene_files.describe` in a process of its own.
"""

from pu_geo.geo.raster.mosaic import Mosaic
from pu_geo.geo.raster.placement import check_overlap, project_grid
from pu_geo.geo.raster.scene_files import describe

__all__ = ["Mosaic", "check_overlap", "describe", "project_grid"]
