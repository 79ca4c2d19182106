"""The audit of a damage map: design, bounds, calibration, progress."""
