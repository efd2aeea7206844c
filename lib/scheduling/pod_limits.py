"""A limit for a pod's conditions: the API server accepts pods whose scheduling would take minutes.

kube-scheduler has no such limit. It is faster, but such a pod blocks it, too.
"""

from collections.abc import Iterable

from lib.kube.objects import NodeSelectorTerm, Pod, PodAffinity

TOO_COMPLEX = "PodLimits"
"""Used instead of a plugin's name if a pod has too many conditions. Only an update of the pod helps."""

MAX_CONDITIONS = 500
"""With 5,000 nodes and 10,000 pods, a decision with so many conditions takes a few seconds."""

PER_POD_AFFINITY_TERM = 5
"""A pod affinity term counts as so many: it is matched with each pod, and there are more pods than nodes."""

VALUES_PER_CONDITION = 100
"""So many values of an expression count as one more condition."""


def too_complex(pod: Pod) -> str:
    """Why a pod isn't scheduled, if it has too many conditions; else ""."""
    count = conditions(pod)
    if count <= MAX_CONDITIONS:
        return ""
    return (
        f"the pod has {count} conditions on where it runs, and poller looks at {MAX_CONDITIONS}: "
        f"expressions of node affinity, tolerations, spread constraints, and terms of pod affinity, "
        f"which count as {PER_POD_AFFINITY_TERM}"
    )


def conditions(pod: Pod) -> int:
    """The number of a pod's conditions that are checked for each node, or for each pod of the cluster."""
    spec, affinity = pod.spec, pod.spec.affinity
    count = len(spec.tolerations) + len(spec.topology_spread_constraints)
    if nodes := affinity.node_affinity:
        if required := nodes.required_during_scheduling_ignored_during_execution:
            count += _expressions(required.node_selector_terms)
        preferred = nodes.preferred_during_scheduling_ignored_during_execution
        count += _expressions(each.preference for each in preferred)
    pods = (affinity.pod_affinity, affinity.pod_anti_affinity)
    return count + PER_POD_AFFINITY_TERM * sum(_terms(each) for each in pods if each)


def _expressions(terms: Iterable[NodeSelectorTerm]) -> int:
    expressions = [each for term in terms for each in (*term.match_expressions, *term.match_fields)]
    return sum(1 + len(each.values) // VALUES_PER_CONDITION for each in expressions)


def _terms(affinity: PodAffinity) -> int:
    required = affinity.required_during_scheduling_ignored_during_execution
    return len(required) + len(affinity.preferred_during_scheduling_ignored_during_execution)
