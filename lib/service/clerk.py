"""Carries decisions out: writes them to the API server, and reports what came of it."""

import time
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property, partial
from math import inf
from typing import TypeVar

from lib.kube.errors import ApiError, LostAnswerError, NotLeadingError, UnreachableError
from lib.kube.exchange import OnTheWay
from lib.kube.objects import Pod, Status
from lib.kube.writer import BindResult, Writer
from lib.scheduling.cluster import Cluster
from lib.scheduling.cycle import Scheduler
from lib.scheduling.decision import Decision, Outcome
from lib.service.report import Report
from lib.service.shutdown import Shutdown, Stopped

WHY_NOT = {Outcome.UNSCHEDULABLE: "Unschedulable", Outcome.ERROR: "SchedulerError"}
"""Reasons of a pod's condition PodScheduled."""

ANNOTATION = "poller/decision"
"""Where a pod says why it is on its node."""

LONGEST_ROW = 0.005
"""Seconds after which no more decisions are added to a row: the first of it wait to be sent."""

Given = TypeVar("Given")
Found = TypeVar("Found")


@dataclass
class Record:
    """Something to be written of a pod, besides its binding.

    last_chance: whether nobody will have an occasion to write it later: a bound pod is not tried again.
    """

    pod: Pod
    what: str
    write: Callable[[], None]
    last_chance: bool = False


@dataclass
class _Tick:
    """The decisions of a tick, and how far they are carried out.

    row: made, and nothing done about them yet. on_the_way: sent as bindings that wait for their answers.
    failed: those whose first try to be bound failed, each with a way to wait for what comes of it in the end.
    """

    decisions: Iterator[Decision]
    scheduler_of: Callable[[Pod], Scheduler]
    cluster: Cluster
    settle: Callable[[Decision, BindResult], None]
    row: deque[Decision] = field(default_factory=deque)
    on_the_way: OnTheWay[Status, Decision] = field(default_factory=OnTheWay)
    failed: list[tuple[Decision, Callable[[], BindResult | ApiError]]] = field(default_factory=list)


