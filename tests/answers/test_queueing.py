"""The queue of the Annotate screen: its own for each analyst, no building twice, the same after a reload."""

import json

import numpy as np
import pytest
from small_parts import add_chips, click

from pu_geo.analysis.queue import TOP
from pu_geo.answers import queueing, ranking
from pu_geo.assessment import auditing
from pu_geo.store import queues
from pu_geo.store.layout import Layout, write_json
from pu_geo.store.queues import StoredQueue

N = 20


@pytest.fixture
def chipped(project: Layout) -> Layout:
    """20 buildings with made-up features, of which two have no data, one is positive."""
    ids = [f"b{i}" for i in range(N)]
    features = np.random.default_rng(0).normal(size=(2, N, 8)).astype(np.float16)
    add_chips(project, ids, features=features, nodata_share=[0.9 if i in (3, 4) else 0.0 for i in range(N)])
    click(project, "b0")
    return project


def shown(queue: StoredQueue | None) -> list[str]:
    return [item.building_id for item in queue.items]


def test_a_project_without_chips_has_no_queue(project: Layout) -> None:
    assert queueing.current(project, "ann") is ranking.rank_now(project) is None
    assert auditing.how_many(project).basis == "none"


def test_a_queue_stays_until_it_is_done_and_two_analysts_share_no_building(
    chipped: Layout, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(queueing, "LENGTH", 5)
    first = queueing.current(chipped, "ann")
    assert len(shown(first)) == 5
    assert not {"b0", "b3", "b4"} & set(shown(first))  # answered, or without data
    assert not set(shown(first)) & set(shown(queueing.current(chipped, "bob")))
    assert queues.load_state(chipped, "set")["is_shown"].sum() == 10
    click(chipped, shown(first)[0], label="not_damaged")
    renewed = queueing.current(chipped, "ann")
    assert (renewed.id, shown(renewed)[0], renewed.event) == (first.id, shown(first)[0], 2)
    assert renewed == queueing.current(chipped, "ann") == queues.load_queues(chipped, "ann")[0]
    second = queueing.advance(chipped, "ann", done=first.id)
    assert not set(shown(second)) & set(shown(first))
    assert queueing.advance(chipped, "ann", done=first.id) == second  # the same wish, sent again
    assert queueing.current(chipped, "ann") == queueing.stored(chipped, "ann") == second
    click(chipped, shown(second)[0])
    assert auditing.how_many(chipped).confirmed == 2
    assert queueing.found_so_far(chipped) == ([1, 2, 3], [1, 1, 2])


def test_answers_renew_the_queue_by_score_but_for_checks_and_the_first_that_is_open(
    chipped: Layout, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(queueing, "LENGTH", 10)
    before = queueing.current(chipped, "ann")
    scores = np.linspace(0, 1, N, dtype=np.float32)
    monkeypatch.setattr(ranking, "scores_now", lambda layout: scores)
    click(chipped, shown(before)[0])
    after = queueing.current(chipped, "ann")
    top = [place for place, item in enumerate(before.items) if item.why == TOP and place]
    assert [after.items[place] for place in range(10) if place not in top[1:]] == [
        before.items[place] for place in range(10) if place not in top[1:]
    ]
    kept = {building for place, building in enumerate(shown(before)) if place not in top[1:]} | {"b0", "b3", "b4"}
    best = [f"b{row}" for row in range(N - 1, -1, -1) if f"b{row}" not in kept]
    assert [shown(after)[place] for place in top[1:]] == best[: len(top) - 1]
    left = {f"b{row}" for row in np.flatnonzero(~queues.load_state(chipped, "set")["is_shown"])}
    assert left == {f"b{row}" for row in range(N)} - set(shown(after))


def test_a_queue_from_before_there_were_scores_turns_to_the_highest(project: Layout) -> None:
    features = np.random.default_rng(0).normal(size=(2, N, 8)).astype(np.float16)
    add_chips(project, [f"b{i}" for i in range(N)], features=features)
    before = queueing.current(project, "ann")
    assert {item.kind for item in before.items} == {"explore"}
    click(project, shown(before)[0])
    assert [item.kind for item in queueing.current(project, "ann").items] == ["explore"] * len(before.items) + [
        "exploit"
    ] * (N - len(before.items))


def test_every_building_comes_once_and_then_nothing(chipped: Layout, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queueing, "LENGTH", 6)
    seen: list[str] = []
    queue = queueing.current(chipped, "ann")
    while shown(queue):
        seen += shown(queue)
        queue = queueing.advance(chipped, "ann", done=queue.id)
    assert sorted(seen) == sorted(set(seen))
    assert set(seen) == {f"b{i}" for i in range(N)} - {"b0", "b3", "b4"}


def test_random_checks_know_their_chance_and_no_other_building_has_one(chipped: Layout) -> None:
    queue = queueing.current(chipped, "ann")
    checks = [item for item in queue.items if item.kind == "audit"]
    assert checks
    for item in queue.items:
        chance = queueing.inclusion_of(chipped, "ann", item.building_id)
        assert chance == item.inclusion
        assert (chance is not None) == (item.kind == "audit")
    assert queueing.inclusion_of(chipped, "bob", checks[0].building_id) is None


def test_distances_from_a_building_are_those_of_its_features(chipped: Layout) -> None:
    sent = ranking.scores_for_browser(chipped, "like-7")
    distances = np.frombuffer(sent or b"", "<f4")
    values = ranking.plain_features(chipped, "set").astype(np.float64)
    unit = values / np.linalg.norm(values, axis=1, keepdims=True)
    np.testing.assert_allclose(distances, 1 - unit @ unit[7], atol=1e-5)
    for wrong in ("like-20", "like--1", "like-x", "like-"):
        assert ranking.scores_for_browser(chipped, wrong) is None


def in_two_scenes(layout: Layout, **facts: object) -> None:
    """Show the first half of the buildings in one scene and the second half in another."""
    path = layout.chip_facts("set")
    known = json.loads(path.read_text())
    scenes = ["post-1"] * (N // 2) + ["post-2"] * (N // 2)
    write_json(path, {**known, "post_scene": scenes, "sensor_group": [0] * N, "look_group": [0] * N, **facts})


def whys(queue: StoredQueue | None) -> dict[str, str]:
    return {item.building_id: item.why for item in queue.items}


def test_a_scene_without_answers_is_asked_for_until_it_has_some(chipped: Layout, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queueing, "LENGTH", 5)
    in_two_scenes(chipped)
    first = queueing.current(chipped, "ann")
    asked = [building for building, why in whys(first).items() if why == "too few answers in scene post-2 to rank it"]
    assert len(asked) == 1
    assert int(asked[0][1:]) >= N // 2
    click(chipped, asked[0])  # damaged: the scene has evidence now
    second = queueing.advance(chipped, "ann", done=first.id)
    assert not any("too few answers" in why for why in whys(second).values())


def test_buildings_without_a_pre_image_are_offered_for_answering(chipped: Layout) -> None:
    none, no_pre = [0.0] * N, [1.0 if i in (7, 8) else 0.0 for i in range(N)]
    shares = {"outside": none, "nodata": none, "cloud": none}
    in_two_scenes(
        chipped, bands="pre+post", post_outline=shares, pre_outline={**shares, "nodata": no_pre}, pre_scene=["pre-1"] * N
    )
    found = whys(queueing.current(chipped, "ann"))
    assert {building for building, why in found.items() if why.startswith("no pre-event image")} == {"b7", "b8"}
