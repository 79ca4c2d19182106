"""What an admitted member can send that is no message: it is refused in words, and the leader goes on."""

import io
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from small_parts import need_extra

from pu_geo.errors import FederationError

need_extra("federated")
from flwr.app import Array, ArrayRecord, ConfigRecord, Message, RecordDict  # noqa: E402  # only with the extra
from flwr.proto.message_pb2 import ObjectTree  # noqa: E402
from flwr.supercore.inflatable.inflatable_object import get_all_nested_objects, get_object_tree  # noqa: E402
from flwr.supercore.object_store.in_memory_object_store import InMemoryObjectStore  # noqa: E402
from flwr.supercore.task_identity import TaskIdentity  # noqa: E402

from pu_geo.federation.deployed import messages_job, superlink_job  # noqa: E402


@pytest.fixture(autouse=True)
def task(monkeypatch: pytest.MonkeyPatch) -> None:
    """Flower makes messages in a task alone."""
    for name in ("_run_id", "_node_id", "_task_id"):
        monkeypatch.setattr(TaskIdentity, name, 1)


def npy(header: bytes, values: bytes = b"") -> bytes:
    return b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header + values


def npz() -> bytes:
    stream = io.BytesIO()
    np.savez(stream, x=np.zeros(2))
    return stream.getvalue()


@pytest.mark.parametrize(
    "data",
    [
        npy(b"{'descr': '<f4', 'fortran_order': False, 'shape': (1000000000000000,), }\n"),
        npy(b"{'descr': '<f4', 'fortran_order': False, 'shape': (-1,), }\n", bytes(8)),
        npy(b"{'descr': '|S0', 'fortran_order': False, 'shape': (1000000000000000,), }\n"),
        npy(b"{'descr': '|O', 'fortran_order': False, 'shape': (1,), }\n", bytes(8)),
        npy(b"((((\n"),
        b"PK\x03\x04 no archive",
        npz(),
        b"",
    ],
    ids=range(8),
)  # fmt: skip
def test_an_array_that_is_none_is_refused(data: bytes) -> None:
    arrays = ArrayRecord({"x": Array("float32", (2,), "numpy.ndarray", data)})
    content = RecordDict({"arrays": arrays, "facts": ConfigRecord(), "kind": ConfigRecord({"kind": "answer"})})
    with pytest.raises(FederationError, match="an array in it cannot be read"):
        messages_job.from_records(content)


def grid_of() -> tuple[superlink_job.LocalGrid, InMemoryObjectStore]:
    store = InMemoryObjectStore()
    return superlink_job.LocalGrid(SimpleNamespace(object_store=store), 1), store


def stored_as(message_id: str) -> Message:
    """What Flower stores of the reply of node 5 to an ask, beside its parts."""
    made = message()
    made.metadata.__dict__.update(_message_id=message_id, _reply_to_message_id="ask", _src_node_id=5)
    return made


def received(sent: Message | RecordDict) -> Message | None:
    """What the leader reads of a message that arrived in full."""
    grid, store = grid_of()
    store.preregister(1, get_object_tree(sent))
    for name, part in get_all_nested_objects(sent).items():
        store.put(name, part.deflate())
    return grid._whole(stored_as(sent.object_id))


def message(**claims: Any) -> Message:
    made = Message(RecordDict({"kind": ConfigRecord({"kind": "answer"})}), 7, "train.round")
    made.metadata.__dict__.update(claims)
    return made


def test_a_message_comes_from_whom_flower_had_it_and_not_from_whom_it_claims() -> None:
    found = received(message(_reply_to_message_id="another's", _src_node_id=6))
    assert found is not None
    assert (found.metadata.reply_to_message_id, found.metadata.src_node_id) == ("ask", 5)
    assert found.content["kind"] == ConfigRecord({"kind": "answer"})


def test_what_is_no_message_or_has_another_content_is_refused() -> None:
    odd = message()
    odd.__dict__["_content"] = Array(np.zeros(2))
    for sent in (RecordDict(), odd):
        found = received(sent)
        assert found is not None
        assert "cannot be read" in found.error.reason


def test_a_message_of_many_paths_or_parts_takes_no_longer_than_its_parts() -> None:
    grid, store = grid_of()
    children: list[ObjectTree] = []
    for level in range(40):
        tree = ObjectTree(object_id=f"{level:064x}", children=children)
        store.preregister(1, tree)
        children = [ObjectTree(object_id=tree.object_id)] * 2  # 2^40 paths, though it is sent as 40 short trees
    assert grid._whole(stored_as(tree.object_id)) is None
    wide = ObjectTree(
        object_id="f" * 64, children=[ObjectTree(object_id=f"{k:064x}") for k in range(superlink_job.MAX_OBJECTS)]
    )
    store.preregister(1, wide)
    found = grid._whole(stored_as(wide.object_id))
    assert found is not None
    assert "more than 5,000 parts" in found.error.reason


def test_a_chain_of_parts_is_refused_without_ending_the_leader() -> None:
    grid, store = grid_of()
    children: list[ObjectTree] = []
    for level in range(superlink_job.MAX_OBJECTS + 1):
        store.preregister(1, ObjectTree(object_id=f"{level:064x}", children=children))
        children = [ObjectTree(object_id=f"{level:064x}")]
    found = grid._whole(stored_as(children[0].object_id))
    assert found is not None
    assert "more than 5,000 parts" in found.error.reason
