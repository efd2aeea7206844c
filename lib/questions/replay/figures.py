"""The figures of a replay: what was placed, how long pods waited, how full the cluster was."""

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush
from itertools import accumulate, count
from math import inf, isfinite, nan
from typing import Any

from lib.kube.objects import Node, Pod
from lib.questions.replay.trace import Arrival, Kinds, capacity
from lib.questions.waits import Causes, Wait
from lib.scheduling.decision import Decision, Outcome
from lib.scheduling.node_info import NodeInfo, amount_left
from lib.scheduling.pod_life import pod_key
from lib.scheduling.resources import Resources, pod_requests

STEP = 5
"""A row is kept for each so many percent of the main resource that the pods which have arrived ask for."""

TYPICAL = 0.95
"""Typical pods are the most frequent kinds, which are this share of all pods together."""

POINTS = 2000
"""A line of a plot has at most so many points."""

MOST_WAITS = 1000
"""So many waits are kept, the longest."""


@dataclass(frozen=True)
class Row:
    """The cluster when so many percent had arrived. allocated: in percent, by resource."""

    arrived_percent: float
    at: float
    placed: int
    pending: int
    nodes_used: int
    allocated: Mapping[str, float]


@dataclass
class Mean:
    """The mean of a value over time, and its peak."""

    value: float = 0.0
    peak: float = 0.0
    _sum: float = 0.0
    _since: float = 0.0

    def set(self, value: float, now: float) -> None:
        """The value from now on."""
        self._sum += self.value * (now - self._since)
        self.value, self._since, self.peak = value, now, max(self.peak, value)

    def until(self, now: float) -> float:
        """The mean up to now."""
        return (self._sum + self.value * (now - self._since)) / now if now else self.value


