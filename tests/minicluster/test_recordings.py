"""The embedded server gives the answers that a real kube-apiserver 1.36 gave.

The recorded requests are sent again, in their order, to a fresh server without nodes and without stand-ins
(the real one ran alone as well). Each exchange is a test of its own: its status, headers, reason and
message are the same and its body has the same shape.
"""

import gzip
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest
from cluster import http_client

from scripts.servers.embedded import minicluster

RECORDING = Path(__file__).parent.parent / "data" / "apiserver-1.36.jsonl.gz"
EXCHANGES: list[dict[str, Any]] = [
    json.loads(line) for line in gzip.decompress(RECORDING.read_bytes()).splitlines()
]
HEADERS = ("Content-Type", "Retry-After")
# What an answer generates and a later request may name.
GENERATED = {"uid", "resourceVersion", "continue", "name"}


@dataclass
class Answer:
    status: int
    headers: dict[str, str]
    body: Any


@dataclass
class Replay:
    """Sends what was recorded, with the values that this server generated in place of the real one's."""

    client: httpx.Client
    ours: dict[str, str] = field(default_factory=dict)

    def send(self, exchange: dict[str, Any]) -> Answer:
        request, recorded = exchange["request"], exchange["response"]
        body = request["body"]
        content = body if isinstance(body, str) or body is None else self.translated(json.dumps(body))
        path, sent = self.translated(request["path"]), {"method": request["method"], "content": content}
        if "watch=1" in path and isinstance(recorded["body"], list):
            answer = self.watch(path, len(recorded["body"]), request["headers"])
        else:
            response = self.client.request(url=path, headers=request["headers"], **sent)
            is_json = response.headers["Content-Type"].startswith("application/json")
            answer = Answer(
                response.status_code, dict(response.headers), response.json() if is_json else response.text
            )
        self.learn(recorded["body"], answer.body)
        return answer

    def watch(self, path: str, count: int, headers: dict[str, str]) -> Answer:
        """As many events as the recorder read; where it read none, until the server ends the watch."""
        events = []
        with self.client.stream("GET", path, headers=headers) as response:
            for line in response.iter_lines():
                events.append(json.loads(line))
                if len(events) == count:
                    break
        return Answer(response.status_code, dict(response.headers), events)

    def translated(self, text: str) -> str:
        for theirs, ours in self.ours.items():
            if theirs == ours or theirs not in text:
                continue
            text = re.sub(rf"(?<![\w-]){re.escape(theirs)}(?![\w-])", ours, text)
        return text

    def learn(self, theirs: Any, ours: Any) -> None:
        if isinstance(theirs, dict) and isinstance(ours, dict):
            for key in theirs.keys() & ours.keys():
                if key == "metadata":
                    self.ours |= {
                        theirs[key][k]: ours[key][k]
                        for k in GENERATED & theirs[key].keys() & ours[key].keys()
                    }
                self.learn(theirs[key], ours[key])
        elif isinstance(theirs, list) and isinstance(ours, list) and len(theirs) == len(ours):
            for one, other in zip(theirs, ours, strict=True):
                self.learn(one, other)


@pytest.fixture(scope="module")
def answers() -> Iterator[list[Answer]]:
    with minicluster("--nodes", "0", "--bare") as server, http_client(server) as client:
        replay = Replay(client)
        yield [replay.send(exchange) for exchange in EXCHANGES]


@pytest.mark.parametrize(
    "number", range(len(EXCHANGES)), ids=lambda n: f"{n}-{EXCHANGES[n]['step'].replace(' ', '-')}"
)
def test_answers_as_the_real_server(answers: list[Answer], number: int) -> None:
    recorded, ours = EXCHANGES[number]["response"], answers[number]
    assert ours.status == recorded["status"]
    for header in HEADERS:
        assert ours.headers.get(header.lower()) == recorded["headers"].get(header)
    if isinstance(recorded["body"], dict) and recorded["body"].get("kind") == "Status":
        assert_same_status(recorded["body"], ours.body)
    else:
        assert_same_shape(without_strangers(recorded["body"]), ours.body, "")


def assert_same_status(theirs: dict[str, Any], ours: dict[str, Any]) -> None:
    assert comparable(theirs.get("message", "")) == comparable(ours.get("message", ""))
    for body in (theirs, ours):
        body.pop("message", None)
        for cause in (body.get("details") or {}).get("causes", ()):
            cause["message"] = comparable(cause["message"])
        if re.search(r"-\w{5}$", (body.get("details") or {}).get("name", "")):
            body["details"]["name"] = comparable(body["details"]["name"])
    assert theirs == ours


