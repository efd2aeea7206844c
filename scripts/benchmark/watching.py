"""The bench's own watch of pods, directly at the API server: when does each pod get its node?"""

import http.client
import socket
import threading
import time
from collections.abc import Sequence
from contextlib import closing, suppress
from types import TracebackType
from typing import Self
from urllib.parse import urlencode

import msgspec

from scripts.benchmark.arena import PODS, Arena
from scripts.benchmark.client import RefusedError, Request, connect
from scripts.benchmark.processes import FailedError

RESTART_PAUSE = 0.01
"""Seconds from the end of a watch until the next one is started."""

BROKEN_OFF = (OSError, http.client.HTTPException, msgspec.MsgspecError)
"""What reading raises when the connection ends in the middle of an answer."""


class PodMetadata(msgspec.Struct, rename="camel"):
    name: str = ""
    namespace: str = ""
    uid: str = ""
    labels: dict[str, str] = {}
    resource_version: str = ""


class PodSpec(msgspec.Struct, rename="camel"):
    node_name: str = ""


class PodCondition(msgspec.Struct):
    type: str


class PodStatus(msgspec.Struct):
    conditions: list[PodCondition] = []


class Pod(msgspec.Struct):
    """A pod, as far as the bench reads it."""

    metadata: PodMetadata = msgspec.field(default_factory=PodMetadata)
    spec: PodSpec = msgspec.field(default_factory=PodSpec)
    status: PodStatus = msgspec.field(default_factory=PodStatus)


class _Event(msgspec.Struct):
    type: str
    object: Pod


class _Pods(msgspec.Struct):
    items: list[Pod]
    metadata: PodMetadata


class PodWatch:
    """Notes what is seen of pods; use as `with ... as pods`. selector: of fields.

    The API server may end a watch at any time: after its time limit, or because the client reads too slowly,
    as it does on a busy machine. The next watch then starts after the last event. If the server no longer has
    the events since then, the pods are listed again. What happens between two watches is noted a little
    later than it happened.
    """

    def __init__(self, arena: Arena, selector: str = "") -> None:
        self._arena = arena
        self._path = f"{PODS}?{urlencode({'fieldSelector': selector})}"
        self._changed = threading.Condition()
        self._stopping = False
        self._problem: Exception | None = None
        self._socket: socket.socket | None = None
        self._thread = threading.Thread(target=self._run, args=(self._list(),), daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._changed:
            self._stopping = True
            if self._socket:
                with suppress(OSError):  # the server has closed the connection
                    # This ends the thread's reading. TLS's own shutdown would wait for the server.
                    socket.socket.shutdown(self._socket, socket.SHUT_RDWR)
        self._thread.join()

    def check(self) -> None:
        """Raise FailedError if the pods can't be watched."""
        if self._problem:
            raise FailedError(f"the bench can't watch the pods: {self._problem}")

    def _run(self, version: str) -> None:
        """Watch until the block ends. A server that refuses a request, or can't be reached, ends it, too."""
        try:
            while not self._stopping:
                version = self._watch(version) or self._list()
                time.sleep(RESTART_PAUSE)
        except Exception as error:
            with self._changed:
                self._problem = error
                self._changed.notify_all()

    def _list(self) -> str:
        """Note the pods that are there now; returns the list's resource version."""
        with closing(self._arena.new_client()) as client:
            pods = msgspec.json.decode(client.send(Request("GET", self._path)), type=_Pods)
        self._seen(pods.items, time.monotonic())
        return pods.metadata.resource_version

    def _watch(self, version: str) -> str:
        """Note the pods that one watch shows, until it ends.

        Returns the resource version of the last event; "" if the server no longer has the events after it.
        """
        query = urlencode({"watch": "1", "resourceVersion": version})
        decoder = msgspec.json.Decoder(_Event)
        with closing(connect(self._arena.url, self._arena.tls)) as connection:
            connection.request("GET", f"{self._path}&{query}")
            with self._changed:
                if self._stopping:
                    return version
                self._socket = connection.sock
            with suppress(*BROKEN_OFF):
                answer = connection.getresponse()
                if answer.status == http.HTTPStatus.GONE:
                    return ""
                if answer.status != http.HTTPStatus.OK:
                    raise RefusedError(f"a watch: {answer.status} {answer.read().decode()[:300]}")
                for line in answer:
                    now = time.monotonic()
                    event = decoder.decode(line)
                    if event.type == "ERROR":
                        return ""
                    version = event.object.metadata.resource_version
                    self._seen([event.object], now)
        return version

    def _seen(self, pods: Sequence[Pod], now: float) -> None:
        with self._changed:
            self.note(pods, now)
            self._changed.notify_all()

    def note(self, pods: Sequence[Pod], now: float) -> None:
        """Note pods as they are seen. now: on the clock of time.monotonic."""
        raise NotImplementedError


class Bindings(PodWatch):
    """Notes when pods that name a scheduler are seen bound. At the start no such pod may exist."""

    def __init__(self, arena: Arena, scheduler_name: str) -> None:
        self.seen: dict[str, float] = {}  # by pod name: on the clock of time.monotonic
        super().__init__(arena, f"spec.nodeName!=,spec.schedulerName={scheduler_name}")

    def note(self, pods: Sequence[Pod], now: float) -> None:
        """Note when they were seen first."""
        for pod in pods:
            self.seen.setdefault(pod.metadata.name, now)

    def wait_for(self, number: int, seconds: float) -> bool:
        """Whether so many pods are seen bound within so many seconds."""
        with self._changed:
            self._changed.wait_for(lambda: self._problem or len(self.seen) >= number, seconds)
        self.check()
        return len(self.seen) >= number

    @property
    def last(self) -> float:
        """When the last of them was seen."""
        return max(self.seen.values())
