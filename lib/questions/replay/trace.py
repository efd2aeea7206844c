"""Traces: which pods arrive when, and for how long they run."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import count
from math import inf
from random import Random

from msgspec.structs import replace

from lib.kube.objects import Node, Pod
from lib.questions.errors import QuestionError
from lib.scheduling.resources import Resources, amounts, pod_requests

MAX_FACTOR = 100
"""The most times that a workload can be inflated."""


@dataclass(frozen=True, slots=True)
class Arrival:
    """A pod that arrives. Times are in seconds.

    at: since the trace began. like: a pod of another name, which many arrivals share: a trace may have
    millions. runs_for: how long it runs once it has a node; infinity if it never ends.
    """

    at: float
    name: str
    like: Pod
    runs_for: float = inf

    def pod(self) -> Pod:
        """The pod itself; its uid is its namespace and name."""
        uid = f"{self.like.metadata.namespace}/{self.name}"
        metadata = replace(self.like.metadata, name=self.name, uid=uid)
        return replace(self.like, metadata=metadata)


def requested(pods: Iterable[Pod]) -> Resources:
    """What pods request together, by resource."""
    total: Resources = {}
    for pod in pods:
        for name, amount in pod_requests(pod).items():
            total[name] = total.get(name, 0) + amount
    return total


def capacity(nodes: Iterable[Node]) -> Resources:
    """What nodes have together, by resource."""
    total: Resources = {}
    for node in nodes:
        for name, amount in amounts(node.status.allocatable).items():
            total[name] = total.get(name, 0) + amount
    return total


def main_resource(arrivals: Sequence[Arrival], nodes: Sequence[Node]) -> str:
    """The resource that is scarcest: of which the pods request most, compared with what there is.

    Extended resources, such as GPUs, come first: a cluster is bought for them.
    """
    asked, there = requested(each.like for each in arrivals), capacity(nodes)
    extended = [name for name, amount in there.items() if "/" in name and amount and asked.get(name)]
    names = extended or [name for name in ("cpu", "memory") if there.get(name)]
    if not names:
        raise QuestionError("the nodes have nothing that these pods request")
    return max(names, key=lambda name: asked.get(name, 0) / there[name])


def inflated(
    arrivals: Sequence[Arrival], nodes: Sequence[Node], factor: float, random: Random
) -> list[Arrival]:
    """A workload that asks for `factor` times what the cluster has of its main resource.

    QuestionError when the factor is too large, or the pods don't ask for that resource at all.
    Pods drawn at random are added to those of the trace, all are shuffled, they arrive one after the other,
    a second apart, and none of them ends.
    Source: workload inflation in "Beware of Fragmentation" (USENIX ATC'23), section 6.1
    """
    if not factor <= MAX_FACTOR:  # not a number, too
        raise QuestionError(f"--inflate {factor:g}: must be {MAX_FACTOR} at most")
    name = main_resource(arrivals, nodes)
    if not requested(each.like for each in arrivals).get(name):
        raise QuestionError(f"--inflate: the pods request no {name}, so they never fill the nodes")
    most = factor * capacity(nodes)[name]
    pods = [(each.name, each.like) for each in arrivals]
    asked = requested(like for _, like in pods).get(name, 0)
    for number in count(1):
        drawn = random.choice(arrivals)
        asked += pod_requests(drawn.like).get(name, 0)
        if asked > most:
            break
        pods.append((f"{drawn.name}-again-{number}", drawn.like))
    random.shuffle(pods)
    return [Arrival(float(at), name, like) for at, (name, like) in enumerate(pods)]
