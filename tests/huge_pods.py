"""Pods as large as the API server takes them, each with one field that is as long as it can be.

A field that a decision reads, and that the API doesn't limit, has an entry here: the worst found for it.
"""

import json
from collections.abc import Callable
from typing import Any

from objects import read

from lib.kube.objects import Pod

Json = dict[str, Any]

LARGEST = 1_500_000
"""Bytes of an object that etcd takes."""

REQUIRED, PREFERRED = (f"{how}DuringSchedulingIgnoredDuringExecution" for how in ("required", "preferred"))
ZONE, HOST = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
APPS = [f"app-{i}" for i in range(50)]


def expression(key: str, operator: str, *values: str) -> Json:
    """One expression of a selector."""
    return {"key": key, "operator": operator, **({"values": [*values]} if values else {})}


def selector(*expressions: Json) -> Json:
    """A label selector."""
    return {"matchExpressions": [*expressions]}


def near(select: Json, key: str = ZONE, **more: Any) -> Json:
    """A pod affinity term."""
    return {"topologyKey": key, "labelSelector": select, **more}


def with_pod_terms(kind: str, terms: list[Json], weight: int = 0) -> Json:
    """A spec with required terms, or with preferred ones of a weight."""
    weighted = [{"weight": weight, "podAffinityTerm": each} for each in terms]
    return {"affinity": {kind: {PREFERRED: weighted} if weight else {REQUIRED: terms}}}


