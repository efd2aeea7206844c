"""`why` of a recording: which pods waited between two times, for what, and what would have helped most.

A pod is asked about again and again while it waits, with the cluster as it was then. Where pods were placed,
and when, is what was recorded.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import cached_property
from math import ceil, inf, log2
from pathlib import Path
from typing import Any

import msgspec

from lib.kube.changes import Change, Kind
from lib.kube.objects import Node, Pod, with_parts
from lib.kube.store import key_of
from lib.questions.deciding import Decider
from lib.questions.durations import time_in, time_text
from lib.questions.errors import CommandLineError, QuestionError
from lib.questions.pending import MOST_TRIED, Asking, Pending
from lib.questions.recording.reading import Gap, Reading
from lib.questions.snapshot import Snapshot
from lib.questions.verdict import Verdict, verdict
from lib.questions.waits import UNKNOWN, Causes, Wait, cause_of

QUICK = 2.0
"""A pod that had a node within so many seconds didn't wait: a scheduler, and the recorder, take some time."""

GRACE = 5.0
"""A gap is recorded after what came in it, but no more seconds later."""

MOST_COMPARED = 1_000_000
"""Pods are compared with nodes so often, at most, to know what they waited for; a tenth as often to know what
would have helped. So a question takes about ten seconds, however large the cluster is."""


def as_it_was(file: Path, text: str) -> Snapshot:
    """A recorded cluster as it was at a time; "" for the last that was recorded. QuestionError."""
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
    """`from 02:13:05 to 02:14:00 nothing was recorded: why`. began: the recording; beside: another time."""
    since, until = (time_text(began + timedelta(seconds=each), beside) for each in (gap.began, gap.ended))
    return f"from {since} to {until} nothing was recorded{f': {gap.why}' if gap.why else ''}"


@dataclass
class Past:
    """The answer.

    began: the recording; since, until: the times asked about, in seconds since then. waits: those that took
    longer than a scheduler needs. quick: how many pods had a node sooner. gaps: of that time. most_at: when
    the most pods waited; most: how many; pending: what was the matter then, with the first of them.
    """

    began: datetime
    since: float
    until: float
    where: str
    waits: list[Wait] = field(default_factory=list)
    quick: int = 0
    gaps: Sequence[Gap] = ()
    most_at: float = 0.0
    most: int = 0
    pending: Pending | None = None

    @property
    def causes(self) -> Causes:
        """What the pods waited for, in that time or before."""
        return Causes.of(self.waits, self.until)

    @property
    def never(self) -> list[Wait]:
        """The waits of pods that got no node: they still waited, or were deleted."""
        return [each for each in self.waits if not each.node]

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
                {"from": self._iso(each.began), "to": self._iso(each.ended), "why": each.why}
                for each in self.gaps
            ],
            "placed_at_once": self.quick,
            "waits": [
                {
                    "from": self._iso(each.began),
                    "to": self._iso(each.ended),
                    **each.as_json(self.until),
                }
                for each in self.waits
            ],
            "causes": [each.as_json() for each in self.causes],
            "most_waited_at": self._iso(self.most_at) if self.pending else None,
            "what_helps_most": self.pending.helps_as_json() if self.pending else [],
        }


@dataclass
class _Asked:
    """A pod that waits, as it is asked about."""

    wait: Wait
    pod: Pod

    @cached_property
    def kind(self) -> bytes:
        """The same for pods that only their names tell apart."""
        no_name = {"name": "", "uid": "", "creation_timestamp": None, "finalizers": ()}
        return msgspec.json.encode(with_parts(self.pod, metadata=no_name), enc_hook=int)


