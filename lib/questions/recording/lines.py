"""The lines of a recording: JSON, one object a line.

The first is a Head. Then come the objects that there are when it begins, each as ADDED, up to BEGIN; then
what happens. A recording that wasn't killed ends with END.
"""

from typing import Generic, TypeVar

import msgspec

from lib.kube.objects import Json, Object, Pod
from lib.questions.files import slim

ADDED, MODIFIED, DELETED = "ADDED", "MODIFIED", "DELETED"
"""What happened to an object, in the words of a watch."""

BEGIN, GAP, END = "BEGIN", "GAP", "END"

VERSION = 1

SUFFIXES = (".jsonl", ".jsonl.gz")
"""So end the names of recordings."""

LATE = 2.0
"""If a watch was away for more seconds, nobody knows well enough when things happened: that is a gap."""

KEPT_METADATA = (
    *("name", "namespace", "uid", "creationTimestamp", "labels", "ownerReferences"),
    *("deletionTimestamp", "deletionGracePeriodSeconds", "finalizers"),
)
"""The metadata of a pod or a node that is kept. Annotations may hold anything."""


class Head(msgspec.Struct):
    """The first line. began: the time, as in Kubernetes' objects."""

    recording: int
    began: str
    anonymous: bool = False


T = TypeVar("T")


class Line(msgspec.Struct, Generic[T], omit_defaults=True):
    """Another line.

    at: seconds since the recording began. time: in BEGIN, when it began. seconds: in GAP, how long nothing
    was seen. why: in GAP, the reason.
    """

    at: float
    event: str
    object: T | None = None
    time: str = ""
    seconds: float = 0.0
    why: str = ""


def body_of(item: Object) -> Json:
    """What is kept of an object: what decisions depend on. No environment, commands or secrets' names; and of
    pods, no annotations, and of their status only where room is kept for them.
    """
    body = slim(item)
    metadata = body["metadata"]
    if body["kind"] in ("Pod", "Node"):
        body["metadata"] = {name: metadata[name] for name in KEPT_METADATA if name in metadata}
    if isinstance(item, Pod):
        body.pop("status", None)
        if nominated := item.status.nominated_node_name:
            body["status"] = {"nominatedNodeName": nominated}
    for name in ("resourceVersion", "generation", "generateName"):
        body["metadata"].pop(name, None)
    return body


def names_of(item: Object) -> Json:
    """What is kept of an object that is gone: what tells it from others."""
    body = body_of(item)
    kept = {name: value for name, value in body["metadata"].items() if name in ("name", "namespace", "uid")}
    return {"kind": body["kind"], "apiVersion": body["apiVersion"], "metadata": kept}
