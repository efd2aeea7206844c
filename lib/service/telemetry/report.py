"""Reports to people: one log line for each thing that happens, none for what stays the same."""

import logging
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from ipaddress import ip_address
from typing import TypeVar
from urllib.parse import urlsplit

from lib import __version__
from lib.kube.decoding import Listing
from lib.kube.errors import ApiError
from lib.kube.objects import Object, Pod
from lib.kube.pod_writes import Fate
from lib.scheduling.cache import Cache
from lib.scheduling.decision import Decision, Outcome
from lib.scheduling.pod_life import Phase
from lib.scheduling.queue import SchedulingQueue
from lib.service.telemetry.explain import Explain, as_table, is_beside_the_log
from lib.service.telemetry.log import Fields, of_attempt, of_pod
from lib.service.telemetry.observer import Observer

log = logging.getLogger("poller")

T = TypeVar("T", bound=Object)


MAX_NAMES = 20
"""When a signal asks for the queue, at most so many pods of each phase are named."""


class Report:
    """Logs what happens, and counts it. What was logged isn't repeated from tick to tick.

    dry_run: decisions are not carried out. explain: shows each new decision. observer: called for everything.
    """

    def __init__(self, *, dry_run: bool, explain: Explain | None) -> None:
        self.observer = Observer()
        self._serving = ""  # logged when the API server has answered
        self.redraw: Callable[[], None] = lambda: None  # updates the screen of --top
        self._dry_run = dry_run
        self._explain = explain
        self.done: Counter[str] = Counter()
        self._said: dict[str, dict[str, str]] = {}  # by subject: a pod's uid, or anything else
        self._subjects: set[str] = set()  # subjects of this tick's lines
        self._unplaced: set[str] = set()
        self._began = time.monotonic()
        self._away_since: float | None = None  # None if it has never answered
        self._is_away = False
        self._skipped: set[str] = set()
        self._contended: set[str] = set()  # names of schedulers whose pods another program binds, too
        # A table on the same terminal has it already.
        beside = explain is as_table and is_beside_the_log()
        self._decision_level = logging.DEBUG if beside else logging.INFO

    def _say_once(
        self,
        subject: str,
        text: str,
        level: int = logging.INFO,
        gist: str = "",
        topic: str = "",
        about: Fields | None = None,
    ) -> bool:
        """Log a text, unless it is the last one about this subject and topic; returns whether it was logged.

        gist: different texts with the same gist count as the same.
        """
        gist = gist or text
        self._subjects.add(subject)
        said = self._said.setdefault(subject, {})
        delta = said.get(topic) != gist
        said[topic] = gist
        if delta:
            log.log(level, "%s", text, extra=about)
        return delta

    def started(self, scheduler_names: Sequence[str], namespaces: Sequence[str], address: str) -> None:
        """poller starts."""
        where = f" in {' and '.join(namespaces)}" if namespaces else ""
        self._serving = f"scheduling the pods of {' and '.join(scheduler_names)}{where}"
        log.info("poller %s, connecting to %s", __version__, address)
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
        self.unreadable(listing.malformed.values())
        return listing.items

    def skipped(self, pod: Object, why: str) -> None:
        """A pod names us, but must not be scheduled."""
        assert isinstance(pod, Pod)  # no other object is ever queued
        self._skipped.add(pod.metadata.uid)
        self._say_once(pod.metadata.uid, f"not scheduled: {pod} {why}", about=of_pod(pod))

    def decided(self, decision: Decision) -> None:
        """A decision was made; nothing of it is written yet (in a dry run, never)."""
        self.observer.decided(decision)
        self._tell(decision)

    def rejected(self, decision: Decision) -> None:
        """A plugin rejected the pod after the decision."""
        self.observer.rejected(decision)
        self._tell(decision)

    def _tell(self, decision: Decision) -> None:
        pod, uid, about = decision.pod, decision.pod.metadata.uid, of_attempt(decision)
        if log.isEnabledFor(logging.DEBUG):
            _tell_each_node(decision)
        if decision.victims:
            names = ", ".join(str(victim) for victim in decision.victims)
            preempts = "would preempt" if self._dry_run else "preempts"
            where = {**about, "node": decision.nominated}
            log.info("%s %s %s on %s", pod, preempts, names, decision.nominated, extra=where)
            self.done["would be preempted" if self._dry_run else "preempted"] += len(decision.victims)
        delta, level = True, self._decision_level
        match decision.outcome:
            case Outcome.UNSCHEDULABLE:
                looked = (
                    bool(decision.rejected) or not decision.all_nodes
                )  # else a plugin, or the pod's group, rejects it
                words = f"{pod} fits nowhere: {decision.message}" if looked else f"{pod}: {decision.message}"
                delta = self._say_once(uid, words, level, about=about)
                self._unplaced.add(uid)
            case Outcome.ERROR:
                delta = self._say_once(uid, f"{pod}: {decision.message}", logging.ERROR, about=about)
                self._unplaced.add(uid)
            case Outcome.WAITING:
                words = f"{pod} has {decision.node_name} held for it: {decision.message}"
                delta = self._say_once(uid, words, about=about)
            case Outcome.SCHEDULED if self._dry_run:
                words = f"{pod} would be assigned to {decision.node_name}"
                if delta := self._say_once(uid, words, level, gist="would be assigned", about=about):
                    self.done["would be assigned"] += 1
        if delta and self._explain:
            try:
                self._explain(decision, self._headline(decision))
            except OSError as error:
                log.error("decisions are no longer shown: standard output: %s", error)
                self._explain = None

    def _headline(self, decision: Decision) -> str:
        """The result of a decision, in words; in a dry run, what the result would be."""
        message = decision.message
        if decision.outcome == Outcome.SCHEDULED and self._dry_run:
            message = f"would be assigned to {decision.node_name}"
        if decision.victims:
            names = ", ".join(str(victim) for victim in decision.victims)
            preempts = "would preempt" if self._dry_run else "preempts"
            message = f"{preempts} {names} on {decision.nominated}; now {message}"
        return message

    def waiting(self, decision: Decision) -> None:
        """A pod waits for Permit, with a node reserved."""
        words = f"{decision.pod} has {decision.node_name} held for it: {decision.message}"
        self._say_once(decision.pod.metadata.uid, words, about=of_attempt(decision))

    def bound(self, decision: Decision) -> None:
        """A pod was bound."""
        self._settled(decision, bound=True)
        log.info("%s is bound to %s", decision.pod, decision.node_name, extra=of_attempt(decision))
        self.done["bound"] += 1

    def taken(self, decision: Decision, why: str) -> None:
        """Something else happened to a pod before it could be bound; `why` follows its name."""
        self._settled(decision, bound=False)
        log.info("%s %s before it could be bound", decision.pod, why, extra=of_attempt(decision))
        self.done["bound by others or deleted"] += 1
        name = decision.pod.spec.scheduler_name
        if why == Fate.TAKEN.value and name not in self._contended:
            self._contended.add(name)
            self.warning(
                f"something else binds pods of {name}, too. If it is another poller, start both with"
                " --leader-elect and the same lease"
            )

    def _settled(self, decision: Decision, *, bound: bool) -> None:
        self.observer.settled(decision, bound=bound)
        self._unplaced.discard(decision.pod.metadata.uid)
        self._skipped.discard(decision.pod.metadata.uid)  # it was gated before

    def not_bound(self, decision: Decision, error: ApiError | None) -> None:
        """A binding failed, or, without an error, a plugin rejected the node. The pod is tried again."""
        if error is None:
            self.rejected(decision)
        else:
            self.observer.settled(decision, bound=False)
            self.failed(decision.pod, "binding", error, of_attempt(decision))

    def failed(self, pod: Pod, what: str, error: ApiError, about: Fields | None = None) -> None:
        """A write failed."""
        text = f"{pod}: {what} failed: {error}"
        about = about or of_pod(pod)
        if self._say_once(pod.metadata.uid, text, logging.WARNING, topic=what, about=about):
            self.done["with a failed write"] += 1

    def without(self, what: str, error: ApiError) -> None:
        """Something failed that no pod needs: poller goes on without it."""
        self.warning(f"going on without {what}: {error}")

    def warning(self, text: str) -> None:
        """Something is wrong, but no pod has to wait for it."""
        self._say_once(text, text, logging.WARNING)

    def unreadable(self, lines: Iterable[str]) -> None:
        """Objects can't be decoded, and are left out."""
        for line in lines:
            self.warning(line)

    def idle_for(self, seconds: float) -> None:
        """Nothing is due for so many seconds."""
        self.observer.idle_for(seconds)

    def retries(self, seconds: float, longest: float) -> None:
        """A failed tick is retried after so many seconds, later after at most `longest`."""
        self.idle_for(seconds)
        self._say_once("retries", f"trying again, at least every {longest:g} s")

    def tick_began(self) -> None:
        """A tick begins."""
        self.observer.tick_began()

    def reached(self) -> None:
        """The API server has answered: the first time, say whose pods are scheduled."""
        if self._serving:
            log.info("%s", self._serving)
            self._serving = ""

    def synced(self, queue: SchedulingQueue, cache: Cache) -> None:
        """The API server has answered a poll."""
        self.observer.synced(queue, cache)

    def tick_done(self, queue: SchedulingQueue, cache: Cache) -> None:
        """A tick succeeded; if the one before failed, log that the trouble is over."""
        self.observer.tick_ended(queue, cache)
        self._unplaced &= queue.uids()
        remembered = self._subjects | queue.uids()
        self._said = {subject: said for subject, said in self._said.items() if subject in remembered}
        self._subjects = set()
        if self._is_away:
            for subject in ("trouble", "retries"):
                self._said.pop(subject, None)
            since = f", after {time.monotonic() - self._away_since:.0f} s" if self._away_since else ""
            log.info("the API server is back%s", since)
            self._is_away = False
        if counts := {where: count for where, count in queue.counts().items() if count}:
            self._say_once("queue", f"queue: {_listed(counts)}", logging.DEBUG)
        self.redraw()

    def show(self, queue: SchedulingQueue) -> None:
        """Log the queue, because a signal asked for it."""
        log.info("queue: %s", _listed(queue.counts()))
        for phase in Phase:
            if pods := queue.lives.in_phase(phase):
                names = ", ".join(str(life.pod) for life in pods[:MAX_NAMES])
                log.info("%s: %s%s", phase.value, names, ", ..." if pods[MAX_NAMES:] else "")
        if oldest := queue.oldest():
            waited = time.monotonic() - oldest.queued
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
        self._say_once("trouble", str(error), logging.ERROR)
        if not self._is_away:
            self._is_away, self._away_since = True, self.observer.last_answer

    def summarize(self, ended_by: signal.Signals | None) -> None:
        """Log what was done in total, and which signal ended poller, if one did."""
        if self._unplaced:
            self.done["left without a node"] = len(self._unplaced)
        if self._skipped:
            self.done["not scheduled"] = len(self._skipped)
        counts = ", ".join(f"{self.done[what]} {what}" for what in sorted(self.done)) or "none to schedule"
        ended = f"ended by {ended_by.name}" if ended_by else "ended"
        log.info("%s after %.1f s; pods: %s", ended, time.monotonic() - self._began, counts)


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
        reasons, about = ", ".join(rejection.status.reasons), {**of_pod(pod), "node": node}
        log.debug("%s: not %s: %s (%s)", pod, node, reasons, rejection.plugin, extra=about)
    for node, total in decision.totals.items():
        about = {**of_pod(pod), "node": node}
        scores = ", ".join(f"{plugin} {score}" for plugin, score in decision.scores[node].items())
        log.debug("%s: %s scores %s: %s", pod, node, total, scores or "the only one that fits", extra=about)


def _listed(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{count} {what}" for what, count in counts.items())
