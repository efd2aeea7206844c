"""What is fuzzed: each target takes bytes, and raises nothing but the errors that its callers expect."""

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from random import Random
from tempfile import gettempdir
from typing import Any

import httpx
import msgspec

from lib.kube.attempt import read_all
from lib.kube.decoding import continue_of, decode_event, decode_page
from lib.kube.errors import ApiError
from lib.kube.objects import UNREADABLE, LabelSelector, Node, NodeSelector, Pod, decode_hook
from lib.kube.quantity import Quantity
from lib.kube.selectors import matches_node, selects
from lib.kube.storage import PersistentVolume, PersistentVolumeClaim
from lib.kube.system import MACHINE
from lib.kube.transport import KeepAliveTransport
from lib.questions.errors import QuestionError
from lib.questions.files import read_files
from lib.questions.snapshot import Snapshot
from lib.scheduling.cache import Cache
from lib.scheduling.extender import Extender
from lib.scheduling.plugins.registry import default_profile
from lib.scheduling.preemption.victims import Victims
from lib.scheduling.scheduling_cycle import Scheduler
from lib.scheduling.status import ExtenderError
from lib.service.config import ConfigError
from lib.service.config.file import read_config

from . import corpus

MOST_PODS = 3
"""Of a cluster that are decided on."""

FILE = Path(gettempdir()) / f"poller-fuzz-{MACHINE.random().getrandbits(48):x}"


@dataclass(frozen=True)
class FuzzTarget:
    """run: takes an input. corpus: inputs to begin with."""

    run: Callable[[bytes], object]
    corpus: Sequence[bytes]


def _quantity(data: bytes) -> None:
    with suppress(ValueError):
        found = Quantity.parse(data.decode(errors="replace"))
        assert isinstance(found.milli + found.value, int)


def _page(kind: Any) -> Callable[[bytes], object]:
    def run(data: bytes) -> None:
        continue_of(data)
        with suppress(ApiError):
            decode_page(data, kind, "GET /fuzzed", {})

    return run


def _frame(kind: Any) -> Callable[[bytes], object]:
    def run(data: bytes) -> None:
        with suppress(ApiError):
            decode_event(data, kind, "WATCH /fuzzed")

    return run


_selectors: msgspec.json.Decoder[tuple[LabelSelector, NodeSelector]] = msgspec.json.Decoder(
    tuple[LabelSelector, NodeSelector], dec_hook=decode_hook
)

_NODE = msgspec.json.decode(
    b'{"metadata":{"name":"n1","labels":{"zone":"a","size":"9"}}}', type=Node, dec_hook=decode_hook
)


def _selector(data: bytes) -> None:
    try:
        of_labels, of_nodes = _selectors.decode(data)
    except UNREADABLE:
        return
    selects(of_labels, {"app": "web", "zone": "a"})
    matches_node(of_nodes, _NODE)


def _from_file(data: bytes) -> Snapshot | None:
    FILE.write_bytes(data)
    try:
        return read_files([FILE])
    except QuestionError:
        return None


def _decide(data: bytes) -> None:
    """Read a cluster as `--from` does, and decide on its pods."""
    if snapshot := _from_file(data):
        pods = snapshot.of(Pod)
        cache = Cache(snapshot.of(Node), [each for each in pods if each.spec.node_name])
        scheduler = Scheduler(default_profile("my-scheduler"), Random(1))
        for pod in [each for each in pods if not each.spec.node_name][:MOST_PODS]:
            scheduler.schedule_one(pod, cache)


def _configuration(data: bytes) -> None:
    FILE.write_bytes(data)
    with suppress(ConfigError):
        config, _ = read_config(FILE)
        [*config.ignored(())]


class _Said:
    """The connection to an extender that always gives the same answer."""

    def __init__(self, answer: bytes) -> None:
        self._answer = answer

    def send(self, url: str, body: bytes) -> bytes:
        return self._answer

    def whole_pod(self, pod: Pod) -> msgspec.Raw:
        return msgspec.Raw(b"{}")

    def whole_nodes(self, nodes: Sequence[Node]) -> list[msgspec.Raw]:
        return []


def _cluster() -> tuple[Cache, Pod]:
    pod: Pod = msgspec.json.decode(
        b'{"metadata":{"name":"p","namespace":"default","uid":"u1"},"spec":{"nodeName":"n1","containers":[]}}',
        type=Pod,
        dec_hook=decode_hook,
    )
    return Cache([_NODE], [pod]), pod


_CACHE, _POD = _cluster()


def _extender(data: bytes) -> None:
    extender = Extender("http://fuzzed", _Said(data), "filter", "prioritize", "preempt", "bind")
    nodes = _CACHE.node_list
    asked: tuple[Callable[[], object], ...] = (
        lambda: extender.filter(_POD, nodes),
        lambda: extender.prioritize(_POD, nodes),
        lambda: extender.process_preemption(_POD, {"n1": Victims("n1", (_POD,), 0)}, _CACHE),
        lambda: extender.bind(_POD, "n1"),
    )
    for each in asked:
        with suppress(ExtenderError):
            each()


class _Sent:
    """A socket whose other end has sent these bytes, and has closed the connection."""

    def __init__(self, data: bytes) -> None:
        self._parts = [data[: len(data) // 2], data[len(data) // 2 :], b""]

    def recv(self, _: int) -> bytes:
        return self._parts.pop(0) if self._parts else b""

    def fileno(self) -> int:
        return 0

    def settimeout(self, _: object) -> None:
        """It never waits."""

    def sendall(self, _: bytes) -> None:
        """Nobody reads."""

    def close(self) -> None:
        """Nothing is open."""


def _answer(data: bytes) -> None:
    """An HTTP answer, with its head."""
    transport = KeepAliveTransport(lambda _: _Sent(data))  # type: ignore[arg-type, return-value]
    timeout = httpx.Timeout(1.0).as_dict()
    request = httpx.Request("GET", "http://localhost/x", extensions={"timeout": timeout})
    with suppress(httpx.HTTPError, ApiError):
        read_all(transport.send(request).receive(), "GET /x")
    transport.close()


TARGETS: Mapping[str, FuzzTarget] = {
    "quantities": FuzzTarget(_quantity, [each.encode() for each in corpus.QUANTITIES]),
    "pods": FuzzTarget(_page(Pod), corpus.lists("Pod")),
    "nodes": FuzzTarget(_page(Node), corpus.lists("Node")),
    "claims": FuzzTarget(_page(PersistentVolumeClaim), corpus.lists("PersistentVolumeClaim")),
    "volumes": FuzzTarget(_page(PersistentVolume), corpus.lists("PersistentVolume")),
    "watched pods": FuzzTarget(_frame(Pod), corpus.frames("Pod")),
    "watched nodes": FuzzTarget(_frame(Node), corpus.frames("Node")),
    "selectors": FuzzTarget(_selector, corpus.selectors()),
    "clusters": FuzzTarget(_decide, corpus.clusters()),
    "configurations": FuzzTarget(_configuration, corpus.configurations()),
    "extenders": FuzzTarget(_extender, corpus.extender_answers()),
    "answers": FuzzTarget(_answer, corpus.answers()),
}
"""By name. `clusters` are files as `--from` reads them, and decisions on their pods."""


def as_text(data: bytes) -> str:
    """An input as a message shows it."""
    return json.dumps(data[:200].decode(errors="backslashreplace"))
