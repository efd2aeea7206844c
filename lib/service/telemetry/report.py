"""Reports to people: one log line for each thing that happens, none for what stays the same."""

import logging
import signal
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from ipaddress import ip_address
from typing import TYPE_CHECKING, TypeVar
from urllib.parse import urlsplit

from lib.kube.changes import AnyChange, Kind, unassigned_pod
from lib.kube.decoding import Listing, called
from lib.kube.errors import ApiError, StatusError
from lib.kube.objects import Object, Pod
from lib.kube.pod_writes import BOUND_BY_ANOTHER
from lib.kube.system import MACHINE, System
from lib.lazily import Lazy
from lib.scheduling.cache import Cache
from lib.scheduling.decision import Decision, Outcome
from lib.scheduling.pod_life import Phase
from lib.scheduling.queue import SchedulingQueue
from lib.service.telemetry.log import Fields, of_attempt, of_pod
from lib.service.telemetry.observer import Observer
from lib.version import full_version

if TYPE_CHECKING:
    from lib.service.telemetry import explain as explaining
else:
    explaining = Lazy("lib.service.telemetry.explain")

log = logging.getLogger("poller")

T = TypeVar("T", bound=Object)


MAX_NAMES = 20
"""When a signal asks for the queue, at most so many pods of each phase are named."""


