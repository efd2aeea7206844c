"""What is decided beforehand: the pollers, what happens in the cluster, and what goes wrong."""

from dataclasses import dataclass, replace
from random import Random

from .cluster import NAMESPACE, PASSING, Action
from .faults import Fault, faults_of_bindings, random_faults
from .reach import EVERYWHERE, Reach
from .scenes import SHORT_WATCH, random_scenes
from .workload import random_actions, random_rush, random_workload

LEASE = 15.0
"""Seconds for which a lease holds."""

RUSH_FROM = 60.0
"""Shorter worlds have no rush and no scenes: what they cost is spent on more of them."""


FIRST, SECOND = Reach((NAMESPACE,), narrow=True), Reach((PASSING,), narrow=True)
"""Two pollers that share a scheduler name, and serve other namespaces."""


@dataclass(frozen=True)
class PollerPlan:
    """A poller.

    drift, skew: of its clocks. freezes: when, and for how long. jumps: when its date jumps, and by how many
    seconds. suspends: when its machine is suspended, and for how long. stops: when it gets SIGTERM.
    policy, extender: whether it has the policy in `policy.py`, and the extender in `extender.py`. reach: the
    namespaces that it serves, and its rights.
    """

    name: str
    watch: bool = False
    elects: bool = False
    scheduler: str = "my-scheduler"
    drift: float = 0.0
    skew: float = 0.0
    freezes: tuple[tuple[float, float], ...] = ()
    stops: tuple[float, ...] = ()
    jumps: tuple[tuple[float, float], ...] = ()
    suspends: tuple[tuple[float, float], ...] = ()
    policy: bool = False
    extender: bool = False
    reach: Reach = EVERYWHERE

    def __str__(self) -> str:
        said = [f"schedules the pods of {self.scheduler}", "watches" if self.watch else "polls"]
        said += ["takes part in an election"] if self.elects else []
        said += [f"its clock runs {1 + self.drift:g} times as fast"] if self.drift else []
        said += ["has a policy"] if self.policy else []
        said += ["has an extender"] if self.extender else []
        if self.reach.namespaces:
            only = ", and has rights there alone" if self.reach.narrow else ""
            said += [f"serves {' and '.join(self.reach.namespaces)}{only}"]
        said += [f"its date jumps by {seconds:g} s at {when:.0f} s" for when, seconds in self.jumps]
        said += [f"its machine is suspended at {when:.0f} s for {s:g} s" for when, s in self.suspends]
        said += [f"freezes at {when:.0f} s for {seconds:g} s" for when, seconds in self.freezes]
        said += [f"is stopped at {when:.0f} s" for when in self.stops]
        return f"{self.name} {', '.join(said)}"


@dataclass(frozen=True)
class Plan:
    """seconds: until faults and actions stop. page: how many objects of a list are asked for at a time.

    longest_watch: seconds after which the server ends a watch. trouble_of: the namespace whose requests alone
    meet faults, so that others are compared with a run without; "" if there is none.
    """

    seed: int
    seconds: float
    pollers: tuple[PollerPlan, ...]
    actions: tuple[Action, ...]
    faults: tuple[Fault, ...]
    page: int = 1000
    longest_watch: float = 3600.0
    trouble_of: str = ""


def random_plan(seed: int, minutes: float) -> Plan:
    """The plan of a seed."""
    chance = Random(seed)
    seconds = minutes * 60
    workload, more = random_workload(chance), Random(f"more, {seed}")
    reach = _reach(more)
    workload = replace(workload, extended=more.random() < 0.15)
    if reach.namespaces:  # with pods of other namespaces, some of them on nodes
        workload = replace(workload, namespaces=True, simple=True)
    pollers = tuple(replace(each, reach=reach) for each in _pollers(chance, seconds, workload.policy))
    if reach == FIRST and not workload.preempts and len(pollers) == 1:
        pollers += (replace(pollers[0], name="poller-2", reach=SECOND),)
    names = sorted({each.scheduler for each in pollers})
    actions = random_actions(chance, seconds, chance.choice((6, 20, 40)), names, workload)
    if any(each.elects for each in pollers) and chance.random() < 0.3:
        actions += (Action(chance.uniform(0, seconds), "take_lease", "poller"),)
    faults = random_faults(chance, seconds, chance.choice((0, 1, 2, 4)))
    if seconds >= RUSH_FROM and workload.preempts and chance.random() < 0.4:
        at, rush = random_rush(chance, seconds, names)
        actions += rush
        if chance.random() < 0.5:
            faults += faults_of_bindings(chance, at)
    page, longest_watch = chance.choice((3, 1000)), chance.choice((5.0, 30.0, 3600.0))
    plan = Plan(seed, seconds, pollers, actions, faults, page, longest_watch)
    return _with_scenes(Random(f"scenes, {seed}"), plan, names) if seconds >= RUSH_FROM else plan


def _reach(chance: Random) -> Reach:
    """The namespaces that the pollers of a world serve: in most worlds, all of them."""
    if chance.random() >= 0.2:
        return EVERYWHERE
    wide, both = replace(FIRST, narrow=False), Reach((NAMESPACE, PASSING), chance.random() < 0.5)
    return chance.choice((FIRST, wide, wide, both))


def _with_scenes(chance: Random, plan: Plan, schedulers: list[str]) -> Plan:
    ends, scenes = random_scenes(chance, plan.seconds, schedulers)
    holds = any(each.holds for each in scenes)
    return replace(
        plan,
        seconds=max(plan.seconds, ends),
        pollers=tuple(replace(each, policy=each.policy or holds) for each in plan.pollers),
        actions=(*plan.actions, *(action for each in scenes for action in each.actions)),
        faults=(*(fault for each in scenes for fault in each.faults), *plan.faults),
        longest_watch=SHORT_WATCH if any(each.short_watches for each in scenes) else plan.longest_watch,
    )


def _pollers(chance: Random, seconds: float, policy: bool) -> tuple[PollerPlan, ...]:
    roll, watch = chance.random(), chance.random() < 0.4
    one = PollerPlan("poller-1", watch, policy=policy, extender=chance.random() < 0.2)
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
    jumps = (
        [(chance.uniform(0, seconds), chance.choice((-7200, -40, 40, 7200)))] if chance.random() < 0.2 else []
    )
    suspends = [(chance.uniform(0, seconds), 2 * LEASE)] if chance.random() < 0.2 else []
    return replace(
        poller,
        drift=drift,
        skew=skew,
        freezes=tuple(freezes),
        stops=tuple(stops),
        jumps=tuple(jumps),
        suspends=tuple(suspends),
    )
