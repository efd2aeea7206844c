"""The upper limit: binds unassigned pods round robin, without a decision and without events.

`python -m scripts.benchmark.bare PROXY SCHEDULER-NAME`
"""

import sys
import time
from itertools import cycle
from urllib.parse import urlencode

from scripts.benchmark.client import THREADS, Client, Request, clients, send_all

PAUSE = 0.1


def main(proxy: str, scheduler_name: str) -> None:
    connections = clients(THREADS, lambda: Client(proxy))
    nodes = cycle(name for _, name in names(connections[0], "/api/v1/nodes"))
    waiting = {"fieldSelector": f"spec.nodeName=,spec.schedulerName={scheduler_name}"}
    path = f"/api/v1/pods?{urlencode(waiting)}"
    while True:
        pods = names(connections[0], path)
        send_all(connections, [binding(*pod, next(nodes)) for pod in pods])
        time.sleep(PAUSE)


def names(client: Client, path: str) -> list[tuple[str, str]]:
    """The namespace ("" if it has none) and the name of each object."""
    of_all = (item["metadata"] for item in client.get(path)["items"])
    return [(each.get("namespace", ""), each["name"]) for each in of_all]


def binding(namespace: str, pod: str, node: str) -> Request:
    target = {"apiVersion": "v1", "kind": "Node", "name": node}
    body = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": pod}, "target": target}
    return Request("POST", f"/api/v1/namespaces/{namespace}/pods/{pod}/binding", body)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
