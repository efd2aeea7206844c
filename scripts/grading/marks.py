"""Compares where pods went with what a scenario expects."""

from collections import Counter
from dataclasses import dataclass, field

from scripts.grading.scenario import Json, Scenario, Spread


@dataclass(frozen=True)
class Mark:
    """One expectation: its name, the value, and whether the value is good."""

    what: str
    value: str
    good: bool


@dataclass(frozen=True)
class Marks:
    """The marks of a policy. problem: why it has no marks, or what went wrong with a pod."""

    policy: str
    marks: tuple[Mark, ...] = field(default=())
    problem: str = ""

    @property
    def points(self) -> int:
        """How many expectations are met."""
        return sum(mark.good for mark in self.marks)


def expectations(scenario: Scenario) -> list[str]:
    """A heading for each expectation."""
    expect = scenario.expect
    names = [
        (expect.placed is not None, f"placed >= {expect.placed}"),
        (expect.nodes_used is not None, f"nodes <= {expect.nodes_used}"),
        (expect.cost is not None, f"cost <= {expect.cost}"),
        *(
            (True, f"{spread.of} by {spread.by.rpartition('/')[2]} <= {spread.at_most}")
            for spread in expect.spread
        ),
        (bool(expect.avoid), f"not on {', '.join(expect.avoid)}"),
        (expect.evicted is not None, f"evicted <= {expect.evicted}"),
    ]
    return [name for there, name in names if there]


def mark(scenario: Scenario, policy: str, answer: Json) -> Marks:
    """The marks for an answer of `poller.py try`. If too few pods are placed, no expectation is met."""
    expect = scenario.expect
    placed = [pod for pod in answer["pods"] if pod["node"]]
    victims = {victim for pod in answer["pods"] for victim in pod["victims"]}
    new = Counter(pod["node"] for pod in placed)
    used = {node for pod, node in scenario.running.items() if pod not in victims} | set(new)
    cost = sum(map(scenario.price_of, used))
    astray = sum(new[node] for node in expect.avoid)
    values: list[tuple[str, bool]] = []
    if expect.placed is not None:
        values.append((f"{len(placed)}/{len(answer['pods'])}", len(placed) >= expect.placed))
    if expect.nodes_used is not None:
        values.append((str(len(used)), len(used) <= expect.nodes_used))
    if expect.cost is not None:
        values.append((f"{cost:.2f}", cost <= expect.cost + 1e-9))
    for spread in expect.spread:
        skew = _skew(scenario, spread, answer)
        values.append((str(skew), skew <= spread.at_most))
    if expect.avoid:
        values.append((str(astray), not astray))
    if expect.evicted is not None:
        values.append((str(len(victims)), len(victims) <= expect.evicted))
    if expect.placed is not None and not values[0][1]:  # without pods, spread and cost would be perfect
        values = [(value, False) for value, _ in values]
    marks = [Mark(what, *value) for what, value in zip(expectations(scenario), values, strict=True)]
    failed = next((f"{pod['pod']}: {pod['message']}" for pod in answer["pods"] if not pod["node"]), "")
    return Marks(policy, tuple(marks), failed)


def _skew(scenario: Scenario, spread: Spread, answer: Json) -> int:
    """The most minus the fewest pods of a workload, over all values that the nodes have for the label."""
    counts = Counter({scenario.label_of(node, spread.by): 0 for node in scenario.nodes})
    counts.pop("", None)
    for workload in answer["workloads"]:
        if workload["name"] == spread.of:
            for node, pods in workload["nodes"].items():
                counts[scenario.label_of(node, spread.by)] += pods
    return max(counts.values()) - min(counts.values()) if counts else 0
