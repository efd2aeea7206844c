"""poller in simulated worlds: scripts/simulate."""

import re
import subprocess
import sys
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from random import Random
from typing import Any

import pytest
from all_cases import ALL_CASES, HALF, PART

from scripts.servers.process import ROOT
from scripts.servers.real import assets
from scripts.simulation import scenes
from scripts.simulation.cluster import TROUBLED, Action
from scripts.simulation.faults import EXTENDER, WRITES, Fault, Kind
from scripts.simulation.mutations import MUTATIONS
from scripts.simulation.one_namespace import compared, one_namespace_plan, outcome_of
from scripts.simulation.plan import Plan, PollerPlan, random_plan
from scripts.simulation.reach import Reach
from scripts.simulation.real import run_real
from scripts.simulation.scenes import SHORT_WATCH, Scene, Stage
from scripts.simulation.smaller import smaller
from scripts.simulation.values import CARD
from scripts.simulation.world import Outcome, World

NODE, POD = Action(0.0, "add_node", "n1"), Action(5.0, "add_pod", "web")
SECOND = Action(0.0, "add_node", "n2")


def simulate(*arguments: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "scripts.simulation", *arguments]
    environment = {"PYTHONHASHSEED": "0", "PATH": "/usr/bin:/bin"}
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=900)


@pytest.mark.parametrize("first", range(1, 201, 25) if ALL_CASES else [1])
def test_poller_survives_short_seeds(first: int) -> None:
    number = "25" if ALL_CASES else "4"
    done = simulate("--first", str(first), "--seeds", number, "--minutes", "0.5")
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"seeds {number}" in done.stdout


def test_a_seed_means_the_same_each_time() -> None:
    stories = [World(random_plan(3, 0.5), show=True).run().story for _ in range(2)]
    assert stories[0] == stories[1]
    assert len(stories[0]) > 20


def plan_of(*more: Action | Fault | PollerPlan, seconds: float = 60.0) -> Plan:
    """A node, a pod web at 5 s, and more."""
    pollers = tuple(each for each in more if isinstance(each, PollerPlan)) or (PollerPlan("poller-1"),)
    actions = tuple(each for each in more if isinstance(each, Action))
    return Plan(
        1, seconds, pollers, (NODE, POD, *actions), tuple(each for each in more if isinstance(each, Fault))
    )


def always(kind: Kind, requests: str, begins: float = 0.0) -> Fault:
    return Fault(kind, begins, 40.0, requests, 1.0, 1)


def add(at: float, name: str, **details: Any) -> Action:
    return Action(at, "add_pod", name, details)


ZONE = "topology.kubernetes.io/zone"
ABOUT_WEB = always(Kind.TRUNCATED, "(POST|GET) /api/v1/namespaces/default/pods/web")
WATCHES = PollerPlan("poller-1", watch=True)
TWO = [
    PollerPlan(name, elects=True, freezes=(freeze,)) for name, freeze in (("a", (10, 30)), ("b", (60, 30)))
]
PREEMPTS = [add(6, "low", cpu=3000, priority="low"), add(10, "high", cpu=3000, priority="high")]

TWO_ZONES = [
    Action(0, "add_node", "a", {"zone": "a"}),
    Action(0, "add_node", "b", {"zone": "b"}),
    Action(1, "cordon", "n1"),
    Action(0, "add_budget", "budget", {"app": "web", "least": 1}),
    *(
        add(8, name, cpu=3000, priority=priority, labels={"app": app}, nodeSelector={ZONE: zone})
        for name, priority, app, zone in (("low", "low", "web", "a"), ("middle", "middle", "job", "b"))
    ),
]

