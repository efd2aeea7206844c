"""Preemption leaves out nodes that can't be better: its pick is as if it had tried them, or a better one."""

import json
from collections.abc import Iterable, Sequence
from functools import partial
from random import Random
from typing import Any

import msgspec
import pytest
from all_cases import some
from hypothesis import given, settings, strategies as st
from scheduling.preemption.test_kept_victims import Chance, Side, a_pod
from test_preemption import DB, NO_DB_MAY_GO, a, new, on, picture

from lib.kube.changes import Change, Kind
from lib.kube.objects import Node, Pod, PodDisruptionBudget
from lib.scheduling.cache import Cache
from lib.scheduling.decision import Decision
from lib.scheduling.extender import Extender
from lib.scheduling.extenders import Extenders
from lib.scheduling.framework.interface import Profile
from lib.scheduling.handle import Handle
from lib.scheduling.node_info import NodeInfo
from lib.scheduling.plugins.default_preemption import DefaultPreemption
from lib.scheduling.plugins.node_resources_fit import NodeResourcesFit
from lib.scheduling.plugins.registry import default_profile
from lib.scheduling.preemption import search
from lib.scheduling.preemption.nodes_by_harm import NodesByHarm
from lib.scheduling.preemption.victims import Victims, less_important, pick_one, victims_on
from lib.scheduling.scheduling_cycle import Scheduler
from lib.scheduling.status import Code, Rejection, Status


def all_candidates(scheduler: Scheduler, pod: Pod, cache: Cache) -> list[Victims]:
    """Every candidate, in the cache's order."""

    why_not = partial(scheduler.filter_node, pod, cache)

    def answer(name: str) -> Victims | Rejection | None:
        no = why_not(name)
        if no is None or no.status.code != Code.UNSCHEDULABLE or not less_important(pod, name, cache):
            return None
        return victims_on(pod, name, cache, why_not, cache.disruptions_left())

    answers = [answer(name) for name in cache.nodes]
    return [each for each in answers if isinstance(each, Victims)]


def first_of(candidates: Iterable[Victims], enough: int) -> list[Victims]:
    """The first candidates: enough, and one that violates no budget."""
    found: list[Victims] = []
    for each in candidates:
        if len(found) >= enough and not all(other.violations for other in found):
            break
        found.append(each)
    return found


class Compared(Side):
    """Compares each pick with those of all nodes, and of the first."""

    enough = 100

    def schedules(self, name: str, wanted: dict[str, Any], **spec: Any) -> Any:
        scheduler = self.schedulers[wanted["profile"]]
        candidates = all_candidates(scheduler, a_pod(name, wanted, **spec), self.cache)
        said = super().schedules(name, wanted, **spec)
        node_name, nominated = said[:2]
        if node_name:
            return said
        harm = {each.node_name: each.harm for each in candidates}
        if not candidates:
            assert not nominated
        elif self.enough >= len(self.cache.nodes):
            assert nominated == pick_one(candidates).node_name
        else:
            assert harm[nominated] <= pick_one(first_of(candidates, self.enough)).harm
        return said


@settings(max_examples=some(80))
@given(st.integers(0, 10**9))
def test_the_pick_is_the_best_of_all_or_no_worse_than_the_best_of_the_first(seed: int) -> None:
    chance = Chance(seed)
    enough, first_tries = chance.choice([1, 2, 100]), chance.choice([0, 1, 2, 10])
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(search, "FIRST_TRIES", first_tries)
        side = Compared("shared", enough, chance.cluster())
        side.enough = enough
        for i, step in enumerate([("preempts", chance.wanted()), *(chance.step() for _ in range(14))]):
            side.does(i, *step)


class NotesTries:
    """Notes the nodes that are filtered without their pods."""

    name = "NotesTries"

    def __init__(self) -> None:
        self.tried: set[str] = set()

    def filter(self, state: Any, pod: Pod, node: NodeInfo) -> Status | None:
        if not node.pods:
            self.tried.add(node.name)
        return None


def tries(
    victims: list[tuple[Pod, ...]], budgets: Iterable[PodDisruptionBudget] = (), pod: Pod | None = None
) -> tuple[Decision, set[str]]:
    """The decision on a pod, and the nodes that were tried. victims: by node, n0 and so on."""
    notes = NotesTries()
    scheduler = Scheduler(default_profile("my-scheduler", notes), Random(1))
    places = [on(f"n{i}", *pods) for i, pods in enumerate(victims)]
    return scheduler.schedule_one(pod or new(), picture(places, budgets)), notes.tried


def important(count: int, name: str = "important") -> list[tuple[Pod, ...]]:
    return [(a(f"{name}-{i}", 5, "4"),) for i in range(count)]


def test_one_node_is_tried_if_it_is_obviously_the_best() -> None:
    decision, tried = tries([*important(250), (a("x", 1, "4"),), *important(50, "other")])
    assert (decision.nominated, tried) == ("n250", {"n250"})


def test_of_nodes_that_are_equally_good_the_first_is_tried() -> None:
    decision, tried = tries(important(300))
    assert (decision.nominated, tried) == ("n0", {"n0"})


