"""A pod's binding cycle: run PreBind and Bind, POST the binding, run PostBind.

Source: pkg/scheduler/schedule_one.go, bindingCycle
"""

import logging
import time
from collections import deque
from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from enum import Enum, auto
from functools import cached_property, partial

from lib.kube.errors import ApiError, NotLeadingError, UnreachableError, as_api_error
from lib.kube.in_flight import InFlight, PendingResponse
from lib.kube.objects import Pod, Status
from lib.kube.storage_writer import StorageWriter
from lib.kube.write import make_all
from lib.kube.writer import BindResult, Writer
from lib.scheduling.cache import Cache
from lib.scheduling.decision import Decision, Outcome
from lib.scheduling.scheduling_cycle import Scheduler
from lib.service.write_gate import MAX_THREADS, WriteGate

log = logging.getLogger(__name__)

ANNOTATION = "poller/decision"
"""The annotation that says why a pod is on its node."""

MAX_BATCH_SECONDS = 0.005
"""Decisions are collected for so long before they are sent: decisions in a row are faster, because their data
stays in the processor's caches."""


class Result(Enum):
    """The result of a decision. `finish` in poller.py shows what follows from each."""

    BOUND = auto()
    """Bound, as the API server, a Bind plugin or an extender says."""
    NOT_WRITTEN = auto()
    """A dry run: it would be bound, but nothing is written."""
    WAITING = auto()
    """A Permit or PreBind plugin says: not yet."""
    UNSCHEDULABLE = auto()
    """The scheduling cycle found no node, or a plugin failed in it."""
    REJECTED = auto()
    """A PreBind or Bind plugin rejected the node, or failed."""
    TAKEN = auto()
    """Another program bound, changed or deleted the pod."""
    FAILED = auto()
    """The binding was not written."""
    UNSETTLED = auto()
    """It isn't known whether the binding was written."""
    NOT_SENT = auto()
    """The API server could not be reached, or poller is shutting down."""
    NOT_RECORDED = auto()
    """The pod was not scheduled, and that could not be written: no API server (`Recorder.flush`)."""


@dataclass(frozen=True)
class Completed:
    """A decision with its result. error: why it FAILED.

    why: what happened to a pod that is TAKEN. now: that pod as it is now; None if it is gone.
    """

    decision: Decision
    result: Result
    why: str = ""
    error: ApiError | None = None
    now: Pod | None = None


RESULTS = {
    Outcome.UNSCHEDULABLE: Result.UNSCHEDULABLE,
    Outcome.ERROR: Result.UNSCHEDULABLE,
    Outcome.WAITING: Result.WAITING,
}
"""Results of decisions without a binding."""


