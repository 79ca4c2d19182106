"""What an open of a project does under `trash/`: it ends what was left half done, and takes nothing else."""

from pathlib import Path

import pytest

from pu_geo.errors import ProjectError
from pu_geo.lifecycle import doctor_job
from pu_geo.store import removals
from pu_geo.store.layout import Layout


def stopped(layout: Layout, listed: str | None) -> Path:
    """Leave in the trash what a removal leaves that was stopped after it moved a file."""
    folder = layout.trash / ("0" * 16)
    (folder / "old").mkdir(parents=True)
    (folder / "old" / "a.txt").write_text("x")
    if listed is not None:
        (folder / "files.json").write_text(listed)
    return folder


def test_a_folder_of_a_person_in_the_trash_stays_and_is_named(project: Layout) -> None:
    own = project.trash / "keep me"
    own.mkdir(parents=True)
    (own / "a.txt").write_text("x")
    (project.trash / ("1" * 16)).mkdir(parents=True)  # of a removal that had moved nothing
    removals.settle(project)
    assert (own / "a.txt").read_text() == "x"
    assert [*project.trash.glob("*/")] == [own]
    assert [one.level for one in doctor_job.examine(project) if "keep me" in one.words] == ["note"]


@pytest.mark.parametrize("listed", ["{", '["../a"]', '{"files": []}', "3", None])
def test_the_only_copy_of_files_stays_where_it_is_not_known_whose_they_are(listed: str | None, project: Layout) -> None:
    folder = stopped(project, listed)
    removals.settle(project)
    assert (folder / "old" / "a.txt").read_text() == "x"
    assert removals.not_settled(project) == [folder]


def test_what_was_stopped_before_its_log_comes_back(project: Layout) -> None:
    folder = stopped(project, '["a.txt"]')
    removals.settle(project)
    assert (project.folder / "a.txt").read_text() == "x"
    assert not folder.exists()


def test_features_that_were_computed_again_are_not_overwritten_by_an_undo(project: Layout) -> None:
    path = project.folder / "chips" / "set.dino.features.npy"
    path.parent.mkdir(exist_ok=True)
    path.write_text("first")
    name = str(path.relative_to(project.folder))
    removals.remove(project, "features", "set.dino", analyst="ann", facts={"title": "features dino"}, files=[name])
    path.write_text("second")
    with pytest.raises(ProjectError, match="is in the project again"):
        removals.undo(project, analyst="ann")
    assert path.read_text() == "second"
    path.unlink()
    removals.undo(project, analyst="ann")
    assert path.read_text() == "first"
