"""The rollout of a workload that is there already: which pods come and go in each step, and where it sticks.

Each new pod that has a node is taken to become ready. Sources: pkg/controller/deployment/rolling.go,
recreate.go and util/deployment_util.go; pkg/controller/statefulset/stateful_set_control.go
"""

from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass, field
from math import ceil, floor
from typing import Any

from lib.kube.objects import Json, Pod
from lib.questions.errors import QuestionError
from lib.questions.manifests import Workload
from lib.questions.new_pods import NewPod

Place = Callable[[NewPod], str]
"""Places a pod now; returns its node, "" if none fits."""


@dataclass
class RolloutStep:
    """What one step changes. added: the node of each new pod. waiting: the new pods without a node."""

    added: dict[str, str] = field(default_factory=dict)
    removed: list[str] = field(default_factory=list)
    waiting: list[str] = field(default_factory=list)


@dataclass
class Rollout:
    """The rollout of a workload. old: how many pods it has. left: the old pods that stay, if it sticks.

    kept: the old pods that are to stay. max_unavailable: with which it would end, if it sticks, and if that
    was found; else 0.
    """

    workload: Workload
    old: int
    steps: list[RolloutStep] = field(default_factory=list)
    left: list[str] = field(default_factory=list)
    kept: list[str] = field(default_factory=list)
    changed: bool = True
    max_unavailable: int = 0

    @property
    def stuck(self) -> bool:
        """Whether it never ends."""
        return bool(self.changed and self.left) or bool(self.steps and self.steps[-1].waiting)

    def as_json(self) -> dict[str, Any]:
        """The whole of it."""
        return {
            "workload": str(self.workload),
            "old_pods": self.old,
            "template_changes": self.changed,
            "stuck": self.stuck,
            "old_pods_left": self.left,
            "old_pods_kept": self.kept,
            "ends_with_max_unavailable": self.max_unavailable or None,
            "steps": self.steps,
        }


