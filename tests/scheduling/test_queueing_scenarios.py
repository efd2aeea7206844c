"""What wakes a rejected pod: each case has a cluster, pods that no node takes, and what happens then.

The cases are kube-scheduler's own: CoreResourceEnqueueTestCases in
test/integration/scheduler/queueing/queue.go. Those about devices, and about workloads whose pods are
scheduled together, are left out.
"""

from collections.abc import Sequence
from random import Random
from typing import Any

import pytest
from objects import node, pod, read
from scheduling.plugins.storage_objects import (
    Json,
    attachment,
    claim,
    csi_node,
    csi_volume,
    storage_class,
    volume,
    with_volumes,
)

from lib.kube.changes import Change, Kind
from lib.kube.objects import Node, Pod
from lib.kube.storage import CSIDriver, CSINode, CSIStorageCapacity, StorageClass, StorageObject
from lib.scheduling.cache import Cache
from lib.scheduling.framework.interface import Profile
from lib.scheduling.handle import Handle
from lib.scheduling.plugins.registry import DEFAULT_PLUGINS, make
from lib.scheduling.pod_life import BackoffSettings
from lib.scheduling.queue import SchedulingQueue
from lib.scheduling.scheduling_cycle import Scheduler

Thing = Node | Pod | StorageObject


Happening = tuple[str, Sequence[Thing | str], str]
"""What happens, in words; a thing that comes, or takes the place of the one with its name, or the name of one
that goes; and the names of the pods that are to be tried again."""


class Situation:
    """A cluster, pods that no node takes, and what may happen then.

    rejected_by: the plugins that reject each waiting pod, as `A+B` for each, or once for all; only these are
    in the profile.
    """

    def __init__(
        self, there: Sequence[Thing], waiting: Sequence[Pod], rejected_by: str, *happenings: Happening
    ) -> None:
        self.there, self.waiting, self.happenings = there, waiting, happenings
        by_pod = [set(plugins.split("+")) for plugins in rejected_by.split()]
        names = [each.metadata.name for each in waiting]
        self.rejected_by = dict(zip(names, by_pod * (len(names) // len(by_pod)), strict=True))

    def profile(self) -> Profile:
        """A profile with the plugins that reject the pods, and with those that each profile has."""
        wanted = {"PrioritySort", "DefaultBinder"}.union(*self.rejected_by.values())
        plugins = [make(name, Handle(), {}) for name in DEFAULT_PLUGINS if name in wanted]
        return Profile("", tuple(plugins), {})  # the pods name no scheduler


# --- nodes and pods ---------------------------------------------------------------------------------------

NOT_READY = [{"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}]
BATCH_ONLY = [{"key": "batch-only", "effect": "NoSchedule"}]
ZONE = "topology.kubernetes.io/zone"


def tolerating(*keys: str) -> list[Json]:
    return [{"key": key, "operator": "Exists", "effect": "NoSchedule"} for key in keys]


def cpu(amount: str, **more: str) -> dict[str, str]:
    return {"cpu": amount, **more}


def having(labels: str, name: str = "web", **spec: Any) -> Pod:
    """A pod with labels, such as `app=db tier=back`."""
    made = pod(name, **spec)
    made.metadata.labels = dict(each.split("=") for each in labels.split())
    return made


def must_have(key: str, value: str) -> Json:
    """Node affinity."""
    term = {"matchExpressions": [{"key": key, "operator": "In", "values": [value]}]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}}


def must_be(name: str) -> Json:
    term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [name]}]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}}


def any_with(label: str) -> Json:
    return {"matchExpressions": [{"key": label, "operator": "Exists"}]}


def _pod_terms(label: str, topology: str) -> Json:
    terms = [{"labelSelector": any_with(label), "topologyKey": topology}]
    return {"requiredDuringSchedulingIgnoredDuringExecution": terms}


def near(label: str, topology: str) -> Json:
    """Affinity to pods with a label."""
    return {"podAffinity": _pod_terms(label, topology)}


