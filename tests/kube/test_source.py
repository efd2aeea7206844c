"""What a poll asks for, and what it tells, when the cluster is small enough to be listed."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from math import inf
from typing import Any

import pytest
from canned import CannedServer, Json, canned

from lib.kube.api import Api
from lib.kube.informer import Informer
from lib.kube.source import MAIN_SCHEDULER, ClusterSource, Delta, PollingSource

CLAIMS = "/api/v1/persistentvolumeclaims"
SOURCES = pytest.mark.parametrize("kind", [PollingSource, Informer])


def named(name: str, namespace: str = "", version: str = "1") -> Json:
    return {"name": name, "uid": name, "namespace": namespace, "resourceVersion": version}


def pod(name: str, namespace: str = "default", scheduler: str = "my-scheduler", **spec: Any) -> Json:
    containers = [{"name": "main"}]
    return {
        "metadata": named(name, namespace),
        "spec": {"schedulerName": scheduler, "containers": containers, **spec},
    }


def node(name: str) -> Json:
    return {"metadata": named(name)}


@contextmanager
def reading(
    *pods: Json, kind: type[ClusterSource] = PollingSource, schedulers: tuple[str, ...] = ("my-scheduler",)
) -> Iterator[tuple[CannedServer, ClusterSource]]:
    """A server with these pods and a node, and what reads the namespaces default and ours of it."""
    objects = {"pods": [*pods], "nodes": [node("n1")]}
    with canned(objects) as server, Api(server.url, threading.Event()) as api:
        yield server, kind(api, schedulers, ["default", "ours"])


def told(source: ClusterSource) -> tuple[list[str], Delta]:
    """The names of all that a poll tells of, sorted, and what `poll` returns."""
    first = [*source.first_changes()]
    delta = source.poll(patience=inf)
    return sorted(change.object.metadata.name for change in [*first, *delta.changes]), delta


@SOURCES
def test_pods_that_wait_are_told_of_if_they_are_ours(kind: type[ClusterSource]) -> None:
    others = pod("theirs", "theirs"), pod("of-another", scheduler="another")
    with reading(
        pod("web"), pod("api", "ours", "second"), *others, kind=kind, schedulers=("my-scheduler", "second")
    ) as (_, source):
        assert told(source)[0] == ["api", "n1", "web"]


@SOURCES
def test_all_pods_that_run_are_told_of_once_whoever_placed_them(kind: type[ClusterSource]) -> None:
    others = pod("theirs", "theirs", nodeName="n1"), pod("of-another", scheduler="another", nodeName="n1")
    with reading(pod("web"), pod("old", nodeName="n1"), *others, kind=kind) as (_, source):
        assert told(source)[0] == ["n1", "of-another", "old", "theirs", "web"]


@pytest.mark.parametrize(
    ("schedulers", "selector"),
    [
        (("a",), "spec.nodeName=,spec.schedulerName=a"),
        (("a", "b"), f"spec.nodeName=,spec.schedulerName!={MAIN_SCHEDULER}"),  # the one that most pods name
        (("a", MAIN_SCHEDULER), "spec.nodeName="),
    ],
)
def test_the_server_leaves_out_pods_of_others_as_far_as_a_selector_can_say_that(
    schedulers: tuple[str, ...], selector: str
) -> None:
    with reading(schedulers=schedulers) as (server, source):
        told(source)
        query = f"/pods?fieldSelector={selector}&"
        assert all(query in each for each in server.reads)
        assert len(server.reads) == 2  # of two namespaces


def test_if_no_pod_waits_nothing_else_is_listed() -> None:
    with reading(pod("old", nodeName="n1")) as (_, source):
        names, delta = told(source)
        assert (names, delta.complete) == ([], False)


def test_as_long_as_nothing_in_the_cluster_has_changed_only_the_pods_that_wait_are_listed() -> None:
    with reading(pod("web")) as (server, source):
        assert told(source)[1].complete
        server.objects["nodes"].append(node("n2"))
        names, delta = told(source)
        assert (names, delta.complete) == ([], False)
        server.version += 1  # as each write to the cluster does
        names, delta = told(source)
        assert (names, delta.complete) == (["n2"], True)


def test_what_could_not_be_read_is_read_again_though_nothing_has_changed() -> None:
    volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]
    with reading(pod("web", volumes=volumes)) as (server, source):
        paths = (CLAIMS, *(CLAIMS.replace("v1", f"v1/namespaces/{name}") for name in ("default", "ours")))
        server.forbidden = {*paths}
        server.objects["persistentvolumeclaims"] = [{"metadata": named("data", "default")}]
        assert told(source)[0] == ["n1", "web"]
        server.forbidden = set()
        assert told(source)[0] == ["data"]
        server.reads.clear()
        assert told(source)[0] == []
        assert len(server.reads) == 2
