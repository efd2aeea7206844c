"""Normalizes scores to the range 0 to 100.

Source: pkg/scheduler/framework/plugins/helper/normalize_score.go
"""

from lib.scheduling.framework.interface import MAX_NODE_SCORE


def normalize_to_largest(scores: dict[str, int], *, reverse: bool = False) -> None:
    """The largest becomes 100, the others in proportion. Reversed: the largest becomes 0, 0 becomes 100."""
    largest = max(scores.values(), default=0)
    for node, score in scores.items():
        share = MAX_NODE_SCORE * score // largest if largest else 0
        scores[node] = MAX_NODE_SCORE - share if reverse else share
