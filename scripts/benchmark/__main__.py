"""`python -m scripts.benchmark`: measure, and print a table."""

import os
import platform
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from types import FrameType

import msgspec
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from scripts.benchmark.arena import arena
from scripts.benchmark.contestants import CONTESTANTS
from scripts.benchmark.figures import Results
from scripts.benchmark.options import Options, options
from scripts.benchmark.run import run, steps
from scripts.benchmark.table import console, show

ENDING = signal.SIGINT, signal.SIGTERM


def main(chosen: Options) -> None:
    load = os.getloadavg()[0]
    with folder(chosen.logs) as logs, progress() as shown, arena(chosen.server, logs) as running:
        taking_part = [each for each in CONTESTANTS if set(each.parts) & set(chosen.only)]
        wanted = [each for each in taking_part if each.key in chosen.schedulers]
        left_out = {each.key: why for each in wanted if (why := each.missing(running))}
        contestants = [each for each in wanted if each.key not in left_out]
        figures = run(steps(running, chosen, contestants), running, shown)
    results = Results(chosen.server, machine(), load, chosen.idle, figures, left_out)
    show(results, console())
    if chosen.json:
        chosen.json.write_bytes(msgspec.json.format(msgspec.json.encode(results)))


@contextmanager
def folder(chosen: Path | None) -> Iterator[Path]:
    """The folder for logs: the chosen one, or a temporary one that is deleted at the end."""
    if chosen:
        chosen.mkdir(parents=True, exist_ok=True)
        yield chosen.resolve()
    else:
        with TemporaryDirectory(prefix="poller-bench-") as name:
            yield Path(name)


def progress() -> Progress:
    """A progress bar on standard error. It is drawn seldom, as drawing takes CPU time from those measured."""
    columns = BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TextColumn("{task.description}")
    return Progress(*columns, console=Console(stderr=True), refresh_per_second=1)


def machine() -> str:
    python = f"Python {platform.python_version()}"
    return f"{os.cpu_count()} cores, {platform.system()} {platform.machine()}, {python}"


def stop(number: int, _: FrameType | None) -> None:
    """Leave every block, which ends what was started. Further signals don't interrupt that."""
    for each in ENDING:
        signal.signal(each, signal.SIG_IGN)
    sys.exit(128 + number)


if __name__ == "__main__":
    if not Path("/proc/self/stat").exists():
        sys.exit("scripts/bench reads CPU times and memory from /proc: run it on Linux")
    for each in ENDING:
        signal.signal(each, stop)
    main(options())
