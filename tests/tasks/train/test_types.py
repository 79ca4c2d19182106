"""Types that people gave on Annotate, and grades, arrive where methods learn from them."""

from __future__ import annotations

import json
from pathlib import Path
from sqlite3 import Connection

import numpy as np
import pytest
from clustered_parts import chipped
from model_parts import job_of
from small_parts import click, facts_of, in_tiers

from pu_geo.methods import catalog
from pu_geo.methods.catalog import settings_for
from pu_geo.project import grades, store
from pu_geo.project.grades import USUAL
from pu_geo.project.layout import Layout
from pu_geo.tasks.train import train as train_task
from pu_geo.tasks.train.inputs import read_inputs
from pu_geo.training.data import PUData

SHORT = {"epochs": "2", "max_steps": "4", "rounds": "2"}


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    """Six damaged buildings, five with types, one of them with two; six undamaged; eight not reviewed."""
    layout = chipped(tmp_path)
    click(layout, "b0", "b1", damage_types=["roof"], grade="minor")
    click(layout, "b2", damage_types=["roof", "flooded"], grade="major")
    click(layout, "b3", damage_types=["flooded"], absent_types=["roof"], grade="major")
    click(layout, "b4", damage_types=["tent"])
    return layout


def data_of(layout: Layout, method: str, types_from: str) -> PUData:
    inputs = read_inputs(layout).with_types(layout, types_from, catalog.card(method))
    return inputs.data(layout, settings_for(method, "quick"))


def trained(layout: Layout, method: str, types_from: str) -> str:
    known = set(catalog.card(method).settings.__dataclass_fields__)
    short = {name: value for name, value in SHORT.items() if name in known}
    job = job_of(layout, method)
    return str(train_task.train(job, method=method, preset="quick", overrides=short, types_from=types_from)["run_id"])


def test_answers_become_labels_of_several_types(layout: Layout) -> None:
    data = data_of(layout, "herocon", "answers")
    assert data.type_labels is not None
    assert (data.type_names, data.is_ordinal) == (("roof", "flooded"), False)
    assert data.type_labels[:6].tolist() == [[1, -1], [1, -1], [1, 1], [0, 1], [-1, -1], [-1, -1]]
    assert (data.type_labels[6:14] == -1).all()
    assert (data.type_labels[14:] == 0).all()


def test_grades_become_a_scale(layout: Layout) -> None:
    data = data_of(layout, "herocon", "grades")
    assert data.type_labels is not None
    assert (data.type_names, data.is_ordinal) == (("at least Minor", "at least Major"), True)
    assert data.type_labels[:6].tolist() == [[1, 0], [1, 0], [1, 1], [1, 1], [1, -1], [1, -1]]


def test_a_method_of_one_kind_each_gets_the_rarest(layout: Layout) -> None:
    data = data_of(layout, "ncl", "answers")
    named = [data.class_names[number] for number in data.classes[:6]]
    assert named == ["roof", "roof", "flooded", "flooded", "damaged", "damaged"]
    inputs = read_inputs(layout).with_types(layout, "answers", catalog.card("ncl"))
    assert any(words.startswith("1 building has several damage types") for words in inputs.warnings)
    assert not any(
        "several" in words for words in read_inputs(layout).with_types(layout, "answers", catalog.card("herocon")).warnings
    )


def test_without_types_a_method_gets_what_it_always_got(layout: Layout) -> None:
    data = read_inputs(layout).data(layout, settings_for("herocon", "quick"))
    assert (data.type_labels, data.type_names, data.class_names) == (None, (), ("not damaged", "damaged"))
    by_attribute = data_of(layout, "herocon", "name")
    assert by_attribute.type_labels is not None
    assert by_attribute.type_labels[:6].tolist() == np.eye(6).tolist()
    assert by_attribute.type_names == by_attribute.class_names[1:]
    assert len(by_attribute.class_names) == 7


def test_of_an_empty_attribute_nobody_said_a_type(layout: Layout) -> None:
    def fill(db: Connection) -> None:
        for fid, value in enumerate(["roof", "flooded", "roof", "", None, "flooded"], 1):
            db.execute("UPDATE footprints SET attributes = ? WHERE fid = ?", (json.dumps({"kind": value}), fid))
        db.commit()

    store.call(layout, fill)
    data = data_of(layout, "herocon", "kind")
    assert data.type_labels is not None
    assert data.type_names == ("flooded", "roof")
    assert data.type_labels[:6].tolist() == [[0, 1], [1, 0], [0, 1], [-1, -1], [-1, -1], [1, 0]]
    inputs = read_inputs(layout).with_types(layout, "kind", catalog.card("herocon"))
    assert any(words.startswith("2 damaged buildings have no value of the attribute kind") for words in inputs.warnings)
    named = [data_of(layout, "ncl", "kind").classes[row] for row in (3, 4)]
    assert named[0] == named[1] > 0  # methods that take one kind of each building make them one of their own


@pytest.mark.slow
@pytest.mark.parametrize("method", in_tiers(["ncl", "fedaws", "herocon"], "contract", quick=["fedaws"]))
def test_each_method_trains_on_given_types_and_names_the_one_it_left_out(layout: Layout, method: str) -> None:
    facts = facts_of(layout, trained(layout, method, "answers"))
    assert any("were not learned: tent (1)" in words for words in facts.warnings)


@pytest.mark.slow
def test_a_run_notes_which_grades_its_types_are(layout: Layout) -> None:
    facts = facts_of(layout, trained(layout, "herocon", "grades"))
    assert (facts.types, facts.type_grades) == (("at least Minor", "at least Major"), ("minor", "major"))


def test_a_training_that_goes_on_keeps_the_scale_it_began_with(layout: Layout, tmp_path: Path) -> None:
    begun = tmp_path / "job" / "checkpoints"
    begun.parent.mkdir()
    first = read_inputs(layout, begun).with_types(layout, "grades", catalog.card("herocon"))
    with store.connect(layout) as db:
        grades.put(db, USUAL[:1])
    click(layout, "b5", damage_types=["roof"], grade="destroyed")
    again = read_inputs(layout, begun).with_types(layout, "grades", catalog.card("herocon"))
    assert first.types is not None
    assert again.types is not None
    assert again.types.names == first.types.names
    np.testing.assert_array_equal(again.types.labels, first.types.labels)
