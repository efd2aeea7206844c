"""Changes that would help: in words, and each applied to a cluster of its own, where the pod then fits."""

from random import Random
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st
from questions_harness import (
    HOSTNAME,
    ZONE,
    a_claim,
    a_node,
    a_pod,
    a_volume,
    ask_why,
    decider_of,
    snapshot_of,
    using,
)

from lib.kube.objects import Node, Object, ObjectMeta, Pod
from lib.kube.storage import PersistentVolume, PersistentVolumeClaim
from lib.questions.snapshot import PriorityClass
from lib.questions.snapshot_cache import cache_of
from lib.questions.suggestions import Suggestion
from lib.questions.why import Why, why_nowhere
from lib.scheduling.decision import Outcome
from lib.scheduling.plugins.registry import default_profile
from lib.scheduling.scheduling_cycle import Scheduler

WEB = {"app": "web"}


def apart(key: str = HOSTNAME) -> dict[str, Any]:
    term = {"topologyKey": key, "labelSelector": {"matchLabels": WEB}}
    return {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}


def spread(skew: int = 1) -> dict[str, Any]:
    constraint = {"topologyKey": ZONE, "maxSkew": skew, "whenUnsatisfiable": "DoNotSchedule"}
    return {"topologySpreadConstraints": [{**constraint, "labelSelector": {"matchLabels": WEB}}]}


CONTROL_PLANE = [{"key": "node-role.kubernetes.io/control-plane", "effect": "NoSchedule"}]


def of_hash(template_hash: str) -> dict[str, Any]:
    """The metadata of a pod of a Deployment, but for its labels."""
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": f"web-{template_hash}", "uid": "u"}
    labels = {**WEB, "pod-template-hash": template_hash}
    return {"ownerReferences": [{**owner, "controller": True}], "labels": labels}


def sentences(pod: Pod, objects: list[Object]) -> list[str]:
    answer = ask_why(pod, objects)
    for each in answer.suggestions:
        assert fits_on(each, objects) == set(each.fits_on), each.sentence
    return [each.sentence for each in answer.suggestions]


def fits_on(suggestion: Suggestion, objects: list[Object]) -> set[str]:
    """The nodes on which the changed pod fits, in the changed cluster, which is built from nothing."""
    fixes = suggestion.fixes
    removed = {pod.metadata.uid for fix in fixes for pod in fix.removed}
    described = {node.metadata.name: node for fix in fixes for node in fix.nodes}
    old_nodes = [each for each in objects if isinstance(each, Node)]
    nodes = {**{node.metadata.name: node for node in old_nodes}, **described}
    pods = [each for each in objects if isinstance(each, Pod) and each.metadata.uid not in removed]
    others = [each for each in objects if not isinstance(each, Node | Pod)]
    added = [pod for fix in fixes for pod in getattr(fix, "added", ())]
    cache = cache_of(snapshot_of(*nodes.values(), *pods, *added, *others))
    decision = Scheduler(default_profile("default-scheduler"), Random(1)).schedule_one(suggestion.pod, cache)
    assert decision.outcome == Outcome.SCHEDULED, (suggestion.sentence, decision.message)
    return set(cache.nodes) - set(decision.rejected)


