"""Random asks: pods of some of Kubernetes' unit tests in the clusters of others, changed here and there."""

import gzip
import json
from collections.abc import Callable, Iterable, Iterator
from copy import deepcopy
from pathlib import Path
from random import Random
from typing import Any

from lib.scheduling.plugins.registry import DEFAULT_PLUGINS

from .asked import KINDS
from .kube_scheduler import Json

RECORDED = Path(__file__).parents[2] / "tests" / "data" / "kube-scheduler-plugins-1.36.jsonl.gz"

VERSION = "kubescheduler.config.k8s.io/v1"

WITH_ARGS = frozenset(
    {
        "DefaultPreemption",
        "DynamicResources",
        "InterPodAffinity",
        "NodeAffinity",
        "NodeResourcesBalancedAllocation",
        "NodeResourcesFit",
        "PodTopologySpread",
        "VolumeBinding",
    }
)

PROFILE = [
    each for each in DEFAULT_PLUGINS if each not in ("SchedulingGates", "PrioritySort", "DefaultBinder")
]

PLUGINS = [each for each in PROFILE if each != "DefaultPreemption"]

PARTS = (
    "affinity",
    "containers",
    "initContainers",
    "nodeSelector",
    "overhead",
    "resourceClaims",
    "resources",
    "tolerations",
    "topologySpreadConstraints",
    "volumes",
)
"""What a pod may get of another."""

MOST = 12
"""Nodes of a cluster, and pods of a node."""

SMALL = {"cpu": "1", "memory": "1Gi"}

EARLIER = "2026-01-01T00:00:00Z"


def recorded() -> list[Json]:
    """What was recorded: lines with an `ask` and its `answer`."""
    return [json.loads(line) for line in gzip.open(RECORDED)]


class Pool:
    """Pods, clusters, arguments and changes to put together: of recorded asks to these plugins alone."""

    def __init__(self, plugins: Iterable[str]) -> None:
        wanted = {*plugins}
        self.pods: list[Json] = []
        self.clusters: list[tuple[list[Json], Json]] = []
        self.args: dict[str, list[Json]] = {}
        self.changes: list[Json] = []
        for line in recorded():
            ask = line["ask"]
            if len(ask["plugins"]) > 1 or (chosen := ask["plugins"][0])["name"] not in wanted:
                continue
            self.pods.append(ask["pod"])
            self.pods += [pod for node in ask["nodes"] for pod in node["pods"]]
            if ask["nodes"]:
                self.clusters.append((ask["nodes"], ask["objects"]))
            if (args := chosen.get("args")) and args not in self.args.get(chosen["name"], ()):
                self.args.setdefault(chosen["name"], []).append(args)
            self.changes += [each for each in ask.get("changes", ()) if each["kind"] in KINDS]


