"""No pod that the API server accepts takes long to decide on, nor makes the decisions for others slow.

The work is counted, not timed: the instructions that Python runs for each toleration, term, port and so on,
times how many of them an object of 1.5 MB can have.
"""

import gc
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any
from unittest.mock import patch

import pytest
from huge_pods import ALL, HOST, ZONE, count_in, huge, pod_with
from objects import node, read
from test_cycle import scheduler

from lib.kube.changes import Change, Kind
from lib.kube.objects import Pod
from lib.kube.storage import PersistentVolumeClaim, StorageClass
from lib.scheduling.affinity_counts import existing_pods_terms
from lib.scheduling.cache import Cache
from lib.scheduling.decision import Outcome
from lib.scheduling.looked_up import LookedUp
from lib.scheduling.pod_limits import TOO_COMPLEX
from lib.scheduling.scheduling_cycle import Scheduler

A_SECOND = 50_000_000
"""About so many instructions take a second."""

FEWER, MORE = 50, 100
"""So many of something a pod has; the difference of the work is that for each."""

NODES, PODS = 20, 60


def work(do: Callable[[], object]) -> int:
    """How many instructions Python runs to do something."""
    count = 0

    def trace(frame: FrameType, event: str, _: Any) -> Any:
        nonlocal count
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        count += event == "opcode"
        return trace

    before = sys.gettrace()
    gc.disable()  # what it would finalize meanwhile may be of another test
    sys.settrace(trace)
    try:
        do()
    finally:
        sys.settrace(before)
        gc.enable()
    return count


def usual(name: str, **spec: Any) -> Pod:
    """A pod such as everybody has."""
    metadata = {"namespace": "default", "name": name, "uid": name, "labels": {"app": "app-1", "tier": "x"}}
    tolerations = {"tolerations": [{"operator": "Exists"}]}
    found: Pod = read(
        Pod, {"metadata": metadata, "spec": {"containers": [{"name": "c"}], **tolerations, **spec}}
    )
    return found


def cluster() -> Cache:
    """Nodes in three zones, every other one with taints, and pods of several applications."""
    taints = [{"key": key, "value": "a", "effect": effect} for key, effect in TAINTS.items()]
    nodes = [
        node(f"n{i}", {ZONE: f"z{i % 3}", HOST: f"n{i}", "other": f"o{i}"}, taints=taints if i % 2 else [])
        for i in range(NODES)
    ]
    cache = Cache(nodes, [usual(f"p{i}", nodeName=f"n{i % NODES}") for i in range(PODS)])
    cache.looked_up = LookedUp({"default": {}})
    return cache


TAINTS = {"only": "NoSchedule", "soft": "PreferNoSchedule"}


def sized(what: str, n: int, name: str = "huge", **spec: Any) -> Pod:
    found: Pod = read(Pod, pod_with(what, n, name, **spec))
    return found


def ready() -> tuple[Scheduler, Cache]:
    """A scheduler that has placed a few pods."""
    cache, ours = cluster(), scheduler()
    for i in range(2):
        assert ours.schedule_one(usual(f"first-{i}"), cache).node_name
    return ours, cache


@pytest.mark.parametrize("what", ALL)
def test_the_work_for_a_pod_grows_with_its_size_only(what: str) -> None:
    done = []
    for n in (FEWER, MORE):
        ours, cache = ready()
        pod = sized(what, n)
        done.append(work(lambda: ours.schedule_one(pod, cache)))  # noqa: B023
    assert (done[1] - done[0]) / (MORE - FEWER) * count_in(what) < A_SECOND


