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
from lib.kube.matcher import Matcher
from lib.kube.objects import Node, Pod
from lib.scheduling.cache import Cache, Domains
from lib.scheduling.framework.interface import PostFilterResult, Status
from lib.scheduling.node_info import NodeInfo
from lib.scheduling.node_slice import NodeSlice
from lib.scheduling.read_only import (
    Place,
    ReadOnly,
    ReadOnlyDict,
    ReadOnlyList,
    copied,
    listed,
    object_of,
    original,
    place_of,
    refused,
)

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
"""A dict of so many values is copied, a larger one is only looked up in."""


def read_only(kind: type, methods: Iterable[str]) -> type:
    """A policy's class, with methods whose arguments can't be changed.

    A class that is one of poller's plugins, or is derived from one, stays as it is: it needs what they need.
    """
    if any(_is_ours(each) and not getattr(each, "_is_protocol", False) for each in kind.__mro__):
        return kind
    about = {"__module__": kind.__module__, "__qualname__": kind.__qualname__, "__doc__": kind.__doc__}
    made = type(kind)(kind.__name__, (kind,), about)
    for name in methods:
        if callable(getattr(kind, name, None)):
            setattr(made, name, _protecting(made, name))
    return made


def _is_ours(kind: type) -> bool:
    return kind.__module__.partition(".")[0] == "lib"


def _protecting(made: type, name: str) -> Callable[..., Any]:
    function = getattr_static(made, name)
    if not isinstance(function, FunctionType):  # but a staticmethod, say

        def function(self: Any, *given: Any, **named: Any) -> Any:
            return getattr(super(made, self), name)(*given, **named)

    def method(self: Any, *given: Any, **named: Any) -> Any:
        named = {key: _argument(each) for key, each in named.items()} if named else named
        answer = function(self, *[_argument(each) for each in given], **named)
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


class Shown(ReadOnly):
    """An object of poller's with all its attributes. Its methods run, too, until they change something."""

    __slots__ = ()

    def __getattribute__(self, name: str) -> Any:  # `__getattr__` is slow, as it is called after a failure
        if name == "__class__":  # so that `isinstance` works
            return type(object_of(self))
        if name[:2] == "__" and name != "__dict__":
            return object.__getattribute__(self, name)
        value = getattr(object_of(self), name)
        how = HOW[type(value)]
        return how(value, (place_of(self), name)) if how else value

    def __dir__(self) -> list[str]:
        return dir(object_of(self))

    def __bool__(self) -> bool:
        return bool(object_of(self))

    def __str__(self) -> str:
        return str(object_of(self))

    def __repr__(self) -> str:
        return repr(object_of(self))


class ShownNodes(Shown):
    """A NodeSlice."""

    __slots__ = ()

    def __getattribute__(self, name: str) -> Any:
        own = name in ("some", "values")
        return (object.__getattribute__ if own else Shown.__getattribute__)(self, name)

    def __len__(self) -> int:
        return len(object_of(self))

    def __iter__(self) -> Iterator[Any]:
        return (shown(node) for node in object_of(self))

    def some(self, which: Sequence[int]) -> "ShownNodes":
        """As of NodeSlice."""
        return ShownNodes(object_of(self).some(which), place_of(self))

    def values(self, find: Callable[..., T], *arguments: str) -> list[T]:
        """As of NodeSlice, but nothing is kept."""
        return [find(node, *arguments) for node in self]


class ShownCache(Shown):
    """A Cache. These methods leave it as it was, though they note something in it."""

    __slots__ = ()

    def __getattribute__(self, name: str) -> Any:
        own = name in ("matching", "remember", "without")
        return (object.__getattribute__ if own else Shown.__getattribute__)(self, name)

    def remember(self, key: Hashable, find: Callable[[], T], *, catches_up: bool = False) -> T:
        """As of Cache."""
        found: T = object_of(self).remember(key, find, catches_up=catches_up)
        return found

    def matching(self, namespace: str, selector: Matcher, domains: Domains | None = None) -> Any:
        """As of Cache."""
        return shown(object_of(self).matching(namespace, selector, domains), place_of(self))

    @contextmanager
    def without(self, pods: Iterable[Pod]) -> Iterator[None]:
        """As of Cache."""
        with object_of(self).without([*map(original, pods)]):
            yield


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
            NodeSlice: ShownNodes,
            dict: _dict,
            Mapping: ShownMapping,
            list: _list,
            set: lambda value, _: frozenset(value),
            tuple: lambda value, place: tuple([shown(each, place) for each in value]),
            MethodType: lambda value, place: MethodType(value.__func__, shown(value.__self__, place)),
        }
        how = next((makers[each] for each in makers if issubclass(kind, each)), None)
        if how is None and (_is_ours(kind) or issubclass(kind, msgspec.Struct)):
            how = Shown
        return partial(_placed, how, PLACES[kind]) if how and kind in PLACES else how


AS_THEY_ARE = (ReadOnly, ReadOnlyDict, ReadOnlyList, str, int, Enum, BaseException, type)

HOW = _How()


def _placed(how: How, place: Place, value: Any, _: Place) -> Any:
    return how(value, place)


def _dict(value: dict[Any, Any], place: Place) -> Any:
    if len(value) <= SMALL and type(value) is dict:
        for first in value.values():
            if HOW[type(first)]:
                return ShownMapping(value, place)
            break
        return copied(value, place)
    return ShownMapping(value, place)


def _list(value: list[Any], place: Place) -> ReadOnlyList[Any]:
    return listed([shown(each, place) for each in value], place)
