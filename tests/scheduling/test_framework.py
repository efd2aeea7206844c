"""The extension points: when each is run, what its results do, and what happens if a plugin fails."""

import sys
from collections.abc import Mapping
from dataclasses import replace
from random import Random
from typing import Any

import pytest
from objects import node, pod, read
from waiting import recheck_permit

from lib.kube.changes import Change, Kind
from lib.kube.devices import ResourceClaim
from lib.kube.objects import Pod
from lib.kube.resource_claims import DeallocateClaim
from lib.scheduling.cache import Cache
from lib.scheduling.decision import Decision, Outcome
from lib.scheduling.feasibility import feasible_nodes_to_find
from lib.scheduling.framework.interface import (
    FilterPlugin,
    PermitPlugin,
    Profile,
    ReservePlugin,
    UnreservePlugin,
)
from lib.scheduling.handle import Handle
from lib.scheduling.node_info import NodeInfo
from lib.scheduling.plugins.default_binder import DefaultBinder
from lib.scheduling.plugins.node_number import NodeNumber
from lib.scheduling.plugins.node_resources_fit import NodeResourcesFit
from lib.scheduling.plugins.registry import default_profile, random_profile
from lib.scheduling.pod_life import PodLives
from lib.scheduling.scheduling_cycle import Scheduler
from lib.scheduling.status import SKIP, Code, NodeError, Status, unresolvable, unschedulable, wait
from lib.service.telemetry.rendering import as_json

SAID = "0/1 nodes are available: 1 {}."
"""What is said of a pod whose picked node Reserve or Permit rejects."""


def scheduler(*plugins: Any, weights: Mapping[str, int] | None = None, percentage: int = 0) -> Scheduler:
    """A scheduler with only these plugins."""
    return Scheduler(Profile("my-scheduler", plugins, weights or {}, percentage), Random(1))


def cluster(*names: str) -> Cache:
    return Cache([node(name) for name in names or ("n1", "n2")], [])


class Plugin:
    """Records its calls."""

    def __init__(self, said: list[str], name: str = "Plugin") -> None:
        self.said, self.name = said, name


class Everything(Plugin):
    def pre_filter(self, state: Any, pod: Pod, cluster: Cache) -> None:
        self.said.append("pre_filter")

    def filter(self, state: Any, pod: Pod, node: NodeInfo) -> Status | None:
        self.said.append(f"filter {node.name}")
        return None if node.name != "n3" else unschedulable("is n3")

    def post_filter(self, state: Any, pod: Pod, cluster: Cache, rejected: Any, fits: Any) -> None:
        self.said.append("post_filter")

    def pre_score(self, state: Any, pod: Pod, cluster: Cache, nodes: Any) -> None:
        self.said.append(f"pre_score {[each.name for each in nodes]}")

    def score(self, state: Any, pod: Pod, node: NodeInfo) -> int:
        self.said.append(f"score {node.name}")
        return int(node.name[-1])

    def normalize_score(self, state: Any, pod: Pod, scores: dict[str, int]) -> None:
        self.said.append(f"normalize_score {scores}")
        scores.update({name: score * 10 for name, score in scores.items()})

    def reserve(self, state: Any, pod: Pod, node_name: str) -> None:
        self.said.append(f"reserve {node_name}")

    def unreserve(self, state: Any, pod: Pod, node_name: str) -> None:
        self.said.append(f"unreserve {node_name}")

    def permit(self, state: Any, pod: Pod, node_name: str, waited: float) -> None:
        self.said.append(f"permit {node_name} after {waited}")

    def pre_bind(self, state: Any, pod: Pod, node_name: str) -> None:
        self.said.append(f"pre_bind {node_name}")

    def bind(self, state: Any, pod: Pod, node_name: str) -> Status | None:
        self.said.append(f"bind {node_name}")
        return SKIP

    def post_bind(self, state: Any, pod: Pod, node_name: str) -> None:
        self.said.append(f"post_bind {node_name}")


