"""Fast requests to an API server: several keep-alive connections of the standard library."""

import http.client
import json
import ssl
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

Json = dict[str, Any]

THREADS = 8
TIMEOUT = 120.0
MERGE = "application/merge-patch+json"


class RefusedError(Exception):
    """The API server has refused a request."""


@dataclass(frozen=True)
class Request:
    method: str
    path: str
    body: Json | None = None
    content_type: str = "application/json"


class Client:
    """One keep-alive connection, to an API server or to a proxy."""

    def __init__(self, url: str, tls: ssl.SSLContext | None = None) -> None:
        self.connection = connect(url, tls)

    def send(self, request: Request) -> bytes:
        """Returns the answer's body; RefusedError if the answer isn't a success."""
        body = None if request.body is None else json.dumps(request.body)
        headers = {"Content-Type": request.content_type, "Accept": "application/json"}
        self.connection.request(request.method, request.path, body, headers)
        answer = self.connection.getresponse()
        content = answer.read()
        if answer.status >= 300:
            raise RefusedError(f"{request.method} {request.path}: {answer.status} {content.decode()[:300]}")
        return content

    def get(self, path: str) -> Json:
        return dict(json.loads(self.send(Request("GET", path))))

    def close(self) -> None:
        self.connection.close()


def connect(url: str, tls: ssl.SSLContext | None) -> http.client.HTTPConnection:
    address = urlsplit(url).netloc
    if tls:
        return http.client.HTTPSConnection(address, context=tls, timeout=TIMEOUT)
    return http.client.HTTPConnection(address, timeout=TIMEOUT)


def send_all(clients: Sequence[Client], requests: Sequence[Request]) -> None:
    """Send many requests over all connections at once. The first refusal ends that, and is raised."""
    ended = threading.Event()

    def send_share(number: int) -> None:
        for request in requests[number :: len(clients)]:
            if ended.is_set():
                return
            clients[number].send(request)

    with ThreadPoolExecutor(len(clients)) as pool:
        try:
            list(pool.map(send_share, range(len(clients))))
        finally:
            ended.set()  # also on ^C: the pool waits for its threads


def clients(number: int, new: Callable[[], Client]) -> list[Client]:
    return [new() for _ in range(number)]
