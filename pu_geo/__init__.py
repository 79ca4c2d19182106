"""PU-Geo: map damaged buildings from pre- and post-event imagery with positive-unlabeled learning."""

__version__ = "0.1.0"
