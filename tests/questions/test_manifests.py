"""Pods of manifests, as the API server and the controllers would make them."""

from pathlib import Path
from typing import Any

import pytest
import yaml
from objects import read
from questions_harness import a_node, a_pod, decider_of, snapshot_of

from lib.kube.objects import Node, Object, Pod
from lib.kube.storage import StorageClass
from lib.questions.errors import QuestionError
from lib.questions.limits import LimitRange
from lib.questions.manifests import read_manifests, workloads_in
from lib.questions.new_pods import PodMaker
from lib.questions.snapshot import PriorityClass, RuntimeClass
from lib.questions.trial import Placing, new_pods
from lib.scheduling.node_info import host_ports
from lib.scheduling.resources import pod_requests

Json = dict[str, Any]


def workload(
    kind: str = "Deployment", spec: Json | None = None, main: Json | None = None, **more: Any
) -> Json:
    template = {
        "metadata": {"labels": {"app": "web"}},
        "spec": {"containers": [{"name": "main", "image": "nginx", **(main or {})}], **(spec or {})},
    }
    if kind == "Pod":
        return {"kind": kind, "metadata": {"name": "web", "labels": {"app": "web"}}, "spec": template["spec"]}
    own = {"selector": {"matchLabels": {"app": "web"}}, "template": template, **more}
    if kind == "CronJob":
        own = {"jobTemplate": {"spec": own}}
    return {"kind": kind, "metadata": {"name": "web"}, "spec": own}


def pods_of(tmp_path: Path, *manifests: Json, objects: tuple[Object, ...] = ()) -> list[Pod]:
    file = tmp_path / "web.yaml"
    file.write_text(yaml.safe_dump_all(manifests))
    snapshot = snapshot_of(*objects)
    workloads = workloads_in(read_manifests([file], "default"), snapshot)
    return [each.pod for each in new_pods(workloads, snapshot, decider_of(snapshot))]


@pytest.mark.parametrize(
    ("kind", "more", "names"),
    [
        ("Pod", {}, ["web"]),
        ("Deployment", {}, ["web-1"]),
        ("ReplicaSet", {"replicas": 2}, ["web-1", "web-2"]),
        ("StatefulSet", {"replicas": 2}, ["web-0", "web-1"]),
        ("Job", {"parallelism": 3, "completions": 2}, ["web-1", "web-2"]),
        ("CronJob", {}, ["web-1"]),
        ("DaemonSet", {}, ["web-n1", "web-n3"]),
        ("Rollout", {"replicas": 2}, ["web-1", "web-2"]),
    ],
)
def test_how_many_pods_there_are(tmp_path: Path, kind: str, more: Json, names: list[str]) -> None:
    taints = [{"key": "gpu", "effect": "NoSchedule"}]
    nodes = (a_node("n1"), a_node("n2", taints=taints), a_node("n3", unschedulable=True))
    found = pods_of(tmp_path, workload(kind, **more), objects=nodes)
    assert [pod.metadata.name for pod in found] == names
    assert {pod.metadata.namespace for pod in found} == {"default"}
    assert len({pod.metadata.uid for pod in found}) == len(names)


TEMPLATE: Json = {"spec": {"containers": [{"name": "main"}]}}


