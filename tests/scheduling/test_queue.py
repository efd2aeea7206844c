"""The queue's rules, on a clock of the tests' own."""

import sys
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from objects import node, pod

from lib.kube.changes import AnyChange, Change, Kind
from lib.kube.objects import Pod, PodCondition, with_parts
from lib.scheduling.plugins.registry import default_profile
from lib.scheduling.pod_life import BackoffSettings, Phase
from lib.scheduling.queue import HELD_PAUSE, MAX_POPPED, SchedulingQueue
from lib.scheduling.status import Status, unschedulable

NOW = datetime(2026, 1, 1, tzinfo=UTC)
FIT = {"NodeResourcesFit"}


def waiting(
    name: str = "web", requests: dict[str, str] | None = None, labels: Any = None, **spec: Any
) -> Pod:
    made = pod(name, requests or {"cpu": "1"}, schedulerName="my-scheduler", **spec)
    made.metadata.labels = labels or {}
    return made


def placed(name: str, requests: dict[str, str] | None = None, labels: Any = None, **spec: Any) -> Pod:
    made = pod(name, requests or {"cpu": "1"}, nodeName="n1", **spec)
    made.metadata.labels = labels or {}
    return made


def added(each: Any) -> AnyChange:
    return Change(Kind.ADDED, each)


def deleted(each: Any) -> AnyChange:
    return Change(Kind.DELETED, each, each)


def modified(before: Any, after: Any) -> AnyChange:
    return Change(Kind.MODIFIED, after, before)


def ending(pod: Pod) -> Pod:
    return with_parts(pod, metadata={"deletion_timestamp": NOW})


def queue(*pods: Pod, **times: float) -> SchedulingQueue:
    made = SchedulingQueue({"my-scheduler": default_profile("my-scheduler")}, BackoffSettings(**times))
    for each in pods:
        made.apply(added(each), now=0)
    return made


def ready(queue: SchedulingQueue, now: float) -> list[str]:
    return [each.metadata.name for each in queue.ready(now)]


UID = "uid-of-web"


def test_a_new_pod_is_tried_at_once_and_until_something_came_of_it() -> None:
    pods = queue(waiting("web"))
    assert ready(pods, 0) == ready(pods, 0) == ["web"]
    pods.drop(UID)
    assert ready(pods, 0) == []


def test_a_pod_that_failed_backs_off_twice_as_long_each_time_but_never_too_long() -> None:
    pods, now = queue(waiting("web")), 100.0
    for backoff in (1, 2, 4, 8, 10, 10):
        pods.requeue(UID, (), "could not be written", now)
        assert pods.counts()["backoff"] == 1
        assert ready(pods, now + backoff - 0.01) == []
        assert ready(pods, now + backoff) == ["web"]
        now += backoff


def test_the_backoff_can_be_set() -> None:
    pods = queue(waiting("web"), initial_backoff=3, max_backoff=4)
    for backoff in (3, 4, 4):
        pods.requeue(UID, (), "", now=0)
        assert ready(pods, backoff - 0.01) == []
        assert ready(pods, backoff) == ["web"]


def test_an_unschedulable_pod_is_left_alone_until_something_helps_or_five_minutes_are_over() -> None:
    pods = queue(waiting("web"))
    pods.requeue(UID, FIT, "0/1 nodes are available: 1 Insufficient cpu.", now=10)
    assert pods.counts() == {"active": 0, "backoff": 0, "unschedulable": 1, "waiting": 0}
    assert ready(pods, 309.9) == []
    assert ready(pods, 310) == ["web"]


def test_help_that_comes_while_a_pod_backs_off_is_used_then_only_if_no_other_pod_is_active() -> None:
    """Source: SchedulerPopFromBackoffQ in pkg/scheduler/backend/queue/active_queue.go."""
    pods = queue(waiting("web"))
    pods.requeue(UID, FIT, "", now=10)
    pods.apply(added(waiting("busy")), now=10.1)
    pods.apply(added(node("n1")), now=10.2)
    assert pods.counts()["backoff"] == 1
    assert ready(pods, 10.9) == ["busy"]
    assert ready(pods, 11) == ["web", "busy"]
    pods.requeue(UID, FIT, "", now=11.5)
    pods.apply(deleted(placed("old")), now=12)
    assert ready(pods, 12.1) == ["busy"]
    assert pods.next_in(12.1) == pytest.approx(1.4)  # not at once, as busy is still to be tried
    pods.drop("uid-of-busy")
    assert (pods.next_in(12.2), ready(pods, 12.2)) == (0, ["web"])