FOUND_IN = {
    "uid-left-out": plan_of(),
    "event-before-binding": plan_of(),
    "no-look-after-a-lost-answer": plan_of(always(Kind.LOST, "/binding")),
    "room-freed-when-in-doubt": plan_of(ABOUT_WEB),
    "stale-events-believed": plan_of(ABOUT_WEB),
    "conflict-means-bound": plan_of(
        *(Action(5 + i / 1000, "make_pod_again", "web") for i in range(60)), WATCHES
    ),
    "wake-up-left-out": plan_of(add(6, "large", cpu=6000), Action(20, "resize", "n1", {"cpu": 8})),
    "retried-eviction-without-precondition": plan_of(*PREEMPTS, always(Kind.BROKEN, "DELETE", 9.0)),
    "assumed-pods-forgotten-early": plan_of(
        always(Kind.BEHIND, "watch=1"), add(6, "first", cpu=3000), add(7, "second", cpu=3000), WATCHES
    ),
    "groups-one-by-one": plan_of(Action(6, "add_group", "g", {"size": 3, "cpu": 1500})),
    "older-list-taken": plan_of(
        add(15, "seen", cpu=2000),
        *(add(26 + i / 2, f"new-{i}", cpu=2000) for i in range(4)),
        Fault(Kind.STALE, 25, 40, "GET /api/v1/(pods|nodes)", 0.7, 1),
    ),
    "budget-ignored": plan_of(*TWO_ZONES, add(20, "high", cpu=3000, priority="high")),
    "nomination-kept": plan_of(
        *PREEMPTS, Action(30, "delete_pod", "web"), add(31, "small", cpu=900, priority="low")
    ),
    "lease-not-checked": plan_of(*TWO, *(add(i, f"p{i}", cpu=10) for i in range(8, 110, 2)), seconds=120.0),
}

TOLERATES = {"tolerations": [{"key": "for", "operator": "Exists"}]}

FOUND_IN |= {
    "removed-pods-lost": plan_of(*PREEMPTS),
    "finished-pods-kept-in-queue": plan_of(add(6, "large", cpu=8000), Action(20, "delete_pod", "large")),
    "leader-goes-on-when-it-lost": plan_of(
        PollerPlan("a", elects=True),
        PollerPlan("b", elects=True),
        Action(20, "take_lease", "poller"),
        *(add(i, f"p{i}", cpu=10) for i in range(8, 40)),
    ),
    # low takes the room that slow leaves, while web is still there.
    "nominated-room-given-away": plan_of(
        add(6, "quick", cpu=1500, priority="low"),
        add(6, "slow", cpu=1500, priority="low", ends=15),
        add(10, "high", cpu=3000, priority="high"),
        add(15, "late", cpu=1000, priority="low"),
    ),
}


FIRST = PollerPlan("poller-1", reach=Reach(("default",)))
CARDS = [
    Action(0, "add_device_class", "card", {"resource": CARD}),
    Action(0, "add_node", "cards", {"devices": 2}),
    *(add(8, f"card{i}", cpu=10, extended={CARD: 1}) for i in range(3)),
]

FOUND_IN |= {
    "other-namespaces-served": plan_of(add(8, "x-elsewhere"), replace(FIRST, watch=True)),
    "pods-of-other-namespaces-evicted": plan_of(
        add(6, "x-low", cpu=3000, priority="low"),
        add(20, "high", cpu=3000, priority="high"),
        Action(16, "delete_pod", "web"),
        FIRST,
        PollerPlan("poller-2", reach=Reach(("passing",))),
    ),
    "extended-resources-without-devices": plan_of(*CARDS),
}


@pytest.mark.parametrize("mutation", [*FOUND_IN][HALF])
def test_poller_has_none_of_these_faults(mutation: str) -> None:
    assert World(FOUND_IN[mutation]).run().violations == []


@pytest.mark.parametrize("mutation", [*FOUND_IN][PART])
def test_a_fault_in_poller_is_found(mutation: str) -> None:
    rules = rules_broken_with(mutation, FOUND_IN[mutation])
    assert rules
    assert "simulation" not in rules  # that would be a fault of the simulation itself


