"""Places a scenario's pods by one policy. The grader decides; the policy's process only answers."""

import tempfile
from contextlib import ExitStack
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from random import Random

from lib.questions.deciding import Decider
from lib.questions.files import read_files
from lib.questions.manifests import workloads_in
from lib.questions.trial import Placing, Trial as PlacedTrial, new_pods
from lib.scheduling.handle import Handle
from lib.service.config.file import default_config
from lib.service.served_profiles import DEFAULT_NAME, Asked, profiles_for
from scripts.grading.best import Best, best
from scripts.grading.remote_policy import Limits, PolicyProblemError, RemotePolicy, policy_process
from scripts.grading.scenario import Json, Scenario
from scripts.grading.second_look import second_look

__all__ = ["Limits", "Trial", "run"]


@dataclass(frozen=True)
class Trial:
    """The result: where each pod went; or what went wrong, in one line.

    best: what no placement of so many pods can beat; None if pods were evicted.
    """

    answer: Json | None
    problem: str = ""
    best: Best | None = None


class Task:
    """A scenario's cluster, as it was before the first pod, and the pods to place."""

    def __init__(self, scenario: Scenario) -> None:
        with tempfile.TemporaryDirectory(prefix="grade-") as folder:
            file = Path(folder, "cluster.json")
            file.write_bytes(scenario.cluster)
            self.snapshot = read_files([file])
        self._workloads = workloads_in(deepcopy(scenario.manifests), self.snapshot)

    def decider(self, seed: int | str = 0, remote: RemotePolicy | None = None) -> Decider:
        """Decides with the default plugins, and with the policy's."""
        random = Random(seed)
        asked = Asked(DEFAULT_NAME, policies=(remote.policy,) if remote else ())
        profiles = profiles_for(default_config(), asked, Handle(random))
        decider = Decider(self.snapshot, profiles, random, DEFAULT_NAME)
        if remote:
            remote.begin(decider.cache)
        return decider

    def placing(self, decider: Decider) -> Placing:
        """Places the pods, one with each step."""
        new = new_pods(self._workloads, self.snapshot, decider)
        return Placing(new, decider, explained=0)  # explaining asks about nodes that there are not


def run(scenario: Scenario, policy: Path | None, seed: int | str, limits: Limits) -> Trial:
    """Place the pods by a policy; None: by poller's defaults."""
    task = Task(scenario)
    try:
        with ExitStack() as stack:
            remote = None
            if policy:
                remote = stack.enter_context(policy_process(policy, str(seed), task.snapshot, limits))
            placing = task.placing(task.decider(seed, remote))
            for _ in placing.steps():
                if remote and remote.problem:
                    return Trial(None, remote.problem)
    except PolicyProblemError as error:
        return Trial(None, str(error))
    return _checked(scenario, placing.answer)


def _checked(scenario: Scenario, trial: PlacedTrial) -> Trial:
    """The result, if the placement keeps kube-scheduler's rules."""
    if wrong := second_look(trial.placed, Task(scenario).decider()):
        return Trial(None, f"the placement breaks kube-scheduler's rules: {wrong}")
    if trial.victims:
        return Trial(trial.as_json())
    pods, placed = [each.pod for each in trial.placed], sum(bool(each.node_name) for each in trial.placed)
    return Trial(trial.as_json(), best=best(scenario, Task(scenario).decider(), pods, placed))
