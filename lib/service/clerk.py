"""Carries decisions out: writes them to the API server, and reports what came of it."""

import time
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property, partial
from typing import TypeVar

from lib.kube.errors import ApiError, LostAnswerError, NotLeadingError, UnreachableError
from lib.kube.in_flight import InFlight, PendingResponse
from lib.kube.objects import Event, Pod, Status
from lib.kube.writer import BindResult, Writer
from lib.scheduling.cache import Cache
from lib.scheduling.decision import Decision, Outcome
from lib.scheduling.scheduling_cycle import Scheduler
from lib.service.shutdown import Shutdown, Stopped
from lib.service.telemetry.report import Report

WHY_NOT = {Outcome.UNSCHEDULABLE: "Unschedulable", Outcome.ERROR: "SchedulerError"}
"""Reasons of a pod's condition PodScheduled."""

ANNOTATION = "poller/decision"
"""Where a pod says why it is on its node."""

MAX_BATCH_SECONDS = 0.005
"""Seconds after which no more decisions are added to a row: the first of it wait to be sent."""

MOST_THREADS = 16
"""They make what takes several requests, or several tries; more of them get in each other's way."""

Given = TypeVar("Given")
Found = TypeVar("Found")


@dataclass
class PendingWrite:
    """Something to be written of a pod, besides its binding and the event of that."""

    pod: Pod
    what: str
    write: Callable[[], None]


@dataclass
class ScheduledEvent:
    """That a pod was bound, and when; to be written. failed: how an earlier try ended."""

    pod: Pod
    message: str
    when: datetime
    failed: ApiError | None = None


@dataclass
class _Tick:
    """The decisions of a tick, and how far they are carried out.

    row: made, and nothing done about them yet. failed: those whose first try to be bound failed, each with a
    way to wait for what comes of it in the end.
    """

    decisions: Iterator[Decision]
    scheduler_of: Callable[[Pod], Scheduler]
    cache: Cache
    settle: Callable[[Decision, BindResult], None]
    row: deque[Decision] = field(default_factory=deque)
    failed: list[tuple[Decision, Callable[[], BindResult | ApiError]]] = field(default_factory=list)


