"""Groups: in one tick, all pods of a group are placed, or none is."""

from datetime import UTC, datetime
from random import Random
from reprlib import repr as short
from typing import Any

import pytest
from cluster import ONE_SERVER, Cluster as Running, eventually
from coscheduling import pod_group
from faults import ALWAYS, Effect, Fault, answer, faulty
from objects import node, pod
from waiting import Asks, recheck_permit

from lib.kube.changes import Change, Kind
from lib.kube.objects import COSCHEDULING, Pod, PodGroupRef
from lib.kube.quantity import Quantity
from lib.scheduling.cache import Cache
from lib.scheduling.decision import Decision, Outcome
from lib.scheduling.framework.runtime import SCHEDULING_CYCLE
from lib.scheduling.groups.group_time import GroupTime
from lib.scheduling.groups.pod_group_cycle import schedule_pod_group
from lib.scheduling.looked_up import LookedUp
from lib.scheduling.node_info import NodeInfo
from lib.scheduling.plugins.registry import default_profile
from lib.scheduling.pod_life import ROOM
from lib.scheduling.queue import SchedulingQueue, batches
from lib.scheduling.scheduling_cycle import Scheduler
from lib.scheduling.status import Status, unschedulable

SCHEDULERS = {"my-scheduler": Scheduler(default_profile("my-scheduler", preemption=False), Random(1))}
NAMES = ["a", "b", "c", "d", "e"]
OF_COSCHEDULING = PodGroupRef("default", "g", COSCHEDULING)


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
    assert decisions[0].message == (
        "group g needs default/c: 0/1 nodes are available: 1 Insufficient cpu. no new claims to deallocate"
    )
    assert decisions[2].message == "0/1 nodes are available: 1 Insufficient cpu. no new claims to deallocate"
    assert [each.metadata.name for each in cluster.nodes["n1"].pods] == ["alone"]


class Accounts:
    """Keeps accounts of its own of the pods that have a node."""

    name = "Accounts"

    def __init__(self) -> None:
        self.reserved: list[str] = []

    def reserve(self, state: Any, pod: Pod, node_name: str) -> None:
        self.reserved.append(pod.metadata.name)

    def unreserve(self, state: Any, pod: Pod, node_name: str) -> None:
        self.reserved.remove(pod.metadata.name)


def test_a_group_that_fails_in_an_unforeseen_way_is_unreserved() -> None:
    cycles, accounts, cluster = [1, 0], Accounts(), room_for(3)

    def record(point: str, _status: str, _seconds: float) -> None:
        if point == SCHEDULING_CYCLE and not cycles.pop(0):
            raise RuntimeError("no more room for figures")

    profile = default_profile("my-scheduler", accounts)
    scheduler = Scheduler(profile, Random(1), record=record)
    with pytest.raises(RuntimeError):
        schedule_pod_group([member(name) for name in "abc"], cluster, {"my-scheduler": scheduler})
    assert (accounts.reserved, cluster.nodes["n1"].pods, cluster.lives.count(ROOM)) == ([], [], 0)


@pytest.mark.parametrize("why", ["rejected", "preempted"])
def test_when_one_of_a_held_group_loses_its_node_all_do(why: str) -> None:
    asks, cluster = Asks(), room_for(4)
    scheduler = Scheduler(default_profile("my-scheduler", asks), Random(1))
    pods = [member(name) for name in "abc"] + [pod("alone", {"cpu": "1"}, schedulerName="my-scheduler")]
    for batch in batches(pods):
        decided = schedule_pod_group(batch, cluster, {"my-scheduler": scheduler})
        assert {each.outcome for each in decided} == {Outcome.WAITING}
    asks.answers = {"a": None, "alone": None}  # may be bound now; b waits on
    if why == "rejected":
        asks.answers["c"] = unschedulable("no licence is free")
    else:
        cluster.lives.preempt([pods[2]])
    decisions = recheck_permit(cluster, {"my-scheduler": scheduler}, now=1)
    outcomes = {each.pod.metadata.name: each.outcome for each in decisions}
    last = Outcome.UNSCHEDULABLE if why == "rejected" else Outcome.ERROR
    assert outcomes == {
        "a": Outcome.UNSCHEDULABLE,
        "b": Outcome.UNSCHEDULABLE,
        "c": last,
        "alone": Outcome.SCHEDULED,
    }
    assert decisions[0].message == f"group g needs default/c: {decisions[2].message}"
    assert [each.metadata.name for each in cluster.nodes["n1"].pods] == ["alone"]