def test_pods_whose_backoff_ends_first_are_tried_early_and_not_too_many_at_once() -> None:
    names = [f"web-{i:03}" for i in range(MAX_POPPED + 5)]
    pods = queue(*map(waiting, names))
    for i, name in enumerate(names):
        pods.requeue(f"uid-of-{name}", FIT, "", now=10 - i / 1000)
    pods.apply(added(node("n1")), now=10.1)
    assert sorted(ready(pods, 10.1)) == names[5:]


def test_of_pods_that_back_off_for_as_long_the_most_important_are_tried_early() -> None:
    pods = queue(*(waiting(f"web-{i}", priority=i) for i in range(MAX_POPPED + 1)))
    for i in range(MAX_POPPED + 1):
        pods.requeue(f"uid-of-web-{i}", FIT, "", now=10)
    pods.apply(added(node("n1")), now=10.1)
    assert ready(pods, 10.1) == [f"web-{i}" for i in range(MAX_POPPED, 0, -1)]


def test_after_an_error_a_pod_backs_off_although_no_other_is_active() -> None:
    pods = queue(waiting("web"))
    pods.requeue(UID, (), "could not be written", now=10)
    assert (ready(pods, 10.9), pods.next_in(10.9)) == ([], pytest.approx(0.1))


def test_errors_and_rejections_have_a_backoff_each() -> None:
    """Source: getBackoffTime in pkg/scheduler/backend/queue/backoff_queue.go."""
    pods, busy = queue(waiting("web"), waiting("busy")), ["busy"]
    for now in (100, 200, 300, 400):  # errors in a row: 1, 2, 4, 8 seconds
        pods.requeue(UID, (), "could not be written", now)
    assert (ready(pods, 407.9), ready(pods, 408)) == (busy, ["busy", "web"])
    pods.requeue(UID, FIT, "", now=500)  # the first rejection
    pods.apply(deleted(placed("old")), now=500)
    assert (ready(pods, 500.9), ready(pods, 501)) == (busy, ["busy", "web"])
    pods.requeue(UID, (), "could not be written", now=600)  # the first error after it
    assert (ready(pods, 600.9), ready(pods, 601)) == (busy, ["busy", "web"])
    pods.requeue(UID, FIT, "", now=700)  # the second rejection
    pods.apply(deleted(placed("old")), now=700)
    assert (ready(pods, 701.9), ready(pods, 702)) == (busy, ["busy", "web"])


def test_pods_of_equal_priority_are_tried_in_the_order_in_which_they_came_or_came_back() -> None:
    """Source: Less in pkg/scheduler/framework/plugins/queuesort/priority_sort.go."""
    pods = queue()
    for now, name in enumerate(["c", "a", "b"], start=1):
        pods.apply(added(waiting(name)), now=now)
    assert ready(pods, 4) == ["c", "a", "b"]
    pods.requeue("uid-of-c", FIT, "", now=5)
    pods.apply(added(waiting("d")), now=6)
    pods.apply(added(node("n1")), now=60)
    assert ready(pods, 60) == ["a", "b", "c", "d"]


def test_a_pod_that_is_tried_only_because_of_the_time_is_known() -> None:
    pods = queue(waiting("web"))
    pods.requeue(UID, FIT, "", now=10)
    ready(pods, 310)
    assert pods.lives.of(waiting("web")).flushed
    pods.requeue(UID, FIT, "", now=311)
    pods.apply(added(node("n1")), now=400)
    assert (ready(pods, 400), pods.lives.of(waiting("web")).flushed) == (["web"], False)


def test_a_pod_is_tried_at_once_when_all_its_victims_have_left() -> None:
    """Source: SchedulerPopFromBackoffQ in pkg/scheduler/backend/queue/active_queue.go."""
    victims = [placed("a"), placed("b")]
    pods = queue(waiting("web"))
    pods.requeue(UID, FIT, "", now=10)
    pods.await_victims(UID, victims)
    pods.apply(deleted(victims[0]), now=10.1)
    pods.apply(modified(victims[1], ending(victims[1])), now=10.2)
    assert ready(pods, 10.2) == []
    pods.apply(deleted(victims[1]), now=10.3)
    assert ready(pods, 10.3) == ["web"]


def test_two_pods_may_wait_for_the_same_victims() -> None:
    victims = [placed("a"), placed("b")]
    pods = queue(waiting("web"), waiting("other"))
    for uid in (UID, "uid-of-other"):
        pods.requeue(uid, FIT, "", now=10)
        pods.await_victims(uid, victims)
    pods.apply(deleted(victims[0]), now=20)
    assert ready(pods, 20) == []
    pods.apply(deleted(victims[1]), now=30)
    assert ready(pods, 30) == ["web", "other"]


