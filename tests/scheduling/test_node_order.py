"""Nodes are filtered zone by zone in turn, as kube-scheduler's snapshot has them.

Source: pkg/scheduler/backend/cache/node_tree.go
"""

import random

import pytest
from objects import node, pod

from lib.kube.changes import Change, Kind
from lib.kube.objects import Node
from lib.scheduling.cache import Cache
from lib.scheduling.plugins.registry import default_profile
from lib.scheduling.scheduling_cycle import Scheduler

ZONE, REGION = "topology.kubernetes.io/zone", "topology.kubernetes.io/region"


def names(cache: Cache) -> list[str]:
    return [each.name for each in cache.node_list]


def in_zone(name: str, zone: str = "", region: str = "") -> Node:
    return node(name, {ZONE: zone} | ({REGION: region} if region else {}))


@pytest.mark.parametrize(
    ("nodes", "order"),
    [
        ([], []),
        (["a1", "a2", "a3"], ["a1", "a2", "a3"]),
        (["a1", "a2", "a3", "b1", "b2", "c1"], ["a1", "b1", "c1", "a2", "b2", "a3"]),
        (["b1", "a1", "b2", "b3"], ["b1", "a1", "b2", "b3"]),
    ],
)
def test_each_zone_in_turn(nodes: list[str], order: list[str]) -> None:
    assert names(Cache([in_zone(name, name[0]) for name in nodes])) == order


def test_regions_with_zones_of_the_same_name_are_different() -> None:
    nodes = [in_zone("x1", "a", "x"), in_zone("x2", "a", "x"), in_zone("y1", "a", "y")]
    assert names(Cache(nodes)) == ["x1", "y1", "x2"]


def test_a_node_that_moves_to_another_zone_is_the_last_there() -> None:
    cache = Cache([in_zone(name, name[0]) for name in ("a1", "a2", "b1", "b2")])
    assert names(cache) == ["a1", "b1", "a2", "b2"]
    cache.apply(Change(Kind.MODIFIED, in_zone("a1", "b"), in_zone("a1", "a")))
    assert names(cache) == ["a2", "b1", "b2", "a1"]
    assert cache.node_index == {"a2": 0, "b1": 1, "b2": 2, "a1": 3}


def test_pods_that_prefer_a_zone_find_it_in_a_large_cluster() -> None:
    """With 300 nodes only a part is scored. Each part has nodes of all three zones."""
    cache = Cache([in_zone(f"{zone}{i:03}", zone) for zone in "abc" for i in range(100)])
    scheduler = Scheduler(default_profile("my-scheduler"), random.Random(1))
    term = {"matchExpressions": [{"key": ZONE, "operator": "In", "values": ["c"]}]}
    wish = [{"weight": 100, "preference": term}]
    affinity = {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": wish}}
    for i in range(60):
        decision = scheduler.schedule_one(pod(f"web-{i}", {"cpu": "10m"}, affinity=affinity), cache)
        assert (decision.node_name or "").startswith("c")
        cache.apply(Change(Kind.ADDED, pod(f"other-{i}", {"cpu": "1"}, nodeName=decision.node_name)))


def test_preemption_counts_the_nodes_that_it_can_help_on() -> None:
    """Nodes are added in another order than they are tried in: a2 comes last there."""
    nodes = [in_zone("a1", "a"), in_zone("a2", "a"), in_zone("b1", "b")]
    equal, less = pod("equal", {"cpu": "3"}, nodeName="a2", priority=5), pod("less", nodeName="b1")
    cache = Cache(nodes, [equal, less])
    tainted = [{"key": "old", "effect": "NoSchedule"}]
    for name, zone in (("a1", "a"), ("b1", "b")):
        bad = node(name, {ZONE: zone}, taints=tainted)
        cache.apply(Change(Kind.MODIFIED, bad))
    assert names(cache) == ["a1", "b1", "a2"]
    scheduler = Scheduler(default_profile("my-scheduler"), random.Random(1))
    decision = scheduler.schedule_one(pod("web", {"cpu": "3"}, priority=5), cache)
    assert decision.message.endswith(
        "preemption: 0/3 nodes are available: 1 No preemption victims found for incoming pod, "
        "2 Preemption is not helpful for scheduling."
    )