class BindingCycle:
    """Binds pods, many at the same time. `submit` takes decisions; `completed` returns their results.

    schedulers: by scheduler name; their plugins are run. workers: the most bindings in flight. annotate:
    write on each pod why it is on its node; annotate_in_full: also why on no other, in a small cluster.
    dry_run: write nothing.
    """

    def __init__(
        self,
        writer: Writer,
        storage_writer: StorageWriter,
        schedulers: Mapping[str, Scheduler],
        cache: Cache,
        gate: WriteGate,
        *,
        workers: int,
        annotate: bool,
        annotate_in_full: bool,
        dry_run: bool,
    ) -> None:
        self._writer = writer
        self._storage_writer = storage_writer
        self._schedulers = schedulers
        self._cache = cache
        self._gate = gate
        self._workers = workers
        self._annotate = annotate
        self._annotate_in_full = annotate_in_full
        self._dry_run = dry_run
        self._unsent: deque[Decision] = deque()
        self._send_at = 0.0  # in time.monotonic's seconds
        self._in_flight = InFlight(workers, self._answered)
        self._retried: deque[Future[Completed]] = deque()
        self._completed: list[Completed] = []

    def submit(self, decision: Decision) -> None:
        """Take a decision. Its binding is sent with others, at the next call of `completed` or `drain`."""
        if result := RESULTS.get(decision.outcome):
            self._completed.append(Completed(decision, result))
        elif self._dry_run:
            self._completed.append(Completed(decision, Result.NOT_WRITTEN))
        else:
            if not self._unsent:
                self._send_at = time.monotonic() + MAX_BATCH_SECONDS
            self._unsent.append(decision)

    def completed(self) -> list[Completed]:
        """The results since the last call. Waits only while too many bindings are in flight.

        A binding whose first try failed is not in it: `drain` returns it. Until then the pod stays assumed.
        """
        if len(self._unsent) >= self._workers or time.monotonic() > self._send_at:
            self._in_flight.poll(until=0)
            self._send()
            self._send_at = time.monotonic() + MAX_BATCH_SECONDS
        return self._take()

    def drain(self) -> Iterator[Completed]:
        """The results of all other decisions. Waits for them, unless poller was told twice to stop."""
        if self._gate.impatient:
            return
        self._send()
        self._in_flight.drain()
        yield from self._take()
        while self._retried:
            yield self._concluded(self._retried.popleft().result())

    def _take(self) -> list[Completed]:
        completed, self._completed = self._completed, []
        return completed

    # --- one binding ------------------------------------------------------------------------------------

    def _send(self) -> None:
        """Send a binding as soon as there is room for it in flight."""
        while self._unsent:
            self._in_flight.make_room()
            decision = self._unsent.popleft()
            if self._gate.closed:
                self._completed.append(Completed(decision, Result.NOT_SENT))
            elif (result := self._run_bind_plugins(decision)) == Result.WAITING:
                self._retried.append(self._pool.submit(self._write_storage, decision))
            elif result:
                self._completed.append(self._concluded(Completed(decision, result)))
            else:
                try:
                    self._in_flight.send(partial(self._begin_binding, decision), decision)
                except Exception as error:
                    self._completed.append(_broke(decision, error))

    def _run_bind_plugins(self, decision: Decision) -> Result | None:
        """Run the PreBind and Bind plugins and the extenders; None if poller must POST the binding."""
        bound = self._scheduler_of(decision).bind(decision, self._cache)
        decision.ended = time.monotonic()
        if bound:
            return Result.BOUND
        if decision.outcome == Outcome.WAITING:
            return Result.WAITING
        return None if decision.outcome == Outcome.SCHEDULED else Result.REJECTED

    def _begin_binding(self, decision: Decision) -> PendingResponse[Status]:
        assert decision.node_name
        return self._writer.begin_binding(decision.pod, decision.node_name, self._annotations(decision))

    def _answered(self, decision: Decision, error: ApiError | None) -> None:
        """Handle the answer to a first try. If it failed, a thread goes on, because retries must wait."""
        if error:
            self._retried.append(self._pool.submit(self._retry, decision, error))
            return
        _take_time(decision)
        self._completed.append(self._concluded(Completed(decision, Result.BOUND)))

    def _retry(self, decision: Decision, failed: ApiError) -> Completed:
        """Write a binding after its first try has failed."""
        assert decision.node_name
        if self._gate.closed:
            return _not_sent(decision, failed)
        try:
            result, now = self._writer.bind(
                decision.pod, decision.node_name, self._annotations(decision), failed
            )
        except (UnreachableError, NotLeadingError) as error:
            self._gate.error = error
            return _not_sent(decision, error)
        except ApiError as error:
            return _failed(decision, error)
        except Exception as error:
            return _broke(decision, error)
        finally:
            _take_time(decision)
        if result == BindResult.BOUND:
            return Completed(decision, Result.BOUND)
        return Completed(decision, Result.TAKEN, why=result.value, now=now)

    def _write_storage(self, decision: Decision) -> Completed:
        """Write what a PreBind plugin waits for; before that, the pod's nominated node."""
        assert decision.node_name
        try:
            self._nominate(decision, decision.node_name)
            decision.writes = tuple(map(self._storage_writer.write, decision.writes))
        except (UnreachableError, NotLeadingError) as error:
            self._gate.error = error
            return Completed(decision, Result.NOT_SENT)
        except ApiError as error:
            failed = _failed(decision, error, 'PreBind plugin "VolumeBinding"')
            return replace(failed, result=Result.FAILED)  # the binding was not sent
        except Exception as error:
            return _broke(decision, error)
        return Completed(decision, Result.WAITING)

    def _nominate(self, decision: Decision, node_name: str) -> None:
        """Write the pod's nominated node. Its volumes are bound even if that fails, as in kube-scheduler."""
        if decision.pod.status.nominated_node_name == node_name:
            return
        try:
            make_all(self._writer.nominate(decision.pod, node_name))
        except (UnreachableError, NotLeadingError):
            raise
        except ApiError as error:
            log.warning("%s is not nominated to %s: %s", decision.pod, node_name, error)

    def _concluded(self, completed: Completed) -> Completed:
        """Run the PostBind plugins, or update the cache of claims and volumes; returns its argument."""
        for written in completed.decision.writes if completed.result == Result.WAITING else ():
            self._cache.storage.assume(written)
        if completed.result == Result.BOUND:
            self._scheduler_of(completed.decision).post_bind(completed.decision)
        return completed

    def _annotations(self, decision: Decision) -> Mapping[str, str]:
        """The annotations to write with a pod's binding."""
        if not self._annotate:
            return {}
        return {ANNOTATION: decision.as_annotation(in_full=self._annotate_in_full)}

    def _scheduler_of(self, decision: Decision) -> Scheduler:
        return self._schedulers[decision.pod.spec.scheduler_name]

    @cached_property
    def _pool(self) -> ThreadPoolExecutor:
        return ThreadPoolExecutor(min(self._workers, MAX_THREADS))


def _failed(decision: Decision, error: ApiError, where: str = 'Bind plugin "DefaultBinder"') -> Completed:
    """The result of a binding that failed; the decision says why in kube-scheduler's words."""
    decision.outcome, decision.reason = Outcome.ERROR, f"running {where}: {error}"
    return Completed(decision, Result.UNSETTLED if error.unsettled else Result.FAILED, error=error)


def _not_sent(decision: Decision, error: ApiError) -> Completed:
    """The result of a binding that isn't retried now."""
    return _failed(decision, error) if error.unsettled else Completed(decision, Result.NOT_SENT)


def _broke(decision: Decision, error: Exception) -> Completed:
    """The result of a binding that failed with an unexpected error: only this pod is affected."""
    log.debug("%s: binding failed", decision.pod, exc_info=error)
    return _failed(decision, as_api_error(error))


def _take_time(decision: Decision) -> None:
    """Record that a binding was written now."""
    now = time.monotonic()
    decision.binding += now - decision.ended
    decision.ended = now
