"""The scores of the nodes that fit a pod, and the node that is picked by them."""

import sys
from collections.abc import Callable, Sequence
from random import Random

from lib.scheduling.node_slice import NodeSlice


class Scores:
    """The scores of feasible nodes. A node is known by its position among these.

    totals: to compare nodes; a score that is equal for all nodes may be missing.
    """

    def __init__(self, totals: list[int]) -> None:
        self.totals = totals
        self._by_plugin: dict[str, Callable[[int], int]] = {}  # each returns a node's weighted score

    def add(self, name: str, scores: Sequence[int], weight: int = 1) -> None:
        """Add the scores of a plugin or an extender; a single one if it is equal for all nodes."""
        if len(scores) < len(self.totals):
            self._by_plugin[name] = lambda _: scores[0] * weight
            return
        self.totals = [total + score * weight for total, score in zip(self.totals, scores, strict=True)]
        self._by_plugin[name] = lambda i: scores[i] * weight

    def note(self, name: str, nodes: NodeSlice, scores: list[int], weight: int) -> None:
        """Add scores that are part of the totals already. scores: one for each node of the cluster."""
        self._by_plugin[name] = lambda i: nodes.value_at(scores, i) * weight

    def of(self, i: int) -> dict[str, int]:
        """A node's weighted scores, by plugin."""
        return {name: score(i) for name, score in self._by_plugin.items()}

    def pick(self, random: Random) -> int:
        """The node with the highest total; one of them at random if there are several."""
        best, pick = max(self.totals), -1
        for _ in range(random.randrange(self.totals.count(best)) + 1):
            pick = self.totals.index(best, pick + 1)
        return pick

    def best_two(self, pick: int) -> list[int]:
        """The picked node, and the best one after it, if there is another."""
        if len(self.totals) < 2:
            return [pick]
        picked, self.totals[pick] = self.totals[pick], -sys.maxsize
        runner_up = self.totals.index(max(self.totals))
        self.totals[pick] = picked
        return [pick, runner_up]
