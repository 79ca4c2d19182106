"""Further computers that a job may work on: whether Dask is installed here, and what a job takes for a cluster."""

from __future__ import annotations

from importlib.util import find_spec

from pu_geo.scale import cluster as clusters


def has_dask() -> bool:
    """Return whether the extra `scale` is installed."""
    return find_spec("distributed") is not None


def arguments(cluster: str) -> dict[str, str]:
    """Return what a job takes for a cluster; nothing for "". Raises JobError if it names no cluster.

    Example:
        >>> arguments(" local:4 ")
        {'cluster': 'local:4'}
    """
    if not (name := cluster.strip()):
        return {}
    clusters.require(name)
    return {"cluster": name}