def apart(label: str, topology: str) -> Json:
    """Anti-affinity to pods with a label."""
    return {"podAntiAffinity": _pod_terms(label, topology)}


def spread(label: str, topology: str, domains: int = 3) -> list[Json]:
    """A spread constraint of the pods with a label. With fewer domains than it asks for, it counts 0 as the
    fewest pods of a domain."""
    rule = {"maxSkew": 1, "topologyKey": topology, "whenUnsatisfiable": "DoNotSchedule"}
    return [{**rule, "labelSelector": any_with(label), "minDomains": domains}]


def with_port(name: str, port: int, on: str = "") -> Pod:
    container = {"name": "main", "ports": [{"containerPort": 8080, "hostPort": port}]}
    return pod(name, containers=[container], nodeName=on)


NODES_AND_PODS = [
    Situation(
        [node("n1", has=cpu("2"), taints=NOT_READY)],
        [pod("plain", cpu("4")), pod("tolerant", cpu("4"), tolerations=tolerating(NOT_READY[0]["key"]))],
        "TaintToleration NodeResourcesFit",
        (
            "a node that is still tainted grows: only the pod that tolerates the taint is tried",
            [node("n1", has=cpu("4"), taints=NOT_READY)],
            "tolerant",
        ),
    ),
    Situation(
        [node("n1", {"host": "n1"}), having("db=1", "db", affinity=apart("db", "host"), nodeName="n1")],
        [having("db=2", affinity=apart("db", "host"))],
        "InterPodAffinity",
        (
            "a node comes, is not ready, and is ready then: it may be far enough from the others",
            [node("n2", {"host": "n2"}, taints=NOT_READY), node("n2", {"host": "n2"})],
            "web",
        ),
    ),
    Situation(
        [node("n1", {"group": "a"})],
        [pod("b", affinity=must_have("group", "b")), pod("c", affinity=must_have("group", "c"))],
        "NodeAffinity",
        ("a node gets the label that one pod asks for", [node("n1", {"group": "b"})], "b"),
        ("a node comes with the label that one pod asks for", [node("n2", {"group": "b"})], "b"),
    ),
    Situation(
        [node("n1", {"group": "a"}, cpu("2")), node("n2", {"group": "b"})],
        [pod("web", cpu("4"), affinity=must_have("group", "a"))],
        "NodeAffinity+NodeResourcesFit",
        (
            "a node that matched before gets a label: that changes nothing",
            [node("n1", {"group": "a", "disk": "ssd"}, cpu("2"))],
            "",
        ),
    ),
    Situation(
        [node("n1", taints=BATCH_ONLY)],
        [pod("a"), pod("b")],
        "TaintToleration",
        ("one of two pods gets a toleration", [pod("a", tolerations=tolerating("batch-only"))], "a"),
    ),
    Situation(
        [node("n1", taints=NOT_READY)],
        [
            pod("batch", tolerations=tolerating("batch-only")),
            pod("gpu", tolerations=tolerating("gpu")),
            pod("plain"),
        ],
        "TaintToleration",
        ("a node gets another taint, which one pod tolerates", [node("n1", taints=BATCH_ONLY)], "batch"),
        ("a node comes with a taint that one pod tolerates", [node("n2", taints=BATCH_ONLY)], "batch"),
    ),
    Situation(
        [node("n1", has=cpu("2"))],
        [pod("web", cpu("4"))],
        "NodeResourcesFit",
        ("a pod asks for less", [pod("web", cpu("2"))], "web"),
    ),
    Situation(
        [node("n1", has=cpu("2")), pod("old", cpu("2"), nodeName="n1")],
        [pod("web", cpu("2"))],
        "NodeResourcesFit",
        ("a pod leaves a full node", ["old"], "web"),
    ),
    Situation(
        [node("n1", has=cpu("2"))],
        [pod("web", cpu("4")), pod("large", cpu("5"))],
        "NodeResourcesFit",
        ("a node comes that is large enough for one pod", [node("n2", has=cpu("4"))], "web"),
        ("a node grows and is large enough for one pod", [node("n1", has=cpu("4"))], "web"),
    ),
    Situation(
        [node("n1", has=cpu("4", **{"example.com/gpu": "1"}))],
        [pod("web", cpu("5", **{"example.com/gpu": "1"}))],
        "NodeResourcesFit",
        (
            "a node gets memory, and loses the gpu that the pod asks for",
            [node("n1", has=cpu("4", memory="16Gi"))],
            "",
        ),
    ),
    Situation(
        [node("n1")],
        [pod("web", {"example.com/gpu": "1"})],
        "NodeResourcesFit",
        (
            "a node without the gpu that the pod asks for gets memory",
            [node("n1", has={"memory": "16Gi"})],
            "",
        ),
    ),
    Situation(
        [node("n1", has=cpu("4")), node("n2", {"group": "b"}, cpu("2"))],
        [pod("web", cpu("4"), affinity=must_have("group", "b"))],
        "NodeAffinity+NodeResourcesFit",
        ("a node gets more of what the pod doesn't ask for", [node("n1", has=cpu("4", memory="16Gi"))], ""),
        ("a node gets more of what the pod asks for", [node("n1", has=cpu("5"))], "web"),
    ),
    Situation(
        [
            node("n1", has={"pods": "2"}),
            node("n2", {"group": "b"}, {"pods": "1"}),
            pod("old", affinity=must_have("group", "b"), nodeName="n2"),
        ],
        [pod("web", affinity=must_have("group", "b"))],
        "NodeAffinity+NodeResourcesFit",
        ("a node may take more pods", [node("n1", has={"pods": "3"})], "web"),
    ),
    Situation(
        [node("n1", taints=NOT_READY)],
        [pod("web")],
        "TaintToleration",
        ("a pod that doesn't tolerate a taint gets a label", [having("app=web")], ""),
    ),
    Situation(
        [node("n1", has=cpu("2")), node("n2", has=cpu("2"))],
        [pod("web", cpu("4"), affinity=must_be("n1"))],
        "NodeAffinity+NodeResourcesFit",
        ("both plugins are asked: the one that named a node, and the one that rejected it", [], ""),
    ),
    Situation(
        [node("n1", {"host": "n1"}), having("db=1 cache=1", "old", nodeName="n1")],
        [
            having("db=1", "db", affinity=apart("db", "host")),
            having("cache=1", "cache", affinity=apart("cache", "host")),
        ],
        "InterPodAffinity",
        (
            "a pod loses the label that one pod wants to be far from",
            [having("cache=1", "old", nodeName="n1")],
            "db",
        ),
    ),
    Situation(
        [
            node("n1", {"host": "n1"}),
            having("db=1", "old", nodeName="n1"),
            having("c=1", "o2", nodeName="n1"),
        ],
        [having("db=1", "db", affinity=apart("db", "host")), having("c=1", "c", affinity=apart("c", "host"))],
        "InterPodAffinity",
        ("a pod goes that one pod wants to be far from", ["old"], "db"),
    ),
    Situation(
        [
            node("n1", {"host": "n1"}),
            pod("old", affinity=apart("db", "host"), nodeName="n1"),
            pod("o2", affinity=apart("cache", "host"), nodeName="n1"),
        ],
        [having("db=1", "db"), having("cache=1", "cache")],
        "InterPodAffinity",
        ("a pod goes that wants to be far from one pod", ["old"], "db"),
    ),
    Situation(
        [node("n1", {"host": "n1"}), pod("old", nodeName="n1")],
        [pod("to-db", affinity=near("db", "host")), pod("to-cache", affinity=near("cache", "host"))],
        "InterPodAffinity",
        (
            "a pod gets the label that one pod wants to be near to",
            [having("db=1", "old", nodeName="n1")],
            "to-db",
        ),
    ),
    Situation(
        [node("n1", {"host": "n1"})],
        [pod("in-zone", affinity=near("db", "zone")), pod("in-region", affinity=near("db", "region"))],
        "InterPodAffinity",
        (
            "a node comes in a zone: one pod wants to be near to others of a zone",
            [node("n2", {"zone": "a"})],
            "in-zone",
        ),
    ),
    Situation(
        [
            node("n1", {"region": "1"}),
            node("n2", {"region": "2", "group": "b"}),
            having("db=1", "old", nodeName="n1"),
        ],
        [
            having("db=1", "by-host", affinity=near("db", "host")),
            having("db=1", "by-rack", affinity=near("db", "rack")),
            pod("by-region", affinity={**near("db", "region"), **must_have("group", "b")}),
        ],
        "InterPodAffinity InterPodAffinity NodeAffinity+InterPodAffinity",
        (
            "a node gets one domain, and moves to another: pods want to be near to others in them",
            [node("n1", {"region": "2", "host": "n1"})],
            "by-host by-region",
        ),
    ),
    Situation(
        [
            node("n1", {"host": "n1", "room": "1", "rack": "1"}),
            having("db=1", "old", nodeName="n1"),
        ],
        [
            having("db=1", "by-host", affinity=apart("db", "host")),
            having("db=1", "by-room", affinity=apart("db", "room")),
            having("db=1", "by-rack", affinity=apart("db", "rack")),
        ],
        "InterPodAffinity",
        (
            "a node leaves one domain, and moves to another: pods want to be far from others in them",
            [node("n1", {"room": "2", "rack": "1", "region": "1"})],
            "by-host by-room",
        ),
    ),
    Situation(
        [node("n1", {"zone": "a", "host": "n1"}), having("db=1", "old", nodeName="n1")],
        [pod("by-zone", affinity=apart("db", "zone")), pod("by-host", affinity=apart("db", "host"))],
        "InterPodAffinity",
        ("a node comes: pods want to be far from others", [node("n2", {"zone": "a"})], "by-zone by-host"),
    ),
    Situation(
        [node("n1"), with_port("old-80", 80, "n1"), with_port("old-81", 81, "n1")],
        [with_port("new-80", 80), with_port("new-81", 81)],
        "NodePorts",
        ("a pod with the host port of one pod goes", ["old-80"], "new-80"),
    ),
    Situation(
        [node("n1"), with_port("old", 80, "n1")],
        [with_port("new", 80)],
        "NodePorts",
        ("a node comes whose host ports are free", [node("n2")], "new"),
    ),
    Situation(
        [node("n1", unschedulable=True)],
        [pod("web")],
        "NodeUnschedulable",
        ("a node is uncordoned", [node("n1")], "web"),
        ("a node comes that isn't cordoned", [node("n2")], "web"),
        ("a node comes that is cordoned", [node("n2", unschedulable=True)], ""),
    ),
    Situation(
        [node("n1")],
        [pod("web", hostNetwork=True, hostUsers=False)],
        "NodeDeclaredFeatures",
        (
            "a node declares the feature that the pod needs",
            [
                read(
                    Node,
                    {
                        "metadata": {"name": "n1"},
                        "status": {"declaredFeatures": ["UserNamespacesHostNetworkSupport"]},
                    },
                )
            ],
            "web",
        ),
        ("a node without the feature that the pod needs gets a label", [node("n1", {"disk": "ssd"})], ""),
        ("a pod doesn't need the feature any more", [pod("web", hostNetwork=True, hostUsers=True)], "web"),
        (
            "a pod that still needs the feature gets a label",
            [having("app=web", hostNetwork=True, hostUsers=False)],
            "",
        ),
    ),
]

