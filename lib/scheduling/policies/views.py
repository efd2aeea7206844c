"""The arguments of a policy's functions: a pod and a node, easy to read and to calculate with.

All amounts of resources are in kube-scheduler's units: cpu in thousandths of a core ("100m" is 100), the rest
in whole units ("1Gi" of memory is 1073741824). A missing amount is 0. Nothing of it can be changed.
"""

import re
from collections.abc import Callable, Mapping
from difflib import get_close_matches
from typing import Any, NoReturn

import msgspec

from lib.kube.objects import Pod
from lib.scheduling.framework.position import name_of
from lib.scheduling.node_info import NodeInfo
from lib.scheduling.read_only import (
    Place,
    ReadOnly,
    ReadOnlyDict,
    ReadOnlyList,
    copied,
    hidden,
    listed,
    object_of,
    place_of,
    set_object,
    set_place,
)
from lib.scheduling.resources import amounts, pod_requests

RESOURCES = ("requests", "limits", "allocatable", "overhead", "allocated_resources")
"""The fields of API objects that hold amounts."""

PARTS = ("metadata", "spec", "status")
"""The parts of an API object. A missing field is looked for there."""

PLAIN = frozenset({str, int, bool})
"""The types of values that are shown as they are."""

A_POD, A_NODE = "a pod", "a node"


class Amounts(ReadOnlyDict[str, int]):
    """Amounts by resource name. A missing resource has the amount 0."""

    __slots__ = ()

    def __missing__(self, _: str) -> int:
        return 0

    def __getattr__(self, name: str) -> NoReturn:
        raise AttributeError(f'resources are read as in a dict: ["{name}"], not .{name}')

    def get(self, resource: str, default: Any = 0) -> Any:
        """The amount, or `default` if there is none."""
        return super().get(resource, default)

    def fits_into(self, room: Mapping[str, int]) -> bool:
        """Whether no amount is larger than that of `room`."""
        return all(amount <= room.get(resource, 0) for resource, amount in self.items())


class View(ReadOnly):
    """A part of an API object. Its fields are the API's, in snake case: `nodeName` is `node_name`."""

    __slots__ = ()
    _kind = ""

    def __getattr__(self, name: str) -> Any:
        shown = object_of(self)
        value = getattr(shown, name, None)
        if type(value) in PLAIN:
            return value
        if name not in shown.__struct_fields__:
            raise AttributeError(self._unknown(name))
        return _view(value, (place_of(self), name))

    def __repr__(self) -> str:
        shown = {name: getattr(self, name) for name in self._shown()}
        filled = ", ".join(f"{name}={value!r}" for name, value in shown.items() if value)
        return f"{self._name_of_kind()}({filled})"

    def __dir__(self) -> list[str]:
        return self._names()

    def _name_of_kind(self) -> str:
        return self._kind or type(object_of(self)).__name__

    def _fields(self) -> tuple[str, ...]:
        """The fields of the API object."""
        return tuple(object_of(self).__struct_fields__)

    def _shown(self) -> tuple[str, ...]:
        """The fields that `repr` shows."""
        return self._fields()

    def _names(self) -> list[str]:
        """All names of fields and properties."""
        own = [name for name in vars(type(self)) if not name.startswith("_")]
        return sorted({*own, *self._fields()})

    def _unknown(self, name: str) -> str:
        """The error's text for an unknown field."""
        text = f"{self._name_of_kind().lower()} has no {name}"
        places = {field: field for field in self._names()}
        for part in PARTS:
            if part in places:
                places = {field: f"{part}.{field}" for field in getattr(self, part)._names()} | places
        near = places.get(_nearest(name, [*places]), "")
        return f"{text}; did you mean {near}?" if near else f"{text}; it has {', '.join(self._names())}"


_pod: Callable[[ReadOnly], Pod] = object_of
_node: Callable[[ReadOnly], NodeInfo] = object_of


class PodView(View):
    """A pod. Other fields are in its `metadata`, `spec` and `status`."""

    __slots__ = ()
    _kind = "Pod"

    def __init__(self, pod: Pod) -> None:
        set_object(self, pod)
        set_place(self, A_POD)

    @property
    def name(self) -> str:
        """Its name."""
        return _pod(self).metadata.name

    @property
    def namespace(self) -> str:
        """Its namespace."""
        return _pod(self).metadata.namespace

    @property
    def labels(self) -> ReadOnlyDict[str, str]:
        """Its labels."""
        return copied(_pod(self).metadata.labels, (A_POD, "labels"))

    @property
    def annotations(self) -> ReadOnlyDict[str, str]:
        """Its annotations."""
        return copied(_pod(self).metadata.annotations, (A_POD, "annotations"))

    @property
    def priority(self) -> int:
        """Its priority: higher is more important."""
        return _pod(self).spec.priority

    @property
    def node_name(self) -> str:
        """The name of its node; "" if it has none yet."""
        return _pod(self).spec.node_name

    @property
    def requests(self) -> Amounts:
        """All that it requests, as in `pod_requests`: containers, init containers, overhead."""
        return _amounts(pod_requests(_pod(self)), (A_POD, "requests"))

    def _shown(self) -> tuple[str, ...]:
        return "namespace", "name", "labels", "annotations", "priority", "node_name", "requests"


