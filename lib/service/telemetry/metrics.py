"""Metrics, with the same names, labels and buckets as kube-scheduler's.

Source: pkg/scheduler/metrics/metrics.go, and component-base/metrics/prometheus/restclient/metrics.go
"""

import threading
from collections.abc import Callable, Mapping
from functools import partial
from itertools import accumulate, repeat
from operator import mul

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    GCCollector,
    Histogram,
    PlatformCollector,
    ProcessCollector,
    disable_created_metrics,
)

from lib.kube.changes import AnyChange
from lib.kube.system import MACHINE, System
from lib.scheduling.cache import Cache
from lib.scheduling.decision import Decision, Outcome
from lib.scheduling.framework.runtime import ERROR, SCHEDULING_CYCLE, SUCCESS, Record
from lib.scheduling.hints import event_of
from lib.scheduling.pod_life import Phase
from lib.scheduling.queue import SchedulingQueue
from lib.scheduling.queueing_hints import Hinted
from lib.service.telemetry import features
from lib.service.telemetry.collectors import Durations, Evaluations, PodsOfCluster
from lib.service.telemetry.health import Health
from lib.service.telemetry.observer import Observer
from lib.version import full_version

MOST_ATTEMPTS = 15
"""A pod that was bound after so many attempts or more has the label "15+"."""

PENDING = (Phase.ACTIVE.value, Phase.BACKOFF.value, Phase.UNSCHEDULABLE.value)
"""Parts of the queue whose pods are pending. kube-scheduler has no part for pods that wait for Permit."""

FEW_HELD = 100
"""So many pods that waited for Permit, and have gone, may be remembered."""


def _growing(first: float, count: int, factor: float = 2) -> list[float]:
    """Bounds of buckets, each so many times the one before, rounded as in Go."""
    return [*accumulate(repeat(factor, count - 1), mul, initial=first)]


