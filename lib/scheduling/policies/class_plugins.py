"""Policies that are classes: their methods get poller's own objects, but can't change them."""

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from enum import Enum
from functools import partial
from inspect import getattr_static
from types import FunctionType, MethodType
from typing import Any, TypeVar

import msgspec

from lib.kube.changes import Change
from lib.kube.objects import Node, Pod
from lib.scheduling.cache import Cache
from lib.scheduling.framework.interface import PostFilterResult
from lib.scheduling.framework.runtime import takes_many
from lib.scheduling.kept import Follower, Kept
from lib.scheduling.node_info import NodeInfo
from lib.scheduling.node_slice import NodeSlice
from lib.scheduling.policies.answers import checking
from lib.scheduling.read_only import (
    Place,
    ReadOnly,
    ReadOnlyDict,
    ReadOnlyList,
    copied,
    hidden,
    listed,
    object_of,
    original,
    place_of,
    refused,
    set_object,
    set_place,
)
from lib.scheduling.status import CycleState, Status

T = TypeVar("T")

PLACES: Mapping[type, str] = {
    Cache: "the cluster",
    NodeInfo: "a node",
    Node: "a node",
    NodeSlice: "the nodes",
    Pod: "a pod",
    Change: "a change",
}
"""What errors call an object, wherever it was found."""

SMALL = 64
"""A dict of so many values is copied. In a larger one, values are only looked up."""


def read_only(kind: type, methods: Iterable[str]) -> type:
    """A policy's class, with methods whose arguments can't be changed.

    A class that is one of poller's plugins, or is derived from one, gets poller's own objects, because
    poller's code in it needs them. In any class, what comes back is checked.
    """
    about = {attribute: getattr(kind, attribute) for attribute in ("__module__", "__qualname__", "__doc__")}
    names = [name for name in methods if callable(getattr(kind, name, None))]
    if any(_is_ours(base) and not getattr(base, "_is_protocol", False) for base in kind.__mro__):
        own = [name for name in names if not _is_ours(_definer(kind, name))]
        made = type(kind)(kind.__name__, (kind,), about) if own else kind
        for name in own:
            setattr(made, name, checking(kind, name, _function(made, name)))
        return made
    # What a policy calls `needs` means something else: nothing is looked up for it.
    made = type(kind)(kind.__name__, (kind,), {"needs": (), **about})
    functions = {name: checking(kind, name, _function(made, name)) for name in names}
    for name, function in functions.items():
        setattr(made, name, _protecting(function))
    for name in ("filter", "score"):
        if name in functions and not takes_many(kind, name):
            setattr(made, f"{name}_nodes", _for_nodes(functions[name]))
    return made


def _definer(kind: type, name: str) -> type:
    return next(base for base in kind.__mro__ if name in vars(base))


def _is_ours(kind: type) -> bool:
    return kind.__module__.partition(".")[0] == "lib"


def _function(made: type, name: str) -> Callable[..., Any]:
    method = getattr_static(made, name)
    if isinstance(method, FunctionType):
        return method
    # It is a staticmethod, for example.
    return lambda self, *given, **named: getattr(super(made, self), name)(*given, **named)


def _for_nodes(function: Callable[..., Any]) -> Callable[..., Any]:
    """A policy's `filter` or `score` for many nodes: what it gets is kept until a node changes."""

    def method(self: Any, state: CycleState, pod: Pod, nodes: NodeSlice) -> list[Any]:
        its_pod = shown(pod)
        return [function(self, state, its_pod, node) for node in nodes.values(shown)]

    return method


def _protecting(function: Callable[..., Any]) -> Callable[..., Any]:
    def method(self: Any, *given: Any, **named: Any) -> Any:
        named = {key: _argument(value) for key, value in named.items()} if named else named
        answer = function(self, *[_argument(value) for value in given], **named)
        return _answer(answer) if type(answer) in (PostFilterResult, Status) else answer

    return method


def _argument(value: Any) -> Any:
    """An argument for a policy's method. Dicts are made for plugins: the CycleState, scores to normalize."""
    return value if type(value) is dict else shown(value)


def _answer(answer: PostFilterResult | Status) -> PostFilterResult | Status:
    """What a method returns, with poller's own objects."""
    if isinstance(answer, PostFilterResult):
        return replace(answer, victims=tuple(map(original, answer.victims)))
    return replace(answer, writes=tuple(map(original, answer.writes))) if answer.writes else answer


def _attributes(*own: str) -> Callable[[Any, str], Any]:
    """A `__getattribute__` that shows an object's attributes, but for the proxy's own ones.

    `__getattr__` would be slow, because Python calls it only after a failure.
    """
    own_names = frozenset(own)

    def get(self: Any, name: str) -> Any:
        its_own = name < "a" and name[:2] == "__" and name not in ("__class__", "__dict__")
        if its_own or name in own_names:
            return object.__getattribute__(self, name)
        value = getattr(object_of(self), name)  # `__class__`, too, so that `isinstance` works
        how = HOW[type(value)]
        return how(value, (place_of(self), name)) if how else value

    return get


class Shown(ReadOnly):
    """An object of poller's with all its attributes. Its methods run, too, until they change something."""

    __slots__ = ()
    __getattribute__ = _attributes()

    def __dir__(self) -> list[str]:
        return dir(object_of(self))

    def __bool__(self) -> bool:
        return bool(object_of(self))

    def __str__(self) -> str:
        return str(object_of(self))

    def __repr__(self) -> str:
        return repr(object_of(self))


