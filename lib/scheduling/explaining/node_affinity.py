"""Which labels a node lacks, or has with other values than a pod wants."""

from functools import partial

from lib.kube.objects import Pod
from lib.scheduling import edits
from lib.scheduling.cache import Cache
from lib.scheduling.explaining.term_texts import label_said, term_text, why_no_match
from lib.scheduling.framework.interface import Lines, Rejected, Remedies, Remedy
from lib.scheduling.node_info import NodeInfo
from lib.scheduling.plugins.node_affinity import ENFORCED, required_selector, required_terms
from lib.scheduling.status import CycleState, Status
from lib.scheduling.text import labels_text, requirement_text
from lib.scheduling.workloads import belongs_to_node


class NodeAffinityExplainer:
    """Explains NodeAffinity."""

    name = "NodeAffinity"

    def explain(self, state: CycleState, pod: Pod, cache: Cache, node: NodeInfo, status: Status) -> Lines:
        """The labels that the node lacks or has with other values."""
        if status.reasons == ENFORCED.reasons:
            yield "the scheduler's configuration requires other nodes (addedAffinity)"
            return
        for key, value in pod.spec.node_selector.items():
            if node.labels.get(key) != value:
                yield f"nodeSelector {key}={value}: {label_said(node, key)}"
        required = required_selector(pod.spec.affinity.node_affinity)
        if required is None or required_terms(pod).match(node):
            return
        if not required.node_selector_terms:
            yield "required node affinity has no terms, and so matches no node"
        for term in required.node_selector_terms:
            why_not = why_no_match(term, node)
            yield f"node affinity {term_text(term)}: {why_not}"

    def remedies(self, state: CycleState, pod: Pod, cache: Cache, rejected: Rejected) -> Remedies:
        """Leave out a part of the nodeSelector or of the required affinity."""
        for key, value in pod.spec.node_selector.items():
            words = f"without nodeSelector {labels_text({key: value})}"
            patch = {"spec": {"nodeSelector": {key: None}}}
            yield Remedy(words, partial(edits.patched, patch=patch))
        required = required_selector(pod.spec.affinity.node_affinity)
        if not required or belongs_to_node(pod):
            return
        beside_others = dict.fromkeys(
            expression
            for term in required.node_selector_terms
            if len(term.match_expressions) + len(term.match_fields) > 1
            for expression in term.match_expressions
        )
        for expression in beside_others:
            words = f"without {requirement_text(expression)} in its node affinity"
            yield Remedy(words, partial(edits.without_expression, expression=expression))
        edit = partial(edits.with_required_nodes, required=None)
        yield Remedy("without its required node affinity", edit)
