"""Pods alike share the plugins' results for nodes: exactly those that each would have got alone."""

import dataclasses
from collections.abc import Sequence
from copy import copy
from random import Random
from typing import Any

import msgspec
import pytest
from all_cases import some
from hypothesis import given, settings, strategies as st
from msgspec.structs import replace
from objects import node, pod, read

from lib.kube.changes import Change, Kind
from lib.kube.objects import ContainerImage, Node, Pod, Service
from lib.scheduling.cache import Cache
from lib.scheduling.decision import Decision
from lib.scheduling.extender import Extender
from lib.scheduling.extenders import Extenders
from lib.scheduling.framework.interface import DependsOn, Plugin, Profile, SignPlugin, implements
from lib.scheduling.handle import Handle
from lib.scheduling.looked_up import LookedUp
from lib.scheduling.plugins.random_score import RandomFilter
from lib.scheduling.plugins.registry import WEIGHTS, default_profile, make, random_profile
from lib.scheduling.scheduling_cycle import Scheduler
from lib.scheduling.status import unschedulable
from lib.scheduling.workloads import Workloads
from lib.service.telemetry.rendering import as_annotation, as_json

SIGNING = {each.name for each in default_profile("").plugins if implements(each, SignPlugin)}


def unsigned(plugin: Plugin) -> Plugin:
    """A plugin that tells nobody what it reads, so that it is asked about every pod and node anew."""
    other = copy(plugin)
    kind = type(plugin)
    alone: dict[str, Any] = {"sign_pod": None}
    alone |= {name: one_by_one(getattr(kind, name)) for name in IN_BULK if hasattr(kind, name)}
    object.__setattr__(other, "__class__", type(kind.__name__, (kind,), alone))
    assert not implements(other, SignPlugin)
    return other


IN_BULK = ("filter_nodes", "score_nodes")


def one_by_one(method: Any) -> Any:
    """A method for many nodes that is asked about each node alone."""

    def asked(self: Any, state: Any, pod: Pod, nodes: Any) -> Any:
        return [method(self, state, pod, nodes.some([i]))[0] for i in range(len(nodes))]

    return asked


def unshared(profile: Profile) -> Profile:
    return Profile(profile.scheduler_name, tuple(unsigned(each) for each in profile.plugins), profile.weights)


class ByZone:
    """A policy of one's own that tells what it reads of a pod."""

    name = "ByZone"
    reads = DependsOn.NODES

    def sign_pod(self, pod: Pod) -> str:
        return pod.metadata.labels["app"]

    def filter(self, state: Any, pod: Pod, node: Any) -> Any:
        return NO_DB if pod.metadata.labels["app"] == "db" and node.labels[ZONE] == "c" else None

    def score(self, state: Any, pod: Pod, node: Any) -> int:
        return 10 * "abc".index(node.labels[ZONE])


NO_DB = unschedulable("no database in zone c")


class InProcess:
    """An extender without HTTP: it wants no node whose number ends in 3, and likes late ones."""

    def send(self, url: str, body: bytes) -> bytes:
        names = msgspec.json.decode(body)["NodeNames"]
        if url.endswith("filter"):
            return msgspec.json.encode({"nodenames": [each for each in names if not each.endswith("3")]})
        return msgspec.json.encode([{"Host": each, "Score": int(each[1:]) % 10} for each in names])

    def whole_pod(self, pod: Pod) -> msgspec.Raw:
        return msgspec.Raw(b"{}")

    def whole_nodes(self, nodes: Sequence[Node]) -> list[msgspec.Raw]:
        raise AssertionError("it knows the nodes")


def extenders() -> Extenders:
    asked = {"filter_verb": "filter", "prioritize_verb": "prioritize", "node_cache_capable": True}
    return Extenders([Extender("http://in-process", InProcess(), **asked)])


def profiles(seed: int) -> list[Profile]:
    """As kube-scheduler has it; with a filter by chance before all others; by chance; with a policy."""
    default = default_profile("")
    policy = Profile("", (*default.plugins, ByZone()), {**default.weights, "ByZone": 3})
    chance = Profile(
        "", (RandomFilter(Handle(Random(seed))), *default_profile("").plugins), default_profile("").weights
    )
    return [default_profile(""), chance, random_profile("", Handle(Random(seed))), policy]


