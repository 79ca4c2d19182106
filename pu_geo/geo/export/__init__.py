"""Damage maps as files for other programs, and the map of the report."""
