"""What plugins get from poller, besides their own arguments."""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from random import Random

from lib.scheduling.cache import Cache
from lib.scheduling.extenders import Extenders

EPOCH = datetime.fromtimestamp(0, UTC)


@dataclass(frozen=True)
class Handle:
    """A plugin with a field `handle` gets one.

    cache: the loop's; None beside the loop. now: returns the time, in UTC; without a clock, no time passes.
    """

    random: Random = field(default_factory=Random)
    extenders: Extenders = field(default_factory=Extenders)
    cache: Cache | None = None
    now: Callable[[], datetime] = lambda: EPOCH
