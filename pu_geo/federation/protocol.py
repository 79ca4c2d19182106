"""What leader and members of a federation send each other, whatever carries it: in one process, or Flower between machines.

A federation has a leader, who averages, and members. A member is one project with the chips of one class, known by its node key. One
project can be several members: its damage type, and "rest", the buildings that nobody called damaged.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from torch import Tensor

from pu_geo.methods.fedaws import ClientUpdate, Theta


class Ask(NamedTuple):
    """What the leader sends one member in a round: theta, and the member's own row of W alone.

    Attributes:
        round: 1 for the first.
        theta: what all members share, see `network.shared_of`.
        own_vector: float32 [E] of unit length.
        agreement: digest of the agreement that the leader goes by.
    """

    round: int
    theta: Theta
    own_vector: Tensor
    agreement: str


@dataclass(frozen=True)
class Answer:
    """What a member sends back.

    Attributes:
        agreement: digest of the agreement that the member joined.
        class_name: the class that it claims.
        update: its `n_chips` is 1 where the agreement weighs members equally, so that their numbers do not leave them.
        loss: mean over its steps of this round.
    """

    round: int
    agreement: str
    class_name: str
    update: ClientUpdate
    loss: float


class Transport(Protocol):
    """Carries a round to the members and their answers back."""

    def exchange(
        self, asks: Mapping[int, Ask], *, deadline_s: float, is_cancelled: Callable[[], bool]
    ) -> Mapping[int, Answer | str]:
        """Send each member its ask, by row of W, and return what came back until the deadline.

        Returns:
            By row of W: the answer, or why it was refused, in words. A row whose member was not heard of is missing.
        """
        ...

    def finish(self, model: Mapping[str, Tensor], facts: Mapping[str, object], *, deadline_s: float) -> Mapping[int, str]:
        """Send the finished model to each member.

        Args:
            model: theta, by its names, and "class_vectors", float32 [C, E]: scoring needs all of them.
            facts: what the leader says of the training: texts and numbers.

        Returns:
            By row of W: "" where the member has it, or why it could not take it, in words. A row whose member was not heard of is
            missing.
        """
        ...
