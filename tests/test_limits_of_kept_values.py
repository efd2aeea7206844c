"""What is kept is limited. A decision that meets the limit is the same as without it."""

import pytest
from objects import node, pod, read
from test_cycle import scheduler

from lib.kube.objects import Pod
from lib.scheduling.cache import Cache

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
