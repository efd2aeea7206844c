"""Groups: all of a group has a place in one tick, or none has."""

from random import Random
from typing import Any

import pytest
from cluster import Cluster as Running
from cluster import eventually
from faults import ALWAYS, Effect, Fault, answer, faulty
from objects import node, pod

from lib.kube.changes import Change, Kind
from lib.kube.objects import Pod
from lib.scheduling.cache import Cache
from lib.scheduling.decision import Decision, Outcome
from lib.scheduling.plugins.registry import default_profile
from lib.scheduling.pod_groups import batches, schedule_pod_group
from lib.scheduling.queue import SchedulingQueue
from lib.scheduling.scheduling_cycle import Scheduler

SCHEDULERS = {"my-scheduler": Scheduler(default_profile("my-scheduler", preemption=False), Random(1))}
NAMES = ["a", "b", "c", "d", "e"]


def member(
    name: str, size: str | None = "3", group: str = "g", label: str = "poller/group", **spec: Any
) -> Pod:
    made = pod(name, {"cpu": "1"}, schedulerName="my-scheduler", **spec)
    made.metadata.labels = {label: "g"}
    made.metadata.annotations = {"poller/group-size": size} if size is not None else {}
    return made


def decide(pods: list[Pod], cluster: Cache) -> list[Decision]:
    return [each for batch in batches(pods) for each in schedule_pod_group(batch, cluster, SCHEDULERS)]


def room_for(cpu: int, *assigned: Pod) -> Cache:
    return Cache([node("n1", has={"cpu": str(cpu)})], assigned)


def test_a_group_that_fits_is_placed_whole() -> None:
    decisions = decide([member(name) for name in "abc"], room_for(3))
    assert [each.outcome for each in decisions] == [Outcome.SCHEDULED] * 3


def test_a_group_that_does_not_fit_whole_takes_no_place() -> None:
    cluster = room_for(2)
    decisions = decide(
        [member(name) for name in "abc"] + [pod("alone", {"cpu": "2"}, schedulerName="my-scheduler")], cluster
    )
    assert [each.outcome for each in decisions] == [Outcome.UNSCHEDULABLE] * 3 + [Outcome.SCHEDULED]
    assert decisions[0].message == ("group g needs default/c: 0/1 nodes are available: 1 Insufficient cpu.")
    assert decisions[2].message == "0/1 nodes are available: 1 Insufficient cpu."
    assert [each.metadata.name for each in cluster.nodes["n1"].pods] == ["alone"]


def test_a_group_that_is_not_all_there_waits() -> None:
    decisions = decide([member(name, size="5") for name in "abc"], room_for(9))
    assert [each.message for each in decisions] == ["waiting for 2 more of 5"] * 3


def test_members_that_have_a_node_already_count() -> None:
    placed = [member("a", nodeName="n1"), member("b", nodeName="n1")]
    (decision,) = decide([member("c")], room_for(3, *placed))
    assert decision.outcome == Outcome.SCHEDULED


def test_a_group_is_of_one_namespace_and_label() -> None:
    other = member("b", nodeName="n1")
    other.metadata.namespace = "elsewhere"
    theirs = member("x", nodeName="n1", label="scheduling.x-k8s.io/pod-group")
    (decision,) = decide([member("c")], room_for(9, other, theirs))
    assert decision.message == "waiting for 2 more of 3"


@pytest.mark.parametrize("size", ["", "none", "0", "-1", "3.0", None])
def test_a_size_that_is_none_is_said_so(size: str | None) -> None:
    (decision,) = decide([member("a", size=size)], room_for(9))
    assert (
        decision.message
        == f"annotation poller/group-size must say how many pods group g has, not {size or ''!r}"
    )


def test_sizes_that_differ_are_said_so() -> None:
    decisions = decide([member("a", size="2"), member("b", size="3")], room_for(9))
    assert decisions[1].message == "annotation poller/group-size differs within group g: 2, 3"


def test_a_pod_group_says_how_many_are_needed() -> None:
    pods = [member(name, label="scheduling.x-k8s.io/pod-group", size=None) for name in "ab"]
    cluster = room_for(9)
    cluster.group_sizes["default", "g"] = 3
    assert [each.message for each in decide(pods, cluster)] == ["waiting for 1 more of 3"] * 2
    cluster.group_sizes["default", "g"] = 2
    assert {each.outcome for each in decide(pods, cluster)} == {Outcome.SCHEDULED}


def test_without_its_pod_group_a_pod_is_placed_like_any_other() -> None:
    pods = [member(name, label="scheduling.x-k8s.io/pod-group", size=None) for name in "ab"]
    decisions = decide(pods, room_for(1))
    assert [each.outcome for each in decisions] == [Outcome.SCHEDULED, Outcome.UNSCHEDULABLE]


