"""The files of feature sets, and which one people chose."""

import errno
import os
from dataclasses import replace

import numpy as np
import pytest
from small_parts import add_chips

from pu_geo.errors import ProjectError
from pu_geo.records import FeatureRequest
from pu_geo.store import feature_sets, store
from pu_geo.store.feature_sets import FeatureSet
from pu_geo.store.layout import Layout

IDS = [f"b{i}" for i in range(20)]
OTHER = "backbone-1a2b3c4d"


@pytest.fixture
def chipped(project: Layout) -> Layout:
    add_chips(project, IDS, features=np.zeros((2, 20, 8), np.float16))
    return project


def put(layout: Layout, name: str = OTHER, chip_set: str = "set", created_at: str = "2026-01-01") -> FeatureSet:
    found = FeatureSet(name, {"kind": "backbone", "licence": "BSD"}, 3, 20, 4, created_at, 1.5)
    with feature_sets.new_views(layout, chip_set, name, (3, 20, 4)) as out:
        out[:] = 1
    feature_sets.write_maker(layout, chip_set, name, {"weight": np.ones(3, np.float32)})
    feature_sets.put(layout, chip_set, found)
    return found


def in_use(layout: Layout, chip_set: str = "set") -> feature_sets.InUse:
    return store.call(layout, feature_sets.in_use, layout, chip_set)


def choose(layout: Layout, name: str, chip_set: str = "set") -> None:
    store.call(layout, feature_sets.choose, layout, chip_set, name)


def test_a_set_is_what_was_put_and_listed_after_rcf_the_oldest_first(chipped: Layout) -> None:
    assert in_use(chipped) == ("rcf", "")
    assert feature_sets.all_sets(chipped, "set") == [FeatureSet("rcf", {"kind": "rcf"}, 2, 20, 8)]
    assert feature_sets.maker_state(chipped, "set", "rcf") == {}
    made = put(chipped, created_at="2026-01-02")
    assert feature_sets.find(chipped, "set", OTHER) == made
    assert made.licence == "BSD"
    np.testing.assert_array_equal(feature_sets.views(chipped, "set", OTHER), np.ones((3, 20, 4), np.float16))
    assert feature_sets.maker_state(chipped, "set", OTHER)["weight"].tolist() == [1, 1, 1]
    names = {path.name.removeprefix(f"set.{OTHER}.") for path in (chipped.folder / "chips").glob(f"*{OTHER}*")}
    assert names == {"features.npy", "maker.npz", "features.json"}
    put(chipped, "alpha-1", created_at="2026-01-03")
    put(chipped, "zebra-1", created_at="2026-01-01")
    assert [one.name for one in feature_sets.all_sets(chipped, "set")] == ["rcf", "zebra-1", OTHER, "alpha-1"]


def test_what_a_kill_left_is_removed_and_nothing_else(chipped: Layout) -> None:
    put(chipped)
    put(chipped, "killed-1")
    put(chipped, chip_set="newer")
    chipped.feature_facts("set", "killed-1").unlink()  # a set exists once its facts do
    assert [one.name for one in feature_sets.all_sets(chipped, "set")] == ["rcf", OTHER]
    with pytest.raises(ProjectError, match="have no features 'killed-1'"):
        feature_sets.views(chipped, "set", "killed-1")
    chips = chipped.folder / "chips"
    for beginning in ("set", "newer"):
        (chips / f".{beginning}.{OTHER}.features.npy.0123456789abcdef.part").touch()
    kept = {path.name for path in chips.iterdir() if "killed" not in path.name and not path.name.startswith(".set.")}
    feature_sets.remove_unfinished(chipped, "set")
    assert {path.name for path in chips.iterdir()} == kept
    assert {"set.features.npy", f"set.{OTHER}.maker.npz", f".newer.{OTHER}.features.npy.0123456789abcdef.part"} <= kept


@pytest.mark.skipif(not hasattr(os, "posix_fallocate"), reason="this system has no such call")
def test_features_get_their_room_first_or_are_refused(chipped: Layout, monkeypatch: pytest.MonkeyPatch) -> None:
    with feature_sets.new_views(chipped, "set", OTHER, (3, 1000, 400)):
        (part,) = (chipped.folder / "chips").glob(".*.part")
        assert part.stat().st_blocks * 512 >= 3 * 1000 * 400 * 2

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "posix_fallocate", full)
    with pytest.raises(ProjectError, match="No space left") as refused:  # noqa: SIM117
        with feature_sets.new_views(chipped, "set", "full-1", (3, 20, 4)):
            pytest.fail("nothing is computed on a full disk")
    assert refused.value.kind == "disk"
    assert not [path for path in (chipped.folder / "chips").iterdir() if "full-1" in path.name]


def test_a_choice_holds_and_other_chips_fall_back_to_rcf_with_a_note(chipped: Layout) -> None:
    put(chipped)
    choose(chipped, OTHER)
    assert in_use(chipped) == (OTHER, "")
    add_chips(chipped, IDS, "newer", features=np.zeros((2, 20, 8), np.float16))
    name, note = in_use(chipped, "newer")
    assert name == "rcf"
    assert f"chosen features {OTHER} were not made for the newest chips" in note
    put(chipped, chip_set="newer")
    assert in_use(chipped, "newer") == (OTHER, "")
    choose(chipped, "rcf")
    assert in_use(chipped) == ("rcf", "")


def test_a_set_that_is_not_there_is_neither_chosen_nor_removed(chipped: Layout) -> None:
    with pytest.raises(ProjectError, match="no features 'backbone-1a2b3c4d'; they have: rcf"):
        choose(chipped, OTHER)
    with pytest.raises(ProjectError, match="is not an id"):
        choose(chipped, "../../etc")
    for name, words in (("rcf", "belong to the chips"), (OTHER, "have no features")):
        with pytest.raises(ProjectError, match=words):
            feature_sets.require_removable(chipped, "set", name)


def test_the_same_weights_and_settings_have_the_same_name() -> None:
    asked = FeatureRequest("backbone", "/data/a.safetensors", licence="BSD")
    name = feature_sets.name_of(asked, "abc")
    assert (name[:9], len(name)) == ("backbone-", 17)
    assert feature_sets.name_of(replace(asked, backbone="/elsewhere/b.safetensors", licence=""), "abc") == name
    changes = {
        "pool": "footprint",
        "layer": "layer3",
        "size_px": 96,
        "n_views": 1,
        "dates": "post",
        "maker": "self-supervised",
    }
    names = {feature_sets.name_of(replace(asked, **{key: value}), "abc") for key, value in changes.items()}
    assert len({*names, name, feature_sets.name_of(asked, "abd")}) == 8
    assert feature_sets.name_of(FeatureRequest("rcf"), "") == "rcf"
