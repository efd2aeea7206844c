"""Looks up what pods need."""

from collections.abc import Iterable
from dataclasses import replace
from math import inf
from typing import TypeVar

from lib.kube.decoding import Listing
from lib.kube.errors import ApiError, ForbiddenError
from lib.kube.lookup import ALL, PENDING, PendingError
from lib.kube.objects import NodeMetrics, Pod
from lib.kube.source import ClusterSource
from lib.scheduling.looked_up import Load, LookedUp
from lib.scheduling.needs import Needs
from lib.scheduling.workloads import Workloads
from lib.service.telemetry.report import Report

SPREADING = "spreading pods that belong together"

T = TypeVar("T")


def look_up(needs: Needs, source: ClusterSource, before: LookedUp, report: Report, until: float) -> LookedUp:
    """Look up what pods need, and no more. before: what was looked up the last time.

    A failed lookup is the error of the pods that need it. until: when to stop waiting for
    answers; an answer that hasn't come then is pending for them, or has failed if that is infinity. poller
    goes on without what it may not read. UnreachableError when the API server isn't there.
    """
    listers = source.listers
    listers.namespaces.begin([ALL] if needs.namespaces else [])
    listers.budgets.begin([ALL] if needs.budgets else [])
    listers.services.begin(needs.services)
    listers.selectors.begin(needs.controllers)
    listers.group_sizes.begin(needs.pod_groups)
    load = before.load
    now = listers.system.monotonic()
    if needs.load:
        listers.node_metrics.begin([ALL] if load.is_old(now) else [])
    listers.wait(until)

    blocked = _Blocked(report, may_wait=until < inf)
    namespaces = before.namespaces
    if needs.namespaces:
        listed = blocked.unless(listers.namespaces.of(ALL), needs.namespaces, "namespaces")
        if listed is not None:
            namespaces = {each.metadata.name: each.metadata.labels for each in report.readable(listed)}
    services, selectors, group_sizes = [], {}, {}
    for namespace, pods in needs.services.items():
        what, found = f"services of namespace {namespace}", listers.services.of(namespace)
        if (of_namespace := blocked.unless(found, pods, what, SPREADING)) is not None:
            services += report.readable(of_namespace)
    for controller, pods in needs.controllers.items():
        what = f"{controller.kind} {controller.namespace}/{controller.name}"
        if selector := blocked.unless(listers.selectors.of(controller), pods, what, SPREADING):
            selectors[controller] = selector
    for group, pods in needs.pod_groups.items():
        what = f"PodGroup {group.namespace}/{group.name}"
        size = blocked.unless(listers.group_sizes.of(group), pods, what)
        if size is not None:
            group_sizes[group] = size
    if needs.load and load.is_old(now):
        load = _newest(load, listers.node_metrics.of(ALL), now, report)
    if source.storage.is_pending:
        blocked.block(needs.storage, "claims and volumes", PENDING)
    if source.devices.is_pending:
        blocked.block(needs.devices, "resource claims and devices", PENDING)
    return replace(
        # Who can't preempt must not fail for an error of the last lookup.
        _with_budgets(before, source, report) if needs.budgets else replace(before, budgets_error=""),
        namespaces=namespaces,
        workloads=Workloads(services, selectors),
        group_sizes=group_sizes,
        load=load,
        storage_unseen=source.storage.unseen,
        devices_unseen=source.devices.unseen,
        errors=blocked.errors,
        pending=blocked.pending,
    )


def _with_budgets(before: LookedUp, source: ClusterSource, report: Report) -> LookedUp:
    """The disruption budgets. No pod waits for them: one that fits needs no preemption."""
    found = source.listers.budgets.of(ALL)
    if isinstance(found, ForbiddenError):
        report.without("preemption", found)
        return replace(before, budgets=None, budgets_error="")
    if isinstance(found, ApiError):
        return replace(before, budgets_error=_why_not("disruption budgets", found))
    unread = {name.partition("/")[0] for name in found.malformed}
    return replace(before, budgets=report.readable(found), budgets_error="", budgets_unread=unread)


def _newest(load: Load, found: Listing[NodeMetrics] | ApiError, now: float, report: Report) -> Load:
    """The load with what was found. No pod waits for it: the plugin knows what to do without."""
    if isinstance(found, PendingError):
        return load
    if isinstance(found, ApiError):
        report.without("what nodes use (ActualLoad)", found)
        return load.read_in_vain(now)
    return load.with_more(report.readable(found), now)


class _Blocked:
    """The pods that can't be tried, by uid, and why: `errors`, or `pending` answers.

    may_wait: whether they can be tried again when an answer has come.
    """

    def __init__(self, report: Report, *, may_wait: bool) -> None:
        self.errors: dict[str, str] = {}
        self.pending: dict[str, str] = {}
        self._report, self._may_wait = report, may_wait

    def unless(self, found: T | ApiError, pods: Iterable[Pod], what: str, without: str = "") -> T | None:
        """What was found. If it wasn't, None, and the pods that need it are blocked.

        without: what poller goes on without if it may not read this; "" if it can't.
        """
        if not isinstance(found, ApiError):
            return found
        if without and isinstance(found, ForbiddenError):
            self._report.without(without, found)
        else:
            self.block(pods, what, found)
        return None

    def block(self, pods: Iterable[Pod], what: str, error: ApiError) -> None:
        """Let pods wait: a lookup that they need has failed, or hasn't ended yet."""
        is_pending = isinstance(error, PendingError) and self._may_wait
        waiting = self.pending if is_pending else self.errors
        for pod in pods:
            waiting.setdefault(pod.metadata.uid, _why_not(what, error))


def _why_not(what: str, error: ApiError) -> str:
    """The reason of a pod that has to wait for what is looked up."""
    return f"{what}: {error}" if isinstance(error, PendingError) else f"{what} can't be looked up: {error}"
