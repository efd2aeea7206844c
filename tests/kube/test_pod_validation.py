"""What is wrong with a pod, in the words of a real API server, and of the embedded one."""

import gzip
import json
from pathlib import Path
from typing import Any

import httpx
import pytest

from lib.kube.pod_validation import problems_of_metadata, problems_of_pod, problems_of_taints, stored
from lib.kube.quantity import canonical
from scripts.servers.embedded import minicluster

FILE = Path(__file__).parents[1] / "data" / "pod-refusals-1.36.jsonl.gz"
RECORDED = [json.loads(line) for line in gzip.decompress(FILE.read_bytes()).splitlines()]

PODS = "/api/v1/namespaces/default/pods"
CONTAINER = {"name": "c", "image": "x"}


def found_in(pod: dict[str, Any]) -> list[list[str]]:
    problems = [*problems_of_metadata(pod["metadata"]), *problems_of_pod(pod["spec"])]
    return sorted({tuple(each) for each in problems})  # type: ignore[return-value]


def test_the_same_pods_are_refused_with_the_same_words() -> None:
    """Go's maps have no order, and it says some things twice: so the order doesn't count."""
    for row in RECORDED:
        assert found_in(row["pod"]) == sorted({tuple(each) for each in row["causes"]}), row["pod"]
    assert 40 < sum(not row["causes"] for row in RECORDED) < 100


def test_the_embedded_server_refuses_them_too() -> None:
    with minicluster("--nodes", "1") as url, httpx.Client(base_url=url, timeout=60) as server:
        for row in RECORDED[::10]:
            answer = server.post(f"{PODS}?dryRun=All", json={"apiVersion": "v1", "kind": "Pod", **row["pod"]})
            causes = (answer.json().get("details") or {}).get("causes") or ()
            said = {(each["reason"], each["field"], each["message"]) for each in causes}
            assert said == {tuple(each) for each in row["causes"]}, row["pod"]
            assert answer.status_code == (422 if row["causes"] else 201)

        for labels in (["x"], {"a": 1}):  # of another type than labels are
            odd = {"metadata": {"name": "odd", "labels": labels}, "spec": {"containers": [CONTAINER]}}
            assert server.post(f"{PODS}?dryRun=All", json=odd).status_code < 500

        taint = {"spec": {"taints": [{"key": "a", "effect": "NoSchedul"}]}}
        patch = {"Content-Type": "application/merge-patch+json"}
        answer = server.patch("/api/v1/nodes/node1", json=taint, headers=patch)
        assert 'metadata.taints[0].effect: Unsupported value: "NoSchedul"' in answer.json()["message"]


@pytest.mark.parametrize(
    ("taints", "words"),
    [
        ([{"key": "a", "effect": "NoExecute"}], ""),
        ([{"key": "a"}], "metadata.taints[0].effect: Required value"),
        ([{"key": "", "effect": "NoExecute"}], "metadata.taints[0].key: Invalid value"),
        ([{"key": "a", "effect": "Never"}], 'metadata.taints[0].effect: Unsupported value: "Never"'),
        (
            [{"key": "a", "effect": "NoExecute", "value": "a b"}],
            'metadata.taints[0].value: Invalid value: "a b"',
        ),
        ([{"key": "a", "effect": "NoExecute"}, {"key": "a", "effect": "NoSchedule"}], ""),
        (
            [{"key": "a", "effect": "NoExecute"}, {"key": "a", "effect": "NoExecute", "value": "x"}],
            'metadata.taints[1]: Duplicate value: {"Key":"a","Value":"x","Effect":"NoExecute",'
            '"TimeAdded":null}: taints must be unique by key and effect pair',
        ),
    ],
)
def test_taints(taints: list[dict[str, str]], words: str) -> None:
    """As kube-apiserver 1.36.2 said them."""
    assert "".join(map(str, problems_of_taints(taints))).startswith(words)
    assert bool(words) == bool([*problems_of_taints(taints)])


@pytest.mark.parametrize(
    ("name", "amount", "why"),
    [
        ("requests.example.com/gpu", "1", "doesn't follow extended resource name standard"),
        ("hugepages-x", "1Mi", "1Mi is not positive integer multiple of hugepages-x"),
        ("hugepages-0", "1Mi", "1Mi is not positive integer multiple of hugepages-0"),
        ("hugepages-2Mi", "4Mi", ""),
        ("example.com/gpu", "1", ""),
    ],
)
def test_resources_of_a_container(name: str, amount: str, why: str) -> None:
    resources = {"limits": {name: amount, "cpu": "1"}}
    found = [*problems_of_pod({"containers": [{**CONTAINER, "resources": resources}]})]
    assert [each.message.rpartition(": ")[2] for each in found] == ([why] * 2 if why else [])


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("0.5", "500m"),
        ("1000m", "1"),
        ("1024Ki", "1Mi"),
        ("1.5Gi", "1536Mi"),
        ("0.5Ki", "512"),
        ("0.0005Ki", "512m"),
        ("2000G", "2T"),
        ("1e3", "1e3"),
        ("1000", "1k"),
        ("1500", "1500"),
        ("100u", "1m"),
        ("0", "0"),
        ("-1", "-1"),
        ("-0.5", "-500m"),
        ("3E", "3E"),
    ],
)
def test_an_amount_as_it_is_stored(text: str, said: str) -> None:
    """As kube-apiserver 1.36.2 stores requests."""
    assert stored(text) == said
    if text != "100u":
        assert canonical(text) == said
