"""The least OpenAPI with which kubectl sends `fieldValidation`: the PATCH of each kind, without schemas.

Before it writes, kubectl reads here whether the server checks fields; if not, it needs schemas to do so.
"""

import json
from typing import Any

from .resources import NAMESPACES, RESOURCES, Resource

Object = dict[str, Any]

V2_MEDIA_TYPE = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"


def index() -> Object:
    versions = dict.fromkeys(resource.group_version for resource in RESOURCES)
    paths = [f"apis/{version}" if "/" in version else f"api/{version}" for version in versions]
    return {"paths": {path: {"serverRelativeURL": f"/openapi/v3/{path}?hash=1"} for path in paths}}


def document(group_version: str) -> Object | None:
    resources = [resource for resource in RESOURCES if resource.group_version == group_version]
    if not resources:
        return None
    parameter = {"name": "fieldValidation", "in": "query", "schema": {"type": "string"}}
    paths = {
        _path(resource): {
            "patch": {
                "parameters": [parameter],
                "responses": {},
                "x-kubernetes-group-version-kind": _kind(resource),
            }
        }
        for resource in resources
    }
    return {"openapi": "3.0.0", "info": {"title": "Kubernetes", "version": "v1.36.2"}, "paths": paths}


def document_v2() -> bytes:
    """The same in the old form, in protobuf: kubectl reads it for a manifest with `kind: List`.

    What it finds for Namespace holds for lists, too. Field numbers are those of gnostic's OpenAPIv2.proto.
    """
    query = _message(4, "fieldValidation")
    parameter = _message(1, _message(2, _message(3, query)))
    kind = _message(2, _message(2, json.dumps(_kind(NAMESPACES))))
    extension = _message(1, "x-kubernetes-group-version-kind") + kind
    patch = _message(8, parameter) + _message(13, extension)
    path = _message(1, _path(NAMESPACES)) + _message(2, _message(8, patch))
    return _message(1, "2.0") + _message(8, _message(2, path))


def _path(resource: Resource) -> str:
    return f"/{'apis' if resource.group else 'api'}/{resource.group_version}/{resource.plural}/{{name}}"


def _kind(resource: Resource) -> Object:
    return {"group": resource.group, "version": resource.version, "kind": resource.kind}


def _message(number: int, content: bytes | str) -> bytes:
    """A field of protobuf's wire format: text, or a message, which is other fields."""
    data = content.encode() if isinstance(content, str) else content
    return _varint(number << 3 | 2) + _varint(len(data)) + data


def _varint(number: int) -> bytes:
    low, rest = number & 0x7F, number >> 7
    return bytes([low | 0x80]) + _varint(rest) if rest else bytes([low])
