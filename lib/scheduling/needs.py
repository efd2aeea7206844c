"""What must be looked up before some pods can be placed, besides nodes and pods."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from lib.kube.objects import ControllerRef, Pod
from lib.scheduling.affinity import terms_of
from lib.scheduling.cache import Cache
from lib.scheduling.framework.interface import Profile
from lib.scheduling.plugins.pod_topology_spread import PodTopologySpread
from lib.scheduling.pod_groups import POD_GROUP, Group, group_of
from lib.scheduling.workloads import controller_of


@dataclass(frozen=True)
class Needs:
    """What some pods need.

    namespaces: the labels of all namespaces. budgets: the disruption budgets. services: the namespaces whose
    services matter. controllers: those whose selectors matter. pod_groups: those whose sizes matter.
    """

    namespaces: bool
    budgets: bool
    services: frozenset[str]
    controllers: frozenset[ControllerRef]
    pod_groups: frozenset[Group]


def needs_of(pods: Sequence[Pod], cache: Cache, profiles: Iterable[Profile]) -> Needs:
    """What these pods need; nothing that could be left out. profiles: of all schedulers that they name."""
    spreading = {each.scheduler_name for each in profiles if _spreads_by_default(each)}
    spread = [
        pod
        for pod in pods
        if pod.spec.scheduler_name in spreading and not pod.spec.topology_spread_constraints
    ]
    groups = (group_of(pod) for pod in pods)
    return Needs(
        namespaces=cache.looks_at_namespaces or any(terms_of(pod).look_at_namespaces for pod in pods),
        budgets=_may_preempt(pods, cache),
        services=frozenset(pod.metadata.namespace for pod in spread),
        controllers=frozenset(found for pod in spread if (found := controller_of(pod))),
        pod_groups=frozenset(group for group in groups if group and group.label == POD_GROUP),
    )


def _may_preempt(pods: Sequence[Pod], cache: Cache) -> bool:
    """Whether one of the pods is more important than one that has a node."""
    lowest = cache.lowest_priority
    return lowest is not None and any(
        pod.spec.priority > lowest and pod.spec.preemption_policy != "Never" for pod in pods
    )


def _spreads_by_default(profile: Profile) -> bool:
    """Whether a pod's service and controller matter where it has no constraints of its own."""
    return any(
        each.when_unsatisfiable == "DoNotSchedule" or plugin.name in profile.weights
        for plugin in profile.plugins
        if isinstance(plugin, PodTopologySpread)
        for each in plugin.default_constraints
    )
