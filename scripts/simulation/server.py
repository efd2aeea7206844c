"""The embedded API server without its web server: a request is handled at once, when it arrives."""

from bisect import bisect_right
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass
from datetime import datetime, timedelta
from random import Random
from typing import Any
from unittest.mock import patch
from urllib.parse import urlsplit
from uuid import UUID

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from scripts.minicluster import errors
from scripts.minicluster.api import Api
from scripts.minicluster.app import Call, request_path
from scripts.minicluster.kubelet import Kubelets
from scripts.minicluster.resources import Resource
from scripts.minicluster.store import Store, Stored, WatchEvent
from scripts.minicluster.volume_controller import VolumeController
from scripts.minicluster.watches import Watch

from .agenda import Agenda
from .process import BEGINNING, Process

Lines = Callable[[Callable[[bytes | None], None], Callable[[], bool]], None]
"""Sends the lines of a watch, and None at its end, as long as the client is there."""


@dataclass(frozen=True)
class Asked:
    """A request: target is the path with its query."""

    method: str
    target: str
    headers: dict[str, str]
    body: bytes

    def __str__(self) -> str:
        return f"{self.method} {self.target}"

    @property
    def is_read(self) -> bool:
        """Whether it changes nothing."""
        return self.method == "GET" or "accessreviews" in self.target

    @property
    def is_list(self) -> bool:
        """Whether it lists pods, nodes, claims and the like."""
        path, _, query = self.target.partition("?")
        return self.method == "GET" and "watch=" not in query and path.rsplit("/", 1)[-1].endswith("s")


@dataclass(frozen=True)
class Answer:
    """An answer. lines: of a watch; its body then is a bookmark of the version from which it watches."""

    code: int
    body: bytes
    headers: dict[str, str]
    lines: Lines | None = None


class _Lagging(Store):
    """The store as another API server has it, which lags behind: for lists alone."""

    def __init__(self, store: Store, version: int) -> None:
        super().__init__(0)
        self._store, self.version = store, version

    def every(self, resource: Resource, namespace: str = "") -> list[Stored]:
        return self._store.every_at(resource, namespace, self.version)

    def every_at(self, resource: Resource, namespace: str, version: int) -> list[Stored]:
        return self._store.every_at(resource, namespace, version)


class Server:
    """The API server's store, and what it answers.

    actor: who writes now; None if it isn't a poller. bookmark_every: seconds between a watch's bookmarks.
    longest_watch: seconds after which it ends a watch.
    """

    def __init__(self, agenda: Agenda, longest_watch: float, history: int = 1000) -> None:
        self.agenda = agenda
        self.store = Store(history)
        self.api = Api(self.store)
        self.actor: Process | None = None
        self.bookmark_every, self.longest_watch = 60.0, longest_watch
        self._watches: list[Callable[[WatchEvent], None]] = []
        self._versions: list[tuple[float, int]] = []  # when each was written
        self.store.listen(self._on_event)

    def _on_event(self, event: WatchEvent) -> None:
        self._versions.append((self.agenda.now, event.version))
        for each in [*self._watches]:
            each(event)

    def version_at(self, when: float) -> int:
        """The version of the cluster at a time."""
        place = bisect_right(self._versions, (when, self.store.version + 1))
        return self._versions[place - 1][1] if place else 0

    def handle(self, process: Process, asked: Asked, lags: float = 0.0) -> Answer:
        """Do what a request asks for. lags: a list is what it was so many seconds ago."""
        url = urlsplit(asked.target)
        if url.path == "/version":
            return Answer(200, b"{}", {"Content-Type": "application/json"})
        target = request_path(url.path)
        if not target:
            return Answer(404, b"404 page not found\n", {"Content-Type": "text/plain"})
        scope = {
            "type": "http",
            "method": asked.method,
            "path": url.path,
            "query_string": url.query.encode(),
            "headers": [
                (name.encode(), value.encode())
                for name, value in asked.headers.items()
                if name != "accept-encoding"  # to compress takes longer than all else
            ],
        }

        async def receive() -> dict[str, Any]:
            return {"type": "http.request", "body": asked.body, "more_body": False}

        api = self.api
        if lags and asked.is_list:
            api = copy(api)
            api.store = _Lagging(self.store, self.version_at(self.agenda.now - lags))
        call = Call(api, Request(scope, receive), target)
        self.actor = process
        try:
            if asked.method == "GET" and call._is_watch():
                return self._watch(call)
            answer = _run(call.answer())
        except errors.ApiError as error:
            headers = {"Retry-After": str(error.retry_after)} if error.retry_after else {}
            return _json(error.code, error.status, headers)
        finally:
            self.actor = None
        return Answer(answer.status_code, bytes(answer.body), {"Content-Type": "application/json"})

    def _watch(self, call: Call) -> Answer:
        query = call.query
        resource = call.target.resource
        version = int(query.get("resourceVersion") or 0)
        watch = Watch(self.store, resource, call.target.namespace, call._selection(), call._shower())
        try:
            past = (
                [watch._line(each) for each in self.store.events_since(resource, version)]
                if version
                else [watch._as_added()]
            )
        except errors.ApiError as error:
            return _json(error.code, error.status, {})

        def lines(send: Callable[[bytes | None], None], gone: Callable[[], bool]) -> None:
            def happened(event: WatchEvent) -> None:
                if gone():
                    self._watches.remove(happened)
                elif event.resource == resource and (line := watch._line(event)):
                    send(line)

            def over() -> None:
                if happened in self._watches:
                    self._watches.remove(happened)
                    send(None)

            def bookmark() -> None:
                if happened in self._watches and not gone():
                    send(watch._bookmark({}))
                    self.agenda.after(self.bookmark_every, bookmark)

            for line in past:
                if line:
                    send(line)
            self._watches.append(happened)
            self.agenda.after(min(float(query.get("timeoutSeconds") or 3600), self.longest_watch), over)
            self.agenda.after(self.bookmark_every, bookmark)

        return Answer(200, watch._bookmark({"resourceVersion": str(version)}), {}, lines)