class AskingPast:
    """Reads a recording, and asks why pods waited.

    between: times as people write them; "" for all of the recording. covers: whether a pod is meant.
    where: which pods are, in words. QuestionError when the recording can't be read, has none of these, or
    isn't of that time.
    """

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
        self._asked: list[_Asked] = []
        self._waiting: dict[str, _Asked] = {}
        self._read()
        if not self._has_any:
            raise QuestionError(f"{file}: has no pods{where} up to then")
        gaps = [each for each in self._reading.gaps if self._since < each.ended and each.began < self._until]
        waits = [each.wait for each in self._asked]
        self.answer = Past(self._reading.began, self._since, self._until, where, waits, self._quick, gaps)
        nodes = len(self.snapshot.of(Node)) or 1
        self._most_helped = min(MOST_TRIED, max(10, MOST_COMPARED // 10 // nodes))
        questions = max(100, MOST_COMPARED // nodes)
        self._plan = _times(self._asked, self._since, self._until, questions)
        self._skip(min(self._plan, default=inf))
        self._decider = decider_of(self.snapshot)

    def __len__(self) -> int:
        return len(self._plan)

    def steps(self) -> Iterator[None]:
        """Asks. Yields after each time that was asked about; then the answer is complete."""
        answer, decider, changes = self.answer, self._decider, iter(self._changes)
        change = next(changes, None)
        most = max(self._plan, key=lambda at: sum(map(len, self._plan[at].values())), default=0.0)
        for at, kinds in sorted(self._plan.items()):
            while change and change[0] <= at:
                decider.apply(change[1])
                change = next(changes, None)
            for asked in kinds.values():
                decision = decider.check(asked[0].pod)
                cause = decider.gated(asked[0].pod) or cause_of(decision, decider.cache)
                for each in asked:
                    each.wait.note(cause, at)
            if at == most:
                pods = [each.pod for asked in kinds.values() for each in asked]
                then = replace(self.snapshot, objects={**self.snapshot.objects, Pod: [*pods]})
                asking = Asking(pods[: self._most_helped], [], then, decider)
                for _ in asking.steps():
                    pass
                answer.most_at, answer.most, answer.pending = at, len(pods), asking.answer
            yield
        for each in self._asked:
            if not each.wait.causes:
                each.wait.note(UNKNOWN, each.wait.began)

    def _skip(self, until: float) -> None:
        """Let the snapshot be that of the first time that is asked about: so less has to be followed."""
        known = {key_of(each.metadata): each for kind in (Node, Pod) for each in self.snapshot.of(kind)}
        skipped = bisect_right(self._changes, until, key=lambda each: each[0])
        for _, change in self._changes[:skipped]:
            if change.kind == Kind.DELETED:
                known.pop(key_of(change.object.metadata), None)
            else:
                known[key_of(change.object.metadata)] = change.object
        del self._changes[:skipped]
        for kind in (Node, Pod):
            self.snapshot.of(kind)[:] = [each for each in known.values() if isinstance(each, kind)]

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
        self._asked.sort(key=lambda each: each.wait.began)

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
        each = change.object
        if not isinstance(each, Pod):
            return
        self._has_any = self._has_any or self._covers(each)
        key = key_of(each.metadata)
        waits = self._waiting.get(key)
        if change.kind == Kind.DELETED:
            if waits:
                self._over(waits, at, "")
        elif waits and (each.spec.node_name or each.metadata.deletion_timestamp):
            self._over(waits, at, each.spec.node_name)
        elif not waits and _can_be_tried(each) and self._covers(each):
            began = at
            if not self._reading.has_begun and each.metadata.creation_timestamp:
                since_then = each.metadata.creation_timestamp - self._reading.began
                began = min(at, since_then / timedelta(seconds=1))
            self._waiting[key] = _Asked(Wait(str(each), began), each)

    def _over(self, asked: _Asked, at: float, node: str) -> None:
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


Plan = Mapping[float, Mapping[bytes, Sequence[_Asked]]]
"""By time, and by kind: the pods that are asked about then."""


def _times(asked: Sequence[_Asked], since: float, until: float, most: int) -> Plan:
    """When to ask about each pod: when its wait begins, and then at equal distances.

    most: how many questions there may be, each about all pods that are alike. If these would be more, the
    distances are longer; and if that isn't enough, nothing is asked about waits that begin and end between
    two of the times.
    """
    steps = [2.0**i for i in range(ceil(log2(max(2.0, until - since))) + 1)]
    for step, distance in [*((1.0, each) for each in steps), *((each, inf) for each in steps)]:
        plan: dict[float, dict[bytes, list[_Asked]]] = {}
        questions = 0
        for each in asked:
            at = ceil(max(each.wait.began, since) / step) * step
            while at < min(each.wait.ended, until) and questions <= most:
                alike = plan.setdefault(at, {}).setdefault(each.kind, [])
                questions += not alike
                alike.append(each)
                at = (at // distance + 1) * distance if distance < inf else inf
        if questions <= most:
            return plan
    return {}
