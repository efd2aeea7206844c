"""Leader election: of several pollers only the one that holds the Lease writes; the others stand by.

A poller that finds the Lease free takes it, and renews it as long as it runs. A Lease is free if nobody has
renewed it for its whole duration. If two try at the same time, the API server lets only one succeed. Clocks
of two machines are never compared: each poller measures for itself how long it has seen no renewal.

Source: client-go/tools/leaderelection/leaderelection.go
"""

import logging
import os
import socket
from collections.abc import Callable
from functools import partial
from math import ceil
from threading import Lock, Thread
from typing import Any
from uuid import UUID

from lib.kube.api import Api
from lib.kube.election import LeaderElection
from lib.kube.errors import ApiError, ConflictError, NotFoundError
from lib.kube.events import event_about
from lib.kube.objects import Event, Lease, LeaseSpec, ObjectReference
from lib.kube.paths import path_of
from lib.kube.write import Request
from lib.version import full_version

log = logging.getLogger(__name__)

SPREAD = 0.2
"""A random part of the retry period, so that pollers that stand by don't all ask at the same time."""

CLOCK_CHECK = 1.0
"""The longest single wait, in seconds: a wait doesn't count the time while the machine is suspended."""

AT_ONCE = 0.001
"""The shortest time for `System.end_process_in`, in seconds: 0 would mean never."""

VERSION_ANNOTATION = "poller/version"
"""On the Lease: the version of the poller that holds it."""

LAST_REQUEST = 3.0
"""When poller is stopped, it waits for a request in flight for so many seconds: a busy machine needs some."""


