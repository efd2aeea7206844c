"""Which pods are tried in a tick when more are ready than it has time for, and which are tried later."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from lib.kube.objects import Pod

MOST_PODS = 1000
"""So many pods at most are decided on in a tick, but for the only tick, and large groups."""


@dataclass
class PodTurns:
    """The turns of pods that are ready. A single pod is a group of its own here."""

    now: Callable[[], float]
    most: int | None
    """How many groups are tried in a tick at most; None for all."""
    not_before: dict[str, float] = field(default_factory=dict)
    """When a pod may be tried again that can't be tried yet, by uid."""
    _left_out: set[str] = field(default_factory=set)
    """The uids of the pods that were left out when it was their turn last."""

    def split(self, groups: list[list[Pod]]) -> tuple[list[list[Pod]], list[list[Pod]]]:
        """The groups whose turn is now, and those whose turn comes later.

        If there are too many for a tick, those that were left out last come after the others: so they don't
        keep others from being tried.
        """
        if self.most is None or len(groups) <= self.most:
            return groups, []
        groups = sorted(groups, key=lambda group: group[0].metadata.uid in self._left_out)
        return groups[: self.most], groups[self.most :]

    def begin(self, later: Iterable[list[Pod]]) -> None:
        """The turns of a tick begin: what is no longer true is forgotten. later: as `split` returned it."""
        self._left_out &= {group[0].metadata.uid for group in later}
        now = self.now()
        self.not_before = {uid: at for uid, at in self.not_before.items() if at > now}

    def leave_out(self, uids: Iterable[str]) -> None:
        """Note that pods were left out, though it was their turn."""
        self._left_out.update(uids)
