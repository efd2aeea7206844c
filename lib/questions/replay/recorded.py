"""Reads what `record` wrote, also of a recording that was killed: up to its last whole line."""

import zlib
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from math import inf
from pathlib import Path

import msgspec

from lib.kube.bounded_files import unpacking
from lib.kube.changes import Change, Kind
from lib.kube.objects import UNREADABLE, Json, Node, Object, Pod, with_parts
from lib.kube.store import key_of
from lib.questions.deciding import without_node
from lib.questions.durations import in_words
from lib.questions.errors import QuestionError, file_errors
from lib.questions.files import DECODERS
from lib.questions.recording.lines import BEGIN, DELETED, END, GAP, VERSION, Head, Line
from lib.questions.replay.trace import Arrival, Trace
from lib.questions.snapshot import Snapshot
from lib.scheduling.text import count

LATENCY = 10.0
"""A scheduler needs so many seconds to place a pod: a shorter wait counts as a part of its run. A replay
places it at once, and so it ends when it ended."""

MAX_LINE = 32 << 20
"""The most bytes of a line. etcd holds no object of more than 1.5 MiB."""

_head = msgspec.json.Decoder(Head)
_line = msgspec.json.Decoder(Line)


def is_recording(file: Path) -> bool:
    """Whether a file's name is that of a recording."""
    return file.name.endswith((".jsonl", ".jsonl.gz"))


def read_recording(file: Path, nodes: Snapshot | None) -> tuple[Snapshot, Trace]:
    """The cluster as it was when the recording began, and what happened then.

    nodes: a cluster whose nodes take the place of the recorded ones. QuestionError names the line.
    """
    reading = _Reading(keep_nodes=nodes is None)
    if nodes:
        reading.snapshot.of(Node).extend(nodes.of(Node))
    number = 0
    for number, line in enumerate(_lines(file), 1):
        try:
            if number == 1:
                reading.head(_head.decode(line))
            else:
                reading.take(_line.decode(line))
        except ValueError as error:  # msgspec's errors, too
            what = "is not a line of a recording" if number > 1 else "is not the first line of a recording"
            raise QuestionError(f"{file}:{number}: {what}: {error}") from error
    if not number:
        raise QuestionError(f"{file}: is empty")
    if not reading.has_begun:
        raise QuestionError(f"{file}: was broken off before all nodes and pods were listed")
    trace = reading.trace(file)
    if not reading.snapshot.of(Node):
        raise QuestionError(f"{file}: holds no nodes; give some with --nodes FILE")
    if not len(trace.arrivals):
        raise QuestionError(f"{file}: no pods came while it was recorded")
    return reading.snapshot, trace


def _lines(file: Path) -> Iterator[bytes]:
    """The whole lines. A file that ends within one, or a gzipped one without its end, was broken off."""
    with file_errors(file), unpacking(file) as lines, suppress(EOFError, zlib.error):
        while (line := lines.readline(MAX_LINE)).endswith(b"\n"):
            yield line


@dataclass
class _Seen:
    """A pod that came: when, when it had a node, and on which it was first seen."""

    pod: Pod
    at: float
    placed_at: float = inf

    @property
    def is_gated(self) -> bool:
        """Whether no scheduler was to place it yet."""
        return bool(self.pod.spec.scheduling_gates)