def test_each_point_is_asked_in_its_turn() -> None:
    said: list[str] = []
    decider = scheduler(Everything(said), DefaultBinder(), weights={"Plugin": 3})
    picture = cluster("n1", "n2", "n3")
    decision = decider.schedule_one(pod(), picture)
    decision = decider.bind(decision, picture)
    assert decision.outcome == Outcome.SCHEDULED  # it skipped, so poller is to POST the binding
    decider.post_bind(decision)
    assert said == [
        "pre_filter",
        *("filter n1", "filter n2", "filter n3"),
        "pre_score ['n1', 'n2']",
        *("score n1", "score n2"),
        "normalize_score {'n1': 1, 'n2': 2}",
        "reserve n2",
        "permit n2 after 0",
        *("pre_bind n2", "bind n2", "post_bind n2"),
    ]
    assert decision.scores == {"n1": {"Plugin": 30}, "n2": {"Plugin": 60}}
    assert decision.outcome == Outcome.SCHEDULED
    assert [each.metadata.name for each in picture.nodes["n2"].pods] == ["web"]


def test_where_nothing_fits_post_filter_is_asked_and_its_words_end_the_message() -> None:
    class NoHelp(Plugin):
        def filter(self, state: Any, pod: Pod, node: NodeInfo) -> Status:
            return unschedulable("is never good enough")

        def post_filter(self, state: Any, pod: Pod, cluster: Cache, rejected: Any, fits: Any) -> Status:
            return unschedulable(f"nobody could help with {sorted(rejected)}")

    decision = scheduler(NoHelp([])).schedule_one(pod(), cluster())
    assert decision.outcome == Outcome.UNSCHEDULABLE
    assert decision.message == (
        "0/2 nodes are available: 2 is never good enough. nobody could help with ['n1', 'n2']"
    )


def test_pre_filter_may_skip_name_nodes_or_reject() -> None:
    class Opinion(Plugin):
        answer: Any = None

        def pre_filter(self, state: Any, pod: Pod, cluster: Cache) -> Any:
            return self.answer

        def filter(self, state: Any, pod: Pod, node: NodeInfo) -> Status:
            return unschedulable("is filtered")

    plugin = Opinion([])
    plugin.answer = SKIP
    assert scheduler(plugin).schedule_one(pod(), cluster()).outcome == Outcome.SCHEDULED
    plugin.answer = {"n2", "gone"}
    assert scheduler(plugin).schedule_one(pod(), cluster()).message == (
        "0/2 nodes are available: 1 is filtered, 1 node(s) didn't satisfy plugin(s) [Plugin]."
    )
    plugin.answer = unresolvable("the pod makes no sense")
    decision = scheduler(plugin).schedule_one(pod(), cluster())
    assert decision.message == "0/2 nodes are available: the pod makes no sense."
    assert {name: each.plugin for name, each in decision.rejected.items()} == {"n1": "Plugin", "n2": "Plugin"}


def test_pre_score_may_skip_and_a_plugin_without_a_weight_does_not_score() -> None:
    class Scorer(Plugin):
        def pre_score(self, state: Any, pod: Pod, cluster: Cache, nodes: Any) -> Status | None:
            return SKIP if self.name == "Skips" else None

        def score(self, state: Any, pod: Pod, node: NodeInfo) -> int:
            return 7

    plugins = [Scorer([], name) for name in ("Scores", "Skips", "Weightless")]
    decision = scheduler(*plugins, weights={"Scores": 1, "Skips": 1}).schedule_one(pod(), cluster())
    assert decision.scores == {"n1": {"Scores": 7}, "n2": {"Scores": 7}}


class Account(Plugin):
    """Records its calls; the one named `refuses` rejects."""

    def reserve(self, state: Any, pod: Pod, node_name: str) -> Status | None:
        self.said.append(f"{self.name}+")
        return unschedulable("account is closed") if self.name == "refuses" else None

    def unreserve(self, state: Any, pod: Pod, node_name: str) -> None:
        self.said.append(f"{self.name}-")
        if self.name == "b":
            raise OSError("even then the others are told")


def test_reserve_is_undone_in_reverse_order() -> None:
    said: list[str] = []
    picture = cluster()
    decision = scheduler(*(Account(said, name) for name in ("a", "b", "refuses", "c"))).schedule_one(
        pod(), picture
    )
    assert said == ["a+", "b+", "refuses+", "c-", "refuses-", "b-", "a-"]
    assert (decision.outcome, decision.message) == (Outcome.UNSCHEDULABLE, SAID.format("account is closed"))
    assert not any(info.pods for info in picture.nodes.values())