SHOWN_BY = {
    "budget-not-charged": scenes.one_budget_for_two,
    "victims-that-leave-not-awaited": scenes.victims_take_their_time,
    "resizes-not-seen": scenes.grows_in_place,
    "host-ports-ignored": scenes.one_port_for_two,
    "group-goes-on-without-a-member": scenes.group_loses_a_member,
    "pod-made-again-taken-for-the-old-one": scenes.made_again_in_doubt,
    "room-freed-when-in-doubt": scenes.room_in_doubt,
    "condition-written-on-a-bound-pod": scenes.made_again_in_doubt,
    "bound-pods-never-looked-up": scenes.binding_forgotten,
    "taken-pods-not-counted": scenes.bound_by_hand,
    "failed-evictions-awaited": scenes.eviction_refused,
    "event-lost-in-an-outage": scenes.proxy_ends,
}


def plan_of_scene(made: Callable[[Stage], Scene], seed: int, watch: bool) -> Plan:
    """A scene in a cluster that has nothing else."""
    scene = made(Stage(Random(seed), 5.0, "my-scheduler", "s"))
    poller = PollerPlan("poller-1", watch, policy=scene.holds)
    plan = Plan(seed, 45.0, (poller,), scene.actions, scene.faults)
    return replace(plan, longest_watch=SHORT_WATCH) if scene.short_watches else plan


def plans_of(scene: Callable[[Stage], Scene], seeds: Sequence[int] = (1, 2, 5)) -> list[Plan]:
    return [plan_of_scene(scene, seed, watch) for seed in seeds for watch in (False, True)]


@pytest.mark.parametrize("scene", scenes.SCENES, ids=lambda scene: scene.__name__)
def test_a_scene_goes_well(scene: Callable[[Stage], Scene]) -> None:
    # Other seeds, and polling, are scripts/simulate's, too.
    plans = plans_of(scene) if ALL_CASES else [plan_of_scene(scene, 1, watch=True)]
    assert [each for plan in plans for each in World(plan).run().violations] == []


@pytest.mark.parametrize("mutation", [*SHOWN_BY][PART])
def test_a_scene_shows_a_fault_in_poller(mutation: str) -> None:
    found = (rules_broken_with(mutation, plan) for plan in plans_of(SHOWN_BY[mutation]))
    rules = next(filter(None, found), set())
    assert rules
    assert "simulation" not in rules  # that would be a fault of the simulation itself


def test_each_scene_shows_a_fault() -> None:
    assert {*SHOWN_BY.values()} == {*scenes.SCENES}


@pytest.mark.parametrize("mutation", MUTATIONS)
def test_each_mutation_can_be_put_into_poller(mutation: str) -> None:
    """Each names functions of poller, which may get other names."""
    with ExitStack() as stack:
        for each in MUTATIONS[mutation]():
            stack.enter_context(each)


def rules_broken_with(mutation: str, plan: Plan) -> set[str]:
    with ExitStack() as stack:
        for each in MUTATIONS[mutation]():
            stack.enter_context(each)
        return {each.rule for each in World(plan).run().violations}


