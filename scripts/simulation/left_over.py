"""What is in a poller's memory: all that can be reached from it is looked at, whichever map it is in."""

import re
from collections import deque
from collections.abc import Collection, Iterator, Mapping, Set
from typing import Any

UID = re.compile("[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}")


LIMITED = re.compile(r"[.](journal|kept|_kept|_results|_disruptions_left)\b")
"""Memory that has its own limit, and outlives what it is about."""


def uids_in(root: object, unread: Collection[str] = ()) -> Iterator[tuple[str, str]]:
    """Each uid that can be reached, and by which attributes. unread: attributes that are left out."""
    seen, due = {id(root)}, deque([(root, type(root).__name__)])
    while due:
        thing, place = due.popleft()
        if LIMITED.search(place):
            continue
        for name, part in _parts(thing):
            if name[1:] in unread:
                continue
            if isinstance(part, str):
                if UID.fullmatch(part):
                    yield part, f"{place}{name}"
            elif id(part) not in seen:
                seen.add(id(part))
                due.append((part, place + name))


def _parts(thing: object) -> Iterator[tuple[str, Any]]:
    if isinstance(thing, Mapping):
        for key, value in [*thing.items()]:
            yield "[...]", key
            yield "[...]", value
    elif isinstance(thing, tuple | list | deque | Set):
        for each in [*thing]:
            yield "[...]", each
    elif type(thing).__module__.startswith("lib.") and not isinstance(thing, type):
        names = {*getattr(thing, "__dict__", ())}
        for kind in type(thing).__mro__:
            slots = getattr(kind, "__slots__", ())
            names |= {slots} if isinstance(slots, str) else {*slots}
        for name in sorted(names - {"__weakref__", "__dict__"}):
            if hasattr(type(thing), name) and isinstance(getattr(type(thing), name), property):
                continue
            try:
                yield f".{name}", getattr(thing, name)
            except AttributeError:
                continue
