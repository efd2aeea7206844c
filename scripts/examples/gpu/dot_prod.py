"""DotProd: the node whose free cpu and GPUs, as a vector, have the smallest product with what the pod wants.

Source: Tetris (SIGCOMM'14), https://dl.acm.org/doi/10.1145/2619239.2626334
"""

from gpu_share import annotate, filter, normalize, queueing_hint, sign, state, wanted

__all__ = ["annotate", "filter", "normalize", "queueing_hint", "score", "sign", "state"]

MOST_CPU, MOST_GPU = 128_000, 8_000


def score(pod, node):
    count, milli = wanted(pod)
    cpu = node.state.cpu / MOST_CPU * pod.requests["cpu"] / MOST_CPU
    gpu = sum(node.state.gpus) / MOST_GPU * count * milli / MOST_GPU
    return int(100 * (1 - (cpu + gpu) / 2))