ZONE, HOST = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
TEAM_A = {"matchLabels": {"team": "a"}}
WEB = {"matchLabels": {"app": "web"}}
TAINT = {"key": "gpu", "value": "", "effect": "NoSchedule"}
ADVICE = {"key": "slow", "value": "", "effect": "PreferNoSchedule"}


def term(key: str) -> dict[str, Any]:
    return {"topologyKey": key, "labelSelector": WEB}


def wish(*values: str) -> dict[str, Any]:
    zone = {"matchExpressions": [{"key": ZONE, "operator": "In", "values": list(values)}]}
    return {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 30, "preference": zone}]}


def fixed(*names: str) -> dict[str, Any]:
    field = {"key": "metadata.name", "operator": "In", "values": list(names)}
    terms = {"nodeSelectorTerms": [{"matchFields": [field]}]}
    return {"requiredDuringSchedulingIgnoredDuringExecution": terms}


def spread(action: str, key: str = ZONE) -> dict[str, Any]:
    return {"topologyKey": key, "maxSkew": 1, "whenUnsatisfiable": action, "labelSelector": WEB}


REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
MAX_MEMO: list[dict[str, Any]] = [
    {},
    {"tolerations": [{"key": "gpu", "operator": "Exists"}]},
    {"nodeSelector": {ZONE: "a"}},
    {"affinity": {"nodeAffinity": wish("a", "b")}},
    {"affinity": {"nodeAffinity": fixed("n1", "n2")}},
    {"affinity": {"podAntiAffinity": {REQUIRED: [term(HOST)]}}},
    {"affinity": {"podAffinity": {PREFERRED: [{"weight": 5, "podAffinityTerm": term(ZONE)}]}}},
    {"topologySpreadConstraints": [spread("DoNotSchedule")]},
    {"topologySpreadConstraints": [spread("ScheduleAnyway")]},
    {"topologySpreadConstraints": [spread("DoNotSchedule", HOST), spread("ScheduleAnyway")]},
    {"affinity": {"podAntiAffinity": {REQUIRED: [{**term(HOST), "namespaceSelector": TEAM_A}]}}},
    {"affinity": {"podAffinity": {REQUIRED: [{**term(ZONE), "namespaces": ["default", "other"]}]}}},
    {"affinity": {"podAntiAffinity": {PREFERRED: [{"weight": 5, "podAffinityTerm": term(HOST)}]}}},
    {"priority": 10},
]

nodes = st.lists(
    st.fixed_dictionaries(
        {
            "zone": st.sampled_from("abc"),
            "cpu": st.sampled_from(["1", "2", "4"]),
            "taints": st.sampled_from([[], [], [TAINT], [ADVICE]]),
        }
    ),
    min_size=1,
    max_size=12,  # more than are asked about one by one
)
pods = st.tuples(
    st.just("pod"),
    st.fixed_dictionaries(
        {
            "sort": st.sampled_from(MAX_MEMO),
            "cpu": st.sampled_from(["250m", "500m"]),
            "port": st.sampled_from([0, 0, 80]),
            "app": st.sampled_from(["web", "db"]),
            "namespace": st.sampled_from(["default", "default", "other"]),
            "profile": st.sampled_from([0, 0, 1]),
        }
    ),
)
WHAT = ["delete", "cordon", "remove", "nominate", "hold", "relabel", "move", "taint"]
changes = st.tuples(st.sampled_from(WHAT), st.integers(0, 20))


def a_pod(i: int, wanted: dict[str, Any]) -> Pod:
    container = {
        "name": "main",
        "image": wanted["app"],
        "resources": {"requests": {"cpu": wanted["cpu"]}},
        "ports": [{"hostPort": wanted["port"]}] if wanted["port"] else [],
    }
    namespace = wanted.get("namespace", "default")
    metadata = {"namespace": namespace, "name": f"p{i}", "uid": f"p{i}", "labels": {"app": wanted["app"]}}
    whole: Pod = read(Pod, {"metadata": metadata, "spec": {"containers": [container], **wanted["sort"]}})
    return whole


