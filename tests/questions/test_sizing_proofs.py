"""`size` beside brute force: what it calls proven is so, for random small applications and types of nodes."""

from itertools import product
from random import Random
from typing import Any

import pytest
from all_cases import ALL_CASES

from lib.kube.system import MACHINE
from lib.questions.deciding import Decider
from lib.questions.manifests import Workload
from lib.questions.sizing.node_types import NodeType, node_types
from lib.questions.sizing.search import SizeSearch
from lib.questions.sizing.trying import Trying
from lib.questions.snapshot import Snapshot
from lib.scheduling.plugins.registry import default_profile

Json = dict[str, Any]

HOSTNAME, ZONE = "kubernetes.io/hostname", "topology.kubernetes.io/zone"

MOST = 3
"""So many nodes of each type can be had."""


def _workload(random: Random, name: str) -> Workload:
    labels = {"app": name}
    amounts = {"cpu": f"{random.choice([300, 700, 1000, 1500, 2500])}m", "memory": "1Gi"}
    spec: Json = {"containers": [{"name": "main", "image": "x", "resources": {"requests": amounts}}]}
    key = random.choice([HOSTNAME, ZONE])
    selector = {"topologyKey": key, "labelSelector": {"matchLabels": labels}}
    match random.randrange(5):
        case 0 | 1:
            hard = {**selector, "maxSkew": random.choice([1, 2]), "whenUnsatisfiable": "DoNotSchedule"}
            if random.random() < 0.3:
                hard["minDomains"] = random.choice([2, 3])
            spec["topologySpreadConstraints"] = [hard]
        case 2:
            kind = random.choice(["podAffinity", "podAntiAffinity"])
            spec["affinity"] = {kind: {"requiredDuringSchedulingIgnoredDuringExecution": [selector]}}
    if random.random() < 0.15:
        spec["nodeSelector"] = {"disk": "ssd"}
    kind, replicas = ("DaemonSet", None) if random.random() < 0.1 else ("Deployment", random.randint(1, 5))
    if kind == "DaemonSet":
        spec = {"containers": spec["containers"]}
    template = {"metadata": {"labels": labels}, "spec": spec}
    return Workload(kind, "default", name, template, replicas)


def _types(random: Random, most: int | None) -> list[NodeType]:
    texts = []
    for name in ("one", "two")[: random.choice([1, 2, 2])]:
        text = f"{name}=cpu:{random.choice([1, 2, 4])},memory:{random.choice([4, 8])}Gi"
        text += f",pods:{random.choice([2, 4, 10])},price:{random.choice([1, 2, 3, 5])}"
        text += f",most:{most}" if most else ""
        text += random.choice(["", ",zones:a/b", ",zones:a/b/c"]) + random.choice(["", ",label:disk=ssd"])
        texts.append(text)
    return node_types(texts, 1)


def _trying(types: list[NodeType], workloads: list[Workload]) -> Trying:
    profiles = [default_profile("default-scheduler")]
    return Trying(Snapshot(), types, workloads, lambda snapshot, random: Decider(snapshot, profiles, random))


def check(seed: int) -> str:
    """Size a random application, and try all choices; returns what came of it."""
    random = MACHINE.random(seed)
    workloads = [_workload(random, name) for name in ("a", "b")[: random.choice([1, 2])]]
    types = _types(random, random.choice([MOST, MOST, None]))
    tries = _trying(types, workloads)
    search = SizeSearch(tries, tries.waiting(), lambda _: None)
    found = search.run()
    choices = [*product(range(MOST + 1), repeat=len(types))]
    about = f"{seed=} {types=} {workloads=} {found=}"
    if found.counts is None:
        assert found.missing, about
        assert not (found.is_proven and any(map(tries.fits, choices))), about
        return "impossible" if found.is_proven else "none was found"
    assert tries.fits(found.counts), about
    cheaper = [each for each in choices if search.price(each) < found.price and tries.fits(each)]
    assert not (found.is_proven and cheaper), about
    assert all(found.least <= search.price(each) for each in (*cheaper, found.counts)), about
    return "proven" if found.is_proven else "found"


def test_what_is_called_proven_is_so_for_all_choices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lib.questions.sizing.search.MOST_TRIES", 40)
    results = {check(seed) for seed in range(20 if ALL_CASES else 10)}
    assert results >= {"proven", "impossible"}
