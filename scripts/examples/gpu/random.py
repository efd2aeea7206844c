"""Random: any node that fits, and any GPU of it with enough room."""

from random import choice

import gpu_share
from gpu_share import INDEX, filter, queueing_hint, sign, state, wanted

__all__ = ["annotate", "filter", "queueing_hint", "score", "sign", "state"]


def score(pod, node):
    return 0


def annotate(pod, node):
    count, milli = wanted(pod)
    if count != 1:
        return gpu_share.annotate(pod, node)
    return {INDEX: str(choice([i for i, free in enumerate(node.state.gpus) if free >= milli]))}
