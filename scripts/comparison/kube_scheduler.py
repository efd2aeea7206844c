"""kube-scheduler's framework and plugins as a program: a JSON line in, a JSON line out.

An ask has: `plugins` (each with `name` and `args`), `pod`, `nodes` (each with `node` and `pods`), `objects`
by kind, `nominated` pods, `changes` (each with `kind`, `old` and `new`), and what it `want`s: filter, score,
postFilter, preEnqueue or hint.
"""

import json
import os
import subprocess
import threading
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from typing import Any

Json = dict[str, Any]

PROGRAM = "KUBE_SCHEDULER_ASK"
"""The environment variable that names the program."""

AT_ONCE = 12
"""So many processes are asked: each sleeps most of the time, until its informers have the objects."""

BATCH = 240
"""So many asks are made at a time."""


class KubeScheduler:
    """The program, asked by several processes; a context manager."""

    def __init__(self, program: str = "") -> None:
        self._program = program or os.environ[PROGRAM]
        self._own = threading.local()
        self._processes: list[subprocess.Popen[str]] = []
        self._threads = ThreadPoolExecutor(AT_ONCE)

    def __enter__(self) -> "KubeScheduler":
        return self

    def __exit__(self, *_: object) -> None:
        self._threads.shutdown(cancel_futures=True)
        for each in self._processes:
            each.kill()
            each.communicate()

    def answers(self, asks: Iterable[Json]) -> Iterator[tuple[Json, Json]]:
        """Each ask, with its answer. An answer with `panic` is none: the program has ended then."""
        left = iter(asks)
        while batch := list(islice(left, BATCH)):
            yield from zip(batch, self._threads.map(self.answer, batch), strict=True)

    def answer(self, ask: Json) -> Json:
        """The answer to one ask."""
        process: subprocess.Popen[str] | None = getattr(self._own, "process", None)
        if process is None:
            process = self._own.process = subprocess.Popen(
                [self._program],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
            )
            self._processes.append(process)
        assert process.stdin
        assert process.stdout
        try:
            process.stdin.write(json.dumps(ask) + "\n")
            process.stdin.flush()
            line = process.stdout.readline()
        except BrokenPipeError:
            line = ""
        if not line:
            self._own.process = None
            return {"panic": "the program has ended"}
        found: Json = json.loads(line)
        return found