def test_help_that_comes_later_is_used_at_once() -> None:
    pods = queue(waiting("web"))
    pods.requeue(UID, FIT, "", now=10)
    pods.apply(added(node("n1")), now=20)
    assert ready(pods, 20) == ["web"]


ANYTHING = [{"operator": "Exists"}]
TAINTED = [{"key": "gpu", "effect": "NoSchedule"}]
PORT = [{"name": "main", "ports": [{"hostPort": 80}]}]
NEAR_DB = {
    "podAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": [
            {"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": "db"}}}
        ]
    }
}
FAR_FROM_DB = {"podAntiAffinity": NEAR_DB["podAffinity"]}
FAR_FROM_WEB = {
    "podAntiAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": [
            {"topologyKey": "zone", "labelSelector": {"matchLabels": {"tier": "web"}}}
        ]
    }
}
NEAR_ANY_TEAM = {
    "podAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": [
            {
                "topologyKey": "zone",
                "labelSelector": {"matchLabels": {"app": "db"}},
                "namespaceSelector": {"matchLabels": {"team": "a"}},
            }
        ]
    }
}
SPREAD = [{"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": "web"}}}]
DB, WEB = placed("db", labels={"app": "db"}), placed("web-0", labels={"app": "web"})
IN_A = node("n2", {"zone": "a"})
LARGE = {"cpu": "8", "memory": "8Gi", "pods": "110"}


