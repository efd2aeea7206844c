"""Writes the results for pods into the cluster: events, conditions, nominations, evictions.

Source: pkg/scheduler/schedule_one.go, handleSchedulingFailure; client-go's tools/record
"""

import time
from collections.abc import Collection
from datetime import UTC, datetime
from math import inf

from lib.kube.writer import Writer
from lib.scheduling.cache import Cache
from lib.scheduling.decision import Decision
from lib.service.binding_cycle import MAX_BATCH_SECONDS, Completed
from lib.service.failure_records import FailureRecorder
from lib.service.scheduled_events import ScheduledEvents
from lib.service.telemetry.report import Report
from lib.service.write_gate import WriteGate

MAX_FLUSH_SECONDS = 2.0
"""A tick waits no longer than this for these writes, so that they don't delay bindings."""

SHORT_FLUSH_SECONDS = 0.1
"""With --watch a tick costs little, and the next one may bind a pod whose victims have left."""


class Recorder:
    """Collects the writes for pods, and makes them at `flush`.

    workers: the most writes in flight. max_seconds: how long a flush may take. short_flushes: whether it
    takes SHORT_FLUSH_SECONDS for pods that were not scheduled. dry_run: write nothing.
    """

    def __init__(
        self,
        writer: Writer,
        cache: Cache,
        report: Report,
        gate: WriteGate,
        *,
        workers: int,
        max_seconds: float,
        short_flushes: bool,
        dry_run: bool,
    ) -> None:
        self._writer, self._gate = writer, gate
        self._events = ScheduledEvents(writer, report, gate, workers)
        self._failures = FailureRecorder(writer, cache, report, gate, workers)
        self._max_seconds = max_seconds
        self._failed_seconds = SHORT_FLUSH_SECONDS if short_flushes else max_seconds
        self._dry_run = dry_run
        self._write_at = 0.0  # in time.monotonic's seconds

    # --- collecting writes ------------------------------------------------------------------------------

    def scheduled(self, decision: Decision) -> None:
        """A pod was bound: collect its event."""
        self._events.add(decision.pod, decision.message, _now())

    def failed_scheduling(self, decision: Decision, *, may_be_bound: bool = False) -> None:
        """A pod was not scheduled: collect a condition and an event with the reason, and its evictions.

        may_be_bound: write them only if the pod hasn't changed, that is, if it isn't bound.
        """
        if not self._dry_run:
            self._failures.add(decision, _now(), may_be_bound=may_be_bound)

    def nominated(self, decision: Decision) -> None:
        """A pod waits, with a node reserved: collect its nomination, by which others know of the node.

        Source: bindingCycle in pkg/scheduler/schedule_one.go
        """
        is_written = decision.pod.status.nominated_node_name == decision.node_name
        if not (self._dry_run or is_written or decision.waits_for_pre_bind):  # PreBind's writes begin with it
            self._failures.nominate(decision, decision.node_name or "")

    def is_preempting(self, uid: str) -> bool:
        """Whether victims of a pod are still to be evicted."""
        return self._failures.is_preempting(uid)

    @property
    def is_writing(self) -> bool:
        """Whether requests are in flight, or are about to be sent."""
        return self._failures.is_writing

    # --- writing ----------------------------------------------------------------------------------------

    def written(self, unassigned: Collection[str]) -> list[Completed]:
        """Begin the writes for pods that were not scheduled, without waiting.

        Takes and returns what `flush` does. Most calls do nothing: see MAX_BATCH_SECONDS.
        """
        if self._gate.closed or time.monotonic() < self._write_at or not self._failures:
            return []
        self._failures.start(unassigned)
        self._failures.run(until=0)
        self._write_at = time.monotonic() + MAX_BATCH_SECONDS
        return list(self._failures.settled())

    def flush(self, unassigned: Collection[str]) -> list[Completed]:
        """Make the writes, and wait for them, but not too long: the next flush goes on.

        unassigned: the uids of the pods in the queue. Writes for other pods are outdated, and are dropped.
        Returns the pods that must be tried again: a write failed because the API server wasn't there, or a
        victim could not be evicted. Events of bound pods stay true: they are kept and written later.
        During shutdown only these events are written; the next run does the rest.
        """
        if self._gate.impatient:
            return []
        until = time.monotonic() + self._max_seconds
        self._writer.forget_all_but(unassigned)
        self._failures.start(unassigned)
        self._failures.run(until=0)
        self._events.write(until)
        self._failures.run(min(until, time.monotonic() + self._failed_seconds))
        return list(self._failures.settled())

    def close(self) -> None:
        """Write the remaining events of bound pods, however long that takes, and finish what was begun."""
        if not (self._gate.error or self._gate.impatient):
            self._events.write(inf)
            self._failures.run(time.monotonic() + MAX_FLUSH_SECONDS)


def _now() -> datetime:
    return datetime.now(UTC).replace(microsecond=0)
