"""Lesson 21: watches tell what changes, a cache knows what is decided, a queue says who is tried when."""

import json
import os
import random
import time
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from queue import Empty, Queue
from threading import Thread

import httpx

NAME = "my-scheduler"
FIRST_BACKOFF, LONGEST_BACKOFF = 1, 10  # seconds
UNITS = {"": 1, "m": Decimal("0.001"), "k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}
UNITS |= {"Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40}
proxy = os.environ["POLLER_PROXY"]
socket = proxy.removeprefix("unix://") if proxy.startswith("unix://") else None
api = httpx.Client(
    base_url="http://localhost" if socket else proxy, transport=httpx.HTTPTransport(uds=socket)
)

# --- what changes: a thread for each watch puts it into one queue -------------------------------------------

changes = Queue()


def watch(kind):
    """Put a list of all there is into `changes`, then each change; when the watch ends, begin again."""
    path = f"/api/v1/{kind}"
    while True:
        try:
            there = api.get(path).raise_for_status().json()
            changes.put((kind, "LISTED", there["items"]))
            query = {"watch": "1", "resourceVersion": there["metadata"]["resourceVersion"]}
            with api.stream("GET", path, params=query, timeout=None) as lines:
                for line in lines.iter_lines():
                    change = json.loads(line)
                    if change["type"] == "ERROR":  # 410: the version is too old
                        break
                    changes.put((kind, change["type"], change["object"]))
        except httpx.HTTPError as error:
            print("watches again:", error)
            time.sleep(0.5)


# --- the cache: nodes, pods that have one, and pods that are assumed to have one ----------------------------

nodes, pods, assumed = {}, {}, {}


def amount(text):
    number = text.rstrip("mkMGTi").removesuffix("K")
    return Decimal(number) * UNITS[text[len(number) :]]


def needs(pod):
    """What a pod requests of cpu and memory."""
    asked = [each.get("resources", {}).get("requests", {}) for each in pod["spec"]["containers"]]
    return [sum(amount(each.get(name, "0")) for each in asked) for name in ("cpu", "memory")]


def fits(pod, node):
    """Whether the node has room for the pod beside its pods and the assumed ones."""
    name, has = node["metadata"]["name"], node["status"]["allocatable"]
    there = [each for each in pods.values() if each["spec"]["nodeName"] == name]
    there += [each for each, where in assumed.values() if where == name]
    cpu, memory = (sum(amounts) for amounts in zip(*map(needs, [*there, pod]), strict=True))
    return cpu <= amount(has["cpu"]) and memory <= amount(has["memory"])


# --- the queue: pods that wait. Woken ones are tried when their backoff is over -----------------------------


@dataclass
class Waiting:
    pod: dict
    attempts: int = 0
    due: float = 0.0
    is_woken: bool = True

    def failed(self):
        self.attempts += 1
        self.due = time.monotonic() + min(FIRST_BACKOFF * 2 ** (self.attempts - 1), LONGEST_BACKOFF)


queue = {}
listed = set()  # nobody is tried before nodes and pods are known


def wake_all():
    for each in queue.values():
        each.is_woken = True


def apply(kind, what, thing):
    """Bring cache and queue up to date with a change."""
    if what == "LISTED":
        listed.add(kind)
        known = nodes if kind == "nodes" else known_pods()
        there = {key_of(kind, each) for each in thing}
        for each in [each for key, each in known.items() if key not in there]:
            apply(kind, "DELETED", each)
        for each in thing:
            apply(kind, "ADDED", each)
    elif kind == "nodes":
        nodes.pop(thing["metadata"]["name"], None)
        if what != "DELETED":
            nodes[thing["metadata"]["name"]] = thing
            wake_all()
    else:
        apply_pod(what, thing)


def known_pods():
    waiting = {uid: each.pod for uid, each in queue.items()}
    return {**pods, **waiting, **{uid: pod for uid, (pod, _) in assumed.items()}}


def key_of(kind, thing):
    return thing["metadata"]["name" if kind == "nodes" else "uid"]


def apply_pod(what, pod):
    uid, spec = pod["metadata"]["uid"], pod["spec"]
    is_gone = what == "DELETED" or pod["status"].get("phase") in ("Succeeded", "Failed")
    if is_gone or spec.get("nodeName"):  # the API server shows what was assumed, or something else
        assumed.pop(uid, None)
        queue.pop(uid, None)
    if is_gone:
        pods.pop(uid, None)
        wake_all()
    elif spec.get("nodeName"):
        pods[uid] = pod
    elif spec["schedulerName"] == NAME and not spec.get("schedulingGates") and uid not in assumed:
        queue.setdefault(uid, Waiting(pod)).pod = pod
        queue[uid].is_woken = True


# --- one pod ------------------------------------------------------------------------------------------------


def schedule(waiting):
    pod = waiting.pod
    uid = pod["metadata"]["uid"]
    waiting.is_woken = False
    fitting = [name for name, node in nodes.items() if fits(pod, node)]
    if not fitting:
        waiting.failed()
        tell(pod, "Warning", "FailedScheduling", f"0/{len(nodes)} nodes are available")
        return
    node = random.choice(fitting)
    assumed[uid] = pod, node
    del queue[uid]
    if bind(pod, node):
        where = f"{pod['metadata']['namespace']}/{pod['metadata']['name']} to {node}"
        tell(pod, "Normal", "Scheduled", f"Successfully assigned {where}")
    else:  # forget it; if it is still there without a node, try again
        del assumed[uid]
        queue[uid] = waiting
        waiting.failed()
        wake_all()


def bind(pod, node):
    """Whether the pod is on this node now, and this scheduler has put it there."""
    binding = {"metadata": {key: pod["metadata"][key] for key in ("name", "uid")}}
    path = f"/api/v1/namespaces/{pod['metadata']['namespace']}/pods/{pod['metadata']['name']}"
    target = {"apiVersion": "v1", "kind": "Node", "name": node}
    try:
        return api.post(f"{path}/binding", json={**binding, "target": target}).is_success
    except httpx.TransportError:  # the answer is lost: ask until it is known
        while True:
            with suppress(httpx.TransportError):
                now = api.get(path).json()
                is_same = now["metadata"].get("uid") == pod["metadata"]["uid"]
                return is_same and now["spec"].get("nodeName") == node
            time.sleep(0.5)


def tell(pod, kind, reason, message):
    about = {key: pod["metadata"][key] for key in ("namespace", "name", "uid")}
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    event = {
        "metadata": {"generateName": f"{about['name']}."},
        "involvedObject": {"apiVersion": "v1", "kind": "Pod", **about},
        **{"type": kind, "reason": reason, "message": message, "source": {"component": NAME}},
        **{"firstTimestamp": now, "lastTimestamp": now, "count": 1},
    }
    print(about["name"], message)
    with suppress(httpx.TransportError):
        api.post(f"/api/v1/namespaces/{about['namespace']}/events", json=event)


# --- the loop -----------------------------------------------------------------------------------------------


def run():
    for kind in ("nodes", "pods"):
        Thread(target=watch, args=[kind], daemon=True).start()
    while True:
        due = [each.due for each in queue.values() if each.is_woken]
        patience = max(0, min(due) - time.monotonic()) if due and len(listed) == 2 else None
        with suppress(Empty):
            while True:
                apply(*changes.get(timeout=patience))
                patience = 0
        for each in list(queue.values()):
            if len(listed) == 2 and each.is_woken and each.due <= time.monotonic():
                schedule(each)


run()
