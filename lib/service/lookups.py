"""Looks up what pods need, and puts it into the cache."""

import time
from collections.abc import Iterable, Mapping

from lib.kube.errors import ApiError, ForbiddenError
from lib.kube.listers import Listers
from lib.kube.lookup import ALL, PendingError
from lib.kube.objects import ControllerRef, LabelSelector, Pod, Service
from lib.scheduling.cache import Cache
from lib.scheduling.needs import Needs
from lib.scheduling.workloads import Workloads
from lib.service.telemetry.report import Report

SPREADING = "spreading pods that belong together"


def look_up(needs: Needs, listers: Listers, cache: Cache, report: Report, patience: float) -> dict[str, str]:
    """Look up what pods need, and no more, and put it into the cache. patience: seconds to wait for answers.

    Returns by uid which pods can't be tried now, and why: an answer that they need hasn't come yet. The
    reason of a failed lookup goes into the cache: the pods that need it wait, others don't. poller goes on
    without what it has no right to read. UnreachableError when the API server isn't there.
    """
    listers.namespaces.begin([ALL] if needs.namespaces else [])
    listers.budgets.begin([ALL] if needs.budgets else [])
    listers.services.begin(needs.services)
    listers.selectors.begin(needs.controllers)
    groups = {(each.namespace, each.name): pods for each, pods in needs.pod_groups.items()}
    listers.group_sizes.begin(groups)
    listers.wait(time.monotonic() + patience)
    return _Taking(listers, cache, report).take(needs, groups)


class _Taking:
    """Takes the answers that have come."""

    def __init__(self, listers: Listers, cache: Cache, report: Report) -> None:
        self._listers, self._cache, self._report = listers, cache, report
        self._pending: dict[str, str] = {}  # by uid

    def take(self, needs: Needs, groups: Mapping[tuple[str, str], Iterable[Pod]]) -> dict[str, str]:
        self._cache.lookup_errors = {}
        if needs.namespaces:
            self._take_namespaces(needs.namespaces)
        if needs.budgets:
            self._take_budgets()
        self._cache.workloads = Workloads(self._services(needs.services), self._selectors(needs.controllers))
        self._take_group_sizes(groups)
        return self._pending

    def _take_namespaces(self, pods: Iterable[Pod]) -> None:
        found = self._listers.namespaces.of(ALL)
        if isinstance(found, ApiError):
            self._hold_back(pods, "namespaces", found)
        else:
            readable = self._report.readable(found)
            self._cache.namespaces = {each.metadata.name: each.metadata.labels for each in readable}

    def _take_budgets(self) -> None:
        cache, found = self._cache, self._listers.budgets.of(ALL)
        cache.budgets_error = ""
        if isinstance(found, ForbiddenError):
            self._report.without("preemption", found)
            cache.budgets = None
        elif isinstance(found, ApiError):  # also if it hasn't come yet: a pod that fits needs no preemption
            cache.budgets_error = _why_not("disruption budgets", found)
        else:
            cache.budgets = self._report.readable(found)
            cache.budgets_unread = {name.partition("/")[0] for name in found.malformed}

    def _services(self, needed: Mapping[str, Iterable[Pod]]) -> list[Service]:
        services: list[Service] = []
        for namespace, pods in needed.items():
            found = self._listers.services.of(namespace)
            if isinstance(found, ForbiddenError):
                self._report.without(SPREADING, found)
            elif isinstance(found, ApiError):
                self._hold_back(pods, f"services of namespace {namespace}", found)
            else:
                services += self._report.readable(found)
        return services

    def _selectors(self, needed: Mapping[ControllerRef, Iterable[Pod]]) -> dict[ControllerRef, LabelSelector]:
        selectors: dict[ControllerRef, LabelSelector] = {}
        for controller, pods in needed.items():
            found = self._listers.selectors.of(controller)
            if isinstance(found, ForbiddenError):
                self._report.without(SPREADING, found)
            elif isinstance(found, ApiError):
                self._hold_back(pods, f"{controller.kind} {controller.namespace}/{controller.name}", found)
            elif found:
                selectors[controller] = found
        return selectors

    def _take_group_sizes(self, groups: Mapping[tuple[str, str], Iterable[Pod]]) -> None:
        self._cache.group_sizes = {}
        for group, pods in groups.items():
            found = self._listers.group_sizes.of(group)
            if isinstance(found, ApiError):
                self._hold_back(pods, f"PodGroup {'/'.join(group)}", found)
            elif found is not None:
                self._cache.group_sizes[group] = found

    def _hold_back(self, pods: Iterable[Pod], what: str, error: ApiError) -> None:
        """Let pods wait: a lookup that they need has failed, or hasn't ended yet."""
        waiting = self._pending if isinstance(error, PendingError) else self._cache.lookup_errors
        for pod in pods:
            waiting.setdefault(pod.metadata.uid, _why_not(what, error))


def _why_not(what: str, error: ApiError) -> str:
    """The reason of a pod that has to wait for what is looked up."""
    return f"{what}: {error}" if isinstance(error, PendingError) else f"{what} can't be looked up: {error}"
