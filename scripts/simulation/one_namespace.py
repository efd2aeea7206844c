"""Worlds in which only one namespace's requests meet faults: pods of others are bound as soon, and as many.

Each is run twice, with its faults and without. There is room for all pods, and nothing else goes wrong. So
what becomes of a pod of another namespace depends on nothing that a fault changes.
"""

from collections.abc import Sequence
from dataclasses import replace
from math import inf
from random import Random

from scripts.minicluster.store import Object

from .checks import Violation
from .cluster import TROUBLED, Action
from .faults import Fault, Kind
from .plan import Plan, PollerPlan
from .world import Outcome, World

MARGIN = 1.0
"""A pod may be bound so many seconds later than without the faults.

What is in flight makes a tick longer by some tens of milliseconds, and for a look-up a tick waits for 0.3 s
(PATIENCE in lib/kube/lookup.py). Two runs without faults differ by less than 0.2 s. A pod that waits for
another's fault waits for seconds.
"""

INTERVAL = 1.0
"""Polling, it may be later by this, too: the ticks of both runs come at other moments."""

ITS = f"/namespaces/{TROUBLED}/"
"""In the paths of its requests."""

PLAIN: Object = {}
FITS_NOWHERE: Object = {"cpu": 100_000}
STORES: Object = {"claim": "made"}
HAS_DEVICE: Object = {"device": "claim"}
IS_SPREAD: Object = {"labels": {"app": "web"}}
"""Pods of the namespace: for the last one, services are read."""

REQUESTS: tuple[tuple[str, tuple[Object, ...]], ...] = (
    (f"POST .*{ITS}pods/.*/binding", (PLAIN, STORES, HAS_DEVICE)),
    (f"(POST|GET) .*{ITS}pods/", (PLAIN, STORES)),
    (f"PATCH .*{ITS}pods/.*/status", (FITS_NOWHERE,)),
    (f"PATCH .*{ITS}(persistentvolumeclaims|resourceclaims)", (STORES, HAS_DEVICE)),
    (f"(POST|PATCH) .*{ITS}events", (PLAIN, FITS_NOWHERE)),
    (f"GET .*{ITS}", (PLAIN, STORES, HAS_DEVICE, IS_SPREAD)),
    (f"(POST|PUT|PATCH|DELETE) .*{ITS}", (PLAIN, FITS_NOWHERE, STORES, HAS_DEVICE)),
    (ITS, (PLAIN, FITS_NOWHERE, STORES, HAS_DEVICE, IS_SPREAD)),
)
"""Requests that meet faults, and the pods about which there are such ones: bindings; these and looks at pods;
conditions; claims; events; look-ups; writes; all."""

KINDS = (
    Kind.IGNORED,
    Kind.SILENT,
    Kind.BROKEN,
    Kind.FAILED,
    Kind.BUSY,
    Kind.BUSY_FOR_LONG,
    Kind.LOST,
    Kind.RESET,
    Kind.LATE,
    Kind.SLOW,
    Kind.FORBIDDEN,
)

MOST_OTHERS = 60


def one_namespace_plan(seed: int, minutes: float) -> Plan:
    """The plan of a seed: of these worlds, not of the others."""
    chance = Random(f"one namespace, {seed}")
    seconds = minutes * 60
    nodes = [
        Action(0.0, "add_node", f"n{i}", {"cpu": 64, "pods": 250, "devices": 8, "zone": f"z{i % 2}"})
        for i in range(4)
    ]
    comes = chance.uniform(0.3, 0.7) * seconds
    late = (
        Action(0.0, "add_node", "late", {"cpu": 64, "pods": 250, "labels": {"late": "yes"}}),
        Action(0.0, "cordon", "late"),
        Action(comes, "cordon", "late", {"on": False}),
    )
    begins = Action(0.0, "begin_namespace", TROUBLED)
    faults, pods = [], []
    for number in range(chance.choice((1, 1, 2))):
        requests, kinds_of_pods = chance.choice(REQUESTS)
        fault = _fault(chance, seconds, requests)
        faults.append(fault)
        pods += _troubled(chance, fault, kinds_of_pods, f"y{number}")
    actions = (*nodes, *late, begins, *_others(chance, seconds), *pods)
    poller = PollerPlan("poller-1", watch=chance.random() < 0.5)
    return Plan(seed, seconds, (poller,), _in_order(actions), tuple(faults), trouble_of=TROUBLED)


