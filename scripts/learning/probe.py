"""Tries a student's script with other cordons than before, and a student's policy with other prices."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from scripts.learning.lab import DEFAULT, Json, Lab, LabError, node_of
from scripts.servers.process import ROOT, ending_with_all_it_starts

SCHEDULER = "lab-probe"
OWN_SCHEDULER = "my-scheduler"
"""A script that takes no arguments places the pods of this one."""

LONGEST = 10.0
"""Seconds for a script to bind two pods."""

LONGEST_ANSWER = 60.0
"""Seconds for poller to answer a question, also on a busy machine, or with a slow policy."""


def bound_by_script(lab: Lab, script: Path, *, free: str, cordoned: str) -> set[str]:
    """The nodes to which a script binds two pods while `free` isn't cordoned, and `cordoned` is.

    Empty if it doesn't bind both within LONGEST. Afterwards the cordons are as before, and the pods gone.
    """
    schedulers = (SCHEDULER, SCHEDULER, OWN_SCHEDULER, OWN_SCHEDULER)
    pods = [_pod(f"lab-probe-{number}", scheduler) for number, scheduler in enumerate(schedulers)]
    paths = [f"{DEFAULT}/pods/{pod['metadata']['name']}" for pod in pods]
    lab.cordon(free, False)
    lab.cordon(cordoned, True)
    try:
        for pod in pods:
            lab.create(f"{DEFAULT}/pods", pod)
        first = script.read_text(errors="replace").partition("\n")[0]
        interpreter = first.removeprefix("#!").split() if first.startswith("#!") else ["bash"]
        command = [*interpreter, str(script), lab.proxy, SCHEDULER]
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "env": os.environ}
        with ending_with_all_it_starts(command, **quiet):
            deadline = time.monotonic() + LONGEST
            while time.monotonic() < deadline:
                of_argument, own = _nodes_of(lab, paths[:2]), _nodes_of(lab, paths[2:])
                if of_argument:
                    return of_argument
                if own:  # unless another scheduler has done that: the script may serve its argument yet
                    deadline = min(deadline, time.monotonic() + LONGEST / 4)
                time.sleep(0.2)
        return own
    finally:
        for path in paths:
            lab.delete(path)
        lab.cordon(free, True)
        lab.cordon(cordoned, False)


def _nodes_of(lab: Lab, paths: Sequence[str]) -> set[str]:
    """The nodes of these pods; empty if one has none, or poller has bound it."""
    pods = [lab.get(path) or {"spec": {}, "metadata": {}} for path in paths]
    by_poller = any("poller/decision" in pod["metadata"].get("annotations", {}) for pod in pods)
    return {node_of(pod) for pod in pods} if all(map(node_of, pods)) and not by_poller else set()


def _pod(name: str, scheduler: str, annotations: Mapping[str, str] | None = None) -> Json:
    container = {"name": "main", "image": "busybox:1.36", "command": ["sleep", "infinity"]}
    metadata = {"name": name, "labels": {"lab": "poller"}, "annotations": annotations or {}}
    spec = {"schedulerName": scheduler, "containers": [container]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


PRICE, MOST = "example.com/price", "example.com/max-price"


def placed_by_policy(
    lab: Lab, policy: Path, prices: Mapping[str, str], most: Mapping[str, str | None]
) -> dict[str, str]:
    """Where a policy would put pods at these prices: by name the node, or why none.

    most: the pods' names, each with its highest price. Nothing is written to the cluster. Empty if the policy
    can't be loaded, or takes longer than LONGEST_ANSWER.
    """
    nodes = [lab.nodes()[name] for name in prices]
    for node in nodes:
        node["metadata"]["annotations"] = {PRICE: prices[node["metadata"]["name"]]}
        node["spec"] = {}
        node |= {"apiVersion": "v1", "kind": "Node"}
    with TemporaryDirectory(prefix="lab-") as folder:
        cluster = Path(folder) / "cluster.json"
        cluster.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": nodes}))
        manifests = Path(folder) / "pods.json"
        pods = [_pod(name, OWN_SCHEDULER, {MOST: price} if price else {}) for name, price in most.items()]
        manifests.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": pods}))
        more = [f"--scheduler-name={OWN_SCHEDULER}", f"--plugin={policy}"]
        try:
            answer = answered("try", f"--from={cluster}", f"--filename={manifests}", *more)
        except (subprocess.TimeoutExpired, ValueError):
            return {}
    return {each["pod"].partition("/")[2]: each["node"] or each["message"] for each in answer["pods"]}


def why_not_on(lab: Lab, pod: Json, node: str) -> str:
    """Why a bound pod would not go to another node now: a sentence; empty if nothing speaks against it."""
    nodes, own = _ask_why(lab, pod), node_of(pod)
    if node not in nodes:
        return ""
    if why := nodes[node].get("rejected_by"):
        return f"{why} rejects {node}: {'; '.join(nodes[node]['reasons'])}."
    scores, better = nodes[node]["scores"], nodes.get(own, {}).get("scores", {})
    less, plugin = min(((scores[each] - score, each) for each, score in better.items()), default=(0, ""))
    return f"{plugin} gives {node} {scores[plugin]} points, and {own} {better[plugin]}." if less < 0 else ""


def best_nodes(lab: Lab, pod: Json) -> list[str]:
    """The nodes to one of which poller would bind a pod now."""
    totals = {name: each["total"] for name, each in _ask_why(lab, pod).items() if "total" in each}
    return [name for name, total in totals.items() if total == max(totals.values())]


def fitting_nodes(lab: Lab, pod: Json) -> int:
    """On how many nodes a pod would fit now."""
    return sum("total" in each for each in _ask_why(lab, pod).values())


def _ask_why(lab: Lab, pod: Json) -> dict[str, Json]:
    """What `poller.py why` says of each node for a pod, as if it had none. LabError when it can't say."""
    try:
        return dict(answered("why", pod["metadata"]["name"], f"--proxy={lab.proxy}")["nodes"])
    except (subprocess.TimeoutExpired, ValueError) as error:
        raise LabError(f"poller.py why can't be asked: {error}") from error


def answered(*question: str) -> Json:
    """What poller.py answers. TimeoutExpired, or ValueError if that is no JSON."""
    command = [sys.executable, str(ROOT / "poller.py"), *question, "--output=json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=LONGEST_ANSWER, cwd=ROOT)
    return dict(json.loads(done.stdout))
