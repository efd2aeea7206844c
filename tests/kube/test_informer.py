"""When a wait for changes of a watched cluster ends."""

import threading
import time
from collections.abc import Iterator

import pytest
from canned import CannedServer, canned

from lib.kube.api import Api
from lib.kube.informer import Informer

OBJECTS = {
    "nodes": [{"metadata": {"name": "n1", "uid": "n1", "resourceVersion": "1"}}],
    "pods": [
        {
            "metadata": {"namespace": "default", "name": "web", "uid": "web", "resourceVersion": "1"},
            "spec": {"schedulerName": "my-scheduler", "containers": [{"name": "main"}]},
        }
    ],
}


@pytest.fixture
def server() -> Iterator[CannedServer]:
    with canned(OBJECTS, by_watch=True) as server:
        yield server


@pytest.fixture
def informer(server: CannedServer) -> Iterator[Informer]:
    with Api(server.url, threading.Event()) as api:
        yield Informer(api, ["my-scheduler"])


LONG = 30.0
"""Seconds that no wait here takes."""


def test_a_wait_ends_at_the_first_change(informer: Informer) -> None:
    names: set[str] = set()
    began = time.monotonic()
    while time.monotonic() < began + LONG:
        names |= {change.object.metadata.name for change in informer.poll().changes}
        if names == {"n1", "web"}:
            break
        informer.wait(LONG)
    assert time.monotonic() < began + LONG


def test_a_wait_ends_when_a_watch_must_be_opened(informer: Informer, server: CannedServer) -> None:
    began = time.monotonic()
    informer.wait(LONG)
    assert time.monotonic() < began + LONG
    assert server.reads == []
