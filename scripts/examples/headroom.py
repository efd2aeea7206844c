"""A fifth of each node stays free, for pods that need more than they request.

    .venv/bin/python poller.py --plugin scripts/examples/headroom.py

`node.free` and `pod.requests` have the same units: cpu in thousandths of a core, memory in bytes.
"""

SHARE = 0.2


def filter(pod, node):
    for resource in ("cpu", "memory"):
        left = node.free[resource] - pod.requests[resource]
        if left < SHARE * node.allocatable[resource]:
            return f"node(s) would have less than {SHARE:.0%} of their {resource} free"
    return True