class Clerk:
    """Writes what was decided, several things at a time; a signal waits for those that are being written.

    workers: how many bindings, or events of bound pods, at the most, and how many decisions are made in a
    row. annotate: say on a pod why it is on its node. dry_run: write nothing, as if all had gone well.

    A write that fails is reported; UnreachableError when nobody is there to write to, or NotLeadingError
    when poller may not write any more, once all that was being written is settled.
    """

    def __init__(
        self,
        writer: Writer,
        report: Report,
        shutdown: Shutdown,
        *,
        workers: int,
        annotate: bool,
        dry_run: bool,
    ) -> None:
        self._dry_run = dry_run
        self._writer = writer
        self._report = report
        self._shutdown = shutdown
        self._workers = workers
        self._annotate = annotate
        self._end: ApiError | None = None
        self._events: deque[ScheduledEvent] = deque()
        self._due: list[list[PendingWrite]] = []  # by pod

    def carry_out(
        self,
        decisions: Iterable[Decision],
        scheduler_of: Callable[[Pod], Scheduler],
        cache: Cache,
        settle: Callable[[Decision, BindResult], None],
    ) -> None:
        """Write all bindings, each soon after it is decided on; then all events.

        `settle` is told of each decision what became of it. Of a binding that failed it hears when all is
        decided: until then the pod keeps its place, as it may be there. A signal ends the deciding at once.
        """
        self._end = None
        with self._shutdown.held():
            try:
                self._bind_all(_Tick(iter(decisions), scheduler_of, cache, settle))
            except Stopped:
                self._write_records(cache)
                raise
            self._write_records(cache)
        if self._end:
            raise self._end

    # --- bindings ---------------------------------------------------------------------------------------

    def _bind_all(self, tick: _Tick) -> None:
        """Have decisions made, a row at a time, and their bindings written."""
        in_flight = InFlight(self._workers, partial(self._answered, tick))
        try:
            while self._decide_some(tick):
                in_flight.poll(until=0)
                self._write_row(tick, in_flight)
        finally:  # whatever ended it, what was decided is settled
            if not self._shutdown.impatient:
                self._write_row(tick, in_flight)
                in_flight.drain()
                for decision, written in tick.failed:
                    self._conclude(tick, decision, written())

    def _decide_some(self, tick: _Tick) -> bool:
        """Have a row of decisions made; whether there was one to be made.

        In a row they take less time: what they need is in the processor's caches.
        """
        with self._shutdown.interruptible():
            until = time.monotonic() + MAX_BATCH_SECONDS
            for decision in tick.decisions:
                tick.row.append(decision)
                if len(tick.row) == self._workers or time.monotonic() > until:
                    break
        return bool(tick.row)

    def _write_row(self, tick: _Tick, in_flight: InFlight[Decision]) -> None:
        """Send a binding as soon as there is room for it on the way."""
        while tick.row:
            in_flight.make_room()
            decision = tick.row.popleft()
            if result := self.run_bind_plugins(decision, tick.scheduler_of(decision.pod), tick.cache):
                self._conclude(tick, decision, result)
            elif self._too_late():
                tick.failed.append((decision, lambda: BindResult.NOT_SENT))
            else:
                in_flight.send(partial(self._begin_binding, decision), decision)

    def _begin_binding(self, decision: Decision) -> PendingResponse[Status]:
        assert decision.node_name
        return self._writer.begin_binding(decision.pod, decision.node_name, self._notes(decision))

    def _answered(self, tick: _Tick, decision: Decision, error: ApiError | None) -> None:
        """Go on after a binding's first try; if it failed, in a thread, as there are waits between tries."""
        if error:
            tick.failed.append((decision, self._pool.submit(self._write_binding, decision, error).result))
        else:
            _take_time(decision)
            self._conclude(tick, decision, BindResult.BOUND)

    def run_bind_plugins(self, decision: Decision, scheduler: Scheduler, cache: Cache) -> BindResult | None:
        """What becomes of a decision without a binding of ours; None if there is to be one."""
        if decision.outcome != Outcome.SCHEDULED:
            return BindResult.STILL_PENDING
        if self._dry_run:
            return BindResult.BOUND
        if self._too_late():
            return None
        bound = scheduler.bind(decision, cache)
        decision.ended = time.monotonic()
        if bound:
            return BindResult.BOUND
        if decision.outcome == Outcome.SCHEDULED:
            return None
        self._report.rejected(decision)
        return BindResult.STILL_PENDING

    def _write_binding(self, decision: Decision, failed: ApiError) -> BindResult | ApiError:
        """Write a binding after a first try has failed; what comes of it, or the last error."""
        assert decision.node_name
        if self._too_late():
            return failed if failed.unsettled else BindResult.NOT_SENT
        try:
            return self._writer.bind(decision.pod, decision.node_name, self._notes(decision), failed)
        except (UnreachableError, NotLeadingError) as error:
            self._end = error
            return error if error.unsettled else BindResult.NOT_SENT
        except ApiError as error:
            return error
        finally:
            _take_time(decision)

    def _notes(self, decision: Decision) -> Mapping[str, str]:
        """What is noted on a pod with its binding."""
        return {ANNOTATION: decision.as_annotation()} if self._annotate else {}

    def _conclude(self, tick: _Tick, decision: Decision, result: BindResult | ApiError) -> None:
        """Tell whom it concerns how a binding went."""
        if isinstance(result, ApiError):
            self._report.not_bound(decision, result)
            result = BindResult.STILL_PENDING
        elif decision.outcome == Outcome.SCHEDULED and result != BindResult.NOT_SENT and not self._dry_run:
            if result == BindResult.BOUND:
                tick.scheduler_of(decision.pod).post_bind(decision)
            self._report.settled(decision, result)
        tick.settle(decision, result)
        self._record(decision, result)

    # --- what is written besides ------------------------------------------------------------------------

    def _record(self, decision: Decision, result: BindResult) -> None:
        """Take down what is to be written of a pod: an event, and why it has no node."""
        if self._dry_run:
            return
        now = datetime.now(UTC).replace(microsecond=0)
        pod, message, writer = decision.pod, decision.message, self._writer
        if result == BindResult.BOUND:
            self._events.append(ScheduledEvent(pod, message, now))
            return
        due = []
        if reason := WHY_NOT.get(decision.outcome):
            mark = partial(writer.mark_unscheduled, pod, reason, message, now)
            due.append(PendingWrite(pod, "condition", mark))
            due.append(PendingWrite(pod, "event", partial(writer.record_failed, pod, message, now)))
        if decision.nominated:
            where = decision.nominated
            due.append(PendingWrite(pod, "nomination", partial(writer.nominate, pod, where)))
            due += [
                PendingWrite(victim, "preemption", partial(writer.evict, victim, pod, where, now))
                for victim in decision.victims
            ]
        if due:
            self._due.append(due)

    def _write_records(self, cache: Cache) -> None:
        """Write what was taken down; what can't be, as nobody is there, is kept for the next time.

        Once poller was told to end, only what has no next time: a bound pod is not tried again.
        """
        if self._shutdown.impatient:
            return
        self._write_events()
        try:
            for failures in self._at_once(self._write_in_turn, self._due):
                for record, error in failures:
                    cache.leaving.discard(record.pod.metadata.uid)  # nobody has told it to leave
                    self._report.failed(record.pod, record.what, error)
        finally:
            self._due = [records for records in self._due if records]

    def _write_events(self) -> None:
        """Write the events of bound pods, the way bindings are written."""
        tried_again: list[tuple[ScheduledEvent, Future[ApiError | None]]] = []

        def go_on(event: ScheduledEvent, error: ApiError | None) -> None:
            if error and self._gives_up(error):
                self._report.failed(event.pod, "event", error)
            elif error:
                tried_again.append((event, self._pool.submit(self._write_event, event, error)))

        in_flight = InFlight(self._workers, go_on)
        for _ in range(len(self._events)):  # those only: threads put back what can't be written now
            in_flight.make_room()
            if self._end or self._shutdown.impatient:
                break
            event = self._events.popleft()
            if event.failed:
                go_on(event, event.failed)
            else:
                in_flight.send(partial(self._begin_event, event), event)
        in_flight.drain()
        for event, tried in tried_again:
            if error := tried.result():
                self._report.failed(event.pod, "event", error)

    def _gives_up(self, error: ApiError) -> bool:
        """Write no more if poller was told to end and nothing answers: the others would take as long."""
        in_vain = self._shutdown.stopping.is_set() and isinstance(error, LostAnswerError)
        if in_vain:
            self._end = error
        return in_vain

    def _begin_event(self, event: ScheduledEvent) -> PendingResponse[Event]:
        return self._writer.begin_scheduled(event.pod, event.message, event.when)

    def _write_event(self, event: ScheduledEvent, failed: ApiError) -> ApiError | None:
        """Write a bound pod's event after a first try has failed; the last error, unless it is kept."""
        try:
            if not (self._end or self._shutdown.impatient):
                self._writer.record_scheduled(event.pod, event.message, event.when, failed)
                return None
        except (UnreachableError, NotLeadingError) as error:
            self._end = failed = error
        except ApiError as error:
            self._gives_up(error)
            return error
        event.failed = failed if failed.unsettled else None
        self._events.append(event)
        return None

    def _write_in_turn(self, records: list[PendingWrite]) -> list[tuple[PendingWrite, ApiError]]:
        """Write one pod's records, and take those that are done off the list; which failed, and why."""
        failures = []
        while records and not self._too_late():
            try:
                records[0].write()
            except (UnreachableError, NotLeadingError) as error:
                self._end = error
                break
            except ApiError as error:
                failures.append((records[0], error))
            records.pop(0)
        return failures

    def forget_all_but(self, waiting: Collection[str]) -> None:
        """Forget what was written of pods whose uid isn't among those that wait."""
        self._writer.forget_all_but(waiting)

    # --- several at a time ------------------------------------------------------------------------------

    def _too_late(self) -> bool:
        """Whether nothing more can be written, or poller was told to end."""
        return self._end is not None or self._shutdown.stopping.is_set()

    def _at_once(self, work: Callable[[Given], Found], items: Sequence[Given]) -> Iterator[Found]:
        """What comes of each piece of work, in order; several are done at a time."""
        return self._pool.map(work, items) if len(items) > 1 and self._workers > 1 else map(work, items)

    @cached_property
    def _pool(self) -> ThreadPoolExecutor:
        return ThreadPoolExecutor(min(self._workers, MOST_THREADS))


def _take_time(decision: Decision) -> None:
    """Note that a binding was written now."""
    now = time.monotonic()
    decision.binding += now - decision.ended
    decision.ended = now