@pytest.mark.parametrize(
    ("kind", "content", "pods"),
    [
        ("v1/PodTemplate", {"template": TEMPLATE}, {"a": 1}),
        (
            "jobset.x-k8s.io/v1alpha2/JobSet",
            {
                "replicatedJobs": [
                    {
                        "name": "w",
                        "replicas": 2,
                        "template": {"spec": {"parallelism": 3, "template": TEMPLATE}},
                    },
                    {"name": "d", "template": {"spec": {"template": TEMPLATE}}},
                ]
            },
            {"a-w": 6, "a-d": 1},
        ),
        (
            "ray.io/v1/RayJob",
            {
                "rayClusterSpec": {
                    "headGroupSpec": {"template": TEMPLATE},
                    "workerGroupSpecs": [
                        {"groupName": "g", "replicas": 2, "numOfHosts": 2, "template": TEMPLATE}
                    ],
                }
            },
            {"a-head": 1, "a-g": 4},
        ),
        (
            "leaderworkerset.x-k8s.io/v1/LeaderWorkerSet",
            {
                "replicas": 2,
                "leaderWorkerTemplate": {
                    "size": 4,
                    "leaderTemplate": TEMPLATE,
                    "workerTemplate": TEMPLATE,
                },
            },
            {"a-leader": 2, "a-worker": 6},
        ),
        (
            "kubeflow.org/v1/PyTorchJob",
            {
                "pytorchReplicaSpecs": {
                    "Master": {"replicas": 1, "template": TEMPLATE},
                    "Worker": {"replicas": 3, "template": TEMPLATE},
                }
            },
            {"a-master": 1, "a-worker": 3},
        ),
        (
            "batch.volcano.sh/v1alpha1/Job",
            {"tasks": [{"name": "x", "replicas": 2, "template": TEMPLATE}, {"template": TEMPLATE}]},
            {"a-x": 2, "a-tasks-1": 1},
        ),
        ("kyverno.io/v1/ClusterPolicy", {"rules": [{"validate": {"pattern": {"template": TEMPLATE}}}]}, {}),
        ("longhorn.io/v1beta2/Node", {"disks": {}}, {}),
    ],
)
def test_a_custom_resource_can_have_several_templates(kind: str, content: Json, pods: dict[str, int]) -> None:
    version, _, name = kind.rpartition("/")
    head = {"apiVersion": version, "kind": name, "metadata": {"namespace": "default", "name": "a"}}
    made = {**head, **(content if "template" in content else {"spec": content})}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"namespace": "default", "name": "b"}, **TEMPLATE}
    snapshot = snapshot_of()
    *found, _ = workloads_in([made, pod], snapshot)
    assert {each.name: each.replicas for each in found} == pods
    assert {each.source for each in found} <= {f"{name} default/a"}
    assert not snapshot.of(Node)


def test_the_pods_of_a_daemonset_name_their_nodes(tmp_path: Path) -> None:
    (pod,) = pods_of(tmp_path, workload("DaemonSet"), objects=(a_node("n1"),))
    affinity = pod.spec.affinity.node_affinity
    assert affinity
    required = affinity.required_during_scheduling_ignored_during_execution
    assert required
    assert required.node_selector_terms[0].match_fields[0].values == ("n1",)
    assert "node.kubernetes.io/unschedulable" in {each.key for each in pod.spec.tolerations}


@pytest.mark.parametrize(
    ("resources", "requests"),
    [
        ({"requests": {"cpu": "1"}, "limits": {"cpu": "2"}}, {"cpu": 1000, "memory": 64}),
        ({"limits": {"cpu": "2", "memory": "100"}}, {"cpu": 2000, "memory": 100}),
        ({}, {"cpu": 500, "memory": 64}),
    ],
    ids=["requests", "limits", "neither"],
)
def test_what_is_requested(tmp_path: Path, resources: Json, requests: dict[str, int]) -> None:
    limits = {"type": "Container", "default": {"cpu": "3", "memory": "64"}, "defaultRequest": {"cpu": "500m"}}
    ranges = read(
        LimitRange, {"metadata": {"name": "x", "namespace": "default"}, "spec": {"limits": [limits]}}
    )
    other = read(LimitRange, {"metadata": {"name": "x", "namespace": "b"}, "spec": {"limits": [limits]}})
    (pod,) = pods_of(tmp_path, workload(main={"resources": resources}), objects=(ranges, other))
    assert pod_requests(pod) == requests


def test_priorities(tmp_path: Path) -> None:
    high = read(PriorityClass, {"metadata": {"name": "high"}, "value": 100, "preemptionPolicy": "Never"})
    usual = read(PriorityClass, {"metadata": {"name": "usual"}, "value": 5, "globalDefault": True})
    names = ({"priorityClassName": "system-node-critical"}, {"priorityClassName": "high"}, {})
    for spec, priority in zip(names, (2_000_001_000, 100, 5), strict=True):
        (pod,) = pods_of(tmp_path, workload("Pod", spec), objects=(high, usual))
        assert pod.spec.priority == priority
        assert pod.spec.preemption_policy == ("Never" if priority == 100 else "PreemptLowerPriority")


