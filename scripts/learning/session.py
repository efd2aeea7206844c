"""Starts a cluster for the lessons, and a shell for it."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from scripts.learning.lab import Lab, LabError
from scripts.servers.embedded import minicluster
from scripts.servers.kubectl import KUBECTL
from scripts.servers.process import ROOT, serving

FOLDER = Path(os.environ.get("LAB_FOLDER") or ROOT / ".lab")
"""The folder of the student's files and progress. Pages call it `.lab`."""

NODES_NEEDED = 3
UNIX = "unix://"
OWN = "LAB_CLUSTER_IS_OURS"
"""The variable of the shell that is set when the cluster was started for the lab."""

START_OF_SHELL = """\
learn() {{
    if [ "${{1:-}}" = run ]; then
        eval "$(cd {root} && {python} -m scripts.learning commands)"
    else
        (cd {root} && {python} -m scripts.learning "$@")
    fi
}}
PS1='lab \\$ '
learn
"""


def lab_of(environment: Mapping[str, str]) -> Lab | None:
    """The cluster of the shell that runs this command; None outside of the lab's shell."""
    proxy = environment.get("POLLER_PROXY")
    return Lab(proxy, own=environment[OWN] == "yes") if proxy and OWN in environment else None


def environment_for(lab: Lab, proxy: str, kubeconfig: str) -> dict[str, str]:
    """The environment variables that pages use. LabError when the cluster has too few nodes."""
    nodes = sorted(lab.nodes())
    if len(nodes) < NODES_NEEDED:
        raise LabError(
            f"the lessons need {NODES_NEEDED} nodes that are ready, beside a control plane, and this cluster"
            f" has {len(nodes)}. With kind: kind create cluster --config scripts/lab/kind.yaml"
        )
    return {
        OWN: "yes" if lab.own else "no",
        "KUBECONFIG": kubeconfig,
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "POLLER_PROXY": proxy,
        "PROXY_SOCKET": proxy.removeprefix(UNIX),
        **{f"NODE{number}": name for number, name in enumerate(nodes, 1)},
    }


@contextmanager
def own_cluster() -> Iterator[dict[str, str]]:
    """An embedded API server with three nodes, and the environment of a shell beside it."""
    with minicluster("--nodes", str(NODES_NEEDED)) as url:
        cluster: dict[str, object] = {"name": "lab", "cluster": {"server": url}}
        kubeconfig = _write_kubeconfig("lab", {"cluster": "lab", "user": ""}, [cluster])
        with _proxy(kubeconfig) as proxy:
            yield environment_for(Lab(proxy, own=True), proxy, kubeconfig)


@contextmanager
def current_cluster() -> Iterator[dict[str, str]]:
    """The environment of a shell beside the cluster of the current kubectl context, in namespace default."""
    context = current_context()
    kubeconfig = _write_kubeconfig("poller-lab", {**context, "namespace": "default"}, [])
    theirs = os.environ.get("KUBECONFIG") or str(Path.home() / ".kube" / "config")
    kubeconfig = f"{kubeconfig}{os.pathsep}{theirs}"  # kubectl merges these files; ours sets the context
    with _proxy(kubeconfig) as proxy:
        yield environment_for(Lab(proxy, own=False), proxy, kubeconfig)


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
    start = FOLDER / "bashrc"
    start.write_text(START_OF_SHELL.format(root=ROOT, python=sys.executable))
    command = ["bash", "--noprofile", "--rcfile", str(start), "-i"]
    subprocess.run(command, cwd=ROOT, env={**os.environ, **environment})


@contextmanager
def _proxy(kubeconfig: str) -> Iterator[str]:
    """A kubectl proxy on a socket that only this user can reach."""
    try:
        with TemporaryDirectory(prefix="lab-") as folder:
            socket = Path(folder) / "proxy.sock"
            command = ["env", f"KUBECONFIG={kubeconfig}", str(KUBECTL), "proxy", f"--unix-socket={socket}"]
            with serving(command):
                yield f"{UNIX}{socket}"
    except RuntimeError as error:
        raise LabError(str(error)) from None


def _write_kubeconfig(name: str, context: dict[str, str], clusters: list[dict[str, object]]) -> str:
    file = FOLDER / "kubeconfig"
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": clusters,
        "contexts": [{"name": name, "context": context}],
        "current-context": name,
    }
    file.write_text(json.dumps(content, indent=2))  # JSON is YAML
    return str(file)
