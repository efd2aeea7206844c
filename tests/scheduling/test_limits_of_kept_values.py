"""What is kept is limited. A decision that meets the limit is the same as without it."""

import gc
import sys
from collections import deque
from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace
from objects import node, pod, read
from test_cycle import PROFILE, scheduler

from lib.kube.changes import Change, Kind
from lib.kube.objects import HOSTNAME, Pod
from lib.kube.storage import PersistentVolume, StorageObject, VolumeAttachment
from lib.scheduling import result_cache
from lib.scheduling.cache import Cache
from lib.scheduling.framework.runtime import Framework
from lib.scheduling.queue import SchedulingQueue
from lib.scheduling.storage import Storage

ZONE = "topology.kubernetes.io/zone"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
WEB = {"matchLabels": {"app": "web"}}

NODES, ENOUGH = 120, 100
"""So many nodes; so many of them are looked at first."""


def far_from_web() -> Pod:
    """A pod that wants no zone with a pod of web, and at most one such pod more in a zone than in another."""
    spread = {"topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule", "maxSkew": 1, "labelSelector": WEB}
    far = {"podAntiAffinity": {REQUIRED: [{"topologyKey": ZONE, "labelSelector": WEB}]}}
    return pod("asked", affinity=far, topologySpreadConstraints=[spread])


def cluster() -> Cache:
    """Only the nodes that are looked at last can take the pod: the others are cordoned, but for one.

    That one has a nominated pod of web. It is in the zone of the last nodes.
    """
    first = [node(f"n{i}", {ZONE: "b"}, unschedulable=True) for i in range(1, ENOUGH)]
    last = [node(f"n{i}", {ZONE: "a"}) for i in range(ENOUGH, NODES)]
    cache = Cache([node("n0", {ZONE: "a"}), *first, *last])
    metadata = {"name": "vip", "namespace": "default", "uid": "vip", "labels": {"app": "web"}}
    nominated = {"metadata": metadata, "spec": {"priority": 1}, "status": {"nominatedNodeName": "n0"}}
    cache.nominator.add(read(Pod, nominated), "n0")
    return cache


@pytest.mark.parametrize("more", range(4))
def test_the_journal_runs_over_while_a_nominated_pod_is_tried(more: int) -> None:
    cache = cluster()
    cache.journal.limit = cache.journal.token - cache.journal.start + more
    decision = scheduler().schedule_one(far_from_web(), cache)
    assert set(decision.rejected) == {f"n{i}" for i in range(ENOUGH)}, decision.message
    assert decision.feasible == NODES - ENOUGH


@pytest.mark.parametrize("limit", range(1, 12))
def test_more_is_to_be_kept_than_is_allowed_while_a_nominated_pod_is_tried(limit: int) -> None:
    cache = cluster()
    cache.kept.limit = limit
    decision = scheduler().schedule_one(far_from_web(), cache)
    assert set(decision.rejected) == {f"n{i}" for i in range(ENOUGH)}, decision.message
    assert decision.feasible == NODES - ENOUGH


def test_what_was_used_last_is_kept() -> None:
    cache = Cache([node("n1")])
    cache.kept.limit = 2
    for key in "aabac":
        cache.remember(key, lambda key=key: key)  # type: ignore[misc]
    asked: list[str] = []
    for key in "acb":
        cache.remember(key, lambda key=key: asked.append(key))  # type: ignore[misc]
    assert asked == ["b"]


def come_and_go(cache: Cache, queue: SchedulingQueue, numbers: range) -> int:
    """Pods come, are bound, and go; ten are there together. Returns the blocks of memory after that."""
    decide, there = scheduler(), deque[Pod]()
    for number in numbers:
        asked = pod(f"web-{number}", {"cpu": f"{number % 7 + 1}m"})
        queue.apply(Change(Kind.ADDED, asked), 0.0)
        (ready,) = queue.ready(0.0)
        name = decide.schedule_one(ready, cache).node_name
        cache.lives.bound(asked.metadata.uid, 0.0)
        placed = replace(asked, spec=replace(asked.spec, node_name=name))
        there.append(placed)
        changes = [Change(Kind.DELETED, asked), Change(Kind.ADDED, placed)]
        if len(there) > 10:
            changes.append(Change(Kind.DELETED, there.popleft()))
        for each in changes:
            cache.apply(each)
            queue.apply(each, 0.0)
    gc.collect()
    return sys.getallocatedblocks()


def test_pods_that_have_gone_are_not_kept() -> None:
    """While no node comes or goes, what is kept follows the pods. It needs only the last of their changes."""
    cache = Cache([node(f"n{i}") for i in range(3)])
    queue = SchedulingQueue({"": PROFILE}, lives=cache.lives)
    before = come_and_go(cache, queue, range(1_000))
    more = come_and_go(cache, queue, range(1_000, 2_000)) - before
    assert more < 10_000, more  # it is 43,000 if all changes are kept
    assert not cache.lives.all()


def volume(name: str, **spec: object) -> StorageObject:
    body = {"metadata": {"name": name}, "spec": spec, "status": {"phase": "Available"}}
    made: PersistentVolume = read(PersistentVolume, body)
    return made


def of_a_claim(name: str) -> StorageObject:
    return volume(name, claimRef={"namespace": "default", "name": name})


def of_a_node(name: str) -> StorageObject:
    here = {"key": HOSTNAME, "operator": "In", "values": [name]}
    return volume(name, nodeAffinity={"required": {"nodeSelectorTerms": [{"matchExpressions": [here]}]}})


def attached(name: str) -> StorageObject:
    made: VolumeAttachment = read(VolumeAttachment, {"metadata": {"name": name}, "spec": {"nodeName": name}})
    return made


@pytest.mark.parametrize("made", [of_a_claim, of_a_node, attached])
def test_of_volumes_that_have_gone_nothing_is_kept(made: Callable[[str], StorageObject]) -> None:
    """Each has a claim or a node of its own, and there is one more all the time."""
    storage = Storage([made("stays")])

    def come_and_go(numbers: range) -> int:
        for number in numbers:
            storage.put(made(f"v{number}"))
            storage.delete(made(f"v{number}"))
        storage.journal.start_over()
        gc.collect()
        return sys.getallocatedblocks()

    before = come_and_go(range(200))
    assert come_and_go(range(200, 1_200)) - before < 800


def test_when_nodes_come_results_of_fewer_kinds_of_pods_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(result_cache, "MAX_RESULTS", 100)
    cache = Cache([node("n1")])
    results = result_cache.ResultCache(Framework(PROFILE))
    for number in range(200):
        if number == 100:
            for each in range(9):
                cache.apply(Change(Kind.ADDED, node(f"node-{each}")))
        results.results_for(pod(f"web-{number}", {"cpu": f"{number + 1}m"}), cache)
    kept: Any = results._results
    assert kept.limit == result_cache.MIN_SIGNATURES >= len(kept._values)
