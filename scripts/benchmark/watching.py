"""The bench's own watch, directly at the API server: when does each pod get its node?"""

import http.client
import socket
import threading
import time
from contextlib import suppress
from types import TracebackType
from urllib.parse import urlencode

import msgspec

from scripts.benchmark.arena import PODS, Arena
from scripts.benchmark.client import connect
from scripts.benchmark.processes import FailedError


class _Metadata(msgspec.Struct):
    name: str = ""


class _Pod(msgspec.Struct):
    metadata: _Metadata


class _Event(msgspec.Struct):
    type: str
    object: _Pod


class Bindings:
    """Notes when pods that name a scheduler are seen bound; use as `with Bindings(...) as bindings`."""

    def __init__(self, arena: Arena, scheduler_name: str) -> None:
        self.seen: dict[str, float] = {}  # by pod name: on the clock of time.monotonic
        self._changed = threading.Condition()
        self._ended = False
        query = {
            "watch": "1",
            "resourceVersion": arena.resource_version(),
            "fieldSelector": f"spec.nodeName!=,spec.schedulerName={scheduler_name}",
        }
        self._connection = connect(arena.url, arena.tls, timeout=None)
        self._connection.request("GET", f"{PODS}?{urlencode(query)}")
        self._answer = self._connection.getresponse()
        assert self._connection.sock
        self._socket: socket.socket = self._connection.sock
        self._thread = threading.Thread(target=self._note, daemon=True)

    def __enter__(self) -> "Bindings":
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # Ends the thread's reading; TLS would first want to say goodbye.
        socket.socket.shutdown(self._socket, socket.SHUT_RDWR)
        self._thread.join()
        self._connection.close()

    def wait_for(self, number: int, seconds: float) -> bool:
        """Whether so many pods are seen bound within so many seconds."""
        with self._changed:
            self._changed.wait_for(lambda: self._ended or len(self.seen) >= number, seconds)
        if self._ended:
            raise FailedError("the bench's own watch has ended; run it again")
        return len(self.seen) >= number

    @property
    def last(self) -> float:
        """When the last of them was seen."""
        return max(self.seen.values())

    def _note(self) -> None:
        decoder = msgspec.json.Decoder(_Event)
        with suppress(OSError, ValueError, http.client.HTTPException, msgspec.MsgspecError):  # cut off
            for line in self._answer:
                now = time.monotonic()
                event = decoder.decode(line)
                if event.type == "ADDED":  # to what the selector lets through
                    with self._changed:
                        self.seen[event.object.metadata.name] = now
                        self._changed.notify_all()
                elif event.type == "ERROR":
                    break
        with self._changed:
            self._ended = True
            self._changed.notify_all()
