"""The queue's rules, on a clock of the tests' own."""

import sys
from types import SimpleNamespace
from typing import Any, cast

import pytest
from objects import node, pod

from lib.kube.changes import AnyChange, Change, Kind
from lib.kube.objects import Pod, PodCondition
from lib.scheduling.decision import Decision, Outcome
from lib.scheduling.framework.interface import Status, unschedulable
from lib.scheduling.permit import WaitingPods
from lib.scheduling.plugins.registry import default_profile
from lib.scheduling.queue import BackoffSettings, SchedulingQueue
from lib.service.binding_cycle import Completed, Result
from lib.service.steps import Poller
from poller import finish

FIT = {"NodeResourcesFit"}


def waiting(name: str = "web", requests: dict[str, str] | None = None, **spec: Any) -> Pod:
    return pod(name, requests or {"cpu": "1"}, schedulerName="my-scheduler", **spec)


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


def test_help_that_comes_while_a_pod_backs_off_waits_for_the_end_of_that() -> None:
    pods = queue(waiting("web"))
    pods.requeue(UID, FIT, "", now=10)
    pods.apply(added(node("n1")), now=10.2)
    assert pods.counts()["backoff"] == 1
    assert ready(pods, 10.9) == []
    assert ready(pods, 11) == ["web"]


def test_a_pod_is_tried_at_once_when_all_its_victims_have_left() -> None:
    """Source: SchedulerPopFromBackoffQ in pkg/scheduler/backend/queue/active_queue.go."""
    victims = [placed("a"), placed("b")]
    pods = queue(waiting("web"))
    pods.requeue(UID, FIT, "", now=10)
    pods.await_victims(UID, victims)
    pods.apply(deleted(victims[0]), now=10.1)
    assert ready(pods, 10.2) == []
    pods.apply(deleted(victims[1]), now=10.3)
    assert ready(pods, 10.3) == ["web"]


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
SPREAD = [{"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": "web"}}}]
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
        ("NodeResourcesFit", {}, modified(node("n1"), node("n1", has=LARGE)), True),
        ("NodeResourcesFit", {}, modified(node("n1"), node("n1", labels={"a": "b"})), False),
        ("NodeResourcesFit", {}, deleted(placed("old")), True),
        ("NodeResourcesFit", {}, added(placed("old")), False),
        ("NodeResourcesFit", {}, modified(placed("a", {"cpu": "2"}), placed("a", {"cpu": "1"})), True),
        ("NodeResourcesFit", {}, modified(placed("a", {"cpu": "1"}), placed("a", {"cpu": "2"})), False),
        ("InterPodAffinity", {"affinity": NEAR_DB}, added(placed("db", labels={"app": "db"})), True),
        ("InterPodAffinity", {"affinity": NEAR_DB}, modified(placed("db"), placed("db")), False),
        ("InterPodAffinity", {"affinity": NEAR_DB}, deleted(placed("db")), True),
        ("InterPodAffinity", {"affinity": NEAR_DB}, added(node("n2")), True),
        ("PodTopologySpread", {"topologySpreadConstraints": SPREAD}, deleted(placed("old")), True),
        ("PodTopologySpread", {"topologySpreadConstraints": SPREAD}, deleted(node("n2")), True),
        (
            "PodTopologySpread",
            {"topologySpreadConstraints": SPREAD},
            modified(node("n1"), node("n1", labels={"zone": "b"})),
            True,
        ),
        (
            "PodTopologySpread",
            {"topologySpreadConstraints": SPREAD},
            modified(node("n1"), node("n1", labels={"disk": "ssd"})),
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


def test_a_pod_that_is_changed_is_tried_as_it_is_now() -> None:
    web = waiting("web")
    pods = queue(web)
    pods.requeue(UID, FIT, "", now=0)
    noted = waiting("web")
    noted.status.phase = "Pending"
    pods.apply(modified(web, noted), now=50)  # our own condition on it, say
    assert ready(pods, 50) == []
    smaller = waiting("web", {"cpu": "10m"})
    pods.apply(modified(noted, smaller), now=50)
    assert pods.ready(50) == [smaller]


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


def test_a_pod_whose_node_is_held_is_not_tried() -> None:
    pods = queue(waiting("web"))
    pods.hold_for_permit(UID, "waits 5 s for n5")
    assert ready(pods, 1000) == []
    assert pods.counts()["waiting"] == 1
    pods.requeue(UID, {"NodeNumber"}, "rejected", now=1000)
    pods.apply(added(node("n1")), now=1005)
    assert ready(pods, 1005) == ["web"]


def test_a_pod_whose_node_is_held_stays_so_when_an_earlier_rejection_could_not_be_written() -> None:
    web, pods, held = waiting("web"), queue(waiting("web")), WaitingPods({})
    held.hold(Decision(web, Outcome.WAITING, node_name="n1"), now=0)
    pods.hold_for_permit(UID, "waits 5 s for n5")
    poller = cast(Poller, SimpleNamespace(queue=pods, waiting_pods=held))
    finish(poller, [Completed(Decision(web, Outcome.UNSCHEDULABLE), Result.NOT_RECORDED)])
    assert pods.counts()["waiting"] == 1


def test_the_oldest_is_shown_with_its_reason() -> None:
    pods = queue(waiting("old"))
    pods.apply(added(waiting("new")), now=9)
    pods.requeue("uid-of-old", FIT, "no room", now=10)
    oldest = pods.oldest()
    assert oldest is not None
    assert (oldest.pod.metadata.name, oldest.since, oldest.attempts, oldest.reason) == (
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
