"""What would have helped at some moments of a time that is over: when most pods waited, for example.

What is found to help at one moment is tried at the others, too.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import accumulate, chain
from typing import Any

from lib.kube.objects import Pod
from lib.questions.deciding import Decider, node_of
from lib.questions.pending import placed_with
from lib.questions.suggestions import NODES_LOOKED_AT, Suggestion, suggest
from lib.questions.waits import cause_of

MOST_TRIED = 4
"""So many changes are tried with the pods that waited at a moment."""

MANY_NODES = 2000
"""With more nodes, the longest wait isn't asked about: a moment takes a second."""

BEST = 2
"""So many changes that help at a moment are tried at the others."""

MOST_MOMENTS = 3
MOST, LONGEST, END = "most pods waited", "the longest wait was half over", "the end"
"""What the moments are."""


@dataclass(frozen=True)
class Span:
    """A wait of a pod, from the time on that is asked about. ended: infinity if it goes on."""

    began: float
    ended: float
    pod: Pod


@dataclass
class Moment:
    """A moment, and what would have helped then.

    what: what the moment is. waited: how many pods did. tried: the first of these, with which changes are
    tried. helped: by the words for a change, how many of these pods would have had a node with it.
    """

    at: float
    what: list[str]
    waited: int = 0
    tried: Sequence[Pod] = ()
    helped: dict[str, int] = field(default_factory=dict)
    decider: Decider = field(init=False, repr=False)
    found: list[tuple[Suggestion, Pod]] = field(default_factory=list, repr=False)
    """The best of the changes, each with the pod that it was looked for."""
    helps: list[dict[str, Any]] = field(default_factory=list)
    """Those that were looked for at this moment, for JSON."""

    def ask(self, spans: Sequence[Span], most: int, decider: Decider) -> None:
        """Look for what would have helped against the most frequent cause.

        most: so many pods are tried. decider: with the cluster as it was at this moment.
        """
        waiting = [span.pod for span in spans if span.began <= self.at < span.ended]
        alike: dict[str, list[Pod]] = {}
        for pod in waiting[:most]:
            decision = decider.check(pod)
            if (gated := decider.gated(pod)) or not node_of(decision):
                alike.setdefault(gated or cause_of(decision, decider.cache), []).append(pod)
        self.waited, self.tried, self.decider = len(waiting), [*chain(*alike.values())], decider
        if not alike:
            return
        first = max(alike.values(), key=len)[0]
        found = suggest(decider.ask(first), decider, NODES_LOOKED_AT // MOST_MOMENTS)[:MOST_TRIED]
        self.helped = {
            suggestion.words: placed_with(suggestion, first, self.tried, decider) for suggestion in found
        }
        found.sort(key=lambda suggestion: -self.helped[suggestion.words])
        self.helps = [
            {
                "changes": [fix.words for fix in suggestion.fixes],
                "pods_with_a_node": self.helped[suggestion.words],
            }
            for suggestion in found
        ]
        self.found = [(suggestion, first) for suggestion in found[:BEST] if self.helped[suggestion.words]]

    def try_those_of(self, other: "Moment") -> None:
        """Try what would have helped at another moment. What it changes may not be there at this one."""
        for suggestion, first in other.found:
            nodes = {node.metadata.name for fix in suggestion.fixes for node in fix.nodes}
            is_there = (nodes & other.decider.cache.nodes.keys()) <= self.decider.cache.nodes.keys() and all(
                map(self.decider.cache.node_of, suggestion.removed)
            )
            if suggestion.words not in self.helped:
                many = placed_with(suggestion, first, self.tried, self.decider) if is_there else 0
                self.helped[suggestion.words] = many

    def as_json(self, time: str | None) -> dict[str, Any]:
        """All of it."""
        return {
            "at": time,
            "is": self.what,
            "waited": self.waited,
            "tried": len(self.tried),
            "would_have_helped": self.helped,
        }


def moments_of(spans: Sequence[Span], until: float, nodes: int) -> list[Moment]:
    """When to ask what would have helped, by time."""
    if not spans:
        return []
    steps = sorted([*((span.began, 1) for span in spans), *((span.ended, -1) for span in spans)])
    counts = [*accumulate(step for _, step in steps)]
    longest = max(spans, key=lambda span: min(span.ended, until) - span.began)
    found = {
        MOST: steps[counts.index(max(counts))][0],
        **({LONGEST: (longest.began + min(longest.ended, until)) / 2} if nodes <= MANY_NODES else {}),
        **({END: until} if any(span.ended > until for span in spans) else {}),
    }
    return [
        Moment(at, [what for what, its_time in found.items() if its_time == at])
        for at in sorted({*found.values()})
    ]
