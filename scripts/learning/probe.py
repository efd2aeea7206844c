"""Tries a student's script: which nodes does it take, if other nodes are cordoned than before?"""

import os
import subprocess
import time
from pathlib import Path

from scripts.learning.lab import DEFAULT, Lab, node_of
from scripts.servers.process import ending_with_all_it_starts

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