class Report:
    """Logs what happens, and counts it. What was logged isn't repeated from tick to tick.

    dry_run: whether decisions are not carried out. explain: shows each new decision.
    """

    def __init__(
        self, *, dry_run: bool, explain: "explaining.Explain | None", system: System = MACHINE
    ) -> None:
        self.observer = Observer(system)
        """It is called for everything that happens."""
        self._system = system
        self._serving = ""  # logged when the API server has answered
        self._names = ""
        self.redraw: Callable[[], None] = lambda: None
        """Updates the screen of --top."""
        self._dry_run = dry_run
        self._explain = explain
        self.done: Counter[str] = Counter()
        """How many pods had which result, for the last line of the log."""
        self._logged: dict[str, dict[str, str]] = {}  # by key and topic
        self._keys: set[str] = set()  # of this tick's lines
        self._may_go: set[str] = set()  # the keys of lines that may have to be forgotten after this tick
        self._unplaced: set[str] = set()
        self._began = self._system.monotonic()
        self._tick_began = self._failing_since = self._began
        self._is_failing = self._was_refused = False  # the last ticks; because of an answer
        self._skipped: set[str] = set()
        self._was_reached = False
        self._contended: set[str] = set()  # names of schedulers whose pods another program binds, too
        # A table on the same terminal has it already.
        beside = explain is not None and explaining.shows_beside_the_log(explain)
        self._decision_level = logging.DEBUG if beside else logging.INFO

    def _log_if_changed(
        self,
        key: str,
        text: str,
        level: int = logging.INFO,
        compared: str = "",
        topic: str = "",
        fields: Fields | None = None,
    ) -> bool:
        """Log a text, unless it is the last one of this key and topic; returns whether it was logged.

        key: a pod's uid, or anything else. compared: compared in place of the text. fields: the log line's.
        """
        compared = compared or text
        self._keys.add(key)
        logged = self._logged.setdefault(key, {})
        is_changed = logged.get(topic) != compared
        logged[topic] = compared
        if is_changed:
            log.log(level, "%s", text, extra=fields)
        return is_changed

    def connecting(self, address: str) -> None:
        """poller starts: the log's first line."""
        log.info("poller %s, connecting to %s", full_version(), address)

    def started(self, scheduler_names: Sequence[str], namespaces: Sequence[str], address: str) -> None:
        """All parts of poller are connected."""
        where = f" in {' and '.join(namespaces)}" if namespaces else ""
        self._names = " or ".join(scheduler_names)
        self._serving = f"scheduling the pods of {' and '.join(scheduler_names)}{where}"
        if not _stays_here(address):
            how = "unencrypted and without" if address.startswith("http:") else "without"
            self.warning(
                f"{address} can be reached from other machines: anyone who reaches it has the rights of its"
                f" kubectl proxy, {how} authentication. Use loopback or a unix socket"
            )

    def page(self, address: str) -> None:
        """The web page of --ui is served."""
        log.info("the page is at %s: whoever has this address can read nodes, pods and events", address)

    def readable(self, listing: Listing[T]) -> list[T]:
        """The objects of a listing; those that can't be decoded are logged."""
        for line in listing.malformed.values():
            self.warning(line)
        return listing.items

    def skipped(self, pod: Object, why: str) -> None:
        """A pod names us, but must not be scheduled."""
        assert isinstance(pod, Pod)  # no other object is ever queued
        self._skipped.add(pod.metadata.uid)
        self._log_if_changed(pod.metadata.uid, f"not scheduled: {pod} {why}", fields=of_pod(pod))

    def changed(self, change: AnyChange) -> None:
        """A pod that has a node now, or is gone, doesn't count as not scheduled any more."""
        if change.kind == Kind.DELETED or unassigned_pod(change) is None:
            uid = change.object.metadata.uid
            self._skipped.discard(uid)
            if uid in self._logged:
                self._may_go.add(uid)

    def not_processed(self, change: AnyChange, error: Exception) -> None:
        """A change of an object could not be applied, because of an unexpected error."""
        what = f"{type(change.object).__name__} {called(change.object.metadata)}"
        log.debug("%s could not be processed", what, exc_info=error)
        self.warning(f"{what} could not be processed: {type(error).__name__}: {error}")

    def decided(self, decision: Decision) -> None:
        """A decision was made; nothing of it is written yet (in a dry run, never).

        Or a plugin rejected the pod after the decision.
        """
        self.observer.decided(decision)
        if log.isEnabledFor(logging.DEBUG):
            _tell_each_node(decision)
        if decision.nominated and decision.preempted:
            where = {**of_attempt(decision), "node": decision.nominated}
            log.info("%s %s", decision.pod, self._preempting(decision), extra=where)
            self.done["would be preempted" if self._dry_run else "preempted"] += len(decision.preempted)
        is_new = self._log_outcome(decision)
        if is_new and self._explain:
            try:
                self._explain(decision, self._headline(decision))
            except OSError as error:
                log.error("decisions are no longer shown: standard output: %s", error)
                self._explain = None

    def _log_outcome(self, decision: Decision) -> bool:
        """Log the outcome of a decision; of one that is carried out, the binding's result is logged later.

        Returns whether it is another one than that of the pod's last decision.
        """
        pod, uid, fields = decision.pod, decision.pod.metadata.uid, of_attempt(decision)
        words, compared, level = f"{pod}: {decision.message}", "", self._decision_level
        match decision.outcome:
            case Outcome.WAITING:
                return self.waiting(decision)
            case Outcome.SCHEDULED if self._dry_run:
                words, compared = f"{pod} would be assigned to {decision.node_name}", "would be assigned"
            case Outcome.SCHEDULED | Outcome.BOUND:
                return True
            case Outcome.UNSCHEDULABLE:
                self._unplaced.add(uid)
                if decision.rejected or not decision.all_nodes:  # else a plugin, or its group, rejects it
                    words = f"{pod} fits nowhere: {decision.message}"
            case Outcome.ERROR:
                self._unplaced.add(uid)
                level = logging.ERROR
        is_new = self._log_if_changed(uid, words, level, compared=compared, fields=fields)
        if is_new and compared:
            self.done[compared] += 1
        return is_new

    def _headline(self, decision: Decision) -> str:
        """The result of a decision, in words; in a dry run, what the result would be."""
        message = decision.message
        if decision.outcome == Outcome.SCHEDULED and self._dry_run:
            message = f"would be assigned to {decision.node_name}"
        if decision.preempted:
            message = f"{self._preempting(decision)}; now {message}"
        return message

    def _preempting(self, decision: Decision) -> str:
        names = ", ".join(str(victim) for victim in decision.preempted)
        return f"{'would preempt' if self._dry_run else 'preempts'} {names} on {decision.nominated}"

    def waiting(self, decision: Decision) -> bool:
        """A pod waits for Permit, with a node reserved. Returns whether that was logged."""
        words = f"{decision.pod} has {decision.node_name} held for it: {decision.message}"
        return self._log_if_changed(decision.pod.metadata.uid, words, fields=of_attempt(decision))

    def bound(self, decision: Decision) -> None:
        """A pod was bound."""
        self._finished(decision, bound=True)
        log.info("%s is bound to %s", decision.pod, decision.node_name, extra=of_attempt(decision))
        self.done["bound"] += 1

    def taken(self, decision: Decision, why: str) -> None:
        """Something else happened to a pod before it could be bound; `why` follows its name."""
        self._finished(decision, bound=False)
        log.info("%s %s before it could be bound", decision.pod, why, extra=of_attempt(decision))
        self.done["bound by others or deleted"] += 1
        name = decision.pod.spec.scheduler_name
        if why == BOUND_BY_ANOTHER and name not in self._contended:
            self._contended.add(name)
            self.warning(
                f"something else binds pods of {name}, too. If it is another poller, start both with"
                " --leader-elect and the same lease"
            )

    def _finished(self, decision: Decision, *, bound: bool) -> None:
        self.observer.finished(decision, bound=bound)
        uid = decision.pod.metadata.uid
        self._unplaced.discard(uid)
        self._skipped.discard(uid)  # it was gated before
        self._may_go.add(uid)

    def not_bound(self, decision: Decision, error: ApiError | None) -> None:
        """A binding failed, or, without an error, a plugin rejected the node. The pod is tried again."""
        if error is None:
            self.decided(decision)
        else:
            self.observer.finished(decision, bound=False)
            self.failed(decision.pod, "binding", error, of_attempt(decision))

    def failed(self, pod: Pod, what: str, error: ApiError, fields: Fields | None = None) -> None:
        """A write failed."""
        self.observer.write_failed(what)
        text = f"{pod}: {what} failed: {error}"
        fields = fields or of_pod(pod)
        if self._log_if_changed(pod.metadata.uid, text, logging.WARNING, topic=what, fields=fields):
            self.done["with a failed write"] += 1

    def without(self, what: str, error: ApiError) -> None:
        """Something failed that no pod needs: poller goes on without it."""
        self.warning(f"going on without {what}: {error}")

    def warning(self, text: str) -> None:
        """Something is wrong, but no pod has to wait for it."""
        self._log_if_changed(text, text, logging.WARNING)

    def retries(self, seconds: float, longest: float) -> None:
        """A failed tick is retried after so many seconds, later after at most `longest`."""
        self.observer.idle_for(seconds)
        self._log_if_changed("retries", f"trying again, at least every {longest:g} s")

    def tick_began(self) -> None:
        """A tick begins."""
        self._tick_began = self._system.monotonic()
        self.observer.tick_began()

    def reached(self) -> None:
        """The API server has answered: the first time, say whose pods are scheduled."""
        self._was_reached = True
        if self._serving:
            log.info("%s", self._serving)
            self._serving = ""

    def tick_done(self, queue: SchedulingQueue, cache: Cache) -> None:
        """A tick succeeded; if the one before failed, log that the trouble is over."""
        self.observer.tick_ended(queue, cache)
        # Lines that are neither of this tick nor of queued pods may be logged again.
        not_queued = {key for key in self._may_go | self._keys if key not in queue}
        for key in not_queued - self._keys:
            self._logged.pop(key, None)
        self._unplaced -= not_queued
        self._may_go, self._keys = not_queued & self._keys, set()
        if self._is_failing:
            for key in ("trouble", "retries"):
                self._logged.pop(key, None)
            what = "polls succeed again" if self._was_refused else "the API server is back"
            log.info("%s, after %.0f s", what, self._system.monotonic() - self._failing_since)
            self._is_failing = False
        if log.isEnabledFor(logging.DEBUG) and (counts := +Counter(queue.counts())):
            self._log_if_changed("queue", f"queue: {_listed(counts)}", logging.DEBUG)
        self.redraw()

    def show(self, queue: SchedulingQueue) -> None:
        """Log the queue, because a signal asked for it."""
        log.info("queue: %s", _listed({**queue.counts(), "gated": queue.gated()}))
        for phase in Phase:
            if pods := queue.lives.in_phase(phase):
                names = ", ".join(str(life.pod) for life in pods[:MAX_NAMES])
                log.info("%s: %s%s", phase.value, names, ", ..." if pods[MAX_NAMES:] else "")
        if oldest := queue.oldest():
            waited = self._system.monotonic() - oldest.queued
            log.info(
                "in the queue for longest, %.0f s, tried %s: %s (%s)%s",
                waited,
                "once" if oldest.attempts == 1 else f"{oldest.attempts} times",
                oldest.pod,
                oldest.phase.value,
                f": {oldest.reason}" if oldest.reason else "",
                extra={**of_pod(oldest.pod), "attempt": oldest.attempts},
            )

    def trouble(self, error: Exception) -> None:
        """A tick failed. Logged once as long as the reason stays the same."""
        self.observer.tick_failed(error)
        self._log_if_changed("trouble", str(error), logging.ERROR)
        if not self._is_failing:
            self._is_failing, self._failing_since = True, self.observer.failing_since or self._tick_began
            # Other errors come from an API server that isn't reached, or is in trouble.
            self._was_refused = isinstance(error, StatusError) and not error.transient

    def summarize(self, ended_by: signal.Signals | None) -> None:
        """Log what was done in total, and which signal ended poller, if one did."""
        if self._unplaced:
            self.done["left without a node"] = len(self._unplaced)
        if self._skipped:
            self.done["not scheduled"] = len(self._skipped)
        counts = ", ".join(f"{self.done[what]} {what}" for what in sorted(self.done))
        if not counts:
            unknown = "not known, as they could not be read"
            counts = "none to schedule" if self._was_reached else unknown
        if self._explain and not self.done and self._was_reached:
            counts += (
                f": no pod that waits names {self._names}; --scheduler-name chooses another scheduler's pods"
            )
        ended = f"ended by {ended_by.name}" if ended_by else "ended"
        log.info("%s after %.1f s; pods: %s", ended, self._system.monotonic() - self._began, counts)


def _stays_here(address: str) -> bool:
    """Whether an address, http://HOST:PORT or unix:///PATH, is on this machine for certain."""
    url = urlsplit(address)
    if url.scheme == "unix" or url.hostname == "localhost":
        return True
    try:
        return ip_address(url.hostname or "").is_loopback
    except ValueError:  # a name, which may be of any machine
        return False


def _tell_each_node(decision: Decision) -> None:
    pod = decision.pod
    for node, rejection in decision.rejected.items():
        reasons, fields = ", ".join(rejection.status.reasons), {**of_pod(pod), "node": node}
        log.debug("%s: not %s: %s (%s)", pod, node, reasons, rejection.plugin, extra=fields)
    for node, total in decision.totals.items():
        fields = {**of_pod(pod), "node": node}
        scores = ", ".join(f"{plugin} {score}" for plugin, score in decision.scores[node].items())
        log.debug("%s: %s scores %s: %s", pod, node, total, scores or "the only one that fits", extra=fields)


def _listed(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{count} {what}" for what, count in counts.items())
