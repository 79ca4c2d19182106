"""The live ranking of very many buildings: a sample at once, all others in the background, in the end the same ranking."""

import threading
from collections import OrderedDict
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from small_parts import add_chips, click, small_project

from pu_geo.answers import queueing, ranking, ranking_of_many
from pu_geo.answers.ranking_of_many import ManyBuildings
from pu_geo.errors import ProjectError
from pu_geo.lifecycle.copying import copy_project
from pu_geo.methods.cards.propagation import PropagationSettings
from pu_geo.store import queues
from pu_geo.store.layout import Layout

N, N_SAMPLE, BLOCK = 300, 60, 64
DAMAGED = [f"b{i}" for i in range(0, N, 25)]


class Background:
    """Lets the background score so many blocks, and then no more until it may."""

    def __init__(self) -> None:
        self._may_score = threading.Semaphore(0)
        self._is_waiting = threading.Semaphore(0)

    def pause(self) -> None:
        self._is_waiting.release()
        assert self._may_score.acquire(timeout=60)

    def wait(self) -> None:
        """Wait until the background asks whether it may score a block."""
        assert self._is_waiting.acquire(timeout=60)

    def release(self, n: int = 1000) -> None:
        self._may_score.release(n)


@pytest.fixture
def town(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Layout]:
    """300 buildings, of which every fifth is another kind and 12 of these are called damaged; a sample of 60 is ranked at once."""
    monkeypatch.setattr(ranking_of_many, "PropagationSettings", partial(PropagationSettings, n_anchors=50))
    monkeypatch.setattr(ranking, "_warming", {})
    monkeypatch.setattr(ranking, "_kept", OrderedDict())
    monkeypatch.setattr(ranking, "MOST_AT_ONCE", N_SAMPLE)
    monkeypatch.setattr(ranking, "MOST_UNLABELED", 40)
    monkeypatch.setattr(ranking_of_many, "BLOCK", BLOCK)
    monkeypatch.setattr(ranking_of_many, "N_HIGHEST", 10)
    layout, draw = small_project(tmp_path / "town.pugeo", N), np.random.default_rng(0)
    features = draw.normal(size=(2, N, 16)).astype(np.float16)
    features[:, ::5, :4] += np.float16(2)
    add_chips(layout, [f"b{i}" for i in range(N)], features=features, nodata_share=[0.9 * (i == 7) for i in range(N)])
    click(layout, *DAMAGED)
    yield layout
    for prepared in ranking._kept.values():
        prepared.stop()


@pytest.fixture
def background(monkeypatch: pytest.MonkeyPatch) -> Iterator[Background]:
    """Hold the background before each block, of which those that are new to it count twice."""
    found, real = Background(), ManyBuildings._pause

    def pause(self: ManyBuildings) -> None:
        found.pause()
        real(self)

    monkeypatch.setattr(ManyBuildings, "_pause", pause)
    yield found
    found.release()


def all_at_once(layout: Layout, monkeypatch: pytest.MonkeyPatch) -> NDArray[np.float32]:
    """Return the scores as they are where all buildings are ranked at once."""
    with monkeypatch.context() as other:
        other.setattr(ranking, "MOST_AT_ONCE", N)
        other.setattr(ranking, "_kept", OrderedDict())
        return ranking.scores_now(layout)


def chips_kept() -> ManyBuildings:
    """Return what is prepared of the town."""
    return next(iter(ranking._kept.values()))


def wait_for_all(layout: Layout) -> bool:
    return ranking._live_scores(layout, *ranking._newest(layout)).is_complete.wait(60)


def order(scores: NDArray[np.float32] | None) -> list[int]:
    return np.argsort(-scores, kind="stable").tolist()


