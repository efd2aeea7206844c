"""The explanation of each of kube-scheduler's reasons for a node: with names, and with values."""

from dataclasses import dataclass, field
from typing import Any

import pytest
from objects import read
from questions_harness import HOSTNAME, ZONE, a_claim, a_node, a_pod, a_volume, ask_why, using

from lib.kube.objects import Object, Pod
from lib.kube.storage import CSINode, PersistentVolumeClaim, StorageClass
from lib.scheduling.text import sentence


def near(app: str, key: str = ZONE) -> list[dict[str, Any]]:
    return [{"topologyKey": key, "labelSelector": {"matchLabels": {"app": app}}}]


def required(kind: str, terms: Any) -> dict[str, Any]:
    return {"affinity": {kind: {"requiredDuringSchedulingIgnoredDuringExecution": terms}}}


def spread(key: str, **more: Any) -> dict[str, Any]:
    return {"topologySpreadConstraints": on_each(key, **more)}


def on_each(key: str, **more: Any) -> list[dict[str, Any]]:
    constraint = {
        "topologyKey": key,
        "maxSkew": 1,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "web"}},
        **more,
    }
    return [constraint]


PORT = {"main": {"ports": [{"hostPort": 8080, "protocol": "TCP"}]}}
WEB = {"app": "web"}
WAITING_CLASS = {"metadata": {"name": "local"}, "volumeBindingMode": "WaitForFirstConsumer"}
LOCAL = read(StorageClass, {**WAITING_CLASS, "provisioner": "kubernetes.io/no-provisioner"})
ZONED = read(
    StorageClass,
    {
        "metadata": {"name": "zoned"},
        "provisioner": "x.io/p",
        "volumeBindingMode": "WaitForFirstConsumer",
        "allowedTopologies": [{"matchLabelExpressions": [{"key": ZONE, "values": ["b", "c"]}]}],
    },
)
IN_ZONE_B = {
    "required": {
        "nodeSelectorTerms": [{"matchExpressions": [{"key": ZONE, "operator": "In", "values": ["b"]}]}]
    }
}
FULL = read(
    CSINode,
    {"metadata": {"name": "n1"}, "spec": {"drivers": [{"name": "ebs", "allocatable": {"count": 0}}]}},
)


EBS_ZONE = "topology.ebs.csi.aws.com/zone"
MIGRATED = read(
    CSINode,
    {
        "metadata": {
            "name": "n1",
            "annotations": {"storage.alpha.kubernetes.io/migrated-plugins": "kubernetes.io/aws-ebs"},
        }
    },
)


def immediate(provisioner: str) -> StorageClass:
    found: StorageClass = read(StorageClass, {"metadata": {"name": "now"}, "provisioner": provisioner})
    return found


IMAGE = {"monitors": ["m1", "m2"], "image": "img", "pool": "rbd"}


def not_bound_yet(name: str, volume: str) -> PersistentVolumeClaim:
    """A claim that names its volume; no controller has said yet that they are bound."""
    claim = a_claim(name, volume)
    claim.metadata.annotations.clear()
    return claim


@dataclass
class Case:
    """A pod, what else there is besides node n1, and what is said of n1."""

    reason: str
    pod: Pod
    said: list[str]
    objects: list[Object] = field(default_factory=list)
    node: dict[str, Any] = field(default_factory=dict)


