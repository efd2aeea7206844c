"""A large group is placed in parts: others are placed in between, and what happens then is not lost."""

from itertools import count
from random import Random
from typing import Any

import pytest
from msgspec.structs import replace
from objects import node, pod
from scheduling.groups.test_groups import OF_COSCHEDULING, member

from lib.kube.changes import Change, Kind
from lib.kube.objects import Pod
from lib.scheduling.cache import Cache
from lib.scheduling.decision import Decision, Outcome
from lib.scheduling.looked_up import LookedUp
from lib.scheduling.plugins.dynamic_resources import DynamicResources
from lib.scheduling.plugins.registry import default_profile
from lib.scheduling.queue import SchedulingQueue
from lib.scheduling.scheduling_cycle import Scheduler
from lib.service.follow_up import FollowUp
from lib.service.group_turns import GroupTurns


class Loop:
    """The parts of the loop that groups need. Each pod that is decided on takes a second."""

    def __init__(self, cpu: int, *pods: Pod) -> None:
        profile = default_profile("my-scheduler")
        self.schedulers = {"my-scheduler": Scheduler(profile, Random(1))}
        self.cache = Cache([node("n1", has={"cpu": str(cpu)})])
        self.queue = SchedulingQueue({"my-scheduler": profile}, lives=self.cache.lives)
        seconds = count()
        no: Any = None
        parts = self.cache, self.queue, self.schedulers, no, no, lambda: 0.0
        self.turns = GroupTurns(FollowUp(*parts, dry_run=False), lambda: float(next(seconds)))
        self.see(*(Change(Kind.ADDED, each) for each in pods))

    def see(self, *changes: Change[Any]) -> None:
        for change in self.turns.noted(changes):
            self.cache.apply(change)
            self.queue.apply(change, 0)

    def decide(self, pods: list[Pod], seconds: float) -> list[Decision] | None:
        """Try a group for so long; those that failed are tried later."""
        decisions = self.turns.go_on(pods, self.turns.now() + seconds)
        for each in decisions or ():
            if each.outcome != Outcome.SCHEDULED:
                self.queue.requeue(each.pod.metadata.uid, each.rejected_by, each.message, 0)
        return decisions

    def decide_alone(self, one: Pod) -> Decision:
        self.see(Change(Kind.ADDED, one))
        decision = self.schedulers["my-scheduler"].schedule_one(one, self.cache)
        if decision.outcome != Outcome.SCHEDULED:
            self.queue.requeue(one.metadata.uid, decision.rejected_by, decision.message, 0)
        return decision

    def ready(self) -> set[str]:
        return {each.metadata.name for each in self.turns.in_turn(self.queue.ready(100))}

    def phases(self) -> str:
        lives = sorted(self.cache.lives.all(), key=lambda life: life.pod.metadata.name)
        return " ".join(life.phase.name for life in lives)


def group(*names: str) -> list[Pod]:
    return [member(name, size=str(len(names))) for name in names]


def other(name: str = "other", **spec: Any) -> Pod:
    return pod(name, {"cpu": "1"}, schedulerName="my-scheduler", **spec)


def test_a_group_goes_on_where_it_was_and_others_see_its_room_taken() -> None:
    pods = group("a", "b", "c", "d")
    loop = Loop(5, *pods)
    assert loop.decide(pods, 2) is None
    assert loop.phases() == "ASSUMED ASSUMED ACTIVE ACTIVE"
    assert loop.ready() == set()
    assert loop.decide_alone(other()).outcome == Outcome.SCHEDULED
    decisions = loop.decide(pods, 9)
    assert decisions
    assert {each.outcome for each in decisions} == {Outcome.SCHEDULED}
    assert loop.turns.under_way is None


def test_when_it_does_not_fit_those_are_tried_again_that_its_room_could_help() -> None:
    pods = group("a", "b", "c", "d")
    loop = Loop(3, *pods)
    assert loop.decide(pods, 3) is None
    assert loop.decide_alone(other()).outcome == Outcome.UNSCHEDULABLE
    decisions = loop.decide(pods, 9)
    assert decisions
    assert {each.outcome for each in decisions} == {Outcome.UNSCHEDULABLE}
    loop.see()
    assert loop.ready() == {"other"}
    assert loop.cache.nodes["n1"].pods == []


def test_a_change_during_the_attempt_wakes_a_pod_that_had_failed_by_then() -> None:
    label = "scheduling.x-k8s.io/pod-group"
    pods = [member("a", None, label=label, nodeSelector={"new": "yes"})]
    pods += [member(name, None, label=label) for name in "bc"]
    loop = Loop(3, *pods)
    loop.cache.looked_up = LookedUp(group_sizes={OF_COSCHEDULING: 2})
    assert loop.decide(pods, 1) is None
    loop.see(Change(Kind.ADDED, node("n2", {"new": "yes"}, has={"cpu": "1"})))
    decisions = loop.decide(pods, 9)
    assert decisions
    assert [each.node_name for each in decisions] == ["", "n1", "n1"]
    assert loop.phases() == "UNSCHEDULABLE ASSUMED ASSUMED"
    loop.see()
    assert loop.ready() == {"a"}