def with_node_terms(terms: list[Json]) -> Json:
    """A spec with required terms of node affinity."""
    return {"affinity": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": terms}}}}


def spread(select: Json | None, key: str = ZONE, how: str = "DoNotSchedule", **more: Any) -> Json:
    """A spread constraint."""
    skew = {"maxSkew": 10_000, "topologyKey": key, "whenUnsatisfiable": how}
    return skew | ({"labelSelector": select} if select is not None else {}) | more


def containers(n: int, **each: Any) -> list[Json]:
    """So many containers."""
    return [{"name": f"c{i}", **each} for i in range(n)]


def asks(name: str, amount: str = "0") -> Json:
    """The requests of a container for one resource."""
    return {"resources": {"requests": {name: amount}}}


def not_in(i: int) -> Json:
    """An expression that most labels match."""
    return expression("app", "NotIn", f"x{i}")


FIELDS: dict[str, Callable[[int], Json]] = {
    "nothing": lambda n: {},
    "ports": lambda n: {
        "containers": [
            {
                "name": "c",
                "ports": [{"containerPort": 1, "hostPort": 1 + i, "hostIP": "10.0.0.1"} for i in range(n)],
            }
        ]
    },
    "ports on all addresses": lambda n: {
        "containers": [
            {"name": "c", "ports": [{"containerPort": 1, "hostPort": 1 + i % 65535} for i in range(n)]}
        ]
    },
    "sidecars with a resource each": lambda n: {
        "initContainers": [
            {"name": f"c{i}", "restartPolicy": "Always", **asks(f"x.io/{i}")} for i in range(n)
        ]
    },
    "sidecars with a resource each, and its amount": lambda n: {
        "initContainers": [
            {"name": f"c{i}", "restartPolicy": "Always", **asks(f"x.io/{i}", "1")} for i in range(n)
        ]
    },
    "init containers after sidecars": lambda n: {
        "initContainers": [
            {"name": f"c{i}", **({"restartPolicy": "Always"} if i < n // 2 else {}), **asks(f"x.io/{i}")}
            for i in range(n)
        ]
    },
    "containers": lambda n: {"containers": containers(n)},
    "containers with a resource each": lambda n: {
        "containers": [{"name": f"c{i}", **asks(f"x.io/{i}", "1")} for i in range(n)]
    },
    "one image often": lambda n: {"containers": containers(n, image="image-1:v1")},
    "images": lambda n: {"containers": [{"name": f"c{i}", "image": f"i{i}"} for i in range(n)]},
    "restart rules": lambda n: {
        "containers": [{"name": "c", "restartPolicyRules": [{"action": "Restart"}] * n}]
    },
    "node selector": lambda n: {"nodeSelector": {f"k{i}": "v" for i in range(n)}},
    "tolerations": lambda n: {
        "tolerations": [{"key": f"k{i}", "operator": "Exists", "effect": "NoSchedule"} for i in range(n)]
    },
    "tolerations of one key": lambda n: {
        "tolerations": [{"key": "only", "value": f"v{i}"} for i in range(n)]
    },
    "tolerations of all effects": lambda n: {"tolerations": [{"value": f"v{i}"} for i in range(n)]},
    "terms of nodes by name": lambda n: with_node_terms(
        [{"matchFields": [expression("metadata.name", "In", f"n{i}")]} for i in range(n)]
    ),
    "terms of nodes by host name": lambda n: with_node_terms(
        [{"matchExpressions": [expression(HOST, "In", f"n{i}")]} for i in range(n)]
    ),
    "terms of nodes that need a label": lambda n: with_node_terms(
        [{"matchExpressions": [expression(f"k{i}", "Exists")]} for i in range(n)]
    ),
    "terms of nodes that nearly match": lambda n: with_node_terms(
        [
            {"matchExpressions": [expression(ZONE, "NotIn", f"x{i}"), expression(ZONE, "Lt", f"{i}")]}
            for i in range(n)
        ]
    ),
    "expressions of a node term": lambda n: with_node_terms(
        [{"matchExpressions": [expression(ZONE, "NotIn", f"x{i}") for i in range(n)]}]
    ),
    "values of a node expression": lambda n: with_node_terms(
        [{"matchExpressions": [expression(HOST, "NotIn", *(f"x{i}" for i in range(n)))]}]
    ),
    "numbers of a node term": lambda n: with_node_terms(
        [{"matchExpressions": [expression(f"k{i}", "Gt", "1") for i in range(n)]}]
    ),
    "preferred nodes": lambda n: {
        "affinity": {
            "nodeAffinity": {
                PREFERRED: [
                    {"weight": 1, "preference": selector(expression(ZONE, "NotIn", f"x{i}"))}
                    for i in range(n)
                ]
            }
        }
    },
    "preferred hosts": lambda n: {
        "affinity": {
            "nodeAffinity": {
                PREFERRED: [
                    {"weight": 1, "preference": selector(expression(HOST, "In", f"n{i}"))} for i in range(n)
                ]
            }
        }
    },
    "expressions of a constraint": lambda n: {
        "topologySpreadConstraints": [spread(selector(*(not_in(i) for i in range(n))))]
    },
    "keys of a constraint": lambda n: {
        "topologySpreadConstraints": [
            spread(selector(*(expression(f"k{i}", "DoesNotExist") for i in range(n))))
        ]
    },
    "values of a constraint": lambda n: {
        "topologySpreadConstraints": [
            spread(selector(expression("app", "NotIn", *(f"x{i}" for i in range(n)))))
        ]
    },
    "labels of a soft constraint": lambda n: {
        "topologySpreadConstraints": [
            spread({"matchLabels": {f"k{i}": "v" for i in range(n)}}, how="ScheduleAnyway")
        ]
    },
    "constraints": lambda n: {
        "topologySpreadConstraints": [spread(selector(not_in(i)), key=f"k{i}") for i in range(n)]
    },
    "soft constraints": lambda n: {
        "topologySpreadConstraints": [
            spread(selector(not_in(i)), key=f"k{i}", how="ScheduleAnyway") for i in range(n)
        ]
    },
    "label keys of a constraint": lambda n: {
        "topologySpreadConstraints": [
            spread(selector(expression("app", "Exists")), matchLabelKeys=[f"k{i}" for i in range(n)])
        ]
    },
    "far from pods": lambda n: with_pod_terms(
        "podAntiAffinity", [near(selector(expression("app", "In", f"x{i}"))) for i in range(n)]
    ),
    "far from most pods": lambda n: with_pod_terms(
        "podAntiAffinity",
        [near(selector(not_in(i), expression("tier", "Exists")), key="other") for i in range(n)],
    ),
    "far, by topology keys": lambda n: with_pod_terms(
        "podAntiAffinity", [near(selector(expression("app", "Exists")), key=f"k{i}") for i in range(n)]
    ),
    "far, by namespaces": lambda n: with_pod_terms(
        "podAntiAffinity", [near(selector(not_in(0)), namespaces=[f"ns{i}" for i in range(n)])]
    ),
    "far, by namespace selectors": lambda n: with_pod_terms(
        "podAntiAffinity",
        [near(selector(expression("no", "Exists"), not_in(i)), namespaceSelector={}) for i in range(n)],
    ),
    "far, by expressions": lambda n: with_pod_terms(
        "podAntiAffinity",
        [
            near(
                selector(expression("app", "In", "none"), *(not_in(i) for i in range(n))),
                namespaceSelector={},
            )
        ],
    ),
    "far from everyone else": lambda n: with_pod_terms(
        "podAntiAffinity", [near(selector(not_in(i)), key="other", namespaceSelector={}) for i in range(n)]
    ),
    "near pods": lambda n: with_pod_terms("podAffinity", [near(selector(not_in(i))) for i in range(n)]),
    "near no pods": lambda n: with_pod_terms(
        "podAffinity", [near(selector(expression("app", "In", f"x{i}"))) for i in range(n)]
    ),
    "rather near": lambda n: with_pod_terms("podAffinity", [near(selector(not_in(i))) for i in range(n)], 1),
    "rather near, everywhere": lambda n: with_pod_terms(
        "podAffinity", [near(selector(not_in(i)), key=HOST, namespaceSelector={}) for i in range(n)], 1
    ),
    "rather far": lambda n: with_pod_terms(
        "podAntiAffinity", [near(selector(not_in(i)), key=HOST) for i in range(n)], 1
    ),
    "label keys of a term": lambda n: with_pod_terms(
        "podAntiAffinity",
        [near(selector(expression("app", "Exists")), matchLabelKeys=[f"k{i}" for i in range(n)])],
    ),
    "claims": lambda n: {
        "volumes": [{"name": f"v{i}", "persistentVolumeClaim": {"claimName": "data"}} for i in range(n)]
    },
    "delayed claims": lambda n: {
        "volumes": [{"name": f"v{i}", "persistentVolumeClaim": {"claimName": "later"}} for i in range(n)]
    },
    "claims of its own": lambda n: {"volumes": [{"name": f"v{i}", "ephemeral": {}} for i in range(n)]},
    "disks": lambda n: {
        "volumes": [{"name": f"v{i}", "gcePersistentDisk": {"pdName": f"d{i}"}} for i in range(n)]
    },
    "one disk often": lambda n: {
        "volumes": [
            {"name": f"v{i}", "gcePersistentDisk": {"pdName": "d", "readOnly": True}} for i in range(n)
        ]
    },
    "ceph disks": lambda n: {
        "volumes": [
            {"name": f"v{i}", "rbd": {"monitors": [f"m{i}"], "pool": "p", "image": "i"}} for i in range(n)
        ]
    },
    "monitors of a disk": lambda n: {
        "volumes": [{"name": "v", "rbd": {"monitors": [f"m{i}" for i in range(n)], "image": "i"}}]
    },
    "empty volumes": lambda n: {"volumes": [{"name": f"v{i}"} for i in range(n)]},
    "gates": lambda n: {"schedulingGates": [{"name": f"g{i}"} for i in range(n)]},
    "devices": lambda n: {"resourceClaims": [{"name": f"c{i}"} for i in range(n)]},
}
"""By what is large, the spec of a pod with n of it."""

METADATA: dict[str, Callable[[int], Json]] = {
    "labels": lambda n: {"labels": {f"k{i}": "v" for i in range(n)}},
    "owners": lambda n: {"ownerReferences": [{"kind": "K", "name": f"o{i}", "uid": "u"} for i in range(n)]},
    "annotations": lambda n: {"annotations": {f"k{i}": "v" for i in range(n)}},
}
"""The same of metadata."""

STATUS: dict[str, Callable[[int], Json]] = {
    "container statuses": lambda n: {
        "containerStatuses": [{"name": f"c{i}", **asks(f"x.io/{i}")} for i in range(n)]
    },
    "conditions": lambda n: {"conditions": [{"type": f"t{i}", "status": "True"} for i in range(n)]},
}
"""The same of the status."""

ALL = [*FIELDS, *METADATA, *STATUS]


def pod_with(what: str, n: int, name: str = "huge", **spec: Any) -> Json:
    """A pod, as the API writes it, that has n of something."""
    metadata = {"namespace": "default", "name": name, "uid": name, "labels": {"app": "app-0", "tier": "x"}}
    body: Json = {"containers": [{"name": "c"}]}
    body |= FIELDS[what](n) if what in FIELDS else {}
    if what in METADATA:
        more = METADATA[what](n)
        metadata |= more | ({"labels": metadata["labels"] | more["labels"]} if "labels" in more else {})
    if "label keys" in what:
        metadata["labels"] |= {f"k{i}": "v" for i in range(n)}
    status = STATUS[what](n) if what in STATUS else {}
    if what == "container statuses":
        body["containers"] = containers(n)
    return {"metadata": metadata, "spec": body | spec, "status": status}


def count_in(what: str, size: int = LARGEST) -> int:
    """How many of something fit into a pod of this size."""
    few, more = (len(json.dumps(pod_with(what, n), separators=(",", ":"))) for n in (1000, 2000))
    return 1 if few == more else max(1, int((size - few) / ((more - few) / 1000 * 1.04)) + 1000)


def huge(what: str, size: int = LARGEST, name: str = "huge", **spec: Any) -> Pod:
    """A pod of this size that has as much of something as it can have."""
    found: Pod = read(Pod, pod_with(what, count_in(what, size), name, **spec))
    return found
