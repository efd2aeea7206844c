"""Looks up what pods need, and puts it into the cache."""

from collections.abc import Iterable

from lib.kube.errors import ApiError, ForbiddenError, UnreachableError
from lib.kube.listers import Listers
from lib.kube.objects import ControllerRef, LabelSelector, Pod, Service
from lib.scheduling.cache import Cache
from lib.scheduling.needs import Needs
from lib.scheduling.workloads import Workloads
from lib.service.telemetry.report import Report

SPREADING = "spreading pods that belong together"


def look_up(needs: Needs, listers: Listers, cache: Cache, report: Report) -> None:
    """Look up what pods need, and no more, and put it into the cache.

    The reason of a failed lookup goes there, too: the pods that need it wait, others don't. poller goes on
    without what it has no right to read. UnreachableError when the API server isn't there.
    """
    cache.lookup_errors = {}
    if needs.namespaces:
        _look_up_namespaces(needs, listers, cache, report)
    if needs.budgets:
        _look_up_budgets(listers, cache, report)
    cache.workloads = Workloads(
        _services(needs, listers, cache, report), _selectors(needs, listers, cache, report)
    )
    _look_up_group_sizes(needs, listers, cache)


def _look_up_namespaces(needs: Needs, listers: Listers, cache: Cache, report: Report) -> None:
    try:
        found = report.readable(listers.namespaces())
    except UnreachableError:
        raise
    except ApiError as error:
        _hold_back(needs.namespaces, _why_not("namespaces", error), cache)
    else:
        cache.namespaces = {each.metadata.name: each.metadata.labels for each in found}


def _look_up_budgets(listers: Listers, cache: Cache, report: Report) -> None:
    cache.budgets_error = ""
    try:
        found = listers.budgets()
        cache.budgets = report.readable(found)
        cache.budgets_unread = {name.partition("/")[0] for name in found.malformed}
    except UnreachableError:
        raise
    except ForbiddenError as error:
        report.without("preemption", error)
        cache.budgets = None
    except ApiError as error:
        cache.budgets_error = _why_not("disruption budgets", error)


def _services(needs: Needs, listers: Listers, cache: Cache, report: Report) -> list[Service]:
    services: list[Service] = []
    for namespace, found in listers.services(needs.services).items():
        if isinstance(found, ForbiddenError):
            report.without(SPREADING, found)
        elif isinstance(found, ApiError):
            reason = _why_not(f"services of namespace {namespace}", found)
            _hold_back(needs.services[namespace], reason, cache)
        else:
            services += report.readable(found)
    return services


def _selectors(
    needs: Needs, listers: Listers, cache: Cache, report: Report
) -> dict[ControllerRef, LabelSelector]:
    selectors: dict[ControllerRef, LabelSelector] = {}
    for controller, found in listers.selectors_of(needs.controllers).items():
        if isinstance(found, ForbiddenError):
            report.without(SPREADING, found)
        elif isinstance(found, ApiError):
            reason = _why_not(f"{controller.kind} {controller.namespace}/{controller.name}", found)
            _hold_back(needs.controllers[controller], reason, cache)
        elif found:
            selectors[controller] = found
    return selectors


def _look_up_group_sizes(needs: Needs, listers: Listers, cache: Cache) -> None:
    pods = {(each.namespace, each.name): members for each, members in needs.pod_groups.items()}
    cache.group_sizes = {}
    for (namespace, name), found in listers.min_members(pods).items():
        if isinstance(found, ApiError):
            _hold_back(pods[namespace, name], _why_not(f"PodGroup {namespace}/{name}", found), cache)
        elif found is not None:
            cache.group_sizes[namespace, name] = found


def _why_not(what: str, error: ApiError) -> str:
    return f"{what} can't be looked up: {error}"


def _hold_back(pods: Iterable[Pod], reason: str, cache: Cache) -> None:
    """Let pods wait: a lookup that they need has failed."""
    for pod in pods:
        cache.lookup_errors.setdefault(pod.metadata.uid, reason)
