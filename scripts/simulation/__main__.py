"""`scripts/simulate`: run poller in simulated worlds, by seeds, and say what was found."""

import argparse
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from pathlib import Path

from .checks import Violation
from .mutations import MUTATIONS
from .one_namespace import one_namespace_plan, outcome_of
from .plan import Plan, random_plan
from .real import run_real
from .smaller import smaller, story
from .world import Outcome

MOST_TOLD = 3
"""Of so many seeds that break a rule, the story is told: to make one smaller takes a minute."""


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="scripts/simulate", description=__doc__)
    parser.add_argument("--seeds", type=int, default=100, metavar="N", help="how many (default %(default)s)")
    parser.add_argument("--first", type=int, default=1, metavar="S", help="the first one (default 1)")
    parser.add_argument(
        "--minutes", type=float, default=3, metavar="M", help="of accidents in each (default %(default)s)"
    )
    parser.add_argument("--seed", type=int, metavar="S", help="this one alone")
    parser.add_argument("--show", action="store_true", help="print what happens, step by step")
    parser.add_argument(
        "--mutation",
        choices=MUTATIONS,
        metavar="NAME",
        help="put this fault into poller, and end at the first seed that finds it",
    )
    parser.add_argument(
        "--mutations",
        nargs="*",
        choices=MUTATIONS,
        metavar="NAME",
        help="the same with each of these, or with all of them; print which seed finds it",
    )
    parser.add_argument(
        "--one-namespace",
        action="store_true",
        help="worlds of another kind: only one namespace's requests meet faults, and the pods of others"
        " must be bound as soon as without these",
    )
    parser.add_argument(
        "--whole",
        action="store_true",
        help="don't make a seed smaller that breaks a rule, and don't tell its story",
    )
    parser.add_argument(
        "--real",
        action="store_true",
        help="the same faults in real time, against a real kube-apiserver, for so many --minutes",
    )
    parser.add_argument("--logs", type=Path, metavar="DIR", help="of --real: keep the logs there")
    return parser.parse_args()


def main(chosen: argparse.Namespace) -> int:
    if chosen.real:
        seed = chosen.first if chosen.seed is None else chosen.seed
        return run_real(seed, chosen.minutes, chosen.logs, mutation=chosen.mutation)
    planned = one_namespace_plan if chosen.one_namespace else random_plan
    seeds = [chosen.seed] if chosen.seed is not None else range(chosen.first, chosen.first + chosen.seeds)
    if chosen.mutations is not None:
        found = [_find(name, planned, seeds, chosen.minutes) for name in chosen.mutations or MUTATIONS]
        return 0 if all(found) else 1
    totals = Totals()
    ending: list[int] = []  # signals: this seed is the last one then
    for each in (signal.SIGINT, signal.SIGTERM):
        signal.signal(each, lambda number, _: ending.append(number))
    with ExitStack() as stack:
        for patched in MUTATIONS[chosen.mutation]() if chosen.mutation else ():
            stack.enter_context(patched)
        for seed in seeds:
            plan = planned(seed, chosen.minutes)
            outcome = outcome_of(plan)
            totals.add(outcome)
            for violation in _first_of_each_rule(outcome):
                print(f"seed {seed}: {violation}", flush=True)
            is_told = outcome.violations and not chosen.whole and len(totals.failed) <= MOST_TOLD
            if is_told and not chosen.show:
                print(f"seed {seed} is made smaller, as long as it breaks the rule", flush=True)
                plan = smaller(plan, outcome.violations[0].rule)
            if is_told or chosen.show:
                story(plan, print)
            if ending or (outcome.violations and chosen.mutation):
                break
    totals.show()
    return 1 if totals.failed else 0


def _find(mutation: str, planned: Callable[[int, float], Plan], seeds: Iterable[int], minutes: float) -> bool:
    """Whether one of the seeds finds a mutation; prints which, and by which rule."""
    with ExitStack() as stack:
        for patched in MUTATIONS[mutation]():
            stack.enter_context(patched)
        for seed in seeds:
            if violations := outcome_of(planned(seed, minutes)).violations:
                print(f"{mutation}: seed {seed}, {violations[0]}", flush=True)
                return True
    print(f"{mutation}: no seed finds it", flush=True)
    return False


def _first_of_each_rule(outcome: Outcome) -> list[Violation]:
    first: dict[str, Violation] = {}
    for each in outcome.violations:
        first.setdefault(each.rule, each)
    return [*first.values()]


class Totals:
    """What all seeds came to."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.faults: Counter[str] = Counter()
        self.seconds = 0.0
        self.failed: list[int] = []
        self._began = time.monotonic(), time.process_time()

    def add(self, outcome: Outcome) -> None:
        self.seconds += outcome.seconds
        for name in ("starts", "pods", "bindings", "evictions", "requests"):
            self.counts[name] += getattr(outcome, name)
        self.faults.update({kind.name: count for kind, count in outcome.faults.items()})
        self.counts["seeds"] += 1
        if outcome.violations:
            self.failed.append(outcome.plan.seed)

    def show(self) -> None:
        took, cpu = time.monotonic() - self._began[0], time.process_time() - self._began[1]
        print(", ".join(f"{name} {count:,}" for name, count in self.counts.items()))
        print(
            "faults:", ", ".join(f"{name} {count:,}" for name, count in sorted(self.faults.items())) or "none"
        )
        print(
            f"{self.seconds / 3600:.2f} simulated hours in {took:.0f} s ({cpu:.0f} s of CPU time):"
            f" {self.seconds / cpu:.0f} simulated hours an hour of CPU time"
        )
        print(f"seeds that found something: {', '.join(map(str, self.failed)) or 'none'}")


if __name__ == "__main__":
    sys.exit(main(options()))
