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
"""Used if a pod waits for its PodGroup of Kubernetes, or for the other pods of that, to be created: in
kube-scheduler, the PreEnqueue plugin of this name holds the pod."""

UNKNOWN_SIZE = "PodGroupSize"
"""Used if it isn't known how many pods the group needs."""

FOR_ITS_GROUP = frozenset([REJECTING, HOLDING, UNKNOWN_SIZE])
"""All names that are used because of a pod's group."""


def group_of(pod: Pod) -> PodGroupRef | None:
    """The group of a pod; None if it has none."""
    labels, reference = pod.metadata.labels, pod.spec.scheduling_group
    if name := labels.get(GROUP):
        return PodGroupRef(pod.metadata.namespace, name)
    if name := labels.get(POD_GROUP):
        return PodGroupRef(pod.metadata.namespace, name, COSCHEDULING)
    if reference and reference.pod_group_name:
        return PodGroupRef(pod.metadata.namespace, reference.pod_group_name, KUBERNETES)
    return None
