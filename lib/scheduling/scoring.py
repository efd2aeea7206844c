"""The scores of the nodes that fit a pod, and the node that is picked by them."""

from collections.abc import Sequence
from random import Random

from lib.scheduling.node_slice import NodeSlice
from lib.scheduling.status import MAX_NODE_SCORE


class Scores:
    """The scores of feasible nodes. A node is known by its position among these."""

    def __init__(self, nodes: NodeSlice, totals: list[int]) -> None:
        self._nodes = nodes
        self.totals = totals
        """The nodes' sums of scores. A score that is equal for all nodes may be missing in them."""
        self._by_plugin: dict[str, tuple[Sequence[int], int, bool]] = {}
        """Each plugin's scores, their weight, and whether there is one for each node of the cluster."""

    def add(self, name: str, scores: Sequence[int], weight: int = 1) -> None:
        """Add the scores of a plugin or an extender."""
        self.totals = [total + score * weight for total, score in zip(self.totals, scores, strict=True)]
        self._by_plugin[name] = scores, weight, False

    def add_equal(self, name: str, score: int, weight: int) -> None:
        """Add a score that all nodes have."""
        self._by_plugin[name] = (score,) * len(self.totals), weight, False

    def note(self, name: str, scores: list[int], weight: int) -> None:
        """Add scores that are part of the totals already. scores: one for each node of the cluster."""
        self._by_plugin[name] = scores, weight, True

    def of(self, i: int) -> dict[str, int]:
        """A node's weighted scores, by plugin."""
        of_all = self._nodes.index_at(i)
        return {
            name: scores[of_all if is_of_all else i] * weight
            for name, (scores, weight, is_of_all) in self._by_plugin.items()
        }

    def best_two(self, random: Random) -> list[int]:
        """The picked node, and the best one after it, if there is another.

        The node with the highest total is picked. If several nodes have it, one of them is picked at random.
        """
        totals = self.totals
        best, *others = sorted({*totals}, reverse=True)  # most nodes have one of a few totals
        as_good = totals.count(best)
        pick = random.randrange(as_good)
        if others:  # else all are equally good, as the nodes of an empty cluster often are
            pick = _position(totals, best, pick)
        if as_good > 1:
            first = totals.index(best)
            return [pick, first if first < pick else totals.index(best, pick + 1)]
        return [pick, totals.index(others[0])] if others else [pick]


def _position(values: Sequence[int], wanted: int, before: int) -> int:
    """The position of a value that may occur several times. before: how many of these to leave out."""
    at = -1
    for _ in range(before + 1):
        at = values.index(wanted, at + 1)
    return at


def normalize_to_largest(scores: dict[str, int], *, reverse: bool = False) -> None:
    """The largest becomes 100, the others in proportion. With `reverse`, it becomes 0, and 0 becomes 100.

    Source: pkg/scheduler/framework/plugins/helper/normalize_score.go
    """
    largest = max(scores.values(), default=0)
    for node, score in scores.items():
        share = MAX_NODE_SCORE * score // largest if largest else 0
        scores[node] = MAX_NODE_SCORE - share if reverse else share
