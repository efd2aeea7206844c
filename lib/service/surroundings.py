"""What the plugins ask of a cluster beyond its nodes and pods: namespaces, and what pods belong to."""

from collections.abc import Mapping, Sequence

from lib.kube.errors import AnswerError, ForbiddenError
from lib.kube.objects import LabelSelector, Pod, PodDisruptionBudget
from lib.kube.source import ClusterSource
from lib.scheduling.affinity import terms_of
from lib.scheduling.cache import Cache
from lib.scheduling.framework.interface import Profile
from lib.scheduling.plugins.pod_topology_spread import PodTopologySpread
from lib.scheduling.pod_groups import POD_GROUP, Group, group_of
from lib.scheduling.scheduling_cycle import Scheduler
from lib.scheduling.workloads import Workloads, controller_of
from lib.service.telemetry.report import Report


def look_around(
    source: ClusterSource,
    cache: Cache,
    pods: Sequence[Pod],
    schedulers: Mapping[str, Scheduler],
    report: Report,
) -> None:
    """Ask for what is needed to place these pods, and for no more, and make it part of the picture."""
    if cache.looks_at_namespaces or any(terms_of(pod).look_at_namespaces for pod in pods):
        found = report.readable(source.namespaces())
        cache.namespaces = {each.metadata.name: each.metadata.labels for each in found}
    if _may_preempt(pods, cache):
        cache.budgets = _budgets(source, report)
    spreading = {name for name, each in schedulers.items() if _spreads_by_default(each.profile)}
    spread = [
        pod
        for pod in pods
        if pod.spec.scheduler_name in spreading and not pod.spec.topology_spread_constraints
    ]
    cache.workloads = _workloads(source, spread, report)
    groups = {group for pod in pods if (group := group_of(pod)) and group.label == POD_GROUP}
    sizes = {(each.namespace, each.name): _min_member(source, each) for each in groups}
    cache.group_sizes = {group: size for group, size in sizes.items() if size is not None}


def _may_preempt(pods: Sequence[Pod], cache: Cache) -> bool:
    """Whether one of the pods is more important than one that has a node."""
    lowest = cache.lowest_priority
    return lowest is not None and any(
        pod.spec.priority > lowest and pod.spec.preemption_policy != "Never" for pod in pods
    )


def _budgets(source: ClusterSource, report: Report) -> list[PodDisruptionBudget] | None:
    """The disruption budgets; None if they may not be seen, and so could not be held."""
    try:
        return report.readable(source.budgets())
    except ForbiddenError as error:
        report.without("preemption", error)
        return None


def _min_member(source: ClusterSource, group: Group) -> int | str | None:
    """How many pods a PodGroup needs, or why that isn't known: that is to hold up no pod of another."""
    try:
        return source.min_member(group.namespace, group.name)
    except (ForbiddenError, AnswerError) as error:
        return f"PodGroup {group.name} can't be read: {error}"


def _spreads_by_default(profile: Profile) -> bool:
    """Whether a pod's service and controller matter where it has no constraints of its own."""
    return any(
        each.when_unsatisfiable == "DoNotSchedule" or plugin.name in profile.weights
        for plugin in profile.plugins
        if isinstance(plugin, PodTopologySpread)
        for each in plugin.default_constraints
    )


def _workloads(source: ClusterSource, pods: Sequence[Pod], report: Report) -> Workloads:
    """The services and controllers of pods; none, if whoever kubectl proxy speaks for may not see them."""
    selectors: dict[str, LabelSelector] = {}
    try:
        services = report.readable(source.services(pod.metadata.namespace for pod in pods))
        for pod in pods:
            owner = controller_of(pod)
            if owner and (selector := source.selector_of(owner, pod.metadata.namespace)):
                selectors[owner.uid] = selector
    except ForbiddenError as error:
        report.without("spreading pods that belong together", error)
        return Workloads()
    return Workloads(services, selectors)
