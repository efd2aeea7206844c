"""Whatever request of some pods meets trouble, the pods of others are bound as fast as ever.

Each request that poller makes for a pod, read or write, is not answered, fails, is answered 429 with
Retry-After, or byte by byte: for one pod, for many pods of a namespace, for all. Meanwhile pods of another
namespace come, one at a time.

A part of it runs each time, with limits for a busy machine. All of it, with the limits that a quiet machine
keeps, takes about 15 minutes; it prints how long the pods of others waited:

    POLLER_ALL_CASES=1 .venv/bin/pytest -n 1 -s tests/test_trouble.py
"""

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from statistics import median

import pytest
from all_cases import ALL_CASES as ALL
from cluster import Cluster, Json, eventually
from device_objects import Devices, uses as uses_devices
from faults import ALWAYS, Effect, Fault, answer, drip, faulty, hold, lose_answer
from storage import Volumes, uses as uses_volumes
from test_hanging_lookups import (
    OWN_CONSTRAINT,
    VIP,
    add_pod_beside_others,
    add_pod_in_group,
    add_pod_with_controller,
    add_pod_with_services,
)

ON_ONE_SERVER = True

MEDIAN, WORST = (0.2, 1.0) if ALL else (1.0, 4.0)
"""Seconds in which others are bound; when polling, the interval may come on top."""

INTERVAL = 0.1

OTHERS = 10 if ALL else 5

PAUSE = 0.005 if ALL else 0.02  # seconds between two looks whether a pod is bound

MANY, PLACES = 30 if ALL else 12, "--bind-workers=8"
"""So that one namespace has more writes than there are places: 8 for bindings, 2 for each other sort."""

FITS_NOWHERE = {"cpu": "1000"}

PODS = r"/namespaces/default/pods/needy-\d+"


@dataclass(frozen=True)
class Request:
    """A request that poller makes for some pods.

    method, path: of those that meet trouble; path is a regex. needy: adds a pod that needs such a request.
    before: faults that lead there. everywhere: a regex of these requests for all namespaces; "" if the pods
    of others need them, too.
    """

    method: str
    path: str
    needy: Callable[[Cluster, str], object]
    before: Sequence[Fault] = ()
    everywhere: str = ""


def simple(cluster: Cluster, name: str) -> None:
    cluster.add_pod(name, priorityClassName="low", topologySpreadConstraints=[OWN_CONSTRAINT])


def large(cluster: Cluster, name: str) -> None:
    constraints = [OWN_CONSTRAINT]
    cluster.add_pod(
        name, requests=FITS_NOWHERE, priorityClassName="low", topologySpreadConstraints=constraints
    )


def preemptor(cluster: Cluster, name: str) -> None:
    """It needs a node of its own, which a victim has."""
    cluster.add_node(f"of-{name}", cpu="1")
    there = {"nodeName": f"of-{name}", "terminationGracePeriodSeconds": 0}
    cluster.add_pod(f"victim-of-{name}", requests={"cpu": "1"}, **there)
    where = {"kubernetes.io/hostname": f"of-{name}"}
    cluster.add_pod(name, requests={"cpu": "1"}, nodeSelector=where, **VIP)


def with_volume(cluster: Cluster, name: str) -> None:
    """Its volume is made when its node is known."""
    Volumes(cluster).add_claim(f"of-{name}", "made-later")
    cluster.add_pod(name, volumes=uses_volumes(f"of-{name}"), priorityClassName="low")


def with_device(cluster: Cluster, name: str) -> None:
    Devices(cluster).add_claim(f"of-{name}")
    cluster.add_pod(name, resourceClaims=uses_devices(f"of-{name}"), priorityClassName="low")


LOST_BINDING = Fault("POST", rf"{PODS}/binding$", lose_answer(), ALWAYS)

NOT_A_WATCH = r"(?!.*watch=1)"

