"""The end of a run, when nothing happens: a poller polls, renews its lease, and does nothing else."""

import re
from collections import Counter
from collections.abc import Callable

from scripts.minicluster.resources import PODS
from scripts.minicluster.store import Store, Stored, WatchEvent

from .agenda import Agenda
from .evictions import nominated_to
from .network import Exchange
from .values import node_of

REST = 30.0
"""Seconds at the end in which a poller does nothing but poll: each list once a second at most."""

SETTLES = 60.0
"""Seconds until then, when schedulers have contended for room: pods leave, and are tried again."""

LATEST = 600.0
"""For so many seconds, contending schedulers put the end off: that goes on as long as there are pods."""

RETRIED_AFTER = 300.0
"""Seconds after which a pod is tried once more without any change, and its condition is written."""

VARIES = re.compile("[?&](resourceVersion|timeoutSeconds)=[^&]*|(?<=continue=)[^&]*")
"""What differs between the requests of two polls."""


class Quiet:
    """ends: when the run does. found: is told the rule that is broken, and how."""

    def __init__(self, agenda: Agenda, store: Store, ends: float, found: Callable[[str, str], None]) -> None:
        self.ends = ends
        self._agenda, self._store, self._found = agenda, store, found
        self._latest = ends + LATEST
        self._requests: Counter[tuple[str, str]] = Counter()  # by poller, without what differs

    def happened(self, event: WatchEvent) -> None:
        """Put the end off if a pod is bound where another scheduler's preemptor waits: that goes on."""
        if event.resource != PODS or event.kind != "MODIFIED" or not event.old or node_of(event.old):
            return
        ends = min(self._agenda.now + SETTLES + REST, self._latest)
        if ends > self.ends and node_of(event.new) and self._takes_room(event.new):
            self.ends = ends
            self._requests.clear()

    def _takes_room(self, pod: Stored) -> bool:
        """Whether a pod of another scheduler is nominated to a pod's node, and waits."""
        scheduler, name = pod.content["spec"]["schedulerName"], node_of(pod)
        return any(
            nominated_to(each) == name
            and not node_of(each)
            and each.content["spec"]["schedulerName"] != scheduler
            for each in self._store.every(PODS)
        )

    def exchanged(self, exchange: Exchange) -> None:
        """A poller has made a request."""
        if exchange.when > self.ends - REST:
            request = f"{exchange.asked.method} {VARIES.sub('', exchange.asked.target)}"
            self._requests[exchange.process.name, request] += 1

    def check(self) -> None:
        """At the end: what pollers did that they should not."""
        for (poller, request), count in self._requests.items():
            once = 1 if self._agenda.now > RETRIED_AFTER else 0
            if "/leases/" not in request and not request.startswith("GET ") and count > once:
                self._found("rest", f"{poller} still writes: {request}, {count} times")
            elif count > REST * 1.1 and "continue=" not in request:
                self._found("rest", f"{poller} asks {count} times in {REST:.0f} s: {request}")
