"""Places a scenario's pods by one policy. The grader decides; the policy's process only answers."""

import tempfile
from collections import Counter
from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

from lib.questions.deciding import Decider, Placed
from lib.questions.files import read_files
from lib.questions.manifests import workloads_in
from lib.questions.trial import Placing, Trial as PlacedTrial, new_pods
from lib.scheduling.decision import Decision
from lib.scheduling.handle import Handle
from lib.service.policies import Policy
from lib.service.served_profiles import DEFAULT_NAME, Asked, profiles_for
from scripts.grading.best import Best, best
from scripts.grading.remote_policy import Limits, PolicyProblemError, policy_process
from scripts.grading.scenario import Json, Scenario
from scripts.grading.second_look import second_look

__all__ = ["Limits", "Trial", "run"]


@dataclass(frozen=True)
class Trial:
    """The result: where each pod went; or what went wrong, in one line.

    best: what no placement of so many pods can beat; None if pods were evicted. decided: by plugin, how many
    pods' nodes it decided.
    """

    answer: Json | None
    problem: str = ""
    best: Best | None = None
    decided: Mapping[str, int] = field(default_factory=dict)


CHANCE = "chance"
"""What decides between nodes whose scores are the same."""


class Noting(Decider):
    """It notes what decided for each pod: the plugin that tells the picked node most from the runner-up."""

    def __init__(self, *parts: Any) -> None:
        super().__init__(*parts)
        self.decided = Counter[str]()

    def settle(self, decision: Decision) -> Placed:
        """Place the pod."""
        picked = decision.scores.get(decision.node_name)
        others = [scores for name, scores in decision.scores.items() if name != decision.node_name]
        if picked and others:
            second = max(others, key=lambda scores: sum(scores.values()))
            ahead = {name: score - second.get(name, 0) for name, score in picked.items()}
            is_decided = sum(ahead.values()) > 0
            self.decided[max(ahead, key=lambda name: ahead[name]) if is_decided else CHANCE] += 1
        return super().settle(decision)


class Task:
    """A scenario's cluster, as it was before the first pod, and the pods to place."""

    def __init__(self, scenario: Scenario) -> None:
        with tempfile.TemporaryDirectory(prefix="grade-") as folder:
            file = Path(folder, "cluster.json")
            file.write_bytes(scenario.cluster)
            self.snapshot = read_files([file])
        self._workloads = workloads_in(deepcopy(scenario.manifests), self.snapshot)

    def decider(self, seed: int | str = 0, policy: Policy | None = None) -> "Noting":
        """Decides with the default plugins, and with the policy's."""
        random = Random(seed)
        asked = Asked(DEFAULT_NAME, policies=(policy,) if policy else ())
        profiles = profiles_for(None, asked, Handle(random))
        return Noting(self.snapshot, profiles, random, DEFAULT_NAME)

    def placing(self, decider: Decider) -> Placing:
        """Places the pods, one with each step."""
        new = new_pods(self._workloads, self.snapshot, decider)
        return Placing(new, decider, explained=0)  # explaining asks about nodes that there are not

    def placed(self, decider: Decider) -> PlacedTrial:
        """Place them all."""
        placing = self.placing(decider)
        for _ in placing.steps():
            pass
        return placing.answer

    def best(self, scenario: Scenario, trial: PlacedTrial) -> Best:
        """What no placement of so many pods can beat."""
        pods = [each.pod for each in trial.placed]
        return best(scenario, self.decider(), pods, sum(bool(each.node_name) for each in trial.placed))


def run(scenario: Scenario, policy: Path | None, seed: int | str, limits: Limits) -> Trial:
    """Place the pods by a policy; None: by poller's defaults."""
    task = Task(scenario)
    if policy is None:
        decider = task.decider(seed)
        return _checked(scenario, task.placed(decider), decider.decided)
    try:
        with policy_process(policy, str(seed), task.snapshot, limits) as remote:
            decider = task.decider(seed, remote.policy)
            remote.begin(decider.cache)
            placing = task.placing(decider)
            for _ in placing.steps():
                if remote.problem:
                    return Trial(None, remote.problem)
    except PolicyProblemError as error:
        return Trial(None, str(error))
    return _checked(scenario, placing.answer, decider.decided)


def _checked(scenario: Scenario, trial: PlacedTrial, decided: Mapping[str, int]) -> Trial:
    """The result, if the placement keeps kube-scheduler's rules."""
    if wrong := second_look(trial.placed, Task(scenario).decider()):
        return Trial(None, f"the placement breaks kube-scheduler's rules: {wrong}")
    if trial.victims:
        return Trial(trial.as_json(), decided=decided)
    return Trial(trial.as_json(), "", Task(scenario).best(scenario, trial), decided)
