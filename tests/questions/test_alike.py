"""Which pods are asked about together."""

from random import Random
from typing import Any

from objects import node, read
from questions_harness import decider_of, snapshot_of

from lib.kube.objects import Namespace, Pod
from lib.questions.alike import Kinds

ZONE = "topology.kubernetes.io/zone"


def a_pod(name: str, namespace: str = "default", app: str = "a", image: str = "x", **spec: Any) -> Pod:
    """A pod as a controller makes it: the image, and the name of the token's volume, are its own."""
    container = {"name": "main", "image": image, "resources": {"requests": {"cpu": "1"}}}
    metadata = {"namespace": namespace, "name": name, "uid": name, "labels": {"app": app, "of": name}}
    volumes = [{"name": f"kube-api-access-{name}"}]
    body = {"metadata": metadata, "spec": {"containers": [container], "volumes": volumes, **spec}}
    found: Pod = read(Pod, body)
    return found


def far_from(app: str, **namespaces: Any) -> dict[str, Any]:
    """The affinity of a pod that keeps those with this label out of its zone."""
    term = {"labelSelector": {"matchLabels": {"app": app}}, "topologyKey": ZONE, **namespaces}
    return {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}


def spread_over_zones(app: str) -> list[dict[str, Any]]:
    """Constraints by which pods with this label are spread."""
    selector = {"matchLabels": {"app": app}}
    about = {"topologyKey": ZONE, "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"}
    return [{**about, "labelSelector": selector}]


def test_pods_of_a_kind_are_rejected_alike() -> None:
    """In random clusters, `check` rejects the same nodes for pods of a kind. There are few kinds."""
    random, asked, kinds_found = Random(3), 0, 0
    wishes: list[dict[str, Any]] = [{}, {}, {}, {"affinity": far_from("a")}, {"priority": 5}]
    wishes += [{"topologySpreadConstraints": spread_over_zones("b")}, {"nodeSelector": {ZONE: "z1"}}]
    elsewhere = {"namespaceSelector": {"matchLabels": {"is": "other"}}}
    other = read(Namespace, {"metadata": {"name": "other", "labels": {"is": "other"}}})
    keep_off = [{}, {}, {"affinity": far_from("b")}, {"affinity": far_from("c", **elsewhere)}]
    for _ in range(30):

        def some(name: str, of: list[dict[str, Any]], random: Random = random, **more: Any) -> Pod:
            choices = random.choice(["default", "other"]), random.choice("abc"), random.choice("xy")
            return a_pod(name, *choices, **random.choice(of), **more)

        nodes = [node(f"n{i}", {ZONE: f"z{i % 3}"}, {"cpu": str(random.randint(1, 3))}) for i in range(6)]
        there = [some(f"old{i}", keep_off, nodeName=f"n{random.randrange(6)}") for i in range(6)]
        waiting = [some(f"new{i}", wishes) for i in range(20)]
        decider = decider_of(snapshot_of(other, *nodes, *there))
        kinds, rejected = Kinds(decider, there), dict[bytes, Any]()
        for pod in waiting:
            found = dict(decider.rejections(pod))
            assert rejected.setdefault(kinds.kind(pod), found) == found, pod
        asked, kinds_found = asked + len(waiting), kinds_found + len(rejected)
    assert kinds_found < asked * 0.7


def test_labels_count_if_a_pod_keeps_them_off() -> None:
    decider = decider_of(snapshot_of(node()))
    one, other = a_pod("one", app="a", image="x"), a_pod("two", "other", "b", "y")
    assert Kinds(decider, []).kind(one) == Kinds(decider, []).kind(other)
    kinds = Kinds(decider, [a_pod("lonely", affinity=far_from("b", namespaces=["other"]))])
    assert kinds.kind(one) != kinds.kind(other)
    kinds = Kinds(decider, [a_pod("lonely", affinity=far_from("b"))])  # of its own namespace
    assert kinds.kind(one) == kinds.kind(other)


def test_a_pod_that_thousands_of_terms_may_select_is_alike_to_those_with_its_labels_alone() -> None:
    """To compare each pod of a recording with each such term would take hours."""
    selectors = ({"matchExpressions": [{"key": f"k{i}", "operator": "DoesNotExist"}]} for i in range(101))
    terms = [{"labelSelector": selector, "topologyKey": ZONE} for selector in selectors]
    anti = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}
    decider = decider_of(snapshot_of())
    one, other = a_pod("one"), a_pod("two")
    assert Kinds(decider, []).kind(one) == Kinds(decider, []).kind(other)
    kinds = Kinds(decider, [a_pod("old", affinity=anti)])
    assert kinds.kind(one) != kinds.kind(other)
    assert kinds.kind(one) == kinds.kind(a_pod("one"))
