"""FGD: the node, and the GPU, where a pod makes the least of the GPUs useless for typical pods.

A GPU's free part is a fragment for a pod that can't use it: it wants more of one GPU, or more cpu than the
node has left. `fragments` is the mean over typical pods, weighted by how frequent they are.

Source: "Beware of Fragmentation" (USENIX ATC'23), sections 3 and 4
"""

from bisect import bisect_right
from collections import Counter
from functools import cache
from math import exp

from gpu_share import INDEX, WHOLE, filter, left, normalize, queueing_hint, sign, state, taken, wanted

__all__ = ["annotate", "filter", "normalize", "prepare", "queueing_hint", "score", "sign", "state"]

POPULAR = 0.95  # typical pods are the most frequent kinds, which are this share of all pods

typical = {}  # by how many GPUs, and how much of each: how frequent, by cpu
steps = []  # the amounts of cpu that typical pods want


def prepare(pods):
    """Find the typical pods among all."""
    counted = Counter((wanted(pod), pod.requests["cpu"]) for pod in pods)
    total, seen = counted.total(), 0
    found = []
    for each, number in counted.most_common():
        if seen >= POPULAR * total:
            break
        found.append((each, number))
        seen += number
    typical.clear()
    for (gpus, cpu), number in found:
        typical.setdefault(gpus, Counter())[cpu] += number / seen
    steps[:] = sorted({cpu for (_, cpu), _ in found})
    shares.cache_clear()
    useful.cache_clear()
    fragments.cache_clear()


@cache
def shares(step):
    """For each kind of GPUs: how frequent those pods are that want no more than so many steps of cpu."""
    return [sum(each[cpu] for cpu in steps[:step]) for each in typical.values()]


@cache
def useful(gpus):
    """For each kind of GPUs that typical pods want: how much of these GPUs they could use, given the cpu."""
    return [
        sum(free for free in gpus if free >= milli)
        if count and sum(free >= milli for free in gpus) >= count
        else 0
        for count, milli in typical
    ]


@cache
def fragments(step, gpus):
    """How much of these free GPUs typical pods can't use, in thousandths of a GPU. gpus: sorted."""
    return sum(gpus) - sum(share * usable for share, usable in zip(shares(step), useful(gpus), strict=False))


def fragments_on(cpu, gpus):
    """The same for a node."""
    return fragments(bisect_right(steps, cpu), tuple(sorted(gpus)))


def best(pod, room):
    """The best score of a node, and the GPUs that give it."""
    count, milli = wanted(pod)
    choices = [taken(pod, room.gpus)]
    if count == 1 and milli < WHOLE:
        choices = [[index] for index, free in enumerate(room.gpus) if free >= milli]
    before, cpu = fragments_on(room.cpu, room.gpus), room.cpu - pod.requests["cpu"]
    grown = [fragments_on(cpu, left(room.gpus, each, milli)) - before for each in choices]
    least = min(range(len(choices)), key=grown.__getitem__)
    return int(100 / (1 + exp(grown[least] / WHOLE))), choices[least]


def score(pod, node):
    return best(pod, node.state)[0]


def annotate(pod, node):
    return {INDEX: "-".join(map(str, best(pod, node.state)[1]))} if wanted(pod)[0] else {}
