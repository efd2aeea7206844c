"""Claims, volumes and what they depend on, watched for as long as a pod that has no node yet needs them."""

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
"""Seconds until what can't be watched is tried again: the right to do so may be granted at any time."""

GoOn = Callable[[Iterable[Reflector[Any]]], None]
Tell = Callable[[Iterable[AnyChange]], object]


class WatchedStorage:
    """The reflectors of all of it. unseen: why it can't be seen, if it can't.

    lines: the queue of the informer, which gives the watch's lines to their reflector.
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
        """Those whose changes matter now."""
        return [*self._claims, *self._others] if self._needed_by else ()

    def note_needs(self, changes: Iterable[AnyChange]) -> None:
        """Note which pods need it; if none does any more, the watches are closed."""
        before = self.reflectors
        for change in changes:
            if pod := unassigned_pod(change):
                needed = change.kind != Kind.DELETED and needs_storage(pod)
                (self._needed_by.add if needed else self._needed_by.discard)(pod.metadata.uid)
        if not self._needed_by:
            for each in before:
                each.close()

    def go_on(self, open_watches: GoOn, tell: Tell) -> None:
        """Have the watches opened that are to be. tell: is told of claims that can be seen no longer.

        It is told before others are listed: a claim that is seen again there must be told of last.
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
        """Have watches opened; why some can't be, as far as it is known now."""
        for each in reflectors:
            try:
                open_watches([each])
            except UnreachableError:
                raise
            except ApiError as error:  # it concerns the pods with volumes: the others go on
                each.retry_in(FAILED_PAUSE)
                self._failed[each.path] = error
            else:
                if each.pause is None:
                    self._failed.pop(each.path, None)
        return [self._failed[each.path] for each in reflectors if each.path in self._failed]
