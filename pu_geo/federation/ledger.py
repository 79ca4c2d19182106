"""The ledger: a line for each tensor that leaves this machine, written before it leaves."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

from pu_geo.federation.wire import Packed, sha256_of
from pu_geo.project import federations
from pu_geo.project.federations import FACTS, Sent
from pu_geo.project.store import now

LEADER = "leader"


def note(folder: Path, packed: Packed, to: str) -> None:
    """Write into the ledger all that a message holds, its plain facts too.

    Args:
        folder: of the federation, in the project that sends.
        to: receiver, in words.
    """
    at, number = now(), packed.facts.get("round", 0)
    values = json.dumps(dict(packed.facts), sort_keys=True, ensure_ascii=False).encode()
    common = (at, packed.kind, to, int(number))
    lines = [
        Sent(*common, name, array.dtype.name, array.shape, array.nbytes, sha256_of(array))
        for name, array in packed.arrays.items()
    ]
    facts = Sent(*common, FACTS, "json", (), len(values), hashlib.sha256(values).hexdigest(), dict(packed.facts))
    federations.append_sent(folder, [*lines, facts])
