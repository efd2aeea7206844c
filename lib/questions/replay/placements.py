"""Writes which node each pod of a replay got, while it runs."""

import csv
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from lib.kube.objects import Pod
from lib.questions.errors import file_errors
from lib.questions.replay.trace import Arrival

COLUMNS = ("config", "pod", "node", "arrived_seconds", "placed_seconds")

Note = Callable[[str, Arrival, Pod, float], object]
"""Is told of a configuration, an arrival, its pod with a node, and the time."""


@contextmanager
def placements_into(file: Path | None) -> Iterator[Note]:
    """A block in which placements are noted in a CSV; without a file, nowhere.

    QuestionError when it can't be written.
    """
    if file is None:
        yield lambda *_: None
        return
    with file_errors(f"--placements {file}"), file.open("w", newline="") as out:
        rows = csv.writer(out, lineterminator="\n")
        rows.writerow(COLUMNS)

        def note(config: str, arrival: Arrival, pod: Pod, now: float) -> None:
            rows.writerow([config, str(pod), pod.spec.node_name, f"{arrival.at:g}", f"{now:g}"])

        yield note
