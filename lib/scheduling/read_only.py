"""What policies read and can't change: an attempt is a ReadOnlyError, which names what was to be changed.

An object is shown by a `ReadOnly`, which has no attribute that leads to the object itself. Dicts and lists
are copied: even `dict.pop(node.labels, "rack")` changes the copy only.
"""

from collections.abc import Callable, Mapping
from typing import Any, NoReturn, TypeVar

K = TypeVar("K")
V = TypeVar("V")

Place = str | tuple["Place", str]
"""What is shown: "a node", or the place of the object around it and the attribute's name."""


class ReadOnlyError(TypeError):
    """A policy tried to change what it may only read. The text names it."""


def refuse(place: Place) -> NoReturn:
    """Raise ReadOnlyError, such as `a policy can't change a node: spec.taints`."""
    names: list[str] = []
    while isinstance(place, tuple):
        place, name = place
        names.insert(0, name)
    raise ReadOnlyError(f"a policy can't change {': '.join([place, '.'.join(names)] if names else [place])}")


def refused(self: Any, *_: object, **__: object) -> NoReturn:
    """A method that would change something."""
    refuse(place_of(self) if isinstance(self, ReadOnly) else self.place)


class ReadOnlyDict(dict[K, V]):
    """A copy of a dict that can't be changed. `dict(...)`, `copy()` and the copy module make one that can."""

    __slots__ = ("place",)
    place: Place

    __setitem__ = __delitem__ = __ior__ = refused
    clear = pop = popitem = setdefault = update = refused

    def __reduce__(self) -> tuple[Any, ...]:
        return dict, (dict(self),)


class ReadOnlyList(list[V]):
    """A copy of a list that can't be changed. `[*...]`, `copy()` and the copy module make one that can."""

    __slots__ = ("place",)
    place: Place

    __setitem__ = __delitem__ = __iadd__ = __imul__ = refused
    append = clear = extend = insert = pop = remove = reverse = sort = refused

    def __reduce__(self) -> tuple[Any, ...]:
        return list, (list(self),)


class ReadOnly:
    """An object as policies see it. `original` and `place_of` return what it was made of."""

    __slots__ = ("_object", "_place")

    def __init__(self, shown: Any, place: Place) -> None:
        set_object(self, shown)
        set_place(self, place)

    def __setattr__(self, name: str, _: object) -> NoReturn:
        refuse((place_of(self), name))

    def __delattr__(self, name: str) -> NoReturn:
        refuse((place_of(self), name))

    def __eq__(self, other: object) -> bool:
        mine, its = object_of(self), original(other)
        return type(mine) is type(its) and bool(mine == its)

    def __hash__(self) -> int:
        shown = object_of(self)
        try:
            return hash(shown)
        except TypeError:  # most objects of the API are compared by their fields, and have no hash
            return hash(type(shown))

    def __copy__(self) -> "ReadOnly":
        return self

    def __deepcopy__(self, _: object) -> "ReadOnly":
        return self


def hidden(kind: type, slot: str) -> tuple[Callable[[Any], Any], Callable[[Any, Any], None]]:
    """Functions that get and set an attribute. Only they reach it: the class loses it."""
    attribute = vars(kind)[slot]
    delattr(kind, slot)
    return attribute.__get__, attribute.__set__


object_of, set_object = hidden(ReadOnly, "_object")
place_of, set_place = hidden(ReadOnly, "_place")


def original(value: Any) -> Any:
    """What is shown; any other value as it is."""
    return object_of(value) if issubclass(type(value), ReadOnly) else value


def copied(value: Mapping[K, V], place: Place) -> ReadOnlyDict[K, V]:
    """A dict that a policy can't change."""
    shown = ReadOnlyDict(value)
    shown.place = place
    return shown


def listed(values: list[V], place: Place) -> ReadOnlyList[V]:
    """A list that a policy can't change."""
    shown = ReadOnlyList(values)
    shown.place = place
    return shown
