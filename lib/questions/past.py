"""`why` of a recording: which pods waited between two times, for what, and what would have helped most.

A pod is asked about again and again while it waits, with the cluster as it was then. Where pods were placed,
and when, is what was recorded.
"""

import gc
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from itertools import permutations
from math import inf
from pathlib import Path
from typing import Any

from lib.kube.changes import Change, Kind
from lib.kube.objects import Node, Pod
from lib.kube.store import key_of
from lib.questions.alike import Kinds
from lib.questions.asked_times import Asked, plan_of
from lib.questions.deciding import Decider
from lib.questions.durations import time_in, time_text
from lib.questions.errors import CommandLineError, QuestionError
from lib.questions.moments import MOST, Moment, Span, moments_of
from lib.questions.pending import MOST_TRIED
from lib.questions.recording.reading import Gap, Reading
from lib.questions.snapshot import Snapshot
from lib.questions.verdict import Verdict, verdict
from lib.questions.waits import UNKNOWN, Causes, Wait, cause_of

QUICK = 2.0
"""A pod that had a node within so many seconds didn't wait: its scheduler and the recorder take some time."""

GRACE = 5.0
"""What came in a gap is recorded before the gap is, at most so many seconds before."""

MOST_COMPARED = 700_000
"""So many times, at most, a pod is compared with a node to know what pods waited for. To know what would have
helped at a moment, it is a thirtieth of that. So an answer takes seconds, however large the cluster is."""


def as_it_was(file: Path, text: str) -> Snapshot:
    """A recorded cluster as it was at a time; "" for the end of the recording.

    QuestionError when the recording isn't of that time.
    """
    reading, found, wanted = Reading(file), Snapshot(), inf
    for at, _ in reading.happenings():
        if wanted == inf and reading.has_begun and text:
            wanted = _seconds(time_in(text, "--at", reading.began), reading)
        if at > wanted and not found.objects:
            found = reading.snapshot()
        if at > wanted + GRACE:
            break
    else:
        if text and (wanted := _seconds(time_in(text, "--at", reading.began), reading)) > reading.last_at:
            raise QuestionError(f"--at {text}: {_ends(reading)}")
        if wanted == inf:
            wanted = reading.last_at
    if not found.objects:
        found = reading.snapshot()
    found.taken_at = reading.began + timedelta(seconds=wanted)
    for gap in reading.gaps:
        if gap.began <= wanted < gap.ended:
            found.note(
                f"{gap_text(gap, reading.began, reading.began)}: the answer is about what was seen before"
            )
    return found


def _seconds(at: datetime, reading: Reading) -> float:
    """A time in seconds since a recording began. QuestionError when it is before that."""
    if at < reading.began:
        began = time_text(reading.began, at)
        raise QuestionError(f"{reading.file}: begins at {began}, after {time_text(at, reading.began)}")
    return (at - reading.began) / timedelta(seconds=1)


def _ends(reading: Reading) -> str:
    ended = reading.began + timedelta(seconds=reading.last_at)
    return f"the recording ends at {time_text(ended, reading.began)}"


def gap_text(gap: Gap, began: datetime, beside: datetime) -> str:
    """`from 02:13:05 to 02:14:00 nothing was recorded: why`.

    began: when the recording began. beside: a time; dates are shown if the gap is of another day.
    """
    since, until = (
        time_text(began + timedelta(seconds=seconds), beside) for seconds in (gap.began, gap.ended)
    )
    return f"from {since} to {until} nothing was recorded{f': {gap.why}' if gap.why else ''}"