class Side:
    """A cluster, and what is decided in it by the schedulers of some profiles.

    afresh: nothing that was found or counted before is used for a decision.
    """

    def __init__(
        self, profiles: list[Profile], described: list[dict[str, Any]], seed: int, *, afresh: bool = False
    ) -> None:
        self.described = [dict(each) for each in described]
        web = read(Service, {"metadata": {"namespace": "default"}, "spec": {"selector": {"app": "web"}}})
        nodes = [self.node(i) for i in range(len(described))]
        self.cluster = Cache(nodes, looked_up=LookedUp(workloads=Workloads([web])))
        chance = Random(seed)
        self.schedulers = [
            Scheduler(each, chance, asked) for each, asked in zip(profiles, (None, extenders()), strict=False)
        ]
        self.placed: list[Pod] = []
        self.afresh = afresh

    def node(self, i: int, **spec: Any) -> Any:
        each = self.described[i]
        labels = {ZONE: each["zone"], HOST: f"n{i}"}
        return node(f"n{i}", labels, has={"cpu": each["cpu"]}, taints=each["taints"], **spec)

    def does(self, i: int, what: str, which: Any) -> Any:
        if what == "pod":
            if self.afresh:
                self.forget_what_is_kept(i)
            scheduler = self.schedulers[which.get("profile", 0)]
            decision = scheduler.schedule_one(a_pod(i, which), self.cluster)
            if decision.node_name:
                self.placed.append(decision.pod)
            return (
                as_json(decision),
                {name: (why.plugin, why.status) for name, why in decision.rejected.items()},
                decision.scores,
                as_annotation(decision),
                decision.nominated,
                [str(victim) for victim in decision.victims],
                [str(victim) for victim in decision.preempted_held],
            )
        if what == "delete" and self.placed:
            self.cluster.forget(self.placed.pop(which % len(self.placed)))
        if what in ("cordon", "remove"):
            number = which % len(self.described)
            gone = what == "remove"
            changed = self.node(number, unschedulable=not gone)
            self.cluster.apply(Change(Kind.DELETED if gone else Kind.MODIFIED, changed, changed))
        if what in ("move", "taint") and f"n{which % len(self.described)}" in self.cluster.nodes:
            each = self.described[which % len(self.described)]
            each |= {"zone": "abc"[which % 3]} if what == "move" else {"taints": [[], [TAINT]][which % 2]}
            changed = self.node(which % len(self.described))
            self.cluster.apply(Change(Kind.MODIFIED, changed, changed))
        if what == "nominate":
            wanted = {"sort": MAX_MEMO[which % len(MAX_MEMO)], "cpu": "250m", "port": 0, "app": "web"}
            wanted["sort"] = {**wanted["sort"], "priority": 10}
            self.cluster.nominator.add(a_pod(1000 + i, wanted), f"n{which % len(self.described)}")
        if what == "hold" and self.placed:
            self.cluster.lives.hold(self.placed[which % len(self.placed)].metadata.uid, "not yet")
        if what == "relabel":
            namespaces = {"default": {"team": "ab"[which % 2]}, "other": {"team": "a"}}
            self.cluster.looked_up = dataclasses.replace(self.cluster.looked_up, namespaces=namespaces)
        return None

    def forget_what_is_kept(self, i: int) -> None:
        """A node that has other images ends all that is kept; no pod here asks for this one."""
        if self.cluster.nodes:
            was = next(iter(self.cluster.nodes.values())).node
            status = replace(was.status, images=[ContainerImage([f"never:{i}"], 1)])
            now = replace(was, status=status)
            self.cluster.apply(Change(Kind.MODIFIED, now, was))


@pytest.mark.parametrize("which", range(4))
@settings(max_examples=some(50))
@given(nodes, st.lists(pods | pods | changes, max_size=25), st.integers(0, 9))
def test_decisions_are_those_that_would_be_made_one_by_one(
    which: int, described: Any, happens: Any, seed: int
) -> None:
    def both() -> list[Profile]:
        every = profiles(seed)
        return [every[which], every[3 - which]]  # the second is asked for some pods, and has an extender

    shared = Side(both(), described, seed)
    alone = Side([unshared(each) for each in both()], described, seed, afresh=True)
    for i, (what, more) in enumerate(happens):
        assert shared.does(i, what, more) == alone.does(i, what, more)