@pytest.mark.parametrize(
    ("plugin", "spec", "change", "helps"),
    [
        ("NodeUnschedulable", {}, added(node("n2")), True),
        ("NodeUnschedulable", {}, added(node("n2", unschedulable=True)), False),
        ("NodeUnschedulable", {}, modified(node("n1", unschedulable=True), node("n1")), True),
        ("NodeUnschedulable", {}, modified(node("n1"), node("n1", labels={"a": "b"})), False),
        ("NodeUnschedulable", {}, deleted(placed("old")), False),
        ("PodLimits", {}, added(node("n2")), False),  # nothing helps but a change of the pod
        ("TaintToleration", {}, modified(node("n1", taints=TAINTED), node("n1")), True),
        ("TaintToleration", {}, modified(node("n1"), node("n1", taints=TAINTED)), False),
        ("TaintToleration", {}, added(node("n2", taints=TAINTED)), False),
        (
            "TaintToleration",
            {"tolerations": [{"operator": "Exists"}]},
            added(node("n2", taints=TAINTED)),
            True,
        ),
        ("NodeAffinity", {"nodeSelector": {"disk": "ssd"}}, added(node("n2")), False),
        ("NodeAffinity", {"nodeSelector": {"disk": "ssd"}}, added(node("n2", labels={"disk": "ssd"})), True),
        (
            "NodeAffinity",
            {"nodeSelector": {"disk": "ssd"}},
            modified(node("n1"), node("n1", labels={"disk": "ssd"})),
            True,
        ),
        ("NodePorts", {"containers": PORT}, deleted(placed("old", containers=PORT)), True),
        ("NodePorts", {"containers": PORT}, deleted(placed("old")), False),
        ("NodePorts", {"containers": PORT}, added(node("n2")), True),
        ("NodePorts", {"containers": PORT}, modified(node("n1"), node("n1", labels={"a": "b"})), False),
        ("NodeResourcesFit", {}, added(node("n2")), True),
        ("NodeResourcesFit", {}, added(node("n2", has={"cpu": "500m"})), False),
        ("NodeResourcesFit", {}, added(node("n2", has={"pods": "0"})), False),
        ("NodeResourcesFit", {}, modified(node("n1"), node("n1", has=LARGE)), True),
        ("NodeResourcesFit", {}, modified(node("n1", has=LARGE), node("n1")), False),
        ("NodeResourcesFit", {}, modified(node("n1"), node("n1", has={"memory": "9Gi"})), False),
        ("NodeResourcesFit", {}, modified(node("n1"), node("n1", has={"pods": "111"})), True),
        ("NodeResourcesFit", {}, modified(node("n1"), node("n1", labels={"a": "b"})), False),
        ("NodeResourcesFit", {}, deleted(placed("old")), True),
        ("NodeResourcesFit", {}, added(placed("old")), False),
        ("NodeResourcesFit", {}, modified(placed("a", {"cpu": "2"}), placed("a", {"cpu": "1"})), True),
        ("NodeResourcesFit", {}, modified(placed("a", {"cpu": "1"}), placed("a", {"cpu": "2"})), False),
        ("NodeResourcesFit", {}, modified(placed("a", {"cpu": "1m"}), placed("a", {"memory": "1Gi"})), True),
        (
            "NodeResourcesFit",
            {},
            modified(placed("a", {"cpu": "1", "memory": "2Gi"}), placed("a", {"cpu": "1", "memory": "1Gi"})),
            False,
        ),
        ("InterPodAffinity", {"affinity": NEAR_DB}, added(DB), True),
        ("InterPodAffinity", {"affinity": NEAR_DB}, added(placed("old")), False),
        ("InterPodAffinity", {"affinity": NEAR_DB}, modified(placed("db"), DB), True),
        ("InterPodAffinity", {"affinity": NEAR_DB}, modified(DB, DB), False),
        (
            "InterPodAffinity",
            {"affinity": NEAR_DB},
            modified(DB, placed("db", labels={"app": "db", "tier": "1"})),
            False,
        ),
        ("InterPodAffinity", {"affinity": NEAR_DB}, modified(DB, placed("db")), False),
        ("InterPodAffinity", {"affinity": NEAR_DB}, deleted(placed("old")), False),
        ("InterPodAffinity", {"affinity": NEAR_DB}, added(node("n2")), False),
        ("InterPodAffinity", {"affinity": NEAR_DB}, added(node("n2", {"zone": "a"})), True),
        ("InterPodAffinity", {"affinity": NEAR_DB}, modified(node(), node(labels={"zone": "a"})), True),
        ("InterPodAffinity", {"affinity": NEAR_DB}, modified(node(labels={"zone": "a"}), node()), False),
        ("InterPodAffinity", {"affinity": NEAR_DB}, modified(node(), node(labels={"disk": "ssd"})), False),
        ("InterPodAffinity", {"affinity": NEAR_ANY_TEAM}, added(DB), True),
        ("InterPodAffinity", {"affinity": FAR_FROM_DB}, deleted(DB), True),
        ("InterPodAffinity", {"affinity": FAR_FROM_DB}, deleted(placed("old")), False),
        ("InterPodAffinity", {"affinity": FAR_FROM_DB}, modified(DB, placed("db")), True),
        ("InterPodAffinity", {"affinity": FAR_FROM_DB}, added(DB), False),
        ("InterPodAffinity", {"affinity": FAR_FROM_DB}, added(node("n2")), True),
        ("InterPodAffinity", {"affinity": FAR_FROM_DB}, modified(node(labels={"zone": "a"}), node()), True),
        ("InterPodAffinity", {"affinity": FAR_FROM_DB}, modified(node(), node(labels={"zone": "a"})), False),
        ("InterPodAffinity", {"labels": {"app": "db"}}, deleted(placed("a", affinity=FAR_FROM_DB)), True),
        ("InterPodAffinity", {}, deleted(placed("a", affinity=FAR_FROM_DB)), False),
        ("InterPodAffinity", {}, added(node("n2")), True),
        ("InterPodAffinity", {}, deleted(IN_A), True),  # with the pods that keep it off
        (
            "InterPodAffinity",
            {"affinity": NEAR_DB, "labels": {"app": "db"}},
            modified(node(labels={"zone": "a"}), node()),
            True,
        ),
        (
            "InterPodAffinity",
            {"affinity": NEAR_DB | FAR_FROM_WEB},
            modified(placed("db-web", labels={"app": "db", "tier": "web"}), placed("db-web")),
            True,
        ),
        ("InterPodAffinity", {}, modified(node(), node(labels={"zone": "a"})), True),
        ("InterPodAffinity", {}, modified(node(), node(has={"cpu": "64"})), False),
        (
            "InterPodAffinity",
            {"affinity": NEAR_DB, "labels": {"app": "db"}},
            modified(DB, placed("db")),
            True,
        ),
        ("PodTopologySpread", {"topologySpreadConstraints": SPREAD}, deleted(WEB), True),
        ("PodTopologySpread", {"topologySpreadConstraints": SPREAD}, added(WEB), True),
        ("PodTopologySpread", {"topologySpreadConstraints": SPREAD}, deleted(placed("old")), False),
        ("PodTopologySpread", {"topologySpreadConstraints": SPREAD}, modified(WEB, placed("web-0")), True),
        ("PodTopologySpread", {"topologySpreadConstraints": SPREAD}, modified(WEB, WEB), False),
        (
            "PodTopologySpread",
            {"topologySpreadConstraints": SPREAD},
            modified(WEB, with_parts(WEB, metadata={"deletion_timestamp": NOW})),
            True,
        ),
        (
            "PodTopologySpread",
            {"topologySpreadConstraints": SPREAD, "nodeSelector": {"disk": "ssd"}},
            modified(node("n2", {"zone": "a", "disk": "ssd"}), IN_A),
            True,
        ),
        ("PodTopologySpread", {"topologySpreadConstraints": SPREAD}, deleted(IN_A), True),
        ("PodTopologySpread", {"topologySpreadConstraints": SPREAD}, deleted(node("n2")), False),
        ("PodTopologySpread", {"topologySpreadConstraints": SPREAD}, added(IN_A), True),
        ("PodTopologySpread", {"topologySpreadConstraints": SPREAD}, modified(node("n2"), IN_A), True),
        ("PodTopologySpread", {"topologySpreadConstraints": SPREAD}, modified(IN_A, node("n2")), True),
        (
            "PodTopologySpread",
            {"topologySpreadConstraints": SPREAD},
            modified(node("n2", {"zone": "b"}), IN_A),
            True,
        ),
        (
            "PodTopologySpread",
            {"topologySpreadConstraints": SPREAD},
            modified(IN_A, node("n2", {"zone": "a"}, taints=TAINTED)),
            True,
        ),
        (
            "PodTopologySpread",
            {"topologySpreadConstraints": SPREAD},
            modified(IN_A, node("n2", {"zone": "a", "disk": "ssd"})),
            False,
        ),
        ("AnyOther", {}, modified(node("n1"), node("n1", labels={"a": "b"})), True),
    ],
)
def test_each_plugin_says_what_could_help(plugin: str, spec: Any, change: AnyChange, helps: bool) -> None:
    pods = queue(waiting("web", **spec))
    pods.requeue(UID, {plugin}, "", now=0)
    pods.apply(change, now=50)
    assert (ready(pods, 50) == ["web"]) is helps


