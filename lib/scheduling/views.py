"""The arguments of a policy's functions: a pod and a node, easy to read and to calculate with.

All amounts of resources are in kube-scheduler's units: cpu in thousandths of a core ("100m" is 100), the rest
in whole units ("1Gi" of memory is 1073741824). A missing amount is 0.
"""

import re
from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from typing import Any

import msgspec

from lib.kube.objects import Pod, Taint
from lib.kube.quantity import Quantity
from lib.scheduling.node_info import NodeInfo
from lib.scheduling.resources import amounts, pod_requests

RESOURCES = ("requests", "allocatable", "overhead", "allocated_resources")
"""The fields of API objects that hold amounts."""

PARTS = ("metadata", "spec", "status")
"""The parts of an object where a missing field is looked for."""


class Amounts(Mapping[str, int]):
    """Amounts by resource name, read-only. A missing resource has the amount 0."""

    __slots__ = ("_amounts",)

    def __init__(self, known: Mapping[str, int]) -> None:
        self._amounts = known

    def __getitem__(self, resource: str) -> int:
        return self._amounts.get(resource, 0)

    def __contains__(self, resource: object) -> bool:
        return resource in self._amounts

    def __iter__(self) -> Iterator[str]:
        return iter(self._amounts)

    def __len__(self) -> int:
        return len(self._amounts)

    def __repr__(self) -> str:
        return repr(dict(self._amounts))

    def get(self, resource: str, default: Any = 0) -> Any:
        """The amount, or `default` if there is none."""
        return self._amounts.get(resource, default)

    def fits_into(self, room: Mapping[str, int]) -> bool:
        """Whether no amount is larger than that of `room`."""
        return all(amount <= room.get(resource, 0) for resource, amount in self._amounts.items())


class View:
    """A part of an API object. Its fields are the API's, in snake case: `nodeName` is `node_name`."""

    __slots__ = ("_object",)
    _kind = ""

    def __init__(self, shown: Any) -> None:
        self._object = shown

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name not in self._fields():
            raise AttributeError(self._unknown(name))
        return _view(name, getattr(self._object, name))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, View) and self._object is other._object

    def __hash__(self) -> int:
        return id(self._object)

    def __repr__(self) -> str:
        shown = {name: getattr(self, name) for name in self._shown()}
        filled = ", ".join(f"{name}={each!r}" for name, each in shown.items() if each)
        return f"{self._kind or type(self._object).__name__}({filled})"

    def __dir__(self) -> list[str]:
        return self._names()

    def _fields(self) -> tuple[str, ...]:
        """The fields of the API object."""
        return tuple(self._object.__struct_fields__)

    def _shown(self) -> tuple[str, ...]:
        """The fields that `repr` shows."""
        return self._fields()

    def _names(self) -> list[str]:
        """All names of fields and properties."""
        own = [name for name in vars(type(self)) if not name.startswith("_")]
        return sorted({*own, *self._fields()})

    def _unknown(self, name: str) -> str:
        """The error's text for an unknown field."""
        text = f"{(self._kind or type(self._object).__name__).lower()} has no {name}"
        places = {each: each for each in self._names()}
        for part in PARTS:
            if part in places:
                places = {each: f"{part}.{each}" for each in getattr(self, part)._names()} | places
        near = places.get(_nearest(name, [*places]), "")
        return f"{text}; did you mean {near}?" if near else f"{text}; it has {', '.join(self._names())}"


class PodView(View):
    """A pod. Other fields are in its `metadata`, `spec` and `status`."""

    __slots__ = ()
    _kind = "Pod"
    _object: Pod

    @property
    def name(self) -> str:
        """Its name."""
        return self._object.metadata.name

    @property
    def namespace(self) -> str:
        """Its namespace."""
        return self._object.metadata.namespace

    @property
    def labels(self) -> Mapping[str, str]:
        """Its labels."""
        return self._object.metadata.labels

    @property
    def annotations(self) -> Mapping[str, str]:
        """Its annotations."""
        return self._object.metadata.annotations

    @property
    def priority(self) -> int:
        """Its priority: higher is more important."""
        return self._object.spec.priority

    @property
    def node_name(self) -> str:
        """The name of its node; "" if it has none yet."""
        return self._object.spec.node_name

    @property
    def requests(self) -> Amounts:
        """All that it requests, as in `pod_requests`: containers, init containers, overhead."""
        return Amounts(pod_requests(self._object))

    def _shown(self) -> tuple[str, ...]:
        return "namespace", "name", "labels", "annotations", "priority", "node_name", "requests"


class NodeView(View):
    """A node, and what its pods leave free. Other fields are in its `metadata`, `spec` and `status`."""

    __slots__ = ()
    _kind = "Node"
    _object: NodeInfo

    @property
    def name(self) -> str:
        """Its name."""
        return self._object.name

    @property
    def labels(self) -> Mapping[str, str]:
        """Its labels."""
        return self._object.labels

    @property
    def annotations(self) -> Mapping[str, str]:
        """Its annotations."""
        return self._object.annotations

    @property
    def taints(self) -> list[Taint]:
        """Its taints, each with `key`, `value` and `effect`."""
        return self._object.taints

    @property
    def unschedulable(self) -> bool:
        """Whether it is cordoned."""
        return self._object.node.spec.unschedulable

    @property
    def images(self) -> Mapping[str, int]:
        """The size in bytes of each image on it, by the image's name."""
        return self._object.images

    @property
    def allocatable(self) -> Amounts:
        """Its allocatable amounts."""
        return Amounts(self._object.allocatable)

    @property
    def requested(self) -> Amounts:
        """The requests of its pods; `pods` is their number."""
        return Amounts({**self._object.requested, "pods": len(self._object.pods)})

    @property
    def free(self) -> Amounts:
        """What is left: `allocatable` less `requested`."""
        requested, has = self.requested, self._object.allocatable
        return Amounts({resource: amount - requested[resource] for resource, amount in has.items()})

    @property
    def pods(self) -> list[PodView]:
        """The pods on it."""
        return [PodView(pod) for pod in self._object.pods]

    @property
    def metadata(self) -> View:
        """The API's metadata."""
        return View(self._object.node.metadata)

    @property
    def spec(self) -> View:
        """The API's spec."""
        return View(self._object.node.spec)

    @property
    def status(self) -> View:
        """The API's status."""
        return View(self._object.node.status)

    def _fields(self) -> tuple[str, ...]:
        return ()

    def _shown(self) -> tuple[str, ...]:
        return "name", "labels", "annotations", "taints", "unschedulable", "allocatable", "requested", "pods"


def _view(name: str, value: Any) -> Any:
    """A field's value: objects as views, amounts in the scheduler's units."""
    if name in RESOURCES:
        return Amounts(amounts(value))
    if isinstance(value, Quantity):
        return value.value
    if isinstance(value, msgspec.Struct):
        return View(value)
    if isinstance(value, list | tuple) and value and isinstance(value[0], msgspec.Struct):
        return [View(each) for each in value]
    return value


def _nearest(name: str, names: list[str]) -> str:
    """The name that was probably meant: the same in snake case, or a similar one; "" if there is none."""
    near = get_close_matches(re.sub("(?<=[a-z0-9])(?=[A-Z])", "_", name).lower(), names, 1)
    return near[0] if near else ""
