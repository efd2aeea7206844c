"""Keeps whether claims get their devices on a node, for claims that are alike, until that may have changed.

Most pods of a burst have claims alike, made of one template. After each placement only the nodes must be
searched again that reach the pool of which something was taken.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import msgspec

from lib.kube.devices import ResourceClaim
from lib.scheduling.devices.pools import Pool
from lib.scheduling.devices.taken import Taken

MOST_ANSWERS = 200_000
"""So many answers are kept at most, for all nodes together."""


class KeptAnswer(NamedTuple):
    """rejection: why the claims don't get their devices; "" if they do. score: how good these are."""

    rejection: str
    score: int = 0


class KeptAnswers:
    """Answers by what is claimed, and by node. Clear it when a DeviceClass changes."""

    def __init__(self) -> None:
        self._by_claims: dict[bytes, dict[str, tuple[Sequence[Pool], int, KeptAnswer]]] = {}
        self._count = 0

    def clear(self) -> None:
        """Forget all answers."""
        self._by_claims.clear()
        self._count = 0

    def get(self, claimed: bytes, node_name: str, pools: Sequence[Pool], taken: Taken) -> KeptAnswer | None:
        """The answer for a node that reaches these pools; None if it isn't known."""
        kept = self._by_claims.get(claimed, {}).get(node_name)
        if kept and kept[0] is pools and kept[1] == _state(pools, taken):
            return kept[2]
        return None

    def put(
        self, claimed: bytes, node_name: str, pools: Sequence[Pool], taken: Taken, answer: KeptAnswer
    ) -> None:
        """Keep an answer, unless a pool has counters: what is left of these depends on other nodes, too."""
        if any(pool.counters for pool in pools):
            return
        of_claims = self._by_claims.setdefault(claimed, {})
        if node_name not in of_claims:
            if self._count >= MOST_ANSWERS:
                self.clear()
                of_claims = self._by_claims.setdefault(claimed, {})
            self._count += 1
        of_claims[node_name] = pools, _state(pools, taken), answer


def what_is_claimed(claims: Iterable[ResourceClaim]) -> bytes:
    """Equal for claims that get their devices on the same nodes."""
    return msgspec.msgpack.encode(
        [(claim.spec.devices.requests, claim.spec.devices.constraints) for claim in claims]
    )


def _state(pools: Sequence[Pool], taken: Taken) -> int:
    """Another one when anything of the pools was taken or given back since."""
    changes = taken.changes
    return sum(changes.get(pool.name, 0) for pool in pools)
