"""BestFit: the node on which the least is left of cpu and of GPUs."""

GPU = "alibabacloud.com/gpu-milli"


def score(pod, node):
    cpu = (node.free["cpu"] - pod.requests["cpu"]) / 128_000
    gpu = (node.free.get(GPU, 0) - pod.requests.get(GPU, 0)) / 8_000
    return round(100 * (1 - (cpu + gpu) / 2))
