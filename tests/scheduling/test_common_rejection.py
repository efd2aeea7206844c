"""Nodes that a PreFilter plugin doesn't allow are rejected without a walk over all of them."""

from dataclasses import dataclass
from random import Random
from typing import Any

import pytest
from msgspec.structs import replace
from objects import node, read

from lib.kube.changes import Change, Kind
from lib.kube.objects import Node, Pod
from lib.scheduling.cache import Cache
from lib.scheduling.decision import Outcome
from lib.scheduling.plugins.registry import default_profile
from lib.scheduling.scheduling_cycle import Scheduler


@dataclass(frozen=True)
class Naming:
    """Allows some nodes, by their names."""

    names: frozenset[str]
    name: str = "Naming"

    def pre_filter(self, state: Any, pod: Any, cache: Any) -> set[str]:
        return set(self.names)


def pod_naming(*names: str) -> Pod:
    fields = [{"key": "metadata.name", "operator": "In", "values": [name]} for name in names]
    required = {"nodeSelectorTerms": [{"matchFields": [each]} for each in fields]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}
    spec = {"affinity": affinity, "containers": [{"name": "main"}]}
    return read(Pod, {"metadata": {"name": "web", "uid": "web"}, "spec": spec})


def cluster() -> Cache:
    """Four nodes; on b no pod is to run."""
    nodes = [node(name) for name in "abcd"]
    return Cache([cordoned(each) if each.metadata.name == "b" else each for each in nodes])


def cordoned(described: Node) -> Node:
    return replace(described, spec=replace(described.spec, unschedulable=True))


@pytest.mark.parametrize(
    ("names", "allowed", "rejecting", "picked"),
    [
        (["c"], None, {"a": "NodeAffinity", "b": "NodeAffinity", "d": "NodeAffinity"}, "c"),
        (["b"], None, dict.fromkeys("acd", "NodeAffinity") | {"b": "NodeUnschedulable"}, ""),
        (["gone"], None, dict.fromkeys("abcd", "NodeAffinity"), ""),
        (
            ["b", "c", "gone"],
            {"b", "c"},
            {"a": "NodeAffinity", "d": "NodeAffinity", "b": "NodeUnschedulable"},
            "c",
        ),
        (
            ["b", "c", "gone"],
            {"a", "b"},
            {"a": "NodeAffinity", "d": "NodeAffinity", "c": "Naming", "b": "NodeUnschedulable"},
            "",
        ),
    ],
    ids=["one", "one that is cordoned", "one that has gone", "two plugins", "two plugins that leave one"],
)
def test_each_node_is_rejected_by_the_first_plugin_that_does_not_allow_it(
    names: list[str], allowed: set[str] | None, rejecting: dict[str, str], picked: str
) -> None:
    more = [Naming(frozenset(allowed))] if allowed is not None else []
    decision = Scheduler(default_profile("", *more), Random(1)).schedule_one(pod_naming(*names), cluster())

    assert decision.node_name == picked
    assert {name: each.plugin for name, each in decision.rejected.items()} == rejecting
    assert len(decision.rejected) == len(rejecting)
    assert all((name in decision.rejected) == (name in rejecting) for name in [*"abcd", "gone"])
    assert decision.outcome == (Outcome.SCHEDULED if picked else Outcome.UNSCHEDULABLE)


def test_nodes_that_come_later_are_not_among_those_of_a_decision() -> None:
    cache = cluster()
    decision = Scheduler(default_profile(""), Random(1)).schedule_one(pod_naming("gone"), cache)
    cache.apply(Change(Kind.ADDED, node("e")))

    assert [*decision.rejected] == ["a", "b", "c", "d"]
    words = "0/4 nodes are available: 4 node(s) didn't satisfy plugin(s) [NodeAffinity]."
    assert decision.message.startswith(words)