class Metrics(Observer):
    """All metrics, in their own registry. Each call is also progress for the health checks."""

    def __init__(self, health: Health, system: System = MACHINE) -> None:
        super().__init__(system)
        self._health = health
        self.registry = CollectorRegistry(auto_describe=True)  # so ?name[]= finds all
        disable_created_metrics()  # type: ignore[no-untyped-call]  # Go's have none
        for collector in (ProcessCollector, PlatformCollector, GCCollector):
            collector(registry=self.registry)
        self.pods: PodsOfCluster = list
        self._held: dict[str, float] = {}  # by uid: since when a pod waits for Permit
        self._standing: set[tuple[str, str]] = set()  # (plugin, profile) that ever rejected pods
        self._tick_began = 0.0
        self._counter = partial(Counter, registry=self.registry)
        self._gauge = partial(Gauge, registry=self.registry)
        self._histogram = partial(Histogram, registry=self.registry)
        self._make_for_attempts()
        self._make_for_plugins()
        self._make_for_the_queue()
        self._make_for_requests()
        self._make_our_own()

    # --- which metrics there are ------------------------------------------------------------------------

    def _make_for_attempts(self) -> None:
        self._attempts = self._counter(
            "scheduler_schedule_attempts_total",
            "Attempts to schedule pods, by how they ended.",
            ["result", "profile"],
        )
        self._attempt_seconds = self._histogram(
            "scheduler_scheduling_attempt_duration_seconds",
            "How long an attempt to schedule a pod took, its binding included.",
            ["result", "profile"],
            buckets=_growing(0.001, 15),
        )
        self._algorithm_seconds = self._histogram(
            "scheduler_scheduling_algorithm_duration_seconds",
            "How long it took to decide on a pod.",
            buckets=_growing(0.001, 15),
        )
        self._sli_seconds = self._histogram(
            "scheduler_pod_scheduling_sli_duration_seconds",
            "How long a pod that was bound had been in the queue, over all attempts.",
            ["attempts"],
            buckets=_growing(0.01, 20),
        )
        self._pod_attempts = self._histogram(
            "scheduler_pod_scheduling_attempts",
            "How many attempts it took to bind a pod.",
            buckets=_growing(1, 5),
        )
        self._after_flush = self._counter(
            "scheduler_pod_scheduled_after_flush_total",
            "Pods that were bound when they were tried only because the last try was long ago. Many of them "
            "show that queueing hints miss changes.",
        )

    def _make_for_plugins(self) -> None:
        self._point_seconds = Durations(
            "scheduler_framework_extension_point_duration_seconds",
            "How long all plugins of an extension point took, for all nodes of a pod's cycle.",
            ["extension_point", "status", "profile"],
            _growing(0.0001, 12),
        )
        self._event_seconds = Durations(
            "scheduler_event_handling_duration_seconds",
            "How long it took to apply a change to the cache and the queue.",
            ["event"],
            _growing(0.0001, 12),
        )
        self._hint_seconds = Durations(
            "scheduler_queueing_hint_execution_duration_seconds",
            "How long a plugin took to say whether a change could help a pod that it rejected.",
            ["plugin", "event", "hint"],
            _growing(0.00001, 20, factor=1.5),
        )
        self._evaluations = Evaluations()
        for collector in (self._point_seconds, self._event_seconds, self._hint_seconds, self._evaluations):
            self.registry.register(collector)
        self._permit_seconds = self._histogram(
            "scheduler_permit_wait_duration_seconds",
            "How long a pod whose node was held waited for Permit plugins.",
            ["result"],
            buckets=_growing(0.001, 15),
        )
        self._preemptions = self._counter(
            "scheduler_preemption_attempts_total",
            "Attempts to make room for a pod by preemption.",
        )
        self._victims = self._histogram(
            "scheduler_preemption_victims",
            "How many pods were to be evicted for another.",
            buckets=_growing(1, 7),
        )

    def _make_for_the_queue(self) -> None:
        self._incoming = self._counter(
            "scheduler_queue_incoming_pods_total",
            "Pods that came to be in a part of the queue, by what had happened.",
            ["queue", "event"],
        )
        self._pending = self._gauge(
            "scheduler_pending_pods",
            "Pods that wait: active and backoff; unschedulable, tried in vain; gated, not to be tried yet.",
            ["queue"],
        )
        self._unschedulable = self._gauge(
            "scheduler_unschedulable_pods",
            "Pods that were tried in vain or are gated, by each plugin that stands in the way.",
            ["plugin", "profile"],
        )
        self._cache = self._gauge(
            "scheduler_cache_size",
            "Nodes, pods on them, and of these pods that are not seen there yet, as poller's cache has them.",
            ["type"],
        )

    def _make_for_requests(self) -> None:
        self._requests = self._counter(
            "rest_client_requests_total",
            "Requests to the API server, by the code of the answer.",
            ["code", "method", "host"],
        )
        self._request_seconds = self._histogram(
            "rest_client_request_duration_seconds",
            "How long requests to the API server took.",
            ["verb", "host"],
            buckets=[0.005, 0.025, 0.1, 0.25, 0.5, 1, 2, 4, 8, 15, 30, 60],
        )

    def _make_our_own(self) -> None:
        build = self._gauge("poller_build_info", "1, with poller's version and commit.", ["version"])
        build.labels(full_version()).set(1)
        features.add_to(self.registry)
        self._ticks = self._counter("poller_ticks_total", "Ticks of the loop.", ["result"])
        self._tick_seconds = self._histogram(
            "poller_tick_duration_seconds",
            "How long a tick of the loop took.",
            buckets=_growing(0.001, 17),
        )
        self._retries = self._counter("poller_retries_total", "Requests made once more.")
        self._failed_writes = self._counter(
            "poller_failed_writes_total", "Writes that failed for good.", ["write"]
        )
        self._dropped_events = self._counter(
            "poller_dropped_events_total",
            "Events of bound pods that were dropped, as too many waited to be written.",
        )

    # --- requests ---------------------------------------------------------------------------------------

    def answered(self, method: str, host: str, code: int | None, seconds: float) -> None:
        """Count a request. A read by the loop's thread counts as progress."""
        super().answered(method, host, code, seconds)
        self._health.last_answer = self.last_answer
        if method == "GET" and threading.current_thread() is threading.main_thread():
            self._health.moves()
        self._requests.labels(code or "<error>", method, host).inc()
        self._request_seconds.labels(method, host).observe(seconds)

    def retried(self) -> None:
        """Count a retry."""
        self._retries.inc()

    # --- pods -------------------------------------------------------------------------------------------

    def record_for(self, profile: str) -> Record:
        """A function that records the time of each extension point of a profile."""

        def record(point: str, status: str, seconds: float) -> None:
            self._health.moves()
            if point == SCHEDULING_CYCLE:
                self._algorithm_seconds.observe(seconds)
            else:
                self._point_seconds.observe((point, status, profile), seconds)
            if point == "PostFilter":
                self._preemptions.inc()

        return record

    def shows(self, pods: PodsOfCluster, leads: Callable[[], bool]) -> None:
        """Show the requests and limits of pods, as long as we lead."""
        self.pods = lambda: pods() if leads() else []

    def elects(self, lease: str, leads: Callable[[], bool]) -> None:
        """Add the metric of the leader."""
        leading = self._gauge(
            "leader_election_master_status", "Whether this poller leads: 1, or 0.", ["name"]
        )
        leading.labels(lease).set_function(leads)

    @property
    def hinted(self) -> Hinted:
        """Counts a queueing hint."""
        return lambda plugin, event, hint, seconds: self._hint_seconds.observe((plugin, event, hint), seconds)

    def evaluates(self, profile: str, evaluations: Mapping[str, Mapping[str, int]]) -> None:
        """Show how often the plugins of a profile are asked."""
        self._evaluations.of[profile] = evaluations

    def handled(self, change: AnyChange, seconds: float) -> None:
        """Count a change."""
        self._event_seconds.observe((event_of(change),), seconds)

    def queued(self, where: str, event: str) -> None:
        """Count a pod that enters a part of the queue."""
        self._incoming.labels(where, event).inc()

    def decided(self, decision: Decision) -> None:
        """Count an attempt without a node, and its preemption victims."""
        if decision.outcome == Outcome.SCHEDULED and not self._held:
            return
        uid = decision.pod.metadata.uid
        if decision.nominated and decision.preempted:
            self._victims.observe(len(decision.preempted))
        if decision.outcome == Outcome.WAITING:
            self._held.setdefault(uid, decision.ended)
        elif since := self._held.pop(uid, None):
            how = SUCCESS if decision.outcome == Outcome.SCHEDULED else "Unschedulable"
            self._permit_seconds.labels(how).observe(decision.ended - since)
        if decision.outcome in (Outcome.UNSCHEDULABLE, Outcome.ERROR):
            self._count_attempt(decision, decision.outcome.value)

    def finished(self, decision: Decision, *, bound: bool) -> None:
        """Count a pod that was bound, or an attempt whose binding failed."""
        self._health.moves()
        if decision.binding:
            labels = "Bind", SUCCESS if bound else ERROR, decision.pod.spec.scheduler_name
            self._point_seconds.observe(labels, decision.binding)
        if not bound:
            self._count_attempt(decision, Outcome.ERROR.value)
            return
        self._count_attempt(decision, Outcome.SCHEDULED.value)
        self._pod_attempts.observe(decision.attempt)
        if decision.flushed:
            self._after_flush.inc()
        attempts = str(decision.attempt) if decision.attempt < MOST_ATTEMPTS else f"{MOST_ATTEMPTS}+"
        self._sli_seconds.labels(attempts).observe(decision.ended - decision.queued)

    def _count_attempt(self, decision: Decision, result: str) -> None:
        labels = result, decision.pod.spec.scheduler_name
        self._attempts.labels(*labels).inc()
        self._attempt_seconds.labels(*labels).observe(decision.seconds)

    def write_failed(self, write: str) -> None:
        """Count a write that failed for good."""
        self._failed_writes.labels(write).inc()

    def event_dropped(self) -> None:
        """Count an event that was dropped."""
        self._dropped_events.inc()

    # --- the loop ---------------------------------------------------------------------------------------

    def idle_for(self, seconds: float) -> None:
        """No progress is due for so many seconds."""
        self._health.idle_for(seconds)

    def tick_began(self) -> None:
        """Start the tick's timer."""
        self._health.moves()
        self._tick_began = self.system.monotonic()

    def probes(self, probe: Callable[[], object]) -> None:
        """/readyz calls it when the API server hasn't answered for a while."""
        self._health.probe = probe

    def synced(self, queue: SchedulingQueue, cache: Cache) -> None:
        """Update the gauges."""
        self._health.reached()
        self._take_stock(queue, cache)

    def tick_ended(self, queue: SchedulingQueue, cache: Cache) -> None:
        """Count a tick, and update the gauges."""
        self._take_stock(queue, cache)
        if len(self._held) > 2 * queue.counts()["waiting"] + FEW_HELD:  # most of them have gone
            self._held = {uid: since for uid, since in self._held.items() if uid in queue}
        self._end_tick("success")

    def tick_failed(self, error: Exception) -> None:
        """Count a failed tick."""
        self._health.failed(error)
        self._end_tick("error")

    def _end_tick(self, result: str) -> None:
        self._health.moves()
        self._ticks.labels(result).inc()
        self._tick_seconds.observe(self.system.monotonic() - self._tick_began)

    def _take_stock(self, queue: SchedulingQueue, cache: Cache) -> None:
        counts = queue.counts()
        for where in PENDING:
            self._pending.labels(where).set(counts[where])
        self._pending.labels("gated").set(queue.gated())
        by_plugin = queue.unschedulable_by_plugin()
        self._standing |= by_plugin.keys()
        for plugin, profile in self._standing:
            self._unschedulable.labels(plugin, profile).set(by_plugin[plugin, profile])
        for kind, count in cache.counts().items():
            self._cache.labels(kind).set(count)
