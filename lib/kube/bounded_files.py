"""Reads files of which nobody knows who wrote them: how much memory they take is bounded.

10 MB can unpack to 10 GB.
"""

import gzip
import io
import sys
import zlib
from pathlib import Path
from typing import IO, cast

MIB = 2**20

MAX_YAML = 16 * MIB
"""The most bytes of a YAML file, and of characters when each alias is replaced by what it stands for."""

MAX_UNPACKED = 128 * MIB
"""The most bytes that a gzipped file may unpack to. 100,000 saved pods have 70 MB."""

TOO_LARGE = f"unpacks to more than {MAX_UNPACKED // MIB} MiB; if you trust it, unpack it first, with gunzip"

MAX_JSON = 1024 * MIB
"""The most bytes of a JSON file. It is as large on the disk, so nobody reads it by mistake."""

GZIPPED = b"\x1f\x8b"
"""How a gzipped file begins."""

STANDARD_INPUT = Path("-")


class TooMuchError(Exception):
    """A file holds more than it may; the text says how much it may."""


def read_at_most(file: Path, most: int) -> bytes:
    """The content of a file; "-" is standard input. OSError when it can't be read; TooMuchError."""
    if file == STANDARD_INPUT:
        return _read(sys.stdin.buffer, most, f"is larger than {most // MIB} MiB")
    with file.open("rb") as opened:
        return _read(opened, most, f"is larger than {most // MIB} MiB")


def _read(source: IO[bytes] | gzip.GzipFile, most: int, too_much: str) -> bytes:
    """Reads part by part: a read of `most` bytes would take as much memory for a short file."""
    body = bytearray()
    while part := source.read(MIB):
        body += part
        if len(body) > most:
            raise TooMuchError(too_much)
    return bytes(body)


def unpacked(body: bytes) -> bytes:
    """A file's content, unpacked if it is gzipped. OSError when it is damaged; TooMuchError."""
    if not body.startswith(GZIPPED):
        return body
    try:
        with gzip.open(io.BytesIO(body)) as packed:
            return _read(packed, MAX_UNPACKED, TOO_LARGE)
    except (EOFError, zlib.error) as error:
        raise OSError(f"gzip: {error}") from error


def unpacking(file: Path) -> IO[bytes]:
    """A file to be read in pieces, unpacked if it is gzipped. OSError when it can't be read."""
    with file.open("rb") as raw:
        packed = raw.peek(2)[:2] == GZIPPED
    return cast(IO[bytes], gzip.open(file)) if packed else file.open("rb")
