"""`scripts/profile --way`: the functions that a lone pod leads through, from poll to event.

poller.py places one pod, on three nodes of an embedded API server. Printed are all functions of poller.py and
lib that run in its loop, by file, and how many files and lines that run has loaded. lib/kube isn't counted:
it knows nothing of scheduling.
"""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

import msgspec

from scripts.benchmark import objects
from scripts.benchmark.arena import arena
from scripts.servers.kubectl import kubectl_proxy
from scripts.servers.process import ROOT

NAME = "bench-way"


class Way(NamedTuple):
    """What a run leads through."""

    functions: list[tuple[str, str]]
    """Files, each with a qualified name in it, sorted."""
    loaded: dict[str, int]
    """The lines of each file that was loaded."""

    def counted(self) -> list[tuple[str, str]]:
        """The functions that count."""
        return [(file, name) for file, name in self.functions if not file.startswith("lib/kube/")]


def of_a_lone_pod(folder: Path) -> Way:
    """Run poller once, in a process of its own. folder: for the server's files."""
    with arena("embedded", folder) as running:
        running.prepare(3, bound=0)
        running.create(objects.pods(1, NAME, alike=True))
        with kubectl_proxy(running.url, running.kubeconfig) as proxy:
            options = "--once", "--scheduler-name", NAME, "--proxy", proxy
            command = [sys.executable, "-m", "scripts.benchmark.way", *options]
            done = subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE)
    return msgspec.json.decode(done.stdout.splitlines()[-1], type=Way)


def run() -> None:
    """Be poller, and print a Way as the last line of standard output."""
    import lib.startup
    import poller

    seen: set[tuple[str, str]] = set()

    @contextmanager
    def noted() -> Iterator[None]:
        sys.setprofile(lambda frame, event, _: seen.add(_function(frame)) if event == "call" else None)
        try:
            yield
        finally:
            sys.setprofile(None)

    def loop(parts: Any) -> None:
        with noted():
            poller.loop(parts)

    try:
        lib.startup.run(loop)
    finally:
        ours = [(file, name) for file, name in sorted(seen) if _counts(file) and not _is_a_part(name)]
        files = {str(module.__file__) for module in sys.modules.values() if getattr(module, "__file__", None)}
        paths = [Path(file) for file in sorted(files) if _counts(_short(file))]
        loaded = {_short(str(path)): len(path.read_text().splitlines()) for path in paths}
        print(msgspec.json.encode(Way(ours, loaded)).decode())


def _function(frame: FrameType) -> tuple[str, str]:
    return _short(frame.f_code.co_filename), frame.f_code.co_qualname


def _is_a_part(name: str) -> bool:
    """Whether a qualified name ends with `<listcomp>` or such: it is a part of its function."""
    return name.rpartition(".")[2].startswith("<")


def _short(file: str) -> str:
    return file.removeprefix(f"{ROOT}/")


def _counts(file: str) -> bool:
    return file == "poller.py" or file.startswith("lib/")


def show(way: Way) -> None:
    """Print it, for people."""
    counted, before = way.counted(), ""
    for file, name in counted:
        print(f"{'' if file == before else file:60} {name}")
        before = file
    files = len({file for file, _ in counted})
    print(f"\n{len(counted)} functions in {files} files, without lib/kube")
    print(f"{len(way.loaded)} files with {sum(way.loaded.values()):,} lines were loaded")


if __name__ == "__main__":
    run()
