"""Tries a student's script with other cordons than before, and a student's policy with other prices."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

from scripts.learning.lab import DEFAULT, Json, Lab, node_of
from scripts.servers.process import ROOT, ending_with_all_it_starts

SCHEDULER = "lab-probe"
OWN_SCHEDULER = "my-scheduler"
"""A script that takes no arguments places the pods of this one."""

PODS = ("lab-probe-1", "lab-probe-2")
LONGEST = 10.0  # seconds


def bound_by_script(lab: Lab, script: Path, *, free: str, cordoned: str) -> set[str]:
    """The nodes to which a script binds two pods while `free` isn't cordoned, and `cordoned` is.

    Empty if it doesn't bind both within LONGEST. Afterwards the cordons are as before, and the pods gone.
    """
    lab.cordon(free, False)
    lab.cordon(cordoned, True)
    try:
        return _bound(lab, script, SCHEDULER) or _bound(lab, script, OWN_SCHEDULER)
    finally:
        lab.cordon(free, True)
        lab.cordon(cordoned, False)


def _bound(lab: Lab, script: Path, scheduler: str) -> set[str]:
    """The nodes to which the script binds two pods that name this scheduler."""
    try:
        for name in PODS:
            lab.create(f"{DEFAULT}/pods", _pod(name, scheduler))
        command = ["bash", str(script), lab.proxy, scheduler]
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "env": os.environ}
        with ending_with_all_it_starts(command, **quiet):
            deadline = time.monotonic() + LONGEST
            while time.monotonic() < deadline:
                pods = [lab.pod(name) for name in PODS]
                if all(map(node_of, pods)):
                    by_poller = any(
                        "poller/decision" in pod["metadata"].get("annotations", {}) for pod in pods
                    )
                    return set() if by_poller else {node_of(pod) for pod in pods}
                time.sleep(0.2)
        return set()
    finally:
        for name in PODS:
            lab.delete(f"{DEFAULT}/pods/{name}")


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
    can't be loaded, or takes longer than LONGEST.
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
        more = ["--output=json", f"--scheduler-name={OWN_SCHEDULER}", f"--plugin={policy}"]
        question = ["try", f"--from={cluster}", f"--filename={manifests}"]
        command = [sys.executable, str(ROOT / "poller.py"), *question, *more]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=LONGEST, cwd=ROOT)
            answer = json.loads(done.stdout)
        except (subprocess.TimeoutExpired, ValueError):
            return {}
    return {each["pod"].partition("/")[2]: each["node"] or each["message"] for each in answer["pods"]}


def why_not_on(lab: Lab, pod: Json, node: str) -> str:
    """Why a bound pod would not go to another node now: a sentence; empty if nothing speaks against it."""
    name, own = pod["metadata"]["name"], node_of(pod)
    command = [sys.executable, str(ROOT / "poller.py"), "why", name, "--output=json", f"--proxy={lab.proxy}"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=LONGEST, cwd=ROOT)
        nodes = json.loads(done.stdout)["nodes"]
    except (subprocess.TimeoutExpired, ValueError):
        return ""
    if why := nodes[node].get("rejected_by"):
        return f"{why} rejects {node}: {'; '.join(nodes[node]['reasons'])}."
    scores, better = nodes[node]["scores"], nodes[own].get("scores", {})
    less, plugin = min(((scores[each] - score, each) for each, score in better.items()), default=(0, ""))
    return f"{plugin} gives {node} {scores[plugin]} points, and {own} {better[plugin]}." if less < 0 else ""