@pytest.mark.parametrize(
    ("point", "answer", "message"),
    [
        ("permit", unschedulable("not today"), "0/1 nodes are available: 1 not today."),
        ("pre_bind", unschedulable("no disk"), "no disk"),
        ("pre_bind", unschedulable(), "plugin late gives no reason"),
        ("bind", unresolvable("no"), "no"),
    ],
)
def test_a_late_rejection_undoes_it_too(point: str, answer: Status, message: str) -> None:
    said: list[str] = []
    plugin = type("Late", (Account,), {point: lambda self, *arguments: answer})(said, "late")
    picture = cluster()
    decider = scheduler(plugin)
    decision = decider.schedule_one(pod(), picture)
    if point != "permit":
        assert decision.outcome == Outcome.SCHEDULED
        decision = decider.bind(decision, picture)
    assert (decision.outcome, decision.message) == (Outcome.UNSCHEDULABLE, message)
    assert as_json(decision)["node"] is None
    assert said == ["late+", "late-"]
    assert not any(info.pods for info in picture.nodes.values())


def test_a_bind_plugin_binds_in_place_of_poller() -> None:
    plugin = type("Binder", (Plugin,), {"bind": lambda self, *arguments: None})([])
    decider, picture = scheduler(plugin), cluster()
    assert decider.bind(decider.schedule_one(pod(), picture), picture).outcome == Outcome.BOUND


@pytest.mark.parametrize(
    "point",
    [
        "pre_filter",
        "filter",
        "pre_score",
        "score",
        "normalize_score",
        "reserve",
        "permit",
        "pre_bind",
        "bind",
    ],
)
def test_a_plugin_that_raises_fails_one_cycle_and_is_named_with_its_line(point: str) -> None:
    def fail(self: Any, *arguments: Any) -> None:
        if arguments[1].metadata.name == "web":
            raise KeyError("nothing")

    methods = {point: fail, **({"score": lambda *_: 0} if point == "normalize_score" else {})}
    plugin = type("Broken", (Plugin,), methods)([], "Broken")
    decider, picture = scheduler(plugin, weights={"Broken": 1} if "score" in point else {}), cluster()
    decision = decider.schedule_one(pod("web"), picture)
    if decision.outcome == Outcome.SCHEDULED:
        decision = decider.bind(decision, picture)
    line = fail.__code__.co_firstlineno + 2
    assert decision.outcome == Outcome.ERROR
    assert decision.message == f"plugin Broken failed at test_framework.py:{line}: KeyError: 'nothing'"
    assert not any(info.pods for info in picture.nodes.values())


@pytest.mark.parametrize("score", [-1, 101, 50.5, None])
def test_a_score_out_of_range_is_an_error(score: Any) -> None:
    plugin = type("Wild", (Plugin,), {"score": lambda *_: score})([], "Wild")
    decision = scheduler(plugin, weights={"Wild": 1}).schedule_one(pod(), cluster())
    assert decision.outcome == Outcome.ERROR
    assert f"plugin Wild failed: score {score!r} of node n1" in decision.message


# --- enough nodes ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("nodes", "percentage", "enough"),
    [
        (10, 0, 10),
        (99, 0, 99),
        (100, 0, 100),  # 50 %, but at least 100
        (1000, 0, 420),  # 50 % less 1 % for each 125
        (5000, 0, 500),
        (6000, 0, 300),  # 5 % is the least
        (50, 40, 50),
        (1000, 40, 400),
        (1000, 5, 100),
        (1000, 100, 1000),
    ],
)
def test_how_many_feasible_nodes_are_enough(nodes: int, percentage: int, enough: int) -> None:
    assert feasible_nodes_to_find(nodes, percentage) == enough


@pytest.mark.parametrize("asked_anew", [False, True])
def test_the_next_search_begins_where_the_last_one_ended(asked_anew: bool) -> None:
    """Whether a filter's results are kept for pods that are alike, or the filter is asked for each pod."""
    decider = scheduler(*([Everything([])] if asked_anew else ()), percentage=40)
    names = [f"n{i:03}" for i in range(250)]
    picture = cluster(*names)
    looked_at = [sorted(decider.schedule_one(pod(f"p{i}"), picture).scores) for i in range(3)]
    assert looked_at == [names[:100], names[100:200], names[:50] + names[200:]]


def test_the_search_ends_when_enough_nodes_fit_however_many_were_rejected() -> None:
    picture = cluster("n3", *(f"n{i:03}" for i in range(249)))
    decision = scheduler(Everything([]), percentage=40).schedule_one(pod(), picture)
    assert (decision.feasible, [*decision.rejected]) == (100, ["n3"])


# --- waiting, and profiles ------------------------------------------------------------------------------


