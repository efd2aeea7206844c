"""The writes for a pod that was not scheduled: its condition, the evictions of victims, the event.

Source: pkg/scheduler/schedule_one.go, handleSchedulingFailure; framework/preemption/executor.go
"""

import logging
from dataclasses import dataclass, field
from typing import Any

from lib.kube.errors import ApiError, ConflictError, NotFoundError, NotLeadingError, UnreachableError
from lib.kube.objects import Pod
from lib.kube.pod_writes import FailedSchedulingEvent
from lib.kube.write import Together, Write
from lib.scheduling.decision import Decision
from lib.scheduling.pod_life import PodLife
from lib.service.writes.gate import WriteGate

log = logging.getLogger(__name__)

PREEMPTION = "preemption"
"""The name of the write that evicts a pod."""


@dataclass(eq=False)
class PodWrite:
    """A write about a pod. what: a word for it."""

    pod: Pod
    what: str
    write: Write[Any]


@dataclass(eq=False)
class PodRecords:
    """What is written of a pod that has no node: its event, and the recordings that have begun, or wait."""

    event: FailedSchedulingEvent = field(default_factory=FailedSchedulingEvent)
    begun: "Recording | None" = None
    waiting: "Recording | None" = None


@dataclass(eq=False)
class Recording:
    """The writes for a pod that was not scheduled, and what came of them.

    unwritten: those that were not made, because the API server wasn't there. failures: those that failed, and
    why. outdated: whether there is a later one, or the pod has changed.
    """

    decision: Decision
    status: PodWrite
    rest: list[PodWrite]
    life: PodLife
    records: PodRecords
    unwritten: list[PodWrite] = field(default_factory=list)
    failures: list[tuple[PodWrite, ApiError]] = field(default_factory=list)
    outdated: bool = False

    def __post_init__(self) -> None:
        self.unwritten = [self.status, *self.rest]

    @property
    def is_outdated(self) -> bool:
        """Whether the writes are no longer true; then no other one is begun."""
        return self.outdated or not self.life.is_queued

    @property
    def not_evicted(self) -> list[Pod]:
        """The victims that are still to be evicted, or couldn't be."""
        failed = [each for each, _ in self.failures]
        return [each.pod for each in self.unwritten + failed if each.what == PREEMPTION]

    @property
    def is_preemptor_alone(self) -> bool:
        """Whether a victim couldn't be evicted."""
        return any(each.what == PREEMPTION for each, _ in self.failures)

    def write(self, gate: WriteGate) -> Write["Recording"]:
        """First the pod's status, then all others at the same time; returns itself."""
        yield from self._make([self.status])
        if self.status not in self.unwritten and not (self.is_outdated or gate.closed):
            yield from self._make(self.rest)
        return self

    def _make(self, writes: list[PodWrite]) -> Write[None]:
        answers = yield Together([each.write for each in writes])
        for each, answer in zip(writes, answers, strict=True):
            if isinstance(answer, UnreachableError | NotLeadingError):
                continue
            self.unwritten.remove(each)
            if each is self.status and isinstance(answer, NotFoundError | ConflictError):
                log.debug("%s is gone, and nothing is written of it: %s", each.pod, answer)
                self.outdated = True
            elif isinstance(answer, ApiError):
                self.failures.append((each, answer))