# --- spread -----------------------------------------------------------------------------------------------

DB_AND_CACHE = [
    node("n1", {"host": "n1"}),
    having("db=1", "old-db", nodeName="n1"),
    having("cache=1", "old-cache", nodeName="n1"),
]
SPREAD_BY_HOST = [
    having("db=1", "db", topologySpreadConstraints=spread("db", "host")),
    having("cache=1", "cache", topologySpreadConstraints=spread("cache", "host")),
]
BY_HOST = having("db=1", "by-host", topologySpreadConstraints=spread("db", "host"))
BY_ZONE = having("db=1", "by-zone", topologySpreadConstraints=spread("db", "zone"))
HOST_AND_ZONE = [
    node("n1", {"host": "n1"}),
    node("n2", {"zone": "a"}),
    having("db=1", "db-1", nodeName="n1"),
    having("db=1", "db-2", nodeName="n2"),
]

SPREADING = [
    Situation(
        DB_AND_CACHE,
        SPREAD_BY_HOST,
        "PodTopologySpread",
        (
            "a pod comes to a node, and one pod's constraint counts it",
            [having("db=1", "new-db", nodeName="n1")],
            "db",
        ),
        (
            "a pod loses the label for which one pod's constraint counts it",
            [having("other=1", "old-db", nodeName="n1")],
            "db",
        ),
        ("a pod goes that one pod's constraint counts", ["old-db"], "db"),
    ),
    Situation(
        HOST_AND_ZONE,
        [BY_HOST, BY_ZONE],
        "PodTopologySpread",
        ("a node comes that is in a domain of one pod's constraint", [node("n3", {"host": "n3"})], "by-host"),
        ("a node goes that is in a domain of one pod's constraint", ["n2"], "by-zone"),
    ),
    Situation(
        [
            node("n1", {"host": "a", "region": "a", "service": "a"}),
            node("n2", {"host": "a", "region": "a", "service": "a"}),
            having("db=1", "db-1", nodeName="n1"),
            *(having("db=1", f"db-{i}", nodeName="n2") for i in (2, 3, 4)),
        ],
        [
            having("db=1", f"by-{by}", topologySpreadConstraints=spread("db", by))
            for by in ("host", "zone", "region", "rack", "service")
        ],
        "PodTopologySpread",
        (
            "a node gets and leaves domains, and moves: only constraints with these domains count",
            [node("n2", {"zone": "a", "region": "a", "service": "b"})],
            "by-host by-zone by-service",
        ),
    ),
    Situation(
        [*HOST_AND_ZONE, node("n3", {"zone": "a"}, taints=NOT_READY)],
        [BY_HOST, BY_ZONE],
        "PodTopologySpread",
        (
            "a node that is in a domain of one pod's constraint gets another taint",
            [node("n3", {"zone": "a"}, taints=BATCH_ONLY)],
            "by-zone",
        ),
    ),
]

