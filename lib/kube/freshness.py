"""Finds lists that are older than what was seen before: of several API servers one may lag behind."""

import logging
import re

from lib.kube.errors import StaleListError
from lib.kube.system import System

log = logging.getLogger(__name__)

LONGEST_LAG = 30.0
"""Seconds for which older lists are refused. Then they are taken: a cluster that was restored from a backup
begins to count its versions at an earlier one."""


class Freshness:
    """The newest resource version that was seen of each resource.

    Versions of one resource can be compared as numbers.
    Source: https://kubernetes.io/docs/reference/using-api/api-concepts/#resource-versions
    """

    def __init__(self, system: System) -> None:
        self._system = system
        self._newest: dict[str, int] = {}
        self._refused_since: dict[str, float] = {}

    def note(self, path: str, version: str) -> None:
        """A watch has come to this version."""
        if version.isdecimal():
            resource = _resource(path)
            self._newest[resource] = max(int(version), self._newest.get(resource, 0))

    def newest(self, path: str) -> int:
        """The newest version that was seen by now: a list that is requested now must not be older."""
        return self._newest.get(_resource(path), 0)

    def check(self, path: str, version: str, seen: int) -> None:
        """StaleListError if a list of this version is older than what was seen before it was requested.

        seen: what `newest` was then. Of lists that are read at once, a later answer may well be older.
        """
        if not version.isdecimal():
            return
        resource = _resource(path)
        newest, now = self._newest.get(resource, 0), self._system.monotonic()
        if int(version) < min(seen, newest):  # `newest` is less after an older list was taken
            why = (
                f"GET {path}: the list has resource version {version}, but {seen} was seen before:"
                " the API server that answered lags behind"
            )
            if now - self._refused_since.setdefault(resource, now) < LONGEST_LAG:
                raise StaleListError(why)
            log.warning("%s, or its cluster was restored. After %.0f s it is used", why, LONGEST_LAG)
            newest = 0
        self._newest[resource] = max(int(version), newest)
        self._refused_since.pop(resource, None)


_NAMESPACE = re.compile("/namespaces/[^/]+(?=/)")


def _resource(path: str) -> str:
    """A list's path without the namespace: `/api/v1/pods`."""
    return _NAMESPACE.sub("", path)
