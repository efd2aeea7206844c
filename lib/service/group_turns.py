"""Which group of pods is tried when. An attempt to place a large one may last over many ticks.

Other pods are placed between its parts. They see its room taken, so they are woken if it is given back.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from lib.kube.changes import AnyChange
from lib.kube.objects import Pod, PodGroupRef
from lib.lazily import Lazy
from lib.scheduling.decision import Decision
from lib.scheduling.hints import changes_anything
from lib.scheduling.pod_groups import group_of
from lib.scheduling.pod_life import ROOM
from lib.service.follow_up import FollowUp

if TYPE_CHECKING:
    from lib.scheduling.groups import group_time, pod_group_cycle
else:
    group_time = Lazy("lib.scheduling.groups.group_time")
    pod_group_cycle = Lazy("lib.scheduling.groups.pod_group_cycle")


@dataclass
class GroupTurns:
    """The turns of groups."""

    follow_up: FollowUp
    now: Callable[[], float]
    under_way: "pod_group_cycle.GroupAttempt | None" = None
    """The attempt that isn't over, if any. There is one at most."""
    missed: list[AnyChange] = field(default_factory=list)
    """What has changed since that attempt began: it may help pods that had failed by then."""
    _waiting: set[PodGroupRef | None] = field(default_factory=set)
    """Other groups that need long, too: they are tried when that attempt is over."""

    @cached_property
    def time(self) -> "group_time.GroupTime":
        """How long groups took. Its module is imported when the first one has taken some time."""
        return group_time.GroupTime()

    def others(self, pods: list[Pod]) -> list[Pod]:
        """The pods, except those of the attempt that isn't over and those of groups that wait for its end."""
        if not self.under_way:
            return pods
        keep_out = self._waiting | {self.under_way.group}
        return [pod for pod in pods if group_of(pod) not in keep_out]

    def in_turn(self, pods: list[Pod]) -> list[Pod]:
        """The pods that are to be tried before that attempt goes on, in this order."""
        if not (self.under_way or ("time" in self.__dict__ and self.time.slow)):
            return pods
        return self.time.in_turn(self.others(pods), self.now())

    def go_on(self, pods: list[Pod], until: float) -> list[Decision] | None:
        """Try a group until this time. Returns its decisions; None if the attempt isn't over then."""
        attempt = self.under_way
        if not attempt or pods is not attempt.pods:
            attempt = pod_group_cycle.GroupAttempt(pods, self.follow_up.cache, self.follow_up.schedulers)
        elif attempt.is_overtaken:
            self.give_up()
            return None
        try:
            decisions = attempt.go_on(lambda: self.now() < until)
        except Exception:  # all is undone
            if attempt is self.under_way:
                self._end()
                self._wake(attempt.placed)
            raise
        if decisions is None and self.under_way in (None, attempt):
            self.under_way = attempt
        elif decisions is None:
            self._waiting.add(attempt.group)
            self._wake(attempt.undo())
        else:
            self.time.took(decisions, self.now())
            if attempt is self.under_way:
                self._end()
                decisions = self._wake(decisions)
        return decisions

    def give_up(self) -> None:
        """Undo the attempt that isn't over. Its group is tried anew, after others that need long."""
        if attempt := self.under_way:
            self._end()
            if attempt.group:
                self.time.took_in_vain(attempt.group, attempt.decisions, self.now())
            self._wake(attempt.undo())

    def _end(self) -> None:
        self.under_way = None
        self._waiting.clear()

    def _wake(self, decisions: Iterable[Decision]) -> list[Decision]:
        """Wake the pods that can use the room of pods that have lost their node. Returns what is left of all
        decisions."""
        undone = self.follow_up.undone
        return [undone(decision) if self._has_lost_room(decision) else decision for decision in decisions]

    def _has_lost_room(self, decision: Decision) -> bool:
        phase = self.follow_up.cache.lives.phase_of(decision.pod)
        return bool(decision.node_name) and phase not in ROOM

    def noted(self, changes: Iterable[AnyChange]) -> Iterator[AnyChange]:
        """The changes. While an attempt isn't over, they don't wake its pods; after its end, they do."""
        if self.missed and not self.under_way:
            for change in self.missed:
                self.follow_up.queue.wake(change, self.now())
            self.missed.clear()
        for change in changes:
            if self.under_way and changes_anything(change):
                self.missed.append(change)
            yield change
