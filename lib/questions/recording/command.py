"""The verb `record`: nodes and pods of a cluster as they come and go, into a file for `replay`."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from lib.kube.escaping import escaped
from lib.kube.objects import Node, Pod
from lib.questions.asking import Common, complain, own_option
from lib.questions.durations import in_words, seconds_in
from lib.questions.errors import CommandLineError
from lib.questions.recording.lines import ADDED, DELETED
from lib.questions.recording.watching import Watching
from lib.questions.recording.writer import Recording
from lib.questions.snapshot import read_cluster
from lib.questions.verdict import Verdict
from lib.scheduling.text import count


def ask_record(
    common: Common,
    output: Annotated[
        Path,
        own_option(
            "The file to write, such as day.jsonl.gz; it must not be there yet.",
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
) -> Verdict:
    """Record a cluster's nodes and pods as they come and go, for `replay`. Any scheduler may place them.

    Of an object, only that is kept which decisions depend on: no environment, no commands, no secrets, and of
    pods and nodes no annotations.

    Exit 0: it was recorded, perhaps with gaps. 1: it was broken off; what is in the file can be replayed.
    """
    length = seconds_in(during, "--for")
    if not length:
        raise CommandLineError("--for: must be longer than 0s")
    if common.from_file:
        raise CommandLineError("record watches a cluster: --from has no place here")
    with common.api() as api:
        assert api  # as there are no files
        snapshot = read_cluster(api, whole=True)
        common.tell_notes(snapshot)
        with Recording(output, anonymous=anonymous) as recording:
            for kind in snapshot.objects:
                for each in snapshot.of(kind) if kind not in (Node, Pod) else ():
                    recording.add(each)
            watching = Watching(api, recording, lambda text: complain(common.context.command_path, text))
            watching.begin()
            console = Console(stderr=True, markup=False)
            with console.status("recording") as status, suppress(KeyboardInterrupt), _interruptible():
                for seconds in watching.seconds(length):
                    status.update(f"{in_words(seconds)} of {in_words(length)}: {_summary(recording)}")
            recording.end()
    typer.echo(escaped(f"{output}: {in_words(recording.seconds)}; {_summary(recording)}"))
    return Verdict.YES


def _summary(recording: Recording) -> str:
    counts = recording.counts
    came, ended = counts[f"Pod {ADDED}"], counts[f"Pod {DELETED}"]
    said = f"{count(came, 'pod')} came, {ended:,} ended"
    if recording.gaps:
        said += f"; {count(len(recording.gaps), 'gap')}, of {in_words(sum(recording.gaps))} together"
    return said


@contextmanager
def _interruptible() -> Iterator[None]:
    """A block that SIGTERM and a terminal that is closed end, too, as Ctrl-C does; not if that is ignored."""
    numbers = [each for each in (signal.SIGTERM, signal.SIGHUP) if signal.getsignal(each) != signal.SIG_IGN]
    before = {number: signal.signal(number, signal.default_int_handler) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
