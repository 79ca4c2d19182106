"""The command line; `main` runs it."""

from pu_geo.cli.main import main

__all__ = ["main"]