RIGHT = {
    # middle preempts web, high takes a part of that room, and then middle preempts low, too.
    "a more important pod takes the room": plan_of(
        add(6, "low", cpu=2500, priority="low"),
        add(10, "middle", cpu=1500, priority="middle"),
        add(10.1, "high", cpu=500, priority="high"),
        WATCHES,
    ),
    # When middle is decided on, high has room on the node. Then its PreBind raises an error.
    "a more important pod gives its room up": plan_of(
        add(6, "low", cpu=1000, priority="low"),
        add(10, "first", cpu=10, priority="high"),
        add(10, "high", cpu=2000, priority="high", labels={"raises": "pre_bind", "times": "3"}),
        add(10, "middle", cpu=1000, priority="middle"),
        PollerPlan("poller-1", policy=True),
    ),
    "the node that victims leave is deleted": plan_of(
        Action(0, "add_node", "a", {"zone": "a"}),
        Action(0, "add_node", "b", {"zone": "b"}),
        Action(1, "cordon", "n1"),
        add(6, "low", cpu=3000, priority="low", ends=15, nodeSelector={ZONE: "a"}),
        add(6, "lower", cpu=3000, ends=15, nodeSelector={ZONE: "b"}),
        add(10, "high", cpu=3000, priority="high"),
        Action(9, "cordon", "a"),
        Action(10.3, "delete_node", "b"),
        Action(10.5, "cordon", "a", {"on": False}),
        WATCHES,
    ),
    # vip preempts victim, which counted in its zone when the others were spread.
    "one of its kind is evicted just after a decision": plan_of(
        Action(0, "add_node", "a", {"zone": "a"}),
        Action(0, "add_node", "b", {"zone": "b"}),
        Action(1, "cordon", "n1"),
        add(6, "victim", cpu=3000, labels={"spread": "a"}, ends=5, nodeSelector={ZONE: "a"}),
        add(9, "vip", cpu=3000, priority="high", nodeSelector={ZONE: "a"}),
        *(add(9, f"spread-{i}", cpu=100, labels={"spread": "a"}, nodeSelector={ZONE: "b"}) for i in range(2)),
        WATCHES,
    ),
    # high preempts a pod of another scheduler, whose next one takes the room, until there is none any more.
    "another scheduler takes the room": plan_of(
        *(add(6 + i / 10, f"other-{i}", cpu=3000, scheduler="other-scheduler") for i in range(14)),
        add(195, "high", cpu=3000, priority="high"),
        PollerPlan("poller-1"),
        PollerPlan("poller-2", watch=True, scheduler="other-scheduler"),
    ),
}


@pytest.mark.parametrize("plan", RIGHT.values(), ids=RIGHT)
def test_what_poller_does_right_is_not_found(plan: Plan) -> None:
    """Though victims leave that could have stayed, or requests are made for long after the last accident."""
    outcome = World(plan).run()
    assert outcome.violations == []
    assert outcome.evictions


def test_a_victim_that_has_given_its_room_back_is_not_evicted() -> None:
    """low has a node, and its claim is being written. That it is preempted can't be written."""
    plan = plan_of(
        add(6, "low", cpu=3000, priority="low", claim="made"),
        add(8, "high", cpu=3000, priority="high"),
        always(Kind.IGNORED, "PATCH .*/pods/low/status", 5.0),
        WATCHES,
    )
    outcome = World(plan).run()
    assert (outcome.violations, outcome.evictions) == ([], 0)
    assert ("default", "high") in outcome.bound


def test_a_pod_that_is_read_for_an_extender_is_not_looked_up_by_that() -> None:
    """It was bound by hand while poller was frozen, and lists lag behind."""
    plan = plan_of_scene(scenes.bound_by_hand, 5, watch=False)
    poller = replace(plan.pollers[0], extender=True, freezes=((5.4, 11.7),))
    assert World(replace(plan, pollers=(poller,))).run().violations == []


@pytest.mark.parametrize(("kind", "first"), [(Kind.CRASH_BEFORE, 1), (Kind.CRASH_AFTER, 3)])
def test_poller_may_be_killed_at_any_write(kind: Kind, first: int) -> None:
    """Its cluster has a preemption, a pod that is held, a group, and a pod whose volume is made for it.

    Every seventh write is enough here: `scripts/simulate` kills at random ones.
    """
    held = add(7, "held", cpu=100, labels={"hold": "3"})
    group = Action(8, "add_group", "g", {"size": 2, "cpu": 10})
    watches = PollerPlan("poller-1", watch=True, policy=True)
    more: list[Action | PollerPlan] = [
        *PREEMPTS,
        held,
        group,
        add(9, "stores", cpu=10, claim="made"),
        watches,
    ]
    for number in range(first, 28, 7):
        outcome = World(plan_of(*more, Fault(kind, 0.0, 40.0, WRITES, 0.0, 1, nth=number))).run()
        assert (outcome.faults, outcome.violations) == ({kind: 1}, []), number


