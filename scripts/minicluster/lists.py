"""Lists in chunks: `limit` and `continue`. All chunks show the state at the time of the first."""

import base64
import binascii
import json
from dataclasses import dataclass

from .errors import bad_request, internal
from .resources import Resource
from .selectors import Matches
from .store import Key, Object, Store, Stored


@dataclass
class Page:
    metadata: Object
    items: list[Stored]


def page(
    store: Store, resource: Resource, namespace: str, matches: Matches | None, limit: int, token: str
) -> Page:
    after, version = _decode(token, namespace) if token else (("", ""), store.version)
    everything = store.every_at(resource, namespace, version) if token else store.every(resource, namespace)
    rest = [one for one in everything if one.key > after] if token else everything
    selected = [one for one in rest if matches(one.content)] if matches else rest
    metadata: Object = {"resourceVersion": str(version)}
    if limit and len(selected) > limit:
        left, selected = len(selected) - limit, selected[:limit]
        metadata["continue"] = _encode(selected[-1].key, namespace, version)
        if not matches:  # the real server doesn't count the objects that it hasn't read
            metadata["remainingItemCount"] = left
    return Page(metadata, selected)


def parse_version(text: str) -> int:
    """A resource version of a query; 0 if the query has none."""
    if text and not text.isdigit():
        why = f'strconv.ParseUint: parsing "{text}": invalid syntax'
        raise internal(f'resourceVersion: Invalid value: "{text}": {why}')
    return int(text or 0)


def _encode(last: Key, namespace: str, version: int) -> str:
    """The token for the next chunk, in the real server's form: where that chunk starts in etcd's order."""
    path = last[1] if namespace or not last[0] else "/".join(last)
    token = {"v": "meta.k8s.io/v1", "rv": version, "start": f"/{path}\0"}
    return base64.urlsafe_b64encode(json.dumps(token, separators=(",", ":")).encode()).decode().rstrip("=")


def _decode(token: str, namespace: str) -> tuple[Key, int]:
    try:
        content = json.loads(base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)))
        start, version = content["start"].strip("/\0"), int(content["rv"])
    except (binascii.Error, ValueError, KeyError, TypeError) as error:
        raise bad_request(f"invalid continue token: continue key is not valid: {error}") from None
    if namespace:
        return (namespace, start), version
    before, _, name = start.rpartition("/")
    return (before, name), version
