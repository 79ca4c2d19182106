"""One cluster of two worker processes for all tests here, which takes ten seconds to start; and none at all for most."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import pytest
from small_parts import need_extra

from pu_geo.scale import cluster as clusters
from pu_geo.scale import shards
from pu_geo.store import store


@pytest.fixture(scope="session")
def started() -> Iterator[Any]:
    """A cluster on this machine, with a process each for scheduler's clients and two workers."""
    need_extra("scale")
    from distributed import LocalCluster

    how = {"n_workers": 2, "threads_per_worker": 1, "processes": True, "host": "127.0.0.1", "scheduler_port": 0}
    with LocalCluster(**how, dashboard_address="127.0.0.1:0") as cluster:
        yield cluster


@pytest.fixture
def cluster(started: Any) -> str:
    """Its name, as `--cluster` takes it."""
    return str(started.scheduler_address)


@pytest.fixture
def in_this_process(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Do shards as workers do them, in this process and the last one first; return the names of what was done."""
    done: list[str] = []

    def run(
        work: shards.Work, plan: Sequence[shards.Shard], take: Callable[[shards.Shard, shards.Arrays], None], *,
        cluster: clusters.JobCluster, **_: object,
    ) -> None:  # fmt: skip
        folder = shards.folder_of(cluster.folder)
        for each in reversed(plan):
            shard = replace(each, spec={**each.spec, "versions": shards.versions()})
            with monkeypatch.context() as patch:
                patch.setattr(store, "connect", None)  # a worker may be a computer where the database must not be opened
                record = shards.do(work, folder, shard)
            assert "refused" not in record, record
            found = shards.finished(folder, shard)
            assert found is not None
            take(each, found)
            done.append(f"{work.__name__} {each.start}")

    monkeypatch.setattr(shards, "run", run)
    monkeypatch.setattr(clusters, "_connected", lambda *_: None)
    return done
