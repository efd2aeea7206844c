"""The few protobuf bodies that kubectl sends, decoded by hand; answers are JSON, which it takes as well.

The envelope is described in k8s.io/apimachinery/pkg/runtime/serializer/protobuf; field numbers are those of the
API's generated.proto files.
"""

from collections.abc import Iterator
from typing import Any

from .errors import ApiError, bad_request

Object = dict[str, Any]

MAGIC = b"k8s\x00"
MEDIA_TYPE = "application/vnd.kubernetes.protobuf"

# Per message: field number -> name and type. A type is `string`, `int`, `bool`, `map`, a message, or a [list] of one.
MESSAGES: dict[str, dict[int, tuple[str, str]]] = {
    "Unknown": {1: ("type", "TypeMeta"), 2: ("raw", "bytes")},
    "TypeMeta": {1: ("apiVersion", "string"), 2: ("kind", "string")},
    "ObjectMeta": {
        1: ("name", "string"),
        2: ("generateName", "string"),
        3: ("namespace", "string"),
        11: ("labels", "map"),
        12: ("annotations", "map"),
    },
    "Namespace": {1: ("metadata", "ObjectMeta")},
    "SelfSubjectAccessReview": {1: ("metadata", "ObjectMeta"), 2: ("spec", "AccessReviewSpec")},
    "AccessReviewSpec": {1: ("resourceAttributes", "ResourceAttributes")},
    "ResourceAttributes": {
        1: ("namespace", "string"),
        2: ("verb", "string"),
        3: ("group", "string"),
        4: ("version", "string"),
        5: ("resource", "string"),
        6: ("subresource", "string"),
        7: ("name", "string"),
    },
}


def decode(body: bytes) -> Object:
    if not body.startswith(MAGIC):
        raise bad_request("the body of the request isn't a Kubernetes protobuf message")
    envelope = _message("Unknown", body[len(MAGIC) :])
    kind = envelope["type"]["kind"]
    if kind not in MESSAGES:
        raise ApiError(
            415, "UnsupportedMediaType", f"the body of the request was in protobuf: send {kind} as JSON"
        )
    return {**envelope["type"], **_message(kind, envelope["raw"])}


def _message(name: str, data: bytes) -> Object:
    content: Object = {}
    for number, value in _fields(data):
        if number not in MESSAGES[name]:
            continue
        field, kind = MESSAGES[name][number]
        if kind == "map":
            entry = dict(_fields(value))
            content.setdefault(field, {})[entry[1].decode()] = entry.get(2, b"").decode()
        elif kind.startswith("["):
            content.setdefault(field, []).append(_value(kind.strip("[]"), value))
        elif value != b"" or kind in MESSAGES:  # Go writes empty strings too
            content[field] = _value(kind, value)
    return content


def _value(kind: str, value: Any) -> Any:
    if kind == "string":
        return value.decode()
    if kind == "bool":
        return bool(value)
    return _message(kind, value) if kind in MESSAGES else value


def _fields(data: bytes) -> Iterator[tuple[int, Any]]:
    """Numbers and values of the wire format (https://protobuf.dev/programming-guides/encoding/)."""
    at = 0
    while at < len(data):
        tag, at = _varint(data, at)
        number, wire_type = tag >> 3, tag & 7
        if wire_type == 0:
            value, at = _varint(data, at)
            yield number, value
        elif wire_type == 2:
            size, at = _varint(data, at)
            yield number, data[at : at + size]
            at += size
        else:
            raise bad_request(f"unexpected protobuf wire type {wire_type}")


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return value, at
