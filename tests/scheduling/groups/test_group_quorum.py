"""Groups whose PodGroup says how many pods are needed: so many are placed, or none. More may be."""

from random import Random
from typing import Any

import pytest
from cluster import Cluster as Running, eventually
from coscheduling import pod_group
from objects import node, pod
from waiting import Asks, recheck_permit

from lib.kube.changes import Change, Kind
from lib.kube.objects import COSCHEDULING, KUBERNETES, Pod, PodGroupRef
from lib.scheduling.cache import Cache
from lib.scheduling.decision import Decision, Outcome
from lib.scheduling.groups.pod_group_cycle import schedule_pod_group
from lib.scheduling.looked_up import LookedUp
from lib.scheduling.plugins.registry import default_profile
from lib.scheduling.queue import SchedulingQueue
from lib.scheduling.scheduling_cycle import Scheduler
from lib.scheduling.status import unschedulable

LABEL = "scheduling.x-k8s.io/pod-group"
GROUP, KUBERNETES_GROUP = (PodGroupRef("default", "g", api) for api in (COSCHEDULING, KUBERNETES))
GANG = {"podGroupName": "g"}


def member(name: str, cpu: str = "1", **spec: Any) -> Pod:
    made = pod(name, {"cpu": cpu}, schedulerName="my-scheduler", **spec)
    made.metadata.labels = {LABEL: "g"}
    return made


def members(names: str, **spec: Any) -> list[Pod]:
    return [member(name, **spec) for name in names]


class World:
    """A cluster whose PodGroup needs so many pods, a queue, and the names of the pods that are tried."""

    def __init__(self, needed: int, cache: Cache, *plugins: Any, preemption: bool = True) -> None:
        self.cache, self.tried, self.now = cache, list[str](), 0.0
        cache.looked_up = LookedUp(group_sizes={GROUP: needed})
        profile = default_profile("my-scheduler", *plugins, preemption=preemption)
        scheduler = Scheduler(profile, Random(1))
        self.schedulers = {"my-scheduler": scheduler}
        self.queue = SchedulingQueue({"my-scheduler": profile}, lives=cache.lives)
        self._schedule_one = scheduler.schedule_one
        scheduler.schedule_one = self._noted  # type: ignore[method-assign]

    def _noted(self, pod: Pod, cache: Cache) -> Decision:
        self.tried.append(pod.metadata.name)
        return self._schedule_one(pod, cache)

    def decide(self, pods: list[Pod]) -> list[Decision]:
        """Try the pods. Those without a node go back into the queue."""
        self.tried.clear()
        for each in pods:
            if each.metadata.uid not in self.queue:
                self.queue.apply(Change(Kind.ADDED, each), now=0)
        self.now += 60  # more than any backoff
        self.queue.retry_all(self.now)
        self.queue.ready(self.now)
        decisions = schedule_pod_group(pods, self.cache, self.schedulers)
        for each in decisions:
            if each.outcome == Outcome.UNSCHEDULABLE:
                self.queue.requeue(each.pod.metadata.uid, each.rejected_by, each.message, self.now)
        return decisions

    def placed(self, pods: list[Pod]) -> str:
        """The names of those of the pods that got a node."""
        return "".join(
            each.pod.metadata.name for each in self.decide(pods) if each.outcome == Outcome.SCHEDULED
        )


def room_for(cpu: int, *assigned: Pod) -> Cache:
    return Cache([node("n1", has={"cpu": str(cpu)})], assigned)


@pytest.mark.parametrize(
    ("needed", "room", "running", "waiting", "placed"),
    [
        (2, 2, "", "abc", "ab"),  # as many as are needed
        (2, 3, "", "abc", "abc"),
        (2, 1, "", "abc", ""),
        (2, 4, "xy", "abc", "ab"),  # enough run: each of the others alone
        (2, 2, "x", "abc", "a"),  # one more is needed
        (3, 2, "x", "abc", ""),  # two more are needed
        (4, 5, "", "abc", ""),  # one isn't there yet
        (0, 1, "", "abc", "a"),
    ],
)
def test_as_many_as_are_needed_get_a_node_or_none(
    needed: int, room: int, running: str, waiting: str, placed: str
) -> None:
    world = World(needed, room_for(room, *members(running, nodeName="n1")))
    assert world.placed(members(waiting)) == placed
    assert world.cache.count_members(GROUP) == len(running + placed)


