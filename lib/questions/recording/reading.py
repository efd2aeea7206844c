"""Reads what `record` wrote, also of a recording that was killed: up to its last whole line.

A folder of recordings, as `record --keep` writes one, is read as one recording.
"""

import zlib
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import reduce
from operator import or_
from pathlib import Path
from typing import Any

import msgspec

from lib.kube.bounded_files import unpacking
from lib.kube.changes import Change, Kind
from lib.kube.objects import Node, Object, Pod, decode_hook
from lib.kube.store import key_of
from lib.questions.durations import in_words
from lib.questions.errors import QuestionError, file_errors
from lib.questions.files import KINDS
from lib.questions.recording.lines import (
    ADDED,
    BEGIN,
    DELETED,
    END,
    GAP,
    LATE,
    SUFFIXES,
    VERSION,
    Head,
    Line,
)
from lib.questions.snapshot import Snapshot
from lib.scheduling.text import count

MAX_LINE = 32 << 20
"""The most bytes of a line. etcd holds no object of more than 1.5 MiB."""


NODE_OR_POD = Node, Pod


class _Kind(msgspec.Struct):
    kind: str = ""


class _OfKind(msgspec.Struct):
    object: _Kind


_head = msgspec.json.Decoder(Head)
_any_kind: Any = reduce(or_, KINDS.values())
_line = msgspec.json.Decoder(Line[_any_kind], dec_hook=decode_hook)
_of_kind = msgspec.json.Decoder(_OfKind)


def is_recording(file: Path) -> bool:
    """Whether a file is a recording by its name, or a folder has recordings."""
    return file.name.endswith(SUFFIXES) or (file.is_dir() and any(recordings_in(file)))


def recordings_in(folder: Path) -> list[Path]:
    """The recordings of a folder, by name: `record --keep` names them by their time."""
    return sorted(file for file in folder.iterdir() if file.name.endswith(SUFFIXES))


@dataclass(frozen=True)
class Gap:
    """A time in which nothing was recorded. Times are in seconds since the recording began."""

    began: float
    ended: float
    why: str


Happening = tuple[float, Change[Any]]
"""When something happened to a node or a pod, in seconds since the recording began; and what."""


