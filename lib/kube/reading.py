"""How a resource is read: in all namespaces if that is allowed, else in those that are served."""

import logging
from collections.abc import Callable, Sequence
from math import inf
from typing import Any, TypeVar

from lib.kube.api import Api
from lib.kube.decoding import Listing
from lib.kube.errors import ForbiddenError
from lib.kube.pager import ListPager, read_at_once, together
from lib.kube.paths import paths_of
from lib.kube.resources import Resource
from lib.kube.system import System

log = logging.getLogger(__name__)

T = TypeVar("T")

LONGEST_REFUSAL = 30.0
"""Seconds until a right counts as lost: a role's binding may be deleted and made again."""

ASK_AGAIN = 300.0
"""Seconds until what may not be read is tried again: the right may have been granted meanwhile."""


class Permission:
    """What is known of the right to read a path.

    What was never allowed is done without at once. What was allowed is in use: without it, the pods of other
    namespaces would lose their room. So its refusal is an error until it has lasted for a while.

    without: what is logged when poller begins to do without it; "" if it can't.
    """

    def __init__(self, path: str, system: System, without: str) -> None:
        self._path, self._now, self._without = path, system.monotonic, without
        self._was_read = self._is_missing = False
        self._refused_since, self._refused_at = inf, -inf

    def is_done_without(self) -> bool:
        """Whether to do without the path now; from time to time it is to be tried again."""
        return self._is_missing and self._now() < self._refused_at + ASK_AGAIN

    def read(self, look: Callable[[], T | None]) -> T | None:
        """What is there now; None if it is done without. ForbiddenError as `do_without`."""
        if self.is_done_without():
            return None
        try:
            found = look()
        except ForbiddenError as error:
            self.do_without(error)
            return None
        if found is not None:
            self.was_read()
        return found

    def was_read(self) -> None:
        """Note that the path may be read."""
        if self._is_missing:
            log.info("GET %s: allowed again", self._path)
        self._was_read, self._is_missing = True, False
        self._refused_since, self._refused_at = inf, -inf

    def do_without(self, error: ForbiddenError) -> None:
        """Go on without what may not be read, and log that once.

        Raises the error if it is indispensable, or if the right may be back in a moment.
        """
        if not self.may_do_without(error):
            raise error

    def may_do_without(self, error: ForbiddenError) -> bool:
        """Like `do_without`, but False where that raises: an error that is kept must not be raised again."""
        if not self._without or self.is_done_without():
            return False
        now = self._now()
        if now > self._refused_at + ASK_AGAIN:
            self._refused_since = now
        self._refused_at = now
        if self._was_read and now < self._refused_since + LONGEST_REFUSAL:
            return False
        if not self._is_missing:
            lost = f", as this has been refused for {LONGEST_REFUSAL:.0f} s" if self._was_read else ""
            log.warning("%s%s: %s", self._without, lost, error)
        self._was_read, self._is_missing, self._refused_since = False, True, inf
        return True


class Reading(Permission):
    """How a resource is read, and the right to read it in all namespaces.

    served: the namespaces that are served; empty for all. selectors: of the objects that are read.
    is_everywhere: whether it is read in all namespaces now.
    """

    def __init__(self, api: Api, resource: Resource, served: Sequence[str] = (), **selectors: str) -> None:
        super().__init__(resource.path, api.system, resource.elsewhere if served else "")
        self.api, self.resource, self.served, self.selectors = api, resource, served, selectors
        self.is_everywhere = True

    def paths(self) -> list[str]:
        """The paths that list it from now on: that of all namespaces, or those of the served ones."""
        self.is_everywhere = not self.is_done_without()
        return paths_of(self.resource, () if self.is_everywhere else self.served)

    def pagers(self) -> Sequence[ListPager[Any]]:
        """Its lists, not yet read: read them, and call `together`."""
        return [self.api.pager(path, self.resource.kind, **self.selectors) for path in self.paths()]

    def together(self, pagers: Sequence[ListPager[Any]]) -> Listing[Any]:
        """Its lists in one; those of the served namespaces if the others may not be listed."""
        try:
            found = together(pagers)
        except ForbiddenError as error:
            self.do_without(error)
            return self.list()
        if self.is_everywhere:
            self.was_read()
        return found

    def list(self) -> Listing[Any]:
        """All of its objects that may be read."""
        pagers = self.pagers()
        read_at_once(pagers)
        return self.together(pagers)