class NodeView(View):
    """A node, and what its pods leave free. Other fields are in its `metadata`, `spec` and `status`."""

    __slots__ = ("_state",)
    _kind = "Node"

    def __init__(self, node: NodeInfo, state: Any = None) -> None:
        set_object(self, node)
        set_place(self, A_NODE)
        set_state(self, state)

    def __getattr__(self, name: str) -> Any:
        if name not in PARTS:
            raise AttributeError(self._unknown(name))
        return View(getattr(_node(self).node, name), (A_NODE, name))

    @property
    def name(self) -> str:
        """Its name."""
        return _node(self).name

    @property
    def labels(self) -> ReadOnlyDict[str, str]:
        """Its labels."""
        return copied(_node(self).labels, (A_NODE, "labels"))

    @property
    def annotations(self) -> ReadOnlyDict[str, str]:
        """Its annotations."""
        return copied(_node(self).annotations, (A_NODE, "annotations"))

    @property
    def taints(self) -> ReadOnlyList[View]:
        """Its taints, each with `key`, `value` and `effect`."""
        return _views(_node(self).taints, (A_NODE, "taints"))

    @property
    def unschedulable(self) -> bool:
        """Whether it is cordoned."""
        return _node(self).node.spec.unschedulable

    @property
    def images(self) -> ReadOnlyDict[str, int]:
        """The size in bytes of each image on it, by the image's name."""
        return copied(_node(self).images, (A_NODE, "images"))

    @property
    def allocatable(self) -> Amounts:
        """Its allocatable amounts."""
        return _amounts(_node(self).allocatable, (A_NODE, "allocatable"))

    @property
    def requested(self) -> Amounts:
        """The requests of its pods; `pods` is their number."""
        node = _node(self)
        return _amounts({**node.requested, "pods": len(node.pods)}, (A_NODE, "requested"))

    @property
    def free(self) -> Amounts:
        """What is left: `allocatable` less `requested`."""
        requested, has = self.requested, _node(self).allocatable
        left = {resource: amount - requested[resource] for resource, amount in has.items()}
        return _amounts(left, (A_NODE, "free"))

    @property
    def pods(self) -> ReadOnlyList[PodView]:
        """The pods on it."""
        return listed([PodView(pod) for pod in _node(self).pods], (A_NODE, "pods"))

    @property
    def state(self) -> Any:
        """What the policy's own `state(node)` returned for it; None without such a function."""
        return get_state(self)

    def _fields(self) -> tuple[str, ...]:
        return PARTS

    def _shown(self) -> tuple[str, ...]:
        return "name", "labels", "annotations", "taints", "unschedulable", "allocatable", "requested", "pods"


get_state, set_state = hidden(NodeView, "_state")


def _view(value: Any, place: tuple[Place, str]) -> Any:
    """A field's value: objects as views, amounts in the scheduler's units, dicts and lists as copies."""
    if place[1] in RESOURCES:
        return _amounts(amounts(value), place)
    if isinstance(value, msgspec.Struct):
        return View(value, place)
    if isinstance(value, dict):
        return copied(value, place)
    if isinstance(value, list):
        return _views(value, place)
    if isinstance(value, tuple) and value and isinstance(value[0], msgspec.Struct):
        return tuple(View(item, place) for item in value)
    return value


def _views(values: list[Any], place: Place) -> ReadOnlyList[Any]:
    """A list, with objects as views."""
    if values and isinstance(values[0], msgspec.Struct):
        values = [View(value, place) for value in values]
    return listed(values, place)


def _amounts(known: Mapping[str, int], place: Place) -> Amounts:
    shown = Amounts(known)
    shown.place = place
    return shown


def _nearest(name: str, names: list[str]) -> str:
    """The name that was probably meant: the same in snake case, or a similar one; "" if there is none."""
    near = get_close_matches(re.sub("(?<=[a-z0-9])(?=[A-Z])", "_", name).lower(), names, 1)
    return near[0] if near else ""


@name_of.register
def _(pod: PodView) -> tuple[str, str]:
    return "pod", f"{pod.namespace}/{pod.name}"


@name_of.register
def _(node: NodeView) -> tuple[str, str]:
    return "node", node.name


for _kind, _word in ((Amounts, "resources"), (View, "object"), (PodView, "pod"), (NodeView, "node")):
    _kind.__name__ = _word  # Python's own errors name it: '>' not supported between 'resources' and 'int'