@pytest.mark.parametrize("what", ALL)
def test_a_pod_that_runs_makes_the_decisions_for_others_no_slower(what: str) -> None:
    applied, first, next_one, updated = [], [], [], []
    for n in (FEWER, MORE):
        ours, cache = ready()
        pod, newer = (sized(what, n, nodeName="n0") for _ in range(2))

        def apply(*change: Any, cache: Cache = cache) -> None:
            cache.apply(Change(*change))
            existing_pods_terms(cache)  # before each tick's decisions, to find out what is to be looked up

        applied.append(work(lambda: apply(Kind.ADDED, pod)))  # noqa: B023
        first.append(work(lambda: ours.schedule_one(usual("a"), cache)))  # noqa: B023
        updated.append(work(lambda: apply(Kind.MODIFIED, newer, pod)))  # noqa: B023
        next_one.append(work(lambda: ours.schedule_one(usual("b"), cache)))  # noqa: B023
    in_full = [
        (more - few) / (MORE - FEWER) * count_in(what) for few, more in (applied, updated, first, next_one)
    ]
    assert max(in_full[:2]) < A_SECOND
    assert in_full[2] < A_SECOND * 0.02  # of the first of a kind: terms are matched with its labels
    assert in_full[3] < A_SECOND * 0.001


FAR_TOO_MANY = ("containers with a resource each", "sidecars with a resource each, and its amount")
"""No node has so many kinds of resources."""


@pytest.mark.parametrize("what", ALL)
def test_a_large_pod_is_decided_on(what: str) -> None:
    ours, cache = ready()
    decision = ours.schedule_one(huge(what, 200_000), cache)
    assert decision.outcome != Outcome.ERROR or "resourceClaims" in decision.message, decision.message
    assert TOO_COMPLEX not in decision.rejected_by or what in FAR_TOO_MANY


ABOVE = [
    "terms of nodes that nearly match",
    "preferred nodes",
    "far from most pods",
    "rather near",
    "delayed claims of its own",
    *FAR_TOO_MANY,
]


@pytest.mark.parametrize("what", ABOVE)
def test_a_pod_above_the_limit_is_held_with_the_reason(what: str) -> None:
    ours, cache = ready()
    if what == "delayed claims of its own":
        names = [f"c{i}" for i in range(50)]
        cache.storage.put(read(StorageClass, LATE))
        for name in names:
            metadata = {"name": name, "namespace": "default"}
            cache.storage.put(
                read(PersistentVolumeClaim, {"metadata": metadata, "spec": {"storageClassName": "late"}})
            )
        volumes = [{"name": name, "persistentVolumeClaim": {"claimName": name}} for name in names]
        pod = usual("huge", volumes=volumes)
    else:
        pod = sized(what, 100)
    with patch("lib.scheduling.pod_limits.MAX_COMPARISONS", 90):
        decision = ours.schedule_one(pod, cache)
        assert decision.rejected_by == {TOO_COMPLEX}
        assert decision.message.startswith(
            "the pod's conditions take more than 90 comparisons with the nodes"
        )
        assert ours.schedule_one(usual("next"), cache).node_name
    assert ours.schedule_one(pod, cache).rejected_by != {TOO_COMPLEX}


LATE = {"metadata": {"name": "late"}, "provisioner": "x", "volumeBindingMode": "WaitForFirstConsumer"}


@pytest.mark.parametrize("what", ALL)
def test_the_work_for_a_pod_beside_others_like_it_grows_with_its_size_only(what: str) -> None:
    done = []
    for n in (FEWER, MORE):
        ours, cache = ready()
        for i in range(2):
            cache.apply(Change(Kind.ADDED, with_others_of_its_own(sized(what, n, f"l{i}", nodeName=f"n{i}"))))
        pod = sized(what, n)
        done.append(work(lambda: ours.schedule_one(pod, cache)))  # noqa: B023
    assert (done[1] - done[0]) / (MORE - FEWER) * count_in(what) < A_SECOND


def with_others_of_its_own(pod: Pod) -> Pod:
    """The pod with other ports and disks: a clash would be found too soon."""
    for port in pod.spec.containers[0].ports:
        port.host_port += 30_000
    for volume in pod.spec.volumes:
        if volume.gce_persistent_disk:
            volume.gce_persistent_disk.pd_name += "-of-it"
        if volume.rbd:
            volume.rbd.monitors = [f"{each}-of-it" for each in volume.rbd.monitors]
    return pod
