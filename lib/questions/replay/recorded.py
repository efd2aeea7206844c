"""What a recording says of a cluster, as a trace."""

from dataclasses import dataclass, field
from math import inf
from pathlib import Path
from typing import Any

import msgspec

from lib.kube.changes import Change, Kind
from lib.kube.objects import Node, Pod, with_parts
from lib.kube.store import key_of
from lib.questions.deciding import without_node
from lib.questions.errors import QuestionError
from lib.questions.recording.reading import Reading
from lib.questions.replay.trace import Arrival, Trace
from lib.questions.snapshot import Snapshot

LATENCY = 10.0
"""A scheduler needs so many seconds to place a pod: a shorter wait counts as a part of its run. A replay
places it at once, and so it ends when it ended."""


def read_recording(file: Path, nodes: Snapshot | None) -> tuple[Snapshot, Trace]:
    """The cluster as it was when the recording began, and what happened then.

    nodes: a cluster whose nodes take the place of the recorded ones. QuestionError names the line.
    """
    reading = Reading(file)
    past = _Past(reading, keep_nodes=nodes is None)
    if nodes:
        past.snapshot.of(Node).extend(nodes.of(Node))
    for at, change in reading.happenings():
        past.happen(at, change)
    for other in reading.others:
        past.snapshot.of(type(other)).append(other)
    trace = past.trace()
    if not past.snapshot.of(Node):
        raise QuestionError(f"{file}: holds no nodes; give some with --nodes FILE")
    if not len(trace.arrivals):
        raise QuestionError(f"{file}: no pods came while it was recorded")
    return past.snapshot, trace


@dataclass
class _Seen:
    """A pod that came: when, when it had a node, and on which it was first seen."""

    pod: Pod
    at: float
    placed_at: float = inf
    deleted_at: float = inf
    """When it was first seen that it is being deleted."""

    @property
    def is_gated(self) -> bool:
        """Whether no scheduler was to place it yet."""
        return bool(self.pod.spec.scheduling_gates)


@dataclass
class _Past:
    """What was read up to now."""

    reading: Reading
    keep_nodes: bool
    snapshot: Snapshot = field(default_factory=Snapshot)
    last_at: float = 0.0
    arrivals: list[Arrival] = field(default_factory=list)
    events: list[tuple[float, Change[Node] | Change[Pod]]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._came: dict[str, _Seen] = {}  # by key: pods that are there, and came while it was recorded
        self._ran: dict[str, Pod] = {}  # by key: pods that were on their nodes before
        self._kinds: dict[bytes, Pod] = {}

    def happen(self, at: float, change: Change[Any]) -> None:
        """Something has happened."""
        self.last_at = at
        if isinstance(change.object, Pod):
            self._pod(change.object, is_gone=change.kind == Kind.DELETED)
        elif not self.keep_nodes:
            return
        elif not self.reading.has_begun:
            self.snapshot.of(Node).append(change.object)
        elif change.before or change.kind != Kind.DELETED:
            self.events.append((at, change))

    def _pod(self, pod: Pod, *, is_gone: bool) -> None:
        key, on_node = key_of(pod.metadata), bool(pod.spec.node_name)
        if is_gone:
            self._gone(key)
        elif key in self._ran:
            if pod.metadata.deletion_timestamp and not self._ran[key].metadata.deletion_timestamp:
                self.events.append((self.last_at, Change(Kind.MODIFIED, pod, self._ran[key])))
                self._ran[key] = pod
        elif key in self._came:
            seen = self._came[key]
            if pod.metadata.deletion_timestamp:
                seen.deleted_at = min(seen.deleted_at, self.last_at)
            if seen.is_gated and not pod.spec.scheduling_gates:
                seen.pod, seen.at = pod, self.last_at
            if on_node and seen.placed_at == inf:
                seen.placed_at = self.last_at
        elif on_node and (not self.reading.has_begun or _is_static(pod)):
            if not self.keep_nodes:  # its node isn't among those that are given
                return
            self._ran[key] = pod
            if self.reading.has_begun:
                self.events.append((self.last_at, Change(Kind.ADDED, pod)))
            else:
                self.snapshot.of(Pod).append(pod)
        elif on_node or not pod.metadata.deletion_timestamp:
            self._came[key] = _Seen(pod, self.last_at, self.last_at if on_node else inf)

    def _gone(self, key: str) -> None:
        if seen := self._came.pop(key, None):
            if seen.is_gated:
                return
            if seen.placed_at < inf:
                waited = seen.placed_at - seen.at
                began = seen.placed_at if waited > LATENCY else seen.at
                grace = max(0.0, self.last_at - max(seen.deleted_at, began))
                self._arrived(seen, runs_for=self.last_at - began, grace=grace)
            else:
                self._arrived(seen, leaves_at=min(seen.deleted_at, self.last_at))
        elif pod := self._ran.pop(key, None):
            self.events.append((self.last_at, Change(Kind.DELETED, pod, pod)))

    def _arrived(self, seen: _Seen, **ends: float) -> None:
        metadata = seen.pod.metadata
        like = self._like(seen.pod)
        self.arrivals.append(Arrival(seen.at, metadata.name, like, uid=key_of(metadata), **ends))

    def _like(self, pod: Pod) -> Pod:
        """The pod without what only it has; one object for all that are alike."""
        no_name = {"name": "", "uid": "", "creation_timestamp": None, "finalizers": ()}
        like = with_parts(without_node(pod), metadata=no_name)
        return self._kinds.setdefault(msgspec.json.encode(like, enc_hook=int), like)

    def trace(self) -> Trace:
        """What happened, after the last line."""
        for seen in self._came.values():
            if not seen.is_gated:
                self._arrived(seen)
        return Trace(sorted(self.arrivals, key=lambda arrival: arrival.at), self.events, self.reading.note)


def _is_static(pod: Pod) -> bool:
    """Whether its node's kubelet made it: no scheduler placed it."""
    return any(owner.kind == "Node" for owner in pod.metadata.owner_references)
