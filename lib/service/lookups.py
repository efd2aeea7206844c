"""Finds out what pods need besides nodes and pods, and looks it up before they are scheduled."""

from collections import defaultdict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import replace
from math import inf
from typing import Any

from lib.kube import resources
from lib.kube.decoding import Listing
from lib.kube.errors import ApiError, ForbiddenError
from lib.kube.listers import Listers
from lib.kube.lookup import PENDING, PendingError
from lib.kube.objects import NodeMetrics, Pod
from lib.kube.resources import ALL, Need
from lib.kube.source import ClusterSource
from lib.scheduling.cache import Cache
from lib.scheduling.framework.interface import Profile
from lib.scheduling.looked_up import Load, LookedUp
from lib.scheduling.pod_groups import group_of
from lib.scheduling.workloads import Workloads
from lib.service.telemetry.report import Report

Needs = Mapping[Need, Mapping[Hashable, Sequence[Pod]]]
"""What some pods need: by the need, then by the key of what is looked up (see `Listers`), these pods."""


def needs_of(pods: Sequence[Pod], cache: Cache, profiles: Iterable[Profile]) -> Needs:
    """What these pods need, and no more. profiles: of all schedulers that they name."""
    by_name = {profile.scheduler_name: profile for profile in profiles}
    needs: dict[Need, dict[Hashable, list[Pod]]] = defaultdict(lambda: defaultdict(list))
    for pod in pods:
        profile = by_name[pod.spec.scheduler_name]
        for need in profile.plain_needs:
            if need.of(pod):
                needs[need][ALL].append(pod)
        for plugin in profile.needing:
            for need, key in plugin.needed_for(pod, cache, plugin.name in profile.weights):
                needs[need][key].append(pod)
        if (group := group_of(pod)) and group.api:
            needs[resources.GROUP_SIZES][group].append(pod)
    return needs


def look_up(needs: Needs, source: ClusterSource, before: LookedUp, report: Report, until: float) -> LookedUp:
    """Look up what pods need, and no more. before: what was looked up the last time.

    A failed lookup is the error of the pods that need it. until: when to stop waiting for answers. An answer
    that hasn't come by then is pending for these pods; if `until` is infinity, the lookup has failed. poller
    goes on without what it may not read. UnreachableError when the API server isn't there.
    """
    listers, load = source.listers, before.load
    now = listers.system.monotonic()
    load_is_due = resources.LOAD in needs and load.is_old(now)
    listers.begin({need: keys for need, keys in needs.items() if need is not resources.LOAD or load_is_due})
    listers.wait(until)

    answers = _Answers(listers, needs, report, may_wait=until < inf)
    namespaces = before.namespaces
    if listed := answers.of(resources.NAMESPACE_LABELS):
        namespaces = {
            namespace.metadata.name: namespace.metadata.labels for namespace in report.readable(listed[ALL])
        }
    services = [
        service
        for listed in answers.of(resources.OWN_SERVICES).values()
        for service in report.readable(listed)
    ]
    workloads = Workloads(services, answers.of(resources.CONTROLLERS))
    group_sizes = answers.of(resources.GROUP_SIZES)
    if load_is_due:
        load = _newest(load, listers.of(resources.LOAD, ALL), now, report)
    for need, claims in ((resources.VOLUMES, source.storage), (resources.DEVICES, source.devices)):
        if need in needs and claims.is_pending:
            answers.block(need, ALL, PENDING)
    return replace(
        # A pod that can't preempt must not fail because the last lookup of budgets did.
        _with_budgets(before, source, report)
        if resources.PREEMPTION in needs
        else replace(before, budgets_error=""),
        namespaces=namespaces,
        workloads=workloads,
        group_sizes=group_sizes,
        load=load,
        storage_unseen=source.storage.unseen,
        devices_unseen=source.devices.unseen,
        errors=answers.errors,
        pending=answers.pending,
    )


def _with_budgets(before: LookedUp, source: ClusterSource, report: Report) -> LookedUp:
    """The disruption budgets. No pod waits for them: one that fits needs no preemption."""
    found = source.listers.of(resources.PREEMPTION, ALL)
    if isinstance(found, ForbiddenError):
        report.without(resources.PREEMPTION.without, found)
        return replace(before, budgets=None, budgets_error="")
    if isinstance(found, ApiError):
        return replace(before, budgets_error=_why_not(resources.PREEMPTION.called, found))
    unread = {name.partition("/")[0] for name in found.malformed}
    return replace(before, budgets=report.readable(found), budgets_error="", budgets_unread=unread)


def _newest(load: Load, found: Listing[NodeMetrics] | ApiError, now: float, report: Report) -> Load:
    """The load with what was found. No pod waits for it: the plugin knows what to do without."""
    if isinstance(found, PendingError):
        return load
    if isinstance(found, ApiError):
        report.without(resources.LOAD.without, found)
        return load.read_in_vain(now)
    return load.with_more(report.readable(found), now)


class _Answers:
    """What was looked up, and why some pods can't be tried, by uid: `errors`, or `pending` answers.

    may_wait: whether these pods can be tried again when an answer has come.
    """

    def __init__(self, listers: Listers, needs: Needs, report: Report, *, may_wait: bool) -> None:
        self.errors: dict[str, str] = {}
        self.pending: dict[str, str] = {}
        self._listers, self._needs, self._report, self._may_wait = listers, needs, report, may_wait

    def of(self, need: Need) -> Mapping[Any, Any]:
        """What was found, by its key. Pods that need more than that wait, unless poller can do without it."""
        found = {}
        for key in self._needs.get(need, ()):
            answer = self._listers.of(need, key)
            if need.without and isinstance(answer, ForbiddenError):
                self._report.without(need.without, answer)
            elif isinstance(answer, ApiError):
                self.block(need, key, answer)
            elif answer is not None:
                found[key] = answer
        return found

    def block(self, need: Need, key: Hashable, error: ApiError) -> None:
        """Let the pods wait that need this: a lookup has failed, or hasn't ended yet."""
        waiting = self.pending if isinstance(error, PendingError) and self._may_wait else self.errors
        for pod in self._needs[need][key]:
            waiting.setdefault(pod.metadata.uid, _why_not(need.called.format(key), error))


def _why_not(what: str, error: ApiError) -> str:
    """The reason of a pod that has to wait for what is looked up."""
    return f"{what}: {error}" if isinstance(error, PendingError) else f"{what} can't be looked up: {error}"