REQUESTS = {
    "binding": Request("POST", rf"{PODS}/binding$", simple),
    "look-up": Request("GET", rf"{PODS}$", simple, [LOST_BINDING]),
    "event": Request("POST", "/namespaces/default/events$", simple, everywhere="/events$"),
    "condition": Request("PATCH", rf"{PODS}/status$", large, everywhere="/status$"),
    "eviction": Request("DELETE", "/pods/victim-", preemptor, everywhere="/pods/"),
    "victim": Request("PATCH", "/pods/victim-.*/status$", preemptor),
    "volume": Request("PATCH", "/persistentvolumeclaims/", with_volume),
    "device": Request("PATCH", "/resourceclaims/", with_device),
    "services": Request("GET", rf"/services\?{NOT_A_WATCH}", add_pod_with_services),
    "controller": Request("GET", "/replicasets/", add_pod_with_controller),
    "namespaces": Request("GET", r"/namespaces\?", add_pod_beside_others),
    "group": Request("GET", "/podgroups/", add_pod_in_group),
    "budgets": Request("GET", "/poddisruptionbudgets", preemptor),
    "claims": Request("GET", rf"/persistentvolumeclaims\?{NOT_A_WATCH}", with_volume),
    "slices": Request("GET", rf"/resourceslices\?{NOT_A_WATCH}", with_device),
}

WAYS: dict[str, Callable[[threading.Event], Effect]] = {
    "hangs": hold,
    "fails": lambda _: answer(500, "no"),
    "refused": lambda _: answer(429, "later", {"Retry-After": "40"}),
    "drips": lambda _: drip(0.2),
}

CASES = [
    (kind, way, scope, how)
    for kind, request in REQUESTS.items()
    for way in WAYS
    for scope in ("one", "many", *(["all"] if request.everywhere else []))
    for how in ("watching", "polling")
]


SOME = [
    *((kind, "hangs", "many", "watching") for kind in REQUESTS),
    ("binding", "drips", "many", "watching"),
    ("binding", "fails", "one", "polling"),
    ("event", "refused", "all", "polling"),
]
"""For each request the case that it hangs for many, while poller watches; each other way and scope once."""


@pytest.fixture
def quiet(priorities: Cluster) -> Iterator[Cluster]:
    """A node, what the needy pods need, and the namespace of the others."""
    priorities.api.post("/api/v1/namespaces", json={"metadata": {"name": "others"}})
    priorities.add_node("n1", cpu="64")
    volumes, devices = Volumes(priorities), Devices(priorities)
    volumes.add_class("made-later", "example.com/makes-volumes")
    devices.add_class()
    devices.add_devices("n1", MANY)
    yield priorities
    priorities.clear()
    volumes.clear()
    devices.clear()


@pytest.mark.parametrize(("kind", "way", "scope", "how"), CASES if ALL else SOME)
def test_nobody_waits_for_the_trouble_of_others(
    quiet: Cluster, kind: str, way: str, scope: str, how: str
) -> None:
    request, ends = REQUESTS[kind], threading.Event()
    path = request.everywhere if scope == "all" else request.path
    trouble = Fault(request.method, path, WAYS[way](ends), ALWAYS)
    with (
        faulty(quiet.proxy, *request.before, trouble) as between,
        quiet.running_poller(PLACES, *["--watch"] * (how == "watching"), proxy=between.url),
    ):
        for i in range(1 if scope == "one" else MANY):
            request.needy(quiet, f"needy-{i}")
        eventually(lambda: any(trouble.matches(*each) for each in between.requests))
        waited = [until_bound(quiet, i) for i in range(OTHERS)]
        ends.set()
    more = INTERVAL if how == "polling" else 0.0
    if ALL:
        print(f"\n{kind:10} {way:8} {scope:5} {how:9} {median(waited):.3f} {max(waited):.3f}")
    assert median(waited) <= MEDIAN + more, waited
    assert max(waited) <= WORST + more, waited


def until_bound(cluster: Cluster, number: int) -> float:
    """Add a pod of another namespace; returns after how many seconds it is bound."""
    name, constraints = f"other-{number}", [OWN_CONSTRAINT]
    began = time.monotonic()
    cluster.add_pod(name, namespace="others", priorityClassName="low", topologySpreadConstraints=constraints)

    def is_bound() -> bool:
        spec: Json = cluster.pod(name, "others")["spec"]
        return bool(spec.get("nodeName"))

    while not is_bound():
        assert time.monotonic() - began < 60
        time.sleep(PAUSE)
    took = time.monotonic() - began
    time.sleep(0.2)
    return took