def test_without_a_class_there_is_no_priority(tmp_path: Path) -> None:
    (pod,) = pods_of(tmp_path, workload("Pod"))
    assert (pod.spec.priority, pod.spec.preemption_policy) == (0, "PreemptLowerPriority")
    both = [
        read(PriorityClass, {"metadata": {"name": str(value)}, "value": value, "globalDefault": True})
        for value in (9, 7)
    ]
    (pod,) = pods_of(tmp_path, workload("Pod"), objects=(*both,))
    assert pod.spec.priority == 7  # the API server takes the lowest, if there are two


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ({"priority": 1000}, "spec.priority is 1000, but a pod without a priorityClassName has 0"),
        (
            {"priority": 1000, "priorityClassName": "high"},
            "spec.priority is 1000, but PriorityClass high has 100",
        ),
        (
            {"preemptionPolicy": "PreemptLowerPriority", "priorityClassName": "high"},
            "spec.preemptionPolicy is 'PreemptLowerPriority', but PriorityClass high has Never",
        ),
        ({"priority": 100, "priorityClassName": "high", "preemptionPolicy": "Never"}, ""),
        ({"priority": 0}, ""),
        ({"priorityClassName": "none"}, "there is no PriorityClass none"),
    ],
)
def test_a_priority_of_ones_own_is_refused(spec: Json, said: str) -> None:
    high = read(PriorityClass, {"metadata": {"name": "high"}, "value": 100, "preemptionPolicy": "Never"})
    assert refusal(workload(spec=spec), high) == said


def refusal(manifest: Json, *objects: Object) -> str:
    """Why the API server would refuse a pod of a workload."""
    snapshot = snapshot_of(*objects)
    manifest["metadata"]["namespace"] = "default"
    (new,) = new_pods(workloads_in([manifest], snapshot), snapshot, decider_of(snapshot))
    return new.refused


def test_the_highest_priority_is_placed_first(tmp_path: Path) -> None:
    class_ = {"kind": "PriorityClass", "metadata": {"name": "high"}, "value": 9}
    low, high = workload(), workload(spec={"priorityClassName": "high"})
    low["metadata"] = {"name": "low"}
    assert [pod.metadata.name for pod in pods_of(tmp_path, low, class_, high)] == ["web-1", "low-1"]


def test_a_runtime_class_has_an_overhead_and_nodes(tmp_path: Path) -> None:
    kata = {
        "metadata": {"name": "kata"},
        "overhead": {"podFixed": {"cpu": "250m"}},
        "scheduling": {
            "nodeSelector": {"kata": "yes"},
            "tolerations": [{"key": "kata", "operator": "Exists"}],
        },
    }
    main = {"resources": {"requests": {"cpu": "1"}}}
    (pod,) = pods_of(
        tmp_path, workload("Pod", {"runtimeClassName": "kata"}, main), objects=(read(RuntimeClass, kata),)
    )
    assert pod_requests(pod) == {"cpu": 1250}
    assert pod.spec.node_selector == {"kata": "yes"}
    assert "kata" in {each.key for each in pod.spec.tolerations}


def test_ports_of_the_hosts_network_are_the_nodes_own(tmp_path: Path) -> None:
    main = {"ports": [{"containerPort": 80}]}
    (pod,) = pods_of(tmp_path, workload("Pod", {"hostNetwork": True}, main))
    assert host_ports(pod) == [("0.0.0.0", "TCP", 80)]
    (pod,) = pods_of(tmp_path, workload("Pod", {}, main))
    assert host_ports(pod) == []


def test_a_service_in_the_manifest_spreads_pods(tmp_path: Path) -> None:
    service = {"kind": "Service", "metadata": {"name": "web"}, "spec": {"selector": {"app": "web"}}}
    file = tmp_path / "web.yaml"
    file.write_text(yaml.safe_dump_all([service, workload("Pod")]))
    snapshot = snapshot_of(a_node("n1"))
    (one,) = workloads_in(read_manifests([file], "default"), snapshot)
    cache = decider_of(snapshot).cache
    (new,) = PodMaker(snapshot, cache.storage).pods_of(one)
    selector = cache.looked_up.workloads.selector_for(new.pod)
    assert selector
    assert selector.match_labels == {"app": "web"}


