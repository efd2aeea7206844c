"""Shares GPUs among pods: what all policies of this folder have in common.

A pod says by annotations how many GPUs it wants, and how many thousandths of each; only a pod with one GPU
may want less than 1,000. It also requests the sum, so that a node with too little is ruled out as for any
resource. Which GPUs a pod got is written to it with its binding.

Names, and which GPU is taken, are those of "Beware of Fragmentation" (USENIX ATC'23) and its simulator,
github.com/hkust-adsl/kubernetes-scheduler-simulator.
"""

from typing import NamedTuple

MILLI, COUNT, INDEX = (f"alibabacloud.com/gpu-{each}" for each in ("milli", "count", "index"))
WHOLE = 1000


class Room(NamedTuple):
    """A node's state: its free cpu, in thousandths; what is free of each GPU; the kinds of its pods."""

    cpu: int
    gpus: tuple[int, ...]
    kinds: frozenset[str]


def wanted(pod):
    """How many GPUs a pod wants, and how many thousandths of each."""
    annotations = pod.annotations
    return int(annotations.get(COUNT, 0)), int(annotations.get(MILLI, 0))


def kind(pod):
    """A pod's kind: how many whole GPUs it has, or a share of one; "" without a GPU."""
    count, milli = wanted(pod)
    return "" if not count else "share" if milli < WHOLE else f"{count} GPUs"


def sign(pod):
    return pod.requests["cpu"], wanted(pod)


def state(node):
    free = [WHOLE] * node.allocatable[COUNT]
    for pod in node.pods:
        for index in pod.annotations.get(INDEX, "").split("-"):
            if index:
                free[int(index)] -= wanted(pod)[1]
    return Room(node.free["cpu"], tuple(free), frozenset(map(kind, node.pods)) - {""})


def filter(pod, node):
    count, milli = wanted(pod)
    if sum(free >= milli for free in node.state.gpus) < count:
        return "node(s) didn't have enough free GPUs"
    return True


def queueing_hint(pod, change, about):
    """Only a pod that leaves its node, or a node that comes or changes, can help."""
    return change != "pod added"


def taken(pod, gpus):
    """The indexes of the GPUs that a pod takes: those with the least room."""
    count, milli = wanted(pod)
    fitting = [index for index, free in enumerate(gpus) if free >= milli]
    return sorted(fitting, key=lambda index: gpus[index])[:count]


def left(gpus, indexes, milli):
    """What is free of each GPU when a pod has taken so much of these."""
    return tuple(free - milli if index in indexes else free for index, free in enumerate(gpus))


def annotate(pod, node):
    return {INDEX: "-".join(map(str, taken(pod, node.state.gpus)))} if wanted(pod)[0] else {}


def normalize(pod, scores):
    """Of the best nodes, the first by name: so an experiment has the same result each time."""
    most = max(scores.values())
    best = min(name for name, score in scores.items() if score == most)
    for name in scores:
        scores[name] = 100 if name == best else 0
