"""What-if changes of a cluster: which nodes and pods there are then."""

from typing import Any

import pytest
from questions_harness import HOSTNAME, ZONE, a_node, a_pod, snapshot_of

from lib.kube.objects import Node, Pod
from lib.questions.errors import CommandLineError
from lib.questions.snapshot import Snapshot
from lib.questions.what_if import change_cluster, shapes

NOTHING: dict[str, Any] = {"add": 0, "like": "", "remove": (), "labels": (), "taints": ()}

DEDICATED = {"key": "dedicated", "value": "db", "effect": "NoSchedule"}
NOT_READY = {"key": "node.kubernetes.io/not-ready", "effect": "NoExecute"}


def changed(snapshot: Snapshot, **options: Any) -> dict[str, Node]:
    """The nodes by name, after these changes."""
    change_cluster(snapshot, **{**NOTHING, **options})
    return {node.metadata.name: node for node in snapshot.of(Node)}


@pytest.mark.parametrize(
    ("label", "labels"),
    [
        ("n1:disk=ssd", {"disk": "ssd"}),
        ("n1:disk=", {"disk": ""}),
        ("n1:disk=a=b", {"disk": "a=b"}),
        ("n*:tier-", {}),
        ("n1:nowhere-", {"tier": "gold"}),
    ],
)
def test_a_label_is_set_or_taken_away(label: str, labels: dict[str, str]) -> None:
    snapshot = snapshot_of(a_node("n1", labels={"tier": "gold"}), a_node("other", labels={"tier": "gold"}))
    nodes = changed(snapshot, labels=[label])
    expected = {HOSTNAME: "n1", ZONE: "a", **({} if "tier" in label else {"tier": "gold"}), **labels}
    assert nodes["n1"].metadata.labels == expected
    assert nodes["other"].metadata.labels["tier"] == "gold"


@pytest.mark.parametrize("label", ["n1:=x", "n1:disk", "n1:", "n1"])
def test_a_label_that_is_none_is_named(label: str) -> None:
    with pytest.raises(CommandLineError, match=f"--label {label}: write "):
        changed(snapshot_of(a_node("n1")), labels=[label])


@pytest.mark.parametrize(
    ("taint", "taints"),
    [
        ("n1:dedicated-", {("other", "", "NoExecute")}),
        ("n1:dedicated:NoExecute-", {("dedicated", "db", "NoSchedule"), ("other", "", "NoExecute")}),
        ("n1:dedicated:NoSchedule-", {("other", "", "NoExecute")}),
        ("n1:dedicated=db:NoSchedule-", {("other", "", "NoExecute")}),
        ("n1:dedicated=web:NoSchedule", {("dedicated", "web", "NoSchedule"), ("other", "", "NoExecute")}),
        (
            "n1:gpu:NoExecute",
            {("dedicated", "db", "NoSchedule"), ("other", "", "NoExecute"), ("gpu", "", "NoExecute")},
        ),
    ],
)
def test_a_taint_is_set_or_taken_away(taint: str, taints: set[tuple[str, str, str]]) -> None:
    before = [DEDICATED, {"key": "other", "effect": "NoExecute"}]
    node = changed(snapshot_of(a_node("n1", taints=before)), taints=[taint])["n1"]
    assert {(each.key, each.value, each.effect) for each in node.spec.taints} == taints


def test_a_new_node_is_ready_and_has_the_pods_of_daemon_sets() -> None:
    owner = {"ownerReferences": [{"kind": "DaemonSet", "name": "agent", "uid": "d", "controller": True}]}
    like = a_node("n1", labels={"tier": "gold"}, unschedulable=True, taints=[DEDICATED, NOT_READY])
    pods = a_pod("agent", on="n1", metadata=owner), a_pod("web", on="n1")
    snapshot = snapshot_of(like, a_node("n1-copy-1"), *pods)
    nodes = changed(snapshot, add=2, like="n1")
    new = [node for name, node in nodes.items() if name not in ("n1", "n1-copy-1")]
    assert [node.metadata.name for node in new] == ["n1-copy-2", "n1-copy-3"]
    for node in new:
        assert node.metadata.labels == {HOSTNAME: node.metadata.name, ZONE: "a", "tier": "gold"}
        assert ([taint.key for taint in node.spec.taints], node.spec.unschedulable) == (["dedicated"], False)
        there = [pod.metadata.name for pod in snapshot.of(Pod) if pod.spec.node_name == node.metadata.name]
        assert there == [f"agent-on-{node.metadata.name}"]


def test_the_pods_of_a_removed_node_are_gone_too() -> None:
    snapshot = snapshot_of(a_node("n1"), a_node("n2"), a_pod("web", on="n1"), a_pod("db", on="n2"))
    assert [*changed(snapshot, remove=["n1"])] == ["n2"]
    assert [pod.metadata.name for pod in snapshot.of(Pod)] == ["db"]
    assert snapshot.notes == ["without n1 its 1 pod is gone, too (see drain for where they go)"]


def test_nodes_of_a_shape_differ_in_their_names_alone() -> None:
    nodes = [
        a_node("n1"),
        a_node("n2", cpu="8"),
        a_node("n3"),
        a_node("n4", zone="b"),
        a_node("n5", taints=[NOT_READY]),
    ]
    assert [node.metadata.name for node in shapes(nodes)] == ["n1", "n2", "n4", "n5"]
    assert [node.metadata.name for node in shapes([*nodes[1:3], nodes[0]])] == ["n3", "n2"]