CASES = {
    "a selector": (
        a_pod("p", nodeSelector={"disktype": "ssd"}),
        [
            a_node("n1"),
            a_node("n2"),
            a_node("n3"),
            a_node("n4", labels={"disktype": "ssd"}, unschedulable=True),
        ],
        [
            "without nodeSelector disktype=ssd: n1, n2, n3 fit",
            "with n4 uncordoned: n4 fits",
            "with the label disktype=ssd on n1: n1 fits",
        ],
    ),
    "many cordoned nodes": (
        a_pod("p"),
        [a_node(f"n{i}", unschedulable=True) for i in range(4)],
        ["with the 4 cordoned nodes uncordoned: 4 nodes fit"],
    ),
    "a taint": (
        a_pod("p"),
        [a_node("n1", taints=[{"key": "gpu", "value": "true", "effect": "NoSchedule"}])],
        ["with a toleration for gpu=true:NoSchedule: n1 fits"],
    ),
    "smaller requests": (
        a_pod("p", cpu="2"),
        [a_node("n1", cpu="1"), a_node("n2", cpu="3"), a_pod("db", cpu="1700m", on="n2")],
        ["at cpu 1300m in place of 2: n2 fits", "if default/db left: n2 fits"],
    ),
    "memory in whole Mi": (
        a_pod("p", requests={"memory": "4Gi"}),
        [a_node("n1"), a_pod("db", requests={"memory": f"{5200 * 1024 + 1}Ki"}, on="n1")],
        ["at memory 2991Mi in place of 4Gi: n1 fits", "if default/db left: n1 fits"],
    ),
    "a resource that no node has": (
        a_pod("p", requests={"example.com/gpu": "1"}),
        [a_node("n1")],
        ["without example.com/gpu: n1 fits"],
    ),
    "pods that keep apart": (
        a_pod("p", labels=WEB, **apart()),
        [a_node("n1"), a_pod("w", on="n1", labels=WEB)],
        [
            "without the required anti-affinity to app=web (kubernetes.io/hostname): n1 fits",
            "if default/w left: n1 fits",
        ],
    ),
    "a pod that keeps others off its zone, on one node of many": (
        a_pod("p", cpu="1", labels=WEB, **apart(ZONE)),
        [*(a_node(f"n{i}") for i in range(10)), a_pod("w", cpu="1", on="n9", labels=WEB)],
        [
            f"without the required anti-affinity to app=web ({ZONE}): 10 nodes fit",
            "if default/w left: 10 nodes fit",
        ],
    ),
    "a skew": (
        a_pod("p", labels=WEB, **spread()),
        [
            a_node("n1", "a"),
            a_node("n2", "b", cpu="0"),
            *(a_pod(f"w{i}", on="n1", labels=WEB) for i in range(2)),
            a_pod("big", cpu="1", on="n2"),
        ],
        None,
    ),
    "two changes": (
        a_pod("p", nodeSelector={"disktype": "ssd"}),
        [a_node("n1", taints=[{"key": "gpu", "effect": "NoSchedule"}])],
        ["with a toleration for gpu:NoSchedule and without nodeSelector disktype=ssd: n1 fits"],
    ),
    "a control plane beside other nodes": (
        a_pod("p", cpu="2"),
        [a_node("n1", taints=CONTROL_PLANE), a_node("n2", cpu="1")],
        ["at cpu 1 in place of 2: n2 fits"],
    ),
    "nothing but a control plane": (
        a_pod("p"),
        [a_node("n1", taints=CONTROL_PLANE)],
        ["with a toleration for node-role.kubernetes.io/control-plane:NoSchedule: n1 fits"],
    ),
    "a node that is about to go": (
        a_pod("p"),
        [a_node("n1", taints=[{"key": "ToBeDeletedByClusterAutoscaler", "effect": "NoSchedule"}])],
        [],
    ),
    "classes that are for the system": (
        a_pod("p", cpu="3"),
        [
            a_node("n1"),
            a_pod("db", cpu="4", on="n1"),
            PriorityClass(ObjectMeta(name="system-cluster-critical"), value=2 * 10**9),
        ],
        ["if default/db left: n1 fits"],
    ),
    "a skew that nodes with taints hold down": (
        a_pod("p", metadata=of_hash("2"), **spread()),
        [
            a_node("n1", "a"),
            a_node("n2", "b", taints=CONTROL_PLANE),
            a_pod("w", on="n1", metadata=of_hash("1")),
        ],
        [
            f"with maxSkew 2 in place of 1 for {ZONE}: n1 fits",
            f"with nodeTaintsPolicy: Honor for {ZONE}: n1 fits",
            f"with matchLabelKeys: [pod-template-hash] for {ZONE}: n1 fits",
            f"with whenUnsatisfiable: ScheduleAnyway for {ZONE}: n1 fits",
            "if default/w left, as with maxUnavailable: 1 in its Deployment's rollout: n1 fits",
        ],
    ),
    "a label that says what a node is": (
        a_pod("p", nodeSelector={"kubernetes.io/arch": "arm64"}),
        [a_node("n1")],
        ["without nodeSelector kubernetes.io/arch=arm64: n1 fits"],
    ),
    "a pod of the system": (
        a_pod("p", cpu="3"),
        [a_node("n1"), a_pod("dns", cpu="3900m", on="n1", priority=2 * 10**9)],
        [],
    ),
    "gates": (
        a_pod("p", schedulingGates=[{"name": "x"}]),
        [a_node("n1")],
        ["without the scheduling gate x: n1 fits"],
    ),
    "ports": (
        a_pod("p", main={"ports": [{"hostPort": 80}]}),
        [a_node("n1"), a_pod("w", on="n1", main={"ports": [{"hostPort": 80}]})],
        ["without host port 80/TCP: n1 fits", "if default/w left: n1 fits"],
    ),
    "a pod of the same template": (
        a_pod("p", cpu="4", metadata=of_hash("1")),
        [a_node("n1"), a_pod("w", cpu="3", on="n1", metadata=of_hash("1"))],
        ["at cpu 1 in place of 4: n1 fits", "if default/w left: n1 fits"],
    ),
    "too many pods to remove": (
        a_pod("p", cpu="4"),
        [a_node("n1"), *(a_pod(f"o{i}", on="n1", cpu="600m") for i in range(6))],
        ["at cpu 400m in place of 4: n1 fits"],
    ),
    "too many pods": (
        a_pod("p"),
        [a_node("n1"), *(a_pod(f"o{i}", on="n1") for i in range(10))],
        ["if default/o9 left: n1 fits"],
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_what_would_help_in_words(name: str) -> None:
    pod, objects, expected = CASES[name]
    found = [each for each in sentences(pod, objects) if "one more node" not in each]
    if expected is not None:
        assert found == expected


def test_one_more_node_comes_with_the_pods_of_its_daemonsets() -> None:
    owner = {"ownerReferences": [{"kind": "DaemonSet", "name": "agent", "uid": "d", "controller": True}]}
    objects = [a_node("n1"), a_pod("agent", cpu="1", on="n1", metadata=owner), a_pod("db", cpu="2", on="n1")]
    assert "with one more node like n1: n1-copy-1 fits" in sentences(a_pod("p", cpu="3"), objects)
    larger = "with one more node like n1, but with cpu 5: n1-copy-1 fits"
    assert larger in sentences(a_pod("p", cpu="3500m"), objects)
    more = "with one more node like n1, but with memory 20Gi: n1-copy-1 fits"
    assert more in sentences(a_pod("p", requests={"memory": "19.5Gi"}), objects)


def test_what_is_changed_is_changed_for_all_pods_of_the_controller() -> None:
    """It is changed in the template that they have in common."""

    def made_by(name: str) -> dict[str, Any]:
        owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": name, "uid": name}
        return {"ownerReferences": [{**owner, "controller": True}]}

    asked, same, other = (
        a_pod(name, cpu="5", metadata=made_by(owner))
        for name, owner in (("asked", "web"), ("same", "web"), ("other", "db"))
    )
    pods = asked, same, other, a_pod("bare", cpu="5")
    suggestion, *_ = ask_why(asked, [a_node("n1")]).suggestions
    assert suggestion.words == "at cpu 4 in place of 5"

    def changed(first: Pod) -> list[str]:
        made = zip(suggestion.made_to(pods, first), pods, strict=True)
        return [pod.metadata.name for new, pod in made if new is not pod]

    assert [changed(first) for first in pods[1:]] == [["asked", "same"], ["other"], ["bare"]]


def test_of_many_nodes_their_number_is_said() -> None:
    for many, said in ((3, "n0, n1, n2 fit"), (4, "4 nodes fit")):
        nodes = [a_node(f"n{i}") for i in range(many)]
        assert f"at cpu 4 in place of 5: {said}" in sentences(a_pod("p", cpu="5"), [*nodes])


def test_two_users_of_a_claim_for_one_pod_alone_are_not_said_to_be_one() -> None:
    objects = [
        a_node("n1"),
        a_claim("data", "pv", accessModes=["ReadWriteOncePod"]),
        a_volume("pv"),
        a_pod("one", on="n1", **using("data")),
        a_pod("two", on="n1", **using("data")),
    ]
    found = sentences(a_pod("p", **using("data")), objects)
    assert found in (
        ["if default/one, default/two left: n1 fits"],
        ["if default/two, default/one left: n1 fits"],
    )


def test_who_would_be_evicted_is_who_poller_evicts() -> None:
    objects = [
        a_node("n1"),
        a_pod("least", cpu="2", on="n1", priority=1),
        a_pod("more", cpu="2", on="n1", priority=5),
    ]
    answer = ask_why(a_pod("p", cpu="2", priority=10), objects)
    decision = Scheduler(default_profile("default-scheduler"), Random(1)).schedule_one(
        answer.pod, cache_of(snapshot_of(*objects))
    )
    assert [str(each) for each in decision.victims] == ["default/least"]
    assert answer.decision.victims == decision.victims
    assert answer.decision.nominated == decision.nominated == "n1"
    assert answer.yes
    assert not any(" left" in each.words for each in answer.suggestions)


def test_nothing_is_changed_by_asking() -> None:
    objects = [a_node("n1", unschedulable=True), a_node("n2", cpu="1"), a_pod("db", cpu="1", on="n2")]
    before = [repr(each) for each in objects]
    first, second = (ask_why(a_pod("p", cpu="2"), objects) for _ in range(2))
    assert [repr(each) for each in objects] == before
    assert spoken(first) == spoken(second)


def spoken(answer: Why) -> list[str]:
    return [each.sentence for each in answer.suggestions]


def test_pods_that_were_only_placed_stay_where_they_are_while_others_are_explained() -> None:
    decider = decider_of(snapshot_of(a_node("n1"), PriorityClass(ObjectMeta(name="high"), value=10)))
    for name in ("one", "two"):
        (decision,) = decider.place([a_pod(name, cpu="2")])
        assert decision.node_name == "n1"
    pod = a_pod("p", cpu="2")
    (decision,) = decider.place([pod])
    found = why_nowhere(pod, decision, decider)
    assert spoken(found) == ["with one more node like n1: n1-copy-1 fits"]
    assert not any("default/two" in each for each in spoken(found))  # nobody could delete it
    assert {each.metadata.name for each in decider.cache.nodes["n1"].pods} == {"one", "two"}
    assert decider.cache.nodes["n1"].requested["cpu"] == 4000


# --- no suggestion is ever wrong ----------------------------------------------------------------------------


@st.composite
def nodes(draw: st.DrawFn, name: str) -> Node:
    taints = draw(st.lists(st.sampled_from(["gpu", "old"]), unique=True, max_size=1))
    return a_node(
        name,
        draw(st.sampled_from("ab")),
        draw(st.sampled_from(["1", "2", "4"])),
        labels=draw(st.sampled_from([{}, {"disktype": "ssd"}])),
        taints=[{"key": key, "effect": "NoSchedule"} for key in taints],
        unschedulable=draw(st.integers(0, 4)) == 0,
    )


@st.composite
def pods(draw: st.DrawFn, name: str, on: str = "") -> Pod:
    spec: dict[str, Any] = {}
    if draw(st.booleans()) and not on:
        spec["nodeSelector"] = {"disktype": "ssd"}
    spec |= draw(st.sampled_from([{}, {}, apart(), apart(ZONE), spread(), using("data")]))
    if draw(st.integers(0, 3)) == 0:
        spec["main"] = {"ports": [{"hostPort": 80}]}
    return a_pod(
        name,
        draw(st.sampled_from(["", "500m", "1", "2500m"])),
        on,
        labels=draw(st.sampled_from([{}, WEB])),
        priority=draw(st.integers(0, 1)),
        **spec,
    )


@st.composite
def clusters(draw: st.DrawFn) -> tuple[Pod, list[Object]]:
    names = [f"n{i}" for i in range(draw(st.integers(1, 4)))]
    claim: PersistentVolumeClaim = a_claim("data", "pv", accessModes=["ReadWriteOncePod"])
    volume: PersistentVolume = a_volume("pv")
    objects: list[Object] = [claim, volume, *(draw(nodes(name)) for name in names)]
    running = draw(st.lists(st.sampled_from(names), max_size=8))
    objects += [draw(pods(f"o{i}", on)) for i, on in enumerate(running)]
    return draw(pods("p")), objects


@given(clusters())
@settings(max_examples=25, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
def test_no_suggestion_is_wrong(cluster: tuple[Pod, list[Object]]) -> None:
    pod, objects = cluster
    answer = ask_why(pod, objects)
    assert bool(answer.suggestions) <= (answer.decision.outcome == Outcome.UNSCHEDULABLE)
    for each in answer.suggestions:
        assert fits_on(each, objects) == set(each.fits_on), each.sentence