@dataclass
class Reading:
    """A recording, and what was read of it up to now. file: it, or a folder of several.

    known: by key, the nodes and pods that are there. others: objects that are recorded once.
    """

    file: Path
    has_begun: bool = False
    has_ended: bool = False
    last_at: float = 0.0
    gaps: list[Gap] = field(default_factory=list)
    known: dict[str, Node | Pod] = field(default_factory=dict)
    others: list[Object] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._began: datetime | None = None
        self._offset = 0.0  # of the file that is being read
        self._listed: dict[str, Node | Pod] | None = None  # what it says that there is, until it begins

    @property
    def began(self) -> datetime:
        """When it began; known once its first line was read."""
        assert self._began
        return self._began

    def happenings(self) -> Iterator[Happening]:
        """What happens to nodes and pods, one after the other; first, those are added that it begins with.

        While it yields, `known` is as it was before. Of what is deleted and wasn't known, there are
        only names. QuestionError names the line that can't be read.
        """
        files = recordings_in(self.file) if self.file.is_dir() else [self.file]
        for file in files:
            number = 0
            for number, line in enumerate(_lines(file), 1):
                try:
                    happened = self._take(_line.decode(line)) if number > 1 else self._head(line)
                except (ValueError, RecursionError) as error:  # msgspec's errors, too
                    what = f"is not {'a' if number > 1 else 'the first'} line of a recording"
                    raise QuestionError(f"{file}:{number}: {what}: {_problem(line, error)}") from error
                for happening in happened:
                    yield happening
                    self._know(happening[1])
            if not number and len(files) == 1:
                raise QuestionError(f"{file}: is empty")
        if not self.has_begun:
            raise QuestionError(f"{self.file}: was broken off before all nodes and pods were listed")

    @property
    def note(self) -> str:
        """What a reader must know: that it was broken off, or has gaps; "" for nothing."""
        notes = []
        if not self.has_ended:
            notes.append(f"was broken off after {in_words(self.last_at)}")
        if self.gaps:
            missing = in_words(sum(gap.ended - gap.began for gap in self.gaps))
            notes.append(
                f"has {count(len(self.gaps), 'gap')}, of {missing} together: what happened then is missing"
            )
        return f"{self.file}: this recording {'; it '.join(notes)}" if notes else ""

    def snapshot(self) -> Snapshot:
        """The cluster as it is now."""
        found = Snapshot()
        found.of(Pod)
        for item in (*self.known.values(), *self.others):
            found.of(type(item)).append(item)
        return found

    def _head(self, line: bytes) -> Iterable[Happening]:
        """The first line of a file. ValueError when it can't be understood."""
        head = _head.decode(line)
        if head.recording != VERSION:
            raise ValueError(f"its version is {head.recording}; this poller reads {VERSION}")
        self._begins(head.began)
        self._listed, self.has_ended = {}, False
        if not self.has_begun:
            self.others.clear()  # a file that was broken off before it began may have listed the same
        return ()

    def _begins(self, text: str) -> None:
        """A file begins at this time."""
        began = datetime.fromisoformat(text)
        if not self.has_begun:
            self._began = began
        else:
            self._offset = max((began - self.began) / timedelta(seconds=1), self.last_at)

    def _take(self, line: Line[Object]) -> Iterable[Happening]:
        """Another line. ValueError when it can't be understood."""
        if line.event == BEGIN:
            if line.time:
                self._begins(line.time)
            return self._begin()
        at, item = self._offset + line.at, line.object
        if self._listed is None:
            if at < self.last_at:
                raise ValueError(f"it is of {at:g} s, before the line before, which is of {self.last_at:g} s")
            self.last_at = at
        if line.event == GAP:
            self._gap(Gap(max(0.0, at - line.seconds), at, line.why))
        elif line.event == END:
            self.has_ended = True
        elif item is None:
            raise ValueError(f"{line.event} without an object")
        elif not isinstance(item, NODE_OR_POD):
            if not self.has_begun:
                self.others.append(item)
        elif self._listed is not None:
            self._listed[key_of(item.metadata)] = item
        else:
            return ((at, self._change(line.event, item)),)
        return ()

    def _begin(self) -> Iterable[Happening]:
        """All that there is was listed. In a folder's next file, what differs from before has happened."""
        at, listed, self._listed = self._offset, self._listed or {}, None
        if at - self.last_at > LATE:
            self._gap(Gap(self.last_at, at, "there is no recording of that time"))
        self.last_at = at
        changes = [self._change(DELETED, item) for key, item in self.known.items() if key not in listed]
        for key, item in listed.items():
            old = self.known.get(key)
            if not old or (old.metadata, old.spec, old.status) != (item.metadata, item.spec, item.status):
                changes.append(self._change(ADDED, item))
        for change in changes:
            yield at, change
        self.has_begun = True

    def _gap(self, gap: Gap) -> None:
        """A gap. Nodes and pods are watched apart: if both are away at the same time, it is one gap."""
        while self.gaps and gap.began <= self.gaps[-1].ended:
            last = self.gaps.pop()
            longer = max(last, gap, key=lambda gap: gap.ended - gap.began)
            gap = Gap(min(last.began, gap.began), max(last.ended, gap.ended), longer.why)
        self.gaps.append(gap)

    def _change(self, event: str, item: Node | Pod) -> Change[Any]:
        before = self.known.get(key_of(item.metadata))
        if event == DELETED:
            return Change(Kind.DELETED, before or item, before)
        return Change(Kind.MODIFIED if before else Kind.ADDED, item, before)

    def _know(self, change: Change[Any]) -> None:
        """Note in `known` that this has happened."""
        key = key_of(change.object.metadata)
        if change.kind == Kind.DELETED:
            self.known.pop(key, None)
        else:
            self.known[key] = change.object


def _lines(file: Path) -> Iterator[bytes]:
    """The whole lines. A file that ends within one, or a gzipped one without its end, was broken off."""
    with file_errors(file), unpacking(file) as lines, suppress(EOFError, zlib.error):
        while (line := lines.readline(MAX_LINE)).endswith(b"\n"):
            yield line


def _problem(line: bytes, error: Exception) -> str:
    """What is wrong with a line, in words."""
    with suppress(ValueError, RecursionError):
        if (kind := _of_kind.decode(line).object.kind) not in KINDS:
            return f"objects of kind {kind} aren't in recordings"
    return str(error)
