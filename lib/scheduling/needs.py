"""What must be looked up, besides nodes and pods, before some pods can be scheduled."""

from collections import defaultdict
from collections.abc import Hashable, Iterable, Mapping, Sequence

from lib.kube import resources
from lib.kube.objects import Pod
from lib.kube.resources import ALL, Need
from lib.scheduling.affinity import terms_of
from lib.scheduling.affinity_counts import existing_pods_terms
from lib.scheduling.cache import Cache
from lib.scheduling.framework.interface import Profile
from lib.scheduling.plugins.actual_load import ActualLoad
from lib.scheduling.plugins.pod_topology_spread import PodTopologySpread
from lib.scheduling.pod_groups import group_of
from lib.scheduling.workloads import controller_of

Needs = Mapping[Need, Mapping[Hashable, Sequence[Pod]]]
"""What some pods need, by its key (see `Listers`), with the pods that need it."""


def needs_of(pods: Sequence[Pod], cache: Cache, profiles: Iterable[Profile]) -> Needs:
    """What these pods need, and no more. profiles: of all schedulers that they name."""
    by_name = {each.scheduler_name: each for each in profiles}
    spreading = {name for name, each in by_name.items() if _spreads_by_default(each)}
    by_load = {name for name, each in by_name.items() if ActualLoad.name in each.weights}
    lowest = cache.lowest_priority
    everyone = existing_pods_terms(cache).read_namespaces  # an assigned pod's affinity selects by label

    needs: dict[Need, dict[Hashable, list[Pod]]] = defaultdict(lambda: defaultdict(list))
    for pod in pods:
        if pod.spec.scheduler_name in spreading and not pod.spec.topology_spread_constraints:
            needs[resources.OWN_SERVICES][pod.metadata.namespace].append(pod)
            if controller := controller_of(pod):
                needs[resources.CONTROLLERS][controller].append(pod)
        if (group := group_of(pod)) and group.api:
            needs[resources.GROUP_SIZES][group].append(pod)
        if lowest is not None and pod.spec.priority > lowest and pod.spec.preemption_policy != "Never":
            needs[resources.PREEMPTION][ALL].append(pod)
        if everyone or terms_of(pod).look_at_namespaces:
            needs[resources.NAMESPACE_LABELS][ALL].append(pod)
        if pod.spec.scheduler_name in by_load:
            needs[resources.LOAD][ALL].append(pod)
        for claims in (resources.VOLUMES, resources.DEVICES):
            if claims.of(pod):
                needs[claims][ALL].append(pod)
    return needs


def _spreads_by_default(profile: Profile) -> bool:
    """Whether the default spread constraints need a pod's services and controller."""
    return any(
        each.when_unsatisfiable == "DoNotSchedule" or plugin.name in profile.weights
        for plugin in profile.plugins
        if isinstance(plugin, PodTopologySpread)
        for each in plugin.default_constraints
    )
