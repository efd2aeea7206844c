"""Each filter's rule, as a table: a pod, a node, and the reasons against the node."""

from typing import Any

import pytest
from objects import node, pod

from lib.kube.objects import Node, Pod
from lib.scheduling.cluster import Cluster
from lib.scheduling.framework import SKIP, CycleState, FilterPlugin, PreFilterPlugin
from lib.scheduling.plugins.node_affinity import NodeAffinity
from lib.scheduling.plugins.node_resources_fit import NodeResourcesFit
from lib.scheduling.plugins.node_unschedulable import NodeUnschedulable
from lib.scheduling.plugins.taint_toleration import TaintToleration

CORDONED = "node(s) were unschedulable"
TAINTED = "node(s) had untolerated taint(s)"
UNWANTED = "node(s) didn't match Pod's node affinity/selector"


def reasons(plugin: FilterPlugin, pod: Pod, node: Node, *running: Pod) -> list[str]:
    """What a filter has against a node on which these pods run."""
    state: CycleState = {}
    cluster = Cluster([node], [])
    for each in running:
        cluster.assume(each, node.metadata.name)
    if isinstance(plugin, PreFilterPlugin) and plugin.pre_filter(state, pod, cluster) == SKIP:
        return []
    status = plugin.filter(state, pod, cluster.nodes[node.metadata.name])
    return list(status.reasons) if status else []


def taint(text: str) -> dict[str, str]:
    """A taint as kubectl writes it: key=value:Effect."""
    pair, effect = text.split(":")
    key, _, value = pair.partition("=")
    return {"key": key, "value": value, "effect": effect}


# --- NodeUnschedulable ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("cordoned", "tolerations", "expected"),
    [
        (False, [], []),
        (True, [], [CORDONED]),
        (True, [{"key": "node.kubernetes.io/unschedulable", "operator": "Exists"}], []),
        (True, [{"operator": "Exists"}], []),
        (
            True,
            [{"key": "node.kubernetes.io/unschedulable", "operator": "Exists", "effect": "NoExecute"}],
            [CORDONED],
        ),
        (True, [{"key": "something-else", "operator": "Exists"}], [CORDONED]),
    ],
)
def test_node_unschedulable(cordoned: bool, tolerations: Any, expected: list[str]) -> None:
    asked = reasons(NodeUnschedulable(), pod(tolerations=tolerations), node(unschedulable=cordoned))
    assert asked == expected


# --- TaintToleration ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("taints", "tolerations", "expected"),
    [
        ([], [], []),
        (["gpu=yes:NoSchedule"], [], [TAINTED]),
        (["gpu=yes:NoExecute"], [], [TAINTED]),
        (["gpu=yes:PreferNoSchedule"], [], []),  # advice only
        (["gpu=yes:NoSchedule"], [{"key": "gpu", "value": "yes"}], []),  # Equal is the default
        (["gpu=yes:NoSchedule"], [{"key": "gpu", "operator": "Equal", "value": "no"}], [TAINTED]),
        (["gpu=yes:NoSchedule"], [{"key": "gpu", "operator": "Exists"}], []),
        (["gpu=yes:NoSchedule"], [{"key": "tpu", "operator": "Exists"}], [TAINTED]),
        (["gpu=yes:NoSchedule"], [{"operator": "Exists"}], []),  # no key: every taint
        (["gpu=yes:NoSchedule"], [{"key": "gpu", "operator": "Exists", "effect": "NoExecute"}], [TAINTED]),
        (["gpu=yes:NoSchedule", "old:NoExecute"], [{"key": "gpu", "operator": "Exists"}], [TAINTED]),
        (["gpu:NoSchedule"], [{"key": "gpu"}], []),  # both values empty
        (["gpu=yes:NoSchedule"], [{"key": "gpu", "operator": "Likes"}], [TAINTED]),
    ],
)
def test_taint_toleration(taints: list[str], tolerations: Any, expected: list[str]) -> None:
    tainted = node(taints=[taint(each) for each in taints])
    assert reasons(TaintToleration(), pod(tolerations=tolerations), tainted) == expected