def test_the_next_is_tried_if_the_first_does_not_hold_what_it_promises() -> None:
    """On n0 two must go; on n1 a budget protects the pod; on n2 one that may stay is the least important."""
    promising = [
        (a("x0", 1, "2"), a("y0", 1, "2")),
        (a("x1", 1, "4", labels=DB),),
        (a("x2", 1, "0"), a("y2", 7, "4")),
    ]
    decision, tried = tries([*promising, *important(200), (a("x", 1, "4"),)], [NO_DB_MAY_GO])
    assert decision.nominated == "n203"
    assert tried == {"n0", "n1", "n2", "n203"}


def test_one_node_is_tried_if_as_many_pods_must_go_on_all() -> None:
    """By their requests two of three must go. Pods that aren't alike, as here, share no results."""
    pods = [tuple(a(f"{name}{i}", 1, "1") for name in "xyz") for i in range(300)]
    decision, tried = tries(pods, pod=new(cpu="3"))
    assert (decision.nominated, len(decision.victims), tried) == ("n0", 2, {"n0"})


def test_nodes_that_can_not_be_better_are_left_out_after_the_first_tries() -> None:
    """The least important pods may stay on 150 nodes, so these bounds say little; the others are too high."""
    loose = [(a(f"stays-{i}", 0, "0"), a(f"goes-{i}", 9 - i % 5, "4")) for i in range(60)]
    decision, tried = tries([*important(100), *loose])
    assert decision.nominated == "n0"
    assert len(tried) == 61  # n0, whose harm is 5, and those that might have been better


def test_all_are_tried_and_counted_if_none_will_do() -> None:
    too_small = [(a(f"x{i}", 1, "1"), a(f"y{i}", 10, "3")) for i in range(30)]
    none_less = [(a(f"z{i}", 10, "4"),) for i in range(5)]
    decision, _ = tries([*too_small, *none_less, ()], pod=new("9"))
    assert decision.message.endswith(
        ". no new claims to deallocate, preemption: "
        "0/36 nodes are available: 36 Preemption is not helpful for scheduling."
    )
    decision, _ = tries([*too_small, *none_less])
    assert decision.message.endswith(
        ". no new claims to deallocate, preemption: 0/35 nodes are available: 30 Insufficient cpu, "
        "5 No preemption victims found for incoming pod."
    )


def test_bounds_follow_the_pods() -> None:
    """Between the picks of one cluster pods come, start later, become more important, and go."""
    cluster = picture([on("n0", a("x", 3, "4")), on("n1", a("y", 4, "4")), on("n2", a("z", 5, "4"))])
    scheduler = Scheduler(default_profile("my-scheduler"), Random(1))

    def pick() -> str:
        decision = scheduler.schedule_one(new(), cluster)
        nominated = decision.nominated
        cluster.nominator.undo_preemption(decision)
        assert [*NodesByHarm.of(cluster).below(10)] == [*NodesByHarm(cluster).below(10)]
        return nominated

    assert pick() == "n0"
    cluster.apply(Change(Kind.MODIFIED, placed(a("x", 7, "4"), "n0")))
    assert pick() == "n1"
    cluster.apply(Change(Kind.MODIFIED, placed(a("z", 4, "4", at=5), "n2")))
    assert pick() == "n2"
    cluster.apply(Change(Kind.DELETED, placed(a("z", 4, "4", at=5), "n2")))
    cluster.assume(a("more important", 8, "4"), "n2")
    assert pick() == "n1"
    cluster.apply(Change(Kind.MODIFIED, on("n1", unschedulable=True)[0]))
    assert pick() == "n0"
    cluster.apply(Change(Kind.DELETED, on("n0")[0]))
    assert pick() == "n2"


def placed(pod: Pod, node_name: str) -> Pod:
    pod.spec.node_name = node_name
    return pod


class NotesCandidates:
    """A connection to an extender that agrees to all candidates, and notes their nodes."""

    def __init__(self) -> None:
        self.nodes: list[str] = []

    def send(self, _url: str, body: bytes) -> bytes:
        sent = json.loads(body)["NodeNameToMetaVictims"]
        self.nodes = [*sent]
        return json.dumps({"NodeNameToMetaVictims": sent}).encode()

    def whole_pod(self, _pod: Pod) -> msgspec.Raw:
        return msgspec.Raw(b"{}")

    def whole_nodes(self, _nodes: Sequence[Node]) -> list[msgspec.Raw]:
        return []


def test_extenders_choose_among_all_candidates() -> None:
    wire = NotesCandidates()
    extender = Extender("http://extender", wire, preempt_verb="preempt", node_cache_capable=True)
    preemption = DefaultPreemption(Handle(extenders=Extenders([extender])))
    scheduler = Scheduler(Profile("my-scheduler", (NodeResourcesFit(), preemption), {}), Random(1))
    places = [on(f"n{i}", *pods) for i, pods in enumerate([*important(150), (a("x", 1, "4"),)])]
    assert scheduler.schedule_one(new(), picture(places)).nominated == "n0"
    assert wire.nodes == [f"n{i}" for i in range(100)]
