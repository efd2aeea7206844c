"""`python -m scripts.benchmark.profile`: one poll of poller.py, a burst waiting, under pyinstrument."""

import argparse
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from pyinstrument.renderers import ConsoleRenderer, HTMLRenderer
from pyinstrument.session import Session

from scripts.benchmark import objects, way
from scripts.benchmark.arena import Arena, arena
from scripts.benchmark.options import SERVERS, count, server
from scripts.servers.kubectl import kubectl_proxy
from scripts.servers.process import ROOT

NAME = "bench-profile"


def main(chosen: argparse.Namespace) -> None:
    if chosen.way:
        with TemporaryDirectory(prefix="poller-way-") as folder:
            way.show(way.of_a_lone_pod(Path(folder)))
        return
    kind = server(chosen.server)
    say(f"{chosen.nodes:,} nodes and {chosen.pods:,} pods on the {kind} API server")
    with (
        TemporaryDirectory(prefix="poller-profile-") as folder,
        arena(kind, Path(folder)) as running,
    ):
        running.prepare(chosen.nodes, bound=0)
        running.create(objects.pods(chosen.pods, NAME, alike=not chosen.different))
        session = profiled(running, Path(folder, "session"), chosen.poller_options)
    print(ConsoleRenderer(unicode=True, color=sys.stdout.isatty()).render(session))
    if chosen.html:
        chosen.html.write_text(HTMLRenderer().render(session))
        say(f"the same to click through: {chosen.html}")


def profiled(running: Arena, file: Path, more: Sequence[str]) -> Session:
    """Run poller once under the profiler; returns the profile."""
    with kubectl_proxy(running.url, running.kubeconfig) as proxy:
        profiler = [sys.executable, "-m", "pyinstrument", "--renderer=pyisession", f"--outfile={file}"]
        poller = [str(ROOT / "poller.py"), "--once", f"--proxy={proxy}", f"--scheduler-name={NAME}", *more]
        done = subprocess.run([*profiler, *poller], stderr=subprocess.PIPE, text=True)
    last = done.stderr.strip().splitlines()[-1:]
    say(*last)
    if not file.exists():
        sys.exit("scripts/profile: poller didn't get as far as to be profiled")
    return Session.load(file)


def say(*lines: str) -> None:
    print(*lines, sep="\n", file=sys.stderr)


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="scripts/profile", description=__doc__)
    add = parser.add_argument
    add("--server", choices=SERVERS, help="default: real, if etcd and kube-apiserver are there")
    add("--nodes", type=count, default=1000, help="default %(default)s")
    add("--pods", type=count, default=1000, help="default %(default)s")
    add("--different", action="store_true", help="every pod different from every other")
    add("--way", action="store_true", help="instead, the functions that one lone pod leads through")
    add("--html", type=Path, metavar="FILE", help="write the tree there, too, to click through")
    add("poller_options", nargs="*", metavar="-- POLLER-OPTION", help="more options of poller.py")
    return parser.parse_args()


if __name__ == "__main__":
    main(options())