def test_one_of_the_plugins_that_rejected_a_pod_is_enough_to_wake_it() -> None:
    pods = queue(waiting("web"))
    pods.requeue(UID, {"TaintToleration", "NodeResourcesFit"}, "", now=0)
    pods.apply(deleted(placed("old")), now=50)
    assert ready(pods, 50) == ["web"]


@pytest.mark.parametrize(("nominated", "tried"), [("", ["web"]), ("n2", [])])
def test_a_pod_that_loses_its_nomination_is_tried_again_unless_it_has_another(
    nominated: str, tried: list[str]
) -> None:
    """Source: hasNominatedNodeNameChanged in pkg/scheduler/eventhandlers.go."""
    before, now = waiting(), waiting()
    before.status.nominated_node_name, now.status.nominated_node_name = "n1", nominated
    pods = queue(before)
    pods.requeue(UID, FIT, "", now=0)
    pods.apply(modified(before, now), now=50)
    assert ready(pods, 50) == tried


@pytest.mark.parametrize(("priority", "tried"), [(9, ["web"]), (10, ["web"]), (11, [])])
def test_when_a_nominated_pod_has_gone_others_may_use_the_room_that_was_kept_for_it(
    priority: int, tried: list[str]
) -> None:
    """Room is kept only from pods whose priority isn't higher (hasNominatedNodeNameChanged)."""
    nominated = waiting("nominated", priority=10)
    nominated.status.nominated_node_name = "n1"
    pods = queue(nominated, waiting("web", priority=priority))
    for uid in ("uid-of-nominated", UID):
        pods.requeue(uid, FIT, "", now=0)
    pods.apply(deleted(nominated), now=50)
    assert ready(pods, 50) == tried


def test_no_record_is_kept_of_a_pod_that_has_gone() -> None:
    pods, gone = queue(), waiting("web")
    gone.status.nominated_node_name = "n1"
    for change in (added(gone), deleted(gone), deleted(gone)):
        pods.apply(change, now=0)
    assert (pods.lives.get(UID), pods.lives.nominated) == (None, {})


@pytest.mark.parametrize("nominated", ["", "n1"])
def test_a_pod_that_is_changed_is_tried_as_it_is_now(nominated: str) -> None:
    web = waiting("web", {"cpu": "100m"})
    web.status.nominated_node_name = nominated
    pods = queue(web)
    pods.requeue(UID, FIT, "", now=0)
    noted = waiting("web", {"cpu": "100m"})
    noted.status.phase, noted.status.nominated_node_name = "Pending", nominated
    pods.apply(modified(web, noted), now=50)  # our own condition on it, say
    assert ready(pods, 50) == []
    smaller = waiting("web", {"cpu": "10m"})
    smaller.status.nominated_node_name = nominated
    pods.apply(modified(noted, smaller), now=50)
    assert pods.ready(50) == [smaller]


AFTER_TAINTS = {"topologySpreadConstraints": [{**SPREAD[0], "nodeTaintsPolicy": "Honor"}]}
CORDON = [{"key": "node.kubernetes.io/unschedulable", "operator": "Exists"}]


