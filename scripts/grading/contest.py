"""A contest: policies place the pods of a trace, and a figure of the replay is their score.

`replay.yaml` in a scenario's folder says which trace, and which figure.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from statistics import fmean
from typing import Literal

import msgspec
import yaml

from lib.kube.bounded_files import MAX_YAML, TooMuchError, read_at_most
from lib.kube.kubernetes_yaml import load_documents
from lib.kube.objects import Node
from lib.kube.system import MACHINE
from lib.questions.errors import QuestionError
from lib.questions.replay.figures import Figures
from lib.questions.replay.reading import read_snapshot, read_trace
from lib.questions.replay.trace import Trace, inflated, kinds_of
from lib.questions.replay.world import Replaying, profile_of
from scripts.grading.hand_in import HandIn, side_by_side
from scripts.grading.remote_policy import Limits, PolicyProblemError, policy_process
from scripts.grading.scenario import ScenarioError

FILE = "replay.yaml"

Score = Literal["allocated", "nodes_used", "wait_p95"]

WHAT: Mapping[Score, str] = {
    "allocated": "% of {main} that is allocated at the end",
    "nodes_used": "nodes that are used, the mean over time",
    "wait_p95": "seconds that 95 % of the pods wait at most",
}
"""What a score is, in words."""


class _Told(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The file. pods, nodes: files beside it, as `replay` reads them. inflate: as its option.

    runs: the score is the mean of so many, each with a seed of its own. beat: a policy in the folder that is
    to be beaten. secret: nobody who doesn't know it can find the seeds.
    """

    title: str
    pods: str
    score: Score
    nodes: str = ""
    inflate: float | None = None
    beat: str = ""
    runs: int = 3
    secret: str = ""


@dataclass(frozen=True)
class Entry:
    """What a policy comes to. score: the mean of its runs; None if it failed, and then `problem` says why.
    to_beat: it is the scenario's own, not a hand-in.
    """

    hand_in: HandIn
    score: float | None
    problem: str = ""
    to_beat: bool = False
    runs: tuple[float, ...] = ()


class Contest:
    """A contest's folder."""

    def __init__(self, folder: Path) -> None:
        """Read it. ScenarioError when a file can't be read."""
        file = folder / FILE
        try:
            self._told = msgspec.convert(next(load_documents(read_at_most(file, MAX_YAML)), None), _Told)
            snapshot = read_snapshot(folder / self._told.nodes) if self._told.nodes else None
            self._snapshot, self._trace = read_trace(folder / self._told.pods, snapshot)
        except (OSError, TooMuchError, msgspec.MsgspecError, yaml.YAMLError) as error:
            raise ScenarioError(f"{file}: {error}") from error
        except QuestionError as error:
            raise ScenarioError(str(error)) from error
        if not 1 <= self._told.runs <= 100:
            raise ScenarioError(f"{file}: runs: must be from 1 to 100")
        self.title, self.score = self._told.title, self._told.score
        self.beat = folder / self._told.beat if self._told.beat else None
        self.main = ""

    @property
    def what(self) -> str:
        """What the score is, in words."""
        runs = f", the mean of {self._told.runs} runs" if self._told.runs > 1 else ""
        return f"{WHAT[self.score].format(main=self.main)}{runs}"

    @property
    def more_is_better(self) -> bool:
        """Whether a high score is good."""
        return self.score == "allocated"

    def play(self, found: Sequence[HandIn], seed: int, limits: Limits) -> Iterator[Entry]:
        """What each policy comes to, the one to be beaten first; side by side on the cores that there are."""
        to_beat = [HandIn(self.beat, self.beat.name, "")] if self.beat else []

        def entry(hand_in: HandIn) -> Entry:
            return self.entry(hand_in, seed, limits, to_beat=hand_in in to_beat)

        yield from side_by_side(entry, [*to_beat, *found])

    def entry(self, hand_in: HandIn, seed: int, limits: Limits, *, to_beat: bool = False) -> Entry:
        """What one policy comes to."""
        assert hand_in.file
        try:
            scores = [
                self._score_of(self._run(hand_in.file, run, limits))
                for run in _seeds(f"{self._told.secret} {seed}", self._told.runs)
            ]
        except PolicyProblemError as error:
            return Entry(hand_in, None, str(error), to_beat)
        except Exception as error:  # each hand-in stands alone, whatever is wrong with the grader
            return Entry(hand_in, None, f"the grader failed on it: {type(error).__name__}: {error}", to_beat)
        return Entry(hand_in, fmean(scores), "", to_beat, tuple(scores))

    def _run(self, file: Path, seed: int, limits: Limits) -> Figures:
        """A replay, in which the policy answers from a process of its own."""
        trace = self._trace
        if self._told.inflate is not None:
            nodes = self._snapshot.of(Node)
            trace = Trace(inflated(trace.arrivals, nodes, self._told.inflate, MACHINE.random(seed)))
        # The policy has a seed of its own: from the run's it could tell which pods come next. Without the
        # secret, whoever knows that seed could try all runs' seeds, to find the one that it is made of.
        own_seed = _digest(f"policy {self._told.secret} {seed}").hex()
        with policy_process(file, own_seed, self._snapshot, limits) as remote:
            policy = remote.scoring()  # with a filter, who turned pods away would have a good figure
            kinds = kinds_of(trace.arrivals)
            replaying = Replaying(
                file.name, [profile_of(policy.plugins, policy.weights)], self._snapshot, trace, kinds, seed
            )
            remote.begin(replaying.world.cache)
            for _ in replaying.steps():
                if problem := remote.problem or replaying.answer.first_error:
                    raise PolicyProblemError(problem)
        self.main = replaying.answer.main
        return replaying.answer

    def _score_of(self, figures: Figures) -> float:
        if self.score == "allocated":
            return figures.allocated(figures.main)[-1]
        if self.score == "nodes_used":
            return figures.nodes_used[0]
        return figures.wait(0.95)


def _seeds(secret: str, number: int) -> list[int]:
    """The seeds of so many runs; nobody can prepare for them who doesn't know the secret.

    They are long: short ones could be found from the order of the first pods, by trying all.
    """
    return [int.from_bytes(_digest(f"{secret} {i}")) for i in range(number)]


def _digest(text: str) -> bytes:
    return blake2b(text.encode(), digest_size=16).digest()
