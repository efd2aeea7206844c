"""Watches a resource: in all namespaces if that is allowed, else in those that are served."""

from collections.abc import Sequence
from queue import Queue
from typing import Any

from lib.kube.api import Api
from lib.kube.changes import Change
from lib.kube.reading import Reading
from lib.kube.reflector import Reflector, WatchLine
from lib.kube.resources import Resource
from lib.kube.store import Stores, one_store


class Watched(Reading):
    """A resource that is watched.

    lines: the queue of watch lines. stores: where its objects are kept; see `Reflector`. reflectors: that of
    all namespaces, or one for each namespace that is served.
    """

    def __init__(
        self,
        api: Api,
        resource: Resource,
        served: Sequence[str],
        lines: "Queue[WatchLine]",
        stores: Stores[Any] | None = None,
        **selectors: str,
    ) -> None:
        super().__init__(api, resource, served, **selectors)
        self._lines, self.stores = lines, stores or one_store()
        self.reflectors: list[Reflector[Any]] = []
        self._begin()

    def _begin(self) -> None:
        """Watch where that is allowed now. What is known stays known: lists find what has changed since."""
        self.close()
        self.reflectors = [
            Reflector(self.api, self.resource, path, self.stores, self._lines, **self.selectors)
            for path in self.paths()
        ]

    def close(self) -> None:
        """Stop watching."""
        for reflector in self.reflectors:
            reflector.close()

    def widen(self) -> None:
        """Watch all namespaces again, if it is time to try that."""
        if not self.is_everywhere and not self.is_done_without():
            self._begin()

    def narrow(self) -> Sequence[Change[Any]]:
        """Watch only the served namespaces; returns the changes: the objects of the others are gone."""
        self._begin()
        return [change for store, _ in self.stores for change in store.keep(self.served)]

    def note_open(self) -> None:
        """Note that the watch of all namespaces is open, if it is."""
        if self.is_everywhere and self.reflectors[0].pause is None:
            self.was_read()
