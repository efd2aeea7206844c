"""Starts a cluster for the lessons, and a shell for it."""

import json
import os
import shlex
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from scripts.learning.folder import FOLDER, OWN
from scripts.learning.lab import Lab, LabError
from scripts.servers.embedded import minicluster
from scripts.servers.kubectl import KUBECTL
from scripts.servers.process import ROOT, serving

NODES_NEEDED = 3
UNIX = "unix://"
CLUSTER_IS_OURS = "LAB_CLUSTER_IS_OURS"
"""The variable of the shell that says whether the cluster was started for the lab."""

SHELLS = OWN / "shells"
"""A folder with a file for each running shell; its name is the process id."""

SCHEDULERS = ("scheduler.sh", "poller.py", "sched.py", "sched.sh", "sched", "kube-scheduler")
"""The file names of what lessons let place pods."""

START_OF_SHELL = """\
learn() {{ PYTHONPATH={root} {python} -P -m scripts.learning "$@"; }}
PS1='lab \\$ '
learn
"""


def lab_of(environment: Mapping[str, str]) -> Lab | None:
    """The cluster of the shell that runs this command; None outside of the lab's shell."""
    proxy = environment.get("POLLER_PROXY")
    if not proxy or CLUSTER_IS_OURS not in environment:
        return None
    return Lab(proxy, own=environment[CLUSTER_IS_OURS] == "yes", folder=FOLDER)


def environment_for(lab: Lab, proxy: str, kubeconfig: str) -> dict[str, str]:
    """The environment variables that pages use. LabError when the cluster has too few nodes."""
    nodes = sorted(lab.nodes())
    if len(nodes) < NODES_NEEDED:
        raise LabError(
            f"the lessons need {NODES_NEEDED} nodes that are ready, beside a control plane, and this cluster"
            f" has {len(nodes)}. With kind: kind create cluster --config scripts/lab/kind.yaml"
        )
    return {
        CLUSTER_IS_OURS: "yes" if lab.own else "no",
        "KUBECONFIG": kubeconfig,
        "LAB_FOLDER": str(lab.folder),
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "POLLER_PROXY": proxy,
        "PROXY_SOCKET": proxy.removeprefix(UNIX),
        **{f"NODE{number}": name for number, name in enumerate(nodes, 1)},
    }


@contextmanager
def own_cluster() -> Iterator[dict[str, str]]:
    """An embedded API server with three nodes, and the environment of a shell beside it."""
    with minicluster("--nodes", str(NODES_NEEDED)) as url, TemporaryDirectory(prefix="lab-") as folder:
        cluster: dict[str, object] = {"name": "lab", "cluster": {"server": url}}
        kubeconfig = _write_kubeconfig(folder, "lab", {"cluster": "lab", "user": ""}, [cluster])
        with _proxy(folder, kubeconfig) as proxy:
            yield environment_for(Lab(proxy, own=True, folder=FOLDER), proxy, kubeconfig)


@contextmanager
def current_cluster() -> Iterator[dict[str, str]]:
    """The environment of a shell beside the cluster of the current kubectl context, in namespace default."""
    context = current_context()
    with TemporaryDirectory(prefix="lab-") as folder:
        kubeconfig = _write_kubeconfig(folder, "poller-lab", {**context, "namespace": "default"}, [])
        theirs = os.environ.get("KUBECONFIG") or str(Path.home() / ".kube" / "config")
        kubeconfig = f"{kubeconfig}{os.pathsep}{theirs}"  # kubectl merges these files; ours sets the context
        with _proxy(folder, kubeconfig) as proxy:
            yield environment_for(Lab(proxy, own=False, folder=FOLDER), proxy, kubeconfig)


def current_context() -> dict[str, str]:
    """The cluster and the user of the current kubectl context. LabError when there is none."""
    command = [str(KUBECTL), "config", "view", "--minify", "--output=json"]
    done = subprocess.run(command, capture_output=True, text=True)
    contexts = json.loads(done.stdout or "{}").get("contexts") or () if not done.returncode else ()
    if not contexts:
        raise LabError(f"kubectl has no current context: {done.stderr.strip() or 'see kubectl config'}")
    return {key: contexts[0]["context"].get(key, "") for key in ("cluster", "user")}


def run_shell(environment: Mapping[str, str]) -> None:
    """Run a bash that knows the command `learn`, until the user leaves it."""
    start = OWN / "bashrc"
    start.write_text(START_OF_SHELL.format(root=shlex.quote(str(ROOT)), python=shlex.quote(sys.executable)))
    command = ["bash", "--noprofile", "--rcfile", str(start), "-i"]
    SHELLS.mkdir(exist_ok=True)
    variables = {**os.environ, **environment}
    variables.pop("PYTHONPATH", None)  # scripts/learn has set it
    with subprocess.Popen(command, cwd=ROOT, env=variables) as shell:
        known = SHELLS / str(shell.pid)
        known.touch()
        try:
            shell.wait()
        finally:
            known.unlink(missing_ok=True)


def schedulers_of_shells() -> dict[int, str]:
    """The schedulers that run in the lab's shells, also in other terminals: by process id."""
    try:
        listed = subprocess.run(["ps", "-axo", "pid=,ppid=,args="], capture_output=True, text=True)
    except FileNotFoundError:  # a container without ps
        return {}
    processes: dict[int, tuple[int, str]] = {}
    for line in listed.stdout.splitlines():
        pid, parent, *arguments = line.split(None, 2)
        processes[int(pid)] = int(parent), " ".join(arguments)
    ours = {int(each.name) for each in SHELLS.glob("*")}
    found: dict[int, str] = {}
    for process, (ancestor, started) in processes.items():
        name = _scheduler_in(started)
        while name and ancestor in processes and ancestor not in ours:
            ancestor = processes[ancestor][0]
        if name and ancestor in ours:
            found[process] = name
    # A subshell of scheduler.sh has the same arguments: only the first of each family is named.
    return {pid: name for pid, name in found.items() if processes[pid][0] not in found}


def _scheduler_in(command: str) -> str:
    """The scheduler that a command runs, such as `python -u .lab/sched.py`; empty for other commands."""
    first, *rest = [Path(word).name for word in command.split()] or [""]
    runs = [first, *rest] if first.startswith(("python", "bash", "sh")) else [first]
    return next((word for word in runs if word in SCHEDULERS), "")


@contextmanager
def _proxy(folder: str, kubeconfig: str) -> Iterator[str]:
    """A kubectl proxy on a socket in a folder, which only this user can reach."""
    socket = Path(folder) / "proxy.sock"
    command = ["env", f"KUBECONFIG={kubeconfig}", str(KUBECTL), "proxy", f"--unix-socket={socket}"]
    try:
        with serving(command):
            yield f"{UNIX}{socket}"
    except RuntimeError as error:
        raise LabError(str(error)) from None


def _write_kubeconfig(
    folder: str, name: str, context: dict[str, str], clusters: list[dict[str, object]]
) -> str:
    file = Path(folder) / "kubeconfig"
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": clusters,
        "contexts": [{"name": name, "context": context}],
        "current-context": name,
    }
    file.write_text(json.dumps(content, indent=2))  # JSON is YAML
    return str(file)
