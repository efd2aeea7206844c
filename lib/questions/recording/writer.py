"""Writes a recording, so that what a killed one leaves can be read."""

from collections import Counter
from contextlib import suppress
from gzip import GzipFile
from hashlib import blake2b
from pathlib import Path

import msgspec

from lib.kube.changes import AnyChange, Kind
from lib.kube.objects import Json, Object
from lib.kube.store import key_of
from lib.kube.system import MACHINE
from lib.questions.errors import QuestionError, file_errors
from lib.questions.recording.anonymous import Hashing
from lib.questions.recording.lines import (
    ADDED,
    BEGIN,
    DELETED,
    END,
    GAP,
    MODIFIED,
    VERSION,
    Head,
    Line,
    body_of,
    names_of,
)

STEP = 0.0001
"""The least seconds from one line to the next."""

LEVEL = 6
"""zlib's usual compression. gzip's own, 9, takes several times as long for little."""

CAN_BE_REPLAYED = "; what was recorded before can be replayed"


class Recording:
    """A recording that is being written; a context manager. QuestionError when it can't be written.

    It is gzipped if its name ends in .gz. A file that is there already is never overwritten.
    hashing: replaces names by hashes; None if names are kept.
    """

    def __init__(self, file: Path, hashing: Hashing | None = None) -> None:
        self.counts: Counter[str] = Counter()
        self.gaps: list[float] = []
        self.file = file
        self._hashing = hashing
        self._known: dict[str, bytes] = {}  # by key: a digest of what was written last of each object
        self._began, self._last_at = MACHINE.steady(), 0.0
        with file_errors(file):
            try:
                self._file_out = file.open("xb")
            except FileExistsError:
                what = f"{file} is there already: name another file, or delete it first"
                raise QuestionError(what) from None
        # Without the file's name, which may tell of whose cluster it is.
        packed = GzipFile("", "wb", LEVEL, self._file_out) if file.suffix == ".gz" else None
        self._out = packed or self._file_out
        self._write(Head(VERSION, _time(), hashing is not None))

    def __enter__(self) -> "Recording":
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(OSError), self._file_out:  # flush has reported it
            self._out.close()

    @property
    def seconds(self) -> float:
        """How long it has been recording."""
        return MACHINE.steady() - self._began

    def _now(self) -> float:
        """The time for a line. No two have the same: a replay shall know what came first."""
        self._last_at = round(max(self.seconds, self._last_at + STEP), 4)
        return self._last_at

    def add(self, item: Object) -> None:
        """An object that there is."""
        self._add(ADDED, item, 0.0)

    def begin(self) -> None:
        """All that there is has been added."""
        self._began, self._last_at = MACHINE.steady(), 0.0
        self._write(Line(0.0, BEGIN, time=_time()))
        self.counts.clear()

    def change(self, change: AnyChange) -> None:
        """What has happened to an object. A change of something that isn't kept is left out."""
        if change.kind == Kind.DELETED:
            self._known.pop(key_of(change.object.metadata), None)
            self._count(DELETED, change.object)
            self._write(Line(self._now(), DELETED, self._packed(names_of(change.object))))
        else:
            self._add(ADDED if change.kind == Kind.ADDED else MODIFIED, change.object, self._now())

    def gap(self, seconds: float, why: str) -> None:
        """Nothing was seen for so long."""
        self.gaps.append(seconds)
        self._write(Line(self._now(), GAP, seconds=round(seconds, 3), why="" if self._hashing else why))

    def end(self) -> None:
        """The recording is complete."""
        self._write(Line(self._now(), END))
        self.flush()

    def flush(self) -> None:
        """Let the file have all that was written. QuestionError when the disk is full."""
        with file_errors(self.file, CAN_BE_REPLAYED):
            self._out.flush()

    def _add(self, event: str, item: Object, at: float) -> None:
        body = body_of(item)
        digest = blake2b(msgspec.json.encode(body), digest_size=8).digest()
        key = key_of(item.metadata)  # type: ignore[attr-defined]  # each kind has it
        if self._known.get(key) == digest:
            return
        self._known[key] = digest
        self._count(event, item)
        self._write(Line(at, event, self._packed(body)))

    def _packed(self, body: Json) -> msgspec.Raw:
        return msgspec.Raw(msgspec.json.encode(self._hashing.body(body) if self._hashing else body))

    def _count(self, event: str, item: Object) -> None:
        self.counts[f"{type(item).__name__} {event}"] += 1

    def _write(self, line: Head | Line[msgspec.Raw]) -> None:
        with file_errors(self.file, CAN_BE_REPLAYED):
            self._out.write(msgspec.json.encode(line) + b"\n")


def _time() -> str:
    return MACHINE.now().strftime("%Y-%m-%dT%H:%M:%S.%fZ")
