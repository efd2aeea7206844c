"""The schedulers that are compared, and how each is started."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from scripts.benchmark.arena import Arena
from scripts.benchmark.processes import Process, line_with, process
from scripts.servers.kubectl import KUBECTL
from scripts.servers.process import ROOT
from scripts.servers.real import assets

LIVING = ("burst", "single", "start", "idle")
"""The parts for every contestant that runs as a scheduler in a cluster."""

COMPARED = (*LIVING, "throughput", "beside")
BINDING_ONLY = ("burst", "throughput")

Command = Callable[[Arena, str, str], list[str]]
"""Returns the command line of a contestant, for an arena, the URL to connect to, and a scheduler name."""


@dataclass(frozen=True)
class Contestant:
    """`key` names it on the command line, `title` in the table, `scheduler_name` in pods.

    missing: returns why it can't take part here; empty if it can. most_pods: more pods would take too long.
    workloads: the throughput of only these workloads is measured; None: of all.
    """

    key: str
    title: str
    command: Command
    missing: Callable[[Arena], str] = lambda _: ""
    behind_proxy: bool = True
    parts: Sequence[str] = LIVING
    most_pods: int | None = None
    workloads: Sequence[str] | None = None

    @property
    def scheduler_name(self) -> str:
        return f"bench-{self.key}"


@dataclass(frozen=True)
class Running:
    """A contestant's own process, and the kubectl proxy beside it, if it needs one."""

    process: Process
    proxy: Process | None


@contextmanager
def running(contestant: Contestant, arena: Arena, url: str, *options: str) -> Iterator[Running]:
    """Run a contestant for as long as the block takes. url: of the API server, or of a relay before it.

    options: more of them for its command line.
    """
    with ExitStack() as stack:
        proxy = None
        if contestant.behind_proxy:
            proxy = stack.enter_context(process(_proxy_command(arena, url), arena.folder / "proxy.log"))
            url = f"http://{line_with('Starting to serve on ', proxy).rsplit(' ', 1)[1]}"
        command = [*contestant.command(arena, url, contestant.scheduler_name), *options]
        log = arena.folder / f"{contestant.key}.log"
        environment = {"PATH": _path(), **_compiled()}
        yield Running(stack.enter_context(process(command, log, environment)), proxy)


def _proxy_command(arena: Arena, url: str) -> list[str]:
    kubeconfig = arena.kubeconfig or os.devnull
    return [str(KUBECTL), "--server", url, "--kubeconfig", str(kubeconfig), "proxy", "--port=0"]


def _path() -> str:
    return os.pathsep.join([str(KUBECTL.parent), os.environ["PATH"]])


# --- poller ---------------------------------------------------------------------------------------------


def poller(*options: str) -> Command:
    def command(_: Arena, url: str, name: str) -> list[str]:
        poller = str(ROOT / "poller.py")
        return [sys.executable, poller, f"--proxy={url}", f"--scheduler-name={name}", *options]

    return command


@cache
def _compiled() -> dict[str, str]:
    """The environment in which Python finds poller's modules compiled, whatever our environment says."""
    environment = {"PYTHONDONTWRITEBYTECODE": ""}
    command = [sys.executable, str(ROOT / "poller.py"), "--check-config"]
    subprocess.run(command, env={**os.environ, **environment}, capture_output=True, check=True, timeout=60)
    return environment


@cache
def _poller_options() -> str:
    command = [sys.executable, str(ROOT / "poller.py"), "--help"]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout


def _no_watch(_: Arena) -> str:
    return "" if "--watch" in _poller_options() else "poller.py has no --watch"


# --- the lab's script, and the bare loop ----------------------------------------------------------------


def lab(_: Arena, url: str, name: str) -> list[str]:
    return ["bash", str(ROOT / "scripts" / "lab" / "scheduler.sh"), url, name]


def _no_lab(_: Arena) -> str:
    absent = [tool for tool in ("bash", "curl") if not shutil.which(tool)]
    return f"{' and '.join(absent)} not found" if absent else ""


def bare(_: Arena, url: str, name: str) -> list[str]:
    return [sys.executable, "-m", "scripts.benchmark.bare", url, name]


# --- kube-scheduler -------------------------------------------------------------------------------------


def kube_scheduler(**limits: float) -> Command:
    """kube-scheduler with these limits of its client, qps and burst. Its defaults are 50 and 100."""

    def command(arena: Arena, url: str, name: str) -> list[str]:
        config = {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "leaderElection": {"leaderElect": False},
            "clientConnection": {"kubeconfig": str(arena.kubeconfig), **limits},
            "profiles": [{"schedulerName": name}],
        }
        file = arena.folder / f"{name}.yaml"
        file.write_text(json.dumps(config))  # JSON is YAML
        return [str(_binary()), f"--config={file}", f"--master={url}", "--secure-port=0"]

    return command


def _binary() -> Path | None:
    folder = assets()
    found = shutil.which("kube-scheduler", path=folder) if folder else None
    return Path(found) if found else None


def _no_kube_scheduler(arena: Arena) -> str:
    if arena.kind != "real":
        return "kube-scheduler needs a real API server"
    return "" if _binary() else "no kube-scheduler beside kube-apiserver"


BASELINES = ("kube-unlimited", "bare")
"""The others are compared with the first of these that has a figure."""

CONTESTANTS = (
    Contestant(
        "poller", "poller", poller(), parts=("decide", "replay", "tick", *COMPARED, "size", "failover")
    ),
    Contestant(
        "watch", "poller --watch", poller("--watch"), _no_watch, parts=(*COMPARED, "size", "failover")
    ),
    Contestant("lab", "lab's script", lab, _no_lab, most_pods=50),
    Contestant("bare", "bare loop", bare, parts=BINDING_ONLY, workloads=["SchedulingBasic"]),
    Contestant("kube", "kube-scheduler", kube_scheduler(), _no_kube_scheduler, behind_proxy=False),
    Contestant(
        "kube-unlimited",
        "kube-scheduler, no limits",
        kube_scheduler(qps=-1),
        _no_kube_scheduler,
        behind_proxy=False,
        parts=(*COMPARED, "size"),
    ),
)
