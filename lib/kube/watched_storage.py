"""Watches claims, volumes and what they depend on, as long as an unassigned pod needs them."""

import logging
from collections.abc import Callable, Iterable, Sequence
from queue import SimpleQueue
from typing import Any

from lib.kube.api import Api
from lib.kube.changes import AnyChange, Kind, unassigned_pod
from lib.kube.errors import ApiError, ForbiddenError, UnreachableError
from lib.kube.paths import CLAIMS, STORAGE, paths_of
from lib.kube.polled_storage import OTHER_CLAIMS_UNSEEN, unseen
from lib.kube.reflector import Reflector, WatchLine
from lib.kube.storage import PersistentVolumeClaim, needs_storage
from lib.kube.store import Store

log = logging.getLogger(__name__)

FAILED_PAUSE = 1.0
"""Seconds until a failed watch is tried again: the right may be granted meanwhile."""

GoOn = Callable[[Iterable[Reflector[Any]]], None]
Tell = Callable[[Iterable[AnyChange]], object]


class WatchedStorage:
    """The reflectors of all of it. unseen: why it can't be watched; "" if it can.

    lines: the informer's queue of watch lines.
    """

    def __init__(self, api: Api, namespaces: Sequence[str], lines: "SimpleQueue[WatchLine]") -> None:
        self.unseen = ""
        self._api = api.hurried()
        self._namespaces = namespaces
        self._lines = lines
        self._failed: dict[str, ApiError] = {}  # by path
        self._needed_by: set[str] = set()  # uids of pods
        self._claims = [self._reflector(CLAIMS, PersistentVolumeClaim)]
        self._others = [self._reflector(path, kind) for path, kind in STORAGE.items()]

    def _reflector(self, path: str, kind: type[Any]) -> Reflector[Any]:
        return Reflector(self._api, path, kind, [(Store[Any](), lambda _: True)], self._lines)

    @property
    def reflectors(self) -> Sequence[Reflector[Any]]:
        """The reflectors whose changes matter now."""
        return [*self._claims, *self._others] if self._needed_by else ()

    def note_needs(self, changes: Iterable[AnyChange]) -> None:
        """Note which pods need volumes. If none does any more, close the watches."""
        before = self.reflectors
        for change in changes:
            if pod := unassigned_pod(change):
                needed = change.kind != Kind.DELETED and needs_storage(pod)
                (self._needed_by.add if needed else self._needed_by.discard)(pod.metadata.uid)
        if not self._needed_by:
            for each in before:
                each.close()

    def go_on(self, open_watches: GoOn, tell: Tell) -> None:
        """Open the watches that are due. tell: called with the deletions of claims that can't be seen now.

        It is called before other lists are made: if such a claim is listed again, that change must come last.
        """
        if not self._needed_by:
            return
        errors = self._open(self._claims, open_watches)
        may_not = any(isinstance(error, ForbiddenError) for error in errors)
        if may_not and self._namespaces and self._claims[0].path == CLAIMS:
            log.warning(OTHER_CLAIMS_UNSEEN, errors[0])
            tell(self._claims[0].forget())
            paths = paths_of("persistentvolumeclaims", self._namespaces)
            self._claims = [self._reflector(path, PersistentVolumeClaim) for path in paths]
            errors = self._open(self._claims, open_watches)
        errors += self._open(self._others, open_watches)
        self.unseen = unseen(errors)

    def _open(self, reflectors: Sequence[Reflector[Any]], open_watches: GoOn) -> list[ApiError]:
        """Open watches; returns why some can't be opened, as far as that is known now."""
        for each in reflectors:
            try:
                open_watches([each])
            except UnreachableError:
                raise
            except ApiError as error:  # only the pods with volumes have to wait
                each.retry_in(FAILED_PAUSE)
                self._failed[each.path] = error
            else:
                if each.pause is None:
                    self._failed.pop(each.path, None)
        return [self._failed[each.path] for each in reflectors if each.path in self._failed]
