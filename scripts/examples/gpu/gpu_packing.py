"""GpuPacking: first GPUs that are used, then free ones of a node that is used, then a node that is free."""

from gpu_share import WHOLE, annotate, filter, normalize, queueing_hint, sign, state, taken, wanted

__all__ = ["annotate", "filter", "normalize", "queueing_hint", "score", "sign", "state"]


def score(pod, node):
    if not wanted(pod)[0]:
        return 0
    gpus = node.state.gpus
    if all(free == WHOLE for free in gpus):
        return 33 - len(gpus)
    room = [gpus[index] for index in taken(pod, gpus)]
    if opened := room.count(WHOLE):
        return max(50 - opened, 33)
    return 100 - sum(room) // 100
