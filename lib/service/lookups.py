"""Looks up what pods need, and makes it part of the cache."""

from lib.kube.errors import AnswerError, ForbiddenError
from lib.kube.listers import Listers
from lib.kube.objects import ControllerRef, LabelSelector, PodDisruptionBudget
from lib.scheduling.cache import Cache
from lib.scheduling.needs import Needs
from lib.scheduling.pod_groups import Group
from lib.scheduling.workloads import Workloads
from lib.service.telemetry.report import Report


def look_up(needs: Needs, listers: Listers, cache: Cache, report: Report) -> None:
    """Look up what pods need, and no more; what is found becomes part of the cache."""
    if needs.namespaces:
        found = report.readable(listers.namespaces())
        cache.namespaces = {each.metadata.name: each.metadata.labels for each in found}
    if needs.budgets:
        cache.budgets = _budgets(listers, report)
    cache.workloads = _workloads(needs, listers, report)
    sizes = {(each.namespace, each.name): _min_member(listers, each) for each in needs.pod_groups}
    cache.group_sizes = {group: size for group, size in sizes.items() if size is not None}


def _budgets(listers: Listers, report: Report) -> list[PodDisruptionBudget] | None:
    """The disruption budgets; None if they may not be seen, and so could not be held."""
    try:
        return report.readable(listers.budgets())
    except ForbiddenError as error:
        report.without("preemption", error)
        return None


def _min_member(listers: Listers, group: Group) -> int | str | None:
    """How many pods a PodGroup needs, or why that isn't known: that is to hold up no pod of another."""
    try:
        return listers.min_member(group.namespace, group.name)
    except (ForbiddenError, AnswerError) as error:
        return f"PodGroup {group.name} can't be read: {error}"


def _workloads(needs: Needs, listers: Listers, report: Report) -> Workloads:
    """The services and controllers of pods; none, if whoever kubectl proxy speaks for may not see them."""
    selectors: dict[ControllerRef, LabelSelector] = {}
    try:
        services = report.readable(listers.services(needs.services))
        for each in needs.controllers:
            if selector := listers.selector_of(each):
                selectors[each] = selector
    except ForbiddenError as error:
        report.without("spreading pods that belong together", error)
        return Workloads()
    return Workloads(services, selectors)