def test_pods_that_are_there_already_are_told_of(tmp_path: Path) -> None:
    owners = [("Deployment", "ReplicaSet", "web-5d4f"), ("ReplicaSet", "ReplicaSet", "web")]
    for kind, owner_kind, owner_name in owners:
        ref = {"kind": owner_kind, "name": owner_name, "uid": "r", "controller": True}
        file = tmp_path / "web.yaml"
        file.write_text(yaml.safe_dump(workload(kind)))
        there = a_pod("web-x", on="n1", metadata={"ownerReferences": [ref]})
        snapshot = snapshot_of(a_node("n1"), there)
        workloads = workloads_in(read_manifests([file], "default"), snapshot)
        assert workloads[0].existing == (there,)
        new_pods(workloads, snapshot, decider_of(snapshot))
        on_top = "ReplicaSet default/web is there already with 1 pod; they stay, and the new ones come on top"
        assert snapshot.notes == ([] if kind == "Deployment" else [on_top])  # a Deployment is rolled out


def storage_class(name: str, mode: str, *, default: bool = False) -> StorageClass:
    annotations = {"storageclass.kubernetes.io/is-default-class": "true"} if default else {}
    body = {"metadata": {"name": name, "annotations": annotations}, "provisioner": "ebs"}
    made: StorageClass = read(StorageClass, {**body, "volumeBindingMode": mode})
    return made


@pytest.mark.parametrize(("cls", "fits"), [("at-once", True), ("later", True), (None, True), ("none", False)])
def test_the_claims_of_a_stateful_set_are_made(tmp_path: Path, cls: str | None, fits: bool) -> None:
    claim = {"metadata": {"name": "data"}, "spec": {"resources": {"requests": {"storage": "1Gi"}}}}
    if cls:
        claim["spec"]["storageClassName"] = cls
    file = tmp_path / "web.yaml"
    file.write_text(yaml.safe_dump(workload("StatefulSet", replicas=2, volumeClaimTemplates=[claim])))
    snapshot = snapshot_of(
        a_node("n1"),
        storage_class("at-once", "Immediate", default=True),
        storage_class("later", "WaitForFirstConsumer"),
    )
    workloads = workloads_in(read_manifests([file], "default"), snapshot)
    decider = decider_of(snapshot)
    placing = Placing(new_pods(workloads, snapshot, decider), decider)
    assert [bool(each.node_name) for each in placing.steps()] == [fits, fits]
    assert decider.cache.storage.claim("default", "data-web-1")


def test_the_claim_of_an_ephemeral_volume_is_made(tmp_path: Path) -> None:
    file = tmp_path / "web.yaml"
    for name, node_name in (("at-once", "n1"), ("none", "")):
        template = {"spec": {"storageClassName": name}}
        volume = {"name": "scratch", "ephemeral": {"volumeClaimTemplate": template}}
        file.write_text(yaml.safe_dump(workload("Pod", {"volumes": [volume]})))
        snapshot = snapshot_of(a_node("n1"), storage_class("at-once", "Immediate"))
        workloads = workloads_in(read_manifests([file], "default"), snapshot)
        decider = decider_of(snapshot)
        placing = Placing(new_pods(workloads, snapshot, decider), decider)
        assert [each.node_name for each in placing.steps()] == [node_name]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("kind: [", "web.yaml: line 2, column 1: did not find"),
        ("hello", "web.yaml: this is not a Kubernetes object, but a text: 'hello'"),
        ("- kind: Pod", "web.yaml: this is not a Kubernetes object, but a list: [{'kind': 'Pod'}]"),
        (
            "kind: A\n---\nname: x",
            "web.yaml, document 2: this is not a Kubernetes object: it has the fields name",
        ),
        ("{kind: List, items: [{spec: 1}]}", "web.yaml, items[0]: this is not a Kubernetes object"),
        ("kind: ConfigMap", "there are no pods in what was given: only ConfigMap"),
        ("", "there are no pods in what was given"),
        ("kind: Pod\nspec: {containers: [{name: a}]}", "has no metadata.name"),
        (
            "kind: Pod\nmetadata: {name: a}\nspec: {containers: [{resources: {requests: {cpu: much}}}]}",
            "Pod default/a: not a quantity: 'much' - at `$.spec.containers[0].resources.requests[...]`",
        ),
        (
            "kind: Deployment\nmetadata: {name: a}\nspec: {replicas: x, template: {spec: {containers: []}}}",
            "spec.replicas: 'x' stands where a whole number is wanted",
        ),
        ("kind: Deployment\nmetadata: []\nspec: {}", "[] stands where an object should"),
    ],
)
def test_what_is_wrong_is_said(tmp_path: Path, text: str, said: str) -> None:
    file = tmp_path / "web.yaml"
    file.write_text(text)
    snapshot = snapshot_of(a_node("n1"))
    with pytest.raises(QuestionError) as error:
        new_pods(workloads_in(read_manifests([file], "default"), snapshot), snapshot, decider_of(snapshot))
    assert said in str(error.value)