class World:
    """A cluster, a queue with the pods of a group, and the names of those that are tried."""

    def __init__(self, cluster: Cache, pods: list[Pod], *plugins: Any) -> None:
        self.cluster, self.pods, self.tried, self.now = cluster, pods, list[str](), 0.0
        profile = default_profile("my-scheduler", *plugins)
        scheduler = Scheduler(profile, Random(1))
        self.schedulers = {"my-scheduler": scheduler}
        self.queue = SchedulingQueue({"my-scheduler": profile}, lives=cluster.lives)
        for each in pods:
            self.queue.apply(Change(Kind.ADDED, each), now=0)
        self._schedule_one = scheduler.schedule_one
        scheduler.schedule_one = self._noted  # type: ignore[method-assign]

    def _noted(self, pod: Pod, cache: Cache) -> Decision:
        self.tried.append(pod.metadata.name)
        return self._schedule_one(pod, cache)

    def decide(self) -> list[Decision]:
        """Try the group. Pods without a node go back into the queue."""
        self.tried.clear()
        self.now += 60  # more than any backoff
        self.queue.retry_all(self.now)
        assert len(self.queue.ready(self.now)) == len(self.pods)
        decisions = schedule_pod_group(self.pods, self.cluster, self.schedulers)
        for each in decisions:
            if each.outcome != Outcome.SCHEDULED:
                self.queue.requeue(each.pod.metadata.uid, each.rejected_by, each.message, self.now)
        return decisions


def large_group(size: int, *, odd: int, cpu: str = "64") -> list[Pod]:
    """So many pods of a group; the one with the number `odd` wants more than any node has."""
    pods = [member(f"p{at}", size=str(size)) for at in range(size)]
    pods[odd].spec.containers[0].resources.requests["cpu"] = Quantity.parse(cpu)
    return pods


def test_no_more_pods_of_a_group_are_tried_than_one_that_can_not_fit() -> None:
    world = World(room_for(50), large_group(40, odd=20))
    decisions = world.decide()
    assert world.tried == [f"p{at}" for at in range(21)]
    assert [each.pod for each in decisions] == world.pods
    message = decisions[20].message
    assert message.startswith("0/1 nodes are available: 1 Insufficient cpu.")
    others = {each.message for each in decisions if each is not decisions[20]}
    assert others == {f"group g needs default/p20: {message}"}
    assert {each.rejecting_plugin for each in (decisions[0], decisions[39])} == {"PodGroup"}
    assert not world.cluster.nodes["n1"].pods

    again = world.decide()
    assert world.tried == ["p20"]
    assert [each.message for each in again] == [each.message for each in decisions]
    assert [each.rejected_by for each in again] == [each.rejected_by for each in decisions]


def test_when_the_pod_that_failed_fits_its_group_is_tried_as_a_new_one_is() -> None:
    world = World(room_for(3), large_group(4, odd=1, cpu="4"))
    assert {each.outcome for each in world.decide()} == {Outcome.UNSCHEDULABLE}
    world.cluster.apply(Change(Kind.MODIFIED, node("n1", has={"cpu": "7"})))
    assert {each.outcome for each in world.decide()} == {Outcome.SCHEDULED}
    assert world.tried == ["p1", "p0", "p1", "p2", "p3"]
    assert len(world.cluster.nodes["n1"].pods) == 4


class NotFirst:
    """A plugin without a hint: the pod b gets a node only when there is another pod."""

    name = "NotFirst"

    def filter(self, state: Any, pod: Pod, node: NodeInfo) -> Status | None:
        return None if node.pods or pod.metadata.name != "b" else unschedulable("not first")


NEAR_WEB: Any = {
    "podAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": [
            {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"role": "web"}}}
        ]
    }
}