# --- volumes ----------------------------------------------------------------------------------------------

HERE, ELSEWHERE = {ZONE: "a"}, {ZONE: "b"}
MIGRATED = {"storage.alpha.kubernetes.io/migrated-plugins": "kubernetes.io/aws-ebs"}


def user(name: str, claim_name: str, *volumes: Json, on: str = "") -> Pod:
    """A pod that uses a claim, and volumes that the pod describes."""
    return with_volumes({"persistentVolumeClaim": {"claimName": claim_name}}, *volumes, name=name, on=on)


def reached_from(key: str, value: str) -> Json:
    """The spec of a volume that only nodes with a label reach."""
    required = must_have(key, value)["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    return {"nodeAffinity": {"required": required}}


def in_zones(*zones: str, label: str = "") -> StorageClass:
    """A class whose volumes can be reached from these zones."""
    allowed = [{"matchLabelExpressions": [{"key": ZONE, "values": zones}]}]
    body = {
        "metadata": {"name": "c", "labels": {"label": label}},
        "provisioner": "example.com/p",
        "volumeBindingMode": "WaitForFirstConsumer",
        "allowedTopologies": allowed,
    }
    found: StorageClass = read(StorageClass, body)
    return found


def driver(*, has_capacity: bool) -> CSIDriver:
    body = {"metadata": {"name": "disk.example.com"}, "spec": {"storageCapacity": has_capacity}}
    found: CSIDriver = read(CSIDriver, body)
    return found


def capacity(amount: str) -> CSIStorageCapacity:
    body = {
        "metadata": {"namespace": "default", "name": "room"},
        "storageClassName": "c",
        "capacity": amount,
    }
    found: CSIStorageCapacity = read(CSIStorageCapacity, body)
    return found


def migrating_csi_node(name: str) -> CSINode:
    found: CSINode = read(CSINode, {"metadata": {"name": name, "annotations": MIGRATED}})
    return found


INLINE = {"csi": {"driver": "disk.example.com"}}
EBS_INLINE = {"awsElasticBlockStore": {"volumeID": "v1"}}
GCE_INLINE = {"gcePersistentDisk": {"pdName": "v2"}}
FULL_OF_BOTH = read(
    CSINode,
    {
        "metadata": {"name": "n1"},
        "spec": {
            "drivers": [
                {"name": "ebs.csi.aws.com", "allocatable": {"count": 0}},
                {"name": "pd.csi.storage.gke.io", "allocatable": {"count": 0}},
            ]
        },
    },
)
COMPLETED = claim("data")
COMPLETED.metadata.annotations["pv.kubernetes.io/bind-completed"] = "yes"
ONE_ON_N1 = [node("n1", HERE), volume("v1", HERE), claim("c1", "v1"), user("old", "c1", on="n1")]

VOLUMES = [
    Situation(
        [*ONE_ON_N1, claim("data", "disk")],
        [user("web", "data")],
        "VolumeZone",
        ("VolumeZone: the claim's volume comes", [volume("disk", HERE)], "web"),
        ("VolumeZone: a class comes", [storage_class("c")], "web"),
    ),
    Situation(
        [*ONE_ON_N1, claim("data", "disk"), volume("disk", ELSEWHERE)],
        [user("web", "data")],
        "VolumeZone",
        ("VolumeZone: the claim's volume moves to another zone", [volume("disk", HERE)], "web"),
        (
            "VolumeZone: the claim's volume gets a label that isn't about zones",
            [volume("disk", {**ELSEWHERE, "disk": "ssd"})],
            "",
        ),
    ),
    Situation(
        [*ONE_ON_N1, volume("disk", ELSEWHERE)],
        [user("web", "data"), user("other", "lost")],
        "VolumeZone",
        ("VolumeZone: the claim of one pod comes", [claim("data", "disk")], "web"),
    ),
    Situation(
        [*ONE_ON_N1, volume("disk", ELSEWHERE), COMPLETED],
        [user("web", "data"), user("other", "lost")],
        "VolumeZone",
        ("VolumeZone: the claim of one pod gets a volume", [claim("data", "disk")], "web"),
    ),
    Situation(
        [node("n1"), volume("disk")],
        [user("web", "data"), user("other", "lost")],
        "VolumeRestrictions",
        (
            "VolumeRestrictions: the claim of one pod comes",
            [claim("data", "disk", accessModes=["ReadWriteOncePod"])],
            "web",
        ),
    ),
    Situation(
        [
            node("n1"),
            volume("disk"),
            claim("data", "disk", accessModes=["ReadWriteOncePod"]),
            user("old", "data", on="n1"),
        ],
        [user("web", "data"), user("other", "lost")],
        "VolumeRestrictions",
        ("VolumeRestrictions: the pod goes that alone may use the claim", ["old"], "web"),
    ),
    Situation(
        [node("n1", ELSEWHERE), volume("disk", **reached_from(ZONE, "a")), claim("data", "disk")],
        [user("web", "data")],
        "VolumeBinding",
        ("VolumeBinding: a node comes that reaches the volume", [node("n2", HERE)], "web"),
    ),
    Situation(
        [node("n1", {"rack": "1"}), volume("disk", **reached_from("rack", "2")), claim("data", "disk")],
        [user("web", "data")],
        "VolumeBinding",
        (
            "VolumeBinding: a node gets the label with which it reaches the volume",
            [node("n1", {"rack": "2"})],
            "web",
        ),
        (
            "VolumeBinding: the volume is made again, where the node reaches it",
            ["disk", volume("disk", **reached_from("rack", "1"))],
            "web",
        ),
    ),
    Situation(
        [node("n1", HERE), volume("disk", **reached_from("zone", "a")), claim("data", "disk")],
        [user("web", "data")],
        "VolumeBinding",
        (
            "VolumeBinding: the volume changes, and the node reaches it now",
            [volume("disk", **reached_from(ZONE, "a"))],
            "web",
        ),
    ),
    Situation(
        [node("n1"), volume("disk"), claim("data"), claim("more")],
        [user("web", "data"), user("other", "more")],
        "VolumeBinding",
        (
            "VolumeBinding: the claim of one pod is made again, with a volume",
            ["data", claim("data", "disk")],
            "web",
        ),
        ("VolumeBinding: the claim of one pod gets a volume", [claim("data", "disk")], "web"),
    ),
    Situation(
        [node("n1"), claim("data", storage_class="c")],
        [user("web", "data")],
        "VolumeBinding",
        ("VolumeBinding: the claim's class comes", [storage_class("c")], "web"),
    ),
    Situation(
        [node("n1", HERE), claim("data", storage_class="c"), in_zones("b")],
        [user("web", "data")],
        "VolumeBinding",
        ("VolumeBinding: the class's volumes can be reached from other zones now", [in_zones("a")], "web"),
        ("VolumeBinding: the class gets a label", [in_zones("b", label="new")], ""),
    ),
    Situation(
        [node("n1"), claim("data")],
        [user("web", "data")],
        "VolumeBinding",
        ("VolumeBinding: a CSINode comes", [csi_node("n1")], "web"),
    ),
    Situation(
        [node("n1"), claim("data", storage_class="c"), csi_node("n1")],
        [user("web", "data")],
        "VolumeBinding",
        ("VolumeBinding: a CSINode says that a plugin is migrated", [migrating_csi_node("n1")], "web"),
    ),
    Situation(
        [node("n1"), claim("data"), driver(has_capacity=True)],
        [user("web", "data", INLINE)],
        "VolumeBinding",
        ("VolumeBinding: a driver's capacity doesn't count any more", [driver(has_capacity=False)], "web"),
    ),
    Situation(
        [node("n1"), claim("data"), driver(has_capacity=False)],
        [user("web", "data", INLINE)],
        "VolumeBinding",
        ("VolumeBinding: a driver's capacity counts from now on", [driver(has_capacity=True)], ""),
    ),
    Situation(
        [node("n1"), claim("data", storage_class="c"), storage_class("c", mode="Immediate")],
        [user("web", "data")],
        "VolumeBinding",
        ("VolumeBinding: a capacity comes", [capacity("10")], "web"),
    ),
    Situation(
        [node("n1"), claim("data", storage_class="c"), storage_class("c", mode="Immediate"), capacity("10")],
        [user("web", "data")],
        "VolumeBinding",
        ("VolumeBinding: a capacity grows", [capacity("20")], "web"),
        ("VolumeBinding: a capacity shrinks", [capacity("5")], ""),
    ),
    Situation(
        [node("n1"), csi_volume("disk"), claim("data", "disk"), csi_node("n1", example=0)],
        [user("web", "data")],
        "NodeVolumeLimits",
        ("NodeVolumeLimits: a CSINode comes", [csi_node("n2")], "web"),
    ),
    Situation(
        [
            node("n1"),
            *(csi_volume("disk"), claim("data", "disk"), csi_volume("d2"), claim("c2", "d2")),
            csi_node("n1", example=1),
            user("old", "c2", on="n1"),
        ],
        [user("web", "data")],
        "NodeVolumeLimits",
        ("NodeVolumeLimits: a pod with another volume goes", ["old"], "web"),
    ),
    Situation(
        [
            node("n1"),
            *(csi_volume("disk"), csi_volume("d2"), claim("c2", "d2")),
            csi_node("n1", example=1),
            user("old", "c2", on="n1"),
        ],
        [user("web", "data")],
        "NodeVolumeLimits",
        ("NodeVolumeLimits: the pod's claim comes", [claim("data", "disk")], "web"),
    ),
    Situation(
        [
            node("n1"),
            *(csi_volume("disk"), claim("data", "disk"), csi_node("n1", example=0)),
            attachment("n1", "disk", "other.example.com"),
        ],
        [user("web", "data")],
        "NodeVolumeLimits",
        (
            "NodeVolumeLimits: a volume is detached, whatever its driver: the pod has a claim",
            ["disk-n1"],
            "web",
        ),
    ),
    Situation(
        [
            node("n1"),
            *(csi_volume("v1", "ebs.csi.aws.com"), csi_volume("v2", "pd.csi.storage.gke.io"), FULL_OF_BOTH),
            attachment("n1", "v1", "ebs.csi.aws.com"),
            attachment("n1", "v2", "pd.csi.storage.gke.io"),
        ],
        [with_volumes(EBS_INLINE, name="ebs"), with_volumes(GCE_INLINE, name="gce")],
        "NodeVolumeLimits",
        (
            "NodeVolumeLimits: a volume is detached whose driver is the one of a pod's own volume",
            ["v1-n1"],
            "ebs",
        ),
    ),
]


# --- the test ---------------------------------------------------------------------------------------------


class Cluster:
    """A cache and a queue to which each change is applied, as the loop does it."""

    def __init__(self, profile: Profile) -> None:
        self.cache = Cache()
        self.queue = SchedulingQueue(
            {profile.scheduler_name: profile}, BackoffSettings(0, 0), lives=self.cache.lives
        )
        self._scheduler = Scheduler(profile, Random(1))
        self._known: dict[object, Thing] = {}

    def apply(self, changed: Thing | str, now: float) -> None:
        """A thing comes, or takes the place of the one with its name; the one that is named goes."""
        if isinstance(changed, str):
            (key,) = [key for key in self._known if key[1] == changed]
            gone = self._known.pop(key)
            change: Any = Change(Kind.DELETED, gone, gone)
        else:
            key = type(changed), changed.metadata.name
            before = self._known.get(key)
            self._known[key] = changed
            change = Change(Kind.MODIFIED if before else Kind.ADDED, changed, before)
        self.cache.apply(change)
        self.queue.apply(change, now)

    def ready(self, now: float) -> list[str]:
        return [each.metadata.name for each in self.queue.ready(now)]

    def try_all(self, now: float) -> dict[str, set[str]]:
        """Try each pod that is ready. Returns the plugins that rejected it, by its name."""
        plugins = {}
        for each in self.queue.ready(now):
            decision = self._scheduler.schedule_one(each, self.cache)
            plugins[each.metadata.name] = decision.rejected_by
            self.queue.requeue(each.metadata.uid, decision.rejected_by, decision.message, now)
        return plugins


CASES = [
    pytest.param(each, then, tried, id=what)
    for each in (*NODES_AND_PODS, *SPREADING, *VOLUMES)
    for what, then, tried in each.happenings
]


@pytest.mark.parametrize(("situation", "then", "tried"), CASES)
def test_what_happens_wakes_the_pods_that_it_may_help_and_no_others(
    situation: Situation, then: Sequence[Thing | str], tried: str
) -> None:
    cluster = Cluster(situation.profile())
    for each in (*situation.there, *situation.waiting):
        cluster.apply(each, now=0)
    assert cluster.try_all(now=0) == situation.rejected_by
    assert cluster.ready(now=1) == []
    for changed in then:
        cluster.apply(changed, now=2)
    assert cluster.ready(now=2) == tried.split()