TROUBLE = {
    "a binding hangs": (Kind.IGNORED, "POST .*/troubled/pods/.*/binding", {}, 1),
    "a hundred bindings hang": (Kind.IGNORED, "POST .*/troubled/pods/.*/binding", {}, 100),
    "one is to wait for 40 s": (Kind.BUSY_FOR_LONG, "POST .*/troubled/pods/.*/binding", {}, 1),
    "its webhook is down": (Kind.BROKEN, "POST .*/troubled/pods/.*/binding", {}, 30),
    "the answers of bindings are lost": (Kind.LOST, "(POST|GET) .*/troubled/pods/", {}, 30),
    "a claim hangs": (Kind.IGNORED, "PATCH .*/troubled/persistentvolumeclaims", {"claim": "made"}, 1),
    "conditions hang": (Kind.IGNORED, "PATCH .*/troubled/pods/.*/status", {"cpu": 100_000}, 80),
    "events hang": (Kind.SILENT, "POST .*/troubled/events", {}, 30),
}


def in_trouble(kind: Kind, requests: str, details: Any, number: int) -> Plan:
    """Pods of one namespace come, whose requests meet a fault, and pods of another one, one by one."""
    theirs = [add(10, f"y{i}", **{"cpu": 10, **details}) for i in range(number)]
    others = [add(6 + i, f"p{i}", cpu=10) for i in range(15)]
    large = Action(0, "add_node", "large", {"cpu": 64, "pods": 250})
    namespace = Action(0, "begin_namespace", TROUBLED)
    plan = plan_of(large, namespace, *theirs, *others, always(kind, requests), WATCHES)
    return replace(plan, trouble_of=TROUBLED)


@pytest.mark.parametrize("trouble", [*TROUBLE][HALF])
def test_nobody_waits_for_the_trouble_of_another_namespace(trouble: str) -> None:
    assert outcome_of(in_trouble(*TROUBLE[trouble])).violations == []


def test_time_passes_while_a_request_hangs() -> None:
    """Of the pod itself: it is bound when the fault has ended, not before."""
    outcome = World(in_trouble(*TROUBLE["a binding hangs"])).run()
    assert outcome.bound[TROUBLED, "y0"] > 40


def test_two_runs_without_faults_differ_by_no_more_than_the_margin() -> None:
    for seed, minutes in [(1, 0.5), (2, 0.5)] if ALL_CASES else [(3, 0.2)]:
        plan = replace(one_namespace_plan(seed, minutes), faults=())
        one, other = World(plan).run(), World(replace(plan, seed=seed + 1000)).run()
        assert len(one.bound) > 20
        assert compared(plan, one, other) == []


def test_who_is_tried_between_two_changes_does_not_wait_for_another_namespace() -> None:
    """It backs off. A pod was tried after a new node had come, and before that lost its first taint."""
    seed, minutes = ("9", "2") if ALL_CASES else ("3", "0.2")  # seed 9 showed that
    done = simulate("--one-namespace", "--seed", seed, "--minutes", minutes)
    assert done.returncode == 0, done.stdout + done.stderr


def test_an_event_may_be_given_up_after_two_tries_when_it_has_waited_for_a_place_between_them() -> None:
    outcome = World(in_trouble(Kind.IGNORED, "POST .*/troubled/events", {}, 20)).run()
    assert outcome.violations == []


def test_who_reads_no_devices_any_more_may_remember_the_claim_that_it_has_made_last() -> None:
    outcome = World(plan_of(*CARDS[:3], Action(20, "delete_pod", "card0"))).run()
    assert (outcome.bindings, outcome.violations) == (2, [])


def test_a_pod_that_is_bound_late_or_never_because_of_another_namespace_is_found() -> None:
    plan = in_trouble(*TROUBLE["a binding hangs"])
    before, after = Outcome(plan), Outcome(plan)
    before.bound = {("default", "p"): 5.0, ("default", "q"): 6.0, (TROUBLED, "y0"): 7.0}
    after.bound = {("default", "p"): 5.9, ("default", "q"): 7.1}
    (found,) = compared(plan, after, before)
    assert (found.rule, found.about, found.when) == ("nobody else waits", ("q",), 7.1)
    del after.bound["default", "q"]
    (found,) = compared(plan, after, before)
    assert "q was never bound" in found.what