@pytest.mark.parametrize(
    ("plugin", "spec", "changed", "helps"),
    [
        ("NodeResourcesFit", {}, {"labels": {"a": "b"}}, False),
        ("NodeResourcesFit", {}, {"tolerations": ANYTHING}, False),
        ("NodeAffinity", {"nodeSelector": {"disk": "ssd"}}, {"labels": {"disk": "ssd"}}, False),
        ("TaintToleration", {}, {"tolerations": ANYTHING}, True),
        ("TaintToleration", {}, {"labels": {"a": "b"}}, False),
        ("NodeUnschedulable", {}, {"tolerations": CORDON}, True),
        ("NodeUnschedulable", {}, {"tolerations": [{"key": "gpu", "operator": "Exists"}]}, False),
        ("InterPodAffinity", {"affinity": NEAR_DB}, {"labels": {"app": "db"}}, True),
        ("InterPodAffinity", {"affinity": NEAR_DB}, {"tolerations": ANYTHING}, False),
        ("PodTopologySpread", {"topologySpreadConstraints": SPREAD}, {"labels": {"app": "web"}}, True),
        ("PodTopologySpread", {"topologySpreadConstraints": SPREAD}, {"labels": {"a": "b"}}, False),
        ("PodTopologySpread", {"topologySpreadConstraints": SPREAD}, {"tolerations": ANYTHING}, False),
        ("PodTopologySpread", AFTER_TAINTS, {"tolerations": ANYTHING}, True),
        ("PodLimits", {}, {"labels": {"a": "b"}}, True),
        ("AnyOther", {}, {"labels": {"a": "b"}}, True),
    ],
)
def test_what_change_of_the_pod_itself_could_help(plugin: str, spec: Any, changed: Any, helps: bool) -> None:
    before, now = waiting("web", **spec), waiting("web", **{**spec, **changed})
    pods = queue(before)
    pods.requeue(UID, {plugin}, "", now=0)
    pods.apply(modified(before, now), now=50)
    assert (ready(pods, 50) == ["web"]) is helps


def test_of_pods_that_were_alike_the_one_that_is_changed_is_helped_by_something_else() -> None:
    ssd, hdd = {"nodeSelector": {"disk": "ssd"}}, {"nodeSelector": {"disk": "hdd"}}
    pods = queue(waiting("other", **ssd), waiting("web", **ssd))
    for uid in ("uid-of-other", UID):
        pods.requeue(uid, {"NodeAffinity"}, "", now=0)
    pods.apply(modified(waiting("web", **ssd), waiting("web", **hdd)), now=50)
    pods.apply(added(node("n1", labels={"disk": "hdd"})), now=50)
    assert ready(pods, 50) == ["web"]


@pytest.mark.parametrize(
    "change",
    [
        deleted(waiting("web")),
        added(placed("web")),  # bound, by whomever
        modified(waiting("web"), waiting("web", schedulingGates=[{"name": "wait"}])),
    ],
)
def test_a_pod_that_no_longer_waits_is_dropped(change: AnyChange) -> None:
    pods = queue(waiting("web"))
    pods.apply(change, now=1)
    assert len(pods) == 0
    assert pods.oldest() is None


def test_a_gated_pod_is_queued_when_its_gates_are_gone() -> None:
    gated = waiting("web", schedulingGates=[{"name": "wait"}])
    pods = queue(gated)
    assert len(pods) == 0
    pods.apply(modified(gated, waiting("web")), now=5)
    assert ready(pods, 5) == ["web"]


class Quota:
    """A gate that depends on something else than the pod."""

    name = "Quota"
    is_open = False

    def pre_enqueue(self, pod: Pod) -> Status | None:
        return None if self.is_open else unschedulable("over quota")


def test_a_plugin_that_gates_a_pod_is_asked_again_after_a_change_and_after_five_minutes() -> None:
    """Source: movePodsToActiveOrBackoffQueue in pkg/scheduler/backend/queue/scheduling_queue.go."""
    quota = Quota()
    pods = SchedulingQueue({"my-scheduler": default_profile("my-scheduler", quota)})
    assert pods.apply(added(waiting("web")), now=1) == "over quota"
    assert (ready(pods, 1), pods.gated()) == ([], 1)
    quota.is_open = True
    assert ready(pods, 2) == []  # nothing has changed
    pods.apply(added(node("n1")), now=3)
    assert (ready(pods, 3), pods.gated()) == (["web"], 0)
    quota.is_open = False
    pods.apply(added(waiting("db")), now=4)
    quota.is_open = True
    assert (ready(pods, 303), ready(pods, 304)) == (["web"], ["web", "db"])


