"""How long pods waited for a node, and for what: a wait has causes, one after the other."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from math import inf
from typing import Any

from lib.scheduling.cache import Cache
from lib.scheduling.decision import PLACED, Decision, Outcome
from lib.scheduling.status import Code
from lib.scheduling.text import listed

ROOM = "there was room; its scheduler hadn't placed it yet"
"""The cause if a pod would get a node now."""

UNKNOWN = "not known: too many pods waited to ask about each"
"""The cause if nobody has asked for one."""


@dataclass(slots=True, eq=False)
class Wait:
    """A pod's wait: from when it could be tried until it had a node, or was deleted. Times are in seconds.

    ended: infinity while it goes on. node: "" if it got none. causes: each with the time from which on it was
    the cause.
    """

    pod: str
    began: float
    ended: float = inf
    node: str = ""
    causes: list[tuple[float, str]] = field(default_factory=list)

    def note(self, cause: str, now: float) -> None:
        """This is the cause from now on; the first one is it from the beginning."""
        if not self.causes:
            self.causes.append((self.began, cause))
        elif self.causes[-1][1] != cause:
            self.causes.append((now, cause))

    def seconds(self, until: float) -> float:
        """How long it took, or has taken until then."""
        return min(self.ended, until) - self.began

    def parts(self, until: float) -> Iterator[tuple[float, float, str]]:
        """When it was for what, one after the other: the beginning, the end, the cause."""
        ends = [*self.causes, (min(self.ended, until), "")]
        for (began, cause), (ended, _) in pairwise(ends):
            yield began, max(began, ended), cause

    def as_json(self, until: float) -> dict[str, Any]:
        """All of it, but for its times."""
        return {
            "pod": self.pod,
            "seconds": round(self.seconds(until), 3),
            "node": self.node or None,
            "causes": [
                {"cause": cause, "seconds": round(ended - began, 3)}
                for began, ended, cause in self.parts(until)
            ],
        }


@dataclass
class Waited:
    """All waits for one cause. pods: how many. seconds: of all of them together."""

    cause: str
    pods: int = 0
    seconds: float = 0.0
    longest: float = 0.0

    def add(self, seconds: float) -> None:
        """One more pod."""
        self.pods += 1
        self.seconds += seconds
        self.longest = max(self.longest, seconds)

    def as_json(self) -> dict[str, Any]:
        """All of it."""
        return {
            "cause": self.cause,
            "pods": self.pods,
            "seconds": round(self.seconds, 3),
            "longest_seconds": round(self.longest, 3),
        }


@dataclass
class Causes:
    """What pods waited for: of many waits, only the sums are kept."""

    found: dict[str, Waited] = field(default_factory=dict)

    def add(self, wait: Wait, until: float) -> None:
        """Count a wait."""
        of_pod: dict[str, float] = {}
        for began, ended, cause in wait.parts(until):
            of_pod[cause] = of_pod.get(cause, 0.0) + ended - began
        for cause, seconds in of_pod.items():
            self.found.setdefault(cause, Waited(cause)).add(seconds)

    @classmethod
    def of(cls, waits: Iterable[Wait], until: float) -> "Causes":
        """Those of some waits."""
        causes = cls()
        for wait in waits:
            causes.add(wait, until)
        return causes

    def __iter__(self) -> Iterator[Waited]:
        """Those first for which pods waited longest, all together."""
        return iter(sorted(self.found.values(), key=lambda cause: (-cause.seconds, cause.cause)))


def cause_of(decision: Decision, cache: Cache) -> str:
    """Why a pod has no node, in words that stay the same while numbers change.

    What nodes lack for now tells more than what they never have: other zones, taints. If only nodes of some
    zones could do, these are named.
    """
    if decision.outcome == Outcome.WAITING:
        return decision.message
    if decision.outcome in PLACED:
        return ROOM
    if decision.outcome == Outcome.ERROR or not decision.rejected:
        return decision.message
    rejections = {*decision.rejected.values()}
    for_now = {rejection for rejection in rejections if rejection.status.code == Code.UNSCHEDULABLE}
    cause = ", ".join(
        sorted({reason for rejection in for_now or rejections for reason in rejection.status.reasons})
    )
    if not for_now or for_now == rejections:
        return cause
    return cause + _zones([name for name, why in decision.rejected.items() if why in for_now], cache)


def _zones(names: Iterable[str], cache: Cache) -> str:
    """` in zone b`, if all of these nodes are there, and others elsewhere; "" if they are everywhere."""
    zones = {cache.nodes[name].zone[1] for name in names if name in cache.nodes}
    elsewhere = {node.zone[1] for node in cache.nodes.values()} - zones
    if not elsewhere or "" in zones:
        return ""
    return f" in {'zone' if len(zones) == 1 else 'zones'} {listed(sorted(zones))}"
