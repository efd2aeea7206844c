"""A TCP relay that counts bytes, and can hold them back; TLS passes unchanged."""

import socket
import socketserver
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from urllib.parse import urlsplit

CHUNK = 1 << 16


class Relay(socketserver.ThreadingTCPServer):
    """Listens on a free port of loopback and passes everything on; `bytes` counts both directions.

    passing: as long as it isn't set, nothing passes, and nobody is told.
    """

    daemon_threads = True
    block_on_close = False

    def __init__(self, url: str) -> None:
        super().__init__(("127.0.0.1", 0), _Passing)
        target = urlsplit(url)
        assert target.hostname
        assert target.port
        self.target = target.hostname, target.port
        self.url = f"{target.scheme}://127.0.0.1:{self.server_address[1]}"
        self.bytes = 0
        self.passing = threading.Event()
        self.passing.set()
        self._lock = threading.Lock()

    def pump(self, source: socket.socket, sink: socket.socket) -> None:
        """Pass on the bytes from one side to the other, until it closes."""
        with suppress(OSError):
            while chunk := source.recv(CHUNK):
                with self._lock:
                    self.bytes += len(chunk)
                self.passing.wait()
                sink.sendall(chunk)
        with suppress(OSError):
            sink.shutdown(socket.SHUT_WR)


class _Passing(socketserver.BaseRequestHandler):
    server: Relay
    request: socket.socket

    def handle(self) -> None:
        with socket.create_connection(self.server.target) as server:
            for each in (self.request, server):
                each.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            back = threading.Thread(target=self.server.pump, args=(server, self.request), daemon=True)
            back.start()
            self.server.pump(self.request, server)
            back.join()


@contextmanager
def relay(url: str) -> Iterator[Relay]:
    """Run a relay in front of this server for as long as the block takes."""
    with Relay(url) as running:
        thread = threading.Thread(target=running.serve_forever, daemon=True)
        thread.start()
        try:
            yield running
        finally:
            running.passing.set()  # so that its threads end
            running.shutdown()