CASES = [
    Case(
        "node(s) were unschedulable",
        a_pod("p"),
        ["cordoned (spec.unschedulable)"],
        node={"unschedulable": True},
    ),
    Case(
        "node(s) had untolerated taint(s)",
        a_pod("p", tolerations=[{"key": "disk", "operator": "Exists"}]),
        ["taint gpu=true:NoSchedule is not tolerated", "taint old:NoExecute is not tolerated"],
        node={
            "taints": [
                {"key": "gpu", "value": "true", "effect": "NoSchedule"},
                {"key": "disk", "effect": "NoSchedule"},
                {"key": "old", "effect": "NoExecute"},
                {"key": "meh", "effect": "PreferNoSchedule"},
            ]
        },
    ),
    Case(
        "node(s) didn't match Pod's node affinity/selector",
        a_pod("p", nodeSelector={"disktype": "ssd", ZONE: "b"}),
        [
            "nodeSelector disktype=ssd: the node has no such label",
            f"nodeSelector {ZONE}=b: the node has {ZONE}=a",
        ],
    ),
    Case(
        "node(s) didn't match Pod's node affinity/selector",
        a_pod(
            "p",
            **required(
                "nodeAffinity",
                {
                    "nodeSelectorTerms": [
                        {"matchExpressions": [{"key": ZONE, "operator": "In", "values": ["b", "c"]}]},
                        {"matchExpressions": [{"key": "gpu", "operator": "Exists"}]},
                    ]
                },
            ),
        ),
        [
            f"node affinity {ZONE} In [b, c]: the node has {ZONE}=a",
            "node affinity gpu Exists: the node has no such label",
        ],
    ),
    Case(
        "node(s) didn't match Pod's node affinity/selector",
        a_pod("p", **required("nodeAffinity", {"nodeSelectorTerms": []})),
        ["required node affinity has no terms, and so matches no node"],
    ),
    Case(
        "node(s) didn't match Pod's node affinity/selector",
        a_pod("p", **required("nodeAffinity", {"nodeSelectorTerms": [{}]})),
        ["node affinity (an empty term): an empty term matches no node"],
    ),
    Case(
        "node(s) didn't satisfy plugin(s) [NodeAffinity]",
        a_pod(
            "p",
            **required(
                "nodeAffinity",
                {
                    "nodeSelectorTerms": [
                        {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n9"]}]}
                    ]
                },
            ),
        ),
        ["node affinity metadata.name In [n9]: the node is n1"],
    ),
    Case(
        "node(s) didn't have free ports for the requested pod ports",
        a_pod("p", **PORT),
        ["host port 8080/TCP is taken by default/other"],
        [a_pod("other", on="n1", **PORT)],
    ),
    Case(
        "Insufficient cpu",
        a_pod("p", cpu="2"),
        ["needs cpu 2, 1300m of 4 free: default/db has 1500m"],
        [a_pod("db", cpu="1500m", on="n1"), a_pod("small", cpu="1200m", on="n1")],
    ),
    Case("Insufficient cpu", a_pod("p", cpu="64"), ["needs cpu 64, the node has 4 in all"]),
    Case(
        "Insufficient memory",
        a_pod("p", requests={"memory": "4Gi"}),
        ["needs memory 4Gi, 2.9Gi of 8Gi free: default/db has 5Gi"],
        [a_pod("db", requests={"memory": "5200Mi"}, on="n1")],
    ),
    Case(
        "Insufficient example.com/gpu",
        a_pod("p", requests={"example.com/gpu": "1"}),
        ["needs example.com/gpu 1, the node has none"],
    ),
    Case("Too many pods", a_pod("p"), ["has 10 of 10 pods"], [a_pod(f"o{i}", on="n1") for i in range(10)]),
    Case(
        "node(s) didn't match pod topology spread constraints",
        a_pod("p", labels=WEB, **spread(ZONE)),
        [f"{ZONE}=a has 2, b has the fewest: 1, maxSkew 1"],
        [
            a_node("full", "b", cpu="0", unschedulable=True),
            *(a_pod(f"w{on}{i}", on=on, labels=WEB) for i, on in enumerate(["n1", "n1", "full"])),
        ],
    ),
    Case(  # of two constraints, the one that isn't satisfied
        "node(s) didn't match pod topology spread constraints",
        a_pod("p", labels=WEB, topologySpreadConstraints=[*on_each(ZONE), *on_each(HOSTNAME)]),
        [f"{HOSTNAME}=n1 has 1, full has the fewest: 0, maxSkew 1"],
        [a_node("full", cpu="0", unschedulable=True), a_pod("w", on="n1", labels=WEB)],
    ),
    Case(
        "node(s) didn't match pod topology spread constraints",
        a_pod("p", labels=WEB, **spread(ZONE, minDomains=2)),
        [f"{ZONE}=a has 1, only 1 of minDomains 2 is there, maxSkew 1"],
        [a_pod("w", on="n1", labels=WEB)],
    ),
    Case(
        "node(s) didn't match pod topology spread constraints (missing required label)",
        a_pod("p", labels=WEB, **spread("rack")),
        ["spreading over rack: the node has no such label"],
    ),
    Case(
        "node(s) didn't match pod affinity rules",
        a_pod("p", **required("podAffinity", near("db"))),
        [f"pod affinity: no pod with app=db of default in {ZONE}=a; some are in b"],
        [a_node("full", "b", unschedulable=True), a_pod("db", on="full", labels={"app": "db"})],
    ),
    Case(  # of two terms, the one that isn't satisfied
        "node(s) didn't match pod affinity rules",
        a_pod("p", **required("podAffinity", [*near("db"), *near("db", HOSTNAME)])),
        [f"pod affinity: no pod with app=db of default in {HOSTNAME}=n1; some are in full"],
        [a_node("full", unschedulable=True), a_pod("db", on="full", labels={"app": "db"})],
    ),
    Case(
        "node(s) didn't match pod anti-affinity rules",
        a_pod("p", **required("podAntiAffinity", near("web"))),
        [f"anti-affinity ({ZONE}) with default/w1, default/w2"],
        [a_pod("w1", on="n1", labels=WEB), a_pod("w2", on="n1", labels=WEB)],
    ),
    Case(
        "node(s) didn't satisfy existing pods anti-affinity rules",
        a_pod("p", labels=WEB),
        [f"the anti-affinity ({ZONE}) of default/shy keeps it away"],
        [a_pod("shy", on="n1", **required("podAntiAffinity", near("web")))],
    ),
    Case(
        "node(s) didn't match PersistentVolume's node affinity",
        a_pod("p", **using("data")),
        [f"volume pv of claim default/data needs {ZONE} In [b]: the node has {ZONE}=a"],
        [a_claim("data", "pv"), a_volume("pv", nodeAffinity=IN_ZONE_B)],
    ),
    Case(
        "node(s) didn't find available persistent volumes to bind",
        a_pod("p", **using("data")),
        ["claim default/data (class local, 1Gi) has no volume here, and its class makes none"],
        [a_claim("data", storageClassName="local"), LOCAL],
    ),
    Case(
        "node(s) didn't find available persistent volumes to bind",
        a_pod("p", **using("data")),
        [
            "claim default/data (class local, 1Gi) has no volume here, and its class makes none",
            f"volume pv needs {ZONE} In [b]: the node has {ZONE}=a",
        ],
        [
            a_claim("data", storageClassName="local"),
            a_volume("other", nodeAffinity=IN_ZONE_B, storageClassName="other"),
            a_volume("small", nodeAffinity=IN_ZONE_B, storageClassName="local", capacity={"storage": "1Mi"}),
            a_volume("kept", nodeAffinity=IN_ZONE_B, storageClassName="local", claimRef={"name": "old"}),
            a_volume("anywhere", storageClassName="local"),
            a_volume("pv", nodeAffinity=IN_ZONE_B, storageClassName="local"),
            LOCAL,
        ],
    ),
    Case(
        "pod has unbound immediate PersistentVolumeClaims",
        a_pod("p", **using("data")),
        ["claim default/data (class now, 1Gi) has no volume yet; x.io/p is to make it"],
        [a_claim("data", storageClassName="now"), immediate("x.io/p")],
    ),
    Case(
        "pod has unbound immediate PersistentVolumeClaims",
        a_pod("p", **using("data")),
        ["claim default/data (class now, 1Gi) has no volume, and its class makes none"],
        [a_claim("data", storageClassName="now"), immediate("kubernetes.io/no-provisioner")],
    ),
    Case(
        "node(s) didn't find available persistent volumes to bind",
        a_pod("p", **using("data")),
        [f"class zoned of claim default/data makes volumes only for {ZONE} In [b, c]: the node has {ZONE}=a"],
        [a_claim("data", storageClassName="zoned"), ZONED],
    ),
    Case(
        "pod has unbound immediate PersistentVolumeClaims",
        a_pod("p", **using("data", "other")),
        [
            "claim default/data (no class, 1Gi) has no volume, and without a class none is made",
            "claim default/other has no volume: there is no StorageClass lost to make one",
        ],
        [a_claim("data"), a_claim("other", storageClassName="lost")],
    ),
    Case(
        "pod has unbound immediate PersistentVolumeClaims",
        a_pod("p", **using("later", "data")),
        ["claim default/data (no class, 1Gi) has no volume, and without a class none is made"],
        [a_claim("data"), a_claim("later", storageClassName="local"), LOCAL],
    ),
    Case(
        "pod has unbound immediate PersistentVolumeClaims",
        a_pod("p", **using("data")),
        ["claim default/data names volume pv, and isn't bound to it yet"],
        [not_bound_yet("data", "pv"), a_volume("pv")],
    ),
    Case(
        "node(s) didn't match PersistentVolume's node affinity",
        a_pod("p", **using("data")),
        [f"volume pv of claim default/data needs {EBS_ZONE} In [b]: the node has no such label"],
        [
            *(a_claim("data", "pv"), MIGRATED),
            a_volume("pv", labels={ZONE: "b"}, awsElasticBlockStore={"volumeID": "vol-1"}),
        ],
    ),
    Case(
        "node(s) had no available disk",
        a_pod(
            "p", volumes=[{"name": "data", "rbd": IMAGE}, {"name": "other", "rbd": {**IMAGE, "image": "o"}}]
        ),
        ["disk rbd/rbd/img is in use by default/one, default/two"],
        [
            a_pod("one", on="n1", volumes=[{"name": "data", "rbd": IMAGE}]),
            a_pod("two", on="n1", volumes=[{"name": "data", "rbd": {**IMAGE, "readOnly": True}}]),
            a_pod("far", on="n2", volumes=[{"name": "data", "rbd": IMAGE}]),
            a_node("n2", unschedulable=True),
        ],
    ),
    Case(
        'persistentvolume "gone" not found',
        a_pod("p", **using("data")),
        [],
        [a_claim("data", "gone")],
    ),
    Case(
        "node(s) had no available volume zone",
        a_pod("p", **using("data")),
        [f"volume pv of claim default/data is in {ZONE}=b"],
        [a_claim("data", "pv"), a_volume("pv", labels={ZONE: "b"})],
    ),
    Case(
        "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use "
        "by another pod",
        a_pod("p", **using("data", "shared")),
        ["claim default/data is for one pod alone, and default/owner has it"],
        [
            a_claim("data", "pv", accessModes=["ReadWriteOncePod"]),
            a_claim("shared", "pv2", accessModes=["ReadWriteMany"]),
            *(a_volume("pv"), a_volume("pv2")),
            a_pod("owner", on="n1", **using("data", "shared")),
            a_pod("other", on="n1", metadata={"namespace": "other"}, **using("data")),
        ],
    ),
    Case(
        "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use "
        "by another pod",
        a_pod("p", **using("data")),
        ["claim default/data is for one pod alone, and default/one, default/two have it"],
        [
            a_claim("data", "pv", accessModes=["ReadWriteOncePod"]),
            a_volume("pv"),
            a_pod("one", on="n1", **using("data")),
            a_pod("two", on="n1", **using("data")),
        ],
    ),
    Case(
        "node(s) exceed max volume count",
        a_pod("p", **using("data")),
        ["driver ebs attaches no more than 0 volumes here"],
        [a_claim("data", "pv"), a_volume("pv", csi={"driver": "ebs", "volumeHandle": "v"}), FULL],
    ),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.reason} ({', '.join(case.said)})")
def test_a_node_is_rejected_with_values(case: Case) -> None:
    answer = ask_why(case.pod, [a_node("n1", **case.node), *case.objects])
    rejection = answer.decision.rejected["n1"]
    assert case.reason in rejection.status.reasons
    assert answer.details["n1"] == case.said


def test_room_that_is_kept_for_a_more_important_pod_is_said_to_be() -> None:
    coming = a_pod("boss", cpu="3", priority=10)
    coming.status.nominated_node_name = "n1"
    answer = ask_why(a_pod("p", cpu="4"), [a_node("n1"), coming])
    assert answer.details["n1"] == ["needs cpu 4, 4 free is kept for default/boss"]


def test_a_pod_with_gates_is_said_to_wait_for_them() -> None:
    answer = ask_why(a_pod("p", schedulingGates=[{"name": "example.com/x"}]), [a_node("n1")])
    assert answer.gated == "waiting for scheduling gates: [example.com/x]"
    assert not answer.yes


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("it waits", "it waits."),
        ("it waits.", "it waits."),
        ("who says so?", "who says so?"),
        ("a ...", "a."),
    ],
)
def test_a_sentence_has_one_mark_at_its_end(text: str, said: str) -> None:
    assert sentence(text) == said
