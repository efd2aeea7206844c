"""A day with kubectl, through its proxy, on a cluster whose pods run: each command builds on those before."""

import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from scripts.servers.embedded import minicluster
from scripts.servers.kubectl import KUBECTL, kubectl_proxy

# The pods name their node themselves, as there is no scheduler here.
POD = {"nodeName": "node1", "containers": [{"name": "web", "image": "nginx:1"}]}
DEPLOYMENT = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "web"},
    "spec": {
        "replicas": 2,
        "selector": {"matchLabels": {"app": "web"}},
        "template": {"metadata": {"labels": {"app": "web"}}, "spec": POD},
    },
}
CONFIG = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings"}, "data": {"a": "b"}}
LIST = {"apiVersion": "v1", "kind": "List", "items": [DEPLOYMENT, CONFIG]}
MISSPELT = {**DEPLOYMENT, "spec": {**DEPLOYMENT["spec"], "replica": 2}}  # type: ignore[dict-item]

DAY = [
    ("apply -f list.json", r"deployment.apps/web created\nconfigmap/settings created\n"),
    ("apply -f list.json", r"deployment.apps/web unchanged\nconfigmap/settings unchanged\n"),
    ("apply -f misspelt.json", r'(?s).*strict decoding error: unknown field "spec.replica"\n'),
    ("rollout status deployment/web --timeout=60s", r'(?s).*deployment "web" successfully rolled out\n'),
    ("get deployments", r"NAME +READY +UP-TO-DATE +AVAILABLE +AGE\nweb +2/2 +2 +2 +\d+s\n"),
    ("scale deployment web --replicas=3", r"deployment.apps/web scaled\n"),
    (
        "wait --for=jsonpath={.status.readyReplicas}=3 deployment/web --timeout=60s",
        r"deployment.apps/web condition met\n",
    ),
    ("set image deployment/web web=nginx:2", r"deployment.apps/web image updated\n"),
    ("rollout status deployment/web --timeout=60s", r'(?s).*deployment "web" successfully rolled out\n'),
    ("get pods -o jsonpath={.items[*].spec.containers[0].image}", r"(nginx:. ?)+"),
    ("rollout undo deployment/web", r"(?s).*deployment.apps/web rolled back\n"),
    ("rollout status deployment/web --timeout=60s", r'(?s).*deployment "web" successfully rolled out\n'),
    ("describe deployment web", r"(?s).*NewReplicaSet: +web-\w+ \(3/3 replicas created\)\n.*"),
    ('run one --image=nginx --overrides={"spec":{"nodeName":"node2"}}', r"pod/one created\n"),
    ("wait --for=condition=Ready pod/one --timeout=60s", r"pod/one condition met\n"),
    (
        "get pod one -o wide --no-headers",
        r"one +1/1 +Running +0 +\d+s +10\.244\.\d+\.\d+ +node2 +<none> +<none>\n",
    ),
    ("drain node2 --timeout=60s", r"(?s).*cannot delete Pods that declare no controller.*"),
    ("drain node2 --force --timeout=60s", r"(?s).*node/node2 drained\n"),
    ("get nodes node2 --no-headers", r"node2 +Ready,SchedulingDisabled +<none> +\d+s +v1.36.2\n"),
    ("create pdb web --selector=app=web --min-available=2", r"poddisruptionbudget.policy/web created\n"),
    ("wait --for=jsonpath={.status.disruptionsAllowed}=1 pdb/web --timeout=60s", r".*condition met\n"),
    ("get pdb web --no-headers", r"web +2 +N/A +1 +\d+s\n"),
    ("create namespace team", r"namespace/team created\n"),
    ("create deployment idle --image=nginx --namespace=team", r"deployment.apps/idle created\n"),
    ("delete namespace team --timeout=60s", r'namespace "team" deleted\n'),
    ("get deployments --namespace=team", r"No resources found in team namespace.\n"),
    (
        "delete -f list.json --timeout=60s",
        r'(?s)deployment.apps "web" deleted.*configmap "settings" deleted.*',
    ),
    (
        "wait --for=delete pods --selector=app=web --timeout=60s",
        r"(pod/web-\S+ condition met\n)*(error: no matching .*\n)?",
    ),
    ("get replicasets", r"No resources found in default namespace.\n"),
]


@pytest.fixture(scope="module")
def said(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[str]]:
    folder = tmp_path_factory.mktemp("day")
    (folder / "list.json").write_text(json.dumps(LIST))
    (folder / "misspelt.json").write_text(json.dumps(MISSPELT))
    with minicluster("--nodes", "2", "--kubelet-delay", "0.2") as server, kubectl_proxy(server) as proxy:
        yield [run(proxy, folder, command) for command, _ in DAY]


def run(server: str, folder: Path, command: str) -> str:
    return subprocess.run(
        [str(KUBECTL), "--server", server, *command.split(" ")],
        cwd=folder,
        env={"HOME": str(folder), "KUBECONFIG": "/dev/null"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=60,
        check=False,
    ).stdout


@pytest.mark.parametrize("number", range(len(DAY)), ids=lambda number: f"{number}-{DAY[number][0][:40]}")
def test_everyday(said: list[str], number: int) -> None:
    assert re.fullmatch(DAY[number][1], said[number]), said[number]
