"""A pod's scheduling cycle: which filter's reason counts, the messages, and that no node is overfilled."""

from random import Random
from typing import Any

import pytest
from hypothesis import given, strategies as st
from objects import node, pod, read

from lib.kube.changes import Change, Kind
from lib.kube.objects import Node, Pod
from lib.scheduling.cache import Cache
from lib.scheduling.decision import Decision, Outcome
from lib.scheduling.plugins.registry import default_profile
from lib.scheduling.queue import SchedulingQueue
from lib.scheduling.resources import amounts, pod_requests
from lib.scheduling.scheduling_cycle import Scheduler
from lib.service.telemetry.rendering import event_note

PROFILE = default_profile("my-scheduler", preemption=False)


def scheduler(seed: int = 1) -> Scheduler:
    return Scheduler(PROFILE, Random(seed))


GPU = [{"key": "gpu", "effect": "NoSchedule"}]
SMALL = {"cpu": "100m"}
DISK = {"disk": "ssd"}


SAID_OF_CLAIMS = " no new claims to deallocate"
"""What the PostFilter of DynamicResources says of each pod that fits nowhere."""


@pytest.mark.parametrize(
    ("nodes", "message"),
    [
        ([], "no nodes available to schedule pods"),
        ([node("a", unschedulable=True)], "0/1 nodes are available: 1 node(s) were unschedulable."),
        (
            [node("a", taints=GPU), node("b", has=SMALL)],
            "0/2 nodes are available: 1 Insufficient cpu, 1 node(s) had untolerated taint(s).",
        ),
        # The first filter that rejects a node speaks for it.
        (
            [node("a", unschedulable=True, taints=GPU)],
            "0/1 nodes are available: 1 node(s) were unschedulable.",
        ),
        # The words are sorted as text: 10 comes before 2.
        (
            [node(f"t{i}", taints=GPU) for i in range(10)]
            + [node(f"u{i}", unschedulable=True) for i in range(2)],
            "0/12 nodes are available: 10 node(s) had untolerated taint(s), 2 node(s) were unschedulable.",
        ),
    ],
)
def test_the_message_counts_reasons_in_kube_schedulers_words(nodes: Any, message: str) -> None:
    decision = scheduler().schedule_one(pod(requests={"cpu": "2", "memory": "2Gi"}), Cache(nodes, []))
    assert decision.message == f"{message}{SAID_OF_CLAIMS if nodes else ''}"


def test_among_equals_every_node_has_the_same_chance() -> None:
    picks: dict[str | None, int] = {}
    decider = scheduler(7)
    for _ in range(600):
        cluster = Cache([node("a"), node("b"), node("c")], [])
        name = decider.schedule_one(pod(), cluster).node_name
        picks[name] = picks.get(name, 0) + 1
    assert set(picks) == {"a", "b", "c"}
    assert max(picks.values()) < 1.5 * min(picks.values())


cpu = st.integers(0, 3000).map("{}m".format)
memory = st.integers(0, 8000).map("{}Mi".format)
requests = st.fixed_dictionaries({"cpu": cpu, "memory": memory})
rooms = st.fixed_dictionaries({"cpu": cpu, "memory": memory, "pods": st.integers(0, 5).map(str)})


@given(st.lists(rooms, max_size=4), st.lists(requests, max_size=12), st.integers())
def test_no_node_ever_gets_more_than_it_has(has: Any, wanted: Any, seed: int) -> None:
    nodes = [node(f"n{i}", has=room) for i, room in enumerate(has)]
    pods = [pod(f"p{i}", requests=each) for i, each in enumerate(wanted)]
    cluster, decider = Cache(nodes, []), scheduler(seed)
    decisions = [decider.schedule_one(each, cluster) for each in pods]

    for each in nodes:
        here = [d.pod for d in decisions if d.node_name == each.metadata.name]
        room = amounts(each.status.allocatable)
        assert len(here) <= room["pods"]
        for name in ("cpu", "memory"):
            used = sum(pod_requests(one).get(name, 0) for one in here)
            assert used <= room[name] or not used
    for decision in decisions:
        assert decision.scores.keys() | decision.rejected.keys() == cluster.nodes.keys()
        assert not decision.scores.keys() & decision.rejected.keys()


def test_what_is_bound_counts_and_what_is_bound_elsewhere_does_not_matter() -> None:
    bound = [
        pod("old", requests={"cpu": "3"}, nodeName="a"),
        pod("lost", requests={"cpu": "9"}, nodeName="gone"),
    ]
    cluster = Cache([node("a")], bound)
    first, second = (scheduler().schedule_one(pod(name, requests={"cpu": "1"}), cluster) for name in "xy")
    assert first.node_name == "a"
    assert second.message == "0/1 nodes are available: 1 Insufficient cpu. no new claims to deallocate"


def waiting(name: str, priority: int) -> Pod:
    made: Pod = read(Pod, {"metadata": {"name": name, "uid": name}, "spec": {"priority": priority}})
    return made


@pytest.mark.parametrize(
    "changed",
    [
        node("n1", DISK, unschedulable=True),
        node("n1", DISK, taints=GPU),
        node("n1", DISK, has=SMALL),
        node("n1"),
    ],
)
def test_a_changed_node_is_another_one_for_pods_that_are_alike(changed: Node) -> None:
    decider, cache = scheduler(), Cache([node("n1", DISK)], [])
    first, second = (pod(name, {"cpu": "1"}, nodeSelector=DISK) for name in ("first", "second"))
    assert decider.schedule_one(first, cache).node_name == "n1"
    cache.apply(Change(Kind.MODIFIED, changed, node("n1", DISK)))
    assert decider.schedule_one(second, cache).node_name == ""


def test_the_highest_priority_goes_first_and_among_equals_the_one_that_came_first() -> None:
    queue = SchedulingQueue({"": PROFILE})
    for second, (name, priority) in enumerate({"b": 0, "c": 0, "a": 0, "vip": 9, "low": -1}.items()):
        queue.apply(Change(Kind.ADDED, waiting(name, priority)), now=second)
    assert [each.metadata.name for each in queue.ready(now=9)] == ["vip", "b", "c", "a", "low"]


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ({}, None),
        ({"status": {"phase": "Pending"}}, None),
        ({"spec": {"schedulingGates": [{"name": "wait"}]}}, "waiting for scheduling gates: [wait]"),
        ({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}, "is being deleted"),
        ({"status": {"phase": "Succeeded"}}, "has finished"),
        ({"status": {"phase": "Failed"}}, "has finished"),
    ],
)
def test_some_pods_are_passed_over(body: Any, why: str | None) -> None:
    queue = SchedulingQueue({"": PROFILE})
    assert queue.apply(Change(Kind.ADDED, read(Pod, {"metadata": {}, **body})), now=0) == why


@pytest.mark.parametrize(
    ("message", "event"),
    [
        ("x" * 1024, "x" * 1024),
        ("x" * 1025, "x" * 1020 + " ..."),
        ("ä" * 600, "ä" * 510 + " ..."),  # two bytes each
        ("x" + "ä" * 600, "x" + "ä" * 509 + " ..."),  # never half a character
    ],
    ids=["fits", "too long", "bytes count", "whole characters"],
)
def test_an_events_message_is_cut_as_kube_scheduler_cuts_it(message: str, event: str) -> None:
    """Source: pkg/scheduler/schedule_one.go, truncateMessage."""
    decision = Decision(pod(), Outcome.ERROR, message)
    assert event_note(decision) == event
    assert len(event.encode()) <= 1024