# --- NodeAffinity ---------------------------------------------------------------------------------------

LABELS = {"disk": "ssd", "zone": "a", "cores": "16"}


@pytest.mark.parametrize(
    ("selector", "expected"),
    [
        ({}, []),
        ({"disk": "ssd"}, []),
        ({"disk": "ssd", "zone": "a"}, []),
        ({"disk": "hdd"}, [UNWANTED]),
        ({"disk": "ssd", "zone": "b"}, [UNWANTED]),
        ({"absent": ""}, [UNWANTED]),
    ],
)
def test_node_selector(selector: dict[str, str], expected: list[str]) -> None:
    assert reasons(NodeAffinity(), pod(nodeSelector=selector), node(labels=LABELS)) == expected


def term(*expressions: tuple[str, ...]) -> dict[str, Any]:
    found = [{"key": key, "operator": operator, "values": values} for key, operator, *values in expressions]
    return {"matchExpressions": found}


@pytest.mark.parametrize(
    ("terms", "fits"),
    [
        ([term(("disk", "In", "ssd", "nvme"))], True),
        ([term(("disk", "In", "hdd"))], False),
        ([term(("disk", "NotIn", "hdd"))], True),
        ([term(("absent", "NotIn", "x"))], True),  # what isn't there isn't among them
        ([term(("disk", "Exists"))], True),
        ([term(("absent", "Exists"))], False),
        ([term(("absent", "DoesNotExist"))], True),
        ([term(("disk", "DoesNotExist"))], False),
        ([term(("cores", "Gt", "8"))], True),
        ([term(("cores", "Gt", "16"))], False),
        ([term(("cores", "Lt", "17"))], True),
        ([term(("zone", "Gt", "1"))], False),  # no number
        ([term(("absent", "Lt", "1"))], False),
        ([term(("disk", "Resembles", "ssd"))], False),
        ([term(("disk", "In", "ssd"), ("zone", "In", "b"))], False),  # within a term, all
        ([term(("disk", "In", "hdd")), term(("zone", "In", "a"))], True),  # of the terms, one
        ([term()], False),  # an empty term matches nothing
        ([{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]}], True),
        ([{"matchFields": [{"key": "metadata.name", "operator": "NotIn", "values": ["n1"]}]}], False),
    ],
)
def test_required_node_affinity(terms: Any, fits: bool) -> None:
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    asked = reasons(NodeAffinity(), pod(affinity={"nodeAffinity": required}), node("n1", labels=LABELS))
    assert asked == ([] if fits else [UNWANTED])


# --- NodeResourcesFit -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("requests", "used", "expected"),
    [
        ({}, {}, []),
        ({"cpu": "4", "memory": "8Gi"}, {}, []),  # all of it
        ({"cpu": "4001m"}, {}, ["Insufficient cpu"]),
        ({"cpu": "1"}, {"cpu": "3"}, []),
        ({"cpu": "1001m"}, {"cpu": "3"}, ["Insufficient cpu"]),
        ({"memory": "1Gi"}, {"memory": "7Gi"}, []),
        ({"memory": "1Gi"}, {"memory": "7169Mi"}, ["Insufficient memory"]),
        ({"cpu": "9", "memory": "9Gi"}, {}, ["Insufficient cpu", "Insufficient memory"]),
        ({"example.com/gpu": "1"}, {}, ["Insufficient example.com/gpu"]),
        ({"example.com/gpu": "0"}, {}, []),
        ({}, {"cpu": "5"}, []),  # an overfull node takes what asks for nothing
        ({"cpu": "0"}, {"cpu": "5"}, []),
    ],
)
def test_node_resources_fit(requests: dict[str, str], used: dict[str, str], expected: list[str]) -> None:
    assert reasons(NodeResourcesFit(), pod(requests=requests), node(), pod(requests=used)) == expected


@pytest.mark.parametrize(("room", "expected"), [("1", ["Too many pods"]), ("2", [])])
def test_a_node_takes_so_many_pods(room: str, expected: list[str]) -> None:
    assert reasons(NodeResourcesFit(), pod(), node(has={"pods": room}), pod("other")) == expected
