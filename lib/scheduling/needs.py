"""What must be looked up, besides nodes and pods, before some pods can be scheduled."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from lib.kube.objects import ControllerRef, Pod, PodGroupRef
from lib.kube.resource_claims import may_need_devices
from lib.kube.storage import needs_storage
from lib.scheduling.affinity import terms_of
from lib.scheduling.affinity_counts import existing_pods_terms
from lib.scheduling.cache import Cache
from lib.scheduling.framework.interface import Profile
from lib.scheduling.plugins.actual_load import ActualLoad
from lib.scheduling.plugins.pod_topology_spread import PodTopologySpread
from lib.scheduling.pod_groups import group_of
from lib.scheduling.workloads import controller_of


@dataclass(frozen=True)
class Needs:
    """What some pods need; each part with the pods that need it.

    namespaces: the labels of all namespaces. budgets: whether disruption budgets are needed. services: by
    namespace, its services. controllers: their selectors. pod_groups: the groups with a PodGroup.
    storage: claims and volumes. devices: resource claims and devices. load: whether what nodes use is needed.
    """

    namespaces: Sequence[Pod]
    budgets: bool
    services: Mapping[str, Sequence[Pod]]
    controllers: Mapping[ControllerRef, Sequence[Pod]]
    pod_groups: Mapping[PodGroupRef, Sequence[Pod]]
    storage: Sequence[Pod]
    devices: Sequence[Pod]
    load: bool


def needs_of(pods: Sequence[Pod], cache: Cache, profiles: Iterable[Profile]) -> Needs:
    """What these pods need, and no more. profiles: of all schedulers that they name."""
    profiles = list(profiles)
    spreading = {each.scheduler_name for each in profiles if _spreads_by_default(each)}
    by_load = {each.scheduler_name for each in profiles if ActualLoad.name in each.weights}
    services, controllers = defaultdict[str, list[Pod]](list), defaultdict[ControllerRef, list[Pod]](list)
    pod_groups = defaultdict[PodGroupRef, list[Pod]](list)
    for pod in pods:
        if pod.spec.scheduler_name in spreading and not pod.spec.topology_spread_constraints:
            services[pod.metadata.namespace].append(pod)
            if controller := controller_of(pod):
                controllers[controller].append(pod)
        if (group := group_of(pod)) and group.api:
            pod_groups[group].append(pod)
    lowest = cache.lowest_priority
    may_preempt = lowest is not None and any(
        pod.spec.priority > lowest and pod.spec.preemption_policy != "Never" for pod in pods
    )
    everyone = existing_pods_terms(cache).read_namespaces  # an assigned pod's affinity selects by label
    return Needs(
        namespaces=[pod for pod in pods if everyone or terms_of(pod).look_at_namespaces],
        budgets=may_preempt,
        services=services,
        controllers=controllers,
        pod_groups=pod_groups,
        storage=[pod for pod in pods if needs_storage(pod)],
        devices=[pod for pod in pods if may_need_devices(pod)],
        load=bool(by_load) and any(pod.spec.scheduler_name in by_load for pod in pods),
    )


def _spreads_by_default(profile: Profile) -> bool:
    """Whether the default spread constraints need a pod's services and controller."""
    return any(
        each.when_unsatisfiable == "DoNotSchedule" or plugin.name in profile.weights
        for plugin in profile.plugins
        if isinstance(plugin, PodTopologySpread)
        for each in plugin.default_constraints
    )
