"""NodeDeclaredFeatures: a pod goes only to nodes that declare the kubelet features that it needs."""

from typing import Any

import pytest
from objects import node, pod
from plugin_harness import fitting, reasons

from lib.kube.changes import Change, Kind
from lib.kube.objects import Node
from lib.scheduling.cache import Cache
from lib.scheduling.plugins.node_declared_features import NodeDeclaredFeatures

RESTART, NAMESPACES = "RestartAllContainersOnContainerExits", "UserNamespacesHostNetworkSupport"


def declaring(name: str, *features: str) -> Node:
    made = node(name)
    made.status.declared_features = [*features]
    return made


CLUSTER = Cache([declaring("none"), declaring("r", RESTART), declaring("u", NAMESPACES, "Other")])


def restarting(action: str) -> list[dict[str, Any]]:
    return [{"name": "main", "restartPolicy": "Never", "restartPolicyRules": [{"action": action}]}]


@pytest.mark.parametrize(
    ("spec", "nodes"),
    [
        ({}, "none r u"),
        ({"containers": restarting("Restart")}, "none r u"),
        ({"containers": restarting("RestartAllContainers")}, "r"),
        ({"initContainers": restarting("RestartAllContainers")}, "r"),
        ({"hostNetwork": True}, "none r u"),
        ({"hostUsers": False}, "none r u"),
        ({"hostNetwork": True, "hostUsers": True}, "none r u"),
        ({"hostNetwork": True, "hostUsers": False}, "u"),
        ({"hostNetwork": True, "hostUsers": False, "containers": restarting("RestartAllContainers")}, ""),
    ],
)
def test_a_node_must_declare_what_a_pod_needs(spec: Any, nodes: str) -> None:
    assert fitting(NodeDeclaredFeatures(), pod(**spec), CLUSTER) == nodes


def test_the_reason_is_kube_schedulers() -> None:
    said = reasons(NodeDeclaredFeatures(), pod(hostNetwork=True, hostUsers=False), CLUSTER)
    assert said["r"] == ["node(s) didn't match Pod's required features"]


@pytest.mark.parametrize(
    ("change", "helps"),
    [
        (Change(Kind.ADDED, declaring("r", RESTART)), True),
        (Change(Kind.MODIFIED, declaring("r", RESTART), declaring("r")), True),
        (Change(Kind.MODIFIED, declaring("r", RESTART), declaring("r", RESTART)), False),
        (Change(Kind.DELETED, declaring("r", RESTART), declaring("r", RESTART)), False),
        (Change(Kind.DELETED, pod("web", nodeName="r")), False),
    ],
)
def test_what_could_help(change: Any, helps: bool) -> None:
    assert NodeDeclaredFeatures().queueing_hint(pod(), change) is helps
