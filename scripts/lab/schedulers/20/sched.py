"""Lesson 20: a scheduler of sixty lines. It polls, picks at random where there is room, binds, and tells."""

import os
import random
import time
from datetime import UTC, datetime
from decimal import Decimal

import httpx

NAME = "my-scheduler"
WAITING = f"spec.nodeName=,spec.schedulerName={NAME}"
RUNNING = "spec.nodeName!=,status.phase!=Succeeded,status.phase!=Failed"
UNITS = {"": 1, "m": Decimal("0.001"), "k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}
UNITS |= {"Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40}
proxy = os.environ["POLLER_PROXY"]
socket = proxy.removeprefix("unix://") if proxy.startswith("unix://") else None
api = httpx.Client(
    base_url="http://localhost" if socket else proxy, transport=httpx.HTTPTransport(uds=socket)
)


def items(path, fields=""):
    return api.get(path, params={"fieldSelector": fields}).raise_for_status().json()["items"]


def amount(text):
    number = text.rstrip("mkMGTi").removesuffix("K")
    return Decimal(number) * UNITS[text[len(number) :]]


def needs(pod):
    """What a pod requests of cpu and memory."""
    asked = [each.get("resources", {}).get("requests", {}) for each in pod["spec"]["containers"]]
    return [sum(amount(each.get(name, "0")) for each in asked) for name in ("cpu", "memory")]


def free_room():
    """By node, the cpu and memory that its pods leave."""
    room = {}
    for node in items("/api/v1/nodes"):
        has = node["status"]["allocatable"]
        room[node["metadata"]["name"]] = [amount(has["cpu"]), amount(has["memory"])]
    for pod in items("/api/v1/pods", RUNNING):
        take(room, pod["spec"]["nodeName"], needs(pod))
    return room


def take(room, node, needed):
    if node in room:
        room[node] = [free - need for free, need in zip(room[node], needed, strict=True)]


def bind(pod, node):
    """Whether the pod is on this node now, and this scheduler has put it there."""
    binding = {"metadata": {key: pod["metadata"][key] for key in ("name", "uid")}}
    path = f"/api/v1/namespaces/{pod['metadata']['namespace']}/pods/{pod['metadata']['name']}"
    target = {"apiVersion": "v1", "kind": "Node", "name": node}
    try:
        said = api.post(f"{path}/binding", json={**binding, "target": target})
    except httpx.TransportError:  # the answer is lost, and nobody knows whether the binding is written
        now = api.get(path).json()
        return now["metadata"].get("uid") == pod["metadata"]["uid"] and now["spec"].get("nodeName") == node
    if said.is_error:  # 409: another scheduler was faster, or a gate is closed; 404: the pod is gone
        print("not bound:", said.json()["message"])
    return said.is_success


def tell(pod, node):
    about = {key: pod["metadata"][key] for key in ("namespace", "name", "uid")}
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    event = {
        "metadata": {"generateName": f"{about['name']}."},
        "involvedObject": {"apiVersion": "v1", "kind": "Pod", **about},
        "type": "Normal",
        "reason": "Scheduled",
        "message": f"Successfully assigned {about['namespace']}/{about['name']} to {node}",
        "source": {"component": NAME},
        **{"firstTimestamp": now, "lastTimestamp": now, "count": 1},
    }
    api.post(f"/api/v1/namespaces/{about['namespace']}/events", json=event)
    print(event["message"])


def schedule_all():
    room = free_room()
    for pod in items("/api/v1/pods", WAITING):
        cpu, memory = needs(pod)
        fitting = [name for name, free in room.items() if cpu <= free[0] and memory <= free[1]]
        if fitting and bind(pod, node := random.choice(fitting)):
            take(room, node, (cpu, memory))
            tell(pod, node)


while True:
    try:
        schedule_all()
    except httpx.HTTPError as error:  # the API server is away: ask again later
        print("will try again:", error)
    time.sleep(1)
