"""The body of an answer: until when it must be complete, how large it may be, how it may be compressed."""

import gzip
from collections.abc import Iterator

import httpx
import pytest

from lib.kube.attempt import read_all
from lib.kube.errors import LostAnswerError, TooLargeError
from lib.kube.system import System


class Slow(httpx.SyncByteStream):
    """A body of so many bytes; each takes a second by the clock of its machine."""

    def __init__(self, size: int) -> None:
        self.machine, self.now = System(), 100.0
        self.machine.monotonic = lambda: self.now
        self._size = size

    def __iter__(self) -> Iterator[bytes]:
        for _ in range(self._size):
            self.now += 1
            yield b"x"

    def read(self) -> bytes:
        return read_all(httpx.Response(200, stream=self), "GET /x", system=self.machine)


def test_a_body_must_be_complete_in_time() -> None:
    """A server could send one byte now and then, for ever."""
    assert Slow(60).read() == b"x" * 60
    slow = Slow(10_000)
    with pytest.raises(LostAnswerError, match="GET /x: the answer isn't complete after 60 s"):
        slow.read()
    assert slow.now == 161.0


def test_a_body_has_a_largest_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lib.kube.attempt.MAX_BODY", 40)
    assert len(Slow(40).read()) == 40
    with pytest.raises(TooLargeError, match="GET /x: the answer is larger than "):
        Slow(41).read()


@pytest.mark.parametrize("encoding", ["gzip", "GZIP", "gzip, gzip", "deflate"])
def test_a_body_may_be_compressed_once(encoding: str) -> None:
    """If it were compressed several times, a few bytes could fill the memory."""
    body = httpx.ByteStream(gzip.compress(b"text"))
    answer = httpx.Response(200, headers={"Content-Encoding": encoding}, stream=body)
    if encoding.lower() == "gzip":
        assert read_all(answer, "GET /x") == b"text"
    else:
        with pytest.raises(httpx.DecodingError, match="expected gzip"):
            read_all(answer, "GET /x")
