"""Pods alike share the victims found on each node: the same ones as if each pod tried all nodes itself."""

import dataclasses
from collections.abc import Collection
from functools import cache
from random import Random
from typing import Any

import pytest
from all_cases import some
from hypothesis import given, settings, strategies as st
from msgspec.structs import replace
from objects import node, read
from scheduling.plugins.storage_objects import claim, csi_volume

from lib.kube.changes import Change, Kind
from lib.kube.objects import Pod, PodDisruptionBudget
from lib.scheduling.cache import Cache
from lib.scheduling.framework.interface import Plugin, Profile
from lib.scheduling.plugins.default_preemption import DefaultPreemption
from lib.scheduling.plugins.registry import default_profile
from lib.scheduling.preemption.kept_victims import KeptForKind, KeptVictims, LeastHarm
from lib.scheduling.preemption.victims import NO_VICTIMS
from lib.scheduling.scheduling_cycle import Scheduler
from lib.scheduling.status import Rejection

HOST, ZONE = "kubernetes.io/hostname", "topology.kubernetes.io/zone"
NODES = 4


class KeepsNothing(KeptVictims):
    """Has each pod try all nodes itself."""

    def of_kind(self, alike: Any, pod: Pod, cache: Cache) -> KeptForKind:
        return super().of_kind(None, pod, cache)

    def least_harm(self, pod: Pod, lacks: Collection[str], cache: Cache) -> LeastHarm:
        return KeptVictims().least_harm(pod, lacks, cache)


@cache
def schedulers(side: str, absolute: int) -> list[Scheduler]:
    """Of two profiles with one DefaultPreemption: the second lets pods share host ports."""
    kept = KeepsNothing() if side == "alone" else KeptVictims()
    preemption = DefaultPreemption(min_candidate_nodes_absolute=absolute, min_candidate_nodes_percentage=0)
    object.__setattr__(preemption, "_kept", kept)
    plugins: list[Plugin] = [
        preemption if each.name == preemption.name else each for each in default_profile("").plugins
    ]
    fewer = [each for each in plugins if each.name != "NodePorts"]
    return [Scheduler(Profile("", tuple(each), {}), First()) for each in (plugins, fewer)]


class First(Random):
    """Of nodes that are equally good, the first."""

    def randrange(self, *_: Any) -> int:
        return 0


def anti_affinity(namespace_selector: dict[str, Any] | None = None) -> dict[str, Any]:
    term: dict[str, Any] = {"topologyKey": HOST, "labelSelector": {"matchLabels": {"app": "web"}}}
    if namespace_selector is not None:
        term["namespaceSelector"] = namespace_selector
    return {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}


SPREAD = {
    "topologyKey": HOST,
    "maxSkew": 1,
    "whenUnsatisfiable": "DoNotSchedule",
    "labelSelector": {"matchLabels": {"app": "web"}},
}
SPECS: list[dict[str, Any]] = [
    {},
    {},
    {"nodeSelector": {ZONE: "a"}},
    {"affinity": anti_affinity()},
    {"affinity": anti_affinity({"matchLabels": {"team": "x"}})},
    {"topologySpreadConstraints": [SPREAD]},
]
LOW = {"cpu": "4", "priority": 0, "app": "web", "port": 0, "spec": 0, "at": 1}
HIGHEST = {"cpu": "0", "priority": 100, "app": "web", "port": 0, "spec": 0}
STEPS = (
    *("preempts", "alike", "alike", "alike", "is nominated", "is nominated", "comes", "goes", "is relabeled"),
    *("gives up", "budgets", "is cordoned", "namespaces"),
)


class Chance(Random):
    """What happens by chance, in clusters that are full as a rule."""

    def cluster(self) -> list[list[dict[str, Any]]]:
        """The pods that run on each node."""
        return [[self.runs() for _ in range(self.choice([2, 3, 3, 4]))] for _ in range(NODES)]

    def runs(self) -> dict[str, Any]:
        """A pod that runs already."""
        return self._pod([0, 0, 1, 7, 10], [0, 0, 0, 0, 3]) | {"at": self.choice([1, 1, 2])}

    def wanted(self) -> dict[str, Any]:
        """A pod that is to be placed."""
        return self._pod([5, 10, 10], [0, 0, 0, *range(len(SPECS))]) | {"profile": self.choice([0, 0, 0, 1])}

    def _pod(self, priorities: list[int], specs: list[int]) -> dict[str, Any]:
        return {
            "cpu": self.choice(["1", "2"]),
            "priority": self.choice(priorities),
            "app": self.choice(["web", "db"]),
            "port": self.choice([0, 0, 80]),
            "spec": self.choice(specs),
        }

    def step(self) -> tuple[str, Any]:
        """What happens, and to whom."""
        what, number = self.choice(STEPS), self.randrange(12)
        if what == "preempts":
            return what, self.wanted()
        if what == "alike":
            otherwise = [{}, {}, {}, {"app": "web"}, {"app": "db"}, {"priority": 5}, {"priority": 10}]
            return what, (number, self.choice(otherwise))
        if what == "is nominated":
            return what, (number, self.wanted())
        if what == "comes":
            return what, (number, self.runs())
        if what == "budgets":
            return what, [(self.choice(["web", "db"]), self.randrange(2)) for _ in range(2)]
        return what, number