def test_a_pod_that_is_left_is_rejected_for_itself() -> None:
    """So a change that could help it wakes it, and it needs none of the others."""
    world = World(2, room_for(2))
    pods = members("abc")
    last = world.decide(pods)[2]
    assert last.rejected_by == {"NodeResourcesFit"}
    assert last.message == "0/1 nodes are available: 1 Insufficient cpu. no new claims to deallocate, " + (
        "preemption: 0/1 nodes are available: 1 No preemption victims found for incoming pod."
    )
    world.cache.apply(Change(Kind.MODIFIED, node("n1", has={"cpu": "3"})))
    assert world.placed(pods[2:]) == "c"


def test_a_cycle_ends_when_fewer_can_be_placed_than_are_needed() -> None:
    pods = [member(f"p{i}", "64" if i in (1, 3) else "1") for i in range(9)]
    world = World(8, room_for(50), preemption=False)
    decisions = world.decide(pods)
    assert world.tried == ["p0", "p1", "p2", "p3"]
    too_large = "0/1 nodes are available: 1 Insufficient cpu. no new claims to deallocate"
    said = f"group g needs 8 pods, and fewer fit: default/p1: {too_large}"
    assert [each.message for each in decisions] == [too_large if i in (1, 3) else said for i in range(9)]
    assert {each.rejecting_plugin for each in decisions if each.message == said} == {"PodGroup"}
    assert not world.cache.nodes["n1"].pods

    again = world.decide(pods)
    assert world.tried == ["p1", "p3"], "those that failed the last time come first"
    assert [each.message for each in again] == [each.message for each in decisions]

    world.cache.apply(Change(Kind.MODIFIED, node("n1", has={"cpu": "100"})))
    assert len([each for each in world.decide(pods) if each.outcome == Outcome.SCHEDULED]) == 8