class Clerk:
    """Writes what was decided, several things at a time; a signal waits for those that are being written.

    workers: how many at the most, and how many decisions are made in a row. annotate: say on a pod why it is
    on its node. dry_run: write nothing, as if all had gone well.

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
        self._due: list[list[Record]] = []  # by pod

    def carry_out(
        self,
        decisions: Iterable[Decision],
        scheduler_of: Callable[[Pod], Scheduler],
        cluster: Cluster,
        settle: Callable[[Decision, BindResult], None],
    ) -> None:
        """Write all bindings, each soon after it is decided on; then all events.

        `settle` is told of each decision what became of it. Of a binding that failed it hears when all is
        decided: until then the pod keeps its place, as it may be there. A signal ends the deciding at once.
        """
        self._end = None
        with self._shutdown.held():
            try:
                self._bind_all(_Tick(iter(decisions), scheduler_of, cluster, settle))
            except Stopped:
                self._write_records(cluster)
                raise
            self._write_records(cluster)
        if self._end:
            raise self._end

    # --- bindings ---------------------------------------------------------------------------------------

    def _bind_all(self, tick: _Tick) -> None:
        """Have decisions made, a row at a time, and their bindings written."""
        try:
            while self._decide_some(tick):
                self._hear(tick, until=0)
                self._write_row(tick)
        finally:  # whatever ended it, what was decided is settled
            if not self._shutdown.impatient:
                self._write_row(tick)
                while tick.on_the_way:
                    self._hear(tick)
                for decision, written in tick.failed:
                    self._conclude(tick, decision, written())

    def _decide_some(self, tick: _Tick) -> bool:
        """Have a row of decisions made; whether there was one to be made.

        In a row they take less time: what they need is in the processor's caches.
        """
        with self._shutdown.let_through():
            until = time.monotonic() + LONGEST_ROW
            for decision in tick.decisions:
                tick.row.append(decision)
                if len(tick.row) == self._workers or time.monotonic() > until:
                    break
        return bool(tick.row)

    def _write_row(self, tick: _Tick) -> None:
        """Send a binding as soon as there is room for it on the way."""
        while tick.row:
            while len(tick.on_the_way) >= self._workers:
                self._hear(tick)
            decision = tick.row.popleft()
            if result := self._ask_plugins(decision, tick.scheduler_of(decision.pod), tick.cluster):
                self._conclude(tick, decision, result)
            elif self._too_late():
                tick.failed.append((decision, lambda: BindResult.UNTRIED))
            else:
                self._send(tick, decision)

    def _send(self, tick: _Tick, decision: Decision) -> None:
        assert decision.node_name
        notes = self._notes(decision)
        try:
            tick.on_the_way.add(self._writer.begin_binding(decision.pod, decision.node_name, notes), decision)
        except ApiError as error:
            self._try_again(tick, decision, error)

    def _hear(self, tick: _Tick, until: float = inf) -> None:
        """Read the answers that have come; wait for one, but not beyond a time."""
        for pending, decision in tick.on_the_way.take_answered(until):
            try:
                pending.answer()
            except ApiError as error:
                self._try_again(tick, decision, error)
            else:
                _take_time(decision)
                self._conclude(tick, decision, BindResult.BOUND)

    def _try_again(self, tick: _Tick, decision: Decision, error: ApiError) -> None:
        """Have a thread see to a binding, which may take a while: there are waits between tries."""
        tick.failed.append((decision, self._pool.submit(self._write_binding, decision, error).result))

    def _ask_plugins(self, decision: Decision, scheduler: Scheduler, cluster: Cluster) -> BindResult | None:
        """What becomes of a decision without a binding of ours; None if there is to be one."""
        if decision.outcome != Outcome.SCHEDULED:
            return BindResult.WAITING
        if self._dry_run:
            return BindResult.BOUND
        if self._too_late():
            return None
        bound = scheduler.bind(decision, cluster)
        decision.ended = time.monotonic()
        if bound:
            return BindResult.BOUND
        if decision.outcome == Outcome.SCHEDULED:
            return None
        self._report.rejected(decision)
        return BindResult.WAITING

    def _write_binding(self, decision: Decision, failed: ApiError) -> BindResult | ApiError:
        """Write a binding after a first try has failed; what comes of it, or the last error."""
        assert decision.node_name
        if self._too_late():
            return failed if failed.unsettled else BindResult.UNTRIED
        try:
            return self._writer.bind(decision.pod, decision.node_name, self._notes(decision), failed)
        except (UnreachableError, NotLeadingError) as error:
            self._end = error
            return failed if failed.unsettled else BindResult.UNTRIED
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
            result = BindResult.WAITING
        elif decision.outcome == Outcome.SCHEDULED and result != BindResult.UNTRIED and not self._dry_run:
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
        due = []
        if result == BindResult.BOUND:
            write = partial(writer.record_scheduled, pod, message, now)
            due.append(Record(pod, "event", write, last_chance=True))
        elif reason := WHY_NOT.get(decision.outcome):
            mark = partial(writer.mark_unscheduled, pod, reason, message, now)
            due.append(Record(pod, "condition", mark))
            due.append(Record(pod, "event", partial(writer.record_failed, pod, message, now)))
        if decision.nominated:
            where = decision.nominated
            due.append(Record(pod, "nomination", partial(writer.nominate, pod, where)))
            due += [
                Record(victim, "preemption", partial(writer.evict, victim, pod, where, now))
                for victim in decision.victims
            ]
        if due:
            self._due.append(due)

    def _write_records(self, cluster: Cluster) -> None:
        """Write what was taken down; what can't be, as nobody is there, is kept for the next time.

        Once poller was told to end, only what has no next time.
        """
        if self._shutdown.impatient:
            return
        try:
            for failures in self._at_once(self._write_in_turn, self._due):
                for record, error in failures:
                    cluster.leaving.discard(record.pod.metadata.uid)  # nobody has told it to leave
                    self._report.failed(record.pod, record.what, error)
        finally:
            self._due = [records for records in self._due if records]

    def _write_in_turn(self, records: list[Record]) -> list[tuple[Record, ApiError]]:
        """Write one pod's records, and take those that are done off the list; which failed, and why."""
        failures = []
        while records and not self._too_late(last_chance=records[0].last_chance):
            try:
                records[0].write()
            except (UnreachableError, NotLeadingError) as error:
                self._end = error
                break
            except ApiError as error:
                failures.append((records[0], error))
                if self._shutdown.stopping.is_set() and isinstance(error, LostAnswerError):
                    self._end = error  # the others would take as long
            records.pop(0)
        return failures

    def forget_all_but(self, waiting: Collection[str]) -> None:
        """Forget what was written of pods whose uid isn't among those that wait."""
        self._writer.forget_all_but(waiting)

    # --- several at a time ------------------------------------------------------------------------------

    def _too_late(self, *, last_chance: bool = False) -> bool:
        """Whether nothing more can be written, or poller was told to end: at once, if it is a last chance."""
        told = self._shutdown.impatient if last_chance else self._shutdown.stopping.is_set()
        return self._end is not None or told

    def _at_once(self, work: Callable[[Given], Found], items: Sequence[Given]) -> Iterator[Found]:
        """What comes of each piece of work, in order; several are done at a time."""
        return self._pool.map(work, items) if len(items) > 1 and self._workers > 1 else map(work, items)

    @cached_property
    def _pool(self) -> ThreadPoolExecutor:
        return ThreadPoolExecutor(self._workers)


def _take_time(decision: Decision) -> None:
    """Note that a binding was written now."""
    now = time.monotonic()
    decision.binding += now - decision.ended
    decision.ended = now