def image(name: str) -> dict[str, Any]:
    return {"containers": [{"name": "main", "image": name}]}


def port(number: int) -> dict[str, Any]:
    return {"containers": [{"name": "main", "ports": [{"containerPort": 80, "hostPort": number}]}]}


def asking(cpu: str) -> dict[str, Any]:
    return {"containers": [{"name": "main", "resources": {"requests": {"cpu": cpu}}}]}


@pytest.mark.parametrize(
    ("plugin", "one", "other"),
    [
        ("NodeUnschedulable", {}, {"tolerations": [{"operator": "Exists"}]}),
        ("TaintToleration", {}, {"tolerations": [{"key": "gpu", "operator": "Exists"}]}),
        ("TaintToleration", {}, {"tolerations": [{"key": "slow", "operator": "Exists"}]}),
        ("NodeAffinity", {"nodeSelector": {ZONE: "a"}}, {"nodeSelector": {ZONE: "b"}}),
        ("NodeAffinity", {"affinity": {"nodeAffinity": wish("a")}}, {}),
        ("NodeAffinity", {"affinity": {"nodeAffinity": fixed("n1")}}, {}),
        ("NodePorts", port(80), port(81)),
        ("NodeResourcesFit", asking("1"), asking("2")),
        ("NodeResourcesBalancedAllocation", asking("1"), asking("2")),
        ("ImageLocality", image("small"), image("large")),
        ("NodeDeclaredFeatures", {"hostNetwork": True}, {"hostNetwork": True, "hostUsers": False}),
    ],
)
def test_pods_that_differ_in_what_a_plugin_reads_share_no_answer(plugin: str, one: Any, other: Any) -> None:
    def picture() -> Cache:
        nodes = [
            node("n1", {ZONE: "a"}),
            node("n2", {ZONE: "b"}, taints=[TAINT]),
            node("n3", {ZONE: "b"}, taints=[ADVICE]),
            node("n4", {ZONE: "c"}, unschedulable=True),
        ]
        nodes[0].status.images = [ContainerImage(["large:latest"], 2**29)]
        return Cache(nodes, [pod("old", nodeName="n1", **port(80))])

    def answers(scheduler: Scheduler, wanted: Any, cluster: Cache) -> Any:
        decision = scheduler.schedule_one(pod(**wanted), cluster)
        scheduler.undo(decision, cluster)
        return {name: why.reason for name, why in decision.rejected.items()}, decision.scores

    profile = Profile("", (make(plugin, Handle(), {}),), WEIGHTS)

    def alone(wanted: Any) -> Any:
        return answers(Scheduler(profile, Random(1)), wanted, picture())

    scheduler, cluster = Scheduler(profile, Random(1)), picture()
    found = [answers(scheduler, wanted, cluster) for wanted in (one, other)]
    assert found == [alone(one), alone(other)]
    assert found[0] != found[1]


def test_pods_nominated_to_a_node_are_counted_for_no_other() -> None:
    """Room is looked for in two goes: a nominated pod is tried in the first, and not there in the second."""
    cluster = Cache([node(f"n{i}", {HOST: f"n{i}", ZONE: "b" if i > 100 else "a"}) for i in range(150)])
    spot = {REQUIRED: [{**term(HOST), "labelSelector": {"matchLabels": {"app": "db"}}}]}
    zone = {REQUIRED: [{**term(ZONE), "labelSelector": {"matchLabels": {"app": "far"}}}]}
    wanted = {"sort": {"priority": 10}, "cpu": "250m", "port": 0, "app": "far"}
    cluster.nominator.add(a_pod(0, wanted), "n0")
    for i in (5, 6):
        cluster.assume(a_pod(i, {**wanted, "app": "db"}), f"n{i}")
    both = {"podAntiAffinity": {REQUIRED: [*spot[REQUIRED], *zone[REQUIRED]]}}
    scheduler = Scheduler(default_profile(""), Random(1))
    pod = a_pod(1, {"sort": {"affinity": both}, "cpu": "250m", "port": 0, "app": "web"})
    assert scheduler.schedule_one(pod, cluster).rejected.keys() == {"n0", "n5", "n6"}