def test_a_sample_is_ranked_at_once_and_in_the_end_all_are_as_if_ranked_at_once(
    town: Layout, background: Background, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = all_at_once(town, monkeypatch)
    first = ranking.rank_now(town)
    assert (first.n, first.is_complete) == (N, False)
    assert N_SAMPLE <= first.n_ranked < N
    scores = ranking.scores_now(town)
    is_ranked = np.isfinite(scores)
    assert is_ranked.sum() == first.n_ranked
    assert is_ranked[::25].all()  # what was answered
    np.testing.assert_allclose(scores[is_ranked], wanted[is_ranked], rtol=0, atol=2e-6)
    sent = np.frombuffer(ranking.scores_for_browser(town, first.score_id) or b"", "<f4")
    np.testing.assert_array_equal(sent, scores)
    name_of_all = first.score_id.rpartition("-")[0]  # a browser keeps what it got by a name
    assert ranking.scores_for_browser(town, name_of_all) is None
    assert not ranking.so_far(town, first.score_id).is_complete
    assert ranking.so_far(town, "live-other-1") is None
    background.release()
    assert wait_for_all(town)
    last, found = ranking.rank_now(town), ranking.scores_now(town)
    assert last.is_complete
    assert last.score_id != first.score_id  # a browser asks for each address once
    assert order(found) == order(wanted)
    np.testing.assert_allclose(found, wanted, rtol=0, atol=2e-6)
    np.testing.assert_array_equal(np.frombuffer(ranking.scores_for_browser(town, name_of_all) or b"", "<f4"), found)


def test_a_round_over_all_ends_before_the_newest_labels_are_taken(
    town: Layout, background: Background, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However fast somebody labels, rankings of all come; what was prepared once is kept."""
    prepared: list[int] = []
    tied = ManyBuildings._prepared

    def counted(self: ManyBuildings, part: slice) -> object:
        prepared.append(part.start)
        return tied(self, part)

    monkeypatch.setattr(ManyBuildings, "_prepared", counted)
    first = ranking.rank_now(town)
    background.release(3)  # one block, and half of the next
    for _ in range(4):
        background.wait()
    click(town, "b5")
    ranking.rank_now(town)
    click(town, "b10")
    second = ranking.rank_now(town)
    assert not second.is_complete
    background.release()
    assert wait_for_all(town)
    assert prepared == [0, 64, 128, 192, 256] * 2  # not once more for the labels in between
    done = ranking.so_far(town, first.score_id)
    assert done.is_complete
    many = chips_kept()
    assert [ties.shape[0] for ties in many._ties] == [64, 64, 64, 64, 44]
    found = ranking.scores_now(town)
    assert order(found) == order(all_at_once(town, monkeypatch))


def test_a_copy_that_takes_the_place_of_a_project_is_ranked_by_its_own_answers(
    town: Layout, monkeypatch: pytest.MonkeyPatch
) -> None:
    place, former = town.folder, town.folder.with_name("former.pugeo")
    copy_project(town, str(place.with_name("copy.pugeo")))
    copy = Layout(place.with_name("copy.pugeo"))
    click(town, "b5", "b10")
    click(copy, "b6", "b11")
    before = ranking.rank_now(town)
    assert wait_for_all(town)
    assert ranking.scores_for_browser(copy, before.score_id) is None, "beside it the copy has rankings of its own"
    place.rename(former)
    copy.folder.rename(place)
    assert ranking.scores_for_browser(town, before.score_id) is None
    after = ranking.rank_now(town)
    assert after.score_id.rpartition("-")[0] != before.score_id.rpartition("-")[0]
    assert wait_for_all(town)
    found = ranking.scores_now(town)
    np.testing.assert_allclose(found, all_at_once(town, monkeypatch), rtol=0, atol=2e-6)


def test_the_highest_of_the_last_ranking_are_ranked_with_the_next_sample(town: Layout, background: Background) -> None:
    background.release()
    assert wait_for_all(town)
    highest = order(ranking.scores_now(town))[:10]
    background._may_score = threading.Semaphore(0)
    before = ranking.scores_now(town)
    click(town, "b5")
    now = ranking.rank_now(town)
    scores = ranking.scores_now(town)
    assert now.n_ranked < N
    assert np.isfinite(scores).all()
    is_new = ranking._live_scores(town, *ranking._newest(town)).is_new
    assert is_new[highest].all()
    assert not np.array_equal(scores[highest], before[highest])
    np.testing.assert_array_equal(scores[~is_new], before[~is_new])  # until they are scored by the newest labels


def test_a_queue_of_a_part_says_so_and_stays_until_it_is_done(town: Layout, background: Background) -> None:
    first = queueing.current(town, "ann")
    scores = ranking.scores_now(town)
    row_of = {f"b{i}": i for i in range(N)}
    assert all(np.isfinite(scores[row_of[item.building_id]]) for item in first.items)
    assert {item.kind for item in first.items} == {"exploit", "explore"}  # no check is drawn by a part of the scores
    n = int(np.isfinite(scores).sum())
    assert all(f"of {n} ranked so far" in item.why for item in first.items if item.kind == "exploit")
    assert queueing.checks_of_search(town, "set") is None
    background.release()
    assert wait_for_all(town)
    assert queueing.current(town, "ann") == first  # no picture goes that somebody is about to answer
    click(town, first.items[0].building_id)
    second = queueing.advance(town, "ann", done=first.id)
    assert not any("ranked so far" in item.why for item in second.items)
    assert {item.kind for item in second.items} == {"exploit", "explore", "audit"}
    assert not {item.building_id for item in first.items} & {item.building_id for item in second.items}


def test_the_background_goes_on_after_an_error_that_is_said(town: Layout, monkeypatch: pytest.MonkeyPatch) -> None:
    errors, prepared = [MemoryError("no room")], ManyBuildings._prepared

    def fails_once(self: ManyBuildings, part: slice) -> object:
        if part.start and errors:
            raise errors.pop()
        return prepared(self, part)

    monkeypatch.setattr(ManyBuildings, "_prepared", fails_once)
    monkeypatch.setattr(threading, "excepthook", lambda args: None)
    first = ranking.rank_now(town)
    if thread := chips_kept()._thread:
        thread.join(60)
    (found,) = chips_kept()._rankings.values()
    assert found.problem == "MemoryError: no room"
    ranking.so_far(town, first.score_id)  # which starts it again
    assert wait_for_all(town)
    assert found.problem == ""


def test_all_in_a_queue_have_a_score_at_once_and_one_that_cannot_be_read_stops_nobody(
    town: Layout, background: Background
) -> None:
    items = [queues.QueueItem(f"b{i}", "exploit", "") for i in range(100, 120)]
    queues.save_queue(town, "ann", queues.StoredQueue("set", items))
    for path in (town.folder / "queues").glob("*.json"):
        (path.parent / "broken.json").write_bytes(path.read_bytes()[:20])
    (town.folder / "queues" / "empty.json").write_bytes(b"")
    assert queues.all_queued(town, "set") == {f"b{i}" for i in range(100, 120)}
    ranking.rank_now(town)
    assert np.isfinite(ranking.scores_now(town)[100:120]).all()


def test_features_are_read_as_they_are_asked_for(town: Layout) -> None:
    rows, values = ranking.feature_rows(town, "set"), ranking.plain_features(town, "set")
    views = np.load(town.features("set")).astype(np.float64)[0]
    seen = np.delete(views, 7, axis=0)  # of which nothing shows
    np.testing.assert_allclose(values, (views - seen.mean(0)) / seen.std(0), atol=1e-5)
    np.testing.assert_allclose(rows[np.array([3, 290])], values[[3, 290]], atol=1e-5)
    unit = values / np.linalg.norm(values, axis=1, keepdims=True)
    nearest = [f"b{row}" for row in np.argsort(-(unit @ unit[5]), kind="stable")[1:5]]
    assert ranking.most_alike(town, "b5", 4) == nearest
    features = np.load(town.features("set"))
    features[0, N - 1, 0] = np.nan
    np.save(town.features("set"), features)
    with pytest.raises(ProjectError, match="are not all finite"):
        ranking.rank_now(town)