@dataclass
class Past:
    """The answer.

    began: when the recording began. since, until: the times asked about, in seconds since it began. waits:
    those that took longer than a scheduler needs. quick: how many pods had a node sooner. gaps: those of that
    time. moments: what would have helped at some moments of it.
    """

    began: datetime
    since: float
    until: float
    where: str
    waits: list[Wait] = field(default_factory=list)
    quick: int = 0
    gaps: Sequence[Gap] = ()
    moments: Sequence[Moment] = ()

    @property
    def causes(self) -> Causes:
        """What the pods waited for, in that time or before."""
        return Causes.of(self.waits, self.until)

    @property
    def never(self) -> list[Wait]:
        """The waits of pods that got no node: they still waited, or were deleted."""
        return [wait for wait in self.waits if not wait.node]

    @property
    def verdict(self) -> Verdict:
        """Whether no pod waited; unknown if that may have happened in a gap."""
        return verdict(not self.waits, sure=bool(self.waits or not self.gaps))

    def time(self, seconds: float) -> datetime:
        """The time so many seconds after the recording began."""
        return self.began + timedelta(seconds=seconds)

    def _iso(self, seconds: float) -> str | None:
        return self.time(seconds).isoformat(timespec="milliseconds") if seconds < inf else None

    def as_json(self) -> dict[str, Any]:
        """The whole answer, but for the verdict."""
        return {
            "since": self._iso(self.since),
            "until": self._iso(self.until),
            "gaps": [
                {"from": self._iso(gap.began), "to": self._iso(gap.ended), "why": gap.why}
                for gap in self.gaps
            ],
            "placed_at_once": self.quick,
            "waits": [
                {
                    "from": self._iso(wait.began),
                    "to": self._iso(wait.ended),
                    **wait.as_json(self.until),
                }
                for wait in self.waits
            ],
            "causes": [cause.as_json() for cause in self.causes],
            "most_waited_at": next(
                (self._iso(moment.at) for moment in self.moments if MOST in moment.what), None
            ),
            "what_helps_most": next((moment.helps for moment in self.moments if MOST in moment.what), []),
            "moments": [moment.as_json(self._iso(moment.at)) for moment in self.moments],
        }


@contextmanager
def _without_collector() -> Iterator[None]:
    """A block without the garbage collector: it would look through a whole cluster, in vain."""
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()  # what stays is not looked through later either
        gc.enable()


