"""Inputs to begin with: clusters, configurations and exchanges that were recorded, in tests/data."""

import gzip
import json
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

DATA = Path(__file__).resolve().parents[2] / "tests/data"

Json = dict[str, Any]

STORAGE = {"pvcs": "PersistentVolumeClaim", "pvs": "PersistentVolume", "storageclasses": "StorageClass"}

QUANTITIES = ("100m", "1.5Gi", "12e6", "-1", "0.1n", "1E", "+3k", ".5", "2.", "9" * 40, "1e-9", "")


@cache
def _lines(name: str) -> list[Json]:
    packed = (DATA / f"{name}-1.36.jsonl.gz").read_bytes()
    return [json.loads(line) for line in gzip.decompress(packed).splitlines()]


def _kinds(case: Json) -> Iterator[Json]:
    """The objects of a recorded cluster, each with its kind."""
    yield from ({"kind": "Node", "apiVersion": "v1", **each} for each in case["nodes"])
    yield from ({**each, "kind": "Pod", "apiVersion": "v1"} for each in (*case["bound"], case["pod"]))
    for name, kind in STORAGE.items():
        yield from ({**each, "kind": kind} for each in case.get(name, ()))


@cache
def clusters() -> list[bytes]:
    """Small clusters with a pod that waits, as `kubectl get -o json` prints them."""
    cases = [*_lines("decisions")[::12], *_lines("volumes")[::12]]
    return [
        json.dumps({"kind": "List", "apiVersion": "v1", "items": [*_kinds(each)]}).encode() for each in cases
    ]


@cache
def lists(kind: str) -> list[bytes]:
    """Lists of a kind, as the API server answers."""
    found = []
    for cluster in clusters():
        items = [each for each in json.loads(cluster)["items"] if each["kind"] == kind]
        page = {
            "kind": f"{kind}List",
            "apiVersion": "v1",
            "metadata": {"resourceVersion": "7"},
            "items": items,
        }
        found += [json.dumps(page).encode()] if items else []
    return found


@cache
def frames(kind: str) -> list[bytes]:
    """Lines of a watch."""
    found = []
    for each in lists(kind):
        for verb, item in zip(
            ("ADDED", "MODIFIED", "DELETED", "BOOKMARK"), json.loads(each)["items"], strict=False
        ):
            found.append(json.dumps({"type": verb, "object": item}).encode())
    gone = {"kind": "Status", "status": "Failure", "code": 410, "message": "too old"}
    return [*found, json.dumps({"type": "ERROR", "object": gone}).encode()]


@cache
def configurations() -> list[bytes]:
    """Configuration files."""
    return [each["config"].encode() for each in _lines("scheduler-config")[::4]]


@cache
def answers() -> list[bytes]:
    """Whole answers of an API server, with their heads."""
    found = []
    for each in _lines("apiserver")[::3]:
        answer = each["response"]
        body = answer["body"] if isinstance(answer["body"], str) else json.dumps(answer["body"])
        head = f"HTTP/1.1 {answer['status']} OK\r\nContent-Type: application/json\r\n"
        whole = f"{head}Content-Length: {len(body.encode())}\r\n\r\n{body}"
        parts = f"{head}Transfer-Encoding: chunked\r\n\r\n{len(body.encode()):x}\r\n{body}\r\n0\r\n\r\n"
        found += [whole.encode(), parts.encode()]
    return found


def selectors() -> list[bytes]:
    """Selectors of labels, and of nodes."""
    terms = [
        {"key": "zone", "operator": "In", "values": ["a", "b"]},
        {"key": "size", "operator": "Gt", "values": ["7"]},
    ]
    of_labels = {
        "matchLabels": {"app": "web"},
        "matchExpressions": [terms[0], {"key": "x", "operator": "Exists"}],
    }
    fields = [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]
    of_nodes = {"nodeSelectorTerms": [{"matchExpressions": terms}, {"matchFields": fields}]}
    return [json.dumps([of_labels, of_nodes]).encode()]


def extender_answers() -> list[bytes]:
    """What extenders answer to each verb."""
    said: list[Any] = [
        {"nodenames": ["n1"], "failedNodes": {"n2": "no"}, "error": ""},
        {"Nodes": {"items": [{"metadata": {"name": "n1"}}]}, "FailedAndUnresolvableNodes": {"n2": "never"}},
        [{"host": "n1", "score": 5}, {"Host": "n2", "Score": 10}],
        {"NodeNameToMetaVictims": {"n1": {"Pods": [{"UID": "u1"}], "NumPDBViolations": 1}}},
        {"error": "no"},
    ]
    return [json.dumps(each).encode() for each in said]
