"""Carries decisions out: writes them to the API server, and reports what came of it."""

from collections import deque
from collections.abc import Callable, Collection
from datetime import UTC, datetime
from functools import partial

from lib.kube.api import ApiError, UnreachableError
from lib.kube.objects import Pod
from lib.kube.writer import BindResult, Writer
from lib.scheduling.cluster import Cluster
from lib.scheduling.cycle import Scheduler
from lib.scheduling.decision import Decision, Outcome
from lib.service.report import Report
from lib.service.shutdown import Shutdown

WHY_NOT = {Outcome.UNSCHEDULABLE: "Unschedulable", Outcome.ERROR: "SchedulerError"}
"""Reasons of a pod's condition PodScheduled."""

ANNOTATION = "poller/decision"
"""Where a pod says why it is on its node."""


class Clerk:
    """Writes one thing after the other; a signal waits for the one that is being written.

    annotate: say on a pod why it is on its node. dry_run: write nothing, as if all had gone well.

    A write that fails is reported; UnreachableError when nobody is there to write to.
    """

    def __init__(
        self, writer: Writer, report: Report, shutdown: Shutdown, *, annotate: bool, dry_run: bool
    ) -> None:
        self._dry_run = dry_run
        self._writer = writer
        self._report = report
        self._shutdown = shutdown
        self._annotate = annotate
        self._due: deque[tuple[Pod, str, Callable[[], None]]] = deque()

    def bind(self, decision: Decision, scheduler: Scheduler, cluster: Cluster) -> BindResult:
        """Bind a pod for which a node was picked; what became of it."""
        if decision.outcome != Outcome.SCHEDULED:
            return BindResult.WAITING
        if self._dry_run:
            return BindResult.BOUND
        try:
            with self._shutdown.held():
                return self._bind(decision, scheduler, cluster)
        except UnreachableError:
            raise
        except ApiError as error:
            self._report.failed(decision.pod, "binding", error)
            return BindResult.WAITING

    def _bind(self, decision: Decision, scheduler: Scheduler, cluster: Cluster) -> BindResult:
        assert decision.node_name
        if scheduler.bind(decision, cluster):
            result = BindResult.BOUND
        elif decision.outcome == Outcome.SCHEDULED:
            annotations = {ANNOTATION: decision.as_annotation()} if self._annotate else {}
            result = self._writer.bind(decision.pod, decision.node_name, annotations)
        else:  # a plugin said no at the last moment
            self._report.decided(decision)
            return BindResult.WAITING
        if result == BindResult.BOUND:
            scheduler.post_bind(decision)
        self._report.settled(decision, result)
        return result

    def record(self, decision: Decision, result: BindResult) -> None:
        """Take down what is to be written of a pod: an event, and why it has no node."""
        now = datetime.now(UTC).replace(microsecond=0)
        pod, message = decision.pod, decision.message
        if self._dry_run:
            return
        if result == BindResult.BOUND:
            self._due.append((pod, "event", partial(self._writer.record_scheduled, pod, message, now)))
        elif reason := WHY_NOT.get(decision.outcome):
            mark = partial(self._writer.mark_unscheduled, pod, reason, message, now)
            self._due.append((pod, "condition", mark))
            self._due.append((pod, "event", partial(self._writer.record_failed, pod, message, now)))
        if decision.nominated:
            where = decision.nominated
            self._due.append((pod, "nomination", partial(self._writer.nominate, pod, where)))
            for victim in decision.victims:
                evict = partial(self._writer.evict, victim, pod, where, now)
                self._due.append((victim, "preemption", evict))

    def write_records(self, cluster: Cluster) -> None:
        """Write what was taken down; what can't be, as nobody is there, is kept for the next time."""
        while self._due:
            pod, what, write = self._due[0]
            try:
                with self._shutdown.held():
                    write()
                    self._due.popleft()
            except UnreachableError:
                raise
            except ApiError as error:
                self._due.popleft()
                cluster.leaving.discard(pod.metadata.uid)  # one that could not be told to leave stays
                self._report.failed(pod, what, error)

    def forget_all_but(self, waiting: Collection[str]) -> None:
        """Forget what was written of pods whose uid isn't among those that wait."""
        self._writer.forget_all_but(waiting)