class AskingPast:
    """Reads a recording, and asks why pods waited.

    between: times as people write them; "" for all of the recording. covers: whether a pod is meant.
    where: which pods are, in words. QuestionError when the recording can't be read, has none of these, or
    isn't of that time.
    """

    @_without_collector()
    def __init__(
        self,
        file: Path,
        between: tuple[str, str],
        covers: Callable[[Pod], bool],
        decider_of: Callable[[Snapshot], Decider],
        where: str,
    ) -> None:
        self._reading, self._covers, self._texts = Reading(file), covers, between
        self.snapshot = Snapshot()
        self._changes: list[tuple[float, Change[Any]]] = []
        self._asked: list[Asked] = []
        self._waiting: dict[str, Asked] = {}
        self._read()
        if not self._has_any:
            raise QuestionError(f"{file}: has no pods{where} up to then")
        gaps = [gap for gap in self._reading.gaps if self._since < gap.ended and gap.began < self._until]
        waits = [waiting.wait for waiting in self._asked]
        self.answer = Past(self._reading.began, self._since, self._until, where, waits, self._quick, gaps)
        nodes = len(self.snapshot.of(Node)) or 1
        self._most_helped = min(MOST_TRIED, max(5, MOST_COMPARED // 30 // nodes))
        empty = replace(self.snapshot, objects={**self.snapshot.objects, Node: [], Pod: []})
        known = (*self.snapshot.of(Pod), *(change.object for _, change in self._changes))
        kinds = Kinds(decider_of(empty), (pod for pod in known if isinstance(pod, Pod)))
        for waiting in self._asked:
            waiting.kind = kinds.kind(waiting.pod)
        self._plan = plan_of(self._asked, self._since, self._until, max(100, MOST_COMPARED // nodes))
        spans = [
            Span(max(waiting.wait.began, self._since), waiting.wait.ended, waiting.pod)
            for waiting in self._asked
        ]
        self._spans, self.answer.moments = spans, moments_of(spans, self._until, nodes)
        first = min(self._plan, default=0.0)
        self._clusters = dict(self._at_times({first, *(moment.at for moment in self.answer.moments)}))
        self._decider_of, self.snapshot = decider_of, self._clusters[first]

    def __len__(self) -> int:
        return len(self._plan) + len(self.answer.moments)

    def steps(self) -> Iterator[None]:
        """Asks. Yields after each time that was asked about; then the answer is complete."""
        with _without_collector():
            decider, moments = self._decider_of(self.snapshot), self.answer.moments
            first = min(self._plan, default=0.0)
            changes = (change for change in self._changes if change[0] > first)
            change = next(changes, None)
            causes: dict[bytes, str] = {}  # by kind, since the last change
            for at, kinds in sorted(self._plan.items()):
                while change and change[0] <= at:
                    decider.apply(change[1])
                    causes.clear()
                    change = next(changes, None)
                for kind, asked in kinds.items():
                    if kind not in causes:
                        decision = decider.check(asked[0].pod)
                        causes[kind] = decider.gated(asked[0].pod) or cause_of(decision, decider.cache)
                    for waiting in asked:
                        waiting.wait.note(causes[kind], at)
                yield
            for moment in moments:
                moment.ask(self._spans, self._most_helped, self._decider_of(self._clusters[moment.at]))
                yield
            for moment, other in permutations(moments, 2):
                moment.try_those_of(other)
            for waiting in self._asked:
                if not waiting.wait.causes:
                    waiting.wait.note(UNKNOWN, waiting.wait.began)

    def _at_times(self, times: Collection[float]) -> Iterator[tuple[float, Snapshot]]:
        """The cluster as it was at these times."""
        changes = iter(self._changes)
        known = {key_of(item.metadata): item for kind in (Node, Pod) for item in self.snapshot.of(kind)}
        change = next(changes, None)
        for at in sorted(times):
            while change and change[0] <= at:
                changed = change[1].object
                if change[1].kind == Kind.DELETED:
                    known.pop(key_of(changed.metadata), None)
                else:
                    known[key_of(changed.metadata)] = changed
                change = next(changes, None)
            found = replace(self.snapshot, objects=dict(self.snapshot.objects))
            for kind in (Node, Pod):
                found.objects[kind] = [item for item in known.values() if isinstance(item, kind)]
            yield at, found

    # --- reading ----------------------------------------------------------------------------------------

    def _read(self) -> None:
        reading, has_begun = self._reading, False
        self._since, self._until, self._quick, self._has_any = 0.0, inf, 0, False
        for at, change in reading.happenings():
            if reading.has_begun and not has_begun:
                has_begun = True
                self._resolve()
            if has_begun and at >= self._since and not self.snapshot.objects:
                self.snapshot = reading.snapshot()
            if at > self._until + GRACE:
                break
            if at <= self._until:
                self._happen(at, change)
        if not has_begun:
            self._resolve()
        if not self.snapshot.objects:
            self.snapshot = reading.snapshot()
        if self._since > reading.last_at:
            raise QuestionError(f"--since {self._texts[0]}: {_ends(reading)}")
        self._until = min(self._until, reading.last_at)
        for asked in [*self._waiting.values()]:
            self._over(asked, inf, "")
        self._asked.sort(key=lambda waiting: waiting.wait.began)

    def _resolve(self) -> None:
        """Know the times that are asked about, now that it is known when the recording began."""
        since, until = self._texts
        began = self._reading.began
        if since:
            at = time_in(since, "--since", began)
            self._since, began = _seconds(at, self._reading), at
        if until:
            self._until = _seconds(time_in(until, "--until", began), self._reading)
            if self._until <= self._since:
                raise CommandLineError(f"--until {until}: is not after --since {since or 'the beginning'}")

    def _happen(self, at: float, change: Change[Any]) -> None:
        if at >= self._since and self._reading.has_begun:
            self._changes.append((at, change))
        pod = change.object
        if not isinstance(pod, Pod):
            return
        self._has_any = self._has_any or self._covers(pod)
        key = key_of(pod.metadata)
        waits = self._waiting.get(key)
        if change.kind == Kind.DELETED:
            if waits:
                self._over(waits, at, "")
        elif waits and (pod.spec.node_name or pod.metadata.deletion_timestamp):
            self._over(waits, at, pod.spec.node_name)
        elif not waits and _can_be_tried(pod) and self._covers(pod):
            began = at
            if not self._reading.has_begun and pod.metadata.creation_timestamp:
                since_then = pod.metadata.creation_timestamp - self._reading.began
                began = min(at, since_then / timedelta(seconds=1))
            self._waiting[key] = Asked(Wait(str(pod), began), pod)

    def _over(self, asked: Asked, at: float, node: str) -> None:
        """A wait is over, or the recording is."""
        wait = asked.wait
        self._waiting.pop(key_of(asked.pod.metadata), None)
        wait.ended, wait.node = at, node
        if at <= self._since:
            return
        if wait.seconds(self._until) > QUICK:
            self._asked.append(asked)
        else:
            self._quick += bool(node)


def _can_be_tried(pod: Pod) -> bool:
    """Whether a scheduler may look for a node for a pod."""
    return not (pod.spec.node_name or pod.spec.scheduling_gates or pod.metadata.deletion_timestamp)