def test_when_one_of_its_pods_goes_or_is_preempted_it_is_tried_anew() -> None:
    for kind in ("gone", "changed", "preempted", "bound by another"):
        pods = group("a", "b", "c")
        loop = Loop(3, *pods)
        assert loop.decide(pods, 2) is None
        if kind == "gone":
            loop.see(Change(Kind.DELETED, pods[2], pods[2]))
        elif kind == "changed":
            loop.see(Change(Kind.MODIFIED, member("c", size="3", nodeSelector={"x": "y"}), pods[2]))
        elif kind == "preempted":
            decision = loop.decide_alone(pod("vip", {"cpu": "3"}, schedulerName="my-scheduler", priority=9))
            assert decision.victims == ()  # they aren't bound, so they need not be deleted
            assert {each.metadata.name for each in decision.preempted_held} == {"a", "b"}
        else:
            loop.cache.forget(pods[0])
        assert loop.decide(pods, 9) is None
        assert loop.turns.under_way is None
        assert loop.cache.nodes["n1"].pods == []
        assert {"a", "b"} <= loop.ready()


def test_of_two_large_groups_the_second_waits_until_the_first_is_over() -> None:
    first, second = group("a", "b", "c"), group("d", "e", "f")
    for each in second:
        each.metadata.labels = {"poller/group": "h"}
    small = [member("s", size="1")]
    small[0].metadata.labels = {"poller/group": "small"}
    loop = Loop(9, *first, *second, *small)
    assert loop.decide(first, 2) is None
    assert loop.decide(small, 2)
    assert loop.decide(second, 2) is None
    assert loop.ready() == set()
    assert loop.phases() == "ASSUMED ASSUMED ACTIVE ACTIVE ACTIVE ACTIVE ASSUMED"
    assert loop.decide(first, 9)
    assert loop.ready() == {"d", "e", "f"}
    assert loop.decide(second, 9)


def test_a_status_that_is_written_meanwhile_changes_nothing() -> None:
    pods = group("a", "b", "c")
    loop = Loop(3, *pods)
    assert loop.decide(pods, 2) is None
    written = member("c", size="3")
    written.status.nominated_node_name = ""
    loop.see(Change(Kind.MODIFIED, written, pods[2]))
    assert loop.decide(pods, 9)


def test_when_an_attempt_is_given_up_those_are_tried_that_its_devices_could_help() -> None:
    pods = group("a", "b", "c")
    loop = Loop(9, *pods, other())
    assert loop.decide(pods, 2) is None
    assert loop.turns.under_way
    loop.turns.under_way.placed[0].state[DynamicResources.name] = "reserved"
    loop.queue.requeue(other().metadata.uid, [DynamicResources.name], "cannot allocate all claims", 0)
    assert loop.ready() == set()
    loop.turns.give_up()
    assert loop.ready() == {"a", "b", "c", "other"}


def test_an_attempt_that_fails_gives_its_room_back_and_another_one_can_begin(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def breaks(*_: object) -> Decision:
        raise KeyError("what")

    pods = group("a", "b", "c", "d")
    loop = Loop(3, *pods)
    assert loop.decide(pods, 3) is None
    assert loop.decide_alone(other()).outcome == Outcome.UNSCHEDULABLE
    with monkeypatch.context() as patched:
        patched.setattr(Scheduler, "schedule_one", breaks)
        with pytest.raises(KeyError):
            loop.decide(pods, 9)
    assert loop.turns.under_way is None
    assert loop.cache.nodes["n1"].pods == []
    assert loop.ready() == {"a", "b", "c", "d", "other"}


def test_a_group_whose_pods_change_again_and_again_lets_other_large_groups_go_first() -> None:
    restless, patient = group("a", "b", "c"), group("d", "e", "f")
    for each in patient:
        each.metadata.labels = {"poller/group": "h"}
    loop = Loop(9, *restless, *patient)
    assert loop.decide(restless, 2) is None
    assert loop.turns.under_way
    slow = [replace(each, began=0.0, ended=0.1) for each in loop.turns.under_way.decisions]
    loop.turns.under_way.decisions[:] = slow
    loop.see(Change(Kind.MODIFIED, member("c", size="3", nodeSelector={"x": "y"}), restless[2]))
    assert loop.decide(restless, 9) is None
    assert loop.ready() == {"d", "e", "f"}