@dataclass
class Figures:
    """The figures of one configuration. Times are in seconds; allocated is in percent of the nodes'.

    main: the resource that `arrived` is measured in. typical: kinds of pods, as their requests, and which
    share of the pods each is. note_placed: is told of each pod that got a node.

    Of the pods that arrived, those that were placed have a node, or ran until they ended; an evicted one is
    pending again. gave_up: they were deleted before they had a node.
    """

    name: str
    capacity: Resources
    main: str
    typical: Sequence[tuple[Mapping[str, int], float]]
    note_placed: Callable[[Arrival, Pod, float], object] = lambda *_: None
    arrived: int = 0
    placed: int = 0
    pending: int = 0
    gave_up: int = 0
    evictions: int = 0
    decisions: int = 0
    errors: int = 0
    first_error: str = ""
    seconds: float = 0.0
    ended_at: float = 0.0
    fragmentation: float = 0.0
    waits: Counter[float] = field(default_factory=Counter)
    """How many waits took how long, in three digits: it doesn't grow with the number of pods.

    A wait is from when a pod arrived, or was evicted, until it got a node.
    """
    rows: list[Row] = field(default_factory=list)
    points: list[tuple[float, float, int, int]] = field(default_factory=list)
    """For plots: the time, the main resource's allocated percent, pending pods, used nodes."""
    strips: list[Mapping[str, int]] = field(default_factory=list)
    """For plots: at each of these times, how many pods waited for what."""
    causes: Causes = field(default_factory=Causes)
    """What pods waited for that weren't placed at once."""
    complete: bool = False

    def __post_init__(self) -> None:
        self._requested: Resources = {}
        self._main_at_first = self.capacity[self.main]
        self._asked = 0
        self._on_node: Counter[str] = Counter()
        self._means = {name: Mean() for name in self.capacity}
        self._nodes = Mean()
        self._waiting: dict[str, Wait] = {}  # by the pod's key
        self._waiting_for = Counter[str]()
        self._longest: list[tuple[float, int, Wait]] = []  # a heap; of equal waits, the first is the longest
        self._numbers = count()
        self._every = 1
        self._ticks = 0

    # --- while it runs ----------------------------------------------------------------------------------

    def decided(self, decision: Decision) -> None:
        """A decision was made, or failed, as a policy did."""
        self.decisions += 1
        if decision.outcome == Outcome.ERROR:
            self.errors += 1
            self.first_error = self.first_error or f"{decision.pod}: {decision.message}"

    def placed_pod(self, arrival: Arrival, pod: Pod, now: float, waited: float) -> None:
        """A pod got a node."""
        self.placed += 1
        self.waits[float(f"{waited:.3g}")] += 1
        self.note_placed(arrival, pod, now)
        self._over(pod_key(pod), now, pod.spec.node_name)
        self.running_pod(pod, now)

    def waiting_pod(self, pod: Pod, since: float, cause: str, now: float) -> None:
        """A pod got no node."""
        wait = self._waiting.get(pod_key(pod))
        if wait is None:
            wait = self._waiting[pod_key(pod)] = Wait(str(pod), since)
        before = wait.causes[-1][1] if wait.causes else ""
        if before != cause:
            wait.note(cause, now)
            self._waiting_for[cause] += 1
            self._waiting_for[before] -= bool(before)

    def deleted_pod(self, key: str, now: float) -> None:
        """A pod was deleted that had no node."""
        self.gave_up += 1
        self._over(key, now)

    def _over(self, key: str, now: float, node: str = "") -> None:
        """A pod's wait is over, if it waited."""
        if wait := self._waiting.pop(key, None):
            wait.ended, wait.node = now, node
            self._waiting_for[wait.causes[-1][1]] -= 1
            self._keep(wait, now)

    def _keep(self, wait: Wait, now: float) -> None:
        self.causes.add(wait, now)
        heappush(self._longest, (wait.seconds(now), -next(self._numbers), wait))
        if len(self._longest) > MOST_WAITS:
            heappop(self._longest)

    def running_pod(self, pod: Pod, now: float = 0.0) -> None:
        """A pod runs, whether it was placed or ran before the trace began."""
        self._on_node[pod.spec.node_name] += 1
        self._count(pod, 1, now)

    def left_pod(self, pod: Pod, now: float, *, evicted: bool) -> None:
        """A pod has left its node."""
        self.evictions += evicted
        self._on_node[pod.spec.node_name] -= 1
        if not self._on_node[pod.spec.node_name]:
            del self._on_node[pod.spec.node_name]
        self._count(pod, -1, now)

    def changed_nodes(self, nodes: Iterable[Node], now: float) -> None:
        """These are the nodes from now on."""
        there = capacity(nodes)
        self.capacity = {name: there.get(name, 0) for name in self.capacity}
        for name in self.capacity:
            self._set(name, now)

    def _count(self, pod: Pod, sign: int, now: float) -> None:
        for name, amount in pod_requests(pod).items():
            if name in self.capacity:
                self._requested[name] = self._requested.get(name, 0) + sign * amount
                self._set(name, now)
        self._nodes.set(len(self._on_node), now)

    def _set(self, name: str, now: float) -> None:
        most = self.capacity[name]
        self._means[name].set(100 * self._requested.get(name, 0) / most if most else 0.0, now)

    @property
    def _arrived_percent(self) -> float:
        return 100 * self._asked / self._main_at_first

    def tick(self, arrived: Sequence[Arrival], pending: int, now: float) -> None:
        """A tick has ended, in which these pods have arrived."""
        for arrival in arrived:
            self._asked += pod_requests(arrival.like).get(self.main, 0)
        self.arrived, self.pending, self.ended_at = self.arrived + len(arrived), pending, now
        percent = self._arrived_percent
        while percent >= len(self.rows) * STEP:
            self.rows.append(self._row(len(self.rows) * STEP))
        self._ticks += 1
        if self._ticks % self._every == 0:
            self.points.append((now, self._means[self.main].value, pending, len(self._on_node)))
            self.strips.append(+self._waiting_for)
            if len(self.points) >= POINTS:
                self.points, self.strips = self.points[::2], self.strips[::2]
                self._every *= 2

    def end(self, nodes: Iterable[NodeInfo], seconds: float) -> None:
        """The replay has ended, or was stopped. nodes: with their pods. seconds: that it took."""
        self.seconds = seconds
        self.fragmentation = fragmentation(nodes, self.typical, self.main)
        for wait in self._waiting.values():
            self._keep(wait, self.ended_at)
        percent = self._arrived_percent
        if not self.rows or percent > self.rows[-1].arrived_percent:
            self.rows.append(self._row(round(percent, 2)))

    def _row(self, percent: float) -> Row:
        allocated = {name: round(mean.value, 4) for name, mean in self._means.items()}
        return Row(percent, self.ended_at, self.placed, self.pending, len(self._on_node), allocated)

    # --- at the end -------------------------------------------------------------------------------------

    def wait(self, share: float) -> float:
        """The wait that this share of all waits did not exceed; those that never got a node are infinite.

        nan if no pod has arrived.
        """
        ordered = [*sorted(self.waits), inf]
        counts = [self.waits[wait] for wait in ordered[:-1]] + [self.pending + self.gave_up]
        up_to = [*accumulate(counts)]
        total = up_to[-1]
        return ordered[bisect_right(up_to, min(total - 1, int(share * total)))] if total else nan

    @property
    def longest_waits(self) -> list[Wait]:
        """The waits of pods that weren't placed at once, the longest first; no more than MOST_WAITS."""
        return [wait for _, _, wait in sorted(self._longest, reverse=True)]

    def allocated(self, name: str) -> tuple[float, float, float]:
        """The allocated percent of a resource: the mean over time, the peak, and at the end."""
        return self._means[name].until(self.ended_at), self._means[name].peak, self._means[name].value

    @property
    def nodes_used(self) -> tuple[float, int]:
        """How many nodes had pods: the mean over time, and the most."""
        return self._nodes.until(self.ended_at), int(self._nodes.peak)

    def as_json(self) -> dict[str, Any]:
        """All figures."""
        mean_nodes, most_nodes = self.nodes_used
        return {
            "config": self.name,
            "complete": self.complete,
            "arrived": self.arrived,
            "placed": self.placed,
            "pending": self.pending,
            "evictions": self.evictions,
            "wait_seconds": {
                f"p{int(100 * share)}": wait if isfinite(wait := self.wait(share)) else None
                for share in (0.5, 0.95, 0.99)
            },
            "waited_for": [cause.as_json() for cause in self.causes],
            "longest_waits": [
                {"from_seconds": wait.began, **wait.as_json(self.ended_at)} for wait in self.longest_waits
            ],
            "allocated_percent": {
                name: dict(zip(("mean", "peak", "end"), self.allocated(name), strict=True))
                for name in self._means
            },
            "nodes_used": {"mean": mean_nodes, "peak": most_nodes},
            "fragmentation_percent": self.fragmentation,
            "ended_at_seconds": self.ended_at,
            "gave_up": self.gave_up,
            "decisions": self.decisions,
            "failed_decisions": self.errors,
            "first_error": self.first_error,
            "decisions_per_second": self.decisions / self.seconds if self.seconds else 0.0,
        }