def _run(coroutine: Any) -> Response:
    """The result of a coroutine that never waits."""
    try:
        coroutine.send(None)
    except StopIteration as end:
        answer: Response = end.value
        return answer
    raise AssertionError("the API server waits for something")


def _json(code: int, said: Any, headers: dict[str, str]) -> Answer:
    return Answer(code, msgspec.json.encode(said), {"Content-Type": "application/json", **headers})


ENDS = "simulation/ends-in"
"""An annotation of a pod: seconds that it takes to end, unless its grace period is shorter."""


class SimulatedKubelets(Kubelets):
    """Kubelets in simulated time. Some pods take a while to end."""

    def __init__(self, api: Api, delay: float, agenda: Agenda) -> None:
        self._agenda = agenda
        super().__init__(api, delay)

    def _look_after(self, pod: Stored) -> None:
        takes = (pod.metadata.get("annotations") or {}).get(ENDS)
        if takes and pod.metadata.get("deletionTimestamp") and pod.content["spec"].get("nodeName"):
            seconds = min(float(takes), pod.metadata["deletionGracePeriodSeconds"])
            self._later(seconds, self._stop, pod.key, pod.metadata["uid"])
        else:
            super()._look_after(pod)

    def _later(self, seconds: float, action: Callable[..., None], *args: object) -> None:
        self._agenda.after(seconds, lambda: action(*args))


class SimulatedVolumes(VolumeController):
    """The controller of volumes in simulated time."""

    def __init__(self, api: Api, delay: float, agenda: Agenda) -> None:
        self._agenda = agenda
        super().__init__(api, delay)

    def _later(self, seconds: float, action: Callable[..., None], *args: object) -> None:
        self._agenda.after(seconds, lambda: action(*args))


class _Date(datetime):
    """The date of the simulation that runs."""

    agenda: Agenda

    @classmethod
    def now(cls, tz: Any = None) -> "datetime":  # type: ignore[override]
        return (BEGINNING + timedelta(seconds=cls.agenda.now)).astimezone(tz)


class _Clock:
    """In place of the module `time` in tenacity."""

    def __init__(self, agenda: Agenda) -> None:
        self._agenda = agenda

    def monotonic(self) -> float:
        return self._agenda.now


@contextmanager
def simulated(agenda: Agenda, seed: int, page: int) -> Iterator[None]:
    """A block in which the server's dates and uids, and tenacity's time and jitter, are simulated.

    page: how many objects of a list poller asks for at a time.
    """
    chance = Random(seed)
    _Date.agenda = agenda

    def uid() -> UUID:
        return UUID(int=chance.getrandbits(128), version=4)

    with (
        patch("scripts.minicluster.clock.datetime", _Date),
        patch("uuid.uuid4", uid),
        patch("secrets.choice", chance.choice),
        patch("tenacity.time", _Clock(agenda)),
        patch("tenacity.wait.random", chance),
        patch("lib.kube.pager.PAGE", page),
    ):
        yield