def test_a_pod_that_waits_holds_its_node_from_tick_to_tick() -> None:
    decider, picture = scheduler(NodeNumber()), Cache([node("n5")], lives=PodLives(lambda: 100))
    schedulers = {"my-scheduler": decider}
    waiting = pod("web", schedulerName="my-scheduler")
    decision = decider.schedule_one(waiting, picture)
    assert decision.outcome == Outcome.WAITING
    assert decision.message == "waits 5 s for n5"

    for now in (103, 104.9):
        assert recheck_permit(picture, schedulers, now) == []
        assert picture.nodes["n5"].pods == [waiting]
    (decision,) = recheck_permit(picture, schedulers, now=105)
    assert decision.outcome == Outcome.SCHEDULED
    assert picture.nodes["n5"].pods == [waiting]
    assert recheck_permit(picture, schedulers, now=106) == []


def test_each_extension_point_is_recorded_once_in_a_cycle_however_long_a_pod_waits() -> None:
    recorded: list[tuple[str, str]] = []
    decider = Scheduler(
        Profile("my-scheduler", (NodeNumber(), DefaultBinder()), {"NodeNumber": 1}),
        Random(1),
        record=lambda point, status, _: recorded.append((point, status)),
    )
    picture = cluster("n5")
    decider.schedule_one(pod("web-5", schedulerName="my-scheduler"), picture)
    assert {("PreFilter", "Success"), ("Filter", "Success"), ("Permit", "Wait")} <= {*recorded}
    recorded.clear()
    assert recheck_permit(picture, {"my-scheduler": decider}, now=1) == []
    (decision,) = recheck_permit(picture, {"my-scheduler": decider}, now=5)
    assert recorded == []
    decider.bind(decision, picture)
    assert recorded == [("PreBind", "Success")]  # the POST of the binding is timed elsewhere


def test_a_pod_that_is_gone_is_held_no_longer() -> None:
    said: list[str] = []
    decider, picture = scheduler(Account(said, "a"), NodeNumber()), cluster("n5")
    decision = decider.schedule_one(pod("web", schedulerName="my-scheduler"), picture)
    decider.undo(decision, picture)  # as the loop does when it hears of the pod's end
    assert recheck_permit(picture, {"my-scheduler": decider}, now=1) == []
    assert said == ["a+", "a-"]
    assert picture.nodes["n5"].pods == []


@pytest.mark.parametrize("comes_again", [False, True])
def test_a_pod_whose_node_is_gone_is_to_be_placed_again(comes_again: bool) -> None:
    said: list[str] = []
    decider, picture = scheduler(Account(said, "a"), NodeNumber()), cluster("n5")
    decision = decider.schedule_one(pod("web", schedulerName="my-scheduler"), picture)
    picture.apply(Change(Kind.DELETED, node("n5")))
    if comes_again:
        again = node("n5", has={"cpu": "0"})
        again.metadata.uid = "another"
        picture.apply(Change(Kind.ADDED, again))
    (decision,) = recheck_permit(picture, {"my-scheduler": decider}, now=1)
    assert (decision.outcome, decision.message) == (Outcome.ERROR, "node n5 has gone")
    assert not decision.rejected_by  # so no change must help it: it is tried again after a backoff
    assert said == ["a+", "a-"]


def test_permit_has_a_time_limit() -> None:
    plugin = type("Slow", (Account,), {"permit": lambda self, *_: wait("not yet", limit=30)})([], "Slow")
    decider, picture = scheduler(plugin), cluster("n1")
    decision = decider.schedule_one(pod("web", schedulerName="my-scheduler"), picture)
    assert recheck_permit(picture, {"my-scheduler": decider}, now=29.9) == []
    (decision,) = recheck_permit(picture, {"my-scheduler": decider}, now=30)
    assert (decision.outcome, decision.message) == (
        Outcome.UNSCHEDULABLE,
        SAID.format("not permitted by Slow within 30 s"),
    )
    assert plugin.said == ["Slow+", "Slow-"]
    assert decision.rejected_by == {"Slow"}


class SlowVolume(Plugin):
    """PreBind waits for it until it is `ready`."""

    ready = False

    def pre_bind(self, state: Any, pod: Pod, node_name: str) -> Status | None:
        self.said.append("volume")
        return None if self.ready else wait("waits for its volume", limit=30)


