"""Damage maps as files for other programs, and the map of the report.

Others may use the modules listed here and no other; a format is a row of `exporters.EXPORTERS`.
"""

__all__ = ["codebook", "exporters", "geometry", "layers", "pieces", "report_map"]
