"""The fullest node with enough room is best, so that empty nodes stay empty and can be switched off.

    .venv/bin/python poller.py --plugin scripts/examples/bin_packing.py

By default, kube-scheduler does the opposite: it spreads the load. The weight here is larger than the sum of
the weights of all plugins that spread pods.
"""

WEIGHT = 10


def score(pod, node):
    used = [
        (node.requested[resource] + pod.requests[resource]) / node.allocatable[resource]
        for resource in ("cpu", "memory")
        if node.allocatable[resource]
    ]
    return round(100 * min(max(used, default=0), 1))