class ShownNode(Shown):
    """A NodeInfo. As long as it has the same pods, they are shown by the same objects."""

    __slots__ = ("_pods",)
    __getattribute__ = _attributes("pods")

    @property
    def pods(self) -> ReadOnlyList[Pod]:
        """As of NodeInfo. A pod that comes is added to the list. When a pod goes, there is a new list."""
        pods = object_of(self).pods
        before, known = pods_shown(self)
        if pods is not before or len(pods) != len(known):
            known = [shown(pod) for pod in pods]
            show_pods(self, (pods, known))
        return listed(known, (place_of(self), "pods"))


pods_shown, show_pods = hidden(ShownNode, "_pods")


class ShownNodes(Shown):
    """A NodeSlice."""

    __slots__ = ()
    __getattribute__ = _attributes("some", "values")

    def __len__(self) -> int:
        return len(object_of(self))

    def __iter__(self) -> Iterator[Any]:
        return iter(object_of(self).values(shown))

    def some(self, which: Sequence[int]) -> "ShownNodes":
        """As of NodeSlice."""
        return ShownNodes(object_of(self).some(which), place_of(self))

    def values(self, find: Callable[..., T], *arguments: str) -> list[T]:
        """As of NodeSlice, but nothing is kept."""
        return [find(node, *arguments) for node in self]


class ShownCache(Shown):
    """A Cache. Its two methods here leave it as it was, though they note something in it."""

    __slots__ = ()
    __getattribute__ = _attributes("remember", "without")

    def remember(self, key: Hashable, find: Callable[[], T]) -> T:
        """As of Cache."""
        result: T = object_of(self).remember(key, find)
        return result

    @contextmanager
    def without(self, pods: Iterable[Pod]) -> Iterator[None]:
        """As of Cache."""
        with object_of(self).without([*map(original, pods)]):
            yield


class ShownKept(Shown):
    """What is kept. One can add to it."""

    __slots__ = ()
    __getattribute__ = _attributes("get")

    def get(self, key: Hashable, find: Callable[..., Follower], *arguments: Any) -> Any:
        """As of Kept."""
        return shown(object_of(self).get(key, find, *arguments), place_of(self))


class ShownMapping(ReadOnly, Mapping[Any, Any]):
    """A large dict."""

    __slots__ = ()

    def __getitem__(self, key: Any) -> Any:
        return shown(object_of(self)[original(key)], place_of(self))

    def __iter__(self) -> Iterator[Any]:
        return (shown(key, place_of(self)) for key in object_of(self))

    def __len__(self) -> int:
        return len(object_of(self))

    def __repr__(self) -> str:
        return repr(object_of(self))

    __setitem__ = __delitem__ = clear = pop = popitem = setdefault = update = refused


def shown(value: Any, place: Place = "the nodes") -> Any:
    """What a policy's class gets in place of a value of poller's."""
    how = HOW[type(value)]
    return how(value, place) if how else value


How = Callable[[Any, Place], Any]


class _How(dict[type, How | None]):
    """How values of each type are shown; None if they are shown as they are."""

    def __missing__(self, kind: type) -> How | None:
        self[kind] = how = self._found(kind)
        return how

    def _found(self, kind: type) -> How | None:
        if issubclass(kind, AS_THEY_ARE):
            return None
        makers: dict[type, How] = {
            Cache: ShownCache,
            Kept: ShownKept,
            NodeInfo: _node,
            NodeSlice: ShownNodes,
            dict: _dict,
            Mapping: ShownMapping,
            list: _list,
            set: lambda value, _: frozenset(value),
            tuple: lambda value, place: tuple([shown(item, place) for item in value]),
            MethodType: lambda value, place: MethodType(value.__func__, shown(value.__self__, place)),
        }
        how = next((makers[base] for base in makers if issubclass(kind, base)), None)
        if how is None and (_is_ours(kind) or issubclass(kind, msgspec.Struct)):
            how = Shown
        return _placed(how, PLACES[kind]) if isinstance(how, type) and kind in PLACES else how


AS_THEY_ARE = (ReadOnly, ReadOnlyDict, ReadOnlyList, str, int, Enum, BaseException, type)

HOW = _How()


def _placed(kind: type[Shown], place: Place) -> How:
    """How to show an object of the API or of poller, of which there may be thousands."""
    new = partial(kind.__new__, kind)

    def show(value: Any, _: Place) -> Shown:
        proxy = new()
        set_object(proxy, value)
        set_place(proxy, place)
        return proxy

    return show


def _node(value: NodeInfo, _: Place) -> ShownNode:
    node = ShownNode(value, PLACES[NodeInfo])
    show_pods(node, (None, []))
    return node


def _dict(value: dict[Any, Any], place: Place) -> Any:
    first = next(iter(value.values()), None)
    if len(value) > SMALL or type(value) is not dict or HOW[type(first)]:
        return ShownMapping(value, place)
    return copied(value, place)


def _list(value: list[Any], place: Place) -> ReadOnlyList[Any]:
    return listed([how(item, place) if (how := HOW[type(item)]) else item for item in value], place)