def comparable(message: str) -> str:
    """A text without what was generated: uids, random names, versions, ages; and without Go's own words."""
    message = re.sub(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", "UID", message)
    message = re.sub(r"-[bcdfghjklmnpqrstvwxz2456789]{5}\b", "-RANDOM", message)
    message = re.sub(r"^\d+[smhd](\d+[smhd])?$", "AGE", message)
    message = re.sub(r"(current: )\d+", r"\1VERSION", message)
    # How a decoder says what it stumbled over is its own affair.
    message = re.sub(r"(json parse error: |continue key is not valid: ).*", r"\1DECODER", message)
    # The diff after this shows Go's fields in Go's order.
    return re.sub(r"(if it was previously negative\)\n@@).*", r"\1 DIFF", message, flags=re.DOTALL)


def without_strangers(body: Any) -> Any:
    """The recording without what its surroundings put there and no scheduler's cluster has.

    It is one of OpenShift's builds, which tells that it is ready by an event KubeAPIReadyz.
    """
    if isinstance(body, dict):
        for part in ("items", "rows"):
            if part in body:
                body = {
                    **body,
                    part: [item for item in body[part] if "KubeAPIReadyz" not in json.dumps(item)],
                }
    return body


def assert_same_shape(theirs: Any, ours: Any, path: str) -> None:
    """The same keys all the way down, lists as long, values equal unless they are generated."""
    if path.endswith(".managedFields"):
        assert ours, path
    elif isinstance(theirs, dict):
        assert isinstance(ours, dict), path
        if described := DESCRIBED.get(theirs.get("kind", "")):
            part, name = described
            assert_described(theirs, ours, part, name)
            return
        assert set(theirs) == set(ours), path
        for key, value in theirs.items():
            assert_same_shape(value, ours[key], f"{path}.{key}")
    elif isinstance(theirs, list):
        assert isinstance(ours, list), path
        assert len(theirs) == len(ours), path
        for at, value in enumerate(theirs):
            assert_same_shape(value, ours[at], f"{path}[{at}]")
    elif path.endswith(FREE):
        assert type(theirs) is type(ours), path
    elif isinstance(theirs, str):
        assert comparable(theirs) == comparable(ours), path
    else:
        assert theirs == ours, path


# What may differ in value, though not in type: what is generated, when it happened, who the server is.
FREE = (
    ".uid",
    ".resourceVersion",
    ".creationTimestamp",
    ".deletionTimestamp",
    ".lastTransitionTime",
    ".continue",
    ".description",
    ".serverAddress",
    ".gitCommit",
    ".goVersion",
    ".compiler",
    ".platform",
)
# Lists of resources may be shorter than the real ones; what stands in ours is described as it is in theirs.
DESCRIBED = {
    "APIGroupList": ("groups", "name"),
    "APIResourceList": ("resources", "name"),
    "APIGroupDiscoveryList": ("items", "metadata"),
}
# The real server that was recorded has the gates for gangs off, which are on in ours.
GATED = ("v1alpha2",)


def assert_described(theirs: dict[str, Any], ours: dict[str, Any], part: str, name: str) -> None:
    assert {k: v for k, v in theirs.items() if k != part} == {k: v for k, v in ours.items() if k != part}
    real = {json.dumps(entry[name]): entry for entry in theirs[part]}
    assert ours[part]
    for entry in ours[part]:
        assert_part_of(entry, real[json.dumps(entry[name])])


def assert_part_of(ours: Any, theirs: Any) -> None:
    """Equal, but for the subresources, resources and versions that only the real one has."""
    if isinstance(ours, dict):
        assert set(ours) == set(theirs) or set(theirs) - set(ours) == {"subresources"}
        for key, value in ours.items():
            if key in ("resources", "subresources", "versions"):
                label = key.removesuffix("s")
                real = {entry[label]: entry for entry in theirs[key]}
                assert value
                for entry in value:
                    if entry[label] not in GATED:
                        assert_part_of(entry, real[entry[label]])
            else:
                assert value == theirs[key]
    else:
        assert ours == theirs


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        ({"a": {"b": 1}}, {"a": {}}),
        ({"a": {}}, {"a": {"b": 1}}),
        ({"a": [1, 2]}, {"a": [1]}),
        ({"a": "x"}, {"a": "y"}),
        ({"a": None}, {"a": "y"}),
        ({"metadata": {"uid": "x"}}, {"metadata": {"uid": 1}}),
        ({"metadata": {"name": "web-1"}}, {"metadata": {"name": "web-2"}}),
        ({"metadata": {"managedFields": [{}]}}, {"metadata": {"managedFields": []}}),
        ({"rows": [{"cells": ["Ready", "3s"]}]}, {"rows": [{"cells": ["Unknown", "4s"]}]}),
    ],
)
def test_the_comparison_tells_bodies_apart(theirs: dict[str, Any], ours: dict[str, Any]) -> None:
    with pytest.raises(AssertionError):
        assert_same_shape(theirs, ours, "")