def test_a_condition_is_not_tried_again_when_its_pod_is_bound() -> None:
    """The node grows while the condition can't be written."""
    lost = Fault(Kind.LOST, 9.0, 13.0, "PATCH .*/pods/late/status", 1.0, 1)
    grows = Action(10.5, "resize", "n1", {"cpu": 16})
    outcome = World(plan_of(add(10, "late", cpu=8000), grows, lost, WATCHES)).run()
    assert outcome.bindings == 2
    assert outcome.violations == []


@pytest.mark.parametrize("watch", [False, True], ids=["polling", "watching"])
def test_a_device_class_serves_the_pods_that_request_its_resource(watch: bool) -> None:
    """Two of three, as there are two devices. The node itself has one more, later."""
    outcome = World(plan_of(*CARDS, PollerPlan("poller-1", watch))).run()
    assert (outcome.bindings, outcome.violations) == (3, [])
    plugged = Action(20, "plug", "n1", {"resource": CARD, "number": 1})
    outcome = World(plan_of(*CARDS, plugged, PollerPlan("poller-1", watch))).run()
    assert (outcome.bindings, outcome.violations) == (4, [])


@pytest.mark.parametrize("watch", [False, True], ids=["polling", "watching"])
def test_two_pollers_with_rights_in_a_namespace_each_place_the_pods_of_these(watch: bool) -> None:
    pollers = [
        PollerPlan(f"poller-{name}", watch, reach=Reach((name,), narrow=True))
        for name in ("default", "passing")
    ]
    outcome = World(plan_of(add(8, "x-there"), *pollers), show=True).run()
    assert outcome.bound.keys() == {("default", "web"), ("passing", "x-there")}
    assert outcome.violations == []
    refused = [
        line for line in outcome.story if "what pods of other namespaces request is not counted" in line
    ]
    assert len(refused) == 2


def test_labels_given_later_keep_nobody_apart() -> None:
    """The anti-affinity of one is of other labels; the other has none."""
    late = add(8, "late", cpu=8000)
    labels = [Action(9, "relabel_pod", name, {"labels": {"apart": "b"}}) for name in ("web", "old", "late")]
    plan = plan_of(
        add(6, "old", labels={"apart": "a"}), late, *labels, Action(25, "resize", "n1", {"cpu": 16})
    )
    outcome = World(plan).run()
    assert (outcome.bindings, outcome.violations) == (3, [])


def test_a_pod_may_wait_for_its_volume_for_longer_than_a_minute() -> None:
    """Another scheduler, which can't see that, takes its room meanwhile."""
    unread = Fault(Kind.TRUNCATED, 9.2, 80.0, "persistentvolume", 1.0, 1)
    pods = add(8, "stores", cpu=2000, claim="made"), add(12, "other", cpu=2000, scheduler="other-scheduler")
    pollers = PollerPlan("poller-1"), PollerPlan("poller-2", scheduler="other-scheduler")
    outcome = World(plan_of(unread, *pods, *pollers, seconds=90.0)).run()
    assert (outcome.bindings, outcome.violations) == (3, [])


def test_an_event_is_written_again_after_a_freeze() -> None:
    """During its first try: it is late then, but was tried once only."""
    never = Fault(Kind.IGNORED, 5.0, 8.0, "POST .*/events", 1.0, 1)
    world = World(plan_of(never, PollerPlan("poller-1", freezes=((9.0, 40.0),)), seconds=90.0))
    assert world.run().violations == []
    assert world.outcome.faults == {Kind.IGNORED: 1}


def test_the_error_of_a_lookup_goes_when_its_pod_has_gone() -> None:
    """No other pod comes that would be looked up then."""
    broken = Fault(Kind.BROKEN, 5.5, 40.0, "services", 1.0, 1)
    world = World(
        plan_of(broken, add(6, "spreads", labels={"app": "web"}), Action(12, "delete_pod", "spreads"))
    )
    assert world.run().violations == []
    assert Kind.BROKEN in world.outcome.faults


