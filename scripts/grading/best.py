"""What no placement can beat: lower bounds of cost and of used nodes.

What pods request must fit into the nodes that are used, resource by resource. That leaves out that a pod is
on one node as a whole, so the true best may be worse, but never better.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate

from lib.kube.objects import Pod
from lib.questions.deciding import Decider
from lib.scheduling.resources import pod_requests
from scripts.grading.scenario import Scenario

MOST_TRIED = 16
"""All sets of so many empty nodes are tried; for more, an estimate has to do."""

Amounts = Mapping[str, int]


@dataclass(frozen=True)
class Best:
    """No placement of so many pods costs less, or uses fewer nodes."""

    cost: float
    nodes_used: int


def best(scenario: Scenario, decider: Decider, pods: Sequence[Pod], placed: int) -> Best:
    """The bounds for placing so many of these pods, when no other pod is evicted.

    decider: of the cluster as it was. Nodes that run pods already are used, whatever a policy does.
    """
    wanted = _least(pods, placed)
    used: list[tuple[float, Amounts]] = []
    empty: list[tuple[float, Amounts]] = []
    for name, info in decider.cache.nodes.items():
        free = {each: info.allocatable.get(each, 0) - info.requested.get(each, 0) for each in wanted}
        free["pods"] = info.allocatable.get("pods", 0) - len(info.pods)
        (used if info.pods else empty).append((scenario.price_of(name), free))
    left = {name: amount - sum(max(0, free[name]) for _, free in used) for name, amount in wanted.items()}
    left = {name: amount for name, amount in left.items() if amount > 0}
    paid = sum(price for price, _ in used)
    cost, nodes = _tried(left, empty) if len(empty) <= MOST_TRIED else _estimated(left, empty)
    return Best(paid + cost, len(used) + nodes)


def _least(pods: Sequence[Pod], placed: int) -> Amounts:
    """What any so many of the pods request at least."""
    requests = [pod_requests(pod) for pod in pods]
    names = {name for each in requests for name in each}
    least = {name: sum(sorted(each.get(name, 0) for each in requests)[:placed]) for name in names}
    return {**least, "pods": placed}


def _tried(left: Amounts, empty: Sequence[tuple[float, Amounts]]) -> tuple[float, int]:
    """The lowest price, and the lowest number, of nodes that have room for what is left."""
    if not left:
        return 0.0, 0
    names = list(left)
    rooms = [tuple(max(0, free[name]) for name in names) for _, free in empty]
    cost, nodes = float("inf"), len(empty) + 1
    sums: list[tuple[tuple[int, ...], float, int]] = [((0,) * len(names), 0.0, 0)]
    for (price, _), room in zip(empty, rooms, strict=True):
        for have, paid, count in [*sums]:
            more = tuple(a + b for a, b in zip(have, room, strict=True))
            if all(a >= left[name] for a, name in zip(more, names, strict=True)):
                cost, nodes = min(cost, paid + price), min(nodes, count + 1)
            else:
                sums.append((more, paid + price, count + 1))
    return (cost, nodes) if nodes <= len(empty) else (0.0, 0)


def _estimated(left: Amounts, empty: Sequence[tuple[float, Amounts]]) -> tuple[float, int]:
    """The same, for each resource alone, and with parts of nodes."""
    cost, nodes = 0.0, 0
    for name, amount in left.items():
        rooms = sorted((free[name] for _, free in empty if free[name] > 0), reverse=True)
        nodes = max(nodes, 1 + sum(each < amount for each in accumulate(rooms)))
        need, paid = float(amount), 0.0
        for price, room in sorted(
            ((price, free[name]) for price, free in empty if free[name] > 0),
            key=lambda each: each[0] / each[1],
        ):
            part = min(1.0, need / room)
            paid, need = paid + part * price, need - part * room
            if need <= 0:
                break
        cost = max(cost, paid)
    return cost, min(nodes, len(empty))