def test_a_nominated_pod_keeps_its_room_while_it_is_gated() -> None:
    """Its nomination ends in the API, or with the pod (UpdateNominatedPod in backend/queue/nominator.go)."""
    quota, other = Quota(), waiting("other")
    quota.is_open = True
    pods = SchedulingQueue({"my-scheduler": default_profile("my-scheduler", quota)})
    for each in (waiting("web"), other):
        pods.apply(added(each), now=1)
    pods.requeue(other.metadata.uid, FIT, "", now=2)
    quota.is_open = False
    nominated = waiting("web")
    nominated.status.nominated_node_name = "n1"
    pods.apply(modified(waiting("web"), nominated), now=3)
    assert (ready(pods, 20), pods.gated(), [*pods.lives.nominated]) == ([], 1, ["n1"])
    quota.is_open = True
    pods.apply(modified(nominated, waiting("web")), now=21)
    assert ("other" in ready(pods, 21), pods.lives.nominated) == (True, {})


def test_an_unschedulable_pod_that_is_gated_meanwhile_is_not_tried_again_until_the_gate_opens() -> None:
    quota = Quota()
    quota.is_open = True
    pods = SchedulingQueue({"my-scheduler": default_profile("my-scheduler", quota)})
    pods.apply(added(waiting("web")), now=1)
    pods.requeue(UID, FIT, "", now=2)
    quota.is_open = False
    pods.apply(added(node("n1")), now=10)
    assert (ready(pods, 10), pods.gated(), len(pods)) == ([], 1, 0)
    quota.is_open = True
    pods.apply(added(node("n2")), now=11)
    assert ready(pods, 11) == ["web"]
    life = pods.lives.of(waiting("web"))
    assert (life.attempts, life.queued, life.flushed) == (1, 1, False)


def test_a_pod_whose_node_is_held_is_not_tried() -> None:
    pods = queue(waiting("web"))
    lives, web = pods.lives, pods.lives.of(waiting("web"))
    lives.move(web, Phase.ASSUMED)
    lives.hold(UID, "waits 5 s for n5")
    assert ready(pods, 1000) == []
    assert (pods.counts()["waiting"], web.reason) == (1, "waits 5 s for n5")
    lives.forget(web)
    pods.requeue(UID, {"NodeNumber"}, "rejected", now=1000)
    pods.apply(added(node("n1")), now=1005)
    assert ready(pods, 1005) == ["web"]


def test_the_next_pod_that_is_held_is_asked_about_after_a_pause() -> None:
    """With thousands of held pods, some are always due. So without the pause, the loop would never wait."""
    pods = queue(waiting("web"))
    pods.lives.move(pods.lives.of(waiting("web")), Phase.ASSUMED)
    pods.lives.hold(UID, "waits")
    assert [each.metadata.name for each in pods.held(10)] == ["web"]
    pods.lives.renew(pods.lives.of(waiting("web")))
    assert pods.next_in(10) == pytest.approx(HELD_PAUSE)


def test_the_oldest_is_shown_with_its_reason() -> None:
    pods = queue(waiting("old"))
    pods.apply(added(waiting("new")), now=9)
    pods.requeue("uid-of-old", FIT, "no room", now=10)
    oldest = pods.oldest()
    assert oldest is not None
    assert (oldest.pod.metadata.name, oldest.queued, oldest.attempts, oldest.reason) == (
        "old",
        0,
        1,
        "no room",
    )


# --- plugins that misbehave, and changes that change nothing ---------------------------------------------


class Exits:
    """A plugin as someone may write it who thinks of a script."""

    name = "Exits"

    def pre_enqueue(self, pod: Pod) -> Status | None:
        if pod.metadata.name == "number":
            return unschedulable(5)  # type: ignore[arg-type]
        return sys.exit("not today") if pod.metadata.name == "exits" else None

    def queueing_hint(self, pod: Pod, change: AnyChange) -> bool:
        asked.append(pod.metadata.name)
        sys.exit("no idea")


asked: list[str] = []


def queue_with_exits() -> SchedulingQueue:
    profile = default_profile("my-scheduler", Exits())
    return SchedulingQueue({"my-scheduler": profile})


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("exits", "plugin Exits failed: SystemExit: not today"),
        ("number", "plugin Exits failed: BadAnswerError: 5 is given as a reason, but isn't text"),
    ],
)
def test_a_plugin_that_fails_in_pre_enqueue_keeps_its_pod_out(name: str, why: str) -> None:
    pods = queue_with_exits()
    assert pods.apply(added(waiting(name)), now=0) == why
    assert (len(pods), pods.gated()) == (0, 1)
    assert pods.apply(added(waiting("web")), now=0) is None
    assert ready(pods, 0) == ["web"]


