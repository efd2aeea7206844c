"""Scenes: what accidents rarely bring about by themselves, one after the other and at the right moment.

Each has nodes of its own, with a taint that keeps most other pods away, and pods that are for these alone.
"""

from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any

from scripts.minicluster.store import Object

from .cluster import Action
from .faults import Fault, Kind
from .workload import TAKE

LASTS = 35.0
"""Seconds from a scene's beginning until nothing happens in it any more, at most."""

SETTLED_AFTER = 65.0
"""Seconds after the last accident of a world until the checks expect a poller to know all that it should."""

SHORT_WATCH = 5.0
"""Seconds after which the server ends a watch, where a scene needs a new one."""

IN_DOUBT = (Kind.LOST, Kind.TRUNCATED, Kind.FAILED)
"""The work is done, and the answer doesn't say so."""


@dataclass(frozen=True)
class Scene:
    """holds: whether its pollers need the policy that holds pods. short_watches: whether watches end soon."""

    actions: tuple[Action, ...]
    faults: tuple[Fault, ...] = ()
    holds: bool = False
    short_watches: bool = False


@dataclass(frozen=True)
class Stage:
    """Where a scene happens. name: of the scene; those of its objects begin with it."""

    chance: Random
    at: float
    scheduler: str
    name: str

    def node(self, spot: str, **details: Any) -> Action:
        """A node of the scene. spot: which one, for `pod`."""
        labels = {"scene": self.name, "spot": f"{self.name}-{spot}"}
        return Action(
            self.at, "add_node", f"{self.name}-{spot}", {"labels": labels, "tainted": True, **details}
        )

    def pod(self, after: float, name: str, spot: str = "", **details: Any) -> Action:
        """A pod that comes so many seconds after the beginning. spot: the node that it must have, if any."""
        where = {"spot": f"{self.name}-{spot}"} if spot else {"scene": self.name}
        own: Object = {"scheduler": self.scheduler, "nodeSelector": where}
        own["tolerations"] = [{"key": "for", "operator": "Exists"}]
        return Action(self.at + after, "add_pod", f"{self.name}-{name}", {**own, **details})

    def then(self, after: float, verb: str, name: str, **details: Any) -> Action:
        """Something else that happens to an object of the scene."""
        return Action(self.at + after, verb, f"{self.name}-{name}", details)

    def fault(self, kind: Kind, after: float, until: float, requests: str, nth: int = 0) -> Fault:
        """A fault of all these requests, or of one of them."""
        begins, ends = max(0.0, self.at + after), self.at + until
        return Fault(kind, begins, ends, requests, 0.0 if nth else 1.0, self.chance.getrandbits(32), nth=nth)


def one_budget_for_two(stage: Stage) -> Scene:
    """Two pods preempt others in the same tick. A budget lets one victim go, and there is a third node.

    While a small pod is bound, both of them come: so one that watches sees both together, too.
    """
    chance, app = stage.chance, f"{stage.name}-guarded"
    ends = chance.choice(TAKE)
    budget = stage.then(0, "add_budget", "budget", app=app, least=1)
    victims = [
        stage.pod(0.5, "guarded-a", "a", cpu=1900, ends=ends, labels={"app": app}),
        stage.pod(0.6, "guarded-b", "b", cpu=1900, ends=ends, labels={"app": app}),
        stage.pod(0.7, "other", "c", cpu=1900, ends=ends, priority="low"),
    ]
    first, second = chance.choice((("high", "high"), ("high", "middle")))
    preemptors = [
        stage.pod(7.996, "small", cpu=10, priority="high"),
        stage.pod(8, "first", cpu=1900, priority=first),
        stage.pod(8.0001, "second", cpu=1900, priority=second),
    ]
    return Scene((*(stage.node(spot, cpu=2) for spot in "abc"), budget, *victims, *preemptors))


def victims_take_their_time(stage: Stage) -> Scene:
    """While a pod's victim leaves, another node is uncordoned, whose pod matters less. That one stays."""
    chance = stage.chance
    victims = [
        stage.pod(1, "victim", "a", cpu=1500, ends=15, priority="low"),
        stage.pod(1, "stays", "b", cpu=1500, ends=chance.choice((4, 15))),
    ]
    cordon = stage.then(4, "cordon", "b")
    preemptor = stage.pod(7, "preemptor", cpu=1900, priority="high")
    uncordon = stage.then(7 + chance.uniform(3, 10), "cordon", "b", on=False)
    return Scene((stage.node("a", cpu=2), stage.node("b", cpu=2), *victims, cordon, preemptor, uncordon))


def grows_in_place(stage: Stage) -> Scene:
    """A pod on a node requests more than before, and then other pods come."""
    chance = stage.chance
    grows = stage.then(5, "resize_pod", "grows", cpu=chance.choice((1500, 1900)))
    late = [stage.pod(10 + i, f"late{i}", cpu=600) for i in range(2)]
    return Scene((stage.node("a", cpu=2), stage.pod(1, "grows", cpu=500), grows, *late))


def one_port_for_two(stage: Stage) -> Scene:
    """Two pods want the same host port: at the same time, or one after the other. There is one node."""
    after = stage.chance.choice((0.0, 3.0))
    pods = [stage.pod(1 + i * after, f"listens{i}", cpu=100, ports=[8080]) for i in range(2)]
    return Scene((stage.node("a"), *pods))


