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
    """A plugin with a field `handle` gets one."""

    random: Random = field(default_factory=Random)
    extenders: Extenders = field(default_factory=Extenders)
    cache: Cache | None = None
    """The loop's cache; None beside the loop."""
    now: Callable[[], datetime] = lambda: EPOCH
    """Returns the time, in UTC. Without a clock, no time passes."""