@pytest.mark.parametrize("watch", [False, True], ids=["polling", "watching"])
def test_a_binding_in_doubt_has_its_event_when_it_turns_out_to_be_made(watch: bool) -> None:
    outcome = World(plan_of(ABOUT_WEB, PollerPlan("poller-1", watch))).run()
    assert (outcome.bindings, outcome.violations) == (1, [])
    assert outcome.faults[Kind.TRUNCATED] > 1


@pytest.mark.parametrize("watch", [False, True], ids=["polling", "watching"])
@pytest.mark.parametrize("verb", ["finish_pod", "delete_pod"])
def test_a_binding_in_doubt_gives_its_room_back_when_its_pod_has_gone(verb: str, watch: bool) -> None:
    """The pod finishes, or is deleted, before it can be looked up."""
    large = add(20, "large", cpu=4000)
    outcome = World(plan_of(ABOUT_WEB, Action(15, verb, "web"), large, PollerPlan("poller-1", watch))).run()
    assert (outcome.bindings, outcome.violations) == (2, [])


def test_the_error_of_a_lookup_does_not_outlive_the_need_for_it() -> None:
    """Budgets can't be looked up while a pod could preempt others; then there are no others any more."""
    broken = Fault(Kind.BROKEN, 9.0, 40.0, "poddisruptionbudgets", 1.0, 1)
    gone = Action(15, "delete_pod", "web"), Action(15, "delete_pod", "low")
    world = World(plan_of(*PREEMPTS, Action(14, "resize", "n1", {"cpu": 1}), *gone, broken))
    assert world.run().violations == []
    assert Kind.BROKEN in world.outcome.faults


def test_a_pod_that_could_preempt_others_is_tried_again_when_budgets_can_be_read() -> None:
    """Nothing in the cluster changes then."""
    forbidden = Fault(Kind.FORBIDDEN, 9.0, 20.0, "poddisruptionbudgets", 1.0, 1)
    outcome = World(plan_of(*PREEMPTS, forbidden)).run()
    assert outcome.violations == []
    assert Kind.FORBIDDEN in outcome.faults


def test_a_pod_whose_volume_could_not_be_listed_once_is_bound_later() -> None:
    """Nothing in the cluster changes then."""
    broken = Fault(Kind.BROKEN, 8.5, 12.0, "csistoragecapacities", 1.0, 1)
    volume = Action(1, "add_volume", "v", {"node": "n1"})
    outcome = World(plan_of(volume, add(8, "stores", claim="local"), broken)).run()
    assert (outcome.bindings, outcome.violations) == (2, [])
    assert Kind.BROKEN in outcome.faults


def test_a_pod_that_comes_between_two_lists_of_a_poll_is_not_left_out() -> None:
    """It comes while the devices are listed, and nothing changes after that."""
    late = Fault(Kind.LATE, 19.0, 21.5, "GET .*resourceslices", 1.0, 1)
    gpu, full = Action(0, "add_node", "g1", {"devices": 1}), add(6, "full", cpu=6000, device="claim")
    change = Action(19.5, "taint", "n1", {"on": False})
    outcome = World(plan_of(gpu, full, change, add(20.5, "dev", cpu=10, device="claim"), late)).run()
    assert (outcome.bindings, outcome.violations) == (2, [])
    assert Kind.LATE in outcome.faults


@pytest.mark.parametrize(
    ("kind", "at"),
    [
        ("device", Action(0, "add_node", "n2", {"devices": 1})),
        ("claim", Action(1, "add_volume", "v", {"node": "n1"})),
    ],
)
def test_what_was_only_to_be_written_wakes_others_when_it_is_free_again(kind: str, at: Action) -> None:
    """The write of a claim or a volume is refused, and its pod is deleted: the API shows nothing else."""
    needs = {kind: "claim" if kind == "device" else "local"}
    gated = {"cpu": 10, "schedulingGates": [{"name": "wait"}], **needs}
    pods = add(1, "first", priority="high", **gated), add(1, "late", **gated)
    gates = [Action(30, "open_gate", name) for name in ("first", "late")]
    refused = Fault(Kind.FORBIDDEN, 29.0, 40.0, "PATCH .*(persistentvolumes|resourceclaims/first)", 1.0, 1)
    gone = Action(33.2, "delete_pod", "first")
    outcome = World(plan_of(at, *pods, *gates, refused, gone, seconds=80.0)).run()
    assert (outcome.bindings, outcome.violations) == (2, [])
    assert Kind.FORBIDDEN in outcome.faults


