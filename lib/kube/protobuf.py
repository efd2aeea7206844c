"""An object in protobuf with more metadata: nothing else of it is read or changed.

JSON can't do that for an object that holds JSON itself, such as the opaque parameters of a claim. The API
server has it as it was sent, and writes it without blanks when it decodes a patch, or an update: so it has
changed.

Source: k8s.io/apimachinery, pkg/runtime/serializer/protobuf (the envelope), pkg/apis/meta/v1/generated.proto
"""

from collections.abc import Iterator

PROTOBUF = "application/vnd.kubernetes.protobuf"

MAGIC = b"k8s\0"

OBJECT = 2
"""The field of the envelope that has the object."""

METADATA = 1
"""The field of an object that has its metadata."""

NUMBERS = {"uid": 5, "resourceVersion": 6, "finalizers": 14}
"""The fields of the metadata."""

TEXT = 2
"""The wire type of texts and messages."""


def with_metadata(message: bytes, **metadata: str) -> bytes:
    """The message with these fields added, of `NUMBERS`. ValueError if it isn't an object in protobuf.

    A field may come again: a text replaces the one before, an item is added to a list, and messages are
    merged (https://protobuf.dev/programming-guides/encoding/#last-one-wins).
    """
    if not message.startswith(MAGIC):
        raise ValueError("it is no object in protobuf")
    added = b"".join(_field(NUMBERS[name], text.encode()) for name, text in metadata.items())
    fields = [
        _field(number, content + _field(METADATA, added) if number == OBJECT else content)
        for number, content in _fields(message[len(MAGIC) :])
    ]
    return MAGIC + b"".join(fields)


def _field(number: int, content: bytes) -> bytes:
    return _written(number << 3 | TEXT) + _written(len(content)) + content


def _fields(data: bytes) -> Iterator[tuple[int, bytes]]:
    """The number and content of each field, of which all are texts or messages."""
    at = 0
    while at < len(data):
        key, at = _read(data, at)
        size, at = _read(data, at)
        if key & 7 != TEXT or at + size > len(data):
            raise ValueError("its envelope is another one")
        yield key >> 3, data[at : at + size]
        at += size


def _written(number: int) -> bytes:
    """A number, seven bits a byte, the lowest ones first."""
    found = bytearray()
    while number > 0x7F:
        found.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*found, number])


def _read(data: bytes, at: int) -> tuple[int, int]:
    """The number that begins here, and where it ends."""
    number = shift = 0
    while at < len(data):
        number |= (data[at] & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if data[at - 1] <= 0x7F:
            return number, at
    raise ValueError("it ends within a number")
