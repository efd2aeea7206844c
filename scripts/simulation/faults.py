"""What goes wrong between a poller and the API server: a fault has a kind, a time, and its own chance."""

import re
from collections import Counter
from dataclasses import dataclass, field
from enum import Enum
from random import Random


class Kind(Enum):
    """What happens to a request; the value completes "its request ..."."""

    RESET = "is cut off before the server reads it"
    LOST = "is done, and its answer is cut off"
    IGNORED = "is never read, and the connection stays open"
    SILENT = "is done, and never answered"
    LATE = "is answered late"
    SLOW = "is answered byte by byte"
    TRUNCATED = "is done, and half of its answer comes"
    CORRUPT = "is done, and its answer is garbled"
    HTML = "gets a page of HTML"
    BUSY = "gets 429 with Retry-After"
    BUSY_FOR_LONG = "gets 429 with a Retry-After of 40 s"
    BROKEN = "gets a 5xx, and is not done"
    FAILED = "gets a 5xx, though it is done"
    FORBIDDEN = "gets 401 or 403"
    EXPIRED = "gets 410"
    REFUSED = "finds nobody listening"
    STALE = "is answered by a server that lags behind"
    TWICE = "gets each event of its watch twice"
    BEHIND = "gets the events of its watch late"
    WITHHELD = "gets bookmarks instead of the events of its watch, which then breaks"
    TOO_OLD = "gets 410 in its watch"
    LIES = "gets an untrue answer of the extender"
    FORGOTTEN = "is answered as if it were done, and isn't"
    PROXY_ENDS = "is answered, and then its poller's proxy is away for a while"
    CRASH_BEFORE = "is cut off, because its poller was killed"
    CRASH_AFTER = "is done, and its poller was killed"


DOES_NOT_REACH = {
    Kind.RESET,
    Kind.IGNORED,
    Kind.HTML,
    Kind.BUSY,
    Kind.BUSY_FOR_LONG,
    Kind.BROKEN,
    Kind.FORBIDDEN,
    Kind.EXPIRED,
    Kind.FORGOTTEN,
}
"""The server does nothing of such a request."""

WRITES = "POST /api|PUT|PATCH|DELETE"


@dataclass(frozen=True)
class Fault:
    """A kind of fault, from when until when, for which requests, and how often.

    requests: a regular expression for `METHOD /path?query`. often: the share of these requests. nth: only
    this one of them; 0 for any.
    """

    kind: Kind
    begins: float
    ends: float
    requests: str
    often: float
    seed: int
    poller: str = ""
    nth: int = 0

    def __str__(self) -> str:
        which = f"number {self.nth}" if self.nth else f"{self.often:.0%}"
        which += f" of {self.requests!r}" + (f" of {self.poller}" if self.poller else "")
        return f"from {self.begins:.0f} s to {self.ends:.0f} s, {which}: a request {self.kind.value}"


class Faults:
    """Picks the fault of a request. count: how many of each kind there were."""

    def __init__(self, faults: tuple[Fault, ...]) -> None:
        self._all = [(each, re.compile(each.requests), Random(each.seed)) for each in faults]
        self.count: dict[Kind, int] = {}
        self._seen: Counter[Fault] = Counter()

    def of(self, now: float, poller: str, request: str) -> "Hit | None":
        """The fault of this request, if it has one."""
        for fault, requests, chance in self._all:
            if not fault.begins <= now < fault.ends or fault.poller not in ("", poller):
                continue
            if not requests.search(request):
                continue
            self._seen[fault] += 1
            if self._seen[fault] == fault.nth or (not fault.nth and chance.random() < fault.often):
                self.count[fault.kind] = self.count.get(fault.kind, 0) + 1
                return Hit(fault.kind, chance, fault.ends)
        return None


@dataclass
class Hit:
    """A fault that happens to a request, with random numbers for its details. ends: its time in a watch."""

    kind: Kind
    chance: Random = field(repr=False)
    ends: float