@pytest.mark.parametrize("why", ["affinity", "a policy"])
def test_a_pod_that_needs_others_of_its_group_is_tried_after_them(why: str) -> None:
    """It failed the last time. Alone it would fail again, though the group fits now."""
    web = member("a", size="2")
    web.metadata.labels["role"] = "web"
    near = {"affinity": NEAR_WEB} if why == "affinity" else {}
    labels = {"kubernetes.io/hostname": "n1"}
    small = node("n1", labels, has={"cpu": "1"})
    world = World(Cache([small]), [web, member("b", size="2", **near)], NotFirst())
    (first, second) = world.decide()
    assert (first.rejected_by, second.rejected_by) == ({"PodGroup"}, {"NodeResourcesFit"})
    # Now it fails for the other reason, as the first pod of the group doesn't fit.
    world.cluster.apply(Change(Kind.ADDED, node("n2", has={"cpu": "9"}, unschedulable=True)))
    world.cluster.apply(Change(Kind.MODIFIED, node("n1", labels, has={"cpu": "2"})))
    assert {each.outcome for each in world.decide()} == {Outcome.SCHEDULED}
    assert world.tried == ["b", "a", "b"]


def test_no_pod_is_tried_first_for_which_room_is_kept() -> None:
    victim = pod("victim", {"cpu": "2"}, nodeName="n2")
    cluster = Cache([node("n1", has={"cpu": "2"}), node("n2", has={"cpu": "2"})], [victim])
    world = World(cluster, [important("a", "2"), important("b", "2")])
    assert [each.nominated for each in world.decide()] == ["n1", "n2"]
    world.cluster.apply(Change(Kind.DELETED, victim))
    assert {each.outcome for each in world.decide()} == {Outcome.SCHEDULED}
    assert world.tried == ["a", "b"]


def taken(group: str, seconds: float, outcome: Outcome = Outcome.UNSCHEDULABLE) -> list[Decision]:
    """The decisions for a group's two pods, which took so long."""
    pods = [of_group(group, name) for name in "xy"]
    return [Decision(each, outcome, began=0.0, ended=seconds / 2) for each in pods]


def of_group(group: str, name: str) -> Pod:
    made = pod(f"{group}-{name}")
    made.metadata.labels = {"poller/group": group}
    return made


def test_slow_groups_take_a_tenth_of_the_time_and_come_last() -> None:
    times = GroupTime()
    ready = [of_group("a", "x"), of_group("b", "x"), pod("new"), of_group("quick", "x"), of_group("a", "y")]

    def tried(now: float) -> list[str]:
        return [each.metadata.name for each in times.in_turn(ready, now)]

    assert tried(0) == ["a-x", "b-x", "new", "quick-x", "a-y"]
    times.took(taken("quick", 0.01), now=1)
    times.took(taken("a", 3), now=3)
    times.took(taken("b", 2), now=5)
    assert tried(6) == ["new", "quick-x"]
    assert tried(22.9) == ["new", "quick-x"]
    assert tried(23) == ["new", "quick-x", "a-x", "a-y"]
    times.took(taken("a", 3), now=26)
    assert tried(26) == ["new", "quick-x"]
    assert tried(53) == ["new", "quick-x", "b-x"]
    times.took(taken("b", 2, Outcome.SCHEDULED), now=55)
    assert tried(55) == ["b-x", "new", "quick-x", "a-x", "a-y"]


def test_slow_groups_that_have_gone_are_forgotten() -> None:
    times = GroupTime()
    for number in range(2000):
        times.took(taken(f"g{number}", 1), now=number)
    old, new = of_group("g0", "x"), of_group("g1999", "x")
    assert times.in_turn([new, old], now=2000) == [old]


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


@pytest.mark.parametrize("size", ["", "none", "0", "-1", "3.0", "9" * 10, "9" * 5000, "٣", None])
def test_a_size_that_is_none_is_said_so(size: str | None) -> None:
    (decision,) = decide([member("a", size=size)], room_for(9))
    said = f"annotation poller/group-size must say how many pods group g has, not {short(size or '')}"
    assert decision.message == said


def test_a_size_has_nine_digits_at_most() -> None:
    (decision,) = decide([member("a", size="9" * 9)], room_for(9))
    assert decision.message == "waiting for 999999998 more of 999999999"


def test_members_that_are_being_deleted_or_preempted_do_not_count() -> None:
    ends, stays, preempted = (member(name, size="4", nodeName="n1") for name in ("ends", "stays", "evicted"))
    ends.metadata.deletion_timestamp = datetime(2026, 1, 1, tzinfo=UTC)
    cluster = room_for(9, ends, stays, preempted)
    cluster.lives.preempt([preempted])
    (decision,) = decide([member("new", size="4")], cluster)
    assert decision.message == "waiting for 2 more of 4"


