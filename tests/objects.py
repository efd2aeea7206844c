"""Pods and nodes for tests of the parts, written as the API writes them and read as poller reads them."""

from typing import Any

import msgspec

from lib.kube.objects import Node, Object, Pod, decode_hook


def read(kind: type[Object], body: Any) -> Any:
    """The object that poller reads from a JSON body."""
    return msgspec.json.decode(msgspec.json.encode(body), type=kind, dec_hook=decode_hook)


def pod(name: str = "web", requests: dict[str, str] | None = None, **spec: Any) -> Pod:
    """A pod with one container that requests this; `spec` as in the API."""
    container = {"name": "main", "resources": {"requests": requests or {}}}
    metadata = {"namespace": "default", "name": name, "uid": f"uid-of-{name}"}
    whole: Pod = read(Pod, {"metadata": metadata, "spec": {"containers": [container], **spec}})
    return whole


def node(
    name: str = "n1", labels: dict[str, str] | None = None, has: dict[str, str] | None = None, **spec: Any
) -> Node:
    """A node with 4 cpu, 8Gi of memory and 110 pods, or as `has` says; `spec` as in the API."""
    allocatable = {"cpu": "4", "memory": "8Gi", "pods": "110"} | (has or {})
    body = {
        "metadata": {"name": name, "labels": labels or {}},
        "spec": spec,
        "status": {"allocatable": allocatable},
    }
    whole: Node = read(Node, body)
    return whole
