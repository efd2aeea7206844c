"""Faults in poller itself that show only when several things go wrong one after the other."""

from dataclasses import replace
from math import inf
from typing import Any
from unittest.mock import patch

from lib.kube import pod_writes
from lib.kube.errors import ApiError, NotFoundError
from lib.kube.objects import Pod
from lib.kube.source import ClusterSource
from lib.kube.write import Request, Write
from lib.scheduling.cache import Cache
from lib.scheduling.devices import pod_devices
from lib.scheduling.disruption_budgets import DisruptionsLeft
from lib.scheduling.pod_life import PodLives, pod_key
from lib.service.follow_up import FollowUp
from lib.service.writes import records, writes
from lib.service.writes.records import Record, Records
from lib.service.writes.writes import Writes

from .more_mutations import Mutation, Patches


def _budget_not_charged() -> Patches:
    """All preemptors of a tick use the same budget."""
    real = DisruptionsLeft.of

    def of(self: DisruptionsLeft, budgets: Any, leaving: Any) -> Any:
        return real(self, budgets, {})

    yield patch.object(DisruptionsLeft, "of", of)


def _pod_made_again_taken_for_the_old_one() -> Patches:
    """A pod is looked up by its name alone."""

    def look_up(pod: Pod) -> Write[Pod | None]:
        try:
            now: Pod = yield Request("GET", pod_writes._path(pod), Pod)
        except NotFoundError:
            return None
        return now

    yield patch.object(pod_writes, "look_up", look_up)
    yield patch.object(writes, "look_up", look_up)


def _condition_written_on_a_bound_pod() -> Patches:
    """That a pod is not scheduled is written though it may be bound."""
    real = pod_writes.mark_unscheduled

    def mark_unscheduled(*given: Any) -> Write[None]:
        return real(*given[:5])  # without the version that it must have

    yield patch.object(records, "mark_unscheduled", mark_unscheduled)


def _group_goes_on_without_a_member() -> Patches:
    """One of a group's pods that are held is deleted, and the others keep their nodes."""
    yield patch.object(FollowUp, "_free_group", lambda *_: None)


def _bound_pods_never_looked_up() -> Patches:
    """A pod that was bound, and that nothing shows on its node, keeps its room there for ever."""
    real = PodLives.bound

    def bound(self: PodLives, key: str, now: float) -> None:
        real(self, key, inf)

    yield patch.object(PodLives, "bound", bound)


def _taken_pods_not_counted() -> Patches:
    """A pod that somebody else has bound counts on its node only when a list or a watch shows it there."""
    real = FollowUp.taken

    def taken(self: FollowUp, pod: Pod, _now: Pod | None) -> None:
        real(self, pod, None)

    yield patch.object(FollowUp, "taken", taken)


def _failed_evictions_awaited() -> Patches:
    """A pod waits for its victims to leave, also if they couldn't be evicted."""

    def after_write(self: Records, record: Record) -> None:
        del self.begun[pod_key(record.decision.pod)]

    yield patch.object(Records, "_after_write", after_write)


def _event_lost_in_an_outage() -> Patches:
    """An event that couldn't be written at once, as nobody listened, is not written later."""

    def write_event(self: Writes, pod: Pod, message: str, when: Any) -> Write[None]:
        step = next(pod_writes.record(pod, "Scheduled", message, when))
        assert isinstance(step, Request)
        try:
            yield replace(step, repeatable=False)
        except ApiError as error:
            self.report.failed(pod, "event", error)

    yield patch.object(Writes, "_write_event", write_event)


# --- namespaces, extended resources -----------------------------------------------------------------------


def _other_namespaces_served() -> Patches:
    """Pods are placed whatever their namespace."""

    def is_ours(self: ClusterSource, pod: Pod) -> bool:
        return pod.spec.scheduler_name in self._scheduler_names and not pod.spec.node_name

    yield patch.object(ClusterSource, "_is_ours", is_ours)


def _pods_of_other_namespaces_evicted() -> Patches:
    yield patch.object(Cache, "may_evict", lambda *_: True)


def _extended_resources_without_devices() -> Patches:
    """A pod is placed where a DeviceClass would serve what it requests, and gets no device."""
    yield patch.object(pod_devices, "needed_of_devices", lambda *_: set())


RARE_MUTATIONS: dict[str, Mutation] = {
    name.strip("_").replace("_", "-"): made
    for name, made in globals().copy().items()
    if name.startswith("_") and getattr(made, "__annotations__", {}).get("return") is Patches
}
