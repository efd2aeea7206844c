"""What there is in the cluster: watches tell it, a cache keeps it. And what a scheduler writes there."""

import json
import os
import time
from contextlib import suppress
from datetime import UTC, datetime
from decimal import Decimal
from queue import Empty, Queue
from threading import Thread

import httpx

NAME = "my-scheduler"
UNITS = {"": 1, "m": Decimal("0.001"), "k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}
UNITS |= {"Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40}
proxy = os.environ["POLLER_PROXY"]
socket = proxy.removeprefix("unix://") if proxy.startswith("unix://") else None
api = httpx.Client(
    base_url="http://localhost" if socket else proxy, transport=httpx.HTTPTransport(uds=socket)
)

# --- watches: a thread for each puts what it sees into one queue --------------------------------------------

seen = Queue()


def watch(kind):
    """List, then watch; when the watch ends, begin again."""
    path = f"/api/v1/{kind}"
    while True:
        try:
            there = api.get(path).raise_for_status().json()
            seen.put((kind, "LISTED", there["items"]))
            query = {"watch": "1", "resourceVersion": there["metadata"]["resourceVersion"]}
            with api.stream("GET", path, params=query, timeout=None) as answer:
                for line in answer.iter_lines():
                    change = json.loads(line)
                    if change["type"] == "ERROR":  # 410: the version is too old
                        break
                    seen.put((kind, change["type"], change["object"]))
        except httpx.HTTPError as error:
            print("watches again:", error)
            time.sleep(0.5)


def start():
    for kind in known:
        Thread(target=watch, args=[kind], daemon=True).start()


# --- the cache ----------------------------------------------------------------------------------------------

nodes, pods = {}, {}  # nodes by name; all pods by uid
known = {"nodes": nodes, "pods": pods}
assumed = {}  # the nodes of pods that are decided on, by uid, until a watch shows the pod there
listed = set()


def changes(patience):
    """Changes, which the cache has followed, for as long as there are any. It waits for the first."""
    with suppress(Empty):
        while True:
            kind, what, thing = seen.get(timeout=patience)
            patience = 0
            if what == "LISTED":  # what isn't in a list is gone
                listed.add(kind)
                there = {key_of(kind, each): each for each in thing}
                gone = [each for key, each in known[kind].items() if key not in there]
                several = [("DELETED", each) for each in gone] + [("ADDED", each) for each in thing]
            else:
                several = [(what, thing)]
            for what, thing in several:
                apply(kind, what, thing)
                yield kind, what, thing


def key_of(kind, thing):
    return thing["metadata"]["name" if kind == "nodes" else "uid"]


def apply(kind, what, thing):
    key = key_of(kind, thing)
    if what == "DELETED":
        known[kind].pop(key, None)
    else:
        known[kind][key] = thing
    if kind == "pods" and (what == "DELETED" or thing["spec"].get("nodeName")):
        assumed.pop(key, None)


def is_over(pod):
    return pod["status"].get("phase") in ("Succeeded", "Failed")


def node_of(pod):
    return pod["spec"].get("nodeName") or assumed.get(pod["metadata"]["uid"])


def pods_on(node):
    """The pods that count on a node, assumed ones too."""
    return [each for each in pods.values() if node_of(each) == node["metadata"]["name"] and not is_over(each)]


def amount(text):
    number = text.rstrip("mkMGTi").removesuffix("K")
    return Decimal(number) * UNITS[text[len(number) :]]


def needs(pod):
    """What a pod requests of cpu and memory."""
    asked = [each.get("resources", {}).get("requests", {}) for each in pod["spec"]["containers"]]
    return [sum(amount(each.get(name, "0")) for each in asked) for name in ("cpu", "memory")]


def have_room(several, node):
    """Whether these pods fit on a node, if nothing else is there."""
    cpu, memory = (sum(amounts) for amounts in zip([0, 0], *map(needs, several), strict=True))
    has = node["status"]["allocatable"]
    return cpu <= amount(has["cpu"]) and memory <= amount(has["memory"])


# --- writes -------------------------------------------------------------------------------------------------


def path_of(pod):
    return f"/api/v1/namespaces/{pod['metadata']['namespace']}/pods/{pod['metadata']['name']}"


def bind(pod, node):
    """Whether the pod is on this node now, and this scheduler has put it there."""
    binding = {"metadata": {key: pod["metadata"][key] for key in ("name", "uid")}}
    target = {"apiVersion": "v1", "kind": "Node", "name": node}
    try:
        return api.post(f"{path_of(pod)}/binding", json={**binding, "target": target}).is_success
    except httpx.TransportError:  # the answer is lost: ask until it is known
        while True:
            with suppress(httpx.TransportError):
                now = api.get(path_of(pod)).json()
                is_same = now["metadata"].get("uid") == pod["metadata"]["uid"]
                return is_same and now["spec"].get("nodeName") == node
            time.sleep(0.5)


def ask(method, path, **content):
    """A request whose answer nobody needs."""
    with suppress(httpx.TransportError):
        api.request(method, path, **content)


def tell(pod, kind, reason, message):
    """Tell the pod's owner, by an event."""
    about = {key: pod["metadata"][key] for key in ("namespace", "name", "uid")}
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    event = {
        "metadata": {"generateName": f"{about['name']}."},
        "involvedObject": {"apiVersion": "v1", "kind": "Pod", **about},
        **{"type": kind, "reason": reason, "message": message, "source": {"component": NAME}},
        **{"firstTimestamp": now, "lastTimestamp": now, "count": 1},
    }
    print(f"{about['name']}: {message}")
    ask("POST", f"/api/v1/namespaces/{about['namespace']}/events", json=event)


def tell_where(pod, node):
    where = f"{pod['metadata']['namespace']}/{pod['metadata']['name']} to {node}"
    tell(pod, "Normal", "Scheduled", f"Successfully assigned {where}")
