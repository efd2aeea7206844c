"""BestFit: the node on which the least is left of cpu and of GPUs, as shares of the largest node's."""

from gpu_share import annotate, filter, normalize, queueing_hint, sign, state, wanted

__all__ = ["annotate", "filter", "normalize", "queueing_hint", "score", "sign", "state"]

MOST_CPU, MOST_GPU = 128_000, 8_000


def score(pod, node):
    count, milli = wanted(pod)
    cpu = (node.state.cpu - pod.requests["cpu"]) / MOST_CPU
    gpu = (sum(node.state.gpus) - count * milli) / MOST_GPU
    return int(100 * (1 - (cpu + gpu) / 2))
