"""The ledger: a line for each tensor that is sent, written before it leaves; one that stays on this machine is marked."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

from pu_geo.federation.wire import Packed, sha256_of
from pu_geo.project import federations
from pu_geo.project.federations import FACTS, Sent
from pu_geo.project.store import now

LEADER = "leader"


def note(folder: Path, packed: Packed, to: str, *, is_here: bool) -> None:
    """Write into the ledger all that a message holds, its plain facts too.

    Args:
        folder: of the federation, in the project that sends.
        to: receiver, in words.
        is_here: whether the receiver is on this machine, see `federations.rows_here`.
    """
    at, number = now(), packed.facts.get("round", 0)
    values = json.dumps(dict(packed.facts), sort_keys=True, ensure_ascii=False).encode()
    common = (at, packed.kind, to, int(number))
    lines = [
        Sent(*common, name, array.dtype.name, array.shape, array.nbytes, sha256_of(array), is_here=is_here)
        for name, array in packed.arrays.items()
    ]
    facts = Sent(*common, FACTS, "json", (), len(values), hashlib.sha256(values).hexdigest(), dict(packed.facts), is_here)
    federations.append_sent(folder, [*lines, facts])