def test_members_are_counted_as_they_come_and_go() -> None:
    placed = member("a", nodeName="n1")
    group = PodGroupRef("default", "g")
    cluster = room_for(9, placed)
    assert cluster.count_members(group) == 1
    cluster.apply(Change(Kind.MODIFIED, member("a", nodeName="n1"), placed))
    cluster.assume(member("b"), "n1")
    assert cluster.count_members(group) == 2
    cluster.forget(member("b"))
    cluster.apply(Change(Kind.DELETED, placed))
    assert cluster.count_members(group) == 0


def important(name: str, cpu: str) -> Pod:
    made = member(name, size="2", priority=10)
    made.spec.containers[0].resources.requests["cpu"] = Quantity.parse(cpu)
    return made


@pytest.mark.parametrize(("second", "evicted"), [("9", set()), ("1", {"victim"})])
def test_pods_are_evicted_only_for_a_group_that_fits_then(second: str, evicted: set[str]) -> None:
    schedulers = {"my-scheduler": Scheduler(default_profile("my-scheduler"), Random(1))}
    cluster = room_for(4, pod("victim", {"cpu": "4"}, nodeName="n1"))
    decisions = schedule_pod_group([important("a", "3"), important("b", second)], cluster, schedulers)
    assert {each.outcome for each in decisions} == {Outcome.UNSCHEDULABLE}
    assert {victim.metadata.name for each in decisions for victim in each.victims} == evicted
    assert set(cluster.lives.leaving) == {f"uid-of-{name}" for name in evicted}
    assert bool(cluster.nominator.node_of(decisions[0].pod)) == bool(evicted)


def test_room_is_kept_for_all_of_a_group_until_its_victims_have_left() -> None:
    schedulers = {"my-scheduler": Scheduler(default_profile("my-scheduler"), Random(1))}
    victim = pod("victim", {"cpu": "2"}, nodeName="n2")
    cluster = Cache([node("n1", has={"cpu": "2"}), node("n2", has={"cpu": "2"})], [victim])
    group = [important("a", "2"), important("b", "2")]

    def others() -> list[str]:
        rivals = [pod("rival", {"cpu": "1"}, schedulerName="my-scheduler", priority=10)]
        return [each.node_name for each in schedule_pod_group(rivals, cluster, schedulers)]

    for _ in range(2):  # the second time, the victim is leaving
        first, second = schedule_pod_group(group, cluster, schedulers)
        assert {each.outcome for each in (first, second)} == {Outcome.UNSCHEDULABLE}
        assert (first.nominated, cluster.nominator.node_of(group[1]), others()) == ("n1", "n2", [""])
    cluster.apply(Change(Kind.DELETED, victim))
    assert {each.outcome for each in schedule_pod_group(group, cluster, schedulers)} == {Outcome.SCHEDULED}


@pytest.mark.parametrize("why", ["one is gone", "one fits no longer"])
def test_no_room_is_kept_for_a_group_that_no_longer_fits(why: str) -> None:
    schedulers = {"my-scheduler": Scheduler(default_profile("my-scheduler"), Random(1))}
    victim = pod("victim", {"cpu": "2"}, nodeName="n2")
    cluster = Cache([node("n1", has={"cpu": "2"}), node("n2", has={"cpu": "2"})], [victim])
    group = [important("a", "2"), important("b", "2")]
    schedule_pod_group(group, cluster, schedulers)
    assert {each.nominated for each in map(cluster.lives.of, group)} == {"n1", "n2"}
    cluster.apply(Change(Kind.DELETED, victim))
    if why == "one is gone":
        cluster.nominator.delete(group.pop(0))
    else:
        cluster.apply(Change(Kind.DELETED, cluster.nodes["n1"].node))
    decisions = schedule_pod_group(group, cluster, schedulers)
    assert {each.outcome for each in decisions} == {Outcome.UNSCHEDULABLE}
    assert {each.clears_nomination for each in decisions} == {True}
    assert not cluster.lives.nominated


def test_sizes_that_differ_are_said_so() -> None:
    decisions = decide([member("a", size="2"), member("b", size="3")], room_for(9))
    assert decisions[1].message == "annotation poller/group-size differs within group g: 2, 3"


def test_a_pod_group_says_how_many_are_needed() -> None:
    pods = [member(name, label="scheduling.x-k8s.io/pod-group", size=None) for name in "ab"]
    cluster = room_for(9)
    cluster.looked_up = LookedUp(group_sizes={OF_COSCHEDULING: 3})
    assert [each.message for each in decide(pods, cluster)] == ["waiting for 1 more of 3"] * 2
    cluster.looked_up = LookedUp(group_sizes={OF_COSCHEDULING: 2})
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