ANYTHING, BINDING, LISTS = ".", "POST .*/binding", r"GET /api/v1/(pods|nodes)"
NEXT_PAGES, WATCHES = "continue=", "watch=1"
VOLUMES = "persistentvolume"
EXTENDER = "POST /(filter|prioritize)"

ONE_POD = "(POST|GET) .*/pods/"
"""A binding, and the lookup of what came of it."""

MENU: tuple[tuple[Kind, str], ...] = (
    (Kind.RESET, ANYTHING),
    (Kind.RESET, WRITES),
    (Kind.LOST, ANYTHING),
    (Kind.LOST, BINDING),
    (Kind.LOST, WRITES),
    (Kind.LOST, ONE_POD),
    (Kind.IGNORED, ANYTHING),
    (Kind.SILENT, WRITES),
    (Kind.SILENT, BINDING),
    (Kind.LATE, ANYTHING),
    (Kind.SLOW, ANYTHING),
    (Kind.TRUNCATED, ANYTHING),
    (Kind.TRUNCATED, ONE_POD),
    (Kind.CORRUPT, ANYTHING),
    (Kind.HTML, ANYTHING),
    (Kind.BUSY, ANYTHING),
    (Kind.BUSY, WRITES),
    (Kind.BROKEN, ANYTHING),
    (Kind.FAILED, WRITES),
    (Kind.FAILED, BINDING),
    (Kind.FAILED, ONE_POD),
    (Kind.FORBIDDEN, ANYTHING),
    (Kind.FORBIDDEN, WRITES),
    (Kind.FORBIDDEN, LISTS),
    (Kind.EXPIRED, LISTS),
    (Kind.EXPIRED, NEXT_PAGES),
    (Kind.EXPIRED, WATCHES),
    (Kind.STALE, LISTS),
    (Kind.STALE, LISTS),
    (Kind.TWICE, WATCHES),
    (Kind.BEHIND, WATCHES),
    (Kind.BEHIND, WATCHES),
    (Kind.WITHHELD, WATCHES),
    (Kind.TOO_OLD, WATCHES),
    (Kind.LOST, VOLUMES),
    (Kind.TRUNCATED, VOLUMES),
    (Kind.FAILED, VOLUMES),
    (Kind.LIES, EXTENDER),
    (Kind.SILENT, EXTENDER),
    (Kind.LATE, EXTENDER),
    (Kind.REFUSED, ANYTHING),
    (Kind.CRASH_BEFORE, ANYTHING),
    (Kind.CRASH_BEFORE, WRITES),
    (Kind.CRASH_AFTER, BINDING),
    (Kind.CRASH_AFTER, WRITES),
)


def random_faults(chance: Random, until: float, count: int) -> tuple[Fault, ...]:
    """So many faults, each for some seconds before that time."""
    faults = []
    for _ in range(count):
        kind, requests = chance.choice(MENU)
        begins = chance.uniform(0, until)
        lasts = chance.choice((5.0, 20.0, 60.0))
        crash = kind in (Kind.CRASH_BEFORE, Kind.CRASH_AFTER)
        often = chance.choice((0.02, 0.1) if crash else (0.05, 0.3, 1.0))
        nth = chance.randint(1, 30) if crash and chance.random() < 0.5 else 0
        ends = until if nth else min(begins + lasts, until)
        faults.append(Fault(kind, begins, ends, requests, often, chance.getrandbits(32), nth=nth))
    return tuple(faults)


def faults_of_bindings(chance: Random, begins: float) -> tuple[Fault, Fault]:
    """For a while, what came of bindings isn't known: answers and lookups fail, and watches lag behind."""
    kind = chance.choice((Kind.LOST, Kind.TRUNCATED, Kind.FAILED, Kind.RESET))
    ends = begins + chance.choice((10.0, 30.0))
    about_pods = Fault(kind, begins, ends, ONE_POD, 1.0, chance.getrandbits(32))
    return about_pods, Fault(
        Kind.BEHIND, max(0.0, begins - 30.0), ends, "pods.*watch=1", 1.0, chance.getrandbits(32)
    )
