"""What a simple policy reaches on a cluster: the measure of hidden clusters.

It puts a pod on the cheapest node with room, if costs count, and else on the fullest one. It runs in
this process.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from lib.scheduling.policies.function_plugins import plugin_of
from lib.scheduling.policies.views import NodeView, PodView
from lib.service.policies import Policy
from scripts.grading.marks import EXACTLY, cost_of, nodes_used_by
from scripts.grading.scenario import PRICE, Scenario
from scripts.grading.trial import Task

Score = Callable[[PodView, NodeView], int]

WEIGHT = 10_000
"""It outweighs all plugins."""


@dataclass(frozen=True)
class Reached:
    """The result. is_best: whether no placement of so many pods costs less, or uses fewer nodes."""

    placed: int
    cost: float
    nodes_used: int
    is_best: bool


def reached(scenario: Scenario) -> Reached | None:
    """What the reference policy reaches; None if it evicts pods, or a pod has no node."""
    counts = scenario.expect.cost is not None
    task = Task(scenario)
    trial = task.placed(task.decider(0, _policy(scenario, _cheapest(scenario) if counts else _fullest)))
    if trial.victims or not all(each.node_name for each in trial.placed):
        return None
    answer, best = trial.as_json(), task.best(scenario, trial)
    cost, used = cost_of(scenario, answer), len(nodes_used_by(scenario, answer))
    is_best = cost <= best.cost + EXACTLY if counts else used <= best.nodes_used
    return Reached(len(trial.placed), cost, used, is_best)


def reached_blindly(scenario: Scenario) -> bool:
    """Whether a policy that reads no price costs no more than expected: the default, or the fullest node."""
    most = scenario.expect.cost
    assert most is not None
    task = Task(scenario)
    blind = [task.placed(task.decider(0, policy)) for policy in (None, _policy(scenario, _fullest))]
    return any(cost_of(scenario, each.as_json()) <= most + EXACTLY for each in blind)


def _policy(scenario: Scenario, score: Score) -> Policy:
    """A policy that scores so, and keeps off nodes that are to be avoided."""

    def allowed(_: PodView, node: NodeView) -> bool:
        return node.name not in scenario.expect.avoid

    plugin = plugin_of("reference", {"filter": allowed, "score": score})
    return Policy(__file__, (plugin,), WEIGHT)


def _cheapest(scenario: Scenario) -> Score:
    """Scores a node by its place among the prices: 100 for the lowest."""
    prices = sorted({scenario.price_of(name) for name in scenario.nodes})
    return partial(_by_price, {price: 100 - 100 * i // len(prices) for i, price in enumerate(prices)})


def _by_price(scores: dict[float, int], _: PodView, node: NodeView) -> int:
    return scores[float(node.annotations.get(PRICE, 0))]


def _fullest(pod: PodView, node: NodeView) -> int:
    """Scores a node by the share of its fullest resource with the pod, as scripts/examples/bin_packing.py."""
    shares = [
        (node.requested[resource] + pod.requests[resource]) / node.allocatable[resource]
        for resource in ("cpu", "memory")
        if node.allocatable[resource]
    ]
    return round(100 * min(max(shares, default=0), 1))
