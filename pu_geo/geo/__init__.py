"""The only room that knows a CRS, a transform, a window or a file format."""
