"""The fullest node that still has room first, so that empty nodes stay empty and can be switched off.

    python poller.py --plugin scripts/examples/bin_packing.py

kube-scheduler's own way is the opposite, to spread load; the weight is larger than all that speaks for that.
"""

WEIGHT = 10


def score(pod, node):
    shares = [
        node.requested.get(resource, 0) / node.allocatable[resource]
        for resource in ("cpu", "memory")
        if node.allocatable.get(resource)
    ]
    return round(100 * min(max(shares, default=0), 1))
