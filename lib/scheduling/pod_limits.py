"""A limit for a pod's decision: the API server accepts pods whose scheduling would take minutes.

kube-scheduler has no such limit. It is faster, but such a pod blocks it, too.
"""

TOO_COMPLEX = "PodLimits"
"""Used instead of a plugin's name for a pod above the limit."""

MAX_COMPARISONS = 2_000_000
"""So many comparisons take about a second."""


class TooComplexError(Exception):
    """A pod's conditions are too many for this cluster."""


class Comparisons:
    """Counts the comparisons of one of a pod's conditions with nodes or pods that differ."""

    def __init__(self) -> None:
        self._count = 0

    def add(self, more: int) -> None:
        """Count some. TooComplexError when they are too many."""
        self._count += more
        if self._count > MAX_COMPARISONS:
            raise TooComplexError(
                f"the pod's conditions take more than {MAX_COMPARISONS} comparisons with the nodes and pods "
                f"of this cluster: it needs fewer terms of node or pod affinity, fewer claims, or fewer "
                f"kinds of resources"
            )
