"""A small extender for tests: a real HTTP server that gives set answers, and keeps the requests."""

import json
import ssl
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import yaml

Json = Any
Verbs = Mapping[str, Callable[[Json], Json]]
"""By verb, returns the answer to a request. An int is a status code with a body that isn't JSON."""


@dataclass
class RunningExtender:
    """Its address; the verb and body of each request, in order; and the last Authorization header."""

    url: str
    sent: list[tuple[str, Json]] = field(default_factory=list)
    authorization: str | None = None

    def bodies(self, verb: str) -> list[Json]:
        return [body for each, body in self.sent if each == verb]


@contextmanager
def extender(verbs: Verbs, tls: ssl.SSLContext | None = None) -> Iterator[RunningExtender]:
    """Run an extender on loopback, over HTTPS if it has a certificate."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            verb = self.path.rsplit("/", 1)[-1]
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            running.sent.append((verb, body))
            running.authorization = self.headers["Authorization"]
            answer = verbs[verb](body)
            status, words = (
                (answer, b"out of order") if isinstance(answer, int) else (200, json.dumps(answer).encode())
            )
            self.send_response(status)
            self.send_header("Content-Length", str(len(words)))
            self.end_headers()
            self.wfile.write(words)

        def log_message(self, format: str, *args: object) -> None:
            """Stay quiet: `sent` is the log."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        if tls:
            server.socket = tls.wrap_socket(server.socket, server_side=True)
        scheme = "https" if tls else "http"
        running = RunningExtender(f"{scheme}://127.0.0.1:{server.server_port}/x")
        accepting = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        accepting.start()
        try:
            yield running
        finally:
            server.shutdown()
            accepting.join()


def configuration(folder: Path, *extenders: Json) -> str:
    """A KubeSchedulerConfiguration with these extenders, as the option for poller."""
    file = folder / "scheduler.yaml"
    whole = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "extenders": list(extenders),
    }
    file.write_text(yaml.safe_dump(whole))
    return f"--config={file}"