def test_pods_all_different_are_told_of_each_other() -> None:
    described = [{"zone": "a", "cpu": cpu, "taints": []} for cpu in "12412412412412"]
    shared, alone = (
        Side([profile], described, 1) for profile in (default_profile(""), unshared(default_profile("")))
    )
    for i in range(90):  # more than there is room for
        wanted = {"sort": {}, "cpu": f"{100 + 7 * i}m", "port": 0, "app": "web"}
        assert shared.does(i, "pod", wanted) == alone.does(i, "pod", wanted)
        if i % 5 == 4:
            shared.does(i, "delete", i)
            alone.does(i, "delete", i)


def test_pods_alike_fit_nowhere_alike_until_something_changes() -> None:
    cluster, scheduler = Cache([node(f"n{i}") for i in range(3)]), Scheduler(default_profile(""), Random(1))

    def decide(i: int, cpu: str = "3") -> Decision:
        return scheduler.schedule_one(a_pod(i, {"sort": {}, "cpu": cpu, "port": 0, "app": "web"}), cluster)

    placed = [decide(i) for i in range(3)]
    first, second = decide(3), decide(4)
    assert first.rejected.keys() == {"n0", "n1", "n2"}
    assert second.rejected is first.rejected  # nothing was searched again
    assert second.message == first.message
    assert second.message.startswith("0/3 nodes are available: 3 Insufficient cpu.")
    assert decide(5, "1").node_name  # it isn't alike
    cluster.forget(placed[1].pod)
    assert decide(6).node_name == placed[1].node_name
    assert not decide(7).node_name


def test_in_short_a_decision_says_the_same_of_the_pick() -> None:
    whole, short = (Scheduler(default_profile(""), Random(3), in_full=each) for each in (True, False))
    one, other = (Cache([node(f"n{i}") for i in range(150)]) for _ in range(2))
    for i in range(20):
        wanted = {"sort": {}, "cpu": "500m", "port": 0, "app": "web"}
        full, gist = whole.schedule_one(a_pod(i, wanted), one), short.schedule_one(a_pod(i, wanted), other)
        assert gist.node_name == full.node_name
        assert as_annotation(gist) == as_annotation(full)
        assert gist.scores.items() <= full.scores.items()


@pytest.mark.parametrize(
    ("nodes", "length_of_name", "in_full"), [(3, 1, True), (50, 1, True), (51, 1, False), (50, 200, False)]
)
def test_an_annotation_tells_of_each_node_of_a_small_cluster(
    nodes: int, length_of_name: int, in_full: bool
) -> None:
    names = [f"n{i:0{length_of_name}}" for i in range(nodes)]
    scheduler, cache = Scheduler(default_profile(""), Random(3)), Cache(map(node, names))
    decision = scheduler.schedule_one(a_pod(0, {"sort": {}, "cpu": "500m", "port": 0, "app": "web"}), cache)
    said = msgspec.json.decode(as_annotation(decision, in_full=True))
    assert said.pop("nodes", None) == (as_json(decision)["nodes"] if in_full else None)
    assert said == msgspec.json.decode(as_annotation(decision))


def test_a_plugin_is_asked_once_about_a_node_and_pods_alike() -> None:
    asked: list[str] = []

    class Counting(type(default_profile("").plugins[7])):  # type: ignore[misc]
        def filter_nodes(self, state: Any, pod: Pod, nodes: Any) -> Any:
            asked.extend(node.name for node in nodes)
            return super().filter_nodes(state, pod, nodes)

    profile = default_profile("")
    plugins = tuple(Counting() if each.name == "NodeResourcesFit" else each for each in profile.plugins)
    scheduler = Scheduler(Profile("", plugins, profile.weights), Random(1))
    cluster = Cache([node(f"n{i}") for i in range(10)])
    wanted = {"sort": {}, "cpu": "500m", "port": 0, "app": "web"}
    picks = [scheduler.schedule_one(a_pod(i, wanted), cluster).node_name for i in range(5)]
    assert asked == [f"n{i}" for i in range(10)] + picks[:-1]
    assert {
        "NodeUnschedulable",
        "NodeName",
        "TaintToleration",
        "NodeAffinity",
        "NodePorts",
        "NodeDeclaredFeatures",
        "NodeResourcesFit",
        "NodeResourcesBalancedAllocation",
        "ImageLocality",
    } == SIGNING
