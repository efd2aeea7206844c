"""GpuClustering: nodes whose pods want as many GPUs as this one, so that kinds of pods don't mix."""

from gpu_share import WHOLE, annotate, filter, kind, normalize, queueing_hint, sign, state

__all__ = ["annotate", "filter", "normalize", "queueing_hint", "score", "sign", "state"]

MOST_GPU = 8 * WHOLE


def score(pod, node):
    own, kinds = kind(pod), node.state.kinds
    if not own:
        return 0
    fullness = 25 * (MOST_GPU - sum(node.state.gpus)) // MOST_GPU
    if own in kinds:
        return fullness + (75 if len(kinds) == 1 else 50)
    return fullness + (0 if kinds else 25)