def test_a_group_that_is_not_all_there_is_tried_again_when_one_comes_or_goes() -> None:
    queue = SchedulingQueue({"my-scheduler": default_profile("my-scheduler")})
    first, second, elsewhere = member("a"), member("b"), member("c", nodeName="n1")
    stranger = pod("x", nodeName="n1")

    def wait() -> None:
        for each in (first, second):
            queue.drop(each.metadata.uid)
            queue.apply(Change(Kind.ADDED, each), now=0)
            queue.requeue(each.metadata.uid, {"PodGroup"}, "waiting for 1 more of 3", now=0)

    for change in (Change(Kind.ADDED, stranger), Change(Kind.DELETED, stranger), Change(Kind.ADDED, node())):
        wait()
        queue.apply(change, now=20)
        assert queue.ready(now=20) == [], change
    for change in (Change(Kind.ADDED, elsewhere), Change(Kind.DELETED, elsewhere)):
        wait()
        queue.apply(change, now=20)
        assert queue.ready(now=20) == [first, second], change
    wait()
    queue.apply(Change(Kind.DELETED, second, second), now=20)  # it may have been what was in the way
    assert queue.ready(now=20) == [first]


def test_a_pod_group_that_needs_fewer_now_is_looked_at_before_long() -> None:
    queue = SchedulingQueue({"my-scheduler": default_profile("my-scheduler")})
    first, other = member("a", size=None, label="scheduling.x-k8s.io/pod-group"), member("b")
    for each in (first, other):
        queue.apply(Change(Kind.ADDED, each), now=0)
        queue.requeue(each.metadata.uid, {"PodGroup"}, "waiting for 1 more of 3", now=0)
    assert queue.ready(now=4.9) == []
    due = []
    for now in range(200):
        if queue.ready(now) == [first]:
            due.append(now)
            queue.requeue(first.metadata.uid, {"PodGroup"}, "waiting for 1 more of 3", now)
    assert due == [5, 15, 30, 50, 75, 105, 135, 165, 195]


# --- end to end -----------------------------------------------------------------------------------------


def add_member(cluster: Running, name: str, size: int = 5) -> None:
    metadata = {"labels": {"poller/group": "g"}, "annotations": {"poller/group-size": str(size)}}
    cluster.add_pod(name, requests={"cpu": "1"}, metadata=metadata)


def test_a_group_comes_one_by_one_and_is_bound_at_once(cluster: Running) -> None:
    cluster.add_node("n1", cpu="5")
    with cluster.running_poller(afresh=True) as poller:
        for name in NAMES[:3]:
            add_member(cluster, name)
        poller.says("default/a: waiting for 2 more of 5")
        assert set(cluster.placement().values()) == {None}
        for name in NAMES[3:]:
            add_member(cluster, name)
        eventually(lambda: set(cluster.placement().values()) == {"n1"})


@pytest.mark.parametrize("run", range(6))
@pytest.mark.parametrize("servers", [ONE_SERVER], indirect=True)
def test_a_group_is_never_half_placed_with_another_scheduler_racing(cluster: Running, run: int) -> None:
    """Another poller takes places one by one, and the group has all of its own or none."""
    cluster.add_node("n1", cpu="4")
    cluster.add_node("n2", cpu="4")
    for i in range(run):
        cluster.add_pod(f"theirs-{i}", scheduler="rival", requests={"cpu": "1"})
    for name in NAMES:
        add_member(cluster, name)
    with cluster.running_poller("--scheduler-name=rival", "--interval=0.01") as rival:
        cluster.poller("--scheduler-name=my-scheduler")
        rival.stop(15)
    ours = [node for name, node in cluster.placement().items() if name in NAMES]
    assert sum(node is not None for node in ours) in (0, 5)


def test_a_pod_group_is_asked_how_many_it_needs(cluster: Running) -> None:
    with pod_group(cluster, "g", 3):
        cluster.add_node("n1")
        label = {"labels": {"scheduling.x-k8s.io/pod-group": "g"}}
        for name in "ab":
            cluster.add_pod(name, metadata=label)
        done = cluster.poller()
        assert "default/a: waiting for 1 more of 3" in done.stderr
        cluster.add_pod("c", metadata=label)
        assert cluster.poller().returncode == 0
        assert set(cluster.placement().values()) == {"n1"}


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
