"""Decodes the few protobuf bodies that kubectl sends. Answers are JSON, which kubectl accepts as well.

The envelope is described in k8s.io/apimachinery/pkg/runtime/serializer/protobuf; field numbers are those of
the API's generated.proto files.
"""

import base64
from collections.abc import Iterator
from typing import Any

from .errors import ApiError, bad_request

Object = dict[str, Any]

MAGIC = b"k8s\x00"
MEDIA_TYPE = "application/vnd.kubernetes.protobuf"

# A line is a message and its fields: number, name, type. Types are `s` (string), `i` (number), `b` (bool),
# `map` (of strings), `data` (a map of bytes), a message, or a [list]. The fields are those that `kubectl
# create` can set, and few others.
_MESSAGES = """
Unknown: 1:type:TypeMeta 2:raw:bytes
TypeMeta: 1:apiVersion:s 2:kind:s
ObjectMeta: 1:name:s 2:generateName:s 3:namespace:s 11:labels:map 12:annotations:map
LabelSelector: 1:matchLabels:map
Namespace: 1:metadata:ObjectMeta
ConfigMap: 1:metadata:ObjectMeta 2:data:map 3:binaryData:data
Secret: 1:metadata:ObjectMeta 2:data:data 3:type:s
ServiceAccount: 1:metadata:ObjectMeta
Service: 1:metadata:ObjectMeta 2:spec:ServiceSpec
ServiceSpec: 1:ports:[ServicePort] 2:selector:map 3:clusterIP:s 4:type:s 10:externalName:s
ServicePort: 1:name:s 2:protocol:s 3:port:i 4:targetPort:IntOrString
IntOrString: 1:type:i 2:intVal:i 3:strVal:s
Deployment: 1:metadata:ObjectMeta 2:spec:DeploymentSpec
DeploymentSpec: 1:replicas:i 2:selector:LabelSelector 3:template:PodTemplateSpec
PodTemplateSpec: 1:metadata:ObjectMeta 2:spec:PodSpec
PodSpec: 2:containers:[Container] 3:restartPolicy:s 10:nodeName:s 19:schedulerName:s 24:priorityClassName:s
Container: 1:name:s 2:image:s 3:command:[s] 4:args:[s] 6:ports:[ContainerPort]
ContainerPort: 1:name:s 2:hostPort:i 3:containerPort:i 4:protocol:s
PodDisruptionBudget: 1:metadata:ObjectMeta 2:spec:PodDisruptionBudgetSpec
PodDisruptionBudgetSpec: 1:minAvailable:IntOrString 2:selector:LabelSelector 3:maxUnavailable:IntOrString
PriorityClass: 1:metadata:ObjectMeta 2:value:i 3:globalDefault:b 4:description:s 5:preemptionPolicy:s
ClusterRole: 1:metadata:ObjectMeta 2:rules:[PolicyRule]
Role: 1:metadata:ObjectMeta 2:rules:[PolicyRule]
PolicyRule: 1:verbs:[s] 2:apiGroups:[s] 3:resources:[s] 4:resourceNames:[s] 5:nonResourceURLs:[s]
ClusterRoleBinding: 1:metadata:ObjectMeta 2:subjects:[Subject] 3:roleRef:RoleRef
RoleBinding: 1:metadata:ObjectMeta 2:subjects:[Subject] 3:roleRef:RoleRef
Subject: 1:kind:s 2:apiGroup:s 3:name:s 4:namespace:s
RoleRef: 1:apiGroup:s 2:kind:s 3:name:s
SelfSubjectAccessReview: 1:metadata:ObjectMeta 2:spec:AccessReviewSpec
AccessReviewSpec: 1:resourceAttributes:ResourceAttributes
ResourceAttributes: 1:namespace:s 2:verb:s 3:group:s 4:version:s 5:resource:s 6:subresource:s 7:name:s
"""


def _parse(text: str) -> dict[str, dict[int, tuple[str, str]]]:
    messages: dict[str, dict[int, tuple[str, str]]] = {}
    for line in text.strip().splitlines():
        message, _, fields = line.partition(": ")
        parts = (field.split(":") for field in fields.split())
        messages[message] = {int(number): (name, kind) for number, name, kind in parts}
    return messages


MESSAGES = _parse(_MESSAGES)


def decode(body: bytes) -> Object:
    if not body.startswith(MAGIC):
        raise bad_request("the body of the request isn't a Kubernetes protobuf message")
    envelope = _message("Unknown", body[len(MAGIC) :])
    kind = envelope["type"]["kind"]
    if kind not in MESSAGES:
        raise _unsupported(kind)
    return {**envelope["type"], **_message(kind, envelope["raw"])}


def _message(name: str, data: bytes) -> Object:
    content: Object = {}
    for number, value in _fields(data):
        if number not in MESSAGES[name]:
            if not _is_empty(value):  # an error is better than an object without some of its fields
                raise _unsupported(f"{name} (field {number})")
        elif not _is_empty(value) or isinstance(value, int) or MESSAGES[name][number][1] == "[s]":
            _set(
                content, *MESSAGES[name][number], value
            )  # in a list of strings, "" is one: the core API group
    return content


def _set(content: Object, field: str, kind: str, value: Any) -> None:
    if kind in ("map", "data"):
        entry = dict(_fields(value))
        item = entry.get(2, b"")
        text = item.decode() if kind == "map" else base64.b64encode(item).decode()
        content.setdefault(field, {})[entry[1].decode()] = text
    elif kind.startswith("["):
        content.setdefault(field, []).append(_value(kind.strip("[]"), value))
    else:
        content[field] = _value(kind, value)


def _value(kind: str, value: Any) -> Any:
    if kind == "IntOrString":
        either = _message(kind, value)
        return either.get("strVal", "") if either.get("type") else either.get("intVal", 0)
    if kind in MESSAGES:
        return _message(kind, value)
    if kind == "s":
        return value.decode()
    return bool(value) if kind == "b" else value


def _is_empty(value: int | bytes) -> bool:
    """Whether a value is empty. Go writes empty fields, too, and messages with only empty fields."""
    if not value:
        return True
    if isinstance(value, int):
        return False
    try:
        return all(_is_empty(inner) for _, inner in _fields(value))
    except (ApiError, IndexError):
        return False


def _unsupported(what: str) -> ApiError:
    message = f"the body of the request was in protobuf, which isn't known for {what}: send JSON"
    return ApiError(415, "UnsupportedMediaType", message)


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
            if at + size > len(data):
                raise bad_request("a protobuf field is longer than its message")
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