def test_a_device_is_given_once_though_no_answer_nor_watch_says_so() -> None:
    """The claim is written, its pod is not bound, and then another pod comes."""
    gated = {"cpu": 10, "device": "claim", "schedulingGates": [{"name": "wait"}]}
    gpu, cordon = Action(0, "add_node", "g1", {"devices": 1}), Action(0, "cordon", "n1")
    pods = add(1, "late", **gated, **TOLERATES), add(1, "first", **gated)
    then = Action(30, "open_gate", "first"), Action(30.5, "taint", "g1"), Action(33, "open_gate", "late")
    lost = Fault(Kind.TRUNCATED, 29.0, 32.0, "PATCH .*resourceclaims/first/status", 1.0, 1)
    lags = Fault(Kind.BEHIND, 0.0, 60.0, "resourceclaims.*watch=1", 1.0, 1)
    plan = plan_of(gpu, cordon, *pods, *then, lost, lags, WATCHES, seconds=80.0)
    outcome = World(plan).run()
    assert (outcome.bindings, outcome.violations) == (2, [])
    assert outcome.faults.keys() == {Kind.TRUNCATED, Kind.BEHIND}


def test_an_extender_that_lies_breaks_no_rule() -> None:
    """Nor one that hangs: after that, the pods are placed."""
    lies = Fault(Kind.LIES, 0.0, 30.0, EXTENDER, 0.7, 1), Fault(Kind.SILENT, 30.0, 50.0, EXTENDER, 0.7, 2)
    pods = [add(6 + i, f"p{i}", cpu=10) for i in range(30)]
    outcome = World(plan_of(SECOND, *lies, *pods, PollerPlan("poller-1", extender=True))).run()
    assert (outcome.bindings, outcome.violations) == (31, [])
    assert outcome.faults.keys() == {Kind.LIES, Kind.SILENT}


def test_an_error_page_is_not_sent_to_an_extender_as_the_pod() -> None:
    """It was kept as the pod with all its fields until that changed, so the extender refused it for ever."""
    page = Fault(Kind.HTML, 4.0, 8.0, "GET .*/pods/web", 1.0, 1)
    outcome = World(plan_of(page, PollerPlan("poller-1", extender=True))).run()
    assert (outcome.bindings, outcome.violations) == (1, [])
    assert Kind.HTML in outcome.faults


@pytest.mark.skipif(not ALL_CASES or not assets(), reason="POLLER_ALL_CASES=1 and a real kube-apiserver")
def test_beside_a_real_api_server_a_fault_in_poller_is_found(capfd: pytest.CaptureFixture[str]) -> None:
    """And nothing else is."""
    found = any(run_real(1, minutes, None, quiet=1.0, mutation="uid-left-out") for minutes in (0.2, 1.0))
    assert found  # on a machine that is busy with something else it may take the second try
    said = capfd.readouterr().out
    assert set(re.findall(r" s: ([a-z ]+): ", said)) == {"uid"}, said
    assert re.search("bindings [1-9]", said), said


def test_what_goes_wrong_is_made_smaller() -> None:
    late = Fault(Kind.LATE, 0.0, 60.0, ".", 0.1, 2)
    large = Action(6.0, "add_pod", "large", {"cpu": 8000})
    plan = Plan(1, 10.0, (PollerPlan("poller-1", drift=0.02),), (NODE, POD, large), (late,))
    with ExitStack() as stack:
        for each in MUTATIONS["uid-left-out"]():
            stack.enter_context(each)
        found = smaller(plan, "uid")
    assert (found.actions, found.faults, found.pollers) == ((NODE, POD), (), (PollerPlan("poller-1"),))
    assert World(found).run().violations == []  # without the mutation
