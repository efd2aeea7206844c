"""Compares where pods went with what a scenario expects."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from scripts.grading.best import Best
from scripts.grading.scenario import Json, Scenario, Spread, Worth
from scripts.grading.trial import Trial

EXACTLY = 1e-9
"""Costs that differ by no more than this are the same."""


@dataclass(frozen=True)
class Mark:
    """One expectation: its name, the value, what was expected, and its points, of how many.

    good: whether the value is as expected. possible: the best value that there can be, if that is known.
    """

    what: str
    value: str
    expected: str
    good: bool
    points: float
    most: float
    possible: str = ""


@dataclass(frozen=True)
class Marks:
    """The marks of a trial. problem: why it has no marks, or why a pod has no node.

    where: by node, the pods that went there. decided: by plugin, how many pods' nodes it decided.
    """

    marks: tuple[Mark, ...] = field(default=())
    problem: str = ""
    where: tuple[tuple[str, tuple[str, ...]], ...] = ()
    is_hidden: bool = False
    decided: Mapping[str, int] = field(default_factory=dict)

    @property
    def points(self) -> float:
        """The sum of the points."""
        return sum(mark.points for mark in self.marks)


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


def worths(scenario: Scenario) -> list[Worth]:
    """What each expectation is worth, in the same order."""
    expect, rubric = scenario.expect, scenario.rubric
    each = [
        (expect.placed is not None, rubric.placed),
        (expect.nodes_used is not None, rubric.nodes_used),
        (expect.cost is not None, rubric.cost),
        *((True, rubric.spread) for _ in expect.spread),
        (bool(expect.avoid), rubric.avoid),
        (expect.evicted is not None, rubric.evicted),
    ]
    return [worth for there, worth in each if there]


def most_points(scenario: Scenario) -> float:
    """The points of a policy that meets all expectations."""
    return sum(worth.points for worth in worths(scenario))


def mark(scenario: Scenario, trial: Trial) -> Marks:
    """The marks for a trial. If too few pods are placed, the other expectations bring no points."""
    if trial.answer is None:
        return Marks(problem=trial.problem, is_hidden=scenario.is_hidden)
    answer, marks, enough = trial.answer, [], True
    values = _values(scenario, answer, trial.best)
    for what, worth, value in zip(expectations(scenario), worths(scenario), values, strict=True):
        part = value.part(worth) if enough else 0.0
        good = value.is_good and enough
        possible = value.possible if enough else ""  # the least for few pods is no measure
        marks.append(Mark(what, value.text, value.wanted, good, part * worth.points, worth.points, possible))
        if what.startswith("placed"):  # without pods, spread and cost would be perfect
            enough = value.is_good
    if low := _too_low(values):
        return Marks(problem=f"no placement can have {low}", is_hidden=scenario.is_hidden)
    failed = next((f"{pod['pod']}: {pod['message']}" for pod in answer["pods"] if not pod["node"]), "")
    where: dict[str, list[str]] = {}
    for pod in answer["pods"]:
        where.setdefault(pod["node"] or "", []).append(pod["pod"])
    on = tuple((node, tuple(where[node])) for node in [*scenario.nodes, ""] if node in where)
    return Marks(tuple(marks), failed, on, scenario.is_hidden, trial.decided)


@dataclass(frozen=True)
class _Value:
    """A value; the less the better, but for `more_is_better`."""

    what: str
    text: str
    value: float
    wanted_value: float
    wanted: str
    best: float | None = None
    more_is_better: bool = False

    @property
    def is_good(self) -> bool:
        if self.more_is_better:
            return self.value >= self.wanted_value
        return self.value <= self.wanted_value + EXACTLY

    @property
    def possible(self) -> str:
        return "" if self.best is None else f"{self.best:.9g}"

    def part(self, worth: Worth) -> float:
        """Which part of the points the value is worth."""
        if self.is_good:
            return 1.0
        if worth.none_at is None or worth.none_at == self.wanted_value:
            return 0.0
        return min(1.0, max(0.0, (worth.none_at - self.value) / (worth.none_at - self.wanted_value)))


def _values(scenario: Scenario, answer: Json, best: Best | None) -> list[_Value]:
    expect = scenario.expect
    placed = [pod for pod in answer["pods"] if pod["node"]]
    new = Counter(pod["node"] for pod in placed)
    used, cost = nodes_used_by(scenario, answer), cost_of(scenario, answer)

    def found() -> Iterator[_Value]:
        if expect.placed is not None:
            text = f"{len(placed)}/{len(answer['pods'])}"
            yield _Value(
                "placed", text, len(placed), expect.placed, f"{expect.placed} or more", more_is_better=True
            )
        if expect.nodes_used is not None:
            least = best.nodes_used if best else None
            yield _Value(
                "nodes", str(len(used)), len(used), expect.nodes_used, _most(expect.nodes_used), least
            )
        if expect.cost is not None:
            yield _Value(
                "a cost of", _money(cost), cost, expect.cost, _most(expect.cost), best.cost if best else None
            )
        for spread in expect.spread:
            skew = _skew(scenario, spread, answer)
            yield _Value("a skew of", str(skew), skew, spread.at_most, _most(spread.at_most))
        if expect.avoid:
            astray = sum(new[node] for node in expect.avoid)
            yield _Value("astray", str(astray), astray, 0, "0")
        if expect.evicted is not None:
            victims = len(_victims(answer))
            yield _Value("evicted", str(victims), victims, expect.evicted, _most(expect.evicted))

    return list(found())


def cost_of(scenario: Scenario, answer: Json) -> float:
    """The price of the nodes that are used."""
    return sum(map(scenario.price_of, sorted(nodes_used_by(scenario, answer))))


def nodes_used_by(scenario: Scenario, answer: Json) -> set[str]:
    """The nodes with pods, old or new."""
    victims = _victims(answer)
    old = {node for pod, node in scenario.running.items() if pod not in victims}
    return old | {pod["node"] for pod in answer["pods"] if pod["node"]}


def _victims(answer: Json) -> set[str]:
    return {victim for pod in answer["pods"] for victim in pod["victims"]}


def _money(amount: float) -> str:
    """Two decimals, or more if there are any: 0.30, 0.2996."""
    return f"{amount:.2f}" if abs(amount - round(amount, 2)) < EXACTLY else f"{amount:.9g}"


def _most(value: float) -> str:
    return f"{value:.9g} or less"


def _too_low(values: Sequence[_Value]) -> str:
    for each in values:
        if each.best is not None and each.value < each.best - EXACTLY:
            return f"{each.what} {each.text}: the least is {each.possible}"
    return ""


def _skew(scenario: Scenario, spread: Spread, answer: Json) -> int:
    """The most minus the fewest pods of a workload, over all values that the nodes have for the label."""
    counts = Counter({scenario.label_of(node, spread.by): 0 for node in scenario.nodes})
    counts.pop("", None)
    for workload in answer["workloads"]:
        if workload["name"] == spread.of:
            for node, pods in workload["nodes"].items():
                counts[scenario.label_of(node, spread.by)] += pods
    return max(counts.values()) - min(counts.values()) if counts else 0
