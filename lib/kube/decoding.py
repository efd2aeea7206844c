"""Decodes answers of the API server: objects, lists, and lines of a watch. Each error names its place."""

from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Generic, TypeVar, cast

import msgspec

from lib.kube.errors import AnswerError, beginning, error_of
from lib.kube.objects import UNREADABLE, Named, Names, Object, Status, decode_hook

T = TypeVar("T", bound=Object)
Item = TypeVar("Item")


@dataclass
class Listing(Generic[Item]):
    """All objects of a list. malformed: by name, a line for each object that can't be decoded.

    resource_version: that of the cluster's last write before the list was made.
    """

    items: list[Item] = field(default_factory=list)
    malformed: dict[str, str] = field(default_factory=dict)
    resource_version: str = ""


@dataclass(frozen=True)
class WatchEvent(Generic[Item]):
    """What happened to an object: "ADDED", "MODIFIED" or "DELETED". A "BOOKMARK" is about no object.

    name: the object's, as messages have it. object: as it is now, or was last; None if it can't be decoded:
    then `malformed` says why.
    """

    type: str
    metadata: Names
    name: str = ""
    object: Item | None = None
    malformed: str = ""


class _ListMeta(Object):
    resource_version: str = ""
    continue_: str = msgspec.field(default="", name="continue")


class Page(Object, Generic[Item]):
    """A page of a list: all of the list, or a part and the token for the next page."""

    kind: str
    metadata: _ListMeta
    items: list[Item] | None


class _PageHead(Object):
    metadata: _ListMeta


class _WatchLine(Object):
    type: str
    object: msgspec.Raw


@lru_cache
def _decoder(kind: Any) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(kind, dec_hook=decode_hook)


def decode_object(body: bytes, kind: type[T], where: str) -> T:
    """Decode one object. AnswerError when it isn't one, a StatusError when it is a Status of a failure."""
    try:
        found = cast(T, _decoder(kind).decode(body))
    except UNREADABLE as error:
        raise _unreadable(where, body, error) from error
    if isinstance(found, Status) and found.status == "Failure":  # whatever the HTTP status says
        raise error_of(found.code)(f"{where}: {found.code} {found.message}")
    return found


def decode_page(body: bytes, kind: type[T], where: str, malformed: dict[str, str]) -> Page[T]:
    """Decode a page of a list. Objects that can't be decoded are left out and named in `malformed`."""
    try:
        page: Page[T] = _decoder(Page[kind]).decode(body)  # type: ignore[valid-type]
    except UNREADABLE:  # decode object by object, to keep the good ones
        page = _decode_singly(body, kind, where, malformed)
    if page.kind != f"{kind.__name__}List":
        raise AnswerError(f"{where}: expected a {kind.__name__}List, got {page.kind!r}")
    return page


def continue_of(body: bytes) -> str:
    """The continue token of a page; "" if the list ends there, or if the page can't be decoded."""
    before_items = body[: max(body.find(b',"items":['), 0)] + b"}"
    # Kubernetes writes the metadata first. A server that doesn't has them behind all items.
    for part in (before_items, body) if b'"metadata":' in before_items else (body,):
        with suppress(*UNREADABLE):
            head: _PageHead = _decoder(_PageHead).decode(part)
            return head.metadata.continue_
    return ""


def decode_raw_page(body: bytes, where: str) -> Page[msgspec.Raw]:
    """Decode a page of a list; its objects stay raw JSON."""
    try:
        page: Page[msgspec.Raw] = _decoder(Page[msgspec.Raw]).decode(body)
    except UNREADABLE as error:
        raise _unreadable(where, body, error) from error
    return page


def _decode_singly(body: bytes, kind: type[T], where: str, malformed: dict[str, str]) -> Page[T]:
    raw = decode_raw_page(body, where)
    items = []
    for item in raw.items or []:
        try:
            items.append(_decoder(kind).decode(item))
        except UNREADABLE as error:
            malformed[_name_of(item)] = _left_out(kind, item, error)
    return Page(kind=raw.kind, metadata=raw.metadata, items=items)


def decode_event(line: bytes, kind: type[T], where: str) -> WatchEvent[T]:
    """Decode a line of a watch.

    GoneError, or another StatusError, when the server can't go on. AnswerError when it isn't an event.
    """
    try:
        event = _decoder(_WatchLine).decode(line)
        if event.type == "ERROR":
            status = _decoder(Status).decode(event.object)
            raise error_of(status.code)(f"{where}: {status.code} {status.message}")
        if event.type == "BOOKMARK":
            return WatchEvent(event.type, _names_of(event.object))
        try:
            read, why = _decoder(kind).decode(event.object), ""
            metadata = read.metadata
        except UNREADABLE as error:
            read, why = None, _left_out(kind, event.object, error)
            metadata = _names_of(event.object)
    except UNREADABLE as error:
        raise _unreadable(where, line, error) from error
    return WatchEvent(event.type, metadata, called(metadata), read, why)


def _names_of(raw: msgspec.Raw) -> Names:
    """An object's names. One of UNREADABLE if not even these can be decoded."""
    named: Named = _decoder(Named).decode(raw)
    return named.metadata


def _name_of(raw: msgspec.Raw) -> str:
    try:
        return called(_names_of(raw))
    except UNREADABLE:
        return "?"


def called(metadata: Names) -> str:
    """What an object is called in a listing's `malformed`: `namespace/name`, or `name`."""
    return f"{metadata.namespace}/{metadata.name}".lstrip("/")


def _left_out(kind: type[Object], raw: msgspec.Raw, error: Exception) -> str:
    return f"{kind.__name__} {_name_of(raw)} can't be read and is left out: {error}"


def _unreadable(where: str, body: bytes, error: Exception) -> AnswerError:
    return AnswerError(
        f"{where}: the response is not a Kubernetes object ({error}); it begins {beginning(body)!r}"
    )
