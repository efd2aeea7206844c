"""Makes a plan smaller whose run breaks a rule: fewer faults, fewer actions, fewer accidents of pollers."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TypeVar

from .one_namespace import outcome_of
from .plan import Plan

T = TypeVar("T")

MOST_RUNS = 200


WHOLE, LONG = 1000, 3600.0
"""Lists that come at once, and watches that nobody ends."""


def smaller(plan: Plan, rule: str, runs: int = MOST_RUNS) -> Plan:
    """The smallest plan that was found in so many runs and still breaks this rule."""
    left = runs

    def breaks(candidate: Plan) -> bool:
        nonlocal left
        left -= 1
        return any(each.rule == rule for each in outcome_of(candidate).violations)

    while left > 0:
        found = next((each for each in _candidates(plan) if left > 0 and breaks(each)), None)
        if not found:
            break
        plan = found
    return plan


def _candidates(plan: Plan) -> Iterator[Plan]:
    """Plans with something left out; most of it first."""
    yield from (replace(plan, faults=each) for each in _without(plan.faults))
    if len(plan.pollers) > 1:
        yield from (replace(plan, pollers=each) for each in _without(plan.pollers))
    for place, poller in enumerate(plan.pollers):
        plain = replace(poller, drift=0.0, skew=0.0, freezes=(), stops=(), jumps=(), suspends=())
        simple = replace(plain, elects=False, policy=False, extender=False)
        for each in dict.fromkeys((simple, plain, replace(poller, watch=False))):
            if each != poller:
                yield replace(plan, pollers=(*plan.pollers[:place], each, *plan.pollers[place + 1 :]))
    if (plan.page, plan.longest_watch) != (WHOLE, LONG):
        yield replace(plan, page=WHOLE, longest_watch=LONG)
    yield from (replace(plan, actions=each) for each in _without(plan.actions))


def _without(things: "tuple[T, ...]") -> "Iterator[tuple[T, ...]]":
    """The same without a half, a quarter and so on, at last without each one."""
    size = len(things)
    while size > 1 or size == len(things) == 1:
        size = max(1, size // 2)
        for start in range(0, len(things), size):
            yield things[:start] + things[start + size :]
        if size == 1:
            return


def story(plan: Plan, show: Callable[[str], None]) -> None:
    """Print what happens in a run of a plan, and what was found."""
    outcome = outcome_of(plan, show=True)
    for poller in plan.pollers:
        show(str(poller))
    for fault in plan.faults:
        show(str(fault))
    for line in outcome.story:
        show(line)
    for violation in outcome.violations:
        show(str(violation))
