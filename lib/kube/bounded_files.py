"""Reads files of which nobody knows who wrote them: how much memory they take is bounded.

500 bytes of YAML can stand for billions of values, by aliases of aliases; 10 MB can unpack to 10 GB; deep
nesting overflows the C stack of YAML's parser. As for kubectl, 1:30 and 2026-01-01 are strings.

Source: decode.go of sigs.k8s.io/yaml/goyaml.v2, which refuses "excessive aliasing" and depth likewise
"""

import gzip
import io
import re
import sys
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, cast

import yaml

MIB = 2**20

MAX_YAML = 16 * MIB
"""The most bytes of a YAML file, and of characters when each alias is replaced by what it stands for."""

MAX_DEPTH = 200
"""The deepest nesting of YAML. A pod's fields are up to 20 deep."""

MAX_UNPACKED = 128 * MIB
"""The most bytes that a gzipped file may unpack to. 100,000 saved pods have 70 MB."""

TOO_LARGE = f"unpacks to more than {MAX_UNPACKED // MIB} MiB; if you trust it, unpack it first, with gunzip"

MAX_JSON = 1024 * MIB
"""The most bytes of a JSON file. It is as large on the disk, so nobody reads it by mistake."""

TAGS = (None, "!", *(f"tag:yaml.org,2002:{name}" for name in ("str", "seq", "map")))
"""The tags that may be written before a value. With others, a short text could be slow to read."""

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


class Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]  # the fast one, if it is there
    """Constructs what `check_yaml` has accepted. Times and numbers to the base of 60 stay strings."""


def _resolvers() -> dict[str, list[tuple[str, re.Pattern[str]]]]:
    base60 = re.compile(r"^[-+]?[0-9][0-9_]*(?::[0-5]?[0-9])+(?:\.[0-9_]*)?$")
    found = {}
    for first, pairs in yaml.SafeLoader.yaml_implicit_resolvers.items():
        kept = [pair for pair in pairs if pair[0] != "tag:yaml.org,2002:timestamp"]
        found[first] = [("tag:yaml.org,2002:str", base60), *kept] if first in "-+0123456789" else kept
    return found


Loader.yaml_implicit_resolvers = _resolvers()


def load_yaml(text: bytes) -> Iterator[Any]:
    """The documents of a YAML or JSON text. yaml.YAMLError when it is malformed; TooMuchError."""
    check_yaml(text)
    try:
        yield from yaml.load_all(text, Loader)
    except (ValueError, RecursionError) as error:  # such as a number of 5,000 digits
        raise yaml.YAMLError(str(error)) from error


def check_yaml(text: bytes) -> None:
    """TooMuchError when a YAML text is too deep, or its aliases stand for too much; yaml.YAMLError."""
    if len(text) > MAX_YAML:
        raise TooMuchError(f"is larger than {MAX_YAML // MIB} MiB")
    sizes: dict[str, int] = {}  # of anchors that are complete
    open_now: list[tuple[str | None, int]] = [(None, 0)]  # anchor, and size so far
    for event in yaml.parse(text, Loader):
        if (tag := getattr(event, "tag", None)) not in TAGS:
            raise yaml.YAMLError(f"{_place(event)}: the tag {tag} can't be read")
        if isinstance(event, yaml.CollectionStartEvent):
            if len(open_now) > MAX_DEPTH:
                raise TooMuchError(f"{_place(event)}: is nested deeper than {MAX_DEPTH} levels")
            open_now.append((event.anchor, 1))
            continue
        if isinstance(event, yaml.DocumentStartEvent):
            sizes, open_now = {}, [(None, 0)]
            continue
        if isinstance(event, yaml.ScalarEvent):
            anchor, size = event.anchor, 1 + len(event.value)
        elif isinstance(event, yaml.AliasEvent):
            if any(anchor == event.anchor for anchor, _ in open_now):
                raise TooMuchError(f"{_place(event)}: *{event.anchor} stands inside itself, so it never ends")
            anchor, size = None, sizes.get(str(event.anchor), 0)
        elif isinstance(event, yaml.CollectionEndEvent):
            anchor, size = open_now.pop()
        else:
            continue
        if anchor:
            sizes[anchor] = size
        outer, before = open_now[-1]
        open_now[-1] = outer, before + size
        if before + size > MAX_YAML:
            raise TooMuchError(
                f"{_place(event)}: with its aliases written out it is larger than {MAX_YAML // MIB} MiB"
            )


def _place(event: yaml.Event) -> str:
    at = cast(yaml.Mark, event.start_mark)
    return f"line {at.line + 1}, column {at.column + 1}"
