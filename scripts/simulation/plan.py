"""What is decided beforehand: the pollers, what happens in the cluster, and what goes wrong."""

from dataclasses import dataclass, replace
from random import Random

from .cluster import Action, random_actions
from .faults import Fault, random_faults

LEASE = 15.0
"""Seconds for which a lease holds."""


@dataclass(frozen=True)
class PollerPlan:
    """A poller. drift, skew: of its clocks. freezes: when, and for how long. stops: when it gets SIGTERM."""

    name: str
    watch: bool = False
    elects: bool = False
    scheduler: str = "my-scheduler"
    drift: float = 0.0
    skew: float = 0.0
    freezes: tuple[tuple[float, float], ...] = ()
    stops: tuple[float, ...] = ()

    def __str__(self) -> str:
        said = [f"schedules the pods of {self.scheduler}", "watches" if self.watch else "polls"]
        said += ["takes part in an election"] if self.elects else []
        said += [f"its clock runs {1 + self.drift:g} times as fast"] if self.drift else []
        said += [f"freezes at {when:.0f} s for {seconds:g} s" for when, seconds in self.freezes]
        said += [f"is stopped at {when:.0f} s" for when in self.stops]
        return f"{self.name} {', '.join(said)}"


@dataclass(frozen=True)
class Plan:
    """seconds: until faults and actions stop."""

    seed: int
    seconds: float
    pollers: tuple[PollerPlan, ...]
    actions: tuple[Action, ...]
    faults: tuple[Fault, ...]


def random_plan(seed: int, minutes: float) -> Plan:
    """The plan of a seed."""
    chance = Random(seed)
    seconds = minutes * 60
    pollers = _pollers(chance, seconds)
    names = sorted({each.scheduler for each in pollers})
    actions = random_actions(chance, seconds, chance.choice((6, 20, 40)), names)
    faults = random_faults(chance, seconds, chance.choice((0, 1, 2, 4)))
    return Plan(seed, seconds, pollers, actions, faults)


def _pollers(chance: Random, seconds: float) -> tuple[PollerPlan, ...]:
    roll, watch = chance.random(), chance.random() < 0.4
    one = PollerPlan("poller-1", watch)
    if roll < 0.5:
        pollers = [one]
    elif roll < 0.8:
        one = replace(one, elects=True)
        pollers = [one, replace(one, name="poller-2")]
    else:
        pollers = [one, replace(one, name="poller-2", scheduler="other-scheduler")]
    return tuple(_with_accidents(chance, each, seconds) for each in pollers)


def _with_accidents(chance: Random, poller: PollerPlan, seconds: float) -> PollerPlan:
    """The same poller, with clocks that are wrong, and which freezes or is stopped now and then."""
    freezes = [
        (chance.uniform(0, seconds), chance.choice((0.5, 5.0, LEASE + 5, 2 * LEASE)))
        for _ in range(chance.choice((0, 0, 1, 2)))
    ]
    stops = [chance.uniform(0, seconds) for _ in range(chance.choice((0, 0, 0, 1)))]
    drift, skew = chance.choice((0, 0, 0.02, -0.02)), chance.choice((0, 0, 3600, -3600))
    return replace(poller, drift=drift, skew=skew, freezes=tuple(freezes), stops=tuple(stops))