class Cases:
    """Makes asks. They depend on the pool and the seed alone."""

    def __init__(self, plugins: Iterable[str], seed: int) -> None:
        self._pool, self._random = Pool(plugins), Random(seed)
        self._number = 0

    def of_plugin(self, name: str) -> Iterator[Json]:
        """Asks to one plugin: which nodes fit, and their scores."""
        while True:
            yield self._ask([self._chosen(name, self._pool.args.get(name, []))], ["filter", "score"])

    def of_profile(self) -> Iterator[Json]:
        """Asks to the default profile, some of them with full nodes, nominated pods and budgets."""
        random = self._random
        while True:
            ask = self._ask([self._chosen(name, []) for name in PROFILE], ["filter", "score", "postFilter"])
            if random.random() < 0.5:
                ask["pod"]["spec"]["priority"] = 5000
                for each in ask["nodes"]:
                    if random.random() < 0.5:
                        room = {**SMALL, "pods": str(max(1, len(each["pods"])))}
                        each["node"].setdefault("status", {})["allocatable"] = room
            if random.random() < 0.35:
                ask["nominated"] = [self._nominated(ask) for _ in range(random.randrange(1, 4))]
            if random.random() < 0.2:
                labels = random.choice(self._pool.pods)["metadata"].get("labels") or {"a": "b"}
                ask["objects"]["PodDisruptionBudget"] = [_budget(labels, random.randrange(2))]
            yield ask

    def of_hints(self, name: str) -> Iterator[Json]:
        """Asks to one plugin which changes could help a pod."""
        while True:
            ask = self._ask([self._chosen(name, self._pool.args.get(name, []))], ["hint"])
            ask["changes"] = [each for _ in range(6) if (each := self._change(ask))]
            yield ask

    # --- parts ----------------------------------------------------------------------------------------------

    def _chosen(self, name: str, known: list[Json]) -> Json:
        if name not in WITH_ARGS:
            return {"name": name}
        kind = {"apiVersion": VERSION, "kind": f"{name}Args"}
        return {"name": name, "args": {**(self._random.choice([{}, *known])), **kind}}

    def _ask(self, plugins: list[Json], want: list[str]) -> Json:
        random, pool = self._random, self._pool
        self._number += 1
        parts, objects = random.choice(pool.clusters)
        if random.random() < 0.4:
            more, others = random.choice(pool.clusters)
            parts, objects = [*parts, *more], _together(objects, others)
        return {
            "id": str(self._number),
            "plugins": plugins,
            "pod": self._target(),
            "nodes": self._nodes(parts[:MOST]),
            "objects": deepcopy(objects),
            "want": want,
        }

    def _target(self) -> Json:
        random, pods = self._random, self._pool.pods
        pod = named(random.choice(pods), "target")
        if random.random() < 0.5:
            other = deepcopy(random.choice(pods))
            pod["spec"] |= {
                name: each for name, each in other["spec"].items() if name in PARTS and random.random() < 0.5
            }
            if random.random() < 0.5:
                pod["metadata"].setdefault("labels", {}).update(other["metadata"].get("labels") or {})
        if random.random() < 0.3:
            pod["spec"]["priority"] = random.choice([0, 10, 1000])
        return pod

    def _nodes(self, parts: list[Json]) -> list[Json]:
        random, found = self._random, {}
        all_labels = [each["node"]["metadata"].get("labels") or {} for each in parts]
        for part in parts:
            node: Json = deepcopy(part["node"])
            spec, name = node.setdefault("spec", {}), node["metadata"]["name"]
            while name in found:
                name += "x"
            node["metadata"]["name"] = name
            labels = node["metadata"].setdefault("labels", {})
            if random.random() < 0.15:
                labels |= random.choice(all_labels)
            if "kubernetes.io/hostname" in labels:
                labels["kubernetes.io/hostname"] = name
            if random.random() < 0.1:
                effect = random.choice(["NoSchedule", "NoExecute", "PreferNoSchedule"])
                spec.setdefault("taints", []).append({"key": "k", "value": "v", "effect": effect})
            if random.random() < 0.05:
                spec["unschedulable"] = True
            pods = [*part["pods"]]
            if random.random() < 0.5:
                pods += [random.choice(self._pool.pods) for _ in range(random.randrange(3))]
            found[name] = {
                "node": node,
                "pods": [self._running(pod, i, name) for i, pod in enumerate(pods[:MOST])],
            }
        return [*found.values()]

    def _running(self, pod: Json, number: int, node: str) -> Json:
        random = self._random
        running = named(pod, f"{node}-{number}", node)
        if random.random() < 0.05:
            running["metadata"]["deletionTimestamp"] = EARLIER
        if random.random() < 0.2:
            running["spec"]["priority"] = random.choice([-10, 0, 5, 100])
        # Pods of equal priority are preempted by their start: no two are equal, so that Go's order is clear.
        start = f"2026-01-01T{len(node) % 24:02}:{number:02}:{random.randrange(60):02}Z"
        running.setdefault("status", {})["startTime"] = start
        return running

    def _nominated(self, ask: Json) -> Json:
        random = self._random
        pod = named(random.choice(self._pool.pods), f"nominated-{random.randrange(10**6)}")
        pod["spec"]["priority"] = random.choice([0, 10, 5000, 6000])
        node = random.choice(ask["nodes"])["node"]["metadata"]["name"]
        pod.setdefault("status", {})["nominatedNodeName"] = node
        return pod

    def _change(self, ask: Json) -> Json | None:
        random = self._random
        nodes = [each["node"] for each in ask["nodes"]]
        names = [each["metadata"]["name"] for each in nodes] or ["n1"]
        ways: list[Callable[[], Json | None]] = [
            lambda: deepcopy(random.choice(self._pool.changes)) if self._pool.changes else None,
            lambda: self._node_change(nodes) if nodes else None,
            lambda: self._pod_change(random.choice(names)),
            lambda: self._own_change(ask["pod"]),
        ]
        change = random.choices(ways, (4, 3, 2, 1))[0]()
        if change and random.random() < 0.2:
            change["old"], change["new"] = change.get("new"), change.get("old")
        return change

    def _node_change(self, nodes: list[Json]) -> Json:
        random = self._random
        old, new = deepcopy(random.choice(nodes)), deepcopy(random.choice(nodes))
        new["metadata"]["name"] = old["metadata"]["name"]
        return {"kind": "Node", **random.choice([{"new": new}, {"old": old}, {"old": old, "new": new}])}

    def _pod_change(self, node: str) -> Json:
        random, pods = self._random, self._pool.pods
        old, new = named(random.choice(pods), "other", node), named(random.choice(pods), "other", node)
        new["spec"] = {
            **old["spec"],
            **({"containers": new["spec"]["containers"]} if random.random() < 0.3 else {}),
        }
        return {"kind": "Pod", **random.choice([{"new": new}, {"old": old}, {"old": old, "new": new}])}

    def _own_change(self, pod: Json) -> Json:
        other, old = self._random.choice(self._pool.pods), deepcopy(pod)
        if self._random.random() < 0.5:
            old["metadata"]["labels"] = other["metadata"].get("labels") or {}
        else:
            old["spec"]["tolerations"] = other["spec"].get("tolerations") or []
        return {"kind": "Pod", "old": old, "new": deepcopy(pod)}


def named(pod: Json, name: str, node: str = "") -> Json:
    """A copy of a pod under this name, on a node or on none."""
    copy: Json = deepcopy(pod)
    copy["metadata"] |= {"name": name, "uid": f"uid-{name}"}
    copy["spec"].pop("nodeName", None)
    if node:
        copy["spec"]["nodeName"] = node
    return copy


def _together(some: Json, others: Json) -> Json:
    """Objects of two clusters: of two with one name, the first."""
    found: Json = {}
    for kind, body in (
        (kind, body) for each in (others, some) for kind, bodies in each.items() for body in bodies
    ):
        names = body["metadata"]
        found.setdefault(kind, {})[names.get("namespace"), names["name"]] = body
    return {kind: [*bodies.values()] for kind, bodies in found.items()}


def _budget(labels: Any, allowed: int) -> Json:
    counts = {"observedGeneration": 0, "currentHealthy": 0, "desiredHealthy": 0, "expectedPods": 0}
    return {
        "metadata": {"name": "budget", "namespace": "default"},
        "spec": {"selector": {"matchLabels": labels}},
        "status": {"disruptionsAllowed": allowed, **counts},
    }