def typical_of(kinds: Kinds) -> list[tuple[Mapping[str, int], float]]:
    """The typical kinds of pods of a workload, the most frequent first, and which share each is.

    Source: "Beware of Fragmentation" (USENIX ATC'23), section 3
    """
    counted = Counter[tuple[tuple[str, int], ...]]()
    for pod, number in kinds.items():
        counted[tuple(sorted(pod_requests(pod).items()))] += number
    sums = [*accumulate(number for _, number in counted.most_common())]
    typical = counted.most_common(bisect_left(sums, TYPICAL * counted.total()) + 1)
    total = sum(number for _, number in typical)
    return [(dict(asked), number / total) for asked, number in typical]


def fragmentation(
    nodes: Iterable[NodeInfo], typical: Sequence[tuple[Mapping[str, int], float]], main: str
) -> float:
    """The percentage of the free main resource that a typical pod can't use, as its node lacks something.

    The mean over the typical pods, weighted by how frequent they are. 0 if nothing is free.
    Source: "Beware of Fragmentation", section 3, for GPUs that aren't shared
    """
    free, lost = 0, 0.0
    for node in nodes:
        left = {name: amount_left(node, name) for name in node.allocatable}
        amount = max(0, left.get(main, 0))
        free += amount
        for requests, share in typical:
            if any(left.get(name, 0) < wanted for name, wanted in requests.items() if wanted):
                lost += share * amount
    return 100 * lost / free if free else 0.0
