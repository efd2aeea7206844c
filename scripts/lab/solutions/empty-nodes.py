"""The fullest node that has room; never a quiet one."""

WEIGHT = 100


def filter(pod, node):
    if node.labels.get("example.com/quiet") == "true":
        return "node(s) were quiet"
    return True


def score(pod, node):
    return round(100 * node.requested.get("cpu", 0) / node.allocatable["cpu"])
