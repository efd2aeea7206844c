"""The pods of a phase by a key, such as when their backoff ends: the smallest first, without a walk over all.

Counterpart in kube-scheduler: pkg/scheduler/backend/heap/heap.go
"""

from collections.abc import Iterable
from heapq import heapify, heappop, heappush
from itertools import count
from math import inf
from typing import Any

from lib.scheduling.pod_life import PodLife

Entry = list[Any]
"""A key, a number that no other entry has, and the pod's record; None in its place if that has left."""

FEW = 64
"""So many empty entries are never worth a walk over all."""


class PodHeap:
    """Records by a key. Of equal keys, the one that was added first is the first.

    A record is in one heap at a time, until it goes to another phase (`PodLives.move`). Its entry stays
    behind then, empty.
    """

    def __init__(self) -> None:
        self._entries: list[Entry] = []
        self._numbers = count()
        self._most = FEW
        """With more entries than this, the empty ones are dropped."""

    def add(self, new: Iterable[tuple[Any, PodLife]]) -> None:
        """Add records, each with its key; or give them another key. TypeError if keys can't be compared."""
        for key, life in new:
            if life.entry is not None:
                life.entry[-1] = None
            life.entry = [key, next(self._numbers), life]
            heappush(self._entries, life.entry)
        if len(self._entries) > self._most:
            self._entries = [entry for entry in self._entries if entry[-1] is not None]
            heapify(self._entries)
            self._most = 2 * len(self._entries) + FEW

    def first(self) -> Any:
        """The smallest key; None if there is none."""
        while self._entries and self._entries[0][-1] is None:
            heappop(self._entries)
        return self._entries[0][0] if self._entries else None

    def pop(self, until: float = inf, most: float = inf) -> list[PodLife]:
        """Remove the records with the smallest keys, at most so many.

        until: only records whose key isn't later; the first part of a key is a time then.
        """
        popped: list[PodLife] = []
        entries = self._entries
        while entries and len(popped) < most and (entries[0][-1] is None or entries[0][0][0] <= until):
            life: PodLife | None = heappop(entries)[-1]
            if life:
                life.entry = None
                popped.append(life)
        return popped

    def smallest(self, most: float = inf) -> list[PodLife]:
        """The records with the smallest keys, at most so many, in order. They stay."""
        if most >= len(self._entries):
            self._entries = sorted(
                entry for entry in self._entries if entry[-1] is not None
            )  # it is a heap then, too
            return [life for *_, life in self._entries]
        smallest: list[Entry] = []
        while len(smallest) < most and self.first() is not None:
            smallest.append(heappop(self._entries))
        for entry in smallest:
            heappush(self._entries, entry)
        return [life for *_, life in smallest]