@dataclass
class _Reading:
    """What was read up to now."""

    keep_nodes: bool
    snapshot: Snapshot = field(default_factory=Snapshot)
    has_begun: bool = False
    has_ended: bool = False
    last_at: float = 0.0
    gaps: list[float] = field(default_factory=list)
    arrivals: list[Arrival] = field(default_factory=list)
    events: list[tuple[float, Change[Node] | Change[Pod]]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._came: dict[str, _Seen] = {}  # by key: pods that are there, and came while it was recorded
        self._ran: dict[str, Pod] = {}  # by key: pods that were on their nodes before
        self._nodes: dict[str, Node] = {}
        self._kinds: dict[bytes, Pod] = {}

    def head(self, head: Head) -> None:
        """The first line."""
        if head.recording != VERSION:
            raise ValueError(f"its version is {head.recording}; this poller reads {VERSION}")

    def take(self, line: Line) -> None:
        """Another line. ValueError when it can't be understood."""
        if line.at < self.last_at:
            raise ValueError(
                f"it is of {line.at:g} s, before the line before, which is of {self.last_at:g} s"
            )
        if self.has_begun:
            self.last_at = line.at
        if line.event == BEGIN:
            self.has_begun = True
        elif line.event == GAP:
            self.gaps.append(line.seconds)
        elif line.event == END:
            self.has_ended = True
        elif line.object is None:
            raise ValueError(f"{line.event} without an object")
        else:
            self._object(line.event, _object_of(line.object))

    def _object(self, event: str, each: Object) -> None:
        if isinstance(each, Node):
            self._node(event, each)
        elif isinstance(each, Pod):
            self._pod(event, each)
        elif event != DELETED:
            self.snapshot.of(type(each)).append(each)

    def _node(self, event: str, node: Node) -> None:
        name = node.metadata.name
        before = self._nodes.pop(name, None)
        if event != DELETED:
            self._nodes[name] = node
        if not self.keep_nodes:
            return
        if not self.has_begun:
            self.snapshot.of(Node).append(node)
        elif event == DELETED:
            if before:
                self.events.append((self.last_at, Change(Kind.DELETED, before, before)))
        else:
            kind = Kind.MODIFIED if before else Kind.ADDED
            self.events.append((self.last_at, Change(kind, node, before)))

    def _pod(self, event: str, pod: Pod) -> None:
        key, on_node = key_of(pod.metadata), bool(pod.spec.node_name)
        if event == DELETED:
            self._gone(key)
        elif key in self._ran:
            return
        elif key in self._came:
            seen = self._came[key]
            if seen.is_gated and not pod.spec.scheduling_gates:
                seen.pod, seen.at = pod, self.last_at
            if on_node and seen.placed_at == inf:
                seen.placed_at = self.last_at
        elif on_node and (not self.has_begun or _is_static(pod)):
            if not self.keep_nodes:  # its node isn't among those that are given
                return
            self._ran[key] = pod
            if self.has_begun:
                self.events.append((self.last_at, Change(Kind.ADDED, pod)))
            else:
                self.snapshot.of(Pod).append(pod)
        else:
            self._came[key] = _Seen(pod, self.last_at, self.last_at if on_node else inf)

    def _gone(self, key: str) -> None:
        if seen := self._came.pop(key, None):
            if seen.is_gated:
                return
            if seen.placed_at < inf:
                waited = seen.placed_at - seen.at
                began = seen.placed_at if waited > LATENCY else seen.at
                self._arrived(seen, runs_for=self.last_at - began)
            else:
                self._arrived(seen, leaves_at=self.last_at)
        elif pod := self._ran.pop(key, None):
            self.events.append((self.last_at, Change(Kind.DELETED, pod, pod)))

    def _arrived(self, seen: _Seen, runs_for: float = inf, leaves_at: float = inf) -> None:
        metadata = seen.pod.metadata
        like = self._like(seen.pod)
        self.arrivals.append(Arrival(seen.at, metadata.name, like, runs_for, leaves_at, key_of(metadata)))

    def _like(self, pod: Pod) -> Pod:
        """The pod without what only it has; one object for all that are alike."""
        no_name = {"name": "", "uid": "", "creation_timestamp": None}
        like = with_parts(without_node(pod), metadata=no_name)
        return self._kinds.setdefault(msgspec.json.encode(like, enc_hook=int), like)

    def trace(self, file: Path) -> Trace:
        """What happened, after the last line."""
        for seen in self._came.values():
            if not seen.is_gated:
                self._arrived(seen)
        notes = []
        if not self.has_ended:
            notes.append(f"was broken off after {in_words(self.last_at)}")
        if self.gaps:
            gaps = count(len(self.gaps), "gap")
            notes.append(f"has {gaps}, of {in_words(sum(self.gaps))} together: what happened then is missing")
        note = f"{file}: this recording {'; it '.join(notes)}" if notes else ""
        return Trace(sorted(self.arrivals, key=lambda each: each.at), self.events, note)


def _object_of(body: Json) -> Object:
    """A line's object. ValueError when it is none."""
    decoder = DECODERS.get(str(body.get("kind")))
    if decoder is None:
        raise ValueError(f"objects of kind {body.get('kind')} aren't in recordings")
    try:
        # Strictly from JSON: quantities and times are decoded as in answers of the API server.
        return decoder.decode(msgspec.json.encode(body))
    except UNREADABLE as error:
        raise ValueError(str(error)) from error


def _is_static(pod: Pod) -> bool:
    """Whether its node's kubelet made it: no scheduler placed it."""
    return any(owner.kind == "Node" for owner in pod.metadata.owner_references)
