"""Tries a student's script with other cordons than before, and a student's policy with other prices."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

from scripts.learning.lab import DEFAULT, Lab, node_of
from scripts.servers.process import ROOT, ending_with_all_it_starts

SCHEDULER = "lab-probe"
PODS = ("lab-probe-1", "lab-probe-2")
LONGEST = 10.0  # seconds


def bound_by_script(lab: Lab, script: Path, *, free: str, cordoned: str) -> set[str]:
    """The nodes to which a script binds two pods while `free` isn't cordoned, and `cordoned` is.

    Empty if it doesn't bind both within LONGEST. Afterwards the cordons are as before, and the pods gone.
    """
    lab.cordon(free, False)
    lab.cordon(cordoned, True)
    try:
        for name in PODS:
            container = {"name": "main", "image": "busybox:1.36", "command": ["sleep", "infinity"]}
            spec = {"schedulerName": SCHEDULER, "containers": [container]}
            metadata = {"name": name, "labels": {"lab": "poller"}}
            lab.create(
                f"{DEFAULT}/pods", {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
            )
        command = ["bash", str(script), lab.proxy, SCHEDULER]
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "env": os.environ}
        with ending_with_all_it_starts(command, **quiet):
            deadline = time.monotonic() + LONGEST
            while time.monotonic() < deadline:
                nodes = {node_of(lab.pod(name)) for name in PODS}
                if all(nodes):
                    return nodes
                time.sleep(0.2)
        return set()
    finally:
        for name in PODS:
            lab.delete(f"{DEFAULT}/pods/{name}")
        lab.cordon(free, True)
        lab.cordon(cordoned, False)


MANIFESTS = ("frugal.yaml", "pod.yaml")
PRICE = "example.com/price"


def placed_by_policy(lab: Lab, policy: Path, prices: Mapping[str, str]) -> dict[str, str]:
    """Where a policy would put the pods of MANIFESTS at these prices: by name the node, or why none.

    Nothing is written to the cluster. Empty if the policy can't be loaded, or takes longer than LONGEST.
    """
    nodes = [lab.nodes()[name] for name in prices]
    for node in nodes:
        node["metadata"]["annotations"] = {PRICE: prices[node["metadata"]["name"]]}
        node["spec"] = {}
        node |= {"apiVersion": "v1", "kind": "Node"}
    with TemporaryDirectory(prefix="lab-") as folder:
        cluster = Path(folder) / "cluster.json"
        cluster.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": nodes}))
        pods = [f"--filename={ROOT / 'scripts/lab' / name}" for name in MANIFESTS]
        more = ["--output=json", "--scheduler-name=my-scheduler", f"--plugin={policy}"]
        command = [sys.executable, str(ROOT / "poller.py"), "try", f"--from={cluster}", *pods, *more]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=LONGEST, cwd=ROOT)
            answer = json.loads(done.stdout)
        except (subprocess.TimeoutExpired, ValueError):
            return {}
    return {each["pod"].partition("/")[2]: each["node"] or each["message"] for each in answer["pods"]}
