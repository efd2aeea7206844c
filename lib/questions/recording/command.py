"""The verb `record`: nodes and pods of a cluster as they come and go, into a file for `replay`."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from math import inf
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from lib.kube.errors import ApiError
from lib.kube.escaping import escaped
from lib.kube.objects import Node, Pod
from lib.kube.system import MACHINE
from lib.questions.asking import Common, complain, own_option
from lib.questions.durations import in_words, seconds_in
from lib.questions.errors import CommandLineError, file_errors
from lib.questions.recording.anonymous import Hashing
from lib.questions.recording.lines import ADDED, DELETED
from lib.questions.recording.reading import recordings_in
from lib.questions.recording.watching import Watching
from lib.questions.recording.writer import Recording
from lib.questions.snapshot import read_cluster
from lib.questions.verdict import Verdict
from lib.scheduling.text import count

FILES = 12
"""With --keep, each file has this part of the time that is kept: the oldest is deleted as a whole."""

LEAST_KEPT = 12.0
"""The least seconds that --keep keeps."""


def ask_record(
    common: Common,
    output: Annotated[
        Path,
        own_option(
            "The file to write, such as day.jsonl.gz; it must not be there yet. With --keep, a folder.",
            "--output",
            "-o",
            metavar="FILE",
        ),
    ],
    during: Annotated[
        str,
        own_option("For how long. Ctrl-C ends it earlier.", "--for", metavar="DURATION"),
    ] = "1h",
    anonymous: Annotated[
        bool,
        own_option(
            "Replace names, also of images and labels, by hashes: the same name by the same hash.",
            "--anonymous",
        ),
    ] = False,
    keep: Annotated[
        str,
        own_option(
            "Record until it is ended, into a folder that -o names, and keep the last so many hours there.",
            metavar="DURATION",
            show_default="one file, for as long as --for says",
        ),
    ] = "",
) -> Verdict:
    """Record a cluster's nodes and pods as they come and go, for `replay`, and for `why --from FILE`.

    Any scheduler may place them. Of an object, only that is kept which decisions depend on: no environment,
    no commands, no secrets, and of pods and nodes no annotations.

    Exit 0: it was recorded, perhaps with gaps. 1: it was broken off; what is in the file can be asked.
    """
    length, kept = seconds_in(during, "--for"), seconds_in(keep, "--keep") if keep else inf
    if not length:
        raise CommandLineError("--for: must be longer than 0s")
    if kept < LEAST_KEPT:
        raise CommandLineError(f"--keep {keep}: must be {in_words(LEAST_KEPT)} at least")
    if common.from_file:
        raise CommandLineError("record watches a cluster: --from has no place here")
    hashing = Hashing() if anonymous else None
    if keep:
        with file_errors(output):
            output.mkdir(parents=True, exist_ok=True)
    with common.api() as api:
        assert api  # as there are no files
        snapshot = read_cluster(api, whole=True)
        common.tell_notes(snapshot)
        watching = Watching(api, lambda text: complain(common.context.command_path, text))
        with _Ending() as ending:
            goes_on = True
            while goes_on and not ending.is_told:
                file = _next_file(output, kept) if keep else output
                with Recording(file, hashing) as recording:
                    for kind in snapshot.objects:
                        for item in snapshot.of(kind) if kind not in (Node, Pod) else ():
                            recording.add(item)
                    watching.begin(recording)
                    goes_on = _watch(watching, recording, kept / FILES if keep else length, ending) and bool(
                        keep
                    )
                    if goes_on:  # before this file ends: so there is no gap
                        with suppress(ApiError):  # or else they are as they were
                            snapshot = read_cluster(api, whole=True)
                    recording.end()
                typer.echo(escaped(f"{file}: {in_words(recording.seconds)}; {_summary(recording)}"))
    return Verdict.YES


def _next_file(folder: Path, kept: float) -> Path:
    """A new file in a folder, from which files are deleted that are older than so many seconds."""
    now = MACHINE.now()
    with file_errors(folder):
        for file in recordings_in(folder):
            if now.timestamp() - file.stat().st_mtime > kept:
                file.unlink()
    return folder / now.strftime("%Y%m%dT%H%M%SZ.jsonl.gz")


def _watch(watching: Watching, recording: Recording, length: float, ending: "_Ending") -> bool:
    """Record for so many seconds. Returns False if it is ended earlier."""
    console = Console(stderr=True, markup=False)
    with console.status("recording") as status, suppress(KeyboardInterrupt), ending.at_once():
        for seconds in watching.seconds(length):
            status.update(f"{in_words(seconds)} of {in_words(length)}: {_summary(recording)}")
        return True
    return False


def _summary(recording: Recording) -> str:
    counts = recording.counts
    came, ended = counts[f"Pod {ADDED}"], counts[f"Pod {DELETED}"]
    said = f"{count(came, 'pod')} came, {ended:,} ended"
    if recording.gaps:
        said += f"; {count(len(recording.gaps), 'gap')}, of {in_words(sum(recording.gaps))} together"
    return said


class _Ending:
    """Notes, while its block runs, that Ctrl-C, SIGTERM or a terminal that is closed ends the recording.

    A signal that the process ignores ends nothing. What is being written is written to its end; a second
    signal breaks that off. is_told: whether there was a signal.
    """

    def __init__(self) -> None:
        self.is_told = self._is_at_once = False
        self._before: dict[int, Any] = {}

    def __enter__(self) -> "_Ending":
        numbers = signal.SIGINT, signal.SIGTERM, signal.SIGHUP
        noticed = [number for number in numbers if signal.getsignal(number) != signal.SIG_IGN]
        self._before = {number: signal.signal(number, self._note) for number in noticed}
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _note(self, *_: object) -> None:
        was_told, self.is_told = self.is_told, True
        if was_told or self._is_at_once:
            raise KeyboardInterrupt

    @contextmanager
    def at_once(self) -> Iterator[None]:
        """A block that a signal ends: KeyboardInterrupt, also for one that came before."""
        self._is_at_once = True
        try:
            if self.is_told:
                raise KeyboardInterrupt
            yield
        finally:
            self._is_at_once = False