def test_what_has_succeeded_in_pre_bind_is_not_asked_again_while_another_waits() -> None:
    said: list[str] = []
    first = type("First", (Plugin,), {"pre_bind": lambda self, *_: said.append("first")})(said, "First")
    slow = SlowVolume(said, "SlowVolume")
    decider, picture = scheduler(first, slow, DefaultBinder()), cluster("n1")
    decision = decider.schedule_one(pod("web", schedulerName="my-scheduler"), picture)
    decision = decider.bind(decision, picture)
    assert (decision.outcome, decision.message) == (Outcome.WAITING, "waits for its volume")
    assert decider.waits_in_pre_bind(decision) == "SlowVolume"
    slow.ready = True
    (decision,) = recheck_permit(picture, {"my-scheduler": decider}, now=1)
    assert decision.outcome == Outcome.SCHEDULED
    assert decider.bind(decision, picture).outcome == Outcome.SCHEDULED
    assert said == ["first", "volume", "volume"]
    assert not decider.waits_in_pre_bind(decision)


def test_pre_bind_has_a_time_limit() -> None:
    """To miss it is an error, as in kube-scheduler: no change in the cluster must help the pod."""
    decider, picture = scheduler(SlowVolume([], "SlowVolume")), cluster("n1")
    decision = decider.schedule_one(pod("web", schedulerName="my-scheduler"), picture)
    decider.bind(decision, picture)
    assert recheck_permit(picture, {"my-scheduler": decider}, now=29.9) == []
    (decision,) = recheck_permit(picture, {"my-scheduler": decider}, now=30)
    assert decision.outcome == Outcome.ERROR
    assert decision.message == ('running PreBind plugin "SlowVolume": waits for its volume: not within 30 s')
    assert picture.nodes["n1"].pods == []


