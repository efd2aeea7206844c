"""Watches services, from the first time that they are needed."""

import logging
from collections.abc import Iterable, Sequence
from functools import partial
from queue import Queue

from lib.kube.api import Api
from lib.kube.decoding import Listing
from lib.kube.errors import ApiError
from lib.kube.listers import list_services
from lib.kube.lookup import Lookup, PendingError
from lib.kube.objects import Service
from lib.kube.paths import paths_of
from lib.kube.reflector import Reflector, WatchLine
from lib.kube.resources import SERVICES
from lib.kube.store import one_store

log = logging.getLogger(__name__)

WATCH_PAUSE = 5.0
"""Seconds until a failed watch of services is tried again: the right may be granted meanwhile."""


class WatchedServices(Lookup[str, Listing[Service]]):
    """The services of namespaces, as a watch saw them last; listed if they can't be watched.

    lines: the informer's queue of watch lines. reflectors: by namespace; that of "" is for all namespaces.
    """

    def __init__(self, api: Api, served: Sequence[str], lines: "Queue[WatchLine]") -> None:
        api, system = api.with_short_timeouts(), api.system
        super().__init__("services", partial(list_services, api), system=system)
        paths = dict(zip(served or [""], paths_of(SERVICES, served), strict=True))
        self.reflectors = {
            namespace: Reflector(api, SERVICES, path, one_store(), lines) for namespace, path in paths.items()
        }
        self._opening = Lookup[Reflector[Service], None](
            "watches of services", lambda reflector: reflector.resume(reflector.list), system=system
        )
        self._wanted: list[str] = []
        self._seen: dict[str, Listing[Service]] = {}
        self._why_listed = ""

    def begin(self, keys: Iterable[str]) -> None:
        """Open the watches that are due."""
        self._wanted = [*keys]
        needed = dict.fromkeys(map(self._reflector_of, self._wanted))
        self._opening.begin(reflector for reflector in needed if reflector.pause == 0)

    def wait(self, until: float) -> None:
        """Take what the open watches have seen; list the services that can't be watched."""
        self._opening.wait(until)
        for reflector in self.reflectors.values():
            error = self._opening.of(reflector)
            if isinstance(error, ApiError) and not isinstance(error, PendingError):
                reflector.retry_in(WATCH_PAUSE)
                if str(error) != self._why_listed:
                    self._why_listed = str(error)
                    what = "services can't be watched, so they are listed when they are needed: %s"
                    log.warning(what, error)
        super().begin(namespace for namespace in self._wanted if self._reflector_of(namespace).pause)
        super().wait(until)
        self._take_seen()

    def _take_seen(self) -> None:
        reflectors = {namespace: self._reflector_of(namespace) for namespace in self._wanted}
        self._seen = {
            namespace: Listing(malformed=reflector.unreadable)
            for namespace, reflector in reflectors.items()
            if reflector.pause is None  # its watch is open: no other thread changes its store
        }
        for reflector in dict.fromkeys(map(reflectors.__getitem__, self._seen)):
            ((store, _),) = reflector.stores
            for service in store:
                if listing := self._seen.get(service.metadata.namespace):
                    listing.items.append(service)

    def of(self, key: str) -> Listing[Service] | ApiError:
        """The services of a namespace, or why they aren't known."""
        return self._seen[key] if key in self._seen else super().of(key)

    def _reflector_of(self, namespace: str) -> Reflector[Service]:
        return self.reflectors[namespace if namespace in self.reflectors else ""]