def a_pod(name: str, wanted: dict[str, Any], **spec: Any) -> Pod:
    container: dict[str, Any] = {"name": "main", "resources": {"requests": {"cpu": wanted["cpu"]}}}
    if wanted["port"]:
        container["ports"] = [{"hostPort": wanted["port"]}]
    metadata = {"namespace": "default", "name": name, "uid": name, "labels": {"app": wanted["app"]}}
    body = {"priority": wanted["priority"], "containers": [container], **SPECS[wanted["spec"]], **spec}
    status = {"startTime": f"2026-01-01T00:0{wanted['at']}:00Z"} if "at" in wanted else {}
    whole: Pod = read(Pod, {"metadata": metadata, "spec": body, "status": status})
    return whole


class Side:
    """A cluster, and what is decided in it."""

    def __init__(self, side: str, absolute: int, described: list[list[dict[str, Any]]]) -> None:
        self.cache = Cache([self.node(i) for i in range(NODES)])
        self.schedulers = schedulers(side, absolute)
        self.running: list[Pod] = []
        self.wanted: list[tuple[dict[str, Any], Pod]] = []
        for i, pods in enumerate(described):
            for j, each in enumerate(pods):
                self.comes(f"p{i}-{j}", i, each)

    def node(self, i: int, **spec: Any) -> Any:
        labels = {HOST: f"n{i}", ZONE: "ab"[i % 2]}
        return node(f"n{i}", labels, has={"cpu": "4"}, **spec)

    def comes(self, name: str, where: int, runs: dict[str, Any]) -> None:
        self.running.append(a_pod(name, runs, nodeName=f"n{where % NODES}"))
        self.cache.apply(Change(Kind.ADDED, self.running[-1]))

    def schedules(self, name: str, wanted: dict[str, Any], **spec: Any) -> Any:
        pod = a_pod(name, wanted, **spec)
        self.wanted.append((wanted, pod))
        decision = self.schedulers[wanted["profile"]].schedule_one(pod, self.cache)
        assert decision.outcome != "error", decision.message
        if decision.node_name:
            self.running.append(replace_node(pod, decision.node_name))
        victims = [each.metadata.name for each in decision.victims]
        lost = [each.metadata.name for each in decision.cleared_nominations]
        return decision.node_name, decision.nominated, victims, lost, decision.message

    def does(self, i: int, what: str, which: Any) -> Any:
        """A step; what is decided in it."""
        name, cluster = f"new-{i}", self.cache
        if what == "preempts":
            return self.schedules(name, which)
        if what == "alike":
            number, otherwise = which
            return self.schedules(name, self.wanted[number % len(self.wanted)][0] | otherwise)
        if what == "is nominated":
            (where, wanted), node_name = which, f"n{which[0] % NODES}"
            for other in cluster.nominator.less_important(a_pod(name, HIGHEST), node_name)[: where % 2]:
                cluster.nominator.delete(other)
            cluster.nominator.add(a_pod(name, wanted), node_name)
        elif what == "comes":
            self.comes(name, *which)
        elif what in ("goes", "is relabeled") and self.running:
            number = which % len(self.running)
            pod = self.running.pop(number)
            cluster.apply(Change(Kind.DELETED, pod))
            if what == "is relabeled":
                labels = {"app": "db" if pod.metadata.labels["app"] == "web" else "web"}
                changed = with_labels(pod, labels)
                self.running.insert(number, changed)
                cluster.apply(Change(Kind.ADDED, changed))
        elif what == "gives up" and self.wanted:
            cluster.nominator.delete(self.wanted[which % len(self.wanted)][1])
        elif what == "budgets":
            budgets = [budget(app, allowed) for app, allowed in which]
            cluster.looked_up = dataclasses.replace(cluster.looked_up, budgets=budgets)
        elif what == "is cordoned":
            cluster.apply(Change(Kind.MODIFIED, self.node(which % NODES, unschedulable=which % 2 == 0)))
        elif what == "namespaces":
            namespaces: dict[str, dict[str, str]] = {"default": {"team": "x"} if which % 2 else {}}
            cluster.looked_up = dataclasses.replace(cluster.looked_up, namespaces=namespaces)
        return None


def replace_node(pod: Pod, node_name: str) -> Pod:
    return replace(pod, spec=replace(pod.spec, node_name=node_name))


def with_labels(pod: Pod, labels: dict[str, str]) -> Pod:
    return replace(pod, metadata=replace(pod.metadata, labels=labels))


