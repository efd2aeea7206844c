"""The objects that are sent to extenders: with all their fields, and read no more often than they change."""

import threading
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from canned import CannedServer, Json, canned
from objects import read

from lib.kube.api import Api
from lib.kube.errors import AnswerError
from lib.kube.objects import Node, Pod
from lib.service.http_extender import FullObjects

NODES, WEB = "/api/v1/nodes", "/api/v1/namespaces/default/pods/web"


def body(name: str, version: str, namespace: str = "", uid: str = "") -> Json:
    metadata = {"name": name, "namespace": namespace, "uid": uid or name, "resourceVersion": version}
    return {"metadata": metadata, "strange": "field"}


def node(name: str, version: str = "1") -> Node:
    made: Node = read(Node, body(name, version))
    return made


def web(version: str = "1", uid: str = "web") -> Pod:
    made: Pod = read(Pod, body("web", version, "default", uid))
    return made


@pytest.fixture
def server() -> Iterator[CannedServer]:
    objects: dict[str, list[Any]] = {
        "nodes": [body("n1", "1"), {"metadata": 5}, body("n2", "10")],
        "pods": [body("web", "1", "default")],
    }
    with canned(objects) as server:
        yield server


@pytest.fixture
def full(server: CannedServer) -> Iterator[FullObjects]:
    with Api(server.url, threading.Event()) as api:
        yield FullObjects(api)


def names(nodes: list[msgspec.Raw]) -> list[str]:
    assert all(b'"strange"' in bytes(each) for each in nodes)
    return [msgspec.json.decode(each)["metadata"]["name"] for each in nodes]


def test_a_pod_is_read_again_only_when_it_has_changed(server: CannedServer, full: FullObjects) -> None:
    for version in ("1", "1", "2", "2"):
        assert b'"strange"' in bytes(full.pod(web(version)))
    assert server.reads == [WEB, WEB]


def test_a_pod_of_the_same_name_that_came_after_it_is_not_taken_for_it(full: FullObjects) -> None:
    with pytest.raises(AnswerError, match="another uid, web"):
        full.pod(web(uid="before"))


def test_nodes_come_in_the_order_asked_for_without_those_that_have_gone(full: FullObjects) -> None:
    assert names(full.nodes([node("n2"), node("n3"), node("n1")])) == ["n2", "n1"]


@pytest.mark.parametrize(
    ("version", "lists"),
    [("1", 1), ("10", 1), ("9", 1), ("11", 2), ("opaque", 1), ("1" * 30, 1)],
    ids=["the same", "the same as read", "older", "newer", "no number", "a number too large"],
)
def test_nodes_are_listed_again_only_when_one_of_them_is_newer_than_what_was_read(
    version: str, lists: int, server: CannedServer, full: FullObjects
) -> None:
    for each in ("1", version):
        assert names(full.nodes([node("n1"), node("n2", each)])) == ["n1", "n2"]
    assert [path.partition("?")[0] for path in server.reads] == [NODES] * lists
