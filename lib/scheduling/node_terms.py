"""Terms of node affinity, compiled so that only the few terms are looked at that may match a node.

Source: component-helpers/scheduling/corev1/nodeaffinity
"""

from collections import Counter
from collections.abc import Hashable, Iterable

from lib.kube.label_syntax import problems_of_term
from lib.kube.matcher import Index, Matcher
from lib.kube.objects import NodeSelectorTerm, Requirement
from lib.scheduling.node_info import NodeInfo
from lib.scheduling.pod_limits import Comparisons

FEW = 8
"""To match so many terms with each node is faster than to find out which nodes are alike."""

FIELD = "{} (field)"
"""The key of a node's field, when it stands among the node's labels. No label has such a key."""


class NodeTerms:
    """Terms with weights. Equal terms become one with the sum of their weights.

    The results are kept for nodes that are alike, as they have the same values of the labels that terms read.
    """

    def __init__(self, terms: Iterable[tuple[NodeSelectorTerm, int]]) -> None:
        weights = Counter[Matcher]()
        self._read_fields = False
        for term, weight in terms:
            is_empty = not (term.match_expressions or term.match_fields)
            if is_empty or problems_of_term(term):  # it matches no node
                continue
            weights[_matcher_of(term)] += weight
            self._read_fields = self._read_fields or bool(term.match_fields)
        self._index = Index[int]()
        for matcher, weight in weights.items():
            self._index.add(matcher, matcher, weight)
        self._few = len(weights) <= FEW
        self._keys = frozenset(key for term in weights if not self._few for key in term.keys)
        self._known: dict[Hashable, tuple[bool, int]] = {}
        """The results, by what is read of the labels."""
        self._comparisons = Comparisons()

    def match(self, node: NodeInfo) -> bool:
        """Whether one of the terms matches a node."""
        return self._match(node)[0]

    def weight_of(self, node: NodeInfo) -> int:
        """The sum of the weights of the terms that match a node."""
        return self._match(node)[1]

    def _match(self, node: NodeInfo) -> tuple[bool, int]:
        """Whether a term matches, and the sum of the weights of those that do."""
        labels = node.labels
        if self._read_fields:
            labels = {**labels, FIELD.format("metadata.name"): node.name}
        if self._few:
            weights = self._index.matching(labels)
            return bool(weights), sum(weights)
        kind = frozenset([(key, value) for key, value in labels.items() if key in self._keys])
        if kind not in self._known:
            self._comparisons.add(self._index.count(labels))
            weights = self._index.matching(labels)
            self._known[kind] = bool(weights), sum(weights)
        return self._known[kind]


def _matcher_of(term: NodeSelectorTerm) -> Matcher:
    fields = (
        Requirement(FIELD.format(expression.key), expression.operator, expression.values)
        for expression in term.match_fields
    )
    return Matcher({}, (*term.match_expressions, *fields))