def test_a_plugin_that_fails_in_its_hint_has_its_pod_tried() -> None:
    pods = queue_with_exits()
    pods.apply(added(waiting("web")), now=0)
    pods.requeue(UID, {"Exits"}, "no", now=0)
    pods.apply(added(node()), now=20)
    assert ready(pods, 20) == ["web"]


def test_pre_enqueue_runs_once_for_a_change() -> None:
    runs: list[str] = []
    count = type("Counts", (), {"name": "Counts", "pre_enqueue": lambda _, pod: runs.append(str(pod))})
    pods = SchedulingQueue({"my-scheduler": default_profile("my-scheduler", count())})
    pods.apply(added(waiting("web")), now=0)
    pods.apply(modified(waiting("web"), waiting("web")), now=0)
    assert runs == ["default/web"] * 2


def test_a_change_of_nothing_that_a_decision_depends_on_asks_no_plugin() -> None:
    pods = queue_with_exits()
    pods.apply(added(waiting("web")), now=0)
    pods.requeue(UID, {"Exits"}, "no", now=0)
    ran, runs_well = placed("db"), placed("db")
    runs_well.status.conditions = [PodCondition("Ready", "True")]
    asked.clear()
    pods.apply(modified(node(), node()), now=20)  # a heartbeat
    pods.apply(modified(ran, runs_well), now=20)
    assert (asked, ready(pods, 20)) == ([], [])
    pods.apply(modified(ran, placed("db", {"cpu": "500m"})), now=20)
    assert (asked, ready(pods, 20)) == (["web"], ["web"])


def test_a_nominated_pod_that_comes_back_is_tried_at_once_and_has_one_record() -> None:
    """A list of an API server that lags behind shows a pod that was found to be gone."""
    web = waiting("web")
    web.status.nominated_node_name = "n1"
    pods = queue(web)
    pods.requeue(UID, (), "an error", now=10)
    pods.drop(UID)
    for now in (10, 11):
        pods.apply(modified(web, web), now)
        assert ready(pods, now) == ["web"]
    pods.apply(deleted(web), now=12)
    assert (ready(pods, 12), pods.lives.all(), pods.lives.nominated) == ([], [], {})


def test_a_nominated_pod_that_comes_back_without_its_nomination_is_tried_too() -> None:
    web = waiting("web")
    web.status.nominated_node_name = "n1"
    pods = queue(web)
    pods.drop(UID)
    pods.apply(modified(web, waiting("web")), now=10)
    assert ready(pods, 10) == ["web"]
    pods.apply(deleted(web), now=12)
    assert (ready(pods, 12), pods.lives.all(), pods.lives.nominated) == ([], [], {})


@pytest.mark.parametrize(
    ("part", "change"), [("status", {"phase": "Failed"}), ("metadata", {"deletion_timestamp": NOW})]
)
def test_a_nominated_pod_that_has_ended_keeps_no_room(part: str, change: Any) -> None:
    """Its object may stay for long."""
    web = waiting("web")
    web.status.nominated_node_name = "n1"
    pods = queue(web)
    assert pods.lives.nominated
    parts: dict[str, Any] = {part: change}
    pods.apply(modified(web, with_parts(web, **parts)), now=10)
    assert (ready(pods, 12), pods.lives.all(), pods.lives.nominated) == ([], [], {})


class SortsBySize:
    """A policy that can't sort all pods."""

    name = "PrioritySort"

    def queue_sort(self, pod: Pod) -> Any:
        return pod.metadata.annotations.get("size") or {}[pod.metadata.name]


def test_pods_that_a_policy_cannot_sort_are_sorted_by_priority(caplog: pytest.LogCaptureFixture) -> None:
    profile = default_profile("my-scheduler")
    plugins = [SortsBySize() if each.name == "PrioritySort" else each for each in profile.plugins]
    pods = SchedulingQueue({"my-scheduler": replace(profile, plugins=tuple(plugins))})
    for name in ("low", "high"):
        pods.apply(added(waiting(name, priority=10 if name == "high" else 0)), now=0)
    for now in (0, 1):
        assert ready(pods, now) == ["high", "low"]
    assert caplog.text.count("plugin PrioritySort failed to sort the queue") == 1
    sized = with_parts(waiting("low"), metadata={"annotations": {"size": "5"}})
    pods.apply(modified(waiting("low"), sized), now=1)
    pods.drop("uid-of-high")
    assert ready(pods, 2) == ["low"]