class RollingOut:
    """Rolls a workload out. changed: whether its template changes; else only its number of pods does."""

    def __init__(
        self,
        workload: Workload,
        new: Sequence[NewPod],
        place: Place,
        remove: Callable[[Pod], None],
        *,
        changed: bool,
    ) -> None:
        self.rollout = Rollout(workload, len(workload.existing), changed=changed)
        self._workload, self._place, self._remove = workload, place, remove
        # Old pods leave from the end of the list, and controllers delete those without a node first.
        self._new, self._old = list(new), sorted(workload.existing, key=lambda pod: not pod.spec.node_name)
        self.waiting: list[NewPod] = []
        self._to_come, self._ready = deque(self._new), 0

    def run(self) -> Rollout:
        """Take all steps, until it is finished or stuck. `waiting` are the new pods without a node."""
        strategy = self._workload.strategy
        if self._workload.kind == "StatefulSet":
            steps = self._one_by_one(self._replaced_from(strategy))
        elif not self.rollout.changed or not self._new:
            steps = self._scaled()
        elif strategy.get("type") == "Recreate":
            steps = self._recreated()
        else:
            steps = self._rolled(strategy.get("rollingUpdate") or {})
        for step in steps:
            step.waiting = [str(new_pod.pod) for new_pod in self.waiting]
            self.rollout.steps.append(step)
        self.rollout.left = [str(pod) for pod in self._old]
        return self.rollout

    def _rolled(self, limits: dict[str, Any]) -> Iterator[RolloutStep]:
        """RollingUpdate: as many more pods as maxSurge says, and as many fewer as maxUnavailable says."""
        wanted, to_come = len(self._new), self._to_come
        surge, unavailable = self._limits(limits)
        while self._old or to_come or self.waiting:
            step, before = RolloutStep(), len(to_come)
            again, self.waiting = self.waiting, []
            free = wanted + surge - len(self._old) - self._ready - len(again)
            coming = [to_come.popleft() for _ in range(max(0, min(free, len(to_come))))]
            for new_pod in (*again, *coming):
                self._ready += self._add(new_pod, step)
            self._take_away(len(self._old) + self._ready - (wanted - unavailable), step)
            if not step.added and not step.removed and len(to_come) == before:
                return
            yield step

    def would_end(self, place: Place, remove: Callable[[Pod], None]) -> int:
        """The maxUnavailable, one more than it is, with which a stuck rollout goes on and ends; else 0.

        place, remove: what they do must be undone afterwards.
        """
        workload, limits = self._workload, self._workload.strategy.get("rollingUpdate") or {}
        if (
            workload.kind != "Deployment"
            or workload.strategy.get("type") == "Recreate"
            or not self.rollout.stuck
        ):
            return 0
        other = RollingOut(workload, self._new, place, remove, changed=True)
        other._old, other.waiting = [*self._old], [*self.waiting]
        other._to_come, other._ready = deque(self._to_come), self._ready
        more = self._limits(limits)[1] + 1
        for _ in other._rolled({**limits, "maxUnavailable": more}):
            pass
        return 0 if other._old or other.waiting else more

    def _recreated(self) -> Iterator[RolloutStep]:
        """Recreate: first all old pods leave, then the new ones come."""
        step = RolloutStep()
        self._take_away(len(self._old), step)
        yield step
        step = RolloutStep()
        for new_pod in self._new:
            self._add(new_pod, step)
        yield step

    def _replaced_from(self, strategy: Json) -> int:
        """The index from which on a StatefulSet's pods are replaced: those before it stay as they are."""
        if not self.rollout.changed or strategy.get("type") == "OnDelete":
            return len(self._new)
        partition: int = (strategy.get("rollingUpdate") or {}).get("partition") or 0
        return partition

    def _one_by_one(self, first: int) -> Iterator[RolloutStep]:
        """A StatefulSet: missing pods come, surplus ones leave, then others are replaced, the last first."""
        by_name = {pod.metadata.name: pod for pod in self._old}
        names = [new_pod.pod.metadata.name for new_pod in self._new]
        self.rollout.kept = [str(pod) for pod in self._old if pod.metadata.name in names[:first]]
        self._old = [pod for pod in self._old if pod.metadata.name not in names[:first]]
        for new_pod in self._new:
            if new_pod.pod.metadata.name not in by_name and (yield from self._replaced(new_pod, None)):
                return
        surplus = RolloutStep()
        self._leave([pod for pod in self._old if pod.metadata.name not in names], surplus)
        if surplus.removed:
            yield surplus
        for new_pod in reversed(self._new[first:]):
            old = by_name.get(new_pod.pod.metadata.name)
            if old and (yield from self._replaced(new_pod, old)):
                return

    def _replaced(self, new: NewPod, old: Pod | None) -> Generator[RolloutStep, None, bool]:
        """A step in which a pod comes, perhaps in place of an old one. Returns whether it has to wait."""
        step = RolloutStep()
        self._leave([old] if old else [], step)
        fits = self._add(new, step)
        yield step
        return not fits

    def _scaled(self) -> Iterator[RolloutStep]:
        """Only the number changes."""
        step = RolloutStep()
        self._take_away(len(self._old) - len(self._new), step)
        for new_pod in self._new[len(self._old) :]:
            self._add(new_pod, step)
        if step.added or step.removed or self.waiting:
            yield step

    def _add(self, new: NewPod, step: RolloutStep) -> bool:
        node_name = self._place(new)
        if node_name:
            step.added[str(new.pod)] = node_name
        else:
            self.waiting.append(new)
        return bool(node_name)

    def _take_away(self, number: int, step: RolloutStep) -> None:
        self._leave(self._old[len(self._old) - min(max(number, 0), len(self._old)) :], step)

    def _leave(self, pods: Sequence[Pod], step: RolloutStep) -> None:
        for pod in pods:
            self._old.remove(pod)
            self._remove(pod)
            step.removed.append(str(pod))

    def _limits(self, limits: Json) -> tuple[int, int]:
        """maxSurge and maxUnavailable, as numbers of pods. QuestionError if one is none."""
        wanted = len(self._new)
        surge = self._share(limits, "maxSurge", wanted, ceil)
        unavailable = self._share(limits, "maxUnavailable", wanted, floor)
        return surge, unavailable if surge else max(unavailable, 1)

    def _share(self, limits: Json, name: str, whole: int, rounded: Callable[[float], int]) -> int:
        """A number, or a percentage of the pods. QuestionError if it is neither."""
        given = limits.get(name)  # null is the default, too
        text = "25%" if given is None else str(given)
        if not text.removesuffix("%").isdecimal():
            raise QuestionError(f"{self._workload}: {name} {text!r} is neither a number nor a percentage")
        return rounded(whole * int(text[:-1]) / 100) if text.endswith("%") else int(text)
