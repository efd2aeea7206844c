"""Traces: which pods arrive when, and for how long they run."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from math import inf
from random import Random

from lib.kube.changes import Change
from lib.kube.objects import Node, Pod, with_parts
from lib.questions.errors import CommandLineError, QuestionError
from lib.scheduling.resources import Resources, amounts, pod_requests, total

MAX_FACTOR = 100
"""The most times that a workload can be inflated."""


@dataclass(frozen=True, slots=True)
class Arrival:
    """A pod that arrives. Times are in seconds.

    at: since the trace began. like: a pod of another name, which many arrivals share: a trace may have
    millions. runs_for: how long it runs once it has a node; infinity if it never ends. leaves_at: when it is
    deleted, whether it has a node or not. grace: for how long it is being deleted until it is gone. uid: the
    pod's; by default its namespace and name.
    """

    at: float
    name: str
    like: Pod
    runs_for: float = inf
    leaves_at: float = inf
    uid: str = ""
    grace: float = 0.0

    def pod(self) -> Pod:
        """The pod itself."""
        uid = self.uid or f"{self.like.metadata.namespace}/{self.name}"
        return with_parts(self.like, metadata={"name": self.name, "uid": uid})


@dataclass(frozen=True)
class Made:
    """Arrivals that are made anew for each iteration."""

    make: Callable[[], Iterator[Arrival]]
    length: int

    def __iter__(self) -> Iterator[Arrival]:
        return self.make()

    def __len__(self) -> int:
        return self.length


Arrivals = Sequence[Arrival] | Made
"""Arrivals by time. Each iteration begins anew: they needn't be in memory, all at once."""


Kinds = Mapping[Pod, int]
"""Which kinds of pods there are, and how many of each; pods of a kind share one object."""


@dataclass(frozen=True)
class Trace:
    """What happens to a cluster.

    events: by time, changes of nodes, and of pods that ran before the trace began. note: what its reader must
    know, in a line.
    """

    arrivals: Arrivals
    events: Sequence[tuple[float, Change[Node] | Change[Pod]]] = ()
    note: str = ""


def kinds_of(arrivals: Iterable[Arrival]) -> Kinds:
    """The kinds of some arrivals."""
    return Counter(arrival.like for arrival in arrivals)


def requested(kinds: Kinds) -> Resources:
    """What pods request together, by resource."""
    return total(
        {name: amount * number for name, amount in pod_requests(pod).items()} for pod, number in kinds.items()
    )


def capacity(nodes: Iterable[Node]) -> Resources:
    """What nodes have together, by resource."""
    return total(amounts(node.status.allocatable) for node in nodes)


def main_resource(asked: Mapping[str, int], there: Mapping[str, int]) -> str:
    """The resource that is scarcest: of which the pods request most, compared with what there is.

    Extended resources, such as GPUs, come first: a cluster is bought for them. QuestionError when the nodes
    have nothing.
    """
    extended = [name for name, amount in there.items() if "/" in name and amount and asked.get(name)]
    names = extended or [name for name in ("cpu", "memory") if there.get(name)]
    if not names:
        raise QuestionError("the nodes have nothing that these pods request")
    return max(names, key=lambda name: asked.get(name, 0) / there[name])


def inflated(
    arrivals: Iterable[Arrival], nodes: Iterable[Node], factor: float, random: Random
) -> list[Arrival]:
    """A workload that asks for `factor` times what the cluster has of its main resource.

    QuestionError when the factor is too large, or the pods don't ask for that resource at all.
    Pods drawn at random are added to those of the trace, all are shuffled, they arrive one after the other,
    a second apart, and none of them ends.
    Source: workload inflation in "Beware of Fragmentation" (USENIX ATC'23), section 6.1
    """
    if not factor <= MAX_FACTOR:  # not a number, too
        raise CommandLineError(f"--inflate {factor:g}: must be {MAX_FACTOR} at most")
    arrivals = [*arrivals]
    wanted, there = requested(kinds_of(arrivals)), capacity(nodes)
    name = main_resource(wanted, there)
    if not (asked := wanted.get(name, 0)):
        raise QuestionError(f"--inflate: the pods request no {name}, so they never fill the nodes")
    most = factor * there[name]
    pods = [(arrival.name, arrival.like) for arrival in arrivals]
    for number in count(1):
        drawn = random.choice(arrivals)
        asked += pod_requests(drawn.like).get(name, 0)
        if asked > most:
            break
        pods.append((f"{drawn.name}-again-{number}", drawn.like))
    random.shuffle(pods)
    return [Arrival(float(at), name, like) for at, (name, like) in enumerate(pods)]