def test_the_others_of_a_group_may_help_those_that_failed() -> None:
    """Two pods that want to be near a third one failed the last time: as that one did. Now it fits."""
    labels = {"kubernetes.io/hostname": "n1"}
    term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"role": "web"}}}
    near = {"affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}
    web, *others = member("a", "2"), member("b", "1", **near), member("c", "1", **near)
    web.metadata.labels["role"] = "web"
    world = World(3, Cache([node("n1", labels, has={"cpu": "1"})]))
    assert world.placed([web, *others]) == ""
    world.cache.apply(Change(Kind.MODIFIED, node("n1", labels, has={"cpu": "4"})))
    for each in others:  # by now they were rejected for themselves, too
        world.cache.lives.reject(world.cache.lives.of(each), {"InterPodAffinity"})
    assert world.placed([web, *others]) == "abc"


@pytest.mark.parametrize(
    ("needed", "evicted"),
    [
        (1, "victim"),  # the first is placed, and the second preempts for itself
        (2, "victim"),  # both wait until the victim has left
        (3, ""),  # the third is too large: nothing is done for the others
    ],
)
def test_pods_are_evicted_where_enough_of_the_group_fit_then(needed: int, evicted: str) -> None:
    victim = pod("victim", {"cpu": "2"}, nodeName="n2")
    world = World(needed, Cache([node("n1", has={"cpu": "2"}), node("n2", has={"cpu": "2"})], [victim]))
    pods = [member("a", "2", priority=10), member("b", "2", priority=10), member("c", "9", priority=10)]
    decisions = world.decide(pods)
    assert [each.outcome == Outcome.SCHEDULED for each in decisions] == [needed == 1, False, False]
    assert {each.metadata.name for its in decisions for each in its.victims} == ({evicted} - {""})
    assert [life.pod.metadata.name for life in world.cache.lives.are_leaving()] == [evicted][: len(evicted)]
    keeps_room = {1: [None, "n2", None], 2: ["n1", "n2", None], 3: [None] * 3}[needed]
    assert [world.cache.nominator.node_of(each) for each in pods] == keeps_room
    world.cache.apply(Change(Kind.DELETED, victim))
    assert world.placed(pods[1:] if needed == 1 else pods) == {1: "b", 2: "ab", 3: ""}[needed]


def test_no_pod_of_a_group_is_evicted_for_another_that_is_tried_with_it() -> None:
    world = World(1, room_for(2))
    pods = [member("a", "2"), member("b", "2", priority=10)]  # as no queue sorts them, but a plugin may
    decisions = world.decide(pods)
    assert [each.outcome for each in decisions] == [Outcome.SCHEDULED, Outcome.UNSCHEDULABLE]
    assert not any(each.nominated or each.victims or each.preempted_held for each in decisions)
    assert not world.cache.lives.leaving


@pytest.mark.parametrize("needed", [2, 3])
def test_when_a_held_pod_loses_its_node_the_others_keep_theirs_if_enough_are_left(needed: int) -> None:
    asks = Asks()
    world = World(needed, room_for(3), asks)
    assert {each.outcome for each in world.decide(members("abc"))} == {Outcome.WAITING}
    asks.answers = {"a": None, "c": unschedulable("no licence is free")}
    found = {
        each.pod.metadata.name: each.outcome for each in recheck_permit(world.cache, world.schedulers, now=1)
    }
    no = Outcome.UNSCHEDULABLE
    assert found == ({"a": Outcome.SCHEDULED, "c": no} if needed == 2 else {"a": no, "b": no, "c": no})
    assert world.cache.count_members(GROUP) == (2 if needed == 2 else 0)


def test_a_pod_waits_for_the_pod_group_of_kubernetes_that_it_names() -> None:
    """Until it is there, and has enough pods, nothing is tried: kube-scheduler holds them in PreEnqueue."""
    pods = [pod(name, {"cpu": "1"}, schedulerName="my-scheduler", schedulingGroup=GANG) for name in "ab"]
    for group_sizes, said in (
        ({}, "waiting for PodGroup g to be created"),
        ({KUBERNETES_GROUP: 3}, "waiting for 1 more of 3"),
    ):
        world = World(0, room_for(3))
        world.cache.looked_up = LookedUp(group_sizes=group_sizes)
        decisions = world.decide(pods)
        assert [(each.message, each.rejecting_plugin) for each in decisions] == [(said, "GangScheduling")] * 2
        assert not world.tried
    for needed, placed in ((2, "ab"), (0, "ab")):
        world = World(0, room_for(3))
        world.cache.looked_up = LookedUp(group_sizes={KUBERNETES_GROUP: needed})
        assert world.placed(pods) == placed


def test_a_pod_group_that_could_not_be_read_is_an_error_of_its_pods() -> None:
    pods = [pod(name, {"cpu": "1"}, schedulerName="my-scheduler", schedulingGroup=GANG) for name in "ab"]
    world = World(0, room_for(3))
    world.cache.looked_up = LookedUp(errors={each.metadata.uid: "forbidden" for each in pods})
    assert {(each.outcome, each.message) for each in world.decide(pods)} == {(Outcome.ERROR, "forbidden")}


# --- end to end -----------------------------------------------------------------------------------------


def test_an_elastic_job_starts_on_a_nearly_full_cluster_and_grows(cluster: Running) -> None:
    with pod_group(cluster, "g", 2):
        cluster.add_node("n1", cpu="2")
        for name in "abc":
            cluster.add_pod(name, requests={"cpu": "1"}, metadata={"labels": {LABEL: "g"}})
        with cluster.running_poller(afresh=True) as poller:
            eventually(lambda: [*cluster.placement().values()].count("n1") == 2)
            (left,) = [name for name, where in cluster.placement().items() if not where]
            poller.says(f"default/{left} fits nowhere: 0/1 nodes are available: 1 Insufficient cpu")
            for name in "de":
                cluster.add_pod(name, requests={"cpu": "1"}, metadata={"labels": {LABEL: "g"}})
            cluster.add_node("n2", cpu="2")
            eventually(lambda: [*cluster.placement().values()].count("n2") == 2)
        assert [*cluster.placement().values()].count(None) == 1
