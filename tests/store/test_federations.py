"""The files of federations: written and read back, and what a crash leaves in a log."""

from pathlib import Path

import pytest

from pu_geo.errors import ProjectError
from pu_geo.store import federations
from pu_geo.store.federations import Member, Round, Sent
from pu_geo.store.layout import Layout


def a_round(number: int, at: str = "2026-01-01T00:00:00.000Z", *, is_counted: bool = True) -> Round:
    cosines = [[1.0, 0.25], [0.25, 1.0]]
    return Round(number, at, [0], [], {1: "Its training diverged."}, 0.5, cosines, is_counted)


def a_line(round_number: int = 1) -> Sent:
    return Sent(
        "2026-01-01T00:00:00.000Z", "ask", "member of rest", round_number, "own_vector", "float32", [8], 32, "0" * 64
    )


def test_what_is_written_is_read_back(tmp_path: Path) -> None:
    layout = Layout(tmp_path / "a.pugeo")
    folder = layout.federation("storms")
    assert federations.ids(layout) == []
    federations.write_agreement(folder, b'{"id": "storms"}')
    assert federations.ids(layout) == ["storms"]
    assert federations.agreement_bytes(folder) == b'{"id": "storms"}'
    assert not federations.is_lead(folder)
    assert federations.members(folder) == {}
    members = {0: Member("rest", "A", 0.5, "ab:cd", "key", is_own=True), 1: Member("flooded", has_model=True)}
    federations.write_members(folder, members)
    assert federations.is_lead(folder)
    assert federations.members(folder) == members
    with federations.changing_members(folder) as found:
        del found[1]
    assert federations.members(folder) == {0: members[0]}
    assert federations.memberships(folder) == {}
    federations.write_memberships(folder, {"rest": None, "flooded": "answers"})
    assert federations.memberships(folder) == {"rest": None, "flooded": "answers"}
    federations.append_round(folder, a_round(1))
    assert federations.rounds(folder) == [a_round(1)]
    facts = Sent(**{**a_line().__dict__, "name": federations.FACTS, "shape": [], "values": {"loss": 0.5}})
    here = Sent(**{**a_line(0).__dict__, "is_here": True})
    federations.append_sent(folder, [a_line(), facts, here])
    assert federations.ledger(folder) == [a_line(), facts, here]


def test_half_a_line_of_a_crash_is_left_out_and_ended(tmp_path: Path) -> None:
    federations.append_sent(tmp_path, [a_line(1)])
    path = tmp_path / federations.LEDGER
    whole = path.read_bytes()
    path.write_bytes(whole + whole[: len(whole) // 2])
    assert federations.ledger(tmp_path) == [a_line(1)]
    federations.append_sent(tmp_path, [a_line(2)])
    assert federations.ledger(tmp_path) == [a_line(1), a_line(2)]
    assert path.read_bytes().startswith(whole)  # nothing is ever rewritten


def test_of_a_round_that_was_done_twice_the_last_line_counts(tmp_path: Path) -> None:
    for one in (a_round(1, "a"), a_round(2, "b", is_counted=False), a_round(2, "c"), a_round(2, "d")):
        federations.append_round(tmp_path, one)
    assert [(one.number, one.at) for one in federations.rounds(tmp_path)] == [(1, "a"), (2, "d")]
    assert [one.at for one in federations.rounds(tmp_path, is_counted=False)] == ["a", "b", "d"]


@pytest.mark.parametrize("content", [b"", b"[1]"])
def test_damaged_members_are_named(tmp_path: Path, content: bytes) -> None:
    folder = Layout(tmp_path / "a.pugeo").federation("storms")
    folder.mkdir(parents=True)
    (folder / federations.MEMBERS).write_bytes(content)
    with pytest.raises(ProjectError, match=r"federation/storms/members\.json of a\.pugeo is damaged"):
        federations.members(folder)