@pytest.mark.parametrize(
    ("point", "words"),
    [
        ("unreserve", "plugin Broken failed to unreserve default/web"),
        ("post_bind", "plugin Broken failed after default/web was bound"),
    ],
)
def test_where_a_plugin_can_only_tidy_up_its_failure_is_logged_and_the_others_are_asked(
    point: str, words: str, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(self: Any, *_: Any) -> None:
        raise SystemExit

    said: list[str] = []
    broken = type("Broken", (Plugin,), {point: fail})([], "Broken")
    decider, picture = scheduler(Everything(said), broken, Everything(said), DefaultBinder()), cluster("n1")
    decision = decider.schedule_one(pod(), picture)
    if point == "unreserve":
        decider.undo(decision, picture)
    else:
        decider.post_bind(decider.bind(decision, picture))
    assert said[-2:] == [f"{point} n1"] * 2
    assert caplog.messages == [words]


def test_claims_are_freed_though_a_later_plugin_finds_that_a_filter_fails() -> None:
    """What PostFilter answered before the failure is written all the same."""
    free = DeallocateClaim(read(ResourceClaim, {"metadata": {"name": "gpu"}}))

    class Frees(Plugin):
        def filter(self, state: Any, pod: Pod, node: NodeInfo) -> Status:
            return unschedulable("is never good enough")

        def post_filter(self, *_: Any) -> Status:
            return replace(unschedulable("frees a device"), undo=(free,))

    def fail(self: Any, *_: Any) -> None:
        raise NodeError("preemption: no")

    failing = type("Failing", (Plugin,), {"post_filter": fail})([], "Failing")
    decision = scheduler(Frees([]), failing).schedule_one(pod(), cluster("n1"))
    assert decision.outcome == Outcome.UNSCHEDULABLE
    assert decision.message == "0/1 nodes are available: 1 is never good enough. preemption: no"
    assert decision.undo == (free,)


def decide(profile: Profile) -> Decision:
    return Scheduler(profile, Random(1)).schedule_one(pod(), cluster())


def test_a_pod_that_every_bind_plugin_leaves_to_another_is_not_bound() -> None:
    decider, picture = scheduler(Everything([])), cluster()
    decision = decider.schedule_one(pod(), picture)
    decision = decider.bind(decision, picture)
    assert decision.outcome == Outcome.UNSCHEDULABLE
    assert decision.message == "every bind plugin left the pod to another"
    assert not picture.counts()["assumed_pods"]


def test_a_plugin_may_be_asked_at_some_points_only_and_in_another_order_at_each() -> None:
    said: list[str] = []
    one, two, three = (Everything(said, name) for name in ("one", "two", "three"))
    profile = Profile(
        "my-scheduler", (one, two, three), {}, points={"filter": (three, one), "reserve": (two,)}
    )
    assert profile.with_point(FilterPlugin) == [three, one]
    assert profile.with_point(ReservePlugin) == profile.with_point(UnreservePlugin) == [two]
    assert profile.with_point(PermitPlugin) == [one, two, three]


def test_the_first_filter_in_a_profiles_order_is_the_one_that_is_named() -> None:
    class First(Everything):
        def filter(self, state: Any, pod: Pod, node: NodeInfo) -> Status | None:
            return unschedulable(f"{self.name} said no")

    one, two = First([], "one"), First([], "two")
    profile = Profile("my-scheduler", (one, two), {}, points={"filter": (two, one), "postFilter": ()})
    decision = Scheduler(profile, Random(1)).schedule_one(pod(), cluster())
    assert {each.plugin for each in decision.rejected.values()} == {"two"}


@pytest.mark.parametrize(("own_first", "reason"), [(True, "is n3"), (False, "Insufficient cpu")])
def test_that_holds_also_for_a_filter_whose_answers_are_not_kept(own_first: bool, reason: str) -> None:
    """Those of NodeResourcesFit are kept for pods that are alike."""
    filters = [Everything([]), NodeResourcesFit()] if own_first else [NodeResourcesFit(), Everything([])]
    decision = scheduler(*filters).schedule_one(pod(requests={"cpu": "5"}), cluster("n3"))
    assert decision.message == f"0/1 nodes are available: 1 {reason}."


def test_the_default_profile_has_kube_schedulers_weights() -> None:
    weights = default_profile("my-scheduler").weights
    assert weights == {
        "TaintToleration": 3,
        "NodeAffinity": 2,
        "NodeResourcesFit": 1,
        "VolumeBinding": 1,
        "PodTopologySpread": 2,
        "InterPodAffinity": 2,
        "DynamicResources": 2,
        "NodeResourcesBalancedAllocation": 1,
        "ImageLocality": 1,
    }
    assert list(decide(default_profile("my-scheduler")).scores["n1"]) == [
        "TaintToleration",
        "NodeResourcesFit",
        "ImageLocality",
    ]


def test_the_random_profile_filters_alike_but_scores_by_chance() -> None:
    profile = random_profile("random-scheduler", Handle(Random(1)), preemption=False)
    assert list(decide(profile).scores["n1"]) == ["Random"]
    picture = Cache([node("n1", unschedulable=True)], [])
    decision = Scheduler(profile, Random(1)).schedule_one(pod(), picture)
    said = SAID.format("node(s) were unschedulable")
    assert decision.message == f"{said} no new claims to deallocate"


# --- answers that are none ------------------------------------------------------------------------------


class UnprintableError(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")


def fails() -> Status:
    raise UnprintableError


def leaves_half_a_character() -> Status:
    raise ValueError("\ud800")


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (lambda: unschedulable(5), "5 is given as a reason, but isn't text"),  # type: ignore[arg-type]
        (lambda: unschedulable("no \ud800"), "'no \\ud800' is given as a reason, but isn't text"),
        (lambda: Status(Code.UNSCHEDULABLE, None), "needs a Code and a tuple of reasons"),  # type: ignore[arg-type]
        (lambda: Status("no"), "needs a Code and a tuple of reasons"),  # type: ignore[arg-type]
        (lambda: Status(Code.UNSCHEDULABLE, lacks="cpu"), "'cpu' is given for lacks, but isn't a set"),  # type: ignore[arg-type]
        (lambda: wait("soon", limit="5"), "'5' is given for limit, but isn't a number"),  # type: ignore[arg-type]
        (lambda: wait("soon", writes=["pv"]), "is to write something other than claims and volumes"),  # type: ignore[list-item]
        (fails, "UnprintableError"),
        (leaves_half_a_character, "ValueError: \\ud800"),
        (lambda: sys.exit("enough"), "SystemExit: enough"),
    ],
)
@pytest.mark.parametrize("point", ["pre_filter", "filter", "reserve", "permit"])
def test_an_answer_that_is_none_fails_its_pod_only(point: str, answer: Any, why: str) -> None:
    kind = type("Strange", (), {"name": "Strange", point: lambda *_: answer()})
    decider = Scheduler(Profile("my-scheduler", (kind(),), {}), Random(1))
    decision = decider.schedule_one(pod(), cluster("n1"))
    assert decision.outcome == Outcome.ERROR
    assert decision.message.startswith("plugin Strange failed")
    assert decision.message.endswith(why)
    assert decision.message.encode()
