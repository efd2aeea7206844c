"""What a watch tells, line by line, and whether the next one goes on from there."""

import json
import threading
from queue import Queue
from typing import Any

import pytest
from faults import ALWAYS, Fault, answer, faulty

from lib.kube.api import Api
from lib.kube.changes import Change
from lib.kube.errors import AnswerError, ApiError, ServerError
from lib.kube.objects import Node
from lib.kube.reflector import Reflector, WatchLine
from lib.kube.resources import NODES
from lib.kube.store import one_store


def node(name: str, version: str, **more: Any) -> dict[str, Any]:
    names = {"name": name, "uid": name, "resourceVersion": version}
    return {"kind": "Node", "apiVersion": "v1", "metadata": names, **more}


def event(kind: str, name: str, version: str, **more: Any) -> str:
    return json.dumps({"type": kind, "object": node(name, version, **more)})


def error(code: int) -> str:
    status = {"kind": "Status", "status": "Failure", "code": code, "message": "no"}
    return json.dumps({"type": "ERROR", "object": status})


LISTED = answer(
    200,
    json.dumps({"kind": "NodeList", "metadata": {"resourceVersion": "5"}, "items": [node("n1", "1")]}),
)
BAD = {"spec": 5}


@pytest.mark.parametrize(
    ("lines", "told", "unreadable", "version", "trouble"),
    [
        pytest.param([], [], "", "5", None, id="its time is up"),
        pytest.param([event("ADDED", "n2", "6")], ["ADDED n2"], "", "6", None, id="added"),
        pytest.param([event("MODIFIED", "n1", "6")], ["MODIFIED n1"], "", "6", None, id="modified"),
        pytest.param([event("DELETED", "n1", "6")], ["DELETED n1"], "", "6", None, id="deleted"),
        pytest.param([event("BOOKMARK", "", "9")], [], "", "9", None, id="a bookmark"),
        pytest.param([event("ADDED", "n2", "6", **BAD)], [], "n2", "6", None, id="it was never readable"),
        pytest.param(
            [event("ADDED", "n2", "6", **BAD), event("MODIFIED", "n2", "7")],
            *(["ADDED n2"], "", "7", None),
            id="it can be read now",
        ),
        pytest.param(
            [event("ADDED", "n2", "6", **BAD), event("DELETED", "n2", "7", **BAD)],
            *([], "", "7", None),
            id="it was never readable, and is gone",
        ),
        # Then a list must come first.
        pytest.param(
            [event("MODIFIED", "n1", "6", **BAD), event("ADDED", "n2", "7")],
            *(["DELETED n1"], "n1", "", None),
            id="it can't be read any more",
        ),
        pytest.param([event("ADDED", "n2", "6"), error(410)], ["ADDED n2"], "", "", None, id="too old"),
        pytest.param([error(500)], [], "", "", ServerError, id="an error"),
        pytest.param(["<html>"], [], "", "", AnswerError, id="no watch at all"),
    ],
)
def test_what_a_watch_tells_and_where_the_next_one_begins(
    lines: list[str], told: list[str], unreadable: str, version: str, trouble: type[ApiError] | None
) -> None:
    faults = (
        Fault("GET", r"nodes\?limit", LISTED),
        Fault("GET", "watch=1", answer(200, "".join(f"{line}\n" for line in lines))),
    )
    queue = Queue[WatchLine]()
    with faulty("http://127.0.0.1:9", *faults) as between, Api(between.url, threading.Event()) as api:
        reflector = Reflector[Node](api, NODES, NODES.path, one_store(), queue)
        assert [str(change.object) for change in reflector.list()] == ["n1"]
        reflector.open()
        assert reflector.pause is None
        changes: list[Change[Node]] = []
        line: object = b""
        while isinstance(line, bytes):
            _, watch, line = queue.get(timeout=30)
            changes += reflector.handle_event(watch, line)
    assert [f"{change.kind.name} {change.object}" for change in changes] == told
    assert (" ".join(reflector.unreadable), reflector.version) == (unreadable, version)
    assert type(reflector.trouble) is (trouble or type(None))
    assert reflector.pause is not None


@pytest.mark.parametrize(("code", "lists"), [(410, 2), (200, 1)], ids=["too old", "known"])
def test_a_watch_from_a_version_that_is_too_old_is_opened_after_a_new_list(code: int, lists: int) -> None:
    status = json.dumps({"kind": "Status", "status": "Failure", "code": code, "message": "too old"})
    faults = (
        Fault("GET", r"nodes\?limit", LISTED, ALWAYS),
        Fault("GET", "watch=1", answer(code, status if code == 410 else "")),
        Fault("GET", "watch=1", answer(200), ALWAYS),
    )
    queue = Queue[WatchLine]()
    with faulty("http://127.0.0.1:9", *faults) as between, Api(between.url, threading.Event()) as api:
        reflector = Reflector[Node](api, NODES, NODES.path, one_store(), queue)
        assert reflector.pause == 0.0
        reflector.resume(reflector.list)
        reflector.suspend()
        assert reflector.version == "5"
        queue.get(timeout=30)
    assert len([path for _, path in between.requests if "limit=" in path]) == lists
