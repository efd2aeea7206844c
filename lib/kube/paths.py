"""The paths of API requests.

A name from an object is checked before it becomes part of a path: the owner that a pod names may be any
text, and `../../secrets/x` would lead elsewhere.
"""

import logging
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import inf

from lib.kube.errors import ForbiddenError, InvalidNameError
from lib.kube.objects import MAX_NAME
from lib.kube.resources import Resource
from lib.kube.system import System

log = logging.getLogger(__name__)

LONGEST_REFUSAL = 30.0
"""Seconds until a right counts as lost: a role's binding may be deleted and made again."""

ASK_AGAIN = 300.0
"""Seconds until what may not be read is tried again: the right may have been granted meanwhile."""


def paths_of(resource: Resource, namespaces: Iterable[str]) -> list[str]:
    """The paths that list a resource in some namespaces; empty for all namespaces."""
    return [path_of(resource.plural, name, api=resource.api) for name in namespaces] or [resource.path]


def path_of(resource: str, namespace: str, name: str = "", *, api: str = "/api/v1") -> str:
    """The path of a namespace's objects of one resource, or of the object with this name.

    InvalidNameError for invalid names.
    """
    path = f"{api}/namespaces/{segment(namespace)}/{resource}"
    return f"{path}/{segment(name)}" if name else path


def is_listed_at(path: str, namespace: str) -> bool:
    """Whether a list's path, of one namespace or of all, has the objects of this namespace."""
    return "/namespaces/" not in path or f"/namespaces/{namespace}/" in path


def segment(name: str) -> str:
    """The name, if it can be one segment of a path; else InvalidNameError.

    Source: k8s.io/apimachinery, pkg/api/validation/path/name.go, IsValidPathSegmentName
    """
    if name in ("", ".", "..") or "/" in name or "%" in name:
        raise InvalidNameError(name)
    if len(name) > MAX_NAME or not name.isprintable():
        raise InvalidNameError(name)
    return name


@dataclass
class _Right:
    """What is known of the right to read a path. is_missing: poller goes on without it."""

    was_read: bool = False
    is_missing: bool = False
    refused_since: float = inf
    refused_at: float = -inf


class Narrowing:
    """What may be read only in the namespaces that are served; empty if all namespaces are.

    What was never allowed is done without at once. If it was, others count on it: the pods of other
    namespaces would lose their room. So a refusal is an error until it has lasted for a while.
    """

    def __init__(self, served: Sequence[str], system: System) -> None:
        self.served = served
        self._now = system.monotonic
        self._rights = defaultdict[str, _Right](_Right)

    def __contains__(self, path: str) -> bool:
        """Whether to do without a path; from time to time it is tried again."""
        right = self._rights[path]
        return right.is_missing and self._now() < right.refused_at + ASK_AGAIN

    def was_read(self, path: str) -> None:
        """Note that it may be read."""
        if self._rights[path].is_missing:
            log.info("GET %s: allowed again", path)
        self._rights[path] = _Right(was_read=True)

    def do_without(self, path: str, error: ForbiddenError, without: str) -> None:
        """Go on without what may not be read, and log that once.

        Raises the error if it is indispensable, or if the right may be back in a moment.
        """
        if not self.may_do_without(path, error, without):
            raise error

    def may_do_without(self, path: str, error: ForbiddenError, without: str) -> bool:
        """The same, but False when `do_without` raises the error: one that is kept is not raised again."""
        if not self.served or path in self:
            return False
        right, now = self._rights[path], self._now()
        if now > right.refused_at + ASK_AGAIN:
            right.refused_since = now
        right.refused_at = now
        if right.was_read and now < right.refused_since + LONGEST_REFUSAL:
            return False
        if not right.is_missing:
            lost = f", as this has been refused for {LONGEST_REFUSAL:.0f} s" if right.was_read else ""
            log.warning("%s%s: %s", without, lost, error)
        self._rights[path] = _Right(is_missing=True, refused_at=now)
        return True

    def paths(self, resource: Resource) -> list[str]:
        """The paths that list a resource: that of all namespaces, or those of the served ones."""
        return paths_of(resource, self.served if resource.path in self else ())