def test_when_one_is_tried_all_are() -> None:
    queue = SchedulingQueue({"my-scheduler": default_profile("my-scheduler")})
    first = member("a")
    queue.apply(Change(Kind.ADDED, first), now=0)
    queue.requeue(first.metadata.uid, {"PodGroup"}, "waiting for 2 more of 3", now=0)
    assert queue.ready(now=0.1) == []
    queue.apply(Change(Kind.ADDED, member("b")), now=0.2)
    assert sorted(each.metadata.name for each in queue.ready(now=0.2)) == ["a", "b"]


# --- end to end -----------------------------------------------------------------------------------------


def add_member(cluster: Running, name: str, size: int = 5) -> None:
    metadata = {"labels": {"poller/group": "g"}, "annotations": {"poller/group-size": str(size)}}
    cluster.add_pod(name, requests={"cpu": "1"}, metadata=metadata)


def test_a_group_comes_one_by_one_and_is_bound_at_once(cluster: Running) -> None:
    cluster.add_node("n1", cpu="5")
    with cluster.running_poller() as poller:
        for name in NAMES[:3]:
            add_member(cluster, name)
        poller.says("default/a fits nowhere: waiting for 2 more of 5")
        assert set(cluster.placement().values()) == {None}
        for name in NAMES[3:]:
            add_member(cluster, name)
        eventually(lambda: set(cluster.placement().values()) == {"n1"}, within=15)


@pytest.mark.parametrize("run", range(12))  # on each of two API servers
def test_a_group_is_never_half_placed_with_another_scheduler_racing(cluster: Running, run: int) -> None:
    """Another poller takes places one by one, and the group has all of its own or none."""
    cluster.add_node("n1", cpu="4")
    cluster.add_node("n2", cpu="4")
    for i in range(run % 6):
        cluster.add_pod(f"theirs-{i}", scheduler="rival", requests={"cpu": "1"})
    for name in NAMES:
        add_member(cluster, name)
    with cluster.running_poller("--scheduler-name=rival", "--interval=0.01") as rival:
        cluster.poller("--scheduler-name=my-scheduler")
        rival.stop(15)
    ours = [node for name, node in cluster.placement().items() if name in NAMES]
    assert sum(node is not None for node in ours) in (0, 5)


POD_GROUPS = {
    "metadata": {"name": "podgroups.scheduling.x-k8s.io"},
    "spec": {
        "group": "scheduling.x-k8s.io",
        "scope": "Namespaced",
        "names": {"kind": "PodGroup", "plural": "podgroups", "singular": "podgroup"},
        "versions": [
            {
                "name": "v1alpha1",
                "served": True,
                "storage": True,
                "schema": {
                    "openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
                },
            }
        ],
    },
}


def test_a_pod_group_is_asked_how_many_it_needs(cluster: Running) -> None:
    crds = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    if cluster.api.get(crds).status_code == 404:
        pytest.skip("the embedded API server has no custom resources")
    groups = "/apis/scheduling.x-k8s.io/v1alpha1/namespaces/default/podgroups"
    cluster.post(crds, POD_GROUPS)
    try:
        eventually(lambda: cluster.api.get(groups).status_code == 200)
        group = {"apiVersion": "scheduling.x-k8s.io/v1alpha1", "kind": "PodGroup"}
        cluster.post(groups, {**group, "metadata": {"name": "g"}, "spec": {"minMember": 3}})
        cluster.add_node("n1")
        label = {"labels": {"scheduling.x-k8s.io/pod-group": "g"}}
        for name in "ab":
            cluster.add_pod(name, metadata=label)
        done = cluster.poller()
        assert "default/a fits nowhere: waiting for 1 more of 3" in done.stderr
        cluster.add_pod("c", metadata=label)
        assert cluster.poller().returncode == 0
        assert set(cluster.placement().values()) == {"n1"}
    finally:
        cluster.api.delete(f"{crds}/podgroups.scheduling.x-k8s.io")


@pytest.mark.parametrize(
    "answered",
    [
        answer(403, '{"kind":"Status","status":"Failure","message":"podgroups is forbidden","code":403}'),
        answer(200, '{"kind":"PodGroup","metadata":{"name":"g"},"spec":{"minMember":"many"}}'),
    ],
    ids=["forbidden", "malformed"],
)
def test_a_pod_group_that_cannot_be_read_holds_up_no_other_pod(cluster: Running, answered: Effect) -> None:
    cluster.add_node("n1")
    cluster.add_pod("a", metadata={"labels": {"scheduling.x-k8s.io/pod-group": "g"}})
    cluster.add_pod("b")
    with faulty(cluster.proxy, Fault("GET", "/podgroups/g", answered, ALWAYS)) as between:
        done = cluster.poller(proxy=between.url)
    assert "default/a: PodGroup default/g can't be looked up: GET /apis/scheduling" in done.stderr
    assert cluster.placement() == {"a": None, "b": "n1"}


def test_without_the_crd_pods_of_a_pod_group_are_placed_like_any_other(cluster: Running) -> None:
    cluster.add_node("n1")
    cluster.add_pod("a", metadata={"labels": {"scheduling.x-k8s.io/pod-group": "g"}})
    assert cluster.poller().returncode == 0
    assert cluster.placement() == {"a": "n1"}
