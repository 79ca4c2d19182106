"""The damage map, its types and areas, versions, exports and report."""
