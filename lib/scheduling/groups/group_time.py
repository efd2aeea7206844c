"""Limits the time of groups that need long and don't fit, so that they don't hold up all other pods.

An attempt to place a group of a thousand pods takes a second or more. Nothing else can be placed meanwhile.
A group that waits for room is tried after each pod that ends. So slow groups get a tenth of the time in the
long run, and pods that are ready at the same time are tried before them.
"""

from collections.abc import Iterable, Sequence

from lib.kube.objects import Pod, PodGroupRef
from lib.scheduling.decision import PLACED, Decision
from lib.scheduling.pod_groups import group_of

SHARE = 0.1
"""The part of the time that slow groups get."""

USUAL = 0.05
"""A group is slow if an attempt takes more seconds than this."""

MOST_GROUPS = 1_000
"""So many slow groups are remembered at most."""


class GroupTime:
    """Which slow groups may be tried. All times are in seconds."""

    def __init__(self) -> None:
        self.slow: dict[PodGroupRef, None] = {}
        """The slow groups; those first that have waited longest since they were tried."""
        self._next_at = 0.0
        """When the next one may be tried."""

    def in_turn(self, pods: Iterable[Pod], now: float) -> list[Pod]:
        """The pods in the order in which they are tried now.

        Of the slow groups, only the one that has waited longest is tried, after all other pods. None is tried
        if slow groups have had their share of the time.
        """
        others, of_slow = list[Pod](), dict[PodGroupRef, list[Pod]]()
        for pod in pods:
            if (group := group_of(pod)) and group in self.slow:
                of_slow.setdefault(group, []).append(pod)
            else:
                others.append(pod)
        if now >= self._next_at:
            others += next((of_slow[group] for group in self.slow if group in of_slow), ())
        return others

    def took(self, decisions: Sequence[Decision], now: float) -> None:
        """Note how long an attempt to place a group took."""
        group = group_of(decisions[0].pod) if decisions else None
        if not group:
            return
        self.slow.pop(group, None)
        if not all(decision.outcome in PLACED for decision in decisions):
            self.took_in_vain(group, decisions, now)

    def took_in_vain(self, group: PodGroupRef, decisions: Sequence[Decision], now: float) -> None:
        """Note how long an attempt took that didn't place its group. decisions: those that were made."""
        seconds = sum(decision.seconds for decision in decisions)
        if seconds <= USUAL:
            return
        self.slow.pop(group, None)
        self.slow[group] = None
        self._next_at = now + seconds / SHARE - seconds
        if len(self.slow) > MOST_GROUPS:
            del self.slow[next(iter(self.slow))]
