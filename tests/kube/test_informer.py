"""When a wait for changes of a watched cluster ends."""

import threading
import time

import pytest
from canned import canned

from lib.kube.api import Api
from lib.kube.informer import Informer

LONG = 30.0
"""Seconds that no wait here takes."""


def test_a_wait_ends_when_a_watch_must_be_opened() -> None:
    with canned({}) as server, Api(server.url, threading.Event()) as api:
        informer = Informer(api, ["my-scheduler"])
        began = time.monotonic()
        informer.wait(LONG)
        assert time.monotonic() < began + LONG
        assert server.reads == []


@pytest.mark.parametrize("seconds", [0.0, 0.05])
def test_a_wait_for_changes_ends_after_so_many_seconds(seconds: float) -> None:
    with canned({}) as server, Api(server.url, threading.Event()) as api:
        informer = Informer(api, ["my-scheduler"])
        informer.poll()
        began = time.monotonic()
        informer.wait(seconds)
        assert seconds <= time.monotonic() - began < LONG