class Candidate:
    """Takes part in an election. It leads from acquiring the lease until it loses the lease, and never again.

    api: a separate one, with short time limits. on_lost: called once, by any thread, when the lease is lost.
    As a last resort the process ends after the renew deadline: a thread may be suspended between its check
    that it may write and the write itself, and continue when another poller leads.
    """

    def __init__(self, api: Api, election: LeaderElection, on_lost: Callable[[], None]) -> None:
        self._system = system = api.system
        self._random = system.random()
        self.identity = f"{socket.gethostname()}_{UUID(int=self._random.getrandbits(128), version=4)}"
        self._api = api
        self._election = election
        self._on_lost = on_lost
        self._clock, self._last_resort = system.steady, system.end_process_in
        self._all = f"/apis/coordination.k8s.io/v1/namespaces/{election.resource_namespace}/leases"
        self._path = f"{self._all}/{election.resource_name}"
        self._lock = Lock()
        self._ended = system.event()
        self._trying: Thread | None = None
        self._telling: Thread | None = None  # that we lead
        self._lost = False
        self._until: float | None = None  # when the renew deadline passes; None before we lead
        self._held: Lease | None = None  # as we wrote it last; None if we don't know
        self._seen: LeaseSpec | None = None
        self._seen_since = 0.0
        self._trouble = ""

    # --- for the rest of poller --------------------------------------------------------------------------

    def leads(self) -> bool:
        """Whether poller may write: the renew deadline, from the start of the last renewal, hasn't passed."""
        until = self._until
        if until is None:
            return False
        if self._clock() < until:
            return not self._lost
        self._lose(f"it wasn't renewed for {self._election.renew_deadline:g} s")
        return False

    def start(self) -> None:
        """Try to acquire the lease, then renew it, in a separate thread: a tick may take too long."""
        if os.getpid() == 1:
            log.warning(
                "poller is process 1, which the kernel doesn't end when the lease expires:"
                " start it by an init, such as tini"
            )
        self._trying = self._system.start_thread(self._keep_trying, "lease")

    def stop(self) -> None:
        """Stop renewing. From now on `on_lost` isn't called; the lease may expire."""
        with self._lock:
            self._ended.set()
            self._last_resort(0)

    def release(self) -> None:
        """Release the lease if we hold it. Call it after `stop`, when no write is in flight."""
        if not self.leads():
            return
        if self._trying:
            self._trying.join(LAST_REQUEST)
        if self._trying and self._trying.is_alive():
            log.warning("the lease %s was not released and will expire: no answer", self._election)
            return
        try:
            lease = self._api.get(self._path, Lease)
            if lease.spec.holder_identity != self.identity:
                return
            self._until = None
            now, changes = self._micro_time(), lease.spec.lease_transitions
            free = LeaseSpec("", 1, acquire_time=now, renew_time=now, lease_transitions=changes)
            self._api.send(Request("PUT", self._path, Lease, Lease(lease.metadata, free)))
            log.info("released the lease %s", self._election)
            if self._telling:
                self._telling.join(LAST_REQUEST)
            self._record(lease, "stopped leading")
        except ApiError as error:
            log.warning("the lease %s was not released and will expire: %s", self._election, error)

    # --- acquiring and renewing -------------------------------------------------------------------------

    def _keep_trying(self) -> None:
        while not self._ended.is_set():
            try:
                self.try_once()
                self._trouble = ""
            except ConflictError as error:
                log.debug("another poller was faster: %s", error)
            except ApiError as error:
                self._tell(error)
            except Exception:  # whatever it is: if this thread ended, poller would stand by for ever
                log.exception("the lease %s", self._election)
            self._ended.wait(self.pause())

    def pause(self) -> float:
        """Seconds until the next try. One that stands by also tries when the lease expires.

        client-go waits for up to 2.2 retry periods, also then: another would take over some seconds later.
        """
        period = self._election.retry_period
        if self._until is not None:
            return period
        some = self._random.random() * SPREAD * period
        expires = self._seen_since + (self._seen.lease_duration_seconds or 0) if self._seen else 0.0
        left = expires - self._clock()
        return min(period - some, left + some) if left > 0 else period - some

    def try_once(self) -> None:
        """Renew the lease if we hold it, or take it if it is free. ApiError when that can't be done."""
        if self._until is not None and not self.leads():
            return None  # too late: we may have been suspended
        if held := self._held:
            try:
                return self._take(held)
            except ApiError as error:  # it may have been written in spite of that, or by someone else
                log.debug("%s; looking", error)
        asked = self._clock()
        try:
            lease = self._api.get(self._path, Lease)
        except NotFoundError:
            return self._take(None)
        self._see(lease.spec)
        holder = lease.spec.holder_identity
        if holder == self.identity:
            self._take(lease)
        elif self._until is not None:
            self._lose(f"{holder or 'nobody'} holds it")
        elif not holder or asked >= self._seen_since + (lease.spec.lease_duration_seconds or 0):
            self._take(lease)
        return None

    def _see(self, spec: LeaseSpec) -> None:
        """Note when we saw the lease change, and log a new leader."""
        before, self._seen = self._seen, spec
        if spec != before:
            self._seen_since = self._clock()
        holder = spec.holder_identity
        if holder and holder != self.identity and holder != (before and before.holder_identity):
            log.info("%s leads (lease %s)", holder, self._election)

    def _take(self, lease: Lease | None) -> None:
        """Write our name into the lease that was seen, or create one."""
        self._held = None
        began, now = self._clock(), self._micro_time()
        acquired, changes = now, 0
        if lease:
            old, changes = lease.spec, lease.spec.lease_transitions or 0
            if old.holder_identity == self.identity:
                acquired = old.acquire_time or now
            else:
                changes += 1
        seconds = ceil(self._election.lease_duration)
        ours = LeaseSpec(self.identity, seconds, acquired, renew_time=now, lease_transitions=changes)
        method, path = ("PUT", self._path) if lease else ("POST", self._all)
        metadata = lease.metadata if lease else {"name": self._election.resource_name}
        written = Request(method, path, Lease, Lease(_with_version(metadata), ours))
        self._taken(self._api.send(written), until=began + self._election.renew_deadline)

    def _taken(self, held: Lease, until: float) -> None:
        """Note that we hold the lease, and until when we may write."""
        leads_already = self._until is not None
        if (leads_already and not self.leads()) or self._clock() >= until:
            return  # the answer came too late
        with self._lock:
            if self._ended.is_set():
                return
            after_that = (self._election.lease_duration - self._election.renew_deadline) / 2
            # Set this before anyone sees that we may write. If the time has passed, the process ends at once.
            self._last_resort(max(until + after_that - self._clock(), AT_ONCE))
            self._held, self._until = held, until
        if not leads_already:
            log.info("became leader (lease %s, as %s)", self._election, self.identity)
            told = partial(self._record, held, "became leader")
            self._telling = self._system.start_thread(told, "lease event")
            self._system.start_thread(self._watch_deadline, "renew deadline")

    def _record(self, lease: Lease, what: str) -> None:
        """Write an event about the lease, with two tries (resourcelock/leaselock.go, RecordEvent)."""
        about = ObjectReference(
            kind="Lease",
            name=self._election.resource_name,
            namespace=self._election.resource_namespace,
            uid=str(lease.metadata.get("uid", "")),
            api_version="coordination.k8s.io/v1",
        )
        now = self._system.now().replace(microsecond=0)
        said = f"{self.identity} {what}"
        event = event_about(about, "Normal", "LeaderElection", said, now, "poller", said)
        path = path_of("events", self._election.resource_namespace)
        for _ in range(2):  # also at poller's end, when nothing else is tried again
            try:
                self._api.with_short_timeouts().send(Request("POST", path, Event, event))
            except ApiError as error:  # a conflict: the first try was written, though its answer was lost
                log.debug("no event that %s: %s", said, error)
                if not error.transient:
                    return
            else:
                return

    def _watch_deadline(self) -> None:
        """Notice the renew deadline in a separate thread: a request for the lease may hang then."""
        while self.leads() and not self._ended.is_set():
            self._ended.wait(min(max(0.0, (self._until or 0.0) - self._clock()), CLOCK_CHECK))

    def _lose(self, why: str) -> None:
        with self._lock:
            if self._ended.is_set():
                return
            self._lost = True
            self._ended.set()
            log.error("lost the lease %s: %s; nothing more is written", self._election, why)
            self._on_lost()

    def _tell(self, error: ApiError) -> None:
        if str(error) != self._trouble and not self._ended.is_set():
            self._trouble = str(error)
            what = "renewed" if self._until else "acquired"
            log.warning("the lease %s can't be %s: %s", self._election, what, error)

    def _micro_time(self) -> str:
        return self._system.now().strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def _with_version(metadata: dict[str, Any]) -> dict[str, Any]:
    """The Lease's metadata, with poller's version and commit among its annotations."""
    annotations = {**(metadata.get("annotations") or {}), VERSION_ANNOTATION: full_version()}
    return {**metadata, "annotations": annotations}
