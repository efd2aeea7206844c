"""Policies that are classes: their methods get poller's own objects, but can't change them."""

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from enum import Enum
from functools import partial
from types import MethodType
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
    def method(self: Any, *given: Any) -> Any:
        run = getattr(super(made, self), name)
        return _answer(run(*[each if type(each) is dict else shown(each, "the nodes") for each in given]))

    return method


def _answer(answer: Any) -> Any:
    """What a method returns, with poller's own objects."""
    if isinstance(answer, PostFilterResult):
        return replace(answer, victims=tuple(map(original, answer.victims)))
    if isinstance(answer, Status) and answer.writes:
        return replace(answer, writes=tuple(map(original, answer.writes)))
    return answer


class Shown(ReadOnly):
    """An object of poller's with all its attributes. Its methods run, too, until they change something."""

    __slots__ = ()

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        """The class of what is shown, so that `isinstance` works."""
        return type(object_of(self))

    def __getattr__(self, name: str) -> Any:
        value = getattr(object_of(self), name)
        how = _how(type(value))
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
        return iter(object_of(self))

    def __len__(self) -> int:
        return len(object_of(self))

    def __repr__(self) -> str:
        return repr(object_of(self))

    __setitem__ = __delitem__ = clear = pop = popitem = setdefault = update = refused


def shown(value: Any, place: Place = "") -> Any:
    """What a policy's class gets in place of a value of poller's."""
    how = _how(type(value))
    return how(value, place) if how else value


How = Callable[[Any, Place], Any]


_known: dict[type, How | None] = {}


def _how(kind: type) -> How | None:
    """How values of a type are shown; None if they are shown as they are."""
    if kind not in _known:
        _known[kind] = _find_out_how(kind)
    return _known[kind]


def _find_out_how(kind: type) -> How | None:
    if issubclass(kind, ReadOnly | ReadOnlyDict | ReadOnlyList | str | int | Enum | BaseException | type):
        return None
    found: dict[type, How] = {
        MethodType: _method,
        Cache: partial(_whole, ShownCache),
        NodeSlice: partial(_whole, ShownNodes),
        dict: _dict,
        Mapping: ShownMapping,
        list: _list,
        set: lambda value, _: frozenset(value),
        tuple: lambda value, place: tuple([shown(each, place) for each in value]),
    }
    how = next((found[each] for each in found if issubclass(kind, each)), None)
    if how is None and (_is_ours(kind) or issubclass(kind, msgspec.Struct)):
        return partial(_whole, Shown)
    return how


def _whole(made: type[Shown], value: Any, place: Place) -> Shown:
    return made(value, PLACES.get(type(value), place))


def _dict(value: dict[Any, Any], place: Place) -> Any:
    first = next(iter(value.values()), "")
    if type(value) is dict and len(value) <= SMALL and not _how(type(first)):
        return copied(value, place)
    return ShownMapping(value, place)


def _list(value: list[Any], place: Place) -> ReadOnlyList[Any]:
    return listed([shown(each, place) for each in value], place)


def _method(value: Any, place: Place) -> Any:
    """A method that runs with the shown object, so it can't change the object either."""
    return MethodType(value.__func__, shown(value.__self__, place))
