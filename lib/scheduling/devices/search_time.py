"""How long searches for devices may take, so that a few pods don't hold up all others.

kube-scheduler gives each pod and node 10 seconds. Nothing else can be placed meanwhile. So a hundred pods
whose claims take for ever would stop the scheduler for a quarter of an hour. Here, slow searches take a tenth
of the time in the long run.
"""

from collections.abc import Mapping
from math import inf

from lib.scheduling.node_info import NodeInfo

SHARE = 0.1
"""The part of the time that slow searches get."""

SHORTEST = 0.02
"""The fewest seconds for claims that were never searched in vain."""

USUAL = 0.01
"""A search isn't slow that takes no more seconds than this."""

MOST_CLAIMS = 10_000
"""So many claims are remembered at most."""


class SearchTime:
    """The seconds that are left for slow searches. `now` and all times are in seconds."""

    def __init__(self) -> None:
        self._left, self._most, self._at = inf, inf, 0.0
        self._in_vain: dict[bytes, float] = {}
        """By what is claimed, how long was searched."""
        self._hopeless: dict[tuple[bytes, str], Mapping[str, str]] = {}
        """Searches that took all the time: by what is claimed and the node's name, the node's labels then."""

    def limit(self, claimed: bytes, node: NodeInfo, most: float, now: float) -> float:
        """How long a search of a node may take: `most`, if others have left that. `most` is 0 for no limit.

        0 if it isn't worth another try. Claims that were searched in vain get twice the time at the next try,
        as soon as there is so much. Where they got all of it, they aren't searched again until devices may be
        there.
        """
        if not most:
            return inf
        if self._hopeless.get((claimed, node.name)) == node.labels:
            return 0.0
        self._left = min(most, self._left + SHARE * max(0.0, now - self._at))
        self._most, self._at = most, now
        if (before := self._in_vain.get(claimed)) is None:
            return max(self._left, SHORTEST)
        return self._left if self._left >= min(most, 2 * before) else 0.0

    def took(self, claimed: bytes, node: NodeInfo, seconds: float, limit: float, *, ended: bool) -> None:
        """Note how long a search took. ended: whether it came to its end within the limit."""
        self._left = max(0.0, self._left - max(0.0, seconds - USUAL))
        if ended:
            self._in_vain.pop(claimed, None)
            return
        if len(self._in_vain) >= MOST_CLAIMS:
            self._in_vain.clear()
        self._in_vain[claimed] = limit
        if limit >= self._most:
            self._hopeless[claimed, node.name] = node.labels

    def devices_may_be_there(self) -> None:
        """Devices have come, have changed, or are free: no search is hopeless any more."""
        self._hopeless.clear()