def budget(app: str, allowed: int) -> PodDisruptionBudget:
    body = {
        "metadata": {"namespace": "default", "name": app},
        "spec": {"selector": {"matchLabels": {"app": app}}},
        "status": {"disruptionsAllowed": allowed},
    }
    made: PodDisruptionBudget = read(PodDisruptionBudget, body)
    return made


@settings(max_examples=some(60))
@given(st.integers(0, 10**9))
def test_the_victims_are_those_that_each_pod_would_find_itself(seed: int) -> None:
    chance = Chance(seed)
    absolute, described = chance.choice([1, 100]), chance.cluster()
    shared, alone = (Side(side, absolute, described) for side in ("shared", "alone"))
    for i, (what, which) in enumerate([("preempts", chance.wanted()), *(chance.step() for _ in range(14))]):
        assert shared.does(i, what, which) == alone.does(i, what, which)


def test_a_node_is_compared_anew_when_a_nomination_there_has_ended() -> None:
    """One pod would have to leave n1, and two n0; and two leave n1, too, while room is kept there."""
    wanted, full = HIGHEST | {"cpu": "2", "priority": 10, "profile": 0}, [LOW | {"priority": 50}]
    side = Side("shared", 100, [[LOW | {"cpu": "1"}] * 4, [LOW | {"cpu": "2"}] * 2, full, full])
    first, found = a_pod("first", HIGHEST | {"cpu": "2"}), []
    for i, nominated_to in enumerate(["n1", "", "n1"]):
        side.cache.nominator.add(first, nominated_to)
        found.append(side.schedules(f"new-{i}", wanted)[1])
        side.does(i, "gives up", i)
    assert found == ["n0", "n1", "n0"]


def test_nothing_is_kept_where_a_nominated_pod_has_affinity_terms() -> None:
    """They keep pods away that have a label, and the pods without it are of the same kind."""
    side = Side("shared", 100, [[LOW], [], [], []])
    side.cache.nominator.add(a_pod("first", HIGHEST | {"spec": 3}), "n0")
    found = []
    for i, app in enumerate(["web", "db"]):
        wanted = HIGHEST | {"cpu": "1", "priority": 10, "app": app, "profile": 0}
        found.append(side.schedules(f"new-{i}", wanted, nodeSelector={HOST: "n0"})[1])
    assert found == ["", "n0"]


def test_nothing_is_kept_where_a_nominated_pod_has_volumes() -> None:
    """A claim that only one pod may use keeps away the pods that use it, too; others are of the same kind."""
    side = Side("shared", 100, [[LOW], [], [], []])
    for name in ("taken", "free"):
        side.cache.storage.put(claim(name, volume=name, accessModes=["ReadWriteOncePod"]))
        side.cache.storage.put(csi_volume(name))

    def uses(name: str) -> dict[str, Any]:
        return {"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": name}}]}

    side.cache.nominator.add(a_pod("first", HIGHEST, **uses("taken")), "n0")
    found = []
    for i, name in enumerate(["taken", "free"]):
        wanted = HIGHEST | {"cpu": "1", "priority": 10, "profile": 0}
        found.append(side.schedules(f"new-{i}", wanted, nodeSelector={HOST: "n0"}, **uses(name))[1])
    assert found == ["", "n0"]


PLAIN, ALSO_PLAIN, WITH_TERMS = (
    a_pod("plain", HIGHEST),
    a_pod("also", HIGHEST),
    a_pod("apart", HIGHEST | {"spec": 3}),
)


@pytest.mark.parametrize(
    ("before", "now", "is_kept"),
    [
        ([], [], True),
        ([PLAIN, ALSO_PLAIN], [PLAIN, ALSO_PLAIN], True),
        ([PLAIN, ALSO_PLAIN], [PLAIN, a_pod("another", HIGHEST)], False),
        ([PLAIN], [PLAIN, ALSO_PLAIN], False),
        ([PLAIN, ALSO_PLAIN], [PLAIN], False),
        ([PLAIN, WITH_TERMS], [PLAIN, WITH_TERMS], False),
    ],
)
def test_victims_are_kept_while_the_same_pods_are_nominated_none_of_which_can_tell_pods_apart(
    before: list[Pod], now: list[Pod], is_kept: bool
) -> None:
    kept, tried = KeptForKind(), list[str]()

    def find(node_name: str) -> Rejection:
        tried.append(node_name)
        return NO_VICTIMS

    for nominated in (before, now):
        assert kept.answer("n1", nominated, find) == NO_VICTIMS
    assert tried == ["n1"] * (1 if is_kept else 2)


def test_a_trial_leaves_the_pods_of_a_node_as_they_were() -> None:
    side = Side("shared", 100, [[LOW | {"cpu": "1", "priority": i} for i in (1, 3, 2)]] * NODES)
    before, token = {name: [*node.pods] for name, node in side.cache.nodes.items()}, side.cache.journal.token
    assert side.schedules("new", HIGHEST | {"cpu": "2", "profile": 0})[1]
    assert {name: node.pods for name, node in side.cache.nodes.items()} == before
    assert side.cache.journal.token == token
