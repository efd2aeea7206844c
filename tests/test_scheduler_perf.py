"""Kubernetes' own benchmark is run as its YAML says: here a small workload with most operations."""

from pathlib import Path

import pytest
from all_cases import ALL_CASES

from scripts.benchmark import scheduler_perf
from scripts.benchmark.contestants import CONTESTANTS
from scripts.benchmark.perf_objects import from_template, updated
from scripts.benchmark.processes import FailedError
from scripts.benchmark.scheduler_perf import find, run

TEMPLATES = {
    "node.yaml": """
apiVersion: v1
kind: Node
metadata: {name: "node-{{ .Index }}"}
status: {capacity: {cpu: "4", memory: 8Gi, pods: "{{ DivideInt 220 .Count }}"}}
""",
    "larger.yaml": """
apiVersion: v1
kind: Node
metadata: {name: "node-{{ .Index }}"}
status: {capacity: {cpu: "4", memory: 99Gi, pods: "110"}}
""",
    "churn.yaml": """
apiVersion: v1
kind: Pod
metadata: {generateName: churn-}
spec: {priority: 10, containers: [{name: c, image: pause, resources: {requests: {cpu: "9"}}}]}
""",
    "gated.yaml": """
apiVersion: v1
kind: Pod
metadata: {name: "gated-{{ .Index }}", labels: {type: gated}}
spec:
  schedulingGates: [{name: example.com/wait}]
  containers: [{name: c, image: pause, resources: {requests: {memory: 9Gi}}}]
""",
    "free.yaml": """
apiVersion: v1
kind: Pod
metadata: {name: "gated-{{ .Index }}", labels: {type: gated}}
spec: {containers: [{name: c, image: pause, resources: {requests: {memory: 9Gi}}}]}
""",
    "volume.yaml": """
apiVersion: v1
kind: PersistentVolume
spec: {accessModes: [ReadOnlyMany], capacity: {storage: 1Gi}, csi: {driver: ebs.csi.aws.com}}
""",
    "claim.yaml": """
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {annotations: {pv.kubernetes.io/bind-completed: "true"}}
spec: {accessModes: [ReadOnlyMany], resources: {requests: {storage: 1Gi}}}
""",
    "performance-config.yaml": """
- name: Small
  workloadTemplate:
  - {opcode: createNodes, countParam: $nodes, nodeTemplatePath: node.yaml}
  - {opcode: churn, mode: recreate, number: 1, templatePaths: [churn.yaml], intervalMilliseconds: 100}
  - opcode: createPods
    countParam: $pods
    namespace: with-volumes
    persistentVolumeTemplatePath: volume.yaml
    persistentVolumeClaimTemplatePath: claim.yaml
  - {opcode: startCollectingMetrics, namespaces: [gated], labelSelector: {type: gated}}
  - {opcode: createPods, countParam: $pods, namespace: gated, podTemplatePath: gated.yaml,
     skipWaitToCompletion: true}
  - {opcode: barrier, stageRequirement: Attempted, labelSelector: {type: gated}}
  - {opcode: updateAny, countParam: $pods, namespace: gated, templatePath: free.yaml, updatePerSecond: 50}
  - {opcode: updateAny, countParam: $nodes, templatePath: larger.yaml}
  - {opcode: barrier}
  - {opcode: stopCollectingMetrics}
  - {opcode: deletePods, namespace: gated, deletePodsPerSecond: 100}
  workloads:
  - {name: 2Nodes, params: {nodes: 2, pods: 5}}
- name: Unknown
  workloadTemplate: [{opcode: createResourceDriver}]
  workloads: [{name: one}]
""",
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, text in TEMPLATES.items():
        (tmp_path / name).write_text(text)
    return tmp_path


def test_a_workload_is_run(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if not ALL_CASES:
        monkeypatch.setattr(scheduler_perf, "assets", lambda: None)  # a real API server takes long to start
    watch = next(each for each in CONTESTANTS if each.key == "watch")
    figures = run(find(folder, "Small/2Nodes"), watch, 60)
    assert 0 < figures.rate < 1000
    assert 0 < figures.first < 60
    assert figures.cpu > 0
    assert figures.memory > 10
    with pytest.raises(FailedError, match="createResourceDriver can't be carried out here"):
        run(find(folder, "Unknown/one"), watch, 60)


def test_a_template_is_filled_in(folder: Path) -> None:
    node = from_template(folder / "node.yaml", 1, 2)
    assert (node["metadata"]["name"], node["status"]["capacity"]["pods"]) == ("node-1", "110")


def test_a_workload_that_is_not_there_is_said(folder: Path) -> None:
    with pytest.raises(SystemExit, match="Small has 2Nodes"):
        find(folder, "Small/3Nodes")
    with pytest.raises(SystemExit, match="has no test case Large"):
        find(folder, "Large/1Node")


def test_an_updated_pod_keeps_its_node_and_what_the_server_has_added() -> None:
    taint = {"key": "node.kubernetes.io/not-ready", "operator": "Exists"}
    spec = {"nodeName": "n1", "tolerations": [taint], "containers": [{"name": "c", "resources": {}}]}
    now = {"kind": "Pod", "metadata": {"name": "p", "resourceVersion": "7"}, "spec": spec}
    wanted = {"metadata": {"labels": {"a": "b"}}, "spec": {"tolerations": [{"key": "x"}], "containers": []}}
    new = updated(now, wanted, "")
    assert (new["spec"]["nodeName"], new["metadata"]) == ("n1", {"name": "p", "labels": {"a": "b"}})
    assert new["spec"]["tolerations"] == [{"key": "x"}, taint]
