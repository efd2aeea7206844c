"""A student's hand-in: whose it is, and what it comes to on the open cluster and on the hidden ones."""

import builtins
import os
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path
from typing import TypeVar

from lib.kube.bounded_files import read_at_most
from lib.scheduling.text import count
from lib.service.policies import BUILT_IN
from scripts.grading.marks import Mark, Marks, mark, most_points
from scripts.grading.remote_policy import MAX_POLICY
from scripts.grading.scenario import Scenario
from scripts.grading.trial import CHANCE, Limits, run
from scripts.grading.variation import TRIES, renamed, shaped_like

T = TypeVar("T")

NO_POLICY = "(no policy)"

GRADERS_WORDS = ("took ", "its process ", "the placement breaks ", "no placement can ")

FAILED_AT = re.compile(r"\b(?P<where>[\w.-]+\.py:\d+)(?: for node \S+)?: (?P<kind>\w+)")
"""Where a policy failed, and with which exception."""

STOPPED = "the grader failed on it; the others aren't affected: "


@dataclass(frozen=True)
class HandIn:
    """A file, and the student's ID."""

    file: Path | None
    name: str
    student: str


@dataclass(frozen=True)
class HandInResult:
    """What a hand-in comes to.

    marks: for each expectation the one with the fewest points on any cluster, so that nothing counts which
    a policy does on the open cluster only. clusters: the marks on each, the open one first.
    """

    hand_in: HandIn
    marks: tuple[Mark, ...]
    most: float
    clusters: tuple[Marks, ...]
    problem: str = ""

    @property
    def points(self) -> float:
        """The sum of the points."""
        return round(sum(each.points for each in self.marks), 2)

    @property
    def why(self) -> str:
        """Why there aren't all points; "" if there are."""
        if self.problem:
            return self.problem
        missing = "; ".join(
            f"{each.what}: it is {each.value}" + (f", {each.possible} is possible" if each.possible else "")
            for each in self.marks
            if not each.good
        )
        return f"{missing}. {self.decided}" if missing and self.decided else missing

    @property
    def decided(self) -> str:
        """Which plugins decided where pods went, on the first cluster that isn't as expected."""
        failed = next((each for each in self.clusters if not all(mark.good for mark in each.marks)), None)
        counts = Counter(failed.decided) if failed else Counter[str]()
        own = sum(counts.pop(name) for name in [*counts] if name not in BUILT_IN and name != CHANCE)
        if not counts:
            return ""
        said = ", ".join(f"{name} {times}" for name, times in counts.most_common())
        return f"Where several nodes fitted, your score decided for {count(own, 'pod')}; {said}"


def hand_ins(policies: Sequence[Path]) -> list[HandIn]:
    """Whose the files are: by their names, or by their folders' if all files have one name."""
    names = [policy.name for policy in policies]
    if len({*names}) == len(names):
        return [HandIn(policy, policy.name, policy.stem) for policy in policies]
    folders = [
        policy.absolute().parent.name for policy in policies
    ]  # a link isn't followed: it is the student's
    if len({*folders}) == len(policies):
        return [HandIn(policy, str(policy), name) for policy, name in zip(policies, folders, strict=True)]
    return [HandIn(policy, str(policy), str(policy.with_suffix(""))) for policy in policies]


def grade_all(
    scenario: Scenario, found: Sequence[HandIn], seed: int, limits: Limits, shapes: Sequence[Scenario]
) -> Iterator[HandInResult]:
    """The results in the same order, side by side on the cores that there are. The first has no policy.

    shapes: of the hidden clusters, for all hand-ins.
    """

    def of(hand_in: HandIn) -> HandInResult:
        try:
            return grade(scenario, hand_in, seed, limits, shapes)
        except Exception as error:  # each hand-in stands alone, whatever is wrong with the grader
            if hand_in.file is None:  # the scenario is at fault
                raise
            why = f"{STOPPED}{type(error).__name__}: {error}"
            return HandInResult(hand_in, (), most_points(scenario), (), why)

    yield from side_by_side(of, [HandIn(None, NO_POLICY, ""), *found])


def side_by_side(of: Callable[[HandIn], T], found: Sequence[HandIn]) -> Iterator[T]:
    """The result for each hand-in, in order; several are found at a time.

    While the grader places pods, a policy's process waits, and the other way round. Who hangs only waits.
    """
    with ThreadPoolExecutor(2 * cores()) as pool:
        yield from pool.map(of, found)


def cores() -> int:
    """How many processes can compute at the same time."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def shapes_of(scenario: Scenario, seed: int, hidden: int, told: Callable[[str], None]) -> list[Scenario]:
    """The shapes of so many hidden clusters, for all hand-ins. told: called with what is done next."""

    def shape(i: int) -> Scenario:
        def tried(number: int) -> None:
            told(f"hidden cluster {i + 1} of {hidden}: trying shape {number} of at most {TRIES}")

        return shaped_like(scenario, f"{scenario.hidden.secret} {seed} {i}", tried)

    return [shape(i) for i in range(hidden)]


def grade(
    scenario: Scenario, hand_in: HandIn, seed: int, limits: Limits, shapes: Sequence[Scenario]
) -> HandInResult:
    """Run a policy on the open cluster, and on hidden ones of these shapes, until it fails as a whole."""
    clusters: list[Marks] = []
    for cluster in clusters_for(scenario, hand_in, seed, shapes):
        clusters.append(mark(cluster, run(cluster, hand_in.file, seed, limits)))
        if not clusters[-1].marks:
            break
    failed = next((each for each in clusters if each.problem), None)
    problem = failed.problem if failed else ""
    if failed and failed.is_hidden:
        problem = f"on a hidden cluster: {without_its_words(problem)}"
    whole = clusters[-1].marks
    marks = [worst(each) for each in zip(*(each.marks for each in clusters), strict=True)] if whole else []
    return HandInResult(hand_in, tuple(marks), most_points(scenario), tuple(clusters), problem)


def without_its_words(problem: str) -> str:
    """What is told of a failure on a hidden cluster: not what the policy says: that could be prices."""
    if problem.startswith(GRADERS_WORDS):
        return problem
    found = FAILED_AT.search(problem)
    if not found:
        return "a pod has no node there"
    kind = found["kind"] if hasattr(builtins, found["kind"]) else "an exception of its own"
    return f"it failed at {found['where']}, with {kind}"


def clusters_for(
    scenario: Scenario, hand_in: HandIn, seed: int, shapes: Sequence[Scenario]
) -> Iterator[Scenario]:
    """The open cluster, and the hidden ones of a student and of a file.

    So the names of a hidden cluster, which a policy may tell in an error, are of no use once it is changed.
    """
    yield scenario
    if not hand_in.file or not shapes:
        return
    content = sha256(read_at_most(hand_in.file, MAX_POLICY)).hexdigest()
    for i, shape in enumerate(shapes):
        yield renamed(shape, f"{scenario.hidden.secret} {seed} {hand_in.student} {content} {i}")


def worst(marks: Sequence[Mark]) -> Mark:
    """The mark with the fewest points; of several the first, which is the open cluster's."""
    found = min(marks, key=lambda each: each.points)
    return found if found is marks[0] else replace(found, value=f"{found.value} hidden")
