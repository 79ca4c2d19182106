"""Random checks, audits and thresholds."""
