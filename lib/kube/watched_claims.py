"""Watches claims and what they depend on, while unassigned pods need them: volumes, or devices."""

from collections.abc import Iterable, Sequence
from queue import Queue
from typing import Any

from lib.kube.api import Api
from lib.kube.changes import AnyChange, Kind, unassigned_pod
from lib.kube.claims import Claims
from lib.kube.errors import ApiError, ForbiddenError
from lib.kube.lookup import Lookup, PendingError
from lib.kube.reflector import Reflector, WatchLine
from lib.kube.resources import Need, Resource
from lib.kube.store import Store

FAILED_PAUSE = 1.0
"""Seconds until a failed watch is tried again: the right may be granted meanwhile."""

LINGER = 60.0
"""Seconds for which the watches stay open after the last need: where such pods come and go, the next one
needs no lists."""


class WatchedClaims(Claims):
    """The reflectors of all of it.

    lines: the informer's queue of watch lines.
    """

    def __init__(
        self,
        api: Api,
        namespaces: Sequence[str],
        need: Need,
        lines: "Queue[WatchLine]",
    ) -> None:
        super().__init__(api, namespaces, need)
        self._lines = lines
        self._opening = Lookup[Reflector[Any], None](
            f"watches of {need.claimed}", Reflector.open_beside, patient=True, system=api.system
        )
        self._failed: dict[str, ApiError] = {}  # by path
        self._needed_by: set[str] = set()  # uids of pods
        self._is_open = False  # they are needed, or were so a short while ago
        self._last_needed = 0.0
        self._claims: list[Reflector[Any]] = []  # until a pod needs them
        self._watched_others: list[Reflector[Any]] = []

    def _reflector(self, resource: Resource, path: str) -> Reflector[Any]:
        return Reflector(self._api, path, resource.kind, Store[Any](), self._lines)

    @property
    def reflectors(self) -> Sequence[Reflector[Any]]:
        """The reflectors whose watches matter now."""
        return [*self._claims, *self._watched_others] if self._is_open else ()

    @property
    def to_open(self) -> Sequence[Reflector[Any]]:
        """The reflectors whose watches `open_due_watches` opens when they are due."""
        return () if self.is_opening else self.reflectors

    @property
    def is_pending(self) -> bool:
        """Whether a part of what is needed isn't known yet, though no error is known either."""
        return self.is_opening or self._is_unknown(self.reflectors)

    @property
    def is_known(self) -> bool:
        """Whether all of it was read, and a watch tells of changes."""
        reflectors = self.reflectors
        return bool(reflectors) and all(each.is_listed for each in reflectors)

    @property
    def is_due(self) -> bool:
        """Whether `open_due_watches` finds out more at once."""
        return self._is_unknown(each for each in self.to_open if each.pause == 0)

    def _is_unknown(self, reflectors: Iterable[Reflector[Any]]) -> bool:
        return any(not each.is_listed and each.path not in self._failed for each in reflectors)

    def note_needs(self, changes: Iterable[AnyChange]) -> None:
        """Note which pods need them."""
        for change in changes:
            if pod := unassigned_pod(change):
                needed = change.kind != Kind.DELETED and self.need.of(pod)
                (self._needed_by.add if needed else self._needed_by.discard)(pod.metadata.uid)
        self._is_open |= bool(self._needed_by)
        if self._is_open and not self._claims:
            self._claims = [self._reflector(self._of_claims, self._of_claims.path)]
            self._watched_others = [self._reflector(each, each.path) for each in self._others]

    @property
    def is_opening(self) -> bool:
        """Whether a thread opens watches. Call `open_due_watches` again when it has ended."""
        return self._opening.is_under_way

    def open_due_watches(self, patience: float) -> None:
        """Open the watches that are due. If no pod has needed them for a while, close all.

        A thread opens them; patience: the seconds to wait for it.
        """
        now = self._api.system.monotonic()
        if self._needed_by:
            self._last_needed = now
        elif now >= self._last_needed + LINGER:
            self._is_open = False
        if not self._is_open:
            self._opening.wait(0)
            if not self.is_opening:
                for each in (*self._claims, *self._watched_others):
                    each.close()
            return
        until = now + patience
        everywhere = self._of_claims.path
        if self._claims[0].path != everywhere and everywhere not in self._narrowing and not self.is_opening:
            self._read_claims_at([everywhere])  # perhaps that is allowed by now
        self._open(until)
        refused = self._failed.get(everywhere)
        if isinstance(refused, ForbiddenError) and self._narrowing.may_do_without(
            everywhere, refused, self._unseen_elsewhere
        ):
            gone = (*self._claims[0].keep(self._narrowing.served),)
            self._lines.put((self._claims[0], None, gone))  # what was listed comes before
            self._read_claims_at(self._narrowing.paths(self._of_claims))
            self._open(until)
        failed = [self._failed[each.path] for each in self.reflectors if each.path in self._failed]
        self._note_errors("; ".join(map(str, failed)))

    def _read_claims_at(self, paths: Iterable[str]) -> None:
        """Read claims at other paths from now on."""
        before, self._claims = self._claims, [self._reflector(self._of_claims, path) for path in paths]
        for each in self._claims:
            each.take_over(before)
        for each in before:
            each.close()
            self._failed.pop(each.path, None)

    def _open(self, until: float) -> None:
        """Open watches; note why some can't be opened, as far as that is known now."""
        self._opening.begin(each for each in self.reflectors if each.pause == 0 and not each.trouble)
        self._opening.wait(until)
        for each in self.reflectors:
            error, each.trouble = each.trouble or self._opening.of(each), None
            if each.pause is None or not error:  # open, though its answer may be lost with another's error
                self._failed.pop(each.path, None)
                self._narrowing.was_read(each.path)
            elif not isinstance(error, PendingError):  # only the pods that need it have to wait
                each.retry_in(FAILED_PAUSE)
                self._failed[each.path] = error