def _others(chance: Random, seconds: float) -> list[Action]:
    """Pods of other namespaces come one by one. Some wait for a node that is cordoned at first.

    Nothing that they need comes in two steps, as a new node and then the end of its taint do: who is tried
    between the two backs off. So claims are there before their pods.
    """
    every = seconds / MOST_OTHERS
    found = []
    for i in range(MOST_OTHERS):
        details: Object = {"cpu": chance.choice((10, 100)), "labels": chance.choice(({}, {"app": "web"}))}
        if chance.random() < 0.1:
            details["nodeSelector"] = {"late": "yes"}
        elif chance.random() < 0.1:
            details["claim"] = "made"
            found.append(Action(0.0, "add_claim", f"p{i}", {"kind": "made"}))
        found.append(Action((i + chance.random()) * every, "add_pod", f"p{i}", details))
    return found


def _fault(chance: Random, seconds: float, requests: str) -> Fault:
    """A fault of the namespace's requests, all the time or for a part of it."""
    begins = chance.choice((0.0, 0.0, chance.uniform(0, 0.5) * seconds))
    ends = chance.choice((seconds, min(seconds, begins + 45.0)))
    often = chance.choice((0.3, 1.0, 1.0))
    return Fault(chance.choice(KINDS), begins, ends, requests, often, chance.getrandbits(32))


def _troubled(chance: Random, fault: Fault, kinds_of_pods: Sequence[Object], prefix: str) -> list[Action]:
    """Pods whose requests meet a fault: they come at once, or one by one, once or several times."""
    found: list[Action] = []
    for burst in range(chance.choice((1, 2, 3))):
        at, apart = chance.uniform(fault.begins, 0.9 * fault.ends), chance.choice((0.0, 0.0, 0.3))
        for i in range(chance.choice((1, 5, 30, 80))):
            details = {"cpu": 10, **chance.choice(kinds_of_pods)}
            found.append(Action(at + i * apart, "add_pod", f"{prefix}-{burst}-{i}", details))
    return found


def _in_order(actions: Sequence[Action]) -> tuple[Action, ...]:
    return tuple(sorted(actions, key=lambda each: each.at))


def outcome_of(plan: Plan, show: bool = False) -> Outcome:
    """What comes of any plan. If the faults are one namespace's, compared with a run without faults.

    show: whether to write the story.
    """
    outcome = World(plan, show).run()
    if plan.trouble_of and plan.faults:
        outcome.violations += compared(plan, outcome, World(replace(plan, faults=())).run())
        outcome.violations.sort(key=lambda each: each.when)
    return outcome


def compared(plan: Plan, with_faults: Outcome, without: Outcome) -> list[Violation]:
    """The pods of other namespaces that were bound later with faults than without, or never.

    One violation tells of the worst, and how many there are.
    """
    margin = MARGIN + (0.0 if all(each.watch for each in plan.pollers) else INTERVAL)
    late = []
    for (namespace, name), then in without.bound.items():
        when = with_faults.bound.get((namespace, name), inf)
        if namespace != plan.trouble_of and when > then + margin:
            late.append((when - then, name, with_faults.seconds if when == inf else when))
    if not late:
        return []
    by, name, when = max(late)
    what = f"pod {name} was never bound" if by == inf else f"pod {name} was bound {by:.3f} s later"
    what += f" than without the faults of {plan.trouble_of}"
    what += f", as were {len(late) - 1} others" if len(late) > 1 else ""
    return [Violation(when, "nobody else waits", what, (name,))]