def test_groups_are_placed_all_or_none(tmp_path: Path) -> None:
    def member(name: str) -> Json:
        pod = workload("Pod", main={"resources": {"requests": {"cpu": "3"}}})
        labels, size = {"poller/group": "g"}, {"poller/group-size": "2"}
        return {**pod, "metadata": {"name": name, "labels": labels, "annotations": size}}

    file = tmp_path / "web.yaml"
    for nodes, placed in ((1, 0), (2, 2)):
        file.write_text(yaml.safe_dump_all([member("a"), member("b")]))
        snapshot = snapshot_of(*(a_node(f"n{i}") for i in range(nodes)))
        workloads = workloads_in(read_manifests([file], "default"), snapshot)
        decider = decider_of(snapshot)
        placing = Placing(new_pods(workloads, snapshot, decider), decider)
        assert len([*placing.steps()]) == 2
        assert sum(bool(each.node_name) for each in placing.answer.placed) == placed


@pytest.mark.parametrize("api", ["scheduling.x-k8s.io/v1alpha1", "scheduling.k8s.io/v1alpha2"])
def test_of_a_group_with_a_pod_group_as_many_as_fit_are_placed_if_they_are_enough(
    tmp_path: Path, api: str
) -> None:
    is_label = api.startswith("scheduling.x-k8s.io")

    def member(name: str) -> Json:
        pod = workload("Pod", main={"resources": {"requests": {"cpu": "3"}}})
        labels = {"scheduling.x-k8s.io/pod-group": "g"} if is_label else {}
        spec = pod["spec"] if is_label else {**pod["spec"], "schedulingGroup": {"podGroupName": "g"}}
        return {**pod, "metadata": {"name": name, "labels": labels}, "spec": spec}

    file, placed = tmp_path / "web.yaml", []
    needs = {"minMember": 2} if is_label else {"schedulingPolicy": {"gang": {"minCount": 2}}}
    group = {"kind": "PodGroup", "apiVersion": api, "spec": needs}
    file.write_text(yaml.safe_dump_all([{**group, "metadata": {"name": "g"}}, *map(member, "abcd")]))
    for nodes in range(1, 4):
        snapshot = snapshot_of(*(a_node(f"n{i}") for i in range(nodes)))
        workloads = workloads_in(read_manifests([file], "default"), snapshot)
        decider = decider_of(snapshot)
        placing = Placing(new_pods(workloads, snapshot, decider), decider)
        placed.append(sum(bool(each.node_name) for each in placing.steps()))
    assert placed == [0, 2, 3]


@pytest.mark.parametrize(
    ("spec", "overhead", "said"),
    [
        ({"nodeSelector": {"kata": "yes", "a": "b"}}, {"cpu": "250m"}, ""),
        ({"overhead": {"cpu": "0.25"}}, {"cpu": "250m"}, ""),
        (
            {"nodeSelector": {"kata": "no"}},
            {},
            "spec.nodeSelector[kata] is 'no', but RuntimeClass kata",
        ),
        (
            {"overhead": {"cpu": "1"}},
            {"cpu": "250m"},
            "spec.overhead doesn't match that of RuntimeClass kata",
        ),
        ({"overhead": {"cpu": "1"}}, {}, "spec.overhead is set, but no RuntimeClass gives the pod one"),
        (
            {"overhead": {"cpu": "1"}, "runtimeClassName": ""},
            {},
            "spec.overhead is set, but no RuntimeClass gives",
        ),
        ({"runtimeClassName": "none"}, {}, "there is no RuntimeClass none"),
    ],
)
def test_a_conflict_with_the_runtime_class_is_refused(spec: Json, overhead: Json, said: str) -> None:
    """As by the admission plugin RuntimeClass."""
    body = {
        "metadata": {"name": "kata"},
        "overhead": {"podFixed": overhead},
        "scheduling": {"nodeSelector": {"kata": "yes"}},
    }
    manifest = workload(spec={"runtimeClassName": "kata", **spec})
    assert refusal(manifest, read(RuntimeClass, body)).startswith(said)
    assert bool(refusal(manifest, read(RuntimeClass, body))) == bool(said)