def made_again_in_doubt(stage: Stage) -> Scene:
    """What came of bindings isn't known, and meanwhile pods are made again under the same names."""
    chance = stage.chance
    pods = [stage.pod(1 + i / 10, f"again{i}", cpu=500) for i in range(4)]
    again = [
        Action(stage.at + chance.uniform(1.3, 12), "make_pod_again", each.name, each.details)
        for each in chance.sample(pods, 2)
    ]
    kind = chance.choice((*IN_DOUBT, Kind.RESET))
    until = chance.choice((12.0, 20.0, 30.0))
    in_doubt = stage.fault(kind, 0, until, f"(POST|GET) .*/pods/{stage.name}-again")
    return Scene((stage.node("a"), *pods, *again), (in_doubt,))


def room_in_doubt(stage: Stage) -> Scene:
    """What came of a binding isn't known, watches lag, and a pod comes that fits without that one."""
    chance = stage.chance
    doubtful = stage.pod(1, "doubtful", cpu=2500)
    late = stage.pod(chance.uniform(6, 12), "late", cpu=2500)
    kind = chance.choice(IN_DOUBT)
    faults = (
        stage.fault(kind, 0, 20, f"(POST|GET) .*/pods/{stage.name}-doubtful"),
        stage.fault(Kind.BEHIND, -6, 25, "pods.*watch=1"),
    )
    return Scene((stage.node("a"), doubtful, late), faults, short_watches=True)


def group_loses_a_member(stage: Stage) -> Scene:
    """The pods of a group are held, and one of them is deleted."""
    chance, group = stage.chance, f"{stage.name}-group"
    size = chance.choice((2, 3))
    details: Object = {
        "cpu": 500,
        "labels": {"poller/group": group, "hold": "12"},
        "annotations": {"poller/group-size": str(size)},
    }
    pods = [stage.pod(1, f"group-{i}", **details) for i in range(size)]
    gone = stage.then(chance.uniform(3, 7), "delete_pod", f"group-{chance.randrange(size)}")
    return Scene((stage.node("a"), *pods, gone), holds=True)


def binding_forgotten(stage: Stage) -> Scene:
    """A binding is answered by 201, and isn't there, as after etcd was restored from a backup."""
    pods = [stage.pod(1 + i / 5, f"forgotten{i}", cpu=500) for i in range(2)]
    forgotten = stage.fault(Kind.FORGOTTEN, 0, 4, f"POST .*/pods/{stage.name}-forgotten.*/binding")
    return Scene((stage.node("a"), *pods), (forgotten,))


def bound_by_hand(stage: Stage) -> Scene:
    """Somebody binds a pod while lists and watches lag behind. Only who tries to bind it is told."""
    chance = stage.chance
    nodes = [stage.node("a"), stage.node("b")]
    cordons = [stage.then(0.1, "cordon", spot) for spot in "ab"]
    taken = stage.pod(0.5, "taken", cpu=3000)
    late = stage.pod(0.5, "late", "b", cpu=3000)
    opens = 12 + chance.uniform(1, 3)
    then = [
        stage.then(12, "bind_by_hand", "taken", node=f"{stage.name}-b"),
        stage.then(12.3, "cordon", "a", on=False),
        stage.then(opens, "cordon", "b", on=False),
    ]
    lag = [
        stage.fault(Kind.BEHIND, 4, 30, "pods.*watch=1"),
        stage.fault(Kind.STALE, 11, 20, "GET /api/v1/pods"),
    ]
    return Scene((*nodes, *cordons, taken, late, *then), tuple(lag), short_watches=True)


def eviction_refused(stage: Stage) -> Scene:
    """A victim can't be evicted for a while: its preemptor tries again, or elsewhere."""
    chance = stage.chance
    victim = stage.pod(1, "victim", cpu=3000, priority="low")
    preemptor = stage.pod(5, "preemptor", cpu=3000, priority="high")
    what = chance.choice(("DELETE", "(DELETE|PATCH)"))
    kind = chance.choice((Kind.FORBIDDEN, Kind.FORBIDDEN, Kind.BROKEN))
    refused = stage.fault(kind, 4, chance.choice((10.0, 25.0)), f"{what} .*/pods/{stage.name}-victim")
    return Scene((stage.node("a"), victim, preemptor), (refused,))


def proxy_ends(stage: Stage) -> Scene:
    """A poller's proxy ends when it has passed a binding's answer, and is away for a while."""
    pods = [stage.pod(1 + i / 10, f"told{i}", cpu=500) for i in range(3)]
    nth = stage.chance.choice((1, 2, 3))
    ends = stage.fault(Kind.PROXY_ENDS, 0, LASTS, f"POST .*/pods/{stage.name}-told.*/binding", nth)
    return Scene((stage.node("a"), *pods), (ends,))


SCENES: tuple[Callable[[Stage], Scene], ...] = (
    one_budget_for_two,
    victims_take_their_time,
    grows_in_place,
    one_port_for_two,
    group_loses_a_member,
    made_again_in_doubt,
    room_in_doubt,
    binding_forgotten,
    bound_by_hand,
    eviction_refused,
    proxy_ends,
)
"""Those without faults come first: they are judged strictly if nothing has gone wrong for a minute."""


def random_scenes(chance: Random, until: float, schedulers: list[str]) -> tuple[float, list[Scene]]:
    """Some scenes of a world. Returns when the last one ends, too; 0.0 if there is none.

    They happen in the midst of its accidents, or after them, one after the other.
    """
    chosen = sorted(chance.sample(SCENES, chance.choice((0, 1, 3, 4))), key=SCENES.index)
    after = chance.random() < 0.6
    begin = [
        until + SETTLED_AFTER + i * LASTS if after else chance.uniform(0.05, 0.75) * until
        for i in range(len(chosen))
    ]
    scenes = [
        made(Stage(chance, at, chance.choice(schedulers), f"s{i}"))
        for i, (at, made) in enumerate(zip(begin, chosen, strict=True))
    ]
    return max(begin, default=-LASTS) + LASTS, scenes
