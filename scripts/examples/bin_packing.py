"""The fullest node that still has room goes first, so that empty nodes stay empty and can be switched off.

    .venv/bin/python poller.py --plugin scripts/examples/bin_packing.py

kube-scheduler by default does the opposite: it spreads the load. The weight here is larger than that of all
the plugins that spread together.
"""

WEIGHT = 10


def score(pod, node):
    used = [
        (node.requested[resource] + pod.requests[resource]) / node.allocatable[resource]
        for resource in ("cpu", "memory")
        if node.allocatable[resource]
    ]
    return round(100 * min(max(used, default=0), 1))
