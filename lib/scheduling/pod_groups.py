"""Groups of pods: which group a pod is of.

| what names it | what says how many pods it needs |
| --- | --- |
| the label `poller/group` | the pods' annotation `poller/group-size`: all of them |
| the label of the coscheduling plugin | `minMember` of a PodGroup (scheduling.x-k8s.io) |
| `spec.schedulingGroup` | the policy of a PodGroup of Kubernetes (scheduling.k8s.io) |

Counterparts: pkg/coscheduling in sigs.k8s.io/scheduler-plugins; plugins/gangscheduling in kube-scheduler
"""

from lib.kube.objects import COSCHEDULING, KUBERNETES, Pod, PodGroupRef

GROUP, POD_GROUP = "poller/group", "scheduling.x-k8s.io/pod-group"
"""Labels of pods."""

REJECTING = "PodGroup"
"""Used instead of a plugin's name if a pod waits for other pods of its group to be placed, or to come."""

HOLDING = "GangScheduling"
"""The same if Kubernetes' PodGroup, or its pods, are to come: kube-scheduler's PreEnqueue plugin holds it."""

UNKNOWN_SIZE = "PodGroupSize"
"""The same if how many pods the group needs isn't known."""

FOR_ITS_GROUP = frozenset([REJECTING, HOLDING, UNKNOWN_SIZE])


def group_of(pod: Pod) -> PodGroupRef | None:
    """The group of a pod; None if it has none."""
    labels, named = pod.metadata.labels, pod.spec.scheduling_group
    if name := labels.get(GROUP):
        return PodGroupRef(pod.metadata.namespace, name)
    if name := labels.get(POD_GROUP):
        return PodGroupRef(pod.metadata.namespace, name, COSCHEDULING)
    if named and named.pod_group_name:
        return PodGroupRef(pod.metadata.namespace, named.pod_group_name, KUBERNETES)
    return None
